//! The results of a local run: the final object, and a table that a person can read.

mod columns;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::choice::Computation;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::topology::party::Party;

use crate::commands::local::cluster::NodeEnd;
use crate::commands::local::described::LocalFigures;
use crate::commands::local::ends::Ends;
use crate::commands::local::parties::LocalParty;
use crate::commands::local::truth::Truths;
use crate::commands::shown;
use crate::party::model_file;
use crate::party::silence::Silence;
use crate::planning::quote;
use crate::planning::utility::Utility;
use crate::reporting::failure::Failure;
use crate::reporting::output;
use crate::reporting::report::lower_first;
use crate::reporting::table::{Table, at_most, bytes, number};

/// All nodes' ends as one run's.
pub(super) struct Summary<'a> {
    plan: &'a Plan,
    object: Map<String, Value>,
    exit: i32,
    same_bits: bool,
    demonstration: bool,
    /// The coefficients of a training, for people.
    coefficients: String,
    /// The model of a training.
    model: Option<Vec<f64>>,
    /// The statistics of a table.
    figures: Option<LocalFigures>,
    /// Sentences on whose data were clipped, for a person at the terminal.
    clipping: Vec<String>,
    /// The reasons that nodes without a mean gave.
    reasons: BTreeMap<String, String>,
    /// Rounds to which parties contributed nothing, by party.
    silences: BTreeMap<String, Silence>,
}

impl<'a> Summary<'a> {
    /// The summary of a run that began at `begun`, whose means lie in `output`.
    pub(super) fn of(
        plan: &'a Plan,
        parties: &[LocalParty],
        ends: &BTreeMap<String, NodeEnd>,
        output: &Path,
        begun: Instant,
    ) -> Result<Self, Failure> {
        let ends = Ends::of(ends);
        // Nobody knows what programs measured.
        let known = averages_vectors(plan) && !parties.iter().any(LocalParty::is_for_a_program);
        let truths = known.then(|| Truths::of(plan, parties));
        let means = last_rows(plan, ends.means(plan, parties, output)?);
        let same_bits = means.windows(2).all(|pair| pair[0] == pair[1]);
        let mut object = of_nodes(plan, &ends);
        object.insert("total_wall_s".into(), begun.elapsed().as_secs_f64().into());
        object.insert("same_bits".into(), same_bits.into());
        if let Some(truths) = &truths {
            object.insert("clipped".into(), truths.clipped().into());
            add_errors(&mut object, &ends, truths, &means);
            add_columns(&mut object, plan, &ends, truths, &means);
        } else if plan.draft().computation.described().is_none() {
            for key in ["iterations", "iteration_ms"] {
                object.insert(key.into(), ends.said_first(key));
            }
        }
        add_agreement(&mut object, plan, &ends, &means);
        let silences = ends.silences();
        if !silences.is_empty() {
            object.insert("silence".into(), json!(silences));
        }
        let run = object.get("iterations").and_then(|it| it["run"].as_u64());
        let included = included(plan, &object);
        let errors = means.first().zip(ends.standard_error());
        let figures =
            errors.and_then(|(sums, error)| LocalFigures::of(plan, parties, (sums, error), &included));
        if let Some(figures) = &figures {
            object.insert("statistics".into(), figures.json());
        }
        let told = figures.as_ref().map_or(vec![], LocalFigures::told);
        let fitted = plan.draft().computation.fitted(means.first().map(Vec::as_slice));
        let run = (parties, &included, run.unwrap_or(0));
        let (coefficients, for_programs) = Self::coefficients_of(plan, fitted, run);
        if let Some(listed) = for_programs {
            object.insert("coefficients".into(), listed);
        }
        Ok(Summary {
            plan,
            object,
            exit: ends.exit(),
            same_bits,
            demonstration: false,
            clipping: truths.map_or(told, |truths| truths.clipping()),
            figures,
            coefficients,
            model: fitted.map(|(_, model)| model.to_vec()),
            reasons: ends.reasons(),
            silences,
        })
    }

