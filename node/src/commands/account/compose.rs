//! `undertone account compose`: what several runs cost together.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use thiserror::Error;
use undertone_accountant::account::composition::{self, Release};
use undertone_accountant::losses::charge::{Charge, distance_of};
use undertone_accountant::losses::gaussian::GaussianError;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::Claim;
use undertone_protocol::plan::error::PlanError;

use crate::commands::account::answer::{bounded, read_input, report};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::progress::Progress;
use crate::reporting::report::Report;
use crate::reporting::table::Table;

/// Flags of `account compose`.
#[derive(Args, Debug)]
pub struct ComposeArgs {
    /// Receipts (as it turned out) or plans (as claimed), one a run
    #[arg(value_name = "RECEIPT.json|PLAN.json")]
    files: Vec<PathBuf>,
    /// μ of a release; repeat for each
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    mu: Vec<f64>,
    /// ε and δ of a release by a Gaussian mechanism; repeat for each
    #[arg(long, value_name = "E,D", allow_negative_numbers = true, value_parser = guarantee)]
    guarantee: Vec<Release>,
    /// δ in (0, 1) of all releases together, with the chance of bad draws and what sampling adds
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: f64,
}

/// The reasons why a text is no ε,δ.
#[derive(Clone, Debug, Error)]
enum NoGuarantee {
    #[error("expected ε,δ such as 1.0,1e-6")]
    NoPair,
    #[error("\"{0}\" is not a number")]
    NotANumber(String),
}

fn guarantee(text: &str) -> Result<Release, NoGuarantee> {
    let (epsilon, delta) = text.split_once(',').ok_or(NoGuarantee::NoPair)?;
    let parse = |what: &str| {
        what.trim()
            .parse::<f64>()
            .map_err(|_| NoGuarantee::NotANumber(what.to_owned()))
    };
    Ok(Release::Guarantee {
        epsilon: parse(epsilon)?,
        delta: parse(delta)?,
    })
}

pub(super) fn run(arguments: &ComposeArgs) -> Result<Report, Failure> {
    let given = arguments
        .mu
        .iter()
        .map(|&mu| ("--mu".to_string(), Release::Loss(mu)));
    let given = given.chain(
        arguments
            .guarantee
            .iter()
            .map(|&release| ("--guarantee".to_string(), release)),
    );
    let runs = from_files(&arguments.files)?;
    let of_runs = runs
        .iter()
        .map(|run| (run.name.clone(), Release::Run(run.charge)));
    let releases: Vec<(String, Release)> = of_runs.chain(given).collect();
    if releases.is_empty() {
        return Err(Failure::usage("nothing to compose")
            .field("--mu")
            .hint("name receipts, plans, --mu or --guarantee"));
    }
    let mut table = Table::with_headings(["release", "μ"]);
    for (name, release) in &releases {
        let charge = release
            .charge()
            .map_err(|error| Failure::usage(format!("{name}: {error}")).field(name))?;
        table.row([name.clone(), bounded(charge.mu())]);
    }
    let releases: Vec<Release> = releases.into_iter().map(|(_, release)| release).collect();
    let answer = composition::compose(&releases, arguments.delta).map_err(|error| match error {
        GaussianError::Delta { .. } => Failure::usage(error.to_string()).field("--delta"),
        other => Failure::usage(other.to_string()),
    })?;
    let total = format!(
        "\n  together: μ = {}, ε = {} at δ = {:e} (of which {:.1e} for draws of schedules, {:.1e} for sampling the noise)\n",
        bounded(answer.mu),
        bounded(answer.epsilon),
        answer.delta,
        answer.draw_delta,
        answer.sampling_delta
    );
    report(&answer, table.render() + &total)
}

/// A run, as a file states it.
struct OfFile {
    /// The file's name.
    name: String,
    /// The digest of its plan.
    digest: String,
    /// The loss of the run, or the most that it may be.
    charge: Charge,
    /// The unit whose change is hidden, and how it may change; `None` if the file does not say.
    protected: Option<[String; 2]>,
}

/// One release a file; a run counts once, whoever's receipt it is. All protect the same.
fn from_files(files: &[PathBuf]) -> Result<Vec<OfFile>, Failure> {
    let mut runs: Vec<OfFile> = Vec::with_capacity(files.len());
    for path in files {
        let run = of_file(path)?;
        if let Some(other) = runs.iter().find(|other| other.digest == run.digest) {
            return Err(
                Failure::usage(format!("{} and {} are of the same run", other.name, run.name))
                    .field(path.display())
                    .hint("a run is one release: name one of them, the receipt if there is one"),
            );
        }
        let says = |other: &&OfFile| other.protected.is_some();
        if let (Some(other), Some(protected)) = (runs.iter().find(says), &run.protected)
            && other.protected.as_ref() != Some(protected)
        {
            let [unit, adjacency] = other.protected.clone().unwrap_or_default();
            return Err(Failure::usage(format!(
                "{} protects a {} ({}), {} a {unit} ({adjacency}): their losses do not add up",
                run.name, protected[0], protected[1], other.name
            ))
            .field(path.display())
            .hint("compose runs of one unit and one adjacency at a time"));
        }
        runs.push(run);
    }
    Ok(runs)
}

