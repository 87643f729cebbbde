//! `undertone plan` and `undertone verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use undertone_accountant::calibrate::{CalibrateError, calibrate};
use undertone_protocol::lattice::LatticeError;
use undertone_protocol::peers::{Peers, PeersError};
use undertone_protocol::plan::{Calibration, Draft, Established, Faults, Plan, PlanError};
use undertone_protocol::run_file::{RunFile, RunFileError};

use crate::cli::{AcceptClaims, Policy, Report};
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::{plot, quote};

/// Flags of `plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The run file: task, clipping, privacy target, time-outs
    #[arg(value_name = "RUN.toml")]
    run: PathBuf,
    /// The peer list, in plan order
    #[arg(long, value_name = "PEERS.toml")]
    peers: PathBuf,
    /// Where to write the plan; send this very file to every member
    #[arg(long, value_name = "PLAN.json")]
    out: PathBuf,
    /// Draw the error against epsilon and against the share of parties gone, as SVG
    #[arg(long, value_name = "QUOTE.svg")]
    plot: Option<PathBuf>,
}

/// Flags of `verify`.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// The plan
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    #[command(flatten)]
    policy: Policy,
}

/// Makes a plan from files.
pub fn plan(arguments: PlanArgs) -> Result<Report, Failure> {
    let peers = Peers::parse(&read_text(&arguments.peers, "--peers")?)
        .map_err(|e| peers_failure(&arguments.peers, &e))?;
    let text = read_text(&arguments.run, "RUN.toml")?;
    let run = run_file(&text, &peers, &arguments.run)?;
    let plan = make(run, &peers, rand::random()).map_err(|failure| failure.in_file(&arguments.run))?;
    write_plan(&arguments.out, &plan)?;
    if let Some(path) = &arguments.plot {
        plot::quote(&plan, path)?;
    }
    let mut text = quote::text(&plan);
    text += &format!(
        "\nPlan {} written to {}\n",
        plan.digest_hex(),
        arguments.out.display()
    );
    text += "Send that very file to every member; each checks it with `undertone verify` before joining.\n";
    Ok(Report::done(quote::json(&plan), text))
}

/// Reads a run file for these peers; `path` is what messages call it.
pub fn run_file(text: &str, peers: &Peers, path: &Path) -> Result<RunFile, Failure> {
    let run = RunFile::parse(text, peers.as_slice().len()).map_err(|e| run_failure(path, &e))?;
    run.supported().map_err(|e| run_failure(path, &e))?;
    Ok(run)
}

/// Calibrates a run for these peers. `seed` draws random graphs and the schedule; both are public.
pub fn make(run: RunFile, peers: &Peers, seed: u64) -> Result<Plan, Failure> {
    let (draft, calibration) = calibrated(run, peers, seed)?;
    assemble(draft, calibration)
}

/// The first half of [`make`], which takes all of its time.
pub(crate) fn calibrated(run: RunFile, peers: &Peers, seed: u64) -> Result<(Draft, Calibration), Failure> {
    let draft = Draft::new(run, peers, seed).map_err(|e| Failure::usage(e.to_string()).field(e.field()))?;
    let mut progress = Progress::start();
    let calibration = calibrate(&draft, &mut |step| progress.show(step)).map_err(|e| uncalibrated(&e))?;
    progress.end();
    Ok((draft, calibration))
}