    /// Holds the model against public rows, if there is one.
    pub(super) fn tested(mut self, plan: &Plan, path: &Path) -> Result<Self, Failure> {
        let settings = plan.draft().computation.model().ok_or_else(|| {
            Failure::usage("--test is for trainings: there is no model to hold against rows").field("--test")
        })?;
        let rows = model_file::rows(settings, path)?;
        if let Some(model) = &self.model {
            self.object.insert("test".into(), rows.report(model));
        }
        Ok(self)
    }

    /// Says so, and in a sentence what was protected.
    pub(super) fn of_demonstration(mut self, yes: bool) -> Self {
        self.demonstration = yes;
        if yes {
            self.object.insert("demonstration".into(), true.into());
        }
        self
    }

    pub(super) fn json(&self) -> Value {
        Value::Object(self.object.clone())
    }

    pub(super) fn exit(&self) -> i32 {
        self.exit
    }

    /// The table at the end.
    pub(super) fn text(&self, kept: Option<&Path>) -> String {
        let mut text = self.headline();
        text += &self.silence();
        text += &self.column_table();
        if let Some(figures) = &self.figures {
            text += &format!("{}\n", figures.text());
        }
        text += &self.coefficients;
        text += &self.errors();
        text += &self.protection();
        if output::is_terminal() && !self.clipping.is_empty() {
            text += &format!(
                "\nOnly this terminal shows it:\n  {}\n",
                self.clipping.join("\n  ")
            );
        }
        text += &self.sentence();
        let seconds = |key: &str| {
            self.object[key]
                .as_f64()
                .map_or("–".into(), |s| format!("{s:.2} s"))
        };
        text += &format!(
            "\n{} from START to the result, {} in all; {} over the private graph, {} over the public one.\n",
            seconds("wall_s"),
            seconds("total_wall_s"),
            bytes(self.object["private_bytes"].as_u64().unwrap_or(0)),
            bytes(self.object["public_bytes"].as_u64().unwrap_or(0)),
        );
        if let Some(folder) = kept {
            text += &format!(
                "Means, signed receipts and logs: {}/NAME/; the run as an object: {}/summary.json\n",
                folder.display(),
                folder.display()
            );
        }
        text
    }

    fn headline(&self) -> String {
        let finished = self.object["finished"].as_u64().unwrap_or(0);
        let parties = self.plan.parties();
        if finished == 0 {
            let outcome = self.object["outcome"].as_str().unwrap_or("nothing");
            return format!("\nNo mean: {outcome}.\n{}\n", self.nodes_that_failed());
        }
        if let (Some(iterations), Some(_)) = (
            self.object.get("iterations"),
            &self.plan.draft().computation.recursion(),
        ) {
            return format!(
                "\n{finished} of {parties} nodes have an iterate of their own, {} coordinates, after {} outer \
                 iterations.\n{}\n",
                self.plan.draft().dimension(),
                iterations["run"],
                self.nodes_that_failed()
            );
        }
        if gossips(self.plan) {
            return self.headline_of_estimates();
        }
        match self.object.get("iterations") {
            Some(iterations) => self.headline_of_iterations(iterations),
            None => self.headline_of_one_release(),
        }
    }

    /// Whose data are in the result: "3 of 4 parties", with the number of records where it is
    /// known.
    fn whose(&self) -> String {
        let included = self.object["included"].as_array().map_or(0, Vec::len);
        let records = self.object.get("records");
        let records = records.map_or(String::new(), |all| format!(" ({all} records)"));
        format!("{included} of {} parties{records}", self.plan.parties())
    }

    /// How many nodes have the result, and whether it is the same one.
    fn who_holds_it(&self) -> String {
        let within = self.object.get("largest_difference").and_then(Value::as_f64);
        let same = match (within, self.same_bits) {
            (Some(apart), _) => format!("all are within {} standard errors of each other", number(apart)),
            (None, true) => "all hold the same bits".to_owned(),
            (None, false) => "THEY DO NOT HOLD THE SAME BITS".to_owned(),
        };
        format!(
            "{} nodes have it, {same}",
            self.object["finished"].as_u64().unwrap_or(0)
        )
    }

