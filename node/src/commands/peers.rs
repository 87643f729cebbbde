//! `undertone peers`: about a peer list, and keys of it that are not to be trusted any more.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::peers::number::list_number;

use crate::commands::client::keys::{self, RevokeLineArgs, RevokedArgs};
use crate::planning::{files, make, revoked};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// A question about a list, or a statement about a key of it.
#[derive(Debug, Subcommand)]
pub enum PeersCommand {
    /// Print 40 digits for people to compare whether they have the same list
    Number {
        /// The list
        file: PathBuf,
        /// Refuse a list that names a key revoked in this file of statements, one a line
        #[arg(long, value_name = "FILE")]
        keys: Option<PathBuf>,
    },
    /// Hand the line that revokes a key to this machine's daemon, which tells all others
    Revoke(RevokeLineArgs),
    /// Print the lines of all keys that this machine's daemon knows to be revoked
    Revoked(RevokedArgs),
}

/// Answers a question about a list, or hands a statement about it to the daemon.
///
/// # Errors
/// It is no list, or no statement (exit 2); a list that names a revoked key (exit 3).
pub fn run(command: &PeersCommand) -> Result<Report, Failure> {
    match command {
        PeersCommand::Number { file, keys } => number(file, keys.as_deref()),
        PeersCommand::Revoke(arguments) => keys::revoke(arguments),
        PeersCommand::Revoked(arguments) => keys::revoked(arguments),
    }
}

/// Reads a list, and prints its number.
fn number(file: &Path, keys: Option<&Path>) -> Result<Report, Failure> {
    let text = files::read_text(file, "FILE")?;
    let list = Peers::parse(&text).map_err(|e| make::peers_failure(file, &e))?;
    if let Some(keys) = keys {
        revoked::refuse_list(&revoked::read(keys, &[&list])?, &list)?;
    }
    let number = list_number(text.as_bytes());
    let signs: Vec<char> = number.chars().collect();
    let groups: Vec<String> = signs.chunks(5).map(|group| group.iter().collect()).collect();
    let json = json!({ "number": number, "parties": list.as_slice().len(), "exit_code": 0 });
    Ok(Report::done(json, format!("{}\n", groups.join(" "))))
}
