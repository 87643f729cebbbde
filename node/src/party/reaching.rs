//! Whom a party listens for and reaches, as the plan says.

use libp2p::Multiaddr;
use libp2p::identity::Keypair;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::backlog::Backlog;
use undertone_protocol::run::machine::Run;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::network::config::{HubConfig, Listening, Patience, PeerAddress, RunConfig, RunGraph};

/// Version of the messages in frames.
pub const MESSAGES_VERSION: u32 = 6;

/// A multiaddress that was checked as a plan's or a peer list's are.
pub fn parse(address: &str) -> Multiaddr {
    address.parse().expect("a checked plan has checked addresses")
}

/// Where the plan says that this party listens.
pub fn hub_configuration(plan: &Plan, me: Party, key: &Keypair) -> HubConfig {
    let member = &plan.draft().members[me];
    let listening = |address: &str| Listening {
        listen: parse(address),
        peers: vec![],
    };
    HubConfig {
        key: key.clone(),
        version: MESSAGES_VERSION,
        private: listening(member.private.as_str()),
        public: listening(member.public.as_str()),
        patience: Patience::default(),
    }
}

/// What the plan says of this party's neighbours.
pub(super) fn run_configuration(plan: &Plan, me: Party) -> RunConfig {
    let members = &plan.draft().members;
    let (public_limit, private_limit) = Run::frame_limits(plan);
    let side = |graph: &Graph, private: bool, limit: usize, owed: Backlog| {
        let address = |party: Party| {
            parse(if private {
                members[party].private.as_str()
            } else {
                members[party].public.as_str()
            })
        };
        let peers = graph.neighbours(me).iter();
        let peers = peers
            .map(|&party| PeerAddress {
                peer_id: members[party].id,
                address: address(party),
            })
            .collect();
        RunGraph::new(peers, limit).owing(owed.frames, owed.bytes)
    };
    // One neighbour gets a share and an answer a round at most. (What is queued is held anyway:
    // neither limit bounds memory of ours by much.)
    let shares = plan.mixing_rounds() as usize + 2;
    let private = Backlog {
        frames: 2 * shares,
        bytes: private_limit.saturating_mul(shares),
    };
    RunConfig {
        digest: *plan.digest(),
        private: side(&plan.private_links(), true, private_limit, private),
        public: side(&plan.public_links(), false, public_limit, Run::most_owed(plan)),
    }
}
