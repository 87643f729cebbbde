//! Peers that nobody can dial, and the relays that join them.

use std::time::Duration;

use libp2p::Multiaddr;
use tokio::net::TcpStream;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::Question;

use super::nodes::{Addresses, DEADLINE, Node, NodeConfig, id, key, soon};
use crate::forking;
use crate::network::address::Whereabouts;
use crate::network::config::{HubConfig, Listening, Patience, PeerAddress, RunConfig};
use crate::network::event::{LinkWay, NetworkEvent};
use crate::network::hub::Hub;

/// The relay's number.
pub(super) const RELAY: u8 = 9;

pub(super) fn address_of(addresses: &Addresses, number: u8) -> Multiaddr {
    let mut listed = addresses.0.iter();
    let (_, private, _) = listed.find(|(other, ..)| *other == number).expect("one of them");
    private.clone()
}

async fn relay(address: &Multiaddr, numbers: &[u8]) -> Hub {
    relay_of(RELAY, address, numbers).await
}

/// A relay with this number, of these numbers.
pub(super) async fn relay_of(own: u8, address: &Multiaddr, numbers: &[u8]) -> Hub {
    let peers = numbers.iter().map(|number| PeerAddress {
        peer_id: id(*number),
        addresses: vec![],
    });
    let nowhere = Listening {
        listen: vec![],
        announced: false,
        peers: vec![],
    };
    let config = HubConfig {
        key: key(own),
        version: 1,
        private: Listening {
            listen: vec![address.clone()],
            announced: true,
            peers: peers.collect(),
        },
        public: nowhere,
        relays: vec![],
        relays_others: true,
        patience: Patience::default(),
    };
    forking::until_over();
    Hub::start_asking(config).await.unwrap()
}

/// Takes away all addresses of these numbers, and lists the relay.
pub(super) fn without_addresses(
    mut config: NodeConfig,
    hidden: &[u8],
    own: u8,
    relay: &Multiaddr,
) -> NodeConfig {
    for graph in [&mut config.run.private, &mut config.run.public] {
        graph.peers.retain(|peer| peer.peer_id != id(RELAY));
        for peer in &mut graph.peers {
            if hidden.iter().any(|number| id(*number) == peer.peer_id) {
                peer.addresses.clear();
            }
        }
    }
    config.run.links.clone_from(&config.run.private.peers);
    if hidden.contains(&own) {
        for listening in [&mut config.hub.private, &mut config.hub.public] {
            listening.listen.clear();
            listening.announced = false;
        }
    }
    config.hub.relays = vec![PeerAddress {
        peer_id: id(RELAY),
        addresses: vec![relay.clone()],
    }];
    config
}

/// Nodes 1 and 2 without addresses, connected on both graphs over the relay.
async fn hidden_pair(addresses: &Addresses, at: &Multiaddr) -> (Node, Node) {
    let hidden = |number| without_addresses(addresses.config(number), &[1, 2], number, at);
    let mut one = Node::start(hidden(1)).await;
    let mut two = Node::start(hidden(2)).await;
    one.connected(2).await;
    two.connected(2).await;
    (one, two)
}

async fn speaks(one: &mut Node, other: &mut Node, to: (u8, u8)) {
    for graph in [Network::Private, Network::Public] {
        one.send(graph, to.1, b"there");
        assert_eq!(other.frame().await, (graph, id(to.0), b"there".to_vec()));
        other.send(graph, to.0, b"and back");
        assert_eq!(one.frame().await, (graph, id(to.1), b"and back".to_vec()));
    }
}

#[tokio::test]
async fn two_that_nobody_can_dial_meet_over_a_relay_on_both_graphs() {
    let addresses = Addresses::new(&[1, 2, RELAY]);
    let at = address_of(&addresses, RELAY);
    let _relay = relay(&at, &[1, 2]).await;
    let (mut one, mut two) = hidden_pair(&addresses, &at).await;
    speaks(&mut one, &mut two, (1, 2)).await;
}