    /// The headline of a training, or of means in sequence.
    fn headline_of_iterations(&self, iterations: &Value) -> String {
        let test = self.object.get("test").map_or(String::new(), tested);
        let draft = self.plan.draft();
        let (what, (size, unit), each) = match &draft.computation.model() {
            Some(model) => (
                "model".to_owned(),
                (model.parameters(), "parameters"),
                "iterations",
            ),
            None => (last_of(self.plan), (draft.dimension(), "coordinates"), "rounds"),
        };
        format!(
            "\nThe {what} of {}, {size} {unit}, after {} {each}; {}.\n{test}{}\n",
            self.whose(),
            iterations["run"],
            self.who_holds_it(),
            self.nodes_that_failed()
        )
    }

    /// The headline of a mean, or of statistics.
    fn headline_of_one_release(&self) -> String {
        let what = match self.plan.draft().computation.described() {
            Some(_) => "statistics",
            None => "mean",
        };
        let mut text = format!(
            "\nThe {what} of {} over {} coordinates; {}.\n",
            self.whose(),
            self.plan.draft().dimension(),
            self.who_holds_it()
        );
        text += &self.nodes_that_failed();
        let utility = self
            .object
            .get("utility")
            .filter(|_| self.object.get("columns").is_none());
        if let Some(utility) = utility.and_then(|utility| utility["sentence"].as_str()) {
            text += &format!("{utility}.\n");
        }
        text + "\n"
    }

    /// Where each node has estimates of its own.
    fn headline_of_estimates(&self) -> String {
        let within = self.object.get("largest_difference").and_then(Value::as_f64);
        let apart = within.map_or(String::new(), |apart| {
            format!(", within {} standard errors of each other", number(apart))
        });
        format!(
            "\n{} of {} nodes have estimates of their own, {} coordinates, after {} rounds{apart}.\n{}\n",
            self.object["finished"],
            self.plan.parties(),
            self.plan.draft().dimension(),
            self.object["iterations"]["run"],
            self.nodes_that_failed()
        )
    }

    /// Lines for each party that contributed nothing to some round: on this machine all are one's
    /// own.
    fn silence(&self) -> String {
        let reported = |(name, silence): (&String, &Silence)| silence.sentences(name);
        let lines: Vec<String> = self.silences.iter().flat_map(reported).collect();
        match lines.is_empty() {
            true => String::new(),
            false => format!("  {}\n\n", lines.join("\n  ")),
        }
    }

    /// A line for each node that holds no mean, or ended with neither 0 nor 5, with what it said.
    fn nodes_that_failed(&self) -> String {
        let line = |(name, code): (&String, i64)| match (code, self.reasons.get(name)) {
            (0, _) | (5, None) => String::new(),
            (137, _) => format!("  {name} was killed\n"),
            (code, Some(reason)) => format!("  {name} exited with {code}: {reason}\n"),
            (code, None) => format!("  {name} exited with {code}\n"),
        };
        self.codes().map(line).collect()
    }

    fn codes(&self) -> impl Iterator<Item = (&String, i64)> {
        self.object["exit_codes"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, code)| (name, code.as_i64().unwrap_or(70)))
    }

    fn protection(&self) -> String {
        let epsilon = |key: &str| self.object[key].as_f64().map_or("–".to_owned(), at_most);
        let mut table = Table::new();
        table
            .row(["protected".into(), quote::protected(self.plan)])
            .row(["against".into(), lower_first(&quote::threat(self.plan))])
            .row([
                "ε as it turned out".into(),
                format!(
                    "{} at δ = {} (claimed before the run: {})",
                    epsilon("epsilon"),
                    at_most(quote::delta_with(self.plan, self.object["epsilon"].as_f64())),
                    epsilon("epsilon_claimed")
                ),
            ]);
        let opened_for = self.object.get("opened_for").and_then(Value::as_array);
        let names: Vec<&str> = opened_for
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if !names.is_empty() {
            let gone = "gone after the log, in the mean all the same";
            table.row(["opened for".into(), format!("{}: {gone}", names.join(", "))]);
        }
        table.render()
    }
}

/// Names the result of a sequence of means or sums.
fn last_of(plan: &Plan) -> String {
    match plan.draft().sums_everybody() {
        true => "sum of the means".to_owned(),
        false => format!("last {}", plan.draft().computation.result().name()),
    }
}

/// Whether the result is a mean of vectors that parties contribute, whose truth is known here.
fn averages_vectors(plan: &Plan) -> bool {
    matches!(
        plan.draft().computation,
        Computation::Mean {} | Computation::Stream(_)
    )
}