/// The second half of [`make`].
pub(crate) fn assemble(draft: Draft, calibration: Calibration) -> Result<Plan, Failure> {
    Plan::assemble(draft.clone(), calibration.clone(), rand::random()).map_err(|e| {
        let failure = Failure::usage(e.to_string());
        let failure = match e.field() {
            Some(field) => failure.field(field),
            None => failure,
        };
        match would_fit(&draft, &calibration, &e) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

/// What would fit on a lattice, with numbers that suffice each by itself.
fn would_fit(draft: &Draft, calibration: &Calibration, error: &PlanError) -> Option<String> {
    match error {
        PlanError::Lattice(LatticeError::TooWide { .. }) => calibration
            .most_rounds(draft)
            .map(|rounds| format!("mechanism.rounds = {rounds} suffices")),
        // What sampling adds does not depend on δ; two digits, rounded up.
        PlanError::Lattice(LatticeError::Sampling { added, .. }) => {
            Some(format!("privacy.delta = {:.1e} suffices", 10.0 * added * 1.05))
        }
        _ => None,
    }
}

/// A graph that cannot protect somebody is a refused plan; all else is a run file that makes no sense.
fn uncalibrated(error: &CalibrateError) -> Failure {
    match error {
        CalibrateError::Exposed { remedies, .. } => Failure::new(Exit::PlanRefused, error.to_string())
            .field("topology.private")
            .hint(format!(
                "any one of these suffices: {}; a larger epsilon or more rounds do not",
                quote::listed(remedies)
            )),
        CalibrateError::Local { remedies, .. } => Failure::new(Exit::PlanRefused, error.to_string())
            .field("topology.private")
            .hint(format!(
                "mechanism.local_noise_ok = true, or any one of these: {}",
                quote::listed(remedies)
            )),
        CalibrateError::Alone { .. } => {
            Failure::new(Exit::PlanRefused, error.to_string()).field("mechanism.rounds")
        }
        CalibrateError::Short { .. } => Failure::usage(error.to_string()).field("mechanism.rounds"),
        CalibrateError::Kind => Failure::usage(error.to_string()).field("mechanism.kind"),
        CalibrateError::TooMany => Failure::usage(error.to_string()).field("mechanism.independent_noise"),
        CalibrateError::Draws { .. } => Failure::usage(error.to_string()).field("privacy.coalitions"),
        CalibrateError::Dropouts { .. } => Failure::usage(error.to_string()).field("privacy.dropouts"),
        _ => Failure::usage(error.to_string()),
    }
}

/// Checks a plan as a member would before joining.
pub fn verify(arguments: VerifyArgs) -> Result<Report, Failure> {
    let plan = load(&arguments.plan)?;
    check_aloud(&plan, &arguments.policy)?;
    let mut json = quote::json(&plan);
    json["verified"] = true.into();
    let how = match quote::sample(&plan) {
        None => "every claim was recomputed".to_owned(),
        Some(sample) => {
            format!(
                "every claim was recomputed but the sampled one, which {} draws of this machine's own do not contradict",
                sample.checked
            )
        }
    };
    let text = quote::text(&plan) + &format!("\nPlan {} holds: {how}.\n", plan.digest_hex());
    Ok(Report::done(json, text))
}

/// Reads a plan file (exit 3 if it is not one).
pub fn load(path: &Path) -> Result<Plan, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|e| Failure::usage(format!("{}: cannot be read: {e}", path.display())).field("PLAN.json"))?;
    parse(&bytes, &path.display().to_string())
}

/// Reads a plan from the bytes of its file (exit 3); `name` is what messages call it.
pub fn parse(bytes: &[u8], name: &str) -> Result<Plan, Failure> {
    Plan::parse(bytes).map_err(|e| {
        let failure = Failure::new(Exit::PlanRefused, format!("{name}: {e}"));
        match e.field() {
            Some(field) => failure.field(field),
            None => failure,
        }
    })
}

/// The policy first (it is quick), then every claim.
pub fn check(plan: &Plan, policy: &Policy) -> Result<(), Failure> {
    check_policy(plan, policy)?;
    undertone_accountant::verify::verify(plan, rand::random())
        .map_err(|e| Failure::new(Exit::PlanRefused, e.to_string()).field("claims"))
}

/// The same, with a live line: against a hundred parties' coalitions it takes a while.
pub fn check_aloud(plan: &Plan, policy: &Policy) -> Result<(), Failure> {
    let mut progress = Progress::start();
    progress.show(&format!("recomputing every claim of {} parties", plan.parties()));
    let checked = check(plan, policy);
    progress.end();
    checked
}

/// The policy alone: what the plan claims is taken for true.
pub fn check_policy(plan: &Plan, policy: &Policy) -> Result<(), Failure> {
    let refused = |message: String, field: &str| Failure::new(Exit::PlanRefused, message).field(field);
    if let Some(digest) = policy
        .digest
        .as_ref()
        .filter(|digest| !digest.eq_ignore_ascii_case(&plan.digest_hex()))
    {
        return Err(refused(
            format!("the plan's digest is {}, not {digest}", plan.digest_hex()),
            "--digest",
        )
        .hint("you were sent another file than the others; ask for theirs"));
    }
    if policy.max_epsilon.is_some_and(|e| e.is_nan() || e <= 0.0) {
        return Err(Failure::usage("--max-epsilon must be a number above 0").field("--max-epsilon"));
    }
    let claimed = epsilon_for(plan, policy.accept_claims);
    within_epsilon(plan, claimed, policy)?;
    let colluding = plan.draft().privacy.colluding;
    if colluding < policy.min_colluders {
        return Err(refused(
            format!(
                "the plan covers coalitions of up to {colluding}, your policy asks for {}",
                policy.min_colluders
            ),
            "--min-colluders",
        )
        .hint("ask for a plan with privacy.colluding at least that large"));
    }
    let target = plan.draft().privacy.epsilon;
    let sampled = plan
        .calibration()
        .claims
        .iter()
        .any(|claim| claim.established == Established::Sampled);
    if sampled
        && policy.accept_claims == AcceptClaims::Exact
        && policy.max_epsilon.is_none()
        && let Some(claimed) = claimed.filter(|&claimed| claimed > target)
    {
        let message = format!(
            "only a sampled claim says that the plan keeps its ε = {target}; what is sure is ε = {claimed}"
        );
        return Err(refused(message, "--accept-claims").hint(
            "join with --accept-claims sampled if a sample is enough for you, or with --max-epsilon at or above what is sure",
        ));
    }
    Ok(())
}

/// The ε that a plan is judged by: its headline; if samples are accepted and the plan's target rests on one, that of the sample and of the sure
/// claims before publishing.
fn epsilon_for(plan: &Plan, accepted: AcceptClaims) -> Option<f64> {
    let claims = &plan.calibration().claims;
    let of_sample = claims
        .iter()
        .filter(|claim| claim.established == Established::Sampled)
        .map(|claim| claim.epsilon);
    let of_sample = of_sample
        .reduce(f64::min)
        .filter(|_| accepted == AcceptClaims::Sampled);
    let Some(epsilon) = of_sample else {
        return plan.epsilon_claimed();
    };
    let before = claims
        .iter()
        .filter(|claim| claim.holds_as_headline && claim.faults == Faults::BeforePublishing);
    Some(before.map(|claim| claim.epsilon).fold(epsilon, f64::max))
}

/// A plan that reveals exact sums has no ε for the change of one value: whoever states a largest one has refused it.
fn within_epsilon(plan: &Plan, claimed: Option<f64>, policy: &Policy) -> Result<(), Failure> {
    let refused = |message: String, field: &str| Failure::new(Exit::PlanRefused, message).field(field);
    match (claimed, policy.max_epsilon) {
        (Some(claimed), Some(most)) if claimed > most => Err(refused(
            format!("the plan claims ε = {claimed}, your policy allows {most}"),
            "--max-epsilon",
        )
        .hint("ask for a plan with a smaller epsilon")),
        (Some(_), _) => Ok(()),
        (None, None) if quote::reveals_sums(plan) => Ok(()),
        (None, Some(_)) if quote::reveals_sums(plan) => {
            let message = "the plan reveals exact sums (independent_noise = \"none\"): what it claims holds for changes that keep these, and a change of one value has no ε";
            Err(refused(message.into(), "--max-epsilon").hint(
                "ask for a plan with independent_noise = \"calibrated\", or leave --max-epsilon out if exact sums are meant",
            ))
        }
        (None, _) => Err(refused("the plan claims no ε at all".into(), "claims")),
    }
}

/// Reads a text file that a person wrote.
pub fn read_text(path: &Path, field: &str) -> Result<String, Failure> {
    const MOST: u64 = 16 << 20;
    let refused = |what: String| Failure::usage(format!("{}: {what}", path.display())).field(field);
    let length = std::fs::metadata(path)
        .map_err(|e| refused(format!("cannot be read: {e}")))?
        .len();
    if length > MOST {
        return Err(refused(format!(
            "{length} bytes are more than such a file ever has"
        )));
    }
    std::fs::read_to_string(path).map_err(|e| refused(format!("cannot be read: {e}")))
}

/// A run file's error with the file's name.
pub fn run_failure(path: &Path, error: &RunFileError) -> Failure {
    let mut failure = Failure::usage(format!("{}: {error}", path.display()));
    failure.field = error.field().map(String::from);
    failure
}

/// A peer list's error with the file's name.
pub fn peers_failure(path: &Path, error: &PeersError) -> Failure {
    let mut failure = Failure::usage(format!("{}: {error}", path.display()));
    failure.field = error.field().map(String::from);
    failure
}

/// Writes the plan's very bytes.
pub fn write_plan(path: &Path, plan: &Plan) -> Result<(), Failure> {
    std::fs::write(path, plan.to_json()).map_err(|e| {
        Failure::usage(format!("{}: cannot be written: {e}", path.display()))
            .field("--out")
            .hint("choose a folder that exists and that you can write to")
    })
}
