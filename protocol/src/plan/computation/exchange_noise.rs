//! The noise of an exchange in PPSC's recursions: a number, or what the paper's theorems ask
//! for, which is a function of public numbers that the run file has.

use std::ops::RangeInclusive;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::local_step::Inconsistent;
use crate::plan::run_file::problem::{Checked, Problem, refuse, require};
use crate::plan::run_file::settings::TaskName;

/// σ_γ as asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PairwiseStd {
    /// This number.
    Given(f64),
    /// The least that the paper's Theorem 3 (linear equations) or 4 (optimisation) allows for the
    /// run file's ε and δ.
    Theorem,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum AnyStd {
    Named(String),
    Number(f64),
}

impl PairwiseStd {
    /// The number, where it is one.
    pub fn given(self) -> Option<f64> {
        match self {
            PairwiseStd::Given(std) => Some(std),
            PairwiseStd::Theorem => None,
        }
    }
}

impl Serialize for PairwiseStd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            PairwiseStd::Given(std) => AnyStd::Number(std),
            PairwiseStd::Theorem => AnyStd::Named("theorem".into()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PairwiseStd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match AnyStd::deserialize(deserializer) {
            Ok(AnyStd::Named(name)) if name == "theorem" => Ok(PairwiseStd::Theorem),
            Ok(AnyStd::Number(std)) => Ok(PairwiseStd::Given(std)),
            _ => Err(D::Error::custom(
                "the noise of an exchange is a number or \"theorem\"",
            )),
        }
    }
}

/// The noise of an exchange as asked for, with the public numbers that a theorem needs.
pub(super) struct AskedNoise {
    pub(super) pairwise_std: PairwiseStd,
    pub(super) solution_norm: Option<f64>,
    pub(super) contraction: Option<f64>,
    pub(super) gradient_change: Option<f64>,
}

impl AskedNoise {
    /// Refuses a number that nothing asks for, and a theorem without its numbers.
    pub(super) fn check(&self, task: TaskName, inconsistent: Option<Inconsistent>) -> Checked {
        let equations = task == TaskName::LinearEquations;
        let theorem = match self.pairwise_std {
            PairwiseStd::Theorem => true,
            PairwiseStd::Given(found) => {
                within(
                    "recursion.pairwise_std",
                    found,
                    1e-12..=1e18,
                    "a finite number above 0, such as 1.0",
                )?;
                false
            }
        };
        if theorem && inconsistent.is_some() {
            let found = "\"theorem\" with recursion.inconsistent, for which the paper has no number";
            let alternative = "a number, such as 1.0";
            refuse("recursion.pairwise_std", Problem::NotYet { found, alternative })?;
        }
        self.check_given(theorem, equations)?;
        let of_equations = "pairwise_std = \"theorem\" with task = \"linear-equations\"";
        let of_gradients = "pairwise_std = \"theorem\" with task = \"optimise\"";
        let (above, below_1) = (
            "a finite number above 0, such as 20.0",
            "from 0 to below 1, such as 0.98",
        );
        for (field, found, applies, only, range, expected) in [
            (
                "recursion.solution_norm",
                self.solution_norm,
                equations,
                of_equations,
                1e-100..=1e100,
                above,
            ),
            (
                "recursion.contraction",
                self.contraction,
                equations,
                of_equations,
                0.0..=MOST_LEFT,
                below_1,
            ),
            (
                "recursion.gradient_change",
                self.gradient_change,
                !equations,
                of_gradients,
                1e-100..=1e100,
                above,
            ),
        ] {
            let Some(found) = found else { continue };
            require(theorem && applies, field, || Problem::OnlyFor { only })?;
            within(field, found, range, expected)?;
        }
        Ok(())
    }

    /// A theorem's numbers are there.
    fn check_given(&self, theorem: bool, equations: bool) -> Checked {
        let (field, found, example) = match equations {
            true => (
                "recursion.solution_norm",
                self.solution_norm,
                "solution_norm = 20.0 under [recursion], a public bound on the length of the solution",
            ),
            false => (
                "recursion.gradient_change",
                self.gradient_change,
                "gradient_change = 2.0 under [recursion], a public bound on how far a party's gradient may change",
            ),
        };
        match found {
            None if theorem => refuse(field, Problem::Missing { example }),
            _ => Ok(()),
        }
    }
}

/// The most that `contraction` may be. Our choice: with more, no number of iterations that a plan
/// may have comes near a solution.
const MOST_LEFT: f64 = 1.0 - 1e-9;

fn within(field: &str, found: f64, range: RangeInclusive<f64>, expected: &'static str) -> Checked {
    require(range.contains(&found), field, || Problem::Range {
        found,
        expected,
    })
}