/// Whether each node has estimates of its own.
fn gossips(plan: &Plan) -> bool {
    plan.draft().averages()
}

/// How good a model is on public rows, for people.
fn tested(test: &Value) -> String {
    let share = |key: &str| test[key].as_f64();
    let quality = match (share("accuracy"), share("r2")) {
        (Some(accuracy), _) => format!("it names {:.1} % of their targets", 100.0 * accuracy),
        (None, Some(r2)) => format!("its R² is {}", number(r2)),
        _ => "nothing can be said of it".to_owned(),
    };
    format!("On {} rows that it was not fitted to {quality}.\n", test["rows"])
}

/// The parties whose data are in the result.
fn included(plan: &Plan, object: &Map<String, Value>) -> BTreeSet<Party> {
    let names = object
        .get("included")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let party = |name: &Value| {
        let mut members = plan.draft().members.iter();
        members.position(|member| *name == *member.name)
    };
    names.filter_map(party).collect()
}

/// Returns the entries from the plan, and those from the nodes.
fn of_nodes(plan: &Plan, ends: &Ends<'_>) -> Map<String, Value> {
    let object = json!({
        "parties": plan.parties(),
        "finished": ends.finished(),
        "included": ends.said_first("included"),
        "agreed": ends.said_first("agreed"),
        "outcome": ends.outcome(),
        "epsilon": ends.largest("epsilon"),
        "delta": plan.draft().privacy.delta,
        "epsilon_claimed": plan.epsilon_claimed(),
        "epsilon_searched": plan.epsilon_searched(),
        "threat": quote::threat(plan),
        "claims": plan.calibration().claims,
        "standard_error": ends.standard_error(),
        "error_floor": plan.predicted().error_floor,
        "weights": ends.said_first("weights"),
        "central": plan.predicted().central,
        "local": plan.predicted().local,
        "rounds": plan.mixing_rounds(),
        "wall_s": ends.largest("wall_s"),
        "private_bytes": ends.total("private_bytes"),
        "public_bytes": ends.total("public_bytes"),
        "peak_memory_bytes": ends.most("peak_memory_bytes"),
        "cpu_s": ends.cpu_s(),
        "exit_codes": ends.codes(),
        "digest": plan.digest_hex(),
        "exit_code": ends.exit(),
    });
    match object {
        Value::Object(object) => object,
        _ => unreachable!("json!({{…}}) makes an object"),
    }
}

/// Errors of the first node's mean against what the inputs' mean really is; null without a mean.
fn add_errors(object: &mut Map<String, Value>, ends: &Ends<'_>, truths: &Truths<'_>, means: &[Vec<f64>]) {
    let errors = means
        .first()
        .zip(ends.first())
        .map(|(mean, result)| truths.errors(mean, result));
    object.insert("rms_error".into(), json!(errors.as_ref().map(|e| e.rms)));
    object.insert("max_abs_error".into(), json!(errors.as_ref().map(|e| e.largest)));
    object.insert(
        "rms_error_plain".into(),
        json!(errors.as_ref().map(|e| e.rms_plain)),
    );
}

/// Columns with their true means and standard errors, where columns have names or units of their
/// own.
fn add_columns(
    object: &mut Map<String, Value>,
    plan: &Plan,
    ends: &Ends<'_>,
    truths: &Truths<'_>,
    means: &[Vec<f64>],
) {
    let Some(error) = ends.standard_error() else {
        return;
    };
    let standard_errors = shown::standard_errors(plan, error);
    if let Some((mean, result)) = means.first().zip(ends.first()) {
        let each = standard_errors.clone().unwrap_or_else(|| vec![error; mean.len()]);
        if let Some(columns) = truths.columns(mean, result, &each) {
            object.insert("columns".into(), columns);
        }
    }
    if let Some(errors) = standard_errors {
        object.insert("standard_errors".into(), errors.into());
    }
}

/// The means of each node; of a stream the last row, in which all its means are added up.
fn last_rows(plan: &Plan, mut means: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    if plan.draft().computation.stream().is_some() {
        let dimension = plan.draft().dimension();
        means
            .iter_mut()
            .for_each(|rows| drop(rows.drain(..rows.len().saturating_sub(dimension))));
    }
    means
}