#[tokio::test]
async fn a_relay_opens_no_new_circuit_of_a_revoked_key_and_keeps_those_there_are() {
    let addresses = Addresses::new(&[1, 2, 3, RELAY]);
    let at = address_of(&addresses, RELAY);
    let relay = relay(&at, &[1, 2, 3]).await;
    let hub = async |number| {
        let NodeConfig { mut hub, run } =
            without_addresses(addresses.config(number), &[1, 2, 3], number, &at);
        (hub.private.peers, hub.public.peers) = (run.private.peers, run.public.peers);
        Hub::start(hub).await.unwrap()
    };
    let (one, two, three) = (hub(1).await, hub(2).await, hub(3).await);
    let echo = async |from: &Hub, to| from.ask(Network::Private, id(to), &Question::Echo, &[]).await;
    for (from, to) in [(&one, 2), (&two, 3), (&three, 2)] {
        // Until it has its place at the relay.
        soon(async { while echo(from, to).await.is_err() {} }).await;
    }
    relay.bar(&[id(1)].into());
    soon(echo(&one, 2)).await.unwrap();
    assert!(soon(echo(&one, 3)).await.is_err());
    soon(echo(&two, 3)).await.unwrap();
}

#[tokio::test]
async fn one_that_nobody_can_dial_dials_the_other_whatever_its_id() {
    for hidden in [1, 2] {
        let addresses = Addresses::new(&[1, 2, RELAY]);
        let at = address_of(&addresses, RELAY);
        // No relay is there: none is needed.
        let config = |number| without_addresses(addresses.config(number), &[hidden], number, &at);
        let mut one = Node::start(config(1)).await;
        let mut two = Node::start(config(2)).await;
        one.connected(2).await;
        two.connected(2).await;
        speaks(&mut one, &mut two, (1, 2)).await;
    }
}

/// The other is not looked for at the relay, although it is there, while it may still dial.
#[tokio::test]
async fn one_that_can_dial_comes_directly_though_a_relay_has_it() {
    for hidden in [1, 2] {
        let numbers = [1, 2, 3, RELAY];
        let addresses = Addresses::new(&numbers);
        let at = address_of(&addresses, RELAY);
        let _relay = relay(&at, &[1, 2, 3]).await;
        let config = |number| without_addresses(addresses.config(number), &[hidden, 3], number, &at);
        let hub = async |number| {
            let NodeConfig { mut hub, run } = config(number);
            (hub.private.peers, hub.public.peers) = (run.private.peers, run.public.peers);
            Hub::start(hub).await.unwrap()
        };
        let (there, third) = (hub(hidden).await, hub(3).await);
        let question = async || {
            third
                .ask(Network::Private, id(hidden), &Question::Echo, &[])
                .await
        };
        soon(async { while question().await.is_err() {} }).await;
        let without_third = |mut run: RunConfig| {
            for graph in [&mut run.private, &mut run.public] {
                graph.peers.retain(|peer| peer.peer_id != id(3));
            }
            run
        };
        let NodeConfig { hub, run } = config(3 - hidden);
        let run = without_third(run);
        let mut here = Node::start(NodeConfig { hub, run }).await;
        let early = timeout(Duration::from_secs(1), here.events.recv()).await;
        assert!(early.is_err(), "{early:?}");
        let _there = there.attach(without_third(config(hidden).run)).unwrap();
        for _ in 0..2 {
            let way = here.find(|event| match event {
                NetworkEvent::Connected { way, .. } => Some(way),
                _ => None,
            });
            assert!(!matches!(way.await, LinkWay::Relayed(_)));
        }
    }
}

#[tokio::test]
async fn who_has_no_plain_address_sends_public_frames_over_the_encrypted_connection() {
    let addresses = Addresses::new(&[1, 2]);
    let mut configs = [addresses.config(1), addresses.config(2)];
    for config in &mut configs {
        config.hub.public.listen.clear();
        config.hub.public.announced = false;
        for peer in &mut config.run.public.peers {
            peer.addresses.clear();
        }
    }
    let [mut one, mut two] = [None, None];
    for (node, config) in [&mut one, &mut two].into_iter().zip(configs) {
        *node = Some(Node::start(config).await);
    }
    let (mut one, mut two) = (one.expect("started"), two.expect("started"));
    one.connected(2).await;
    two.connected(2).await;
    speaks(&mut one, &mut two, (1, 2)).await;
}

