//! `undertone identity`: makes and shows a party's key.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use libp2p::PeerId;
use serde_json::json;
use undertone_protocol::messages::revocation::Revocation;
use undertone_protocol::plan::peers::entry::{Address, PeerProblem};

use crate::party::identity::Identity;
use crate::planning::revoked::to_line;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// What to do with an identity.
#[derive(Debug, Subcommand)]
pub enum IdentityCommand {
    /// Make a key in a new file (mode 0600) and print the lines that the others paste into their
    /// peers.toml
    New(NewArgs),
    /// Print the line that revokes a key for ever, once a daemon has it
    ///
    /// For a key that was stolen. It is signed by the key itself or by its recovery key. Nothing
    /// happens until somebody hands the line to a daemon of the group: `undertone peers revoke`.
    Revoke(RevokeArgs),
    /// Print those lines again
    Show {
        /// The identity file
        file: PathBuf,
    },
}

/// Flags of `identity new`.
#[derive(Args, Debug)]
pub struct NewArgs {
    /// The file to make; an existing one is never overwritten
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The party's name: [a-z0-9-], at most 32 characters (default: the file's stem)
    #[arg(long)]
    name: Option<String>,
    /// Multiaddress where the others reach the private listener, such as /ip4/192.0.2.1/tcp/7001
    #[arg(long, value_name = "ADDR")]
    private: Option<String>,
    /// Multiaddress where the others reach the public listener
    #[arg(long, value_name = "ADDR")]
    public: Option<String>,
    /// Make a second key in this new file, which can revoke the first if it is stolen; keep it off
    /// this machine
    #[arg(long, value_name = "FILE")]
    recovery: Option<PathBuf>,
}

/// Flags of `identity revoke`.
#[derive(Args, Debug)]
pub struct RevokeArgs {
    /// The key to revoke, which signs that itself
    #[arg(long, value_name = "FILE", conflicts_with_all = ["recovery", "id"], required_unless_present = "recovery")]
    identity: Option<PathBuf>,
    /// Its recovery key, which signs instead
    #[arg(long, value_name = "FILE", requires = "id")]
    recovery: Option<PathBuf>,
    /// The id of the key to revoke, as the peer list has it
    #[arg(long, value_name = "ID", requires = "recovery")]
    id: Option<PeerId>,
}

/// Makes or reads an identity, and reports its lines for peer lists; or revokes one.
pub fn run(command: IdentityCommand) -> Result<Report, Failure> {
    let identity = match command {
        IdentityCommand::Revoke(arguments) => return revoke(arguments),
        IdentityCommand::Show { file } => Identity::load(&file)?,
        IdentityCommand::New(arguments) => create(arguments)?,
    };
    Ok(Report::done(identity.to_json(), identity.peer_lines()))
}

fn create(arguments: NewArgs) -> Result<Identity, Failure> {
    let stem = || {
        arguments
            .out
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or("party")
            .to_lowercase()
    };
    let name = arguments.name.clone().unwrap_or_else(stem);
    check_name(&name)?;
    for (flag, address) in [("--private", &arguments.private), ("--public", &arguments.public)] {
        if let Some(address) = address {
            let checked = Address::from_str(address).map_err(PeerProblem::from);
            checked
                .and_then(|address| address.check_reachable())
                .map_err(|e| {
                    Failure::usage(format!("{flag} {address:?}: {e}"))
                        .field(flag)
                        .hint("write /ip4/192.0.2.1/tcp/7001, /ip6/… or /dns/host.example/tcp/7001")
                })?;
        }
    }
    let mut identity = Identity::generate(name, arguments.private, arguments.public);
    let recovery = arguments.recovery.map(|file| (identity.with_recovery(), file));
    identity.create(&arguments.out)?;
    if let Some((key, file)) = recovery {
        // Lines that name a recovery key which nobody has would lead to a list that cannot be
        // repaired. The file was made a moment ago, so nothing of anybody's is removed.
        key.create(&file).map_err(|failure| {
            let _ = std::fs::remove_file(&arguments.out);
            failure.field("--recovery")
        })?;
    }
    Ok(identity)
}

/// Signs the statement, with a line of text to hand on.
fn revoke(arguments: RevokeArgs) -> Result<Report, Failure> {
    let (file, flag) = match (arguments.identity, arguments.recovery) {
        (Some(file), _) => (file, "--identity"),
        (None, recovery) => (recovery.unwrap_or_default(), "--recovery"),
    };
    let signer = Identity::load(&file).map_err(|failure| failure.field(flag))?;
    let id = arguments.id.unwrap_or_else(|| signer.peer_id());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_ms = since.as_millis() as u64;
    let statement = Revocation::sign(&signer.keypair, id, at_ms)
        .ok_or_else(|| Failure::usage(format!("{id} is not the id of an ed25519 key")).field("--id"))?;
    let line = to_line(&statement);
    let by = signer.peer_id().to_string();
    let json = json!({ "line": line, "id": id.to_string(), "at_ms": at_ms, "by": by, "exit_code": 0 });
    Ok(Report::done(json, format!("{line}\n")))
}

fn check_name(name: &str) -> Result<(), Failure> {
    let fine = (1..=32).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if fine {
        return Ok(());
    }
    Err(Failure::usage(format!("{name:?} is not a party's name"))
        .field("--name")
        .hint("use 1 to 32 characters out of a-z, 0-9 and -"))
}
