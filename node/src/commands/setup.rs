//! `undertone setup`: asks what a daemon needs to know, and writes its files.

mod answers;
pub(super) mod flags;
mod unit;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::commands::setup::answers::{Reached, SetupAnswers};
use crate::commands::setup::flags::SetupArgs;
use crate::party::identity::Identity;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Asks, checks all answers, and writes the files.
pub fn run(arguments: &SetupArgs) -> Result<Report, Failure> {
    let answers = SetupAnswers::gather(arguments, &mut std::io::stdin().lock())?;
    let folder = &arguments.folder;
    let at = |name: &str| folder.join(name);
    let (key, peers, node) = (at("identity.key"), at("peers.toml"), at("node.toml"));
    let service = answers.service.then(unit::place).transpose()?;
    // Before the first file is written: half of a setup could not be begun again.
    for path in [&key, &peers, &node].into_iter().chain(service.as_ref()) {
        if path.exists() {
            return Err(there_already(path));
        }
    }
    make_folder(folder)?;
    let [private, public] = answers.reached.as_ref().map_or([None, None], Reached::addresses);
    let identity = Identity::generate(answers.name.clone(), private, public);
    identity.create(&key)?;
    write_new(
        &peers,
        &format!(
            "# Who takes part. Paste the other parties' lines below; everybody has the same list.\n\
             version = 1\n\n{}",
            identity.peer_lines()
        ),
    )?;
    write_new(&node, &configuration(&answers))?;
    if let Some(path) = &service {
        make_folder(path.parent().unwrap_or(folder))?;
        write_new(path, &unit::text(&node)?)?;
    }
    Ok(report(&identity, [&key, &peers, &node], service.as_deref()))
}

fn there_already(path: &Path) -> Failure {
    Failure::usage(format!("{}: is there already", path.display()))
        .field("DIR")
        .hint("nothing is overwritten; name another folder, or move the file away")
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| {
        Failure::storage(&e, format!("{}: cannot be made: {e}", folder.display()))
            .field("DIR")
            .hint("name a folder that you can write to")
    })
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|e| {
        Failure::storage(&e, format!("{}: cannot be written: {e}", path.display()))
            .field("DIR")
            .hint("name a folder that you can write to")
    })
}

/// The text of node.toml.
fn configuration(answers: &SetupAnswers) -> String {
    let mut text = String::from(
        "# Written by `undertone setup`. Keys: undertone help node. Paths count from this folder.\n\
         version = 1\n\
         identity = \"identity.key\"\n\
         peers = \"peers.toml\"\n\
         # Remembers what was spent. Keep it: who loses it can spend a budget twice.\n\
         state = \"state\"\n",
    );
    if let Some(data) = &answers.data {
        text += &format!("data = {:?}\n", data.display().to_string());
    }
    if let Some(port) = answers.reached.as_ref().and_then(Reached::port_behind_name) {
        // A name can lead to a router's address, where this machine cannot listen.
        text += &format!(
            "\n[listen]\nprivate = \"/ip4/0.0.0.0/tcp/{port}\"\npublic = \"/ip4/0.0.0.0/tcp/{}\"\n",
            port + 1
        );
    }
    let epsilon = answers.epsilon;
    text += &format!(
        "\n[policy]\n# A plan that claims more than this is refused.\nmax_epsilon = {:?}\n\n\
         # What may ever be learned about one record, over all runs.\n\
         [[data_set]]\nname = \"data\"\nunit = \"record\"\nepsilon = {epsilon:?}\ndelta = 1e-5\n",
        epsilon.min(1.0)
    );
    text
}

fn report(identity: &Identity, [key, peers, node]: [&PathBuf; 3], service: Option<&Path>) -> Report {
    let next = match service {
        Some(_) => "systemctl --user enable --now undertone".to_owned(),
        None => format!("undertone node --config {}", node.display()),
    };
    let unit = service.map_or_else(String::new, |path| format!(", {}", path.display()));
    let text = format!(
        "Made {}, {}, {}{unit}.\n\n\
         Send these lines to the other parties, and paste theirs into {}:\n\n{}\n\
         Once at least three parties are in it:\n  {next}\n",
        key.display(),
        peers.display(),
        node.display(),
        peers.display(),
        identity.peer_lines(),
    );
    let object = json!({
        "party": identity.to_json(),
        "identity": key,
        "peers": peers,
        "config": node,
        "unit": service,
        "peer_lines": identity.peer_lines(),
        "next": next,
        "exit_code": 0,
    });
    Report::done(object, text)
}
