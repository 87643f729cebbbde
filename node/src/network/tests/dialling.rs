//! Tests of who dials, and of the fate of two connections and of dead ones. Nodes reach each other
//! over wires that a test can hold up and cut.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures::StreamExt;
use libp2p::core::Transport;
use libp2p::core::upgrade::Version;
use libp2p::swarm::SwarmEvent;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{Multiaddr, Swarm, noise, tcp};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use undertone_protocol::messages::notice::Network;

use crate::network::address::{self, Place};
use crate::network::config::RunGraph;
use crate::network::event::NetworkEvent;
use crate::network::muxer::Yamux;
use crate::network::session::STREAM;
use crate::network::tests::nodes::*;

/// The state that all connections of a wire share.
#[derive(Clone)]
struct Line {
    /// Nothing is carried while it is.
    held: watch::Sender<bool>,
    /// Connections that came before the last cut carry nothing any more, and stay open.
    cuts: watch::Sender<usize>,
    /// Connections whose dialler has said something.
    dialled: watch::Sender<usize>,
    /// Connections that stand, and those that ever stood.
    open: watch::Sender<usize>,
    opened: watch::Sender<usize>,
}

/// Carries what is said at one address to another.
struct Wire {
    address: Multiaddr,
    line: Line,
    _carrying: JoinSet<()>,
}

impl Wire {
    async fn to(target: &Multiaddr) -> Wire {
        let target = Place::parse(target).unwrap().resolve().await.unwrap()[0];
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = address::to_multiaddr(listener.local_addr().unwrap());
        let line = Line {
            held: watch::channel(false).0,
            cuts: watch::channel(0).0,
            dialled: watch::channel(0).0,
            open: watch::channel(0).0,
            opened: watch::channel(0).0,
        };
        let mut carrying = JoinSet::new();
        let shared = line.clone();
        carrying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((from, _)) = listener.accept().await {
                connections.spawn(carry(from, target, shared.clone()));
            }
        });
        Wire {
            address,
            line,
            _carrying: carrying,
        }
    }

    fn cut(&self) {
        self.line.cuts.send_modify(|cuts| *cuts += 1);
    }

    async fn dialled(&self) {
        soon(self.line.dialled.subscribe().wait_for(|dialled| *dialled > 0))
            .await
            .unwrap();
    }
}

async fn carry(mut from: TcpStream, target: SocketAddr, line: Line) {
    let mut cuts = line.cuts.subscribe();
    cuts.borrow_and_update();
    // Who only looks whether somebody listens says nothing.
    if !matches!(from.peek(&mut [0]).await, Ok(1..)) {
        return;
    }
    line.dialled.send_modify(|dialled| *dialled += 1);
    line.held.subscribe().wait_for(|held| !held).await.unwrap();
    let Ok(mut to) = TcpStream::connect(target).await else {
        return;
    };
    line.open.send_modify(|open| *open += 1);
    line.opened.send_modify(|opened| *opened += 1);
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut from, &mut to) => {}
        _ = cuts.changed() => std::future::pending().await,
    }
    line.open.send_modify(|open| *open -= 1);
    let _ = (from.shutdown().await, to.shutdown().await);
}

/// The lower and the higher of the ids of nodes 1 and 2.
fn in_order() -> [u8; 2] {
    if id(1) < id(2) { [1, 2] } else { [2, 1] }
}

fn graphs(config: &mut NodeConfig) -> [&mut RunGraph; 2] {
    [&mut config.run.private, &mut config.run.public]
}

/// Nodes 1 and 2, each of which reaches the other over wires of its own (private, public).
struct Wired {
    configs: [NodeConfig; 2],
    wires: [[Wire; 2]; 2],
}

