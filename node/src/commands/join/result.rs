//! The output of `join`: the final object, and a text for people.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::settings::Unit;

use crate::commands::shown::{ERROR, Shown, model_json, model_table, standard_errors};
use crate::party::driver::Finish;
use crate::party::figures_file::text::{ShownAs, text as table_of_figures};
use crate::party::receipt::Account;
use crate::party::silence::Silence;
use crate::planning::gain::Gain;
use crate::planning::quote;
use crate::planning::utility::Utility;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::process;
use crate::reporting::report::{Report, lower_first};
use crate::reporting::table::{Table, at_most, bytes, number};

/// A result, and whether its files could be written.
pub struct Delivery {
    /// The account of the run.
    pub account: Account,
    /// The mean, if there is one.
    pub values: Option<Vec<f64>>,
    /// The reason why the mean could not be written, although there is one.
    pub mean: Option<Failure>,
    /// The reason why the receipt could not be written.
    pub receipt: Option<Failure>,
    /// Rounds to which this party contributed nothing.
    pub silence: Silence,
    /// The names of the mean's columns, if they have any.
    pub names: Option<Vec<String>>,
    /// Where the mean goes, and where the receipt goes if anywhere.
    pub places: Vec<PathBuf>,
}

impl Delivery {
    /// Returns the exit code of the process: the run's code. Where that is 0 although this party
    /// contributed nothing to some of its rounds, it is 5.
    pub fn exit(&self) -> Exit {
        if let Some(failure) = self.unwritten() {
            return failure.exit;
        }
        self.silence.exit(self.account.exit())
    }

    /// Whether a mean was written.
    pub fn finished(&self) -> bool {
        self.account.finished() && self.mean.is_none()
    }

    /// Whether something that there is was not written.
    pub fn is_unwritten(&self) -> bool {
        self.unwritten().is_some()
    }

    fn unwritten(&self) -> Option<&Failure> {
        self.mean.as_ref().or(self.receipt.as_ref())
    }
}

/// Facts about the private input, for its owner only.
#[derive(Default)]
pub struct Owners {
    /// How many of its vectors or records were clipped; none unless asked for.
    pub clipped: Option<usize>,
    /// The error of each parameter of a model, by the curvature of its rows; none unless they are
    /// asked for, or a terminal shows them.
    pub errors: Option<Vec<f64>>,
    /// Whether these errors are kept back, since nobody has asked for them.
    pub keeps_back: bool,
    /// A sentence on the effect of clipping; `None` unless a terminal shows it.
    pub sentence: Option<String>,
}

/// The report of `join`.
pub fn report(plan: &Plan, finish: &Finish, delivery: &Delivery, owners: Owners, begun: Instant) -> Report {
    let mut json = object(plan, finish, delivery, owners.clipped, begun);
    let fitted = plan.draft().computation.fitted(delivery.values.as_deref());
    if let Some((settings, model)) = fitted.filter(|_| delivery.account.finished()) {
        json["coefficients"] = json!(model_json(settings, model, owners.errors.as_deref()));
    }
    let mut text = text(plan, &json, delivery, &owners);
    if let Some(sentence) = owners.sentence {
        text += &format!("\nOnly this terminal shows it: {sentence}.\n");
    }
    Report {
        json,
        text,
        exit: delivery.exit().code(),
    }
}

