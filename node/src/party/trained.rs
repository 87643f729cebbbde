//! The account of a training: how far it came, and its total loss.

use serde_json::{Value, json};
use undertone_accountant::gate::verdict::Audit;
use undertone_accountant::losses::{gaussian, releases};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::rounds::ReleaseKind;
use undertone_protocol::plan::computation::stream::Protect;
use undertone_protocol::run::outcome::TrainingOutcome;
use undertone_protocol::topology::party::Party;

/// A training in an account.
#[derive(Clone, Debug)]
pub(super) struct Trained {
    /// Whether there is a model.
    pub(super) has_model: bool,
    /// The reason why there is none, or one of fewer iterations or parties than planned.
    pub(super) reason: Option<String>,
    /// How far it came, as receipts and final objects say it.
    pub(super) iterations: Value,
    /// The reason why it ended before its last iteration, if it did.
    stopped: Option<String>,
    /// The kind of each round's release, where there is no model.
    result: Option<ReleaseKind>,
    /// The loss of the iteration that cost most.
    pub(super) mu_iteration: Option<f64>,
    /// The further entries of an account of sums of everybody, where it is one.
    pub(super) stream: Option<SummedStream>,
}

/// A stream of sums of everybody in an account.
#[derive(Clone, Copy, Debug)]
pub(super) struct SummedStream {
    /// The standard error of its last row, the means of all rounds, each of who was there.
    pub(super) standard_error: f64,
    protect: Protect,
}

impl SummedStream {
    fn of(plan: &Plan, training: &TrainingOutcome) -> Option<Self> {
        let departed: Vec<u64> = training.departed.values().copied().collect();
        let of_use =
            |round: &u64| !training.rejected.contains(round) && !training.unopened.contains_key(round);
        let rounds = (1..=training.iterations).filter(of_use);
        protect(plan).map(|protect| SummedStream {
            standard_error: stream_error(plan, rounds, &departed),
            protect,
        })
    }
}

/// Which releases one change may be in, of a stream of sums of everybody; `None` of any other task.
pub(super) fn protect(plan: &Plan) -> Option<Protect> {
    let draft = plan.draft();
    draft.sums_everybody().then(|| draft.computation.protect())
}

/// Returns the standard error of the last row of a stream of sums of everybody: the means of these
/// rounds, each of who was there. `departed`: since which round each who left is missing.
pub(crate) fn stream_error(plan: &Plan, rounds: impl Iterator<Item = u64>, departed: &[u64]) -> f64 {
    let there = |round: u64| {
        let departed_by_then = departed.iter().filter(|since| **since <= round);
        plan.parties().saturating_sub(departed_by_then.count()) as f64
    };
    let square: f64 = rounds.map(|round| 1.0 / there(round)).sum();
    plan.calibration().independent_std * square.sqrt() * plan.scales().root_mean_square()
}

impl Trained {
    /// Returns the account of a training. `audit` is that of the iteration that cost most, and
    /// becomes that of all of them.
    pub(super) fn of(plan: &Plan, training: &TrainingOutcome, audit: &mut Option<Audit>) -> Self {
        let mu_iteration = audit.as_ref().map(|audit| audit.mu);
        *audit = audit.take().map(|audit| together(plan, training, audit));
        let means = plan.draft().computation.model().is_none();
        Trained {
            has_model: training.result.is_some(),
            result: means.then_some(plan.draft().computation.result()),
            reason: reason(plan, training),
            iterations: iterations(plan, training),
            stopped: training.stopped.clone(),
            mu_iteration,
            stream: SummedStream::of(plan, training),
        }
    }
}

impl Trained {
    /// Whether it fits a model, whose noise nobody knows.
    pub(super) fn fits_model(&self) -> bool {
        self.result.is_none()
    }

    /// That this party did not follow it to its end, for people.
    pub(super) fn fell_out(&self) -> Option<String> {
        let (run, planned) = (&self.iterations["run"], &self.iterations["planned"]);
        self.stopped.as_ref().map(|stopped| {
            format!(
                "this party followed {run} of {planned} iterations, and the others may have gone on without it: {stopped}"
            )
        })
    }

