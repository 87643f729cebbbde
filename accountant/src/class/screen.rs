//! Single share faults of one execution, for many coalitions at once. What this finds worst is
//! computed again by [`crate::losses::loss`].
//!
//! Let s be the row of the state that i splits in round t, k its fan-out. If its share to j is
//! returned in R, every later row y becomes y + α s, with α what a unit of mass that i gains at the
//! end of R contributes to y, less what one that j gains at the end of t does, over k + 1; accepted
//! late, j gains it in both; lost, nobody does. With PPSC s is ω, the share itself, in place of a
//! (k + 1)-th of the state. With g = (y · s) over the view's rows and γ = s · s in the noise's
//! metric, Σ′ = Σ + α gᵀ + g αᵀ + γ α αᵀ and H′ = H + α h_sᵀ. In the coordinates of Σ = L Lᵀ this
//! is a rank-two change of the identity, inverted by Woodbury's formula from dot products that are
//! shared by all faults.

use ndarray::Array2;
use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;
use crate::execution::rows::{At, DOUBT, Rows, dot, inverse_factor};
use crate::execution::share::{Fate, ShareFault};
use crate::execution::trace::Trace;
use crate::losses::loss::{Noise, largest, squared_losses};
use crate::losses::view::View;

/// The worst of a group of systems.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Worst {
    /// The squared loss, sensitivity included.
    pub(crate) square: f64,
    /// Whose loss that is.
    pub(crate) party: Party,
    /// The number of the system in its group.
    pub(crate) index: usize,
    /// The largest loss of the other systems.
    pub(crate) next: f64,
}

impl Worst {
    /// Adds one more system to those that were looked at.
    pub(crate) fn add(worst: &mut Option<Worst>, index: usize, square: f64, party: Party) {
        *worst = Some(match *worst {
            None => Worst {
                square,
                party,
                index,
                next: 0.0,
            },
            Some(before) if square > before.square => Worst {
                square,
                party,
                index,
                next: before.square,
            },
            Some(before) => Worst {
                next: before.next.max(square),
                ..before
            },
        });
    }
}

/// The fault-free run, prepared for every coalition and ratio.
pub(crate) struct Screen {
    /// All rows of the run.
    pub(crate) rows: Rows,
    receivers: Vec<Vec<Vec<Party>>>,
    /// PPSC: a share is all that its sender has.
    whole: bool,
    /// \[(party, round), row\]: what a unit of mass that `party` gains at the end of `round` (1…T)
    /// contributes to each row.
    gains: Array2<f64>,
    base: Execution,
}

impl Screen {
    /// From the trace of a fault-free execution that kept all states.
    pub(crate) fn of(trace: &Trace, base: &Execution) -> Self {
        let (parties, rounds) = (trace.parties(), trace.rounds());
        let rows = Rows::of(trace, base);
        let receivers = (0..parties)
            .map(|party| (1..=rounds as u32).map(|t| base.out(t, party).to_vec()).collect())
            .collect();
        let whole = base.mechanism().rules().hands_over();
        let mut screen = Screen {
            rows,
            receivers,
            whole,
            gains: Array2::zeros((0, 0)),
            base: base.clone(),
        };
        screen.gains = screen.propagate();
        screen
    }

    fn gain(&self, party: Party, round: u32) -> usize {
        party * self.rows.rounds() + round as usize - 1
    }

    fn propagate(&self) -> Array2<f64> {
        let (parties, rounds) = (self.rows.parties(), self.rows.rounds());
        let mut gains = Array2::zeros((parties * rounds, self.rows.values.nrows()));
        for party in 0..parties {
            for round in 1..=rounds {
                let mut mass = vec![0.0; parties];
                mass[party] = 1.0;
                for later in round..=rounds {
                    for (holder, &part) in mass.iter().enumerate() {
                        gains[[self.gain(party, round as u32), self.rows.row(holder, later)]] = part;
                    }
                    if later < rounds {
                        mass = self.spread(&mass, later);
                    }
                }
                // All finals are in the sum, and no mass is lost on the way.
                gains[[self.gain(party, round as u32), self.rows.sum()]] = 1.0;
            }
        }
        gains
    }

