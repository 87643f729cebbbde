//! `undertone audit`: an empirical attack on a plan, with the machines, the lattice and the noise
//! of a node.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use undertone_accountant::audit::{Attack, Attacked, AuditError, CONFIDENCE, SHARED};
use undertone_protocol::plan::checked::Plan;

use crate::planning::files;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::progress::Progress;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, precise};

/// Flags of `audit`.
#[derive(Args, Debug)]
pub struct AuditArgs {
    /// The plan
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    /// Pairs of simulated runs, with x and with x′ [default: 1000000 over the number of releases,
    /// at least 20000]
    #[arg(long, value_name = "N")]
    pairs: Option<u64>,
    /// Times every σ of the simulated runs, not the claim: below 1 the attack must find out
    #[arg(long, value_name = "F", default_value_t = 1.0, allow_negative_numbers = true)]
    noise_scale: f64,
    /// Seeds the simulated noise and the executions that are drawn
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

/// Pairs of runs that still show most of a loss. Our choice.
const LEAST_PAIRS: u64 = 20_000;

/// Attacks the plan. A lower bound above the claim is an answer.
pub fn run(arguments: &AuditArgs) -> Result<Report, Failure> {
    let plan = files::load(&arguments.plan)?;
    let mut progress = Progress::start();
    progress.show("looking for executions to attack");
    let attack = Attack::of(&plan, arguments.seed).map_err(refuse)?;
    let mut show = |done: u64, all: u64| progress.count("attacking", done, all);
    let most = 1_000_000 / plan.draft().releases();
    let pairs = arguments.pairs.unwrap_or(most.max(LEAST_PAIRS));
    let attacked = attack
        .run(pairs, arguments.noise_scale, arguments.seed, &mut show)
        .map_err(refuse)?;
    progress.end();
    Ok(report(&plan, &attack, &attacked, arguments))
}

fn refuse(error: AuditError) -> Failure {
    match &error {
        AuditError::Pairs => Failure::usage(error.to_string()).field("--pairs"),
        AuditError::Scale { .. } => Failure::usage(error.to_string()).field("--noise-scale"),
        _ => Failure::new(Exit::PlanRefused, error.to_string()).field("claims"),
    }
}

fn report(plan: &Plan, attack: &Attack, attacked: &Attacked, arguments: &AuditArgs) -> Report {
    let aim = &attack.aims()[attacked.aim];
    let claim = aim.claim();
    let victim = &plan.draft().members[aim.victim()].name;
    let json = json!({
        "epsilon_lower": attacked.epsilon_lower,
        "epsilon_claimed": claim.epsilon,
        "delta": attacked.delta,
        "pairs": attacked.pairs,
        "confidence": CONFIDENCE,
        "threshold": attacked.threshold,
        "found": attacked.found,
        "mistaken": attacked.mistaken,
        "noise_scale": arguments.noise_scale,
        "seed": arguments.seed,
        "claim": claim,
        "victim": victim,
        "attacked": aim.place(),
        "places": attack.aims().len(),
        "shared": SHARED,
        "digest": plan.digest_hex(),
    });
    let mut table = Table::new();
    table
        .row(["ε claimed".into(), precise(claim.epsilon)])
        .row([
            "ε at least, by this attack".into(),
            precise(attacked.epsilon_lower),
        ])
        .row(["confidence".into(), format!("{} %", 100.0 * CONFIDENCE)])
        .row(["pairs of runs".into(), attacked.pairs.to_string()])
        .row([
            "threshold (log-likelihood ratio)".into(),
            precise(attacked.threshold),
        ])
        .row(["x′ found, of runs with x′".into(), attacked.found.to_string()])
        .row(["x taken for x′".into(), attacked.mistaken.to_string()])
        .row(["σ's times".into(), precise(arguments.noise_scale)])
        .row(["whose value changed".into(), victim.clone()])
        .row([
            "attacked in".into(),
            format!("{}, of {} places", aim.place(), attack.aims().len()),
        ]);
    let verdict = if attacked.epsilon_lower > claim.epsilon {
        "The claim does not hold for these runs."
    } else {
        "Nothing in these runs speaks against the claim; that is no proof of it."
    };
    Report::done(json, format!("{}\n  {verdict}\n\n  {SHARED}.\n", table.render()))
}
