//! `undertone testnet`: one of several daemons that know nothing of each other yet and meet in a
//! shared folder.
//!
//! A container of the composition runs one node. Each node makes its own key in its own folder,
//! leaves its lines for the peer list in the shared one, waits for the others' lines, and becomes
//! the daemon of `undertone node`. Keys never leave their folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use crate::commands::local::demonstration;
use crate::daemon::config::NodeArgs;
use crate::daemon::running;
use crate::party::identity::Identity;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Flags of `testnet`.
#[derive(Args, Debug)]
pub struct TestnetArgs {
    /// Which of the nodes this is, from 1; it is called node-K, and so is its host
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    node: u16,
    /// How many nodes there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(3..))]
    nodes: u16,
    /// This node's own folder: key, peer list, configuration, state, and a data set of made-up
    /// patients; what is absent is made
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// The folder that all nodes share
    #[arg(long, value_name = "DIR")]
    meet: PathBuf,
    /// Where means and receipts go
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// How long to wait for the others' lines
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    meet_ms: u64,
}

/// The ports of the two listeners: every node has a host of its own.
const PORTS: [u16; 2] = [7001, 7002];
/// The interval at which the shared folder is looked at: a volume of containers, perhaps of several
/// machines, reports no changes.
const LOOK: Duration = Duration::from_millis(100);

/// Prepares, meets, and runs the daemon until it is asked to end.
pub fn run(arguments: TestnetArgs) -> Result<Report, Failure> {
    let TestnetArgs {
        node,
        nodes,
        folder,
        meet,
        output,
        meet_ms,
    } = &arguments;
    if node > nodes {
        let text = format!(
            "There are {nodes} nodes this time; {} has nothing to do.\n",
            name_of(*node)
        );
        return Ok(Report::done(
            serde_json::json!({ "nodes": nodes, "node": node }),
            text,
        ));
    }
    let identity = prepare(*node, folder)?;
    leave(meet, &identity.name, &identity.peer_lines())?;
    let met = wait_for(*nodes, meet, Duration::from_millis(*meet_ms))?;
    write(
        &folder.join("peers.toml"),
        &format!("version = 1\n{}", met.concat()),
    )?;
    let config = folder.join("node.toml");
    if !config.exists() {
        write(&config, &configuration(&met, output))?;
    }
    running::run(NodeArgs {
        config: Some(config),
        ..NodeArgs::default()
    })
}

fn name_of(node: u16) -> String {
    format!("node-{node}")
}

/// Key and data, if they are not there yet.
fn prepare(node: u16, folder: &Path) -> Result<Identity, Failure> {
    let data = folder.join("data");
    fs::create_dir_all(&data).map_err(|e| refused(&data, "--folder", &e))?;
    let patients = data.join("patients.csv");
    if !patients.exists() {
        demonstration::write_patients(usize::from(node - 1), 0, &patients)?;
    }
    let key = folder.join("identity.key");
    if !key.exists() {
        let name = name_of(node);
        let [private, public] = PORTS.map(|port| Some(format!("/dns/{name}/tcp/{port}")));
        Identity::generate(name, private, public).create(&key)?;
    }
    Identity::load(&key)
}

/// Leaves a node's lines in the shared folder: whole or not at all.
fn leave(meet: &Path, name: &str, lines: &str) -> Result<(), Failure> {
    let hidden = meet.join(format!(".{name}"));
    write(&hidden, lines)?;
    let path = meet.join(format!("{name}.toml"));
    fs::rename(&hidden, &path).map_err(|e| refused(&path, "--meet", &e))
}

/// The lines of all nodes, in their order.
fn wait_for(nodes: u16, meet: &Path, patience: Duration) -> Result<Vec<String>, Failure> {
    let begun = Instant::now();
    let mut met = vec![];
    while met.len() < usize::from(nodes) {
        let next = name_of(met.len() as u16 + 1);
        let path = meet.join(format!("{next}.toml"));
        match fs::read_to_string(&path) {
            Ok(lines) => met.push(lines),
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(refused(&path, "--meet", &e)),
            Err(_) if begun.elapsed() > patience => {
                return Err(Failure::usage(format!(
                    "{next} did not show up in {} within {patience:?}",
                    meet.display()
                ))
                .field("--nodes")
                .hint("start as many nodes as --nodes says"));
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
    Ok(met)
}

/// One's own containers: everybody vouches for everybody, and the first node's plans are accepted
/// unasked.
fn configuration(met: &[String], output: &Path) -> String {
    let ids: Vec<&str> = met
        .iter()
        .flat_map(|lines| lines.lines())
        .filter_map(|line| line.strip_prefix("id = "))
        .collect();
    format!(
        "# Made by `undertone testnet` and never overwritten; \
         see deploy/testnet/node.toml for what can be said here.\n\
         version = 1\noutput = {:?}\n\
         [policy]\nmax_epsilon = 1.0\nvouched = [{}]\n\
         [[data_set]]\nname = \"patients\"\nunit = \"record\"\nfile = \"patients.csv\"\nepsilon = 3.0\n\
         delta = 1e-5\n\
         # Rows that nobody stores, brought with each plan.\n\
         [[data_set]]\nname = \"telemetry\"\nunit = \"party\"\nepsilon = 3.0\ndelta = 1e-5\n\
         [[auto_accept]]\nproposer = {:?}\ndata_set = \"patients\"\n",
        output,
        ids.join(", "),
        name_of(1)
    )
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| refused(path, "--folder", &e))
}

fn refused(path: &Path, flag: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
        .field(flag)
        .hint("choose a folder that this user may write to")
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::peers::Peers;

    use super::*;

    #[test]
    fn nodes_meet_each_with_a_key_of_its_own_that_stays() {
        let folder = tempfile::tempdir().unwrap();
        let meet = folder.path().join("meet");
        fs::create_dir(&meet).unwrap();
        let own = |node: u16| folder.path().join(name_of(node));
        let arrive = |node: u16| {
            let identity = prepare(node, &own(node)).unwrap();
            leave(&meet, &identity.name, &identity.peer_lines()).unwrap();
            identity.peer_id()
        };
        let waiting = {
            let meet = meet.clone();
            std::thread::spawn(move || wait_for(3, &meet, Duration::from_secs(60)))
        };
        let ids = [3, 1, 2].map(arrive);
        let met = waiting.join().unwrap().unwrap();
        let peers = Peers::parse(&format!("version = 1\n{}", met.concat())).unwrap();
        assert_eq!(
            peers.as_slice().iter().map(|peer| peer.id).collect::<Vec<_>>(),
            [ids[1], ids[2], ids[0]]
        );
        assert_eq!(peers.as_slice()[2].contact.at[0].as_str(), "/dns/node-3/tcp/7001");
        assert_eq!(arrive(3), ids[0], "made once");
        let failure = wait_for(4, &meet, Duration::ZERO).unwrap_err();
        assert!(failure.message.contains("node-4 did not show up"), "{failure}");
    }
}
