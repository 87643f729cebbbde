//! `benchmark --disseminations --simulated`: both ways to publish, with more parties than there is
//! room for processes: the machines of all nodes, real plans, noise and gate, over a simulated
//! network on which every message takes a millisecond and nothing else takes any time. So the clock
//! counts messages on the critical path, and bytes are counted as they would travel, but for a
//! frame's length.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::defaults::Defaults;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::plan::run_file::settings::Dissemination;
use undertone_protocol::run::outcome::Outcome;
use undertone_protocol::simulator::invariants::mass::largest_difference;
use undertone_protocol::simulator::scenario::{Conditions, Purpose, Report as Simulated};

use crate::measuring::disseminations::{DEGREE, WAYS, run_file};
use crate::measuring::failed::failed;
use crate::measuring::trial::Trial;
use crate::planning::make;
use crate::telling::failure::Failure;
use crate::telling::output;
use crate::telling::report::Report;
use crate::telling::table::{Table, bytes, number};

const MESSAGE_MS: u64 = 1;

/// A row of the table for each number of parties and way.
pub(crate) fn run(numbers: &[usize], dimension: usize, seed: u64) -> Result<Report, Failure> {
    let mut table = Table::with_headings([
        "parties",
        "finals spread by",
        "public bytes of a party",
        "of it finals",
        "logs",
        "votes",
        "gathering",
        "the plan's guess",
        "messages in a row",
        "accuracy",
        "auto",
    ]);
    let mut rows = vec![];
    for &parties in numbers {
        // One plan in two ways, over the same graphs, with the same seed.
        let plans = Plans::of(parties, dimension, seed)?;
        let mut row = json!({ "parties": parties, "auto": plans.auto });
        for (way, plan) in WAYS.iter().zip(plans.ways) {
            output::tell(format_args!("{parties} parties, {way} …"));
            let sample = sample(&plan, seed)?;
            // What each purpose took of a party's bytes.
            let share = |purposes: &[Purpose]| {
                let sum: u64 = purposes
                    .iter()
                    .filter_map(|purpose| sample[purpose.name()].as_u64())
                    .sum();
                bytes(sum)
            };
            let told = |key: &str| sample[key].as_u64().unwrap_or(0);
            table.row([
                parties.to_string(),
                (*way).into(),
                bytes(told("public_bytes_per_party")),
                share(&[Purpose::Finals, Purpose::Averaging]),
                share(&[Purpose::Logs]),
                share(&[Purpose::Votes]),
                share(&[Purpose::Gathering]),
                bytes(told("predicted_public_bytes_per_party")),
                told("messages_in_a_row").to_string(),
                number(sample["largest_difference"].as_f64().unwrap_or(f64::NAN)),
                if plans.auto == *way {
                    "chosen".into()
                } else {
                    String::new()
                },
            ]);
            row[*way] = sample;
        }
        rows.push(row);
    }
    let title = format!(
        "simulated, {dimension} coordinates, random-regular graphs of degree {DEGREE}, seed {seed}\n"
    );
    let note = "Accuracy: the largest difference of a node's mean from the exact one, in standard errors. \
                Messages in a row: from START to the last result.\n";
    let object = json!({ "dimension": dimension, "seed": seed, "simulated": rows, "exit_code": 0 });
    Ok(Report::done(object, title + &table.render() + note))
}

/// One calibration, and what the plan is with it for each way.
struct Plans {
    ways: [Arc<Plan>; 2],
    /// What `dissemination = "auto"` comes to.
    auto: &'static str,
}