#[tokio::test]
async fn a_relay_that_restarts_makes_nobody_gone() {
    let addresses = Addresses::new(&[1, 2, RELAY]);
    let at = address_of(&addresses, RELAY);
    let first = relay(&at, &[1, 2]).await;
    let (mut one, mut two) = hidden_pair(&addresses, &at).await;
    one.handle.everybody_is_up();
    two.handle.everybody_is_up();
    soon(first.shutdown()).await;
    let _second = relay(&at, &[1, 2]).await;
    for node in [&mut one, &mut two] {
        let mut up = 0;
        while up < 2 {
            match node.next().await {
                NetworkEvent::Connected { .. } => up += 1,
                NetworkEvent::Unreachable { peer } => panic!("{peer} is taken for gone"),
                _ => {}
            }
        }
    }
    speaks(&mut one, &mut two, (1, 2)).await;
}

#[tokio::test]
async fn who_ends_at_a_relay_is_gone_for_the_other() {
    let addresses = Addresses::new(&[1, 2, RELAY]);
    let at = address_of(&addresses, RELAY);
    let _relay = relay(&at, &[1, 2]).await;
    let (mut one, two) = hidden_pair(&addresses, &at).await;
    one.handle.everybody_is_up();
    drop(two);
    let gone = one.find(|event| match event {
        NetworkEvent::Unreachable { peer } => Some(peer),
        _ => None,
    });
    assert_eq!(gone.await, id(2));
}

#[tokio::test]
async fn a_relay_takes_nobody_whom_it_does_not_list() {
    let addresses = Addresses::new(&[1, 2, RELAY]);
    let at = address_of(&addresses, RELAY);
    let relay = relay(&at, &[2]).await;
    let hidden = |number| without_addresses(addresses.config(number), &[1, 2], number, &at);
    let mut one = Node::start(hidden(1)).await;
    let _two = Node::start(hidden(2)).await;
    let fault = one.find(|event| match event {
        NetworkEvent::Unanswered { fault, .. } => Some(fault),
        NetworkEvent::Connected { .. } => panic!("a stranger has been let in"),
        _ => None,
    });
    println!("{}", fault.await);
    drop(relay);
}

/// Joins parties that nobody can dial over one relay, all at once. A relay takes ten handshakes at
/// a time on each connection, and drops what is more.
async fn meet_over_one_relay(numbers: Vec<u8>) {
    let with_relay: Vec<u8> = numbers.iter().copied().chain([RELAY]).collect();
    let addresses = Addresses::new(&with_relay);
    let at = address_of(&addresses, RELAY);
    let _relay = relay(&at, &numbers).await;
    let begun = std::time::Instant::now();
    let mut nodes = Vec::new();
    for &number in &numbers {
        let mut config = without_addresses(addresses.config(number), &numbers, number, &at);
        // One graph is enough: forty have 780 links.
        config.run.public.peers.clear();
        nodes.push(Node::start(config).await);
    }
    let others = numbers.len() - 1;
    let all = nodes.iter_mut().map(|node| node.connected(others));
    futures::future::join_all(all).await;
    println!("{} links in {:?}", numbers.len() * others / 2, begun.elapsed());
}

#[tokio::test]
async fn twenty_that_nobody_can_dial_meet_over_one_relay_at_once() {
    meet_over_one_relay((10..30).collect()).await;
}

#[tokio::test]
#[ignore = "a measurement: forty in at most 10 s on a quiet machine"]
async fn forty_that_nobody_can_dial_meet_over_one_relay_at_once() {
    meet_over_one_relay((10..50).collect()).await;
}

/// A thousand connect and say nothing: they get places for newcomers, and keep nobody out.
#[tokio::test]
async fn a_thousand_silent_guests_keep_nobody_from_a_relay() {
    let addresses = Addresses::new(&[1, 2, RELAY]);
    let at = address_of(&addresses, RELAY);
    let _relay = relay(&at, &[1, 2]).await;
    let places = Whereabouts::parse(std::slice::from_ref(&at)).unwrap();
    let place = places.resolve(DEADLINE).await[0];
    let mut guests = Vec::new();
    for _ in 0..1000 {
        guests.push(TcpStream::connect(place).await.unwrap());
    }
    let (mut one, mut two) = hidden_pair(&addresses, &at).await;
    speaks(&mut one, &mut two, (1, 2)).await;
}
