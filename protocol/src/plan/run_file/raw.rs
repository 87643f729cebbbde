//! A run file as written, with gaps.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::settings::*;
use crate::plan::computation::describe::RawDescription;
use crate::plan::computation::model::RawModel;
use crate::plan::computation::recursion::RawRecursion;
use crate::plan::computation::rounds::{ClippedBy, ReleaseKind};
use crate::plan::computation::stream::{Protect, Sums};
use crate::plan::computation::template::TemplateChoice;
use crate::plan::defaults::{Defaults, belongs, document, tasks_of};
use crate::plan::lines::{Lines, line_at};
use crate::plan::run_file::accept_by::AcceptBy;
use crate::plan::run_file::error::RunFileError;
use crate::plan::run_file::records::RecordCounts;
use crate::topology::active_edges::ActiveEdges;

/// The raw content of `run.toml`, before defaults and checks. Flags of `local` overwrite its
/// fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)] // the keys of run.toml, explained in `defaults::SETTINGS`
pub struct RawRunFile {
    pub version: Option<u32>,
    pub task: Option<TaskName>,
    pub name: Option<String>,
    pub data: RawData,
    pub describe: RawDescription,
    pub model: RawModel,
    pub recursion: RawRecursion,
    pub privacy: RawPrivacy,
    pub mechanism: RawMechanism,
    pub topology: RawTopology,
    pub run: RawRunSettings,
    #[serde(skip)]
    pub(crate) lines: Lines,
}

/// The section `[data]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct RawData {
    pub shape: Option<Vec<usize>>,
    pub unit: Option<Unit>,
    pub adjacency: Option<Adjacency>,
    pub clip: Option<Clip>,
    pub weights: Option<BTreeMap<String, f64>>,
    pub records: Option<RecordCounts>,
    pub columns: Option<Vec<String>>,
    pub tensors: Option<BTreeMap<String, Vec<usize>>>,
    pub template: Option<TemplateChoice>,
    pub releases: Option<u64>,
    pub result: Option<ReleaseKind>,
    pub clipped: Option<ClippedBy>,
    pub noise_ok: Option<bool>,
    pub adaptive: Option<bool>,
}

/// The section `[privacy]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct RawPrivacy {
    pub epsilon: Option<f64>,
    pub delta: Option<f64>,
    pub colluding: Option<usize>,
    pub coalitions: Option<Coalitions>,
    pub dropouts: Option<usize>,
    pub share_faults: Option<usize>,
    pub protect: Option<Protect>,
}

/// The section `[mechanism]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct RawMechanism {
    pub kind: Option<ExchangeName>,
    pub correlated: Option<CorrelatedNoise>,
    pub injection: Option<InjectionChoice>,
    pub rounds: Option<Rounds>,
    pub fanout: Option<u32>,
    pub rollback: Option<bool>,
    pub independent_noise: Option<IndependentNoise>,
    pub accept_exact_sum: Option<bool>,
    pub local_noise_ok: Option<bool>,
    pub sums: Option<Sums>,
    pub edges: Option<ActiveEdges>,
}

/// The section `[topology]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct RawTopology {
    pub private: Option<GraphChoice>,
    pub public: Option<GraphChoice>,
}

/// The section `[run]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct RawRunSettings {
    pub min_parties: Option<usize>,
    pub dissemination: Option<Dissemination>,
    pub sealed: Option<bool>,
    pub join_ms: Option<u64>,
    pub grace_ms: Option<u64>,
    pub accept_by: Option<AcceptBy>,
    pub round_ms: Option<u64>,
    pub settle_ms: Option<u64>,
    pub accuracy: Option<f64>,
    pub pace_ms: Option<u64>,
    pub iteration_ms: Option<u64>,
    pub precomputed_bytes: Option<u64>,
    pub mixing_attempts: Option<u32>,
}

/// Refuses the first key that belongs to other tasks.
fn refuse_foreign(lines: &Lines, task: TaskName) -> Result<(), RunFileError> {
    let foreign = lines
        .fields()
        .find(|(field, _)| belongs(field, task) == Some(false));
    match foreign {
        None => Ok(()),
        Some((field, line)) => Err(RunFileError::Foreign {
            field: field.to_owned(),
            line: Some(line),
            tasks: tasks_of(field),
            task,
        }),
    }
}

/// Fills the gaps of `$raw` in these fields from `$from`.
macro_rules! fill {
    ($raw:expr, $from:expr, $($field:ident),+) => {
        $(
            if $raw.$field.is_none() {
                $raw.$field = $from.$field;
            }
        )+
    };
}

impl RawRunFile {
    /// Reads TOML. Unknown keys and values of a wrong type are refused with their line; gaps stay.
    pub fn parse(text: &str) -> Result<Self, RunFileError> {
        let lines = Lines::of(text);
        match toml::from_str::<RawRunFile>(text) {
            Ok(raw) => {
                refuse_foreign(&lines, raw.task.unwrap_or_default())?;
                Ok(RawRunFile { lines, ..raw })
            }
            Err(error) => {
                let line = error.span().map(|span| line_at(text, span.start));
                let field = line.and_then(|line| lines.key_at(line)).map(str::to_string);
                Err(RunFileError::Toml {
                    line,
                    field,
                    message: error.message().trim_end().to_string(),
                })
            }
        }
    }

    /// The task, which is a mean where the file does not say.
    pub fn task(&self) -> TaskName {
        self.task.unwrap_or_default()
    }

    /// Returns the line of a key, or of the nearest table above it, where the file was read.
    pub fn line(&self, field: &str) -> Option<usize> {
        self.lines.line(field)
    }

    /// The table of a task's defaults as a run file.
    pub(super) fn defaults(task: TaskName, defaults: Defaults) -> Self {
        toml::from_str(&document(task, defaults)).expect("a test parses all documents of the table")
    }

    /// Takes what is missing from `from`.
    pub(super) fn fill(&mut self, from: RawRunFile) {
        fill!(self, from, version, task, name);
        fill!(
            self.data, from.data, shape, unit, adjacency, clip, weights, records, columns, tensors, releases,
            result, clipped, noise_ok, adaptive
        );
        fill!(
            self.model, from.model, target, intercept, rows, method, clip, iterations, step, momentum, ridge,
            set, average
        );
        fill!(
            self.recursion,
            from.recursion,
            iterations,
            accuracy,
            step,
            averaging,
            gossip_iterations,
            pairwise_std,
            set,
            ridge
        );
        fill!(
            self.privacy,
            from.privacy,
            epsilon,
            delta,
            colluding,
            coalitions,
            dropouts,
            share_faults,
            protect
        );
        fill!(
            self.mechanism,
            from.mechanism,
            kind,
            correlated,
            injection,
            rounds,
            fanout,
            rollback,
            independent_noise,
            accept_exact_sum,
            local_noise_ok,
            sums,
            edges
        );
        fill!(self.topology, from.topology, private, public);
        fill!(
            self.run,
            from.run,
            min_parties,
            dissemination,
            join_ms,
            sealed,
            grace_ms,
            accept_by,
            round_ms,
            settle_ms,
            accuracy,
            pace_ms,
            iteration_ms,
            precomputed_bytes,
            mixing_attempts
        );
    }
}
