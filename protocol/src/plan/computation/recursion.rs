//! `task = "linear-equations"` and `"optimise"`: PPSC's Algorithms 3 and 4, as in the paper. The
//! table `[recursion]` of a run file.

use serde::{Deserialize, Serialize};

use crate::model::descent::StepLength;
use crate::model::local_step::{Inconsistent, LocalStep, PrivateRows};
use crate::model::loss::Loss;
use crate::model::projection::ModelSet;
use crate::plan::computation::beside::Beside;
use crate::plan::computation::exchange_noise::{AskedNoise, PairwiseStd};
use crate::plan::computation::model::{LossChoice, RowsOf, StepChoice};
use crate::plan::exchange::choice::Exchange;
use crate::plan::exchange::ppsc::PpscNoise;
use crate::plan::run_file::limits::{
    MOST_AVERAGING, MOST_COORDINATES, MOST_EQUATIONS, MOST_GOSSIP, MOST_ITERATIONS,
};
use crate::plan::run_file::problem::{Checked, Problem, count, refuse, require};
use crate::plan::run_file::settings::{Bound, Clip, Data, Dissemination, TaskName, Unit};

/// The averaging by which all come near the mean of their states.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PublicAveraging {
    /// The averaging in as many rounds as the graph's Laplacian has different eigenvalues above 0:
    /// exact.
    Exact,
    /// The paper's: every edge weighs the same in every round.
    Paper {
        /// The number of rounds, T.
        rounds: u32,
        /// The weight of an edge, a; `None`: 1/n for n parties.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weight: Option<f64>,
    },
}

/// The recursion that is iterated, with its settings. All of it is public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecursionSettings {
    /// Columns of a row, the right side or target included: at least 2.
    pub columns: usize,
    /// The names of the columns, if they have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// `task = "optimise"`: how a state is held against a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossChoice>,
    /// `task = "optimise"`: what each party's gradient grows by for each length of the state.
    pub ridge: f64,
    /// The set within which states are kept after each local step.
    pub set: ModelSet,
    /// L: how many outer iterations there are.
    pub iterations: u64,
    /// ν: the squared error that is meant to be reached; states are multiples of a thousandth of it
    /// or less.
    pub accuracy: f64,
    /// The length of a local step that is not a projection; auto: 1/(l + 1).
    pub step: StepChoice,
    /// ζ₀: where all begin; empty: at 0.
    pub start: Vec<f64>,
    /// The averaging by which all come near the mean.
    pub averaging: PublicAveraging,
    /// S: iterations of multi-gossip in each outer iteration.
    pub gossip_iterations: u32,
    /// σ_γ: the noise of an exchange.
    pub pairwise_std: PairwiseStd,
    /// Theorem 3: a public bound on ‖y*‖, the length of the solution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solution_norm: Option<f64>,
    /// Theorem 3: a public bound on λ_H, how much of an error an outer iteration leaves; `None`:
    /// the largest with which the theorem takes the iterations for enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contraction: Option<f64>,
    /// Theorem 4: a public bound on how far a party's gradient changes when its parameters change
    /// by 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_change: Option<f64>,
    /// `task = "linear-equations"`: equations without a common solution, and what is meant then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inconsistent: Option<Inconsistent>,
}

impl RecursionSettings {
    /// Coordinates of a state.
    pub fn dimension(&self) -> usize {
        self.columns.saturating_sub(1)
    }

    /// The loss that is minimised; `None` where equations are solved.
    pub fn loss(&self) -> Option<Loss> {
        match self.loss? {
            LossChoice::Squared => Some(Loss::Squared),
            LossChoice::Logistic => Some(Loss::Logistic),
            LossChoice::Softmax => None,
        }
    }

    /// ζ₀.
    pub fn start(&self) -> Vec<f64> {
        match self.start[..] {
            [] => vec![0.0; self.dimension()],
            _ => self.start.clone(),
        }
    }

