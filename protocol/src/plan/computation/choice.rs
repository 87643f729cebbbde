//! The computation that a plan has.

use serde::{Deserialize, Serialize};

use crate::plan::computation::describe::DescribeSettings;
use crate::plan::computation::model::ModelSettings;
use crate::plan::computation::recursion::RecursionSettings;
use crate::plan::computation::rounds::{ReleaseKind, RoundsSettings};
use crate::plan::computation::sequence::SequenceSettings;
use crate::plan::computation::stream::{Protect, StreamSettings};
use crate::plan::run_file::settings::{Data, TaskName};

/// The computation of the parties, with the settings of that alone. Prints and reads as one table
/// whose key `task` names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Computation {
    /// The weighted mean of the parties' vectors.
    Mean {},
    /// Statistics of the columns of a table, from one sum.
    Describe(DescribeSettings),
    /// A model that the parties fit together: sums of clipped gradients in sequence, or one sum of
    /// second moments.
    Regression {
        /// The model that is fitted, and the method.
        model: ModelSettings,
        /// The time of an iteration, and the precomputed noise.
        sequence: SequenceSettings,
    },
    /// Means in sequence of what programs hand over.
    Rounds(RoundsSettings),
    /// Gossip, with open messages or secure sums.
    Stream(StreamSettings),
    /// PPSC's Algorithm 3: the common solution of everybody's linear equations.
    LinearEquations(RecursionSettings),
    /// PPSC's Algorithm 4: the least sum of everybody's convex losses.
    Optimise(RecursionSettings),
}

/// The columns of the rows that a party contributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowColumns<'a> {
    /// The number of columns, the target or right side included.
    pub count: usize,
    /// The names of the columns, if they have names.
    pub names: Option<&'a [String]>,
}

impl TaskName {
    /// Whether parties contribute rows of features, each with a target or a right side.
    pub fn takes_features(self) -> bool {
        match self {
            TaskName::Regression | TaskName::LinearEquations | TaskName::Optimise => true,
            TaskName::Mean | TaskName::Describe | TaskName::Rounds | TaskName::Stream => false,
        }
    }

    /// Whether parties contribute tables whose cells a description reads.
    pub fn takes_cells(self) -> bool {
        self == TaskName::Describe
    }

    /// Whether each party contributes rows of a stream, or one vector to gossip.
    pub fn carries_streams(self) -> bool {
        self == TaskName::Stream
    }

    /// Whether parties fit a model.
    pub fn fits_model(self) -> bool {
        self == TaskName::Regression
    }

    /// Whether a program hands over the parts of each release.
    pub fn needs_program(self) -> bool {
        self == TaskName::Rounds
    }

    /// Whether releases follow each other, each with a time of its own.
    pub fn releases_in_sequence(self) -> bool {
        matches!(self, TaskName::Regression | TaskName::Rounds)
    }
}

impl Computation {
    /// The task that a run file names it by.
    pub fn task(&self) -> TaskName {
        match self {
            Computation::Mean {} => TaskName::Mean,
            Computation::Describe(_) => TaskName::Describe,
            Computation::Regression { .. } => TaskName::Regression,
            Computation::Rounds(_) => TaskName::Rounds,
            Computation::Stream(_) => TaskName::Stream,
            Computation::LinearEquations(_) => TaskName::LinearEquations,
            Computation::Optimise(_) => TaskName::Optimise,
        }
    }

    /// Returns the number of sums that are released, each of which costs; of gossip the number of
    /// vectors that a party contributes.
    pub fn releases(&self) -> u64 {
        match self {
            Computation::Regression { model, .. } => model.iterations,
            Computation::Rounds(rounds) => rounds.releases,
            Computation::Stream(stream) => stream.releases,
            Computation::Mean {}
            | Computation::Describe(_)
            | Computation::LinearEquations(_)
            | Computation::Optimise(_) => 1,
        }
    }

    /// Returns the changes of a party's releases that are hidden.
    pub fn protect(&self) -> Protect {
        match self {
            Computation::Stream(stream) => stream.protect,
            _ => Protect::All,
        }
    }

    /// Whether releases may depend on estimates of the run in a way that claims have to respect.
    pub fn is_adaptive(&self) -> bool {
        self.stream().is_some_and(|stream| stream.adaptive)
    }

