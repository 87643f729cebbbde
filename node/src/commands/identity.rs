//! `undertone identity`: makes and shows a party's key.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use undertone_protocol::plan::peers::entry::{Address, PeerProblem};

use crate::party::identity::Identity;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// What to do with an identity.
#[derive(Debug, Subcommand)]
pub enum IdentityCommand {
    /// Make a key in a new file (mode 0600) and print the lines that the others paste into their
    /// peers.toml
    New(NewArgs),
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
}

/// Makes or reads an identity, and reports its lines for peer lists.
pub fn run(command: IdentityCommand) -> Result<Report, Failure> {
    let identity = match command {
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
    let identity = Identity::generate(name, arguments.private, arguments.public);
    identity.create(&arguments.out)?;
    Ok(identity)
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