    /// The local step of a party with these rows. Every target is one that the loss knows.
    pub fn local_step(&self, rows: PrivateRows) -> LocalStep {
        let length = match self.step {
            StepChoice::Auto => StepLength::Inverse { first: 1.0 },
            StepChoice::Constant(step) => StepLength::Constant(step),
            StepChoice::Inverse { first } => StepLength::Inverse { first },
        };
        let set = self.set.projection(self.dimension());
        let set = set.expect("a checked plan's set is one");
        match self.loss() {
            Some(loss) => LocalStep::of_loss(rows, (loss, self.ridge), length, set),
            None => LocalStep::of_equations(rows, self.inconsistent, length, set),
        }
    }

    /// Returns the data that parties exchange, over this plan's unit and adjacency: states.
    pub(in crate::plan) fn states(&self, data: Data) -> Data {
        Data {
            shape: vec![self.dimension()],
            columns: None,
            ..data
        }
    }

    /// The most that a coordinate of a state may be on a lattice for this accuracy.
    pub(in crate::plan) fn finest_step(&self) -> f64 {
        self.accuracy / 1000.0
    }

    /// Refuses what the paper's algorithms do not go with, and what makes no iteration of this
    /// task.
    pub(super) fn check(&self, task: TaskName, beside: &Beside<'_>) -> Checked {
        let as_in_paper =
            |holds: bool, field: &str, needs| require(holds, field, || Problem::AsInPaper { needs });
        let exact = matches!(beside.exchange, Exchange::Ppsc(ppsc) if ppsc.noise == PpscNoise::ExactSum);
        as_in_paper(exact, "mechanism.accept_exact_sum", "accept_exact_sum = true")?;
        count("privacy.dropouts", beside.privacy.dropouts as u64, 0, 0)?;
        let flood = beside.run.dissemination == Dissemination::Flood;
        as_in_paper(flood, "run.dissemination", "dissemination = \"flood\"")?;
        let rows = beside.data.unit == Unit::Record;
        as_in_paper(rows, "data.unit", "unit = \"record\": parties bring rows")?;
        let bounds = matches!(
            beside.data.clip,
            Clip::Box {
                low: Bound::All(_),
                high: Bound::All(_)
            }
        );
        as_in_paper(bounds, "data.clip", "one box for all coordinates of a state")?;
        self.check_alone(task)
    }

    fn check_alone(&self, task: TaskName) -> Checked {
        count("data.shape", self.columns as u64, 2, MOST_COORDINATES as u64)?;
        count("recursion.iterations", self.iterations, 1, MOST_ITERATIONS)?;
        count(
            "recursion.gossip_iterations",
            self.gossip_iterations.into(),
            1,
            MOST_GOSSIP,
        )?;
        within("recursion.accuracy", self.accuracy, 1e-12, 1e12)?;
        self.asked_noise().check(task, self.inconsistent)?;
        let fine = self.ridge.is_finite() && (0.0..=1e100).contains(&self.ridge);
        require(fine, "recursion.ridge", || Problem::Range {
            found: self.ridge,
            expected: "0 or above, such as 0.01",
        })?;
        self.check_averaging()?;
        self.check_start()?;
        self.check_step(task)?;
        match (task, self.loss) {
            (TaskName::Optimise, None) => refuse(
                "recursion.loss",
                Problem::Missing {
                    example: "loss = \"logistic\" under [recursion]",
                },
            )?,
            (TaskName::Optimise, Some(LossChoice::Softmax)) => refuse(
                "recursion.loss",
                Problem::NotYet {
                    found: "\"softmax\" in task = \"optimise\"",
                    alternative: "\"squared\" or \"logistic\", or task = \"regression\"",
                },
            )?,
            (TaskName::Optimise, Some(_)) | (_, None) => {}
            (_, Some(_)) => refuse(
                "recursion.loss",
                Problem::OnlyFor {
                    only: "task = \"optimise\" or \"regression\"",
                },
            )?,
        }
        let equations = task == TaskName::LinearEquations;
        require(
            equations || self.inconsistent.is_none(),
            "recursion.inconsistent",
            || Problem::OnlyFor {
                only: "task = \"linear-equations\"",
            },
        )?;
        if let ModelSet::Affine { a, .. } = &self.set {
            count("recursion.set", a.len() as u64, 1, MOST_EQUATIONS)?;
        }
        let set = self.set.projection(self.dimension());
        set.map(drop)
            .map_err(|reason| ("recursion.set".to_owned(), Problem::Set(reason)))
    }