    /// One round of splitting: `round` from 0.
    fn spread(&self, mass: &[f64], round: usize) -> Vec<f64> {
        let mut next = vec![0.0; mass.len()];
        for (party, &mass) in mass.iter().enumerate().filter(|(_, mass)| **mass != 0.0) {
            let share = mass * self.part(party, round);
            let receivers = &self.receivers[party][round];
            if !self.whole || receivers.is_empty() {
                next[party] += share;
            }
            for &to in receivers {
                next[to] += share;
            }
        }
        next
    }

    /// What a share is of the row of round `round` (from 0) of its sender.
    fn part(&self, from: Party, round: usize) -> f64 {
        if self.whole {
            1.0
        } else {
            1.0 / (self.receivers[from][round].len() as f64 + 1.0)
        }
    }

    /// Ready to be evaluated at r = `ratio`, σ* = 1, for one pass over `coalitions` of `size`.
    pub(crate) fn at(&self, ratio: f64, coalitions: usize, size: usize) -> At<'_> {
        self.rows.at_with_all(ratio, coalitions, size)
    }

    /// The worst of the fault-free run (index 0) and each of `faults` (from 1) against one
    /// coalition. None if nobody is honest.
    pub(crate) fn worst(
        &self,
        at: &At<'_>,
        coalition: &[Party],
        faults: &[ShareFault],
        sensitivity: &[f64],
    ) -> Option<Worst> {
        let Some(system) = System::of(self, at, coalition) else {
            return self.worst_with_care(at, coalition, faults, sensitivity);
        };
        let mut worst: Option<Worst> = None;
        let mut consider = |index: usize, squares: &[f64]| {
            let (square, party) = largest(&system.honest, squares, sensitivity);
            Worst::add(&mut worst, index, square, party);
        };
        consider(0, &system.squares);
        let mut squares = vec![0.0; system.honest.len()];
        for (index, fault) in faults.iter().enumerate() {
            if coalition.contains(&fault.from) || coalition.contains(&fault.to) {
                continue;
            }
            if !system.faulted(self, fault, &mut squares) {
                squares = self.with_care(at, coalition, Some(fault));
            }
            consider(index + 1, &squares);
        }
        worst
    }

    /// The losses by the slow path; ∞ for everybody once a pass has spent all that it may this way:
    /// a run file or a plan whose systems are nearly all in doubt would take hours.
    fn with_care(&self, at: &At<'_>, coalition: &[Party], fault: Option<&ShareFault>) -> Vec<f64> {
        if !at.may_be_careful(coalition) {
            return vec![f64::INFINITY; self.rows.parties() - coalition.len()];
        }
        let execution = self
            .base
            .clone()
            .with_shares(fault.into_iter().copied().collect())
            .expect("a fault of a share of the schedule");
        let execution = execution
            .with_corrupted(coalition.iter().copied())
            .expect("a coalition of parties");
        squared_losses(
            &View::of(&execution),
            Noise {
                independent_std: 1.0,
                correlated_std: at.ratio.sqrt(),
            },
        )
    }

    fn worst_with_care(
        &self,
        at: &At<'_>,
        coalition: &[Party],
        faults: &[ShareFault],
        sensitivity: &[f64],
    ) -> Option<Worst> {
        let honest = self.rows.honest(coalition);
        let mut worst = None;
        for (index, fault) in std::iter::once(None).chain(faults.iter().map(Some)).enumerate() {
            if fault.is_none_or(|fault| !coalition.contains(&fault.from) && !coalition.contains(&fault.to)) {
                let (square, party) = largest(&honest, &self.with_care(at, coalition, fault), sensitivity);
                Worst::add(&mut worst, index, square, party);
            }
        }
        worst.filter(|_| !honest.is_empty())
    }
}

/// The fault-free view of one coalition, in coordinates in which its covariance is the identity.
struct System {
    honest: Vec<Party>,
    /// μ² at Δ = 1 of the honest parties.
    squares: Vec<f64>,
    /// L⁻¹ of what a gain adds to the view's rows, one row a gain; and its products with L⁻¹ H.
    gains: Array2<f64>,
    gains_h: Array2<f64>,
    /// L⁻¹ of the covariances of the view with each state, one row a state; and its products with
    /// L⁻¹ H.
    states: Array2<f64>,
    states_h: Array2<f64>,
    /// For each state its variance, what of it the view explains, and its honest x̃ columns.
    variances: Vec<f64>,
    explained: Vec<f64>,
    values: Array2<f64>,
    /// Coefficients of a gain that is none.
    nothing: Vec<f64>,
}

