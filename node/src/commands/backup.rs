//! `undertone backup` and `undertone restore`: what a daemon must not forget, in a file.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::daemon::backup::{self, Backup};
use crate::daemon::config::{Config, NodeArgs, identity_file};
use crate::reporting::date::utc;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Flags of `backup`.
#[derive(Args, Debug)]
pub struct BackupArgs {
    /// Where the backup is written, an archive of tar; a file that is there is replaced
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Put the key into it, too: whoever has the file can then sign as this party
    #[arg(long)]
    with_key: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// Flags of `restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// A file that `undertone backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    node: NodeArgs,
}

/// Writes a backup; the daemon may go on meanwhile.
///
/// # Errors
/// Something cannot be read or written (exit 2; 75 on a full disk).
pub fn backup(arguments: &BackupArgs) -> Result<Report, Failure> {
    let config = Config::load(&arguments.node)?;
    let manifest = backup::make(&config, arguments.with_key, &arguments.file)?;
    let file = arguments.file.display();
    let key = match arguments.with_key {
        true => "It has the key: whoever reads it can sign as this party.",
        false => "It does not have the key: keep a copy of that elsewhere (or --with-key).",
    };
    let text = format!(
        "Written: {file}, of {} at {}: marks, ledger, receipts and revoked keys.\n{key}\n",
        manifest.party,
        utc(manifest.at_ms)
    );
    let json = json!({
        "file": file.to_string(),
        "party": manifest.party,
        "id": manifest.id,
        "at_ms": manifest.at_ms,
        "with_key": arguments.with_key,
        "exit_code": 0,
    });
    Ok(Report::done(json, text))
}

/// Adds what a backup knows and this machine does not, and closes every data set.
///
/// # Errors
/// It is no backup, of another party, or cannot be restored here (exit 2; 75 on a full disk).
pub fn restore(arguments: &RestoreArgs) -> Result<Report, Failure> {
    let backup = Backup::read(&arguments.file)?;
    let identity = identity_file(&arguments.node)?;
    let key = backup.key().filter(|_| !identity.exists());
    if let Some(key) = key {
        backup::write_key(&identity, key)?;
    }
    let config = Config::load(&arguments.node)?;
    let done = backup.restore(&config)?;
    let since = utc(done.manifest.at_ms);
    let sets: Vec<&str> = config.data_sets.iter().map(|set| set.name.as_str()).collect();
    let closed = match sets.is_empty() {
        true => "This daemon takes no run".to_owned(),
        false => format!("Closed are all data sets ({})", sets.join(", ")),
    };
    let text = format!(
        "Restored from the backup of {since}: {} charges, {} marks, {} receipts and {} revoked keys that \
         were not here. Nothing that is newer was replaced.\n\n\
         The backup does not know what was spent after {since}. {closed} until you have charged that, or said \
         that nothing was:\n  \
         undertone ledger adopt --data-set NAME --receipt RECEIPT.json --plan PLAN.json\n      \
         charges a later run by another member's receipt; ask all members for theirs\n  \
         undertone ledger adopt --data-set NAME --nothing-else-was-spent\n      \
         opens the data set\n\n\
         The old machine must stay off: two nodes with one key contradict each other, and the others take \
         them for one liar.\n",
        done.charged, done.marked, done.receipts, done.keys
    );
    let json = json!({
        "backup_ms": done.manifest.at_ms,
        "charged": done.charged,
        "marked": done.marked,
        "receipts": done.receipts,
        "keys": done.keys,
        "key_written": key.is_some(),
        "closed": sets,
        "exit_code": 0,
    });
    Ok(Report::done(json, text))
}