    fn asked_noise(&self) -> AskedNoise {
        AskedNoise {
            pairwise_std: self.pairwise_std,
            solution_norm: self.solution_norm,
            contraction: self.contraction,
            gradient_change: self.gradient_change,
        }
    }

    fn check_averaging(&self) -> Checked {
        let PublicAveraging::Paper { rounds, weight } = self.averaging else {
            return Ok(());
        };
        count("recursion.averaging", rounds.into(), 1, MOST_AVERAGING)?;
        let weight = weight.unwrap_or(0.5);
        require(weight > 0.0 && weight <= 1.0, "recursion.averaging", || {
            Problem::Range {
                found: weight,
                expected: "an edge's weight, above 0 and at most 1",
            }
        })
    }

    fn check_start(&self) -> Checked {
        let (found, expected) = (self.start.len(), self.dimension());
        require(found == 0 || found == expected, "recursion.start", || {
            Problem::BoundCount { found, expected }
        })?;
        let beyond = self.start.iter().find(|x| x.is_nan() || x.abs() > 1e100);
        match beyond {
            Some(&found) => refuse(
                "recursion.start",
                Problem::Range {
                    found,
                    expected: "a finite number",
                },
            ),
            None => Ok(()),
        }
    }

    fn check_step(&self, task: TaskName) -> Checked {
        let exact = task == TaskName::LinearEquations && self.inconsistent.is_none();
        let found = match self.step {
            StepChoice::Auto => return Ok(()),
            StepChoice::Constant(step) | StepChoice::Inverse { first: step } => step,
        };
        require(!exact, "recursion.step", || Problem::OnlyFor {
            only: "task = \"optimise\", or inconsistent = \"least-squares\" or \"normalised\"",
        })?;
        within("recursion.step", found, 1e-100, 1e100)
    }
}

fn within(field: &str, found: f64, least: f64, most: f64) -> Checked {
    require((least..=most).contains(&found), field, || Problem::Range {
        found,
        expected: "a finite number above 0, such as 0.01",
    })
}

/// The section `[recursion]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)] // the keys of run.toml, explained in `defaults::SETTINGS`
pub struct RawRecursion {
    pub iterations: Option<u64>,
    pub accuracy: Option<f64>,
    pub step: Option<StepChoice>,
    pub start: Option<Vec<f64>>,
    pub averaging: Option<PublicAveraging>,
    pub gossip_iterations: Option<u32>,
    pub pairwise_std: Option<PairwiseStd>,
    pub solution_norm: Option<f64>,
    pub contraction: Option<f64>,
    pub gradient_change: Option<f64>,
    pub inconsistent: Option<Inconsistent>,
    pub loss: Option<LossChoice>,
    pub ridge: Option<f64>,
    pub set: Option<ModelSet>,
}

impl RawRecursion {
    /// Completes it; gaps are filled from the table of defaults by now, but for those without a
    /// default.
    pub(in crate::plan) fn complete(self, rows: RowsOf) -> Checked<RecursionSettings> {
        fn given<T>(value: Option<T>, key: &str, example: &'static str) -> Checked<T> {
            value.ok_or_else(|| (format!("recursion.{key}"), Problem::Missing { example }))
        }
        Ok(RecursionSettings {
            columns: rows.columns()?,
            names: rows.names,
            loss: self.loss,
            ridge: self.ridge.unwrap_or(0.0),
            set: self.set.unwrap_or_default(),
            iterations: given(
                self.iterations,
                "iterations",
                "iterations = 300 under [recursion]",
            )?,
            accuracy: given(self.accuracy, "accuracy", "accuracy = 1e-2")?,
            step: given(self.step, "step", "step = \"auto\"")?,
            start: self.start.unwrap_or_default(),
            averaging: given(self.averaging, "averaging", "averaging = { kind = \"exact\" }")?,
            gossip_iterations: given(
                self.gossip_iterations,
                "gossip_iterations",
                "gossip_iterations = 26",
            )?,
            pairwise_std: given(self.pairwise_std, "pairwise_std", "pairwise_std = 1.0")?,
            solution_norm: self.solution_norm,
            contraction: self.contraction,
            gradient_change: self.gradient_change,
            inconsistent: self.inconsistent,
        })
    }
}