    /// Returns the kind of value that a release yields.
    pub fn result(&self) -> ReleaseKind {
        match self {
            Computation::Rounds(rounds) => rounds.result,
            Computation::Describe(_) => ReleaseKind::Sum,
            _ => ReleaseKind::Mean,
        }
    }

    /// The description of a table.
    pub fn described(&self) -> Option<&DescribeSettings> {
        match self {
            Computation::Describe(settings) => Some(settings),
            _ => None,
        }
    }

    /// The model of a training.
    pub fn model(&self) -> Option<&ModelSettings> {
        match self {
            Computation::Regression { model, .. } => Some(model),
            _ => None,
        }
    }

    /// Returns the settings of a fitted model with its parameters; `None` of any other result.
    pub fn fitted<'a>(&'a self, result: Option<&'a [f64]>) -> Option<(&'a ModelSettings, &'a [f64])> {
        self.model().zip(result)
    }

    /// Parameters of the model that parties fit together; `None` of any other result.
    pub fn parameters(&self) -> Option<usize> {
        self.model().map(ModelSettings::parameters)
    }

    /// Returns the number of releases that the last row of the result adds up; `None` where rows
    /// are no running sums.
    pub fn running_sum_of(&self) -> Option<u64> {
        let releases = self.stream().map(|stream| stream.releases);
        releases.filter(|releases| *releases > 1)
    }

    /// Returns the title of a column of the last row.
    pub fn column_title(&self) -> String {
        match self {
            Computation::Rounds(rounds) => format!("last {}", rounds.result.name()),
            Computation::Stream(stream) if stream.releases > 1 => "running sum".to_owned(),
            Computation::Stream(_) => "estimate".to_owned(),
            Computation::Describe(_) => "sum".to_owned(),
            Computation::LinearEquations(_) | Computation::Optimise(_) => "last iterate".to_owned(),
            Computation::Mean {} | Computation::Regression { .. } => "mean".to_owned(),
        }
    }

    /// Milliseconds that each release may take after noise is mixed, where a round may take
    /// `round_ms`.
    pub fn release_ms(&self, round_ms: u64) -> u64 {
        match (self.sequence(), self) {
            (Some(sequence), _) => sequence.iteration_ms,
            (None, Computation::Stream(_)) => round_ms,
            (None, _) => 0,
        }
    }

    /// The settings of means in sequence.
    pub fn rounds(&self) -> Option<&RoundsSettings> {
        match self {
            Computation::Rounds(rounds) => Some(rounds),
            _ => None,
        }
    }

    /// The settings of gossip.
    pub fn stream(&self) -> Option<&StreamSettings> {
        match self {
            Computation::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// The settings of PPSC's Algorithms 3 and 4.
    pub fn recursion(&self) -> Option<&RecursionSettings> {
        match self {
            Computation::LinearEquations(recursion) | Computation::Optimise(recursion) => Some(recursion),
            _ => None,
        }
    }

    /// Returns the settings that sequential releases have in common, each of which depends on the
    /// ones before.
    pub fn sequence(&self) -> Option<&SequenceSettings> {
        match self {
            Computation::Regression { sequence, .. } => Some(sequence),
            Computation::Rounds(rounds) => Some(&rounds.sequence),
            _ => None,
        }
    }

    /// The columns of the rows of features, each with a target, that a party contributes; `None`
    /// where it contributes vectors of the plan's shape.
    pub fn columns(&self) -> Option<RowColumns<'_>> {
        let (count, names) = match self {
            Computation::Regression { model, .. } => (model.columns, &model.names),
            Computation::LinearEquations(recursion) | Computation::Optimise(recursion) => {
                (recursion.columns, &recursion.names)
            }
            _ => return None,
        };
        let names = names.as_deref();
        Some(RowColumns { count, names })
    }

    /// Returns the data that each party contributes to a sum, where a run file's `[data]` is about
    /// rows of features.
    pub(in crate::plan) fn contributions(&self, data: Data) -> Data {
        match self {
            Computation::Regression { model, .. } => model.contributions(data),
            Computation::Describe(settings) => settings.contributions(data),
            Computation::LinearEquations(recursion) | Computation::Optimise(recursion) => {
                recursion.states(data)
            }
            _ => data,
        }
    }
}
