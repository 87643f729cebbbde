//! Flags of `undertone setup`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `setup`. A question is asked for each that is left out, unless `--yes` stands there.
#[derive(Args, Debug)]
pub struct SetupArgs {
    /// The folder for identity.key, peers.toml and node.toml; made if it is absent. Nothing in it
    /// is overwritten
    #[arg(value_name = "DIR", default_value = ".")]
    pub(super) folder: PathBuf,
    /// This party's name: [a-z0-9-], at most 32 characters (default: the folder's)
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Folder of tables and vectors that runs may use, or "none"
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<String>,
    /// Where the others reach this machine, as HOST or HOST:PORT, or "none" behind NAT. The port
    /// after it is taken as well
    #[arg(long, value_name = "HOST")]
    pub(super) listen: Option<String>,
    /// Budget: the ε of all runs together (default: 1)
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub(super) epsilon: Option<String>,
    /// Write a unit for systemd, which runs the daemon as this user
    #[arg(long)]
    pub(super) service: bool,
    /// Ask nothing: defaults for all that no flag says
    #[arg(long)]
    pub(super) yes: bool,
}
