//! What a local run came to: the final object, and the same as a table that a person can read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};
use undertone_protocol::plan::Plan;
use undertone_protocol::run_file::{Data, Unit};

use super::cluster::NodeEnd;
use super::parties::LocalParty;
use super::party_folder;
use crate::clipping;
use crate::failure::{Exit, Failure};
use crate::quote;
use crate::result;
use crate::table::{Table, at_most, bytes, number};
use crate::vector_file;

/// The exit code that stands for a killed node (128 + SIGKILL, as a shell has it).
const KILLED: i32 = 137;

/// The sum of all nodes' ends.
pub(super) struct Summary<'a> {
    plan: &'a Plan,
    object: Map<String, Value>,
    exit: i32,
    same_bits: bool,
    demonstration: bool,
    /// What nodes said that have no mean.
    reasons: BTreeMap<String, String>,
}

/// Errors against what the inputs' mean really is.
struct TrueErrors {
    rms: f64,
    largest: f64,
    rms_plain: f64,
}

impl<'a> Summary<'a> {
    pub(super) fn of(
        plan: &'a Plan,
        parties: &[LocalParty],
        ends: &BTreeMap<String, NodeEnd>,
        output: &Path,
        begun: Instant,
    ) -> Result<Self, Failure> {
        let results: Vec<(&String, &Value)> = ends
            .iter()
            .filter_map(|(name, end)| Some((name, end.result.as_ref()?)))
            .collect();
        let finished: Vec<(&String, &Value)> =
            // A degraded node may hold no mean: what was left carried too much noise.
            results.iter().copied().filter(|(_, r)| r["finished"] == 1).collect();
        let first = finished.first().or(results.first()).map(|(_, result)| *result);
        let exit = overall_exit(ends);
        let largest = |key: &str| {
            results
                .iter()
                .filter_map(|(_, r)| r[key].as_f64())
                .reduce(f64::max)
        };
        let total = |key: &str| results.iter().filter_map(|(_, r)| r[key].as_u64()).sum::<u64>();
        let means = means(parties, &finished, output)?;
        let same_bits = means.windows(2).all(|pair| pair[0] == pair[1]);
        let truths: Vec<Truth> = parties
            .iter()
            .map(|party| Truth::of(&plan.draft().data, party))
            .collect();
        let plain = plain_mean(plan, &truths);
        let errors = match (means.first(), first) {
            (Some(mean), Some(result)) => Some(true_errors(
                mean,
                &mean_of_included(parties, &truths, result, |truth| &truth.kept),
                &plain,
            )),
            _ => None,
        };
        let standard_error = finished
            .iter()
            .filter_map(|(_, r)| r["standard_error"].as_f64())
            .reduce(f64::max);
        let take = |key: &str| first.map_or(Value::Null, |result| result[key].clone());
        let object = json!({
            "parties": plan.parties(),
            "finished": finished.len(),
            "included": take("included"),
            "agreed": take("agreed"),
            "outcome": outcome(&finished, first, exit),
            "epsilon": largest("epsilon"),
            "delta": plan.draft().privacy.delta,
            "epsilon_claimed": plan.epsilon_claimed(),
            "epsilon_searched": plan.epsilon_searched(),
            "threat": quote::threat(plan),
            "claims": plan.calibration().claims,
            "standard_error": standard_error,
            "error_floor": plan.calibration().predicted.error_floor,
            "weights": take("weights"),
            "clipped": truths.iter().map(|truth| truth.clipped).sum::<usize>(),
            "rms_error": errors.as_ref().map(|e| e.rms),
            "max_abs_error": errors.as_ref().map(|e| e.largest),
            "rms_error_plain": errors.as_ref().map(|e| e.rms_plain),
            "central": plan.calibration().predicted.central,
            "local": plan.calibration().predicted.local,
            "rounds": plan.rounds(),
            "wall_s": largest("wall_s"),
            "total_wall_s": begun.elapsed().as_secs_f64(),
            "private_bytes": total("private_bytes"),
            "public_bytes": total("public_bytes"),
            "peak_memory_bytes": results.iter().filter_map(|(_, r)| r["peak_memory_bytes"].as_u64()).max(),
            "cpu_s": results.iter().filter_map(|(_, r)| r["cpu_s"].as_f64()).sum::<f64>(),
            "same_bits": same_bits,
            "exit_codes": ends.iter().map(|(name, end)| (name.clone(), end.code.unwrap_or(KILLED))).collect::<BTreeMap<_, _>>(),
            "digest": plan.digest_hex(),
            "exit_code": exit,
        });
        let Value::Object(mut object) = object else {
            unreachable!("json!({{…}}) makes an object")
        };
        if plan.terms().is_some() {
            object.insert("accuracy".into(), json!(largest("accuracy")));
            object.insert("accuracy_of_mean".into(), json!(largest("accuracy_of_mean")));
            object.insert(
                "largest_difference".into(),
                json!(largest_difference(&means, standard_error)),
            );
        }
        let standard_errors = standard_error.and_then(|error| result::standard_errors(plan, error));
        if let (Some(mean), Some(error), Some(result)) = (means.first(), standard_error, first) {
            let each = standard_errors.clone().unwrap_or_else(|| vec![error; mean.len()]);
            let truth = mean_of_included(parties, &truths, result, |truth| &truth.plain);
            if let Some(columns) = columns(plan, parties, mean, &truth, &each) {
                object.insert("columns".into(), columns);
            }
        }
        if let Some(errors) = standard_errors {
            object.insert("standard_errors".into(), errors.into());
        }
        if plan.draft().data.unit == Unit::Record {
            object.insert("records".into(), (plan.draft().total_weight() as u64).into());
        }
        let said = |result: &Value| {
            Some(
                result["error"]["message"]
                    .as_str()
                    .or(result["reason"].as_str())?
                    .to_owned(),
            )
        };
        let reasons = results
            .iter()
            .filter_map(|(name, result)| Some(((*name).clone(), said(result)?)))
            .collect();
        Ok(Summary {
            plan,
            object,
            exit,
            same_bits,
            demonstration: false,
            reasons,
        })
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
        text += &self.column_table();
        text += &self.protection();
        text += &self.errors();
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
        let included = self.object["included"].as_array().map_or(0, Vec::len);
        let within = self.object.get("largest_difference").and_then(Value::as_f64);
        let bits =
            within.map(|apart| format!("all are within {} standard errors of each other", number(apart)));
        let same = if self.same_bits {
            "all hold the same bits"
        } else {
            "THEY DO NOT HOLD THE SAME BITS"
        };
        let bits = bits.unwrap_or_else(|| same.to_owned());
        let records = self
            .object
            .get("records")
            .map_or(String::new(), |all| format!(" ({all} records in the plan)"));
        let mut text = format!(
            "\nThe mean of {included} of {parties} parties{records} over {} coordinates; {finished} nodes have it, {bits}.\n",
            self.plan.draft().dimension()
        );
        text += &self.nodes_that_failed();
        text + "\n"
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
        let epsilon = |key: &str| match self.object[key].as_f64() {
            Some(epsilon) => format!(
                "{} at δ = {:e}",
                at_most(epsilon),
                self.plan.draft().privacy.delta
            ),
            None => "–".into(),
        };
        let mut table = Table::new();
        table
            .row(["protected".into(), quote::protected(self.plan)])
            .row(["against".into(), quote::threat(self.plan)])
            .row(["ε claimed before the run".into(), epsilon("epsilon_claimed")])
            .row(["ε as it turned out".into(), epsilon("epsilon")]);
        table.render() + "\n"
    }

