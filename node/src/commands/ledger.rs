//! `undertone ledger`: what a daemon's ledger lacks.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use undertone_accountant::losses::charge::Charge;
use undertone_protocol::plan::checked::Plan;

use crate::commands::receipt::stated_loss;
use crate::daemon::config::{Config, NodeArgs};
use crate::daemon::ledger::Ledger;
use crate::daemon::ledger::account::{Protected, unit_name};
use crate::daemon::ledger::opening::Adopted;
use crate::daemon::policy;
use crate::daemon::restored::Restored;
use crate::daemon::state::State;
use crate::party::part;
use crate::party::spent::{KeyLock, User, marks_of};
use crate::planning::files;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// What to do with a daemon's ledger.
#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// Charge what the ledger lacks: by the marks beside the key, and by others' receipts
    ///
    /// The repair of a state folder that was restored from a backup, or lost. A daemon does not
    /// start with a ledger that is older than the marks in IDENTITY.spent: it would let budgets be
    /// spent twice. Stop it first. Nothing is ever lowered.
    Adopt(AdoptArgs),
}

/// Flags of `ledger adopt`.
#[derive(Args, Debug)]
pub struct AdoptArgs {
    /// Another member's receipt of a later run, to charge that
    #[arg(long, value_name = "FILE", requires_all = ["plan", "data_set"])]
    receipt: Vec<PathBuf>,
    /// The plan of each receipt
    #[arg(long, value_name = "PLAN.json", requires = "receipt")]
    plan: Vec<PathBuf>,
    /// The data set to charge or open
    #[arg(long, value_name = "NAME")]
    data_set: Option<String>,
    /// Open it: nothing else was spent since the backup
    #[arg(long, requires = "data_set")]
    nothing_else_was_spent: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// Does it.
pub fn run(command: LedgerCommand) -> Result<Report, Failure> {
    let LedgerCommand::Adopt(arguments) = command;
    let config = Config::load(&arguments.node)?;
    let shown = shown(&arguments, &config)?;
    // As the daemon has it: nobody else has the folder or the key meanwhile.
    let state = State::open(&config.state)?;
    let at_identity = |failure: Failure| failure.field("identity");
    let _key = KeyLock::take(&config.identity_file, User::Daemon).map_err(at_identity)?;
    let peer_id = config.identity.peer_id().to_string();
    let marks = marks_of(&config.identity_file, &peer_id).map_err(at_identity)?;
    let adopted = Ledger::adopt(state.folder(), marks, shown)?;
    let opened = match (&arguments.data_set, arguments.nothing_else_was_spent) {
        (Some(name), true) => Restored::open(state.folder(), known(&config, name)?)?,
        _ => false,
    };
    let closed = Restored::read(state.folder())?;
    let still: Vec<&str> = match &closed {
        None => vec![],
        Some(restored) => {
            let names = config.data_sets.iter().map(|set| set.name.as_str());
            names.filter(|name| restored.closes(name)).collect()
        }
    };
    let json = json!({
        "adopted": adopted.iter().map(object).collect::<Vec<_>>(),
        "opened": arguments.data_set.as_ref().filter(|_| opened),
        "closed": still,
        "exit_code": 0,
    });
    let lines = adopted.iter().map(|run| {
        let (account, mu) = (&run.of.accounts()[0], run.charge.mu());
        let what = if run.spent { "" } else { ", its draw alone" };
        format!(
            "Charged to data set {account}: {} (mu = {mu:.4}{what})\n",
            run.digest
        )
    });
    let mut text = match adopted.len() {
        0 => "The ledger has all that is known here.\n".to_owned(),
        count => lines.collect::<String>() + &format!("{count} charged. The daemon can be started.\n"),
    };
    if opened {
        text += "The data set takes runs again.\n";
    }
    if !still.is_empty() {
        text += &format!(
            "Closed since the restore: {}. `--data-set NAME --nothing-else-was-spent` opens one.\n",
            still.join(", ")
        );
    }
    Ok(Report::done(json, text))
}

/// The name of a data set that the configuration has.
fn known<'a>(config: &Config, name: &'a str) -> Result<&'a str, Failure> {
    let known = config.data_sets.iter().any(|set| set.name == name);
    // A daemon without data sets charges all to one without a name.
    match known || (config.data_sets.is_empty() && name.is_empty()) {
        true => Ok(name),
        false => Err(
            Failure::usage(format!("there is no data set {name:?} in the configuration"))
                .field("--data-set")
                .hint("name one of the [[data_set]] there"),
        ),
    }
}

/// The charges of this party that other members' receipts show.
fn shown(arguments: &AdoptArgs, config: &Config) -> Result<Vec<Adopted>, Failure> {
    if arguments.receipt.len() != arguments.plan.len() {
        let (receipts, plans) = (arguments.receipt.len(), arguments.plan.len());
        return Err(
            Failure::usage(format!("{receipts} receipts, and {plans} plans of them"))
                .field("--plan")
                .hint("give each --receipt its --plan, in the same order"),
        );
    }
    let Some(name) = &arguments.data_set else {
        return Ok(vec![]);
    };
    let name = known(config, name)?;
    let pairs = arguments.receipt.iter().zip(&arguments.plan);
    pairs
        .map(|(receipt, plan)| {
            let plan = files::load(plan)?;
            let mu = stated_loss(receipt, &plan)?;
            charge(config, name, &plan, mu)
        })
        .collect()
}

/// The charge of a run that this party may have taken part in, of which another member's receipt
/// states this loss.
fn charge(config: &Config, name: &str, plan: &Plan, mu: f64) -> Result<Adopted, Failure> {
    let me = part::member(plan, config.identity.peer_id())?;
    let data = &plan.draft().data;
    if config.data_set(name, data.unit).is_none() {
        let unit = unit_name(data.unit);
        return Err(Failure::usage(format!(
            "plan {} protects a {unit}, and there is no data set {name:?} of that unit",
            plan.digest_hex()
        ))
        .field("--data-set")
        .hint("name the data set that this party brought, of the plan's unit"));
    }
    Ok(Adopted {
        digest: plan.digest_hex(),
        of: Protected {
            data_set: name.to_owned(),
            unit: data.unit,
            adjacency: data.adjacency,
        },
        charge: policy::charge(plan, me).at_least(Charge::of_loss(mu)),
        spent: true,
    })
}

fn object(run: &Adopted) -> serde_json::Value {
    json!({
        "digest": run.digest,
        "data_set": run.of.data_set,
        "unit": run.of.unit,
        "adjacency": run.of.adjacency,
        "charge": run.charge,
        "spent": run.spent,
    })
}