impl Wired {
    async fn new() -> Wired {
        let addresses = Addresses::new(&[1, 2]);
        let mut configs = [addresses.config(1), addresses.config(2)];
        let mut wires = vec![];
        for config in &mut configs {
            let [private, public] = graphs(config);
            let ends = [
                Wire::to(&private.peers[0].addresses[0]).await,
                Wire::to(&public.peers[0].addresses[0]).await,
            ];
            private.peers[0].addresses = vec![ends[0].address.clone()];
            public.peers[0].addresses = vec![ends[1].address.clone()];
            wires.push(ends);
        }
        let wires = wires.try_into().map_err(|_| ()).expect("two nodes");
        Wired { configs, wires }
    }

    /// Waits until each node has been connected by its own dial on each graph, and one connection
    /// of the two is left there.
    async fn one_connection(wires: &[[Wire; 2]; 2]) {
        for wire in wires.iter().flatten() {
            let mut opened = wire.line.opened.subscribe();
            opened.wait_for(|opened| *opened > 0).await.unwrap();
        }
        let [ones, others] = wires;
        for ends in ones.iter().zip(others) {
            let (mut ones, mut others) = (ends.0.line.open.subscribe(), ends.1.line.open.subscribe());
            while *ones.borrow_and_update() + *others.borrow_and_update() != 1 {
                tokio::select! {
                    changed = ones.changed() => changed.unwrap(),
                    changed = others.changed() => changed.unwrap(),
                }
            }
        }
    }
}

#[tokio::test]
async fn one_that_nobody_can_dial_is_connected_whatever_its_id() {
    let [lower, higher] = in_order();
    for hidden in [lower, higher] {
        let addresses = Addresses::new(&[1, 2]);
        let mut config = addresses.config(3 - hidden);
        for graph in graphs(&mut config) {
            // As at a router that passes nothing on: it refuses.
            let nowhere = address::to_multiaddr((Ipv4Addr::LOCALHOST, free_port()).into());
            graph.peers[0].addresses = vec![nowhere];
        }
        let mut other = Node::start(config).await;
        let mut behind = Node::start(addresses.config(hidden)).await;
        other.connected(2).await;
        behind.connected(2).await;
        other.send(Network::Private, hidden, b"there you are");
        assert_eq!(behind.frame().await.2, b"there you are");
    }
}

/// A peer whose address leads elsewhere is not gone because that refuses connections.
#[tokio::test]
async fn one_that_nobody_can_dial_is_not_gone_before_it_had_time_to_come_back() {
    let [lower, higher] = in_order();
    for hidden in [lower, higher] {
        let Wired { mut configs, wires } = Wired::new().await;
        let [behind, other] = [hidden, 3 - hidden].map(|number| usize::from(number) - 1);
        for graph in graphs(&mut configs[other]) {
            let nowhere = address::to_multiaddr((Ipv4Addr::LOCALHOST, free_port()).into());
            graph.peers[0].addresses = vec![nowhere];
        }
        configs[other].hub.patience.ping = Duration::from_millis(200);
        configs[behind].hub.patience.ping = Duration::from_millis(800);
        let [one, two] = configs;
        let mut nodes = [Node::start(one).await, Node::start(two).await];
        for node in &mut nodes {
            node.connected(2).await;
        }
        let [one, two] = nodes;
        let (behind, mut other) = if hidden == 1 { (one, two) } else { (two, one) };
        // Its router forgets its connections; the other notices first, and is refused meanwhile.
        wires[usize::from(hidden) - 1].iter().for_each(Wire::cut);
        let (mut lost, mut back) = (0, 0);
        while back < 2 {
            match other.next().await {
                NetworkEvent::Disconnected { .. } => lost += 1,
                NetworkEvent::Connected { .. } => back += 1,
                unexpected => panic!("unexpected {unexpected:?}"),
            }
        }
        assert_eq!(lost, 2);
        drop(behind);
        other
            .find(|event| matches!(event, NetworkEvent::Unreachable { .. }).then_some(()))
            .await;
    }
}

