//! The peers that a party listens for and reaches, as the plan says.

use libp2p::identity::Keypair;
use libp2p::{Multiaddr, PeerId};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::contact::{Contact, Relay};
use undertone_protocol::plan::peers::entry::Address;
use undertone_protocol::run::backlog::Backlog;
use undertone_protocol::run::machine::Run;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::network::config::{HubConfig, Listening, Patience, PeerAddress, RunConfig, RunGraph};

/// Version of the messages in frames.
pub const MESSAGES_VERSION: u32 = 8;

/// A multiaddress that was checked as a plan's or a peer list's are.
pub fn parse(address: &str) -> Multiaddr {
    address.parse().expect("a checked plan has checked addresses")
}

/// Multiaddresses of checked ones.
pub fn parse_all(addresses: &[Address]) -> Vec<Multiaddr> {
    addresses.iter().map(|address| parse(address.as_str())).collect()
}

/// Addresses in one line, for people.
pub fn shown(addresses: &[Address]) -> String {
    let addresses: Vec<&str> = addresses.iter().map(Address::as_str).collect();
    addresses.join(" ")
}

/// The encrypted addresses of all relays: those that are parties, and others.
pub fn relays<'a>(
    parties: impl Iterator<Item = (PeerId, &'a Contact)>,
    relays: &[Relay],
    me: PeerId,
) -> Vec<PeerAddress> {
    let parties = parties.filter(|(id, reach)| reach.relay && *id != me);
    let parties = parties.map(|(id, reach)| (id, &reach.at));
    parties
        .chain(relays.iter().map(|relay| (relay.id, &relay.at)))
        .map(|(peer_id, at)| PeerAddress {
            peer_id,
            addresses: parse_all(at),
        })
        .collect()
}

/// Where the plan says that this party listens, and over which relays others reach it.
pub fn hub_configuration(plan: &Plan, me: Party, key: &Keypair) -> HubConfig {
    let draft = plan.draft();
    let own = &draft.members[me];
    let others = || draft.members.iter().filter(|member| member.id != own.id);
    let public = own.contact.public.as_slice();
    HubConfig {
        key: key.clone(),
        version: MESSAGES_VERSION,
        private: Listening {
            listen: parse_all(&own.contact.at),
            announced: !own.contact.at.is_empty(),
            // A relay passes on connections of parties that are no neighbours of its own.
            peers: match own.contact.relay {
                true => others()
                    .map(|member| PeerAddress {
                        peer_id: member.id,
                        addresses: parse_all(&member.contact.at),
                    })
                    .collect(),
                false => vec![],
            },
        },
        public: Listening {
            listen: parse_all(public),
            announced: !public.is_empty(),
            peers: vec![],
        },
        relays: relays(
            draft.members.iter().map(|member| (member.id, &member.contact)),
            &draft.relays,
            own.id,
        ),
        relays_others: own.contact.relay,
        patience: Patience::default(),
    }
}

/// Returns the network settings of this party's neighbours in the plan.
pub(super) fn run_configuration(plan: &Plan, me: Party) -> RunConfig {
    let members = &plan.draft().members;
    let (public_limit, private_limit) = Run::frame_limits(plan);
    let address = |party: Party, graph: Network| PeerAddress {
        peer_id: members[party].id,
        addresses: parse_all(match graph {
            Network::Private => &members[party].contact.at,
            Network::Public => members[party].contact.public.as_slice(),
        }),
    };
    let side = |links: &Graph, graph: Network, limit: usize, owed: Backlog| {
        let peers = links.neighbours(me).iter();
        let peers = peers.map(|&party| address(party, graph)).collect();
        RunGraph::new(peers, limit).owing(owed.frames, owed.bytes)
    };
    // One neighbour gets a share and an answer a round at most. (What is queued is held anyway:
    // neither limit bounds memory of ours by much.)
    let shares = plan.mixing_rounds() as usize + 2;
    let private = Backlog {
        frames: 2 * shares,
        bytes: private_limit.saturating_mul(shares),
    };
    let public_links = plan.public_links();
    let links = public_links.neighbours(me).iter();
    RunConfig {
        digest: *plan.digest(),
        private: side(&plan.private_links(), Network::Private, private_limit, private),
        links: links.map(|&party| address(party, Network::Private)).collect(),
        public: side(&public_links, Network::Public, public_limit, Run::most_owed(plan)),
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
        let own = &members[2].contact;
        assert_eq!(hub.private.listen, parse_all(&own.at));
        assert_eq!(hub.public.listen, parse_all(own.public.as_slice()));
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
                .map(|peer| (peer.peer_id.to_string(), peer.addresses[0].to_string()))
                .collect();
            let expected = links.neighbours(2).iter().map(|&party| {
                let member = &members[party];
                let public = member.contact.public.as_ref();
                let address = if private {
                    member.contact.at.first()
                } else {
                    public
                };
                (member.id.to_string(), address.expect("one").to_string())
            });
            assert_eq!(found, expected.collect(), "private: {private}");
            assert!(!found.is_empty());
        }
    }
}
