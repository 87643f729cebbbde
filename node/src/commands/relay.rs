//! `undertone relay`: passes on connections of listed parties that nobody can dial. They are
//! encrypted from end to end: it takes part in nothing, and reads nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use libp2p::PeerId;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::peers::entry::Address;

use crate::network::config::{HubConfig, Listening, Patience, PeerAddress};
use crate::network::hub::Hub;
use crate::party::identity::Identity;
use crate::party::reaching::{self, MESSAGES_VERSION};
use crate::party::signals::StopSignals;
use crate::planning::{files, make, revoked};
use crate::reporting::failure::Failure;
use crate::reporting::input_file;
use crate::reporting::report::Report;
use crate::reporting::table::bytes;

/// The longest peer list that is read: a thousand peers have 300 kB.
const LONGEST_LIST: u64 = 4 << 20;

/// Flags of `relay`.
#[derive(Args, Debug)]
pub struct RelayArgs {
    /// The relay's key (from `undertone identity new`)
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// Where to listen, such as /ip4/0.0.0.0/tcp/443 (hospitals let that port out)
    #[arg(long, value_name = "ADDR", required = true)]
    listen: Vec<Address>,
    /// For whom: peer lists (.toml) and plans (.json); SIGHUP reads them again
    #[arg(long = "for", value_name = "LIST", required = true, num_args = 1..)]
    whom: Vec<PathBuf>,
    /// Turn away keys revoked in this file of statements, one a line; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

/// Relays until it is asked to end (SIGTERM or SIGINT).
///
/// # Errors
/// A file that cannot be read, or an address that cannot be listened at (exit 2).
pub fn run(arguments: RelayArgs) -> Result<Report, Failure> {
    let identity = Identity::load(&arguments.identity)?;
    let peers = listed(&arguments.whom, identity.peer_id())?;
    let barred = barred(&arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    let relayed = runtime.block_on(serve(&arguments, &identity, (peers, barred)))?;
    let json = json!({ "outcome": "stopped", "relayed_bytes": relayed, "exit_code": 0 });
    Ok(Report::done(
        json,
        format!("Stopped; passed on {}.\n", bytes(relayed)),
    ))
}

async fn serve(
    arguments: &RelayArgs,
    identity: &Identity,
    (peers, barred): (Vec<PeerAddress>, BTreeSet<PeerId>),
) -> Result<u64, Failure> {
    let mut stop = StopSignals::listen();
    let mut hang_up = signal(SignalKind::hangup())
        .map_err(|e| Failure::usage(format!("signals cannot be waited for: {e}")))?;
    let listed_peers = peers.len();
    let config = HubConfig {
        key: identity.keypair.clone(),
        version: MESSAGES_VERSION,
        private: Listening {
            listen: reaching::parse_all(&arguments.listen),
            announced: true,
            peers,
        },
        public: Listening {
            listen: vec![],
            announced: true,
            peers: vec![],
        },
        relays: vec![],
        relays_others: true,
        patience: Patience::default(),
    };
    let hub = Hub::start_asking(config)
        .await
        .map_err(|error| Failure::usage(error.to_string()).field("--listen"))?;
    hub.bar(&barred);
    tracing::info!(
        id = %identity.peer_id(),
        listen = reaching::shown(&arguments.listen),
        "relaying for {listed_peers} parties"
    );
    loop {
        tokio::select! {
            _ = stop.next() => break,
            _ = hang_up.recv() => reload(&hub, arguments, identity.peer_id()),
        }
    }
    let relayed = hub.relayed_bytes().unwrap_or(0);
    hub.shutdown().await;
    Ok(relayed)
}

/// Reads the lists again; what is wrong with them changes nothing.
fn reload(hub: &Hub, arguments: &RelayArgs, own: PeerId) {
    let read = listed(&arguments.whom, own).and_then(|peers| {
        let barred = barred(arguments)?;
        hub.relist(&peers, &[], &[])
            .map_err(|error| Failure::usage(error.to_string()))?;
        hub.bar(&barred);
        Ok(peers.len())
    });
    match read {
        Ok(peers) => tracing::info!("read again: relaying for {peers} parties"),
        Err(failure) => tracing::error!("nothing has changed: {failure}"),
    }
}

/// The parties of all these lists and plans, each once, but for the relay itself.
fn listed(files: &[PathBuf], own: PeerId) -> Result<Vec<PeerAddress>, Failure> {
    let mut all = BTreeMap::new();
    for file in files {
        for (id, at) in parties(file)? {
            if id != own {
                all.entry(id).or_insert(at);
            }
        }
    }
    let peer = |(peer_id, at): (PeerId, Vec<Address>)| PeerAddress {
        peer_id,
        addresses: reaching::parse_all(&at),
    };
    Ok(all.into_iter().map(peer).collect())
}

/// The keys that are revoked, of the peer lists.
fn barred(arguments: &RelayArgs) -> Result<BTreeSet<PeerId>, Failure> {
    let Some(keys) = &arguments.keys else {
        return Ok(BTreeSet::new());
    };
    let lists = arguments.whom.iter().filter(|file| !is_plan(file));
    let lists = lists.map(|file| list(file)).collect::<Result<Vec<_>, _>>()?;
    let held = revoked::read(keys, &lists.iter().collect::<Vec<_>>())?;
    Ok(held.iter().map(|revoked| revoked.statement.id).collect())
}

fn is_plan(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "json")
}

fn list(file: &Path) -> Result<Peers, Failure> {
    let read = input_file::read(file, LONGEST_LIST).map_err(|error| {
        Failure::usage(format!("{}: cannot be read: {error}", file.display())).field("--for")
    })?;
    Peers::parse(&String::from_utf8_lossy(&read)).map_err(|e| make::peers_failure(file, &e))
}

/// The parties of one file, with their encrypted addresses.
fn parties(file: &Path) -> Result<Vec<(PeerId, Vec<Address>)>, Failure> {
    if is_plan(file) {
        let plan = files::load(file)?;
        let members = plan.draft().members.iter();
        return Ok(members
            .map(|member| (member.id, member.contact.at.clone()))
            .collect());
    }
    let peers = list(file)?;
    let peers = peers.as_slice().iter();
    Ok(peers.map(|peer| (peer.id, peer.contact.at.clone())).collect())
}