/// Dials of the hidden one on these graphs (0: private, 1: public) come through after all are known
/// to be up. It is gone only once it really is.
async fn dials_come_late(hidden: u8, held: &[usize]) {
    let Wired { mut configs, wires } = Wired::new().await;
    for graph in graphs(&mut configs[2 - usize::from(hidden)]) {
        let nowhere = address::to_multiaddr((Ipv4Addr::LOCALHOST, free_port()).into());
        graph.peers[0].addresses = vec![nowhere];
    }
    let ends = held.iter().map(|&graph| &wires[usize::from(hidden) - 1][graph]);
    let hold = |is_held| {
        for end in ends.clone() {
            end.line.held.send_replace(is_held);
        }
    };
    hold(true);
    let [one, two] = configs;
    let [one, two] = [Node::start(one).await, Node::start(two).await];
    let (behind, mut other) = if hidden == 1 { (one, two) } else { (two, one) };
    for end in ends.clone() {
        end.dialled().await;
    }
    other.handle.everybody_is_up();
    let mut up = 0;
    while up < 2 {
        // Long enough for the other to be refused, and less than a dial may take.
        let event = tokio::select! {
            event = other.next() => event,
            () = tokio::time::sleep(Duration::from_millis(300)) => {
                hold(false);
                continue;
            }
        };
        match event {
            NetworkEvent::Connected { .. } => up += 1,
            NetworkEvent::Refused { .. } => {}
            unexpected => panic!("{held:?}: unexpected {unexpected:?}"),
        }
    }
    drop(behind);
    other
        .find(|event| matches!(event, NetworkEvent::Unreachable { .. }).then_some(()))
        .await;
}

/// That all are up is heard over third parties, too: before any edge, or one of both, to a party
/// that only dials has come up.
#[tokio::test]
async fn one_that_nobody_can_dial_is_not_gone_if_all_are_up_before_its_edges() {
    // Each is too large for a stack that has all of them.
    let cases = in_order()
        .map(|hidden| [&[0][..], &[1], &[0, 1]].map(|held| Box::pin(dials_come_late(hidden, held))));
    futures::future::join_all(cases.into_iter().flatten()).await;
}

/// Every connection stands and carries nothing, and neither end gets an error.
#[tokio::test]
async fn a_connection_on_which_nobody_answers_is_closed_and_dialled_again() {
    let mut wired = Wired::new().await;
    for config in &mut wired.configs {
        config.hub.patience.ping = Duration::from_millis(300);
    }
    let Wired {
        configs: [one, two],
        wires,
    } = wired;
    let mut nodes = [Node::start(one).await, Node::start(two).await];
    for node in &mut nodes {
        node.connected(2).await;
    }
    wires.iter().flatten().for_each(Wire::cut);
    for node in &mut nodes {
        let (mut lost, mut back) = (BTreeSet::new(), BTreeSet::new());
        while back.len() < 2 {
            match node.next().await {
                NetworkEvent::Disconnected { graph, .. } => drop(lost.insert(graph)),
                NetworkEvent::Connected { graph, .. } if lost.contains(&graph) => drop(back.insert(graph)),
                other => panic!("unexpected {other:?}"),
            }
        }
    }
    let [one, mut two] = nodes;
    one.send(Network::Private, 2, b"again");
    assert_eq!(two.frame().await.2, b"again");
}

/// Stands for the last frame of a conversation.
const END: u32 = u32::MAX;

