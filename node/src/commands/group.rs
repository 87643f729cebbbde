//! `undertone group`: people who do not trust their host make one list of a group.

use clap::Subcommand;

use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

mod confirm;
mod files;
mod join;
mod open;
mod operator;
mod seated;
mod strangers;

/// A step in forming a group.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Open a lobby: show an invitation, let people sit down, make the list with them
    ///
    /// Enter closes the lobby; `remove NAME` takes somebody out. Then all compare ten digits in one
    /// call, read out by somebody who is not the host.
    #[command(
        override_usage = "undertone group open [OPTIONS] --identity <FILE> --name <NAME>\n       --peers <FILE>"
    )]
    Open(open::OpenArgs),
    /// Sit down in a lobby, compare the number, and get the list
    #[command(
        override_usage = "undertone group join [OPTIONS] --identity <FILE> --peers <FILE>\n       <INVITATION>"
    )]
    Join(join::JoinLobbyArgs),
    /// Say yes to a list that went by mail, and put it in the place of the old one
    Confirm(confirm::ConfirmArgs),
}

/// Forms a group.
///
/// # Errors
/// A bad invitation, file or flag (exit 2); no list came into force (exit 4).
pub fn run(command: GroupCommand) -> Result<Report, Failure> {
    match command {
        GroupCommand::Open(arguments) => open::run(&arguments),
        GroupCommand::Join(arguments) => join::run(&arguments),
        GroupCommand::Confirm(arguments) => confirm::run(&arguments),
    }
}