/// How useful the result is, how far nodes' results are apart where each has its own, and what only
/// some plans have.
fn add_agreement(object: &mut Map<String, Value>, plan: &Plan, ends: &Ends<'_>, means: &[Vec<f64>]) {
    let mut insert = |key: &str, value: Value| drop(object.insert(key.into(), value));
    if let Some(error) = ends.standard_error() {
        insert("utility", Utility::with_error(plan, error).json());
    }
    let averages = plan.terms().is_some();
    if averages {
        insert("accuracy", json!(ends.largest("accuracy")));
        insert("accuracy_of_mean", json!(ends.largest("accuracy_of_mean")));
    }
    if averages || gossips(plan) {
        let apart = largest_difference(means, ends.standard_error());
        insert("largest_difference", json!(apart));
    }
    if gossips(plan) {
        insert("spread", ends.said_first("spread"));
    }
    if plan.draft().computation.stream().is_some() {
        for key in ["iterations", "iteration_ms"] {
            insert(key, ends.said_first(key));
        }
    }
    if plan.draft().run.sealed {
        insert("opened_for", ends.said_first("opened_for"));
    }
    if plan.draft().data.unit == Unit::Record {
        insert("records", (plan.total_weight() as u64).into());
    }
}

/// How far apart two nodes' means are in any coordinate, in standard errors.
fn largest_difference(means: &[Vec<f64>], standard_error: Option<f64>) -> Option<f64> {
    let spread = |i: usize| {
        let (low, high) = means.iter().fold((f64::MAX, f64::MIN), |(low, high), mean| {
            (low.min(mean[i]), high.max(mean[i]))
        });
        high - low
    };
    let largest = (0..means.first()?.len()).map(spread).fold(0.0, f64::max);
    standard_error.map(|error| largest / error)
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::peers::Peers;
    use undertone_protocol::plan::run_file::parsed::RunFile;

    use super::*;
    use crate::planning::make;
    use crate::vector_file::layout::{Dtype, Layout};
    use crate::vector_file::vector::VectorFile;

    /// Degraded nodes may hold no mean: then there is none to show, and nothing is read from the
    /// disk.
    #[test]
    fn degraded_nodes_without_a_mean_are_reported_as_such() {
        let run = RunFile::parse("name = \"x\"\n[data]\nshape = [2]\n[mechanism]\nrounds = 3", 3).unwrap();
        let peers = Peers::simulated(3).unwrap();
        let plan = make::make(run, &peers, 1).unwrap();
        let party = |peer: &undertone_protocol::plan::peers::Peer| LocalParty {
            told: vec![],
            name: peer.name.clone(),
            input: "absent.npy".into(),
            vector: VectorFile {
                layout: Layout::npy(vec![2], Dtype::F64),
                values: vec![0.1, 0.2],
            },
            records: None,
        };
        let parties: Vec<LocalParty> = peers.as_slice().iter().map(party).collect();
        let said = json!({
            "finished": 0,
            "outcome": "degraded",
            "agreed": true,
            "included": [parties[0].name],
            "weights": {},
            "epsilon": 0.5,
            "reason": "no mean was written: what is left carries too little weight",
        });
        let end = |party: &LocalParty| {
            (
                party.name.clone(),
                NodeEnd {
                    code: Some(5),
                    result: Some(said.clone()),
                },
            )
        };
        let ends: BTreeMap<String, NodeEnd> = parties.iter().map(end).collect();
        let summary = Summary::of(&plan, &parties, &ends, Path::new("/nowhere"), Instant::now()).unwrap();
        let object = summary.json();
        assert_eq!(
            (&object["finished"], &object["outcome"], &object["exit_code"]),
            (&json!(0), &json!("degraded"), &json!(5))
        );
        assert_eq!(
            (
                &object["rms_error"],
                &object["standard_error"],
                &object["epsilon"]
            ),
            (&Value::Null, &Value::Null, &json!(0.5))
        );
        let text = summary.text(None);
        assert!(
            text.contains("No mean: degraded") && text.contains("too little weight"),
            "{text}"
        );
    }
}
