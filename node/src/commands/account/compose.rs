//! `undertone account compose`: what several runs cost together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use thiserror::Error;
use undertone_accountant::account::composition::{self, Release};
use undertone_accountant::losses::gaussian::GaussianError;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::error::PlanError;

use crate::commands::account::answer::{bounded, read_input, report};
use crate::telling::failure::Failure;
use crate::telling::report::Report;
use crate::telling::table::Table;

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
    /// δ in (0, 1) of all releases together
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: f64,
}

/// Why a text is no ε,δ.
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
    let releases: Vec<(String, Release)> = from_files(&arguments.files)?.into_iter().chain(given).collect();
    if releases.is_empty() {
        return Err(Failure::usage("nothing to compose")
            .field("--mu")
            .hint("name receipts, plans, --mu or --guarantee"));
    }
    let mut table = Table::with_headings(["release", "μ"]);
    for (name, release) in &releases {
        let mu = release
            .mu()
            .map_err(|error| Failure::usage(format!("{name}: {error}")).field(name))?;
        table.row([name.clone(), bounded(mu)]);
    }
    let releases: Vec<Release> = releases.into_iter().map(|(_, release)| release).collect();
    let answer = composition::compose(&releases, arguments.delta).map_err(|error| match error {
        GaussianError::Delta { .. } => Failure::usage(error.to_string()).field("--delta"),
        other => Failure::usage(other.to_string()),
    })?;
    let total = format!(
        "\n  together: μ = {}, ε = {} at δ = {:e}\n",
        bounded(answer.mu),
        bounded(answer.epsilon),
        answer.delta
    );
    report(&answer, table.render() + &total)
}

/// One release a file; a run counts once, whoever's receipt it is.
fn from_files(files: &[PathBuf]) -> Result<Vec<(String, Release)>, Failure> {
    let mut runs: BTreeMap<String, &Path> = BTreeMap::new();
    let mut releases = Vec::with_capacity(files.len());
    for path in files {
        let text = read_input(path, "RECEIPT.json|PLAN.json")?;
        let (digest, mu) = release_of(&text).map_err(|problem| {
            Failure::input(format!("{}: {problem}", path.display()))
                .field(path.display())
                .hint("give a receipt.json or a plan.json that undertone wrote")
        })?;
        if let Some(other) = runs.insert(digest, path) {
            return Err(Failure::usage(format!(
                "{} and {} are of the same run",
                other.display(),
                path.display()
            ))
            .field(path.display())
            .hint("a run is one release: name one of them, the receipt if there is one"));
        }
        releases.push((path.display().to_string(), Release::Loss(mu)));
    }
    Ok(releases)
}

/// Why a file says of no release what it cost.
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

/// The run's digest and the μ of a receipt or of a plan's headline.
fn release_of(text: &str) -> Result<(String, f64), NoRelease> {
    let object: Value = serde_json::from_str(text)?;
    if object.get("mechanism").is_some() {
        let plan = Plan::parse(text.as_bytes())?;
        let headline = plan
            .calibration()
            .claims
            .iter()
            .filter(|claim| claim.holds_as_headline)
            .map(|claim| claim.mu);
        let mu = headline.reduce(f64::max).ok_or(NoRelease::NoClaim)?;
        return Ok((plan.digest_hex(), mu));
    }
    let digest = object["digest"].as_str().ok_or(NoRelease::NoDigest)?;
    let mu = match (&object["mu"], &object["unbounded"], object["outcome"].as_str()) {
        (Value::Number(mu), ..) => mu.as_f64().ok_or(NoRelease::NotANumber)?,
        (Value::Null, Value::Bool(true), _) => f64::INFINITY,
        // Nothing private left, so there was nothing to account for.
        (Value::Null, _, Some("aborted")) => 0.0,
        _ => return Err(NoRelease::NoLoss),
    };
    Ok((digest.to_string(), mu))
}