    fn errors(&self) -> String {
        let scale = if self.plan.scales().differ() {
            "root mean square over columns"
        } else {
            "per coordinate"
        };
        let mut table = Table::with_headings(["error of the mean", scale]);
        let mut row = |what: &str, key: &str| {
            if let Some(value) = self.object[key].as_f64() {
                table.row([what.into(), number(value)]);
            }
        };
        row("accounted (noise, standard error)", "standard_error");
        row("true (rms against the clipped mean)", "rms_error");
        row(
            "true (rms against the plain mean of raw inputs)",
            "rms_error_plain",
        );
        row("a trusted server would have given", "central");
        row("purely local noise would have given", "local");
        table.render()
    }
}

impl Summary<'_> {
    /// Each column's private mean beside the true one, where columns have names or units of their own.
    fn column_table(&self) -> String {
        let Some(columns) = self.object.get("columns").and_then(Value::as_array) else {
            return String::new();
        };
        let mut table = Table::with_headings([
            "column",
            "private mean",
            "± standard error",
            "true mean",
            "difference",
        ]);
        for column in columns.iter().take(MOST_COLUMNS) {
            let shown = |key: &str| column[key].as_f64().map_or("–".into(), number);
            let name = column["name"].as_str().unwrap_or("–").to_owned();
            table.row([
                name,
                shown("mean"),
                shown("standard_error"),
                shown("true_mean"),
                shown("error"),
            ]);
        }
        let more = match columns.len().saturating_sub(MOST_COLUMNS) {
            0 => String::new(),
            more => format!("  … and {more} more columns (with --json, or in summary.json)\n"),
        };
        table.render() + &more + "\n"
    }

    /// The demonstration in words.
    fn sentence(&self) -> String {
        let epsilon = self.object["epsilon"].as_f64();
        let (Some(epsilon), true) = (epsilon, self.demonstration) else {
            return String::new();
        };
        format!(
            "\nWhat was protected: any single patient, all {} columns together. Whoever reads all that these nodes published, even with one \
             hospital's help,\ncan hardly tell whether that patient's record is the true one or any other within the public bounds (ε = {} at δ = {:e}), \
             and no hospital\nshowed its data to anybody. The patients are made up; bring your own with --inputs DIR --run RUN.toml, and take the bounds from what\n\
             you know of each quantity, never from the data.\n",
            self.plan.draft().dimension(),
            at_most(epsilon),
            self.plan.draft().privacy.delta,
        )
    }
}