    /// Adds the entries of a training to a receipt.
    pub(super) fn add_to(&self, receipt: &mut Value) {
        receipt["iterations"] = self.iterations.clone();
        if let Some(result) = self.result {
            receipt["result"] = json!(result);
        }
        if let Some(stream) = self.stream {
            receipt["protect"] = json!(stream.protect);
        }
        receipt["mu_iteration"] = json!(self.mu_iteration.filter(|mu| mu.is_finite()));
    }
}

/// The audit of all iterations that have cost this node, from that of the one that cost most.
///
/// Where one of them may have been opened without this node, the last one or one that was passed
/// over since a secret was lacking, its loss is not known: it is no larger than what the others'
/// gate lets through.
fn together(plan: &Plan, training: &TrainingOutcome, audit: Audit) -> Audit {
    let most = match training.stopped.is_some() || !training.unopened.is_empty() {
        true => audit
            .mu
            .max(releases::budget(plan.draft()).unwrap_or(f64::INFINITY)),
        false => audit.mu,
    };
    let counted = training.spent.min(plan.draft().protected_releases());
    let mu = releases::together(most, counted);
    let epsilon = gaussian::epsilon(plan.draft().privacy.delta, mu).unwrap_or(f64::INFINITY);
    Audit { mu, epsilon, ..audit }
}

/// Returns how many iterations the plan has.
pub(crate) fn planned(plan: &Plan) -> u64 {
    let draft = plan.draft();
    let recursion = draft.computation.recursion();
    recursion.map_or(draft.releases(), |recursion| recursion.iterations)
}

fn iterations(plan: &Plan, training: &TrainingOutcome) -> Value {
    let members = &plan.draft().members;
    let departed = training.departed.iter();
    let departed = departed.map(|(&party, since)| (members[party].name.clone(), json!(since)));
    let mut iterations = json!({
        "planned": planned(plan),
        "run": training.iterations,
        "spent": training.spent,
        "corrected": training.corrected,
        "rejected": training.rejected,
        "departed": departed.collect::<serde_json::Map<_, _>>(),
    });
    if !training.unopened.is_empty() {
        let named = |parties: &Vec<Party>| -> Vec<&str> {
            let names = parties.iter().map(|&party| members[party].name.as_str());
            names.collect()
        };
        let unopened = training.unopened.iter();
        let unopened = unopened.map(|(iteration, lacking)| (iteration.to_string(), json!(named(lacking))));
        iterations["unopened"] = Value::Object(unopened.collect());
    }
    if plan.precomputes_noise() {
        iterations["mixings"] = json!(training.mixings);
    }
    iterations
}

fn reason(plan: &Plan, training: &TrainingOutcome) -> Option<String> {
    let (run, planned) = (training.iterations, planned(plan));
    let (what, each) = match plan.draft().computation.model() {
        Some(_) => ("model".to_owned(), "iteration"),
        None if plan.draft().sums_everybody() => ("stream".to_owned(), "round"),
        None => (
            format!("last {}", plan.draft().computation.result().name()),
            "round",
        ),
    };
    if let (Some(stopped), Some(_)) = (&training.stopped, plan.draft().computation.recursion()) {
        return Some(format!(
            "it ended after {run} of {planned} outer iterations, with this party's last iterate: {stopped}"
        ));
    }
    if let Some(stopped) = &training.stopped {
        return Some(match run {
            0 => stopped.clone(),
            _ if plan.draft().sums_everybody() => {
                format!("the stream ended after {run} of {planned} {each}s: {stopped}")
            }
            _ => format!("the training ended after {run} of {planned} {each}s: {stopped}"),
        });
    }
    if !training.departed.is_empty() {
        let members = &plan.draft().members;
        let departed = training.departed.iter();
        let named = |(&party, since): (&Party, &u64)| {
            let unopened = training.unopened.get(since);
            let lacking = unopened.is_some_and(|lacking| lacking.contains(&party));
            let why = if lacking {
                ", whose secret could not be opened"
            } else {
                ""
            };
            format!("{} since {each} {since}{why}", members[party].name)
        };
        let names: Vec<String> = departed.map(named).collect();
        return Some(format!("the {what} is without {}", names.join(", without ")));
    }
    let rejected = training.rejected.len();
    (rejected > 0).then(|| {
        format!(
            "{rejected} of {planned} sums were further out than contributions and noise can be: \
             somebody lied, or a value overflowed, and the {what} stayed as it was"
        )
    })
}

#[cfg(test)]
mod tests;
