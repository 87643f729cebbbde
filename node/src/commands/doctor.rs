//! `undertone doctor`: asks every neighbour of a plan, on both graphs, before anything private is
//! at stake.
//!
//! It asks with the party's own identity, and only asks: nothing that it does takes part in a run,
//! and a node of the same identity may run meanwhile.

mod examine;
mod findings;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::peers::number::list_digest;
use undertone_protocol::topology::party::Party;

use crate::commands::doctor::examine::{SilentRelay, Subject, Visit};
use crate::commands::doctor::findings::Findings;
use crate::network::config::{HubConfig, Listening, Patience, PeerAddress};
use crate::network::hub::Hub;
use crate::party::identity::Identity;
use crate::party::reaching::{self, MESSAGES_VERSION};
use crate::planning::{files, make};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::report::Report;

/// Flags of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// The plan that is to be joined
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    /// This party's key
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// The peer list of this party: whoever has another is named
    #[arg(long, value_name = "PEERS.toml")]
    peers: Option<PathBuf>,
    /// How long a peer may take to answer; a silent one is asked three times
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    timeout_ms: u64,
}

/// Asks everybody and says what to fix.
pub fn run(arguments: DoctorArgs) -> Result<Report, Failure> {
    let plan = Arc::new(files::load(&arguments.plan)?);
    let identity = Identity::load(&arguments.identity)?;
    let me = plan
        .draft()
        .members
        .iter()
        .position(|member| member.id == identity.peer_id())
        .ok_or_else(|| {
            Failure::new(
                Exit::PlanRefused,
                format!("the identity {} is not a member of this plan", identity.peer_id()),
            )
            .field("--identity")
            .hint("use the identity whose id is in the peer list, or ask for a plan that lists this one")
        })?;
    let list = arguments.peers.as_deref().map(list_digest_of).transpose()?;
    let patience = Duration::from_millis(arguments.timeout_ms.max(1));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    let (visits, silent) = runtime.block_on(visit_all(&plan, me, &identity, patience))?;
    let mut findings = Findings::of(&plan, me, visits, &silent);
    if let Some(list) = list {
        findings.look_at_lists(&list);
    }
    Ok(findings.report())
}

/// SHA-256 of a peer list that can be read.
fn list_digest_of(path: &Path) -> Result<[u8; 32], Failure> {
    let text = files::read_text(path, "--peers")?;
    Peers::parse(&text).map_err(|e| make::peers_failure(path, &e))?;
    Ok(list_digest(text.as_bytes()))
}

/// All edges of this party: first whether there is somebody, everywhere at once; then how fast, one
/// after the other.
async fn visit_all(
    plan: &Arc<Plan>,
    me: Party,
    identity: &Identity,
    patience: Duration,
) -> Result<(Vec<Visit>, Vec<SilentRelay>), Failure> {
    let subjects = subjects(plan, me);
    let hub = hub(plan, &subjects, identity, patience).await?;
    let mut visits = JoinSet::new();
    for subject in subjects {
        let (hub, plan) = (hub.clone(), plan.clone());
        visits.spawn(async move { examine::visit(&hub, &plan, subject).await });
    }
    let mut visits = visits.join_all().await;
    visits.sort_by_key(|visit| (visit.subject.party, visit.subject.graph));
    for visit in &mut visits {
        visit.measure(&hub).await;
    }
    let silent = examine::silent_relays(&hub, plan).await;
    hub.shutdown().await;
    Ok((visits, silent))
}

/// Every neighbour on every graph, with its addresses there and those on the other graph. One whose
/// public messages take the encrypted connection is asked there.
fn subjects(plan: &Plan, me: Party) -> Vec<Subject> {
    let draft = plan.draft();
    let of = |graph: Network, party: Party| {
        let member = &draft.members[party];
        let (encrypted, plain) = (&member.contact.at[..], member.contact.public.as_slice());
        let (addresses, others) = match graph {
            Network::Private => (encrypted, plain),
            Network::Public => (plain, encrypted),
        };
        Subject {
            party,
            name: member.name.clone(),
            peer: member.id,
            graph,
            addresses: addresses.to_vec(),
            others: others.to_vec(),
        }
    };
    let private = draft.private_graph.neighbours(me);
    let mut subjects: Vec<Subject> = private.iter().map(|&party| of(Network::Private, party)).collect();
    for &party in draft.public_graph.neighbours(me) {
        match draft.members[party].contact.public.is_some() {
            true => subjects.push(of(Network::Public, party)),
            false if private.contains(&party) => {}
            false => subjects.push(of(Network::Private, party)),
        }
    }
    subjects
}

/// Asks only, and listens nowhere: the listed ports may be in use by this party's own node.
async fn hub(
    plan: &Plan,
    subjects: &[Subject],
    identity: &Identity,
    patience: Duration,
) -> Result<Hub, Failure> {
    debug_assert!(
        plan.parties() > subjects.len() / 2,
        "at most one subject for each party and graph"
    );
    let listening = |graph: Network| Listening {
        listen: vec![],
        announced: false,
        peers: subjects
            .iter()
            .filter(|subject| subject.graph == graph)
            .map(|subject| PeerAddress {
                peer_id: subject.peer,
                addresses: reaching::parse_all(&subject.addresses),
            })
            .collect(),
    };
    let draft = plan.draft();
    let config = HubConfig {
        key: identity.keypair.clone(),
        version: MESSAGES_VERSION,
        private: listening(Network::Private),
        public: listening(Network::Public),
        relays: reaching::relays(
            draft.members.iter().map(|member| (member.id, &member.contact)),
            &draft.relays,
            identity.peer_id(),
        ),
        relays_others: false,
        patience: Patience {
            dial: patience,
            hello: patience,
            ..Patience::default()
        },
    };
    Hub::start_asking(config)
        .await
        .map_err(|error| Failure::usage(error.to_string()))
}