/// The worst of the nodes' codes; a killed node makes it 5 at least.
fn overall_exit(ends: &BTreeMap<String, NodeEnd>) -> i32 {
    Exit::worst(ends.values().map(|end| end.code.unwrap_or(Exit::Degraded.code())))
}

fn outcome(finished: &[(&String, &Value)], first: Option<&Value>, exit: i32) -> Value {
    if finished.is_empty() {
        return first.map_or(json!("aborted"), |result| {
            result.get("outcome").cloned().unwrap_or(json!("aborted"))
        });
    }
    if exit == 0 {
        json!("done")
    } else {
        json!("degraded")
    }
}

fn means(
    parties: &[LocalParty],
    finished: &[(&String, &Value)],
    output: &Path,
) -> Result<Vec<Vec<f64>>, Failure> {
    let read = |(name, _): &(&String, &Value)| {
        let extension = parties
            .iter()
            .find(|p| p.name == **name)
            .and_then(|p| p.input.extension()?.to_str())
            .unwrap_or("npy");
        Ok(vector_file::read(&party_folder(output, name).join(format!("mean.{extension}")))?.values)
    };
    finished.iter().map(read).collect()
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

/// What a party's data really come to.
struct Truth {
    /// Its vector, or the mean of its records.
    plain: Vec<f64>,
    /// The same after clipping.
    kept: Vec<f64>,
    /// How many vectors or records clipping changed.
    clipped: usize,
}

impl Truth {
    fn of(data: &Data, party: &LocalParty) -> Self {
        let mut values = party.vector.values.clone();
        let plain = clipping::mean_of_rows(&values, data.dimension());
        let clipped = clipping::clip_all(data, &mut values);
        Truth {
            plain,
            kept: clipping::mean_of_rows(&values, data.dimension()),
            clipped,
        }
    }
}

/// The mean of everybody's raw data, by public weight or over all records.
fn plain_mean(plan: &Plan, truths: &[Truth]) -> Vec<f64> {
    let total = plan.draft().total_weight();
    let weights: Vec<f64> = (0..plan.parties())
        .map(|party| plan.draft().weight(party) / total)
        .collect();
    (0..plan.draft().dimension())
        .map(|i| {
            weights
                .iter()
                .zip(truths)
                .map(|(b, truth)| b * truth.plain[i])
                .sum()
        })
        .collect()
}

/// Σ bᵢxᵢ with the weights of a result, over what `of` takes of each party.
fn mean_of_included(
    parties: &[LocalParty],
    truths: &[Truth],
    result: &Value,
    of: fn(&Truth) -> &Vec<f64>,
) -> Vec<f64> {
    let weights: Vec<f64> = parties
        .iter()
        .map(|p| result["weights"][&p.name].as_f64().unwrap_or(0.0))
        .collect();
    let dimension = truths.first().map_or(0, |truth| of(truth).len());
    (0..dimension)
        .map(|i| {
            weights
                .iter()
                .zip(truths)
                .map(|(b, truth)| b * of(truth)[i])
                .sum()
        })
        .collect()
}

fn true_errors(mean: &[f64], kept: &[f64], plain: &[f64]) -> TrueErrors {
    let rms = |truth: &[f64]| {
        (mean.iter().zip(truth).map(|(m, t)| (m - t).powi(2)).sum::<f64>() / mean.len() as f64).sqrt()
    };
    TrueErrors {
        rms: rms(kept),
        largest: mean
            .iter()
            .zip(kept)
            .map(|(m, t)| (m - t).abs())
            .fold(0.0, f64::max),
        rms_plain: rms(plain),
    }
}

/// Rows of the table; the object has more.
const MOST_COLUMNS: usize = 40;
/// Columns of the object. Our choice: what is longer is a vector.
const MOST_LISTED: usize = 10_000;

/// One entry for each column, where columns have names or units of their own. The true mean is that of the raw data of those included.
fn columns(
    plan: &Plan,
    parties: &[LocalParty],
    mean: &[f64],
    truth: &[f64],
    errors: &[f64],
) -> Option<Value> {
    let names = parties
        .iter()
        .find_map(|party| party.vector.layout.columns())
        .filter(|names| names.len() == mean.len());
    if mean.len() > MOST_LISTED || (names.is_none() && !plan.scales().differ()) {
        return None;
    }
    let column = |i: usize| {
        let name = names.map_or_else(|| (i + 1).to_string(), |names| names[i].clone());
        json!({ "name": name, "mean": mean[i], "true_mean": truth[i], "standard_error": errors[i], "error": mean[i] - truth[i] })
    };
    Some((0..mean.len()).map(column).collect())
}

#[cfg(test)]
mod tests {
    use undertone_protocol::peers::Peers;
    use undertone_protocol::run_file::RunFile;

    use super::*;
    use crate::plan_command;
    use crate::vector_file::{Dtype, Layout, VectorFile};

    /// Degraded nodes may hold no mean: then there is none to show, and nothing is read from the disk.
    #[test]
    fn degraded_nodes_without_a_mean_are_told_of_as_such() {
        let run = RunFile::parse("name = \"x\"\n[data]\nshape = [2]\n[mechanism]\nrounds = 3", 3).unwrap();
        let peers = Peers::simulated(3, None).unwrap();
        let plan = plan_command::make(run, &peers, 1).unwrap();
        let party = |peer: &undertone_protocol::peers::Peer| LocalParty {
            name: peer.name.clone(),
            input: "absent.npy".into(),
            vector: VectorFile {
                layout: Layout::npy(vec![2], Dtype::F64),
                values: vec![0.1, 0.2],
            },
            records: None,
        };
        let parties: Vec<LocalParty> = peers.as_slice().iter().map(party).collect();
        let said = json!({ "finished": 0, "outcome": "degraded", "agreed": true, "included": [parties[0].name], "weights": {}, "epsilon": 0.5,
            "reason": "no mean was written: what is left carries too little weight" });
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