impl Plans {
    fn of(parties: usize, dimension: usize, seed: u64) -> Result<Self, Failure> {
        let refused = |e: undertone_protocol::plan::run_file::error::RunFileError| {
            Failure::usage(e.to_string()).field("--simulated")
        };
        let mut raw = RawRunFile::parse(&run_file(parties, WAYS[1])).map_err(refused)?;
        raw.data.shape = Some(vec![dimension]);
        // The noise is what an average in public has room for, whichever way it is then.
        let run = raw.resolve(parties, Defaults::Local).map_err(refused)?;
        let peers = Peers::simulated(parties, None)
            .map_err(|e| Failure::usage(e.to_string()).field("--simulated"))?;
        let (draft, calibration) = make::calibrated(run, &peers, seed)?;
        let plan = |dissemination| {
            let mut draft = draft.clone();
            draft.run.dissemination = dissemination;
            make::assemble(draft, calibration.clone()).map(Arc::new)
        };
        let auto = match plan(Dissemination::Auto)?.terms() {
            None => WAYS[0],
            Some(_) => WAYS[1],
        };
        Ok(Plans {
            ways: [plan(Dissemination::Flood)?, plan(Dissemination::Consensus)?],
            auto,
        })
    }
}

/// One run, which must end well for everybody.
fn sample(plan: &Arc<Plan>, seed: u64) -> Result<Value, Failure> {
    let latency_us = (1000 * MESSAGE_MS, 1000 * MESSAGE_MS);
    let conditions = Conditions {
        latency_us,
        instant: true,
        ..Conditions::new(seed)
    };
    let report = Trial::new(plan.clone(), seed).simulate(conditions);
    if let Some(violation) = report.violations.first() {
        return Err(failed(violation));
    }
    let parties = plan.parties() as u64;
    let private: u64 = report.bytes.iter().map(|(private, _)| private).sum();
    let public: u64 = report.bytes.iter().map(|(_, public)| public).sum();
    let predicted = plan.calibration().predicted.bytes_per_party;
    let purposes = report
        .purposes
        .iter()
        .map(|(purpose, sum)| (purpose.name().to_owned(), json!(sum / parties)));
    let mut object: Map<String, Value> = purposes.collect();
    let Some((difference, bound)) = accuracy(plan, &report) else {
        return Err(failed("a node ended without a mean"));
    };
    object.insert("public_bytes_per_party".into(), json!(public / parties));
    object.insert("private_bytes_per_party".into(), json!(private / parties));
    object.insert("predicted_bytes_per_party".into(), json!(predicted));
    object.insert(
        "predicted_public_bytes_per_party".into(),
        json!(predicted.saturating_sub(private / parties)),
    );
    object.insert(
        "messages_in_a_row".into(),
        json!(longest_ms(&report) / MESSAGE_MS),
    );
    object.insert(
        "rounds_of_averaging".into(),
        json!(plan.terms().map(|terms| terms.expected_rounds)),
    );
    object.insert("largest_difference".into(), json!(difference));
    object.insert("largest_difference_claimed".into(), json!(bound));
    Ok(Value::Object(object))
}

/// From START to the last result.
fn longest_ms(report: &Simulated) -> u64 {
    let begun = report
        .outcomes
        .iter()
        .flatten()
        .filter_map(|outcome| outcome.started_at)
        .min();
    let ended = report.finished_at.iter().flatten().max();
    ended
        .zip(begun)
        .map_or(0, |(ended, begun)| ended.as_millis() - begun.as_millis())
}

/// The largest difference of any node's mean from that of all noisy values, in standard errors, and
/// what they say of it. None if a node has no mean over all parties.
fn accuracy(plan: &Plan, report: &Simulated) -> Option<(f64, f64)> {
    let exact = report.sum_over(&(0..plan.parties()).collect())?;
    let lattice = plan.lattice();
    let (mut largest, mut claimed) = (0f64, 0f64);
    for outcome in &report.outcomes {
        let Outcome {
            sum: Some(sum),
            included,
            accuracy,
            ..
        } = outcome.as_ref()?
        else {
            return None;
        };
        if included.len() < plan.parties() {
            return None;
        }
        let in_result =
            lattice.step() / lattice.weight_to_f64(sum.weight.0) * plan.scales().root_mean_square();
        let standard_error = plan.calibration().predicted.standard_error;
        largest = largest.max(largest_difference(&sum.value, &exact) * in_result / standard_error);
        claimed = claimed.max(accuracy.map_or(0.0, |accuracy| accuracy.standard_errors));
    }
    Some((largest, claimed))
}