fn object(
    plan: &Plan,
    finish: &Finish,
    delivery: &Delivery,
    clipped: Option<usize>,
    begun: Instant,
) -> Value {
    let account = &delivery.account;
    let mut object = json!({
        "party": account.party(),
        "parties": plan.parties(),
        "finished": u32::from(delivery.finished()),
        "included": account.included(),
        "agreed": account.agreed(),
        "outcome": account.outcome(),
        "reason": account.reason(),
        "epsilon": account.epsilon(),
        "delta": plan.draft().privacy.delta,
        "epsilon_claimed": plan.epsilon_claimed(),
        "epsilon_searched": plan.epsilon_searched(),
        "threat": quote::threat(plan),
        "claims": plan.calibration().claims,
        "standard_error": account.standard_error(),
        "error_floor": plan.predicted().error_floor,
        "weights": account.weights(),
        "departed": account.departed(),
        "rounds": plan.mixing_rounds(),
        "wall_s": finish.wall_s,
        "total_wall_s": begun.elapsed().as_secs_f64(),
        "links": finish.links,
        "private_bytes": finish.private_bytes,
        "public_bytes": finish.public_bytes,
        "peak_memory_bytes": process::peak_memory_bytes(),
        "cpu_s": process::cpu_s(),
        "digest": plan.digest_hex(),
        "exit_code": delivery.exit().code(),
    });
    // Keys that only some runs have.
    if let Some(failure) = delivery.unwritten() {
        object["error"] = failure.to_json()["error"].take();
    }
    if plan.terms().is_some() {
        object["accuracy"] = json!(account.accuracy().map(|accuracy| accuracy.apart));
        object["accuracy_of_mean"] = json!(account.accuracy().map(|accuracy| accuracy.standard_errors));
    }
    if plan.draft().run.sealed {
        object["opened_for"] = account.opened_for().into();
    }
    if let Some(iterations) = account.iterations() {
        object["iterations"] = iterations.clone();
        object["iteration_ms"] = finish.iteration_ms.clone();
    }
    account.add_gossip_to(&mut object);
    delivery.silence.add_to(&mut object);
    if account.unbounded() {
        object["unbounded"] = true.into();
    }
    if let Some(clipped) = clipped {
        object["clipped"] = clipped.into();
    }
    if let Some(error) = account.standard_error() {
        object["utility"] = Utility::with_error(plan, error).json();
    }
    if let Some(errors) = account
        .standard_error()
        .and_then(|error| standard_errors(plan, error))
    {
        object["standard_errors"] = errors.into();
    }
    object
}

fn text(plan: &Plan, object: &Value, delivery: &Delivery, owners: &Owners) -> String {
    let account = &delivery.account;
    let mut text = String::new();
    if let Some(failure) = delivery.unwritten() {
        text += &format!("Not everything is written: {failure}\n\n");
    } else if account.finished() {
        let what = match plan.draft().computation.recursion() {
            Some(_) => "This party's last iterate".to_owned(),
            None if plan.draft().sums_everybody() => {
                "The stream's sums, a row for each round: the means of all releases so far, added up,".to_owned()
            }
            None if plan.draft().computation.stream().is_some() => match plan.draft().releases() {
                1 => "This party's estimate of the mean".to_owned(),
                _ => "This party's estimates, a row for each round: the means of all releases so far, added up,"
                    .to_owned(),
            },
            None if plan.draft().computation.described().is_some() => format!(
                "The statistics of {} of {} parties",
                account.included().len(),
                plan.parties()
            ),
            None if object.get("coefficients").is_some() => format!(
                "The model of {} of {} parties",
                account.included().len(),
                plan.parties()
            ),
            None => format!(
                "The {} of {} of {} parties",
                plan.draft().computation.result().name(),
                account.included().len(),
                plan.parties()
            ),
        };
        text += &format!(
            "{what} is in {}{}.\n\n",
            delivery.places[0].display(),
            match delivery.places.get(1) {
                Some(receipt) => format!(", its receipt in {}", receipt.display()),
                None => String::new(),
            }
        );
    } else {
        text += &format!("No mean: {}.\n\n", account.outcome());
    }
    if let Some(reason) = account.reason() {
        text += &format!("  {reason}\n\n");
    }
    for sentence in delivery.silence.sentences("this party") {
        text += &format!("  {sentence}\n");
    }
    if !delivery.silence.is_none() {
        text += "  (Nobody else is told; what counted instead has noise like any other contribution.)\n\n";
    }
    let numbers = numbers(plan, delivery, owners);
    text += &numbers;
    text += &table(plan, object, account, !numbers.contains(ERROR)).render();
    text += &format!(
        "\n{:.2} s from START to the result; sent {} over the private graph, {} over the public one.\n",
        object["wall_s"].as_f64().unwrap_or(0.0),
        bytes(object["private_bytes"].as_u64().unwrap_or(0)),
        bytes(object["public_bytes"].as_u64().unwrap_or(0)),
    );
    text
}

