//! `undertone ledger`: what a daemon's ledger lacks.

use clap::Subcommand;
use serde_json::json;

use crate::daemon::config::{Config, NodeArgs};
use crate::daemon::ledger::Ledger;
use crate::daemon::ledger::opening::Adopted;
use crate::daemon::state::State;
use crate::party::spent::{KeyLock, User, marks_of};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// What to do with a daemon's ledger.
#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// Charge what the marks beside the key know of and the ledger lacks: the repair of a state
    /// folder that was restored from a backup, or lost
    ///
    /// A daemon does not start with a ledger that is older than the marks in IDENTITY.spent: it
    /// would let budgets be spent twice. Stop it first. Nothing is ever lowered.
    Adopt(NodeArgs),
}

/// Does it.
pub fn run(command: LedgerCommand) -> Result<Report, Failure> {
    let LedgerCommand::Adopt(arguments) = command;
    let config = Config::load(&arguments)?;
    // As the daemon has it: nobody else has the folder or the key meanwhile.
    let state = State::open(&config.state)?;
    let at_identity = |failure: Failure| failure.field("identity");
    let _key = KeyLock::take(&config.identity_file, User::Daemon).map_err(at_identity)?;
    let peer_id = config.identity.peer_id().to_string();
    let marks = marks_of(&config.identity_file, &peer_id).map_err(at_identity)?;
    let adopted = Ledger::adopt(state.folder(), marks)?;
    let json = json!({
        "adopted": adopted.iter().map(object).collect::<Vec<_>>(),
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
    let text = match adopted.len() {
        0 => "The ledger has all that the marks beside the key know.\n".to_owned(),
        count => lines.collect::<String>() + &format!("{count} charged. The daemon can be started.\n"),
    };
    Ok(Report::done(json, text))
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
