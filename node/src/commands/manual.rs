//! `undertone completions` and `undertone manual`: what shells and `man` want to know of the
//! command line.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;

use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Flags of `completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell that is to complete commands and flags
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Flags of `manual`.
#[derive(Args, Debug)]
pub struct ManualArgs {
    /// The folder for undertone.1 and a page for each command; made if it is absent
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Says the shell's script.
pub fn completions(arguments: &CompletionsArgs, mut command: Command) -> Report {
    let mut script = vec![];
    clap_complete::generate(arguments.shell, &mut command, "undertone", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let shell = arguments.shell.to_string();
    Report::done(
        json!({ "shell": shell, "script": script, "exit_code": 0 }),
        script,
    )
}

/// Writes the pages of the manual.
///
/// # Errors
/// The folder cannot be written (exit 2).
pub fn manual(arguments: &ManualArgs, command: Command) -> Result<Report, Failure> {
    let folder = &arguments.folder;
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.map_err(|e| {
        Failure::storage(&e, format!("{}: cannot be written: {e}", folder.display()))
            .field("DIR")
            .hint("name a folder that you can write to")
    })?;
    let folder = folder.display().to_string();
    let text = format!(
        "Written: {folder}/undertone.1 and a page for each command. Read one:  man -l {folder}/undertone.1\n"
    );
    Ok(Report::done(json!({ "folder": folder, "exit_code": 0 }), text))
}