/// Says how to see what is not shown.
const KEPT_BACK: &str = "Errors and intervals, where a model has them, say something of this party's rows: \
                         --show-private shows them.\n\n";

/// The numbers of the result, and what the protocol won; nothing of a long vector.
fn numbers(plan: &Plan, delivery: &Delivery, owners: &Owners) -> String {
    let account = &delivery.account;
    let Some(values) = delivery.values.as_deref().filter(|_| account.finished()) else {
        return String::new();
    };
    if let Some(figures) = account.figures(plan, values) {
        let shown = ShownAs::default();
        let computed = figures.figures(&shown.asked);
        return computed.map_or(String::new(), |computed| {
            table_of_figures(&figures.describe, &computed, &shown) + "\n"
        });
    }
    if let Some((settings, values)) = plan.draft().computation.fitted(Some(values)) {
        let whose = "this party's own rows, as if all others were like them";
        let errors = owners.errors.as_deref().map(|errors| (errors, whose));
        let table = model_table(settings, values, errors);
        return match owners.keeps_back && !table.is_empty() {
            true => table + KEPT_BACK,
            false => table,
        };
    }
    let shown = Shown {
        plan,
        values,
        error: account.standard_error(),
        names: delivery.names.as_deref(),
    };
    let gain = account
        .standard_error()
        .and_then(|error| Gain::with_error(plan, error));
    let gain = gain.map_or_else(String::new, |gain| format!("{}.\n\n", gain.sentence()));
    shown.table() + &gain
}

/// Tabulates the result of a run; `alone`: no table of columns stands above it.
fn table(plan: &Plan, object: &Value, account: &Account, alone: bool) -> Table {
    let shown = |key: &str, show: fn(f64) -> String| object[key].as_f64().map_or("–".to_owned(), show);
    let mut table = Table::new();
    let mut row = |what: &str, shown: String| {
        table.row([what.into(), shown]);
    };
    row("protected", quote::protected(plan));
    row("against", lower_first(&quote::threat(plan)));
    row(
        "ε as it turned out",
        format!(
            "{} at δ = {} (claimed before the run: {})",
            shown("epsilon", at_most),
            at_most(quote::delta_with(plan, object["epsilon"].as_f64())),
            shown("epsilon_claimed", at_most)
        ),
    );
    if alone {
        if object["standard_error"].is_number() {
            let error = shown("standard_error", number);
            row("standard error", format!("{error} (of the noise)"));
        }
        let utility = object["utility"]["sentence"].as_str();
        utility
            .into_iter()
            .for_each(|utility| row("utility", utility.to_owned()));
    }
    if let Some(accuracy) = account.accuracy() {
        let apart = number(accuracy.apart);
        let shown = format!("{apart} standard errors, if nobody sent wrong values");
        row("nodes differ by at most", shown);
    }
    if !account.departed().is_empty() {
        row("departed", account.departed().join(", "));
    }
    if !account.opened_for().is_empty() {
        let names = account.opened_for().join(", ");
        row(
            "opened for",
            format!("{names}: gone after the log, in the mean all the same"),
        );
    }
    if let Some(clipped) = object["clipped"].as_u64() {
        let clipped = match plan.draft().data.unit {
            Unit::Record => format!("{clipped} records"),
            Unit::Party => if clipped > 0 { "yes" } else { "no" }.into(),
        };
        row("clipped (private)", clipped);
    }
    table
}
