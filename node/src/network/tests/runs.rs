//! Networks of one run.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use libp2p::{Multiaddr, PeerId};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::mixing::ticket::Ticket;

use crate::network::address::{self, Place, Whereabouts};
use crate::network::config::NetworkError;
use crate::network::dial_fault::DialFault;
use crate::network::event::NetworkEvent;
use crate::network::hello::code;
use crate::network::offence::Offence;
use crate::network::queue::{Frame, SendError};
use crate::network::run_network::RunNetwork;
use crate::network::tests::nodes::*;

#[tokio::test]
async fn three_nodes_exchange_frames_on_both_graphs() {
    let addresses = Addresses::new(&[1, 2, 3]);
    let mut nodes = Vec::new();
    for number in 1..=3 {
        nodes.push(Node::start(addresses.config(number)).await);
    }
    for node in &mut nodes {
        node.connected(4).await;
    }
    for from in 1..=3u8 {
        for to in (1..=3).filter(|to| *to != from) {
            for graph in [Network::Private, Network::Public] {
                nodes[from as usize - 1].send(graph, to, &[from, to, code(graph)]);
            }
        }
    }
    for to in 1..=3u8 {
        let mut got = BTreeSet::new();
        while got.len() < 4 {
            got.insert(nodes[to as usize - 1].frame().await);
        }
        let wanted = (1..=3).filter(|from| *from != to).flat_map(|from| {
            [Network::Private, Network::Public].map(|graph| (graph, id(from), vec![from, to, code(graph)]))
        });
        assert_eq!(got, wanted.collect());
    }
}