/// Sends numbered frames on both graphs, each as soon as the other's last ones have come, until it
/// is over. The other's come in order and without an interruption.
async fn converse(node: &mut Node, other: u8, over: watch::Receiver<bool>) {
    let (mut come, mut sent, mut ended) = ([0; 2], 0, false);
    while !ended || come != [END; 2] {
        if !ended && come.iter().all(|come| *come >= sent) {
            ended = *over.borrow();
            let number: u32 = if ended { END } else { sent };
            for graph in [Network::Private, Network::Public] {
                node.send(graph, other, &number.to_be_bytes());
            }
            sent += 1;
            continue;
        }
        match node.next().await {
            NetworkEvent::Frame { graph, bytes, .. } => {
                let come = &mut come[usize::from(graph == Network::Public)];
                *come = match bytes[..] == END.to_be_bytes() {
                    true => END,
                    false => {
                        assert_eq!(&bytes[..], come.to_be_bytes(), "{graph}");
                        *come + 1
                    }
                };
            }
            NetworkEvent::Connected { .. } => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// Holds all dials of two nodes until both have dialled on both graphs, and lets them through in
/// one of four orders.
async fn both_dial(order: usize) {
    let wired = Wired::new().await;
    let Wired {
        configs: [one, two],
        wires,
    } = wired;
    for wire in wires.iter().flatten() {
        wire.line.held.send_replace(true);
    }
    let mut nodes = [Node::start(one).await, Node::start(two).await];
    for wire in wires.iter().flatten() {
        wire.dialled().await;
    }
    // Whose dial comes through first is drawn by the order here.
    for number in 0..4 {
        let (node, graph) = ((number / 2) ^ (order / 2), (number % 2) ^ (order % 2));
        wires[node][graph].line.held.send_replace(false);
    }
    let [one, two] = &mut nodes;
    let over = watch::channel(false).0;
    let settled = async {
        Wired::one_connection(&wires).await;
        over.send_replace(true);
    };
    let conversing = [
        converse(one, 2, over.subscribe()),
        converse(two, 1, over.subscribe()),
    ];
    soon(futures::future::join(
        settled,
        futures::future::join_all(conversing),
    ))
    .await;
    for (node, other) in [(one, 2), (two, 1)] {
        let since = node.events.try_recv();
        assert!(since.is_err(), "unexpected {since:?}");
        node.send(Network::Private, other, b"still");
    }
}

#[tokio::test]
async fn two_that_dial_at_once_keep_one_connection_and_lose_no_frame() {
    futures::future::join_all((0..4).map(both_dial)).await;
}

/// A swarm of node 2's own, which opens streams and says nothing on them.
fn liar() -> Swarm<libp2p_stream::Behaviour> {
    let transport = tcp::tokio::Transport::default()
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(&key(2)).unwrap())
        .multiplex(Yamux::new(16 << 10));
    opening(transport.boxed(), id(2))
}

/// Connections that a peer dials beyond those that it needs: they stay few, whether its streams say
/// nothing or there are none, and other edges notice nothing.
#[tokio::test]
async fn a_peer_that_dials_again_and_again_keeps_few_connections() {
    let addresses = Addresses::new(&[1, 2, 3]);
    let mut config = addresses.config(1);
    config.hub.patience.hello = 2 * DEADLINE;
    let mut one = Node::start(config).await;
    let mut three = Node::start(addresses.config(3)).await;
    one.connected(2).await;
    three.connected(2).await;
    let target = one.network.private_address().clone();
    let mut liars = JoinSet::new();
    for number in 0..10 {
        let mut swarm = liar();
        let mut control = swarm.behaviour().new_control();
        swarm
            .dial(DialOpts::peer_id(id(1)).addresses(vec![target.clone()]).build())
            .unwrap();
        while !matches!(
            soon(swarm.select_next_some()).await,
            SwarmEvent::ConnectionEstablished { .. }
        ) {}
        liars.spawn(async move {
            let holding = async {
                let _held = match number % 2 {
                    0 => control.open_stream(id(1), STREAM).await.ok(),
                    _ => None,
                };
                std::future::pending::<()>().await;
            };
            let closed = async {
                while !matches!(
                    swarm.select_next_some().await,
                    SwarmEvent::ConnectionClosed { .. }
                ) {}
            };
            tokio::select! {
                () = holding => {}
                () = closed => {}
            }
        });
    }
    for _ in 0..6 {
        soon(liars.join_next()).await;
    }
    three.send(Network::Private, 1, b"undisturbed");
    loop {
        match one.next().await {
            NetworkEvent::Frame { bytes, .. } => break assert_eq!(&bytes[..], b"undisturbed"),
            NetworkEvent::Disconnected { peer, .. } => panic!("{peer} is disconnected"),
            _ => {}
        }
    }
}
