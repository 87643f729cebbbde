//! INCA's Figure 1: the mean squared error of a mean of numbers between 0 and 1, by mechanism, in
//! closed form; as the paper has it, and by the exact Gaussian trade-off.
//!
//! The paper's noise has c² = 2 ln(1.25/δ) in place of the exact Δ²/(μ²), which asks for more
//! (INCA, section 4.3; Balle and Wang 2018). n parties, of whom n_H are honest; ε and δ are those
//! of one party's number (replaced by any other: Δ = 1).

use crate::losses::gaussian::{self, GaussianError};

/// A number of a figure: by the paper's formula, and exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Formula {
    /// By the formula that the paper prints.
    pub paper: f64,
    /// With the noise that (ε, δ) really asks for.
    pub exact: f64,
}

/// The setting of Figure 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure1 {
    /// n.
    pub parties: usize,
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

/// What the paper's caption says: n = 2^10, ε = 0.1, δ = 10⁻⁵.
pub const PRINTED: Figure1 = Figure1 {
    parties: 1024,
    epsilon: 0.1,
    delta: 1e-5,
};

/// What Appendix B prints for Muffliato's mean squared error.
pub const MUFFLIATO_PRINTED: f64 = 0.1764;

impl Figure1 {
    /// The variance of the noise that one number needs by itself: c²/ε² and 1/μ².
    fn alone(&self) -> Result<Formula, GaussianError> {
        let mu = gaussian::mu(self.epsilon, self.delta)?;
        Ok(Formula {
            paper: 2.0 * libm::log(1.25 / self.delta) / (self.epsilon * self.epsilon),
            exact: 1.0 / (mu * mu),
        })
    }

    fn over(&self, divisor: f64) -> Result<Formula, GaussianError> {
        let alone = self.alone()?;
        Ok(Formula {
            paper: alone.paper / divisor,
            exact: alone.exact / divisor,
        })
    }

    /// A server that everybody trusts: noise once, for the sum.
    pub fn central(&self) -> Result<Formula, GaussianError> {
        self.over((self.parties as f64).powi(2))
    }

    /// Noise of one's own, for one's own number.
    pub fn local(&self) -> Result<Formula, GaussianError> {
        self.over(self.parties as f64)
    }

    /// INCA without dropouts, and any other sum whose noise is that of the honest parties together:
    /// masks of pairs, secure aggregation with distributed noise, GOPA and CorDP-DME while nobody
    /// departs.
    pub fn correlated(&self, honest: usize) -> Result<Formula, GaussianError> {
        self.over(self.parties as f64 * honest as f64)
    }

    /// Muffliato on the hypercube, by equations 65 to 68 and T = ⌈ln n/√g⌉: the least mean squared
    /// error over how the privacy loss is split. `paper`: with g = 9/11, the second largest
    /// eigenvalue of the gossip matrix, as Appendix B has it; `exact`: with the spectral gap 2/11,
    /// which the method needs (ERRATA).
    pub fn muffliato(&self) -> Formula {
        let degree = libm::log2(self.parties as f64);
        let eigenvalue = (degree - 1.0) / (degree + 1.0);
        Formula {
            paper: self.muffliato_of(self.muffliato_rounds(eigenvalue)),
            exact: self.muffliato_of(self.muffliato_rounds(1.0 - eigenvalue)),
        }
    }

    /// T = ⌈ln n/√g⌉.
    fn muffliato_rounds(&self, gap: f64) -> f64 {
        (libm::log(self.parties as f64) / gap.sqrt()).ceil()
    }

    fn muffliato_of(&self, rounds: f64) -> f64 {
        let (parties, degree) = (self.parties as f64, libm::log2(self.parties as f64));
        let variance = |mean_loss: f64| {
            let alpha = libm::log(1.0 / self.delta) / (self.epsilon - mean_loss) + 1.0;
            alpha * degree * rounds / (2.0 * parties * mean_loss)
        };
        // One minimum between the poles at 0 and ε: thirds find it.
        let (mut low, mut high) = (0.0, self.epsilon);
        for _ in 0..200 {
            let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if variance(left) < variance(right) {
                high = right;
            } else {
                low = left;
            }
        }
        variance((low + high) / 2.0) / parties
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn muffliato_is_what_the_appendix_prints_and_twice_that_with_its_spectral_gap() {
        assert_eq!(PRINTED.muffliato_rounds(9.0 / 11.0), 8.0);
        assert_eq!(PRINTED.muffliato_rounds(2.0 / 11.0), 17.0);
        let found = PRINTED.muffliato();
        assert!((found.paper / MUFFLIATO_PRINTED - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.exact / 0.375 - 1.0).abs() < 2e-3, "{found:?}");
    }

    #[test]
    fn errors_lie_between_a_trusted_server_and_local_noise() {
        let (central, local) = (PRINTED.central().unwrap(), PRINTED.local().unwrap());
        let all = PRINTED.correlated(1024).unwrap();
        let few = PRINTED.correlated(307).unwrap();
        assert_eq!(all, central);
        assert!(central.exact < few.exact && few.exact < local.exact / 100.0);
        // The paper's factor asks for more noise than (ε, δ) does.
        assert!(central.paper > 1.5 * central.exact, "{central:?}");
    }
}