#[tokio::test]
async fn long_frames_arrive_bit_for_bit_and_in_order() {
    let (one, mut two) = pair().await;
    let long: Vec<u8> = (0..8_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for graph in [Network::Private, Network::Public] {
        let before = (one.handle.private_bytes(), one.handle.public_bytes());
        one.send(graph, 2, &long);
        one.send(graph, 2, b"");
        one.send(graph, 2, b"after");
        // On the public graph short frames overtake long ones, and keep their order.
        let mut expected = [long.clone(), vec![], b"after".to_vec()];
        if graph == Network::Public {
            expected.rotate_left(1);
        }
        for frame in expected {
            assert!(two.frame().await == (graph, id(1), frame));
        }
        let sent = (
            one.handle.private_bytes() - before.0,
            one.handle.public_bytes() - before.1,
        );
        let expected = 8_000_000 + 5 + 3 * 4;
        assert_eq!(
            sent,
            if graph == Network::Private {
                (expected, 0)
            } else {
                (0, expected)
            }
        );
    }
}

#[tokio::test]
async fn the_handle_refuses_what_the_peer_would() {
    let (one, _two) = pair().await;
    let too_long = Frame::new(vec![0; MAX_FRAME + 1].into());
    let error = one.handle.send(Network::Private, id(2), too_long).unwrap_err();
    assert_eq!(
        error,
        SendError::TooLong {
            length: MAX_FRAME + 1,
            limit: MAX_FRAME
        }
    );
    let error = one
        .handle
        .send(Network::Public, id(9), Frame::new([].into()))
        .unwrap_err();
    assert_eq!(
        error,
        SendError::NoSuchPeer {
            graph: Network::Public,
            peer: id(9)
        }
    );
}

#[tokio::test]
async fn a_frame_above_the_receivers_limit_is_an_offence_and_the_edge_comes_back() {
    let addresses = Addresses::new(&[1, 2]);
    let mut small = addresses.config(2);
    small.run.public.max_frame = 1000;
    let mut one = Node::start(addresses.config(1)).await;
    let mut two = Node::start(small).await;
    one.connected(2).await;
    one.send(Network::Public, 2, &[0; 1001]);
    assert_eq!(
        two.offence().await,
        (
            Some(id(1)),
            Offence::FrameTooLong {
                length: 1001,
                limit: 1000
            }
        )
    );
    one.connected(1).await;
    one.send(Network::Public, 2, &[0; 1000]);
    assert_eq!(two.frame().await.2.len(), 1000);
}

/// A stopped process: its system takes connections, and nobody answers on them.
#[tokio::test]
async fn for_a_peer_that_takes_connections_and_says_nothing_nothing_answers_once() {
    for waiting in [1, 2] {
        let addresses = Addresses::new(&[1, 2]);
        let late = 3 - waiting;
        let of = |graph: &Multiaddr| Place::parse(graph).expect("an address").to_string();
        let (_, private, public) = addresses.0.iter().find(|(number, ..)| *number == late).unwrap();
        let places = [of(private), of(public)];
        let stopped = places
            .clone()
            .map(|place| TcpListener::bind(place).expect("free"));
        let mut one = Node::start(addresses.config(waiting)).await;
        match one.next().await {
            NetworkEvent::Unanswered { peer, place, fault } => {
                assert_eq!((peer, fault), (id(late), DialFault::Silent));
                assert!(places.contains(&place), "{place}");
            }
            other => panic!("unexpected {other:?}"),
        }
        drop(stopped);
        // It comes after all; nothing was reported twice, whatever its address did meanwhile.
        let _two = Node::start(addresses.config(late)).await;
        let mut graphs = 0;
        while graphs < 2 {
            match one.next().await {
                NetworkEvent::Connected { .. } => graphs += 1,
                NetworkEvent::Refused { .. } => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn frames_that_were_sent_before_the_peer_was_up_arrive() {
    let addresses = Addresses::new(&[1, 2]);
    let one = Node::start(addresses.config(1)).await;
    one.send(Network::Private, 2, b"early");
    let mut two = Node::start(addresses.config(2)).await;
    assert_eq!(two.frame().await, (Network::Private, id(1), b"early".to_vec()));
}

/// Before everybody is known to be up one that refuses connections may not have started yet.
#[tokio::test]
async fn a_peer_that_was_never_there_is_refused_once_and_gone_once_all_are_up() {
    for waiting in [1, 2] {
        let addresses = Addresses::new(&[1, 2]);
        let late = 3 - waiting;
        let mut one = Node::start(addresses.config(waiting)).await;
        match one.next().await {
            NetworkEvent::Refused { peer, .. } => assert_eq!(peer, id(late)),
            other => panic!("unexpected {other:?}"),
        }
        one.send(Network::Public, late, b"dropped when it is gone");
        one.handle.everybody_is_up();
        match one.next().await {
            NetworkEvent::Unreachable { peer } => assert_eq!(peer, id(late)),
            other => panic!("unexpected {other:?}"),
        }
        // On both graphs, and neither word is said twice.
        let mut two = Node::start(addresses.config(late)).await;
        for _ in 0..2 {
            let event = one.next().await;
            assert!(matches!(event, NetworkEvent::Connected { .. }), "{event:?}");
        }
        one.send(Network::Public, late, b"fresh");
        assert_eq!(two.frame().await.2, b"fresh");
    }
}

#[tokio::test]
async fn a_recalled_frame_does_not_leave_and_a_taken_one_is_reported() {
    let (mut one, mut two) = pair().await;
    let tickets = [Ticket::new(), Ticket::new()];
    assert!(tickets[0].recall());
    for (token, ticket) in [(1, &tickets[0]), (2, &tickets[1])] {
        let frame = Frame {
            bytes: [token as u8].into(),
            ticket: Some(Arc::new(ticket.clone())),
            token,
        };
        one.handle.send(Network::Private, id(2), frame).unwrap();
    }
    assert_eq!(two.frame().await.2, [2]);
    let left = one.find(|event| match event {
        NetworkEvent::Left { graph, peer, token } => Some((graph, peer, token)),
        _ => None,
    });
    assert_eq!(left.await, (Network::Private, id(2), 2));
    assert!(tickets[1].left() && !tickets[1].recall());
}

#[tokio::test]
async fn another_digest_is_named_on_both_sides() {
    let addresses = Addresses::new(&[1, 2]);
    let mut other = addresses.config(2);
    other.run.digest = [0xee; 32];
    let mut one = Node::start(addresses.config(1)).await;
    let mut two = Node::start(other).await;
    for (node, peer, ours, theirs) in [
        (&mut one, id(2), DIGEST, [0xee; 32]),
        (&mut two, id(1), [0xee; 32], DIGEST),
    ] {
        // Once for each graph, however often the peers try again and whoever opens the stream.
        for _ in 0..2 {
            let (offender, offence) = node.offence().await;
            assert_eq!(
                (offender, &offence),
                (Some(peer), &Offence::OtherDigest { theirs, ours })
            );
            let text = offence.to_string();
            assert!(
                text.contains(&"d1".repeat(32)) && text.contains(&"ee".repeat(32)),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn an_offence_is_reported_once_however_often_it_is_repeated() {
    let addresses = Addresses::new(&[1, 2]);
    let mut other = addresses.config(2);
    other.run.digest = [0xee; 32];
    let mut one = Node::start(addresses.config(1)).await;
    let mut two = Node::start(other).await;
    for node in [&mut one, &mut two] {
        node.offence().await;
        node.offence().await;
    }
    // Both directions of both graphs have offended at least once by the time that the peer has come
    // back with our plan.
    soon(two.network.shutdown(DEADLINE)).await;
    let _two = Node::start(addresses.config(2)).await;
    let mut up = 0;
    while up < 2 {
        match one.next().await {
            NetworkEvent::Connected { .. } => up += 1,
            NetworkEvent::Offence { offence, .. } => panic!("reported again: it {offence}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn another_version_is_named_on_both_sides() {
    let addresses = Addresses::new(&[1, 2]);
    let mut other = addresses.config(2);
    other.hub.version = 2;
    let mut one = Node::start(addresses.config(1)).await;
    let mut two = Node::start(other).await;
    assert_eq!(
        one.offence().await,
        (Some(id(2)), Offence::OtherVersion { theirs: 2, ours: 1 })
    );
    assert_eq!(
        two.offence().await,
        (Some(id(1)), Offence::OtherVersion { theirs: 1, ours: 2 })
    );
}

#[tokio::test]
async fn a_stranger_is_named_and_gets_nothing() {
    // The lower id dials: take a stranger that dials both.
    let number = (3..).find(|number| id(*number) < id(1).min(id(2))).unwrap();
    let addresses = Addresses::new(&[1, 2]);
    let strangers = Addresses([addresses.0.clone(), Addresses::new(&[number]).0].concat());
    let mut one = Node::start(addresses.config(1)).await;
    let mut two = Node::start(addresses.config(2)).await;
    let mut stranger = Node::start(strangers.config(number)).await;
    for node in [&mut one, &mut two] {
        let mut graphs = BTreeSet::new();
        while graphs.len() < 2 {
            let (graph, peer) = node
                .find(|event| match event {
                    NetworkEvent::Stranger { graph, peer, .. } => Some((graph, peer)),
                    _ => None,
                })
                .await;
            assert_eq!(peer, id(number));
            assert!(graphs.insert(graph), "named twice");
        }
    }
    assert!(stranger.events.try_recv().is_err());
}

#[tokio::test]
async fn rubbish_is_an_offence_and_a_probe_is_none() {
    let (mut one, _two) = pair().await;
    for address in [
        one.network.private_address().clone(),
        one.network.public_address().clone(),
    ] {
        let place = Place::parse(&address).unwrap();
        // Accepted, hence handled, before the rubbish.
        let places = Whereabouts::parse(std::slice::from_ref(&address)).unwrap();
        assert!(!places.refuse(DEADLINE).await);
        let mut socket = TcpStream::connect(place.resolve().await.unwrap()[0])
            .await
            .unwrap();
        // `G` announces 71 bytes: send them, or it is the handshake's deadline that ends this.
        socket.write_all(&[b'G'; 200]).await.unwrap();
        let from = address::to_multiaddr(socket.local_addr().unwrap());
        let found = one.find(|event| match event {
            NetworkEvent::Offence {
                peer,
                address,
                offence,
                ..
            } => Some((peer, address, offence)),
            _ => None,
        });
        let (peer, address, offence) = found.await;
        assert!(
            peer.is_none() && matches!(offence, Offence::NoProtocol { .. }),
            "{offence}"
        );
        assert_eq!(address, Some(from), "the probe was blamed: {offence}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = address::to_multiaddr(taken.local_addr().unwrap());
    let mut config = Addresses::new(&[1, 2]).config(1);
    config.hub.public.listen = vec![address.clone()];
    let error = RunNetwork::start(config.hub, config.run)
        .await
        .err()
        .expect("the port is taken");
    assert!(
        matches!(&error, NetworkError::PortInUse { address: named } if *named == address),
        "{error}"
    );
    assert!(error.to_string().contains(&address.to_string()));

    // Also if another one of us has it: libp2p alone would share it.
    let addresses = Addresses::new(&[1, 2]);
    let _one = Node::start(addresses.config(1)).await;
    let config = addresses.config(1);
    let error = RunNetwork::start(config.hub, config.run)
        .await
        .err()
        .expect("the port is taken");
    assert!(matches!(error, NetworkError::PortInUse { .. }), "{error}");
}

#[tokio::test]
async fn bad_neighbours_are_refused() {
    let addresses = Addresses::new(&[1, 2]);
    let mut twice = addresses.config(1);
    twice.run.private.peers.push(twice.run.private.peers[0].clone());
    let mut own = addresses.config(1);
    own.run.private.peers[0].peer_id = id(1);
    for config in [twice, own] {
        assert!(matches!(
            RunNetwork::start(config.hub, config.run).await,
            Err(NetworkError::Peer { .. })
        ));
    }
    // Not even an id that hides its key, as those of other kinds of keys do.
    let mut hashed = addresses.config(1);
    hashed.run.private.peers[0].peer_id = PeerId::random();
    assert!(matches!(
        RunNetwork::start(hashed.hub, hashed.run).await,
        Err(NetworkError::Peer { .. })
    ));
    for (max_frame, is_possible) in [(0, false), (1, true), ((1 << 31) - 1, true), (1 << 31, false)] {
        // Of its own: a port that was shut down may be another test's by now.
        let addresses = Addresses::new(&[1, 2]);
        let mut limit = addresses.config(1);
        limit.run.public.max_frame = max_frame;
        match RunNetwork::start(limit.hub, limit.run).await {
            Ok((network, _)) => {
                assert!(is_possible, "{max_frame}");
                network.shutdown(DEADLINE).await;
            }
            Err(error) => assert!(
                !is_possible && matches!(error, NetworkError::Limit { .. }),
                "{max_frame}: {error}"
            ),
        }
    }
}

/// Runs node 2 in a runtime of its own, whose end closes all of its sockets, as a kill does.
async fn killed_peer(survivor: u8) {
    let addresses = Addresses::new(&[1, 2]);
    let (victim, config) = (3 - survivor, addresses.config(3 - survivor));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let _node = Node::start(config).await;
            let _ = stopped.await;
        });
        runtime.shutdown_background();
    });
    let mut one = Node::start(addresses.config(survivor)).await;
    one.connected(2).await;
    stop.send(()).unwrap();
    thread.join().unwrap();
    let begun = std::time::Instant::now();
    let (mut down, mut unreachable) = (0, 0);
    while down < 2 || unreachable < 1 {
        match one.next().await {
            NetworkEvent::Disconnected { peer, .. } if peer == id(victim) => down += 1,
            NetworkEvent::Unreachable { peer } if peer == id(victim) => unreachable += 1,
            other => panic!("unexpected {other:?}"),
        }
    }
    println!("gone after {:?}", begun.elapsed());

    // It comes back, is connected again, and can be lost again.
    let two = Node::start(addresses.config(victim)).await;
    while down > 0 {
        match one.next().await {
            NetworkEvent::Connected { .. } => down -= 1,
            other => panic!("unexpected {other:?}"),
        }
    }
    drop(two);
    one.find(|event| matches!(event, NetworkEvent::Unreachable { .. }).then_some(()))
        .await;
}

#[tokio::test]
async fn a_killed_peer_is_gone_once_for_who_dials_it() {
    killed_peer(if id(1) < id(2) { 1 } else { 2 }).await;
}

#[tokio::test]
async fn a_killed_peer_is_gone_once_for_who_is_dialled() {
    killed_peer(if id(1) < id(2) { 2 } else { 1 }).await;
}

#[tokio::test]
async fn a_peer_that_is_not_read_is_held_back_and_starves_nobody() {
    let addresses = Addresses::new(&[1, 2, 3]);
    let mut config = addresses.config(1);
    (config.run.public.max_frame, config.run.public.inbound_bytes) = (1 << 20, 0);
    let mut one = Node::start(config).await;
    let mut flood = addresses.config(2);
    (flood.run.public.queue_frames, flood.run.public.queue_bytes) = (1000, 1000 << 20);
    let mut two = Node::start(flood).await;
    let three = Node::start(addresses.config(3)).await;
    two.connected(4).await;
    let piece: Arc<[u8]> = vec![2; 1 << 20].into();
    for _ in 0..200 {
        two.handle
            .send(Network::Public, id(1), Frame::new(piece.clone()))
            .unwrap();
    }
    // Keep every frame of node 2 unread: one fits the budget, and node 3 gets through nevertheless.
    let mut kept = Vec::new();
    for number in 0..50 {
        three.send(Network::Public, 1, &[number]);
        loop {
            match one.next().await {
                NetworkEvent::Frame { peer, bytes, .. } if peer == id(2) => kept.push(bytes),
                NetworkEvent::Frame { peer, bytes, .. } => {
                    assert_eq!((peer, &bytes[..]), (id(3), &[number][..]));
                    break;
                }
                _ => {}
            }
        }
    }
    assert!(kept.len() <= 1, "{} frames of 1 MiB are held", kept.len());
    // Letting go lets it go on.
    kept.clear();
    for _ in 0..100 {
        while one.frame().await.1 != id(2) {}
    }
}

#[tokio::test]
async fn a_queue_that_runs_over_resets_the_edge() {
    let addresses = Addresses::new(&[1, 2]);
    let mut config = addresses.config(1);
    config.run.public.queue_frames = 10;
    let mut one = Node::start(config).await;
    let mut two = Node::start(addresses.config(2)).await;
    one.connected(2).await;
    two.connected(2).await;
    // The test's runtime has one thread and nothing is awaited here: nothing can leave meanwhile.
    let results: Vec<_> = (0..11)
        .map(|_| one.handle.send(Network::Public, id(2), Frame::new([1].into())))
        .collect();
    assert!(results[..10].iter().all(Result::is_ok));
    assert_eq!(
        results[10],
        Err(SendError::QueueFull {
            frames: 10,
            bytes: 10
        })
    );
    let (peer, offence) = one.offence().await;
    assert!(
        peer == Some(id(2)) && matches!(offence, Offence::QueueFull { .. }),
        "{offence}"
    );
    one.connected(1).await;
}

#[tokio::test]
async fn shutdown_delivers_what_is_queued() {
    let (one, mut two) = pair().await;
    for _ in 0..3 {
        one.send(Network::Private, 2, &[5; 4 << 20]);
    }
    one.send(Network::Public, 2, b"farewell");
    let closing = tokio::spawn(one.network.shutdown(DEADLINE));
    let mut bytes = 0;
    while bytes < 3 * (4 << 20) + 8 {
        bytes += two.frame().await.2.len();
    }
    assert!(soon(closing).await.unwrap(), "the shutdown ran into its deadline");
    two.find(|event| matches!(event, NetworkEvent::Unreachable { .. }).then_some(()))
        .await;
}

#[tokio::test]
async fn a_shutdown_ends_in_time_and_says_that_not_all_was_read() {
    let addresses = Addresses::new(&[1, 2]);
    let mut config = addresses.config(2);
    (config.run.private.max_frame, config.run.private.inbound_bytes) = (1 << 20, 0);
    let mut one = Node::start(addresses.config(1)).await;
    let mut two = Node::start(config).await;
    one.connected(2).await;
    for _ in 0..4 {
        one.send(Network::Private, 2, &[5; 1 << 20]);
    }
    // Holding the first one back holds back the others.
    let kept = two.find(|event| match event {
        NetworkEvent::Frame { bytes, .. } => Some(bytes),
        _ => None,
    });
    let kept = kept.await;
    assert!(!soon(one.network.shutdown(Duration::from_millis(100))).await);
    drop(kept);
}

#[tokio::test]
async fn two_nodes_can_shut_down_at_the_same_time() {
    let (one, two) = pair().await;
    one.send(Network::Private, 2, &[5; 4 << 20]);
    two.send(Network::Private, 1, &[5; 4 << 20]);
    let both = futures::future::join(one.network.shutdown(DEADLINE), two.network.shutdown(DEADLINE)).await;
    assert_eq!(both, (true, true));
}