/// Reads a receipt, or a plan whose claims hold.
fn of_file(path: &Path) -> Result<OfFile, Failure> {
    let text = read_input(path, "RECEIPT.json|PLAN.json")?;
    let unusable = |problem: NoRelease| {
        Failure::input(format!("{}: {problem}", path.display()))
            .field(path.display())
            .hint("give a receipt.json or a plan.json that undertone wrote")
    };
    let object: Value = serde_json::from_str(&text).map_err(|error| unusable(error.into()))?;
    let name = path.display().to_string();
    if object.get("mechanism").is_none() {
        return of_receipt(name, &object).map_err(unusable);
    }
    let plan = Plan::parse(text.as_bytes()).map_err(|error| unusable(error.into()))?;
    // What a plan says that nobody has checked is a wish.
    let mut progress = Progress::start();
    progress.show(&format!("checking the plan: every claim of {name}"));
    let verified = undertone_accountant::verify(&plan);
    progress.end();
    verified.map_err(|error| {
        Failure::new(Exit::PlanRefused, format!("{name}: {error}"))
            .field(path.display())
            .hint("the plan's claims do not hold; a receipt says what its run cost")
    })?;
    of_plan(name, &plan).map_err(unusable)
}

/// The reasons why a file does not say what a release cost.
#[derive(Debug, Error)]
enum NoRelease {
    #[error(transparent)]
    NotJson(#[from] serde_json::Error),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("the plan claims no loss")]
    NoClaim,
    #[error("key \"digest\" is missing")]
    NoDigest,
    #[error("key \"mu\" is not a number")]
    NotANumber,
    #[error("key \"mu\" must be a number")]
    NoLoss,
}

/// Reads the loss of a run from the headline of its plan.
fn of_plan(name: String, plan: &Plan) -> Result<OfFile, NoRelease> {
    let claims = plan.calibration().claims.iter();
    let headline: Vec<_> = claims.filter(|claim| claim.holds_as_headline).collect();
    let largest = |of: fn(&Claim) -> f64| headline.iter().map(|claim| of(claim)).reduce(f64::max);
    let word = |value: Value| value.as_str().map(ToOwned::to_owned).unwrap_or_default();
    let data = &plan.draft().data;
    Ok(OfFile {
        name,
        digest: plan.digest_hex(),
        charge: Charge {
            draw: plan.draw_chance(),
            distance: plan.sampling_distance(),
            ..Charge::of_loss(largest(|claim| claim.mu).ok_or(NoRelease::NoClaim)?)
        },
        protected: Some([json!(data.unit), json!(data.adjacency)].map(word)),
    })
}

/// Reads the loss of a run from its receipt.
fn of_receipt(name: String, object: &Value) -> Result<OfFile, NoRelease> {
    let digest = object["digest"].as_str().ok_or(NoRelease::NoDigest)?;
    let mu = match (&object["mu"], &object["unbounded"], object["outcome"].as_str()) {
        (Value::Number(mu), ..) => mu.as_f64().ok_or(NoRelease::NotANumber)?,
        (Value::Null, Value::Bool(true), _) => f64::INFINITY,
        // Nothing private left, so there was nothing to account for.
        (Value::Null, _, Some("aborted")) => 0.0,
        _ => return Err(NoRelease::NoLoss),
    };
    let word = |key: &str| object[key].as_str().map(ToOwned::to_owned);
    // Sampling adds (1 + e^ε) times a distance to the δ of the receipt's own ε, and the distance
    // adds up. A draw counts once its number was revealed, whatever became of the run.
    let distance = match (object["sampling_delta"].as_f64(), object["epsilon"].as_f64()) {
        (Some(sampled), epsilon) => distance_of(sampled, epsilon.unwrap_or(f64::NAN)),
        (None, _) => 0.0,
    };
    let draw = &object["draw"];
    let drawn = object["outcome"] != "aborted" || draw["tries"].as_u64() != Some(0);
    Ok(OfFile {
        name,
        digest: digest.to_owned(),
        charge: Charge {
            draw: draw["chance"].as_f64().filter(|_| drawn).unwrap_or(0.0).max(0.0),
            distance,
            ..Charge::of_loss(mu)
        },
        protected: word("unit")
            .zip(word("adjacency"))
            .map(|(unit, adjacency)| [unit, adjacency]),
    })
}
