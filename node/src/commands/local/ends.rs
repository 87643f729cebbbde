//! How the nodes of a local run ended, taken together.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use undertone_protocol::plan::checked::Plan;

use crate::commands::local::cluster::NodeEnd;
use crate::commands::local::folders::{party_folder, result_name};
use crate::commands::local::parties::LocalParty;
use crate::party::figures_file::FiguresFile;
use crate::party::silence::Silence;
use crate::reporting::failure::{Exit, Failure};
use crate::vector_file::formats;

/// The exit code that stands for a killed node (128 + SIGKILL, as a shell has it).
const KILLED: i32 = 137;

/// All nodes' ends, with the final objects of those that got as far.
pub(super) struct Ends<'a> {
    all: &'a BTreeMap<String, NodeEnd>,
    results: Vec<(&'a String, &'a Value)>,
    finished: Vec<(&'a String, &'a Value)>,
}

impl<'a> Ends<'a> {
    pub(super) fn of(all: &'a BTreeMap<String, NodeEnd>) -> Self {
        let results: Vec<(&String, &Value)> = all
            .iter()
            .filter_map(|(name, end)| Some((name, end.result.as_ref()?)))
            .collect();
        // A degraded node may hold no mean: what was left carried too much noise.
        let has_mean = |(_, result): &(&String, &Value)| result["finished"] == 1;
        let finished = results.iter().copied().filter(has_mean).collect();
        Ends {
            all,
            results,
            finished,
        }
    }

    /// Nodes that hold a mean.
    pub(super) fn finished(&self) -> usize {
        self.finished.len()
    }

    /// The first object of a node that holds a mean; of any node, if none does.
    pub(super) fn first(&self) -> Option<&'a Value> {
        let first = self.finished.first().or(self.results.first());
        first.map(|(_, result)| *result)
    }

    /// Returns the first object's value under this key.
    pub(super) fn said_first(&self, key: &str) -> Value {
        self.first().map_or(Value::Null, |result| result[key].clone())
    }

    fn numbers(&self, key: &'static str) -> impl Iterator<Item = f64> {
        self.results
            .iter()
            .filter_map(move |(_, result)| result[key].as_f64())
    }

    fn counts(&self, key: &'static str) -> impl Iterator<Item = u64> {
        self.results
            .iter()
            .filter_map(move |(_, result)| result[key].as_u64())
    }

    /// The largest number that a node says under this key.
    pub(super) fn largest(&self, key: &'static str) -> Option<f64> {
        self.numbers(key).reduce(f64::max)
    }

    /// The largest count that a node says under this key.
    pub(super) fn most(&self, key: &'static str) -> Option<u64> {
        self.counts(key).max()
    }

    /// All nodes' counts under this key together.
    pub(super) fn total(&self, key: &'static str) -> u64 {
        self.counts(key).sum()
    }

    /// Processor time of all nodes together.
    pub(super) fn cpu_s(&self) -> f64 {
        self.numbers("cpu_s").sum()
    }

    /// The largest standard error of those that hold a mean.
    pub(super) fn standard_error(&self) -> Option<f64> {
        self.finished
            .iter()
            .filter_map(|(_, result)| result["standard_error"].as_f64())
            .reduce(f64::max)
    }

    /// Returns the most serious of the nodes' codes; a killed node makes it 5 at least.
    pub(super) fn exit(&self) -> i32 {
        let codes = self.all.values().map(|end| end.code);
        Exit::worst(codes.map(|code| code.unwrap_or(Exit::Degraded.code())))
    }

    /// Each node's exit code.
    pub(super) fn codes(&self) -> BTreeMap<&'a String, i32> {
        self.all
            .iter()
            .map(|(name, end)| (name, end.code.unwrap_or(KILLED)))
            .collect()
    }

    /// Returns the outcome of the run, in a word.
    pub(super) fn outcome(&self) -> Value {
        let outcome = || Some(self.first()?.get("outcome")?.clone());
        if self.finished.is_empty() {
            outcome().unwrap_or(json!("aborted"))
        } else if self.exit() == 0 {
            json!("done")
        } else {
            json!("degraded")
        }
    }

    /// Returns the reasons why there is no mean, or not all is written, by node.
    pub(super) fn reasons(&self) -> BTreeMap<String, String> {
        let reason = |result: &Value| {
            let error = result["error"]["message"].as_str();
            error.or(result["reason"].as_str()).map(String::from)
        };
        self.results
            .iter()
            .filter_map(|(name, result)| Some(((*name).clone(), reason(result)?)))
            .collect()
    }

    /// Rounds to which parties contributed nothing, by party.
    pub(super) fn silences(&self) -> BTreeMap<String, Silence> {
        let of = |(name, result): &(&String, &Value)| ((*name).clone(), Silence::of_object(result));
        let all = self.results.iter().map(of);
        all.filter(|(_, silence)| !silence.is_none()).collect()
    }

    /// The means of those that hold one, read from their files.
    pub(super) fn means(
        &self,
        plan: &Plan,
        parties: &[LocalParty],
        output: &Path,
    ) -> Result<Vec<Vec<f64>>, Failure> {
        let read = |(name, _): &(&String, &Value)| {
            let party = parties.iter().find(|party| party.name == **name);
            let input = party.map_or(Path::new(""), |party| &party.input);
            let by_program = party.is_some_and(LocalParty::is_for_a_program);
            let result = result_name(plan, input, by_program);
            let path = party_folder(output, name).join(result);
            match plan.draft().computation.described() {
                Some(_) => Ok(FiguresFile::read(&path)?.sums),
                None => Ok(formats::read(&path)?.values),
            }
        };
        self.finished.iter().map(read).collect()
    }
}