impl System {
    fn of(screen: &Screen, at: &At<'_>, coalition: &[Party]) -> Option<Self> {
        let rows = &screen.rows;
        let (honest, seen) = (rows.honest(coalition), rows.seen(coalition));
        let inverse = inverse_factor(at.covariance(&seen, &seen, coalition))?;
        let all: Vec<usize> = (0..rows.sum()).collect();
        let values = Array2::from_shape_fn((all.len(), honest.len()), |(row, column)| {
            rows.values[[row, honest[column]]]
        });
        let states = at.covariance(&all, &seen, coalition).dot(&inverse.t());
        let gains = Array2::from_shape_fn((screen.gains.nrows(), seen.len()), |(gain, row)| {
            screen.gains[[gain, seen[row]]]
        });
        let gains = gains.dot(&inverse.t());
        let h = Array2::from_shape_fn((seen.len(), honest.len()), |(row, column)| {
            rows.values[[seen[row], honest[column]]]
        });
        let h = inverse.dot(&h);
        let variances = all.iter().map(|&row| at.variance(row, coalition)).collect();
        let explained = states.rows().into_iter().map(|row| row.dot(&row)).collect();
        Some(System {
            squares: (0..honest.len())
                .map(|party| h.column(party).iter().map(|x| x * x).sum())
                .collect(),
            gains_h: gains.dot(&h),
            states_h: states.dot(&h),
            variances,
            explained,
            nothing: vec![0.0; seen.len().max(honest.len())],
            honest,
            gains,
            states,
            values,
        })
    }

    /// The losses under one share fault; false if rounding leaves them in doubt.
    fn faulted(&self, screen: &Screen, fault: &ShareFault, squares: &mut [f64]) -> bool {
        let (from, round) = (fault.from, fault.round as usize - 1);
        let state = screen.rows.row(from, round);
        let part = screen.part(from, round);
        let applied = fault.applied.unwrap_or(fault.round);
        let more = match fault.fate {
            Fate::Returned => Some(screen.gain(from, applied)),
            Fate::Accepted => Some(screen.gain(fault.to, applied)),
            Fate::Lost => None,
        };
        let less = screen.gain(fault.to, fault.round);
        let gained = more.map_or(&self.nothing[..self.gains.ncols()], |gain| {
            slice(&self.gains, gain)
        });
        let gained_h = more.map_or(&self.nothing[..self.gains_h.ncols()], |gain| {
            slice(&self.gains_h, gain)
        });
        let missed = slice(&self.gains, less);
        let view = slice(&self.states, state);
        let change: Vec<f64> = gained
            .iter()
            .zip(missed)
            .map(|(gained, missed)| part * (gained - missed))
            .collect();
        let (aa, av, vv) = (dot(&change, &change), dot(&change, view), self.explained[state]);
        // Σ″ = I + U C Uᵀ, U = (a, v), C = (γ 1; 1 0): Woodbury with (C⁻¹ + UᵀU) = (aa, 1 + av; 1 +
        // av, vv − γ).
        let (diagonal, corner) = (vv - self.variances[state], 1.0 + av);
        let determinant = aa * diagonal - corner * corner;
        let size = aa * (vv + self.variances[state]) + (1.0 + av.abs()).powi(2);
        if determinant.is_nan() || determinant.abs() <= DOUBT * size {
            return false;
        }
        // Of one length and without an index in sight, so that it runs several parties at a time.
        let (values, states_h, missed_h) = (
            slice(&self.values, state),
            slice(&self.states_h, state),
            slice(&self.gains_h, less),
        );
        let inverse = 1.0 / determinant;
        let terms = values
            .iter()
            .zip(states_h)
            .zip(missed_h)
            .zip(gained_h)
            .zip(&self.squares);
        for (square, ((((value, seen), missed), gained), before)) in squares.iter_mut().zip(terms) {
            let ah = part * (gained - missed);
            let (ax, vx) = (ah + value * aa, seen + value * av);
            let xx = before + 2.0 * value * ah + value * value * aa;
            *square = xx - (diagonal * ax * ax - 2.0 * corner * ax * vx + aa * vx * vx) * inverse;
        }
        true
    }
}

fn slice(matrix: &Array2<f64>, row: usize) -> &[f64] {
    let columns = matrix.ncols();
    &matrix.as_slice().expect("products are row-major")[row * columns..(row + 1) * columns]
}

#[cfg(test)]
mod tests;
