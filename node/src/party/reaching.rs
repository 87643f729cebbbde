//! The peers that a party listens for and reaches, as the plan says.

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

/// Returns the network settings of this party's neighbours in the plan.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use undertone_protocol::plan::peers::simulated_keypair;

    use super::*;
    use crate::testing::plan_of;

    /// A party listens where its own entry says, and reaches its neighbours of each graph where
    /// theirs say.
    #[test]
    fn a_party_listens_and_reaches_where_the_plan_says() {
        let text = "name = \"t\"\n[data]\nshape = [2]\n[topology]\npublic = \"ring\"\n";
        let plan = plan_of(text, 6, None);
        let members = &plan.draft().members;
        let hub = hub_configuration(&plan, 2, &simulated_keypair(2));
        assert_eq!(hub.private.listen.to_string(), members[2].private.as_str());
        assert_eq!(hub.public.listen.to_string(), members[2].public.as_str());
        assert_ne!(hub.private.listen, hub.public.listen);
        let run = run_configuration(&plan, 2);
        assert_eq!(run.digest, *plan.digest());
        for (side, links, private) in [
            (&run.private, plan.private_links(), true),
            (&run.public, plan.public_links(), false),
        ] {
            let found: BTreeSet<(String, String)> = side
                .peers
                .iter()
                .map(|peer| (peer.peer_id.to_string(), peer.address.to_string()))
                .collect();
            let expected = links.neighbours(2).iter().map(|&party| {
                let member = &members[party];
                let address = if private { &member.private } else { &member.public };
                (member.id.to_string(), address.as_str().to_owned())
            });
            assert_eq!(found, expected.collect(), "private: {private}");
            assert!(!found.is_empty());
        }
    }
}
