//! Several runs on one hub.

use std::collections::BTreeSet;

use tokio::sync::mpsc;
use undertone_protocol::messages::notice::Network;

use crate::network::config::{NetworkError, Patience, RUNS, RunConfig};
use crate::network::event::NetworkEvent;
use crate::network::hub::{Attachment, Hub};
use crate::network::offence::Offence;
use crate::network::queue::Frame;
use crate::network::tests::nodes::*;

/// A second run, and one that nobody else has.
const OTHER: [u8; 32] = [0xd2; 32];
const ALONE: [u8; 32] = [0xd3; 32];

/// A run on a hub.
struct Party {
    run: Attachment,
    events: mpsc::Receiver<NetworkEvent>,
}

impl Party {
    fn join(hub: &Hub, config: &RunConfig, digest: [u8; 32]) -> Party {
        let (run, events) = hub
            .attach(RunConfig {
                digest,
                ..config.clone()
            })
            .unwrap();
        Party { run, events }
    }

    async fn next(&mut self) -> NetworkEvent {
        soon(self.events.recv()).await.expect("a running hub")
    }

    /// The first event that `wanted` takes; others are dropped.
    async fn find<T>(&mut self, wanted: impl Fn(NetworkEvent) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.next().await) {
                return found;
            }
        }
    }

    /// Waits until both edges are up. One that came up may break and come up again: that is not the
    /// point of any test here.
    async fn connected(&mut self) {
        let mut up = BTreeSet::new();
        while up.len() < 2 {
            match self.next().await {
                NetworkEvent::Connected { graph, .. } => drop(up.insert(graph)),
                NetworkEvent::Disconnected { graph, .. } => drop(up.remove(&graph)),
                NetworkEvent::Frame { bytes, .. } => {
                    panic!("a frame of {} bytes that nobody waits for", bytes.len())
                }
                _ => {}
            }
        }
    }

    /// The next frame, whatever becomes of edges meanwhile.
    async fn frame(&mut self) -> Vec<u8> {
        loop {
            if let NetworkEvent::Frame { bytes, .. } = self.next().await {
                return bytes.to_vec();
            }
        }
    }

    /// A frame that is the next event: this run has noticed nothing.
    async fn undisturbed_frame(&mut self) -> Vec<u8> {
        match self.next().await {
            NetworkEvent::Frame { bytes, .. } => bytes.to_vec(),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn send(&self, to: u8, bytes: &[u8]) {
        self.run
            .handle()
            .send(Network::Public, id(to), Frame::new(bytes.into()))
            .unwrap();
    }
}

/// Hubs of nodes 1 and 2, with what a run between them needs. As patient as the tests: a machine
/// with other work breaks no edge.
async fn hubs() -> [(Hub, RunConfig); 2] {
    let addresses = Addresses::new(&[1, 2]);
    let [mut one, mut two] = [addresses.config(1), addresses.config(2)];
    for config in [&mut one, &mut two] {
        config.hub.patience = Patience {
            dial: DEADLINE,
            hello: DEADLINE,
            circuit: DEADLINE,
            stall: DEADLINE,
            ping: DEADLINE,
        };
    }
    [
        (Hub::start(one.hub).await.unwrap(), one.run),
        (Hub::start(two.hub).await.unwrap(), two.run),
    ]
}

#[tokio::test]
async fn frames_go_to_the_run_that_they_are_of() {
    let [(one, one_run), (two, two_run)] = hubs().await;
    let mut ones = [DIGEST, OTHER].map(|digest| Party::join(&one, &one_run, digest));
    let mut twos = [DIGEST, OTHER].map(|digest| Party::join(&two, &two_run, digest));
    for party in ones.iter_mut().chain(&mut twos) {
        party.connected().await;
    }
    for run in 0..2 {
        ones[run].send(2, &[1, run as u8]);
        twos[run].send(1, &[2, run as u8]);
    }
    for run in 0..2 {
        assert_eq!(twos[run].frame().await, [1, run as u8]);
        assert_eq!(ones[run].frame().await, [2, run as u8]);
    }
}

#[tokio::test]
async fn a_run_that_ends_is_gone_for_its_neighbours_and_leaves_the_others_alone() {
    for leaver in [1, 2] {
        let [(one, one_run), (two, two_run)] = hubs().await;
        let (stays, leaves) = if leaver == 2 {
            ((&one, &one_run), (&two, &two_run))
        } else {
            ((&two, &two_run), (&one, &one_run))
        };
        let (from, to) = (leaver, 3 - leaver);
        let mut staying = [DIGEST, OTHER].map(|digest| Party::join(stays.0, stays.1, digest));
        let mut leaving = [DIGEST, OTHER].map(|digest| Party::join(leaves.0, leaves.1, digest));
        for party in staying.iter_mut().chain(&mut leaving) {
            party.connected().await;
        }
        let [first, mut second] = leaving;
        first.send(to, b"farewell");
        assert!(first.run.shutdown(DEADLINE).await);
        let (mut frames, mut down) = (0, BTreeSet::new());
        loop {
            match staying[0].next().await {
                NetworkEvent::Frame { bytes, .. } => frames += usize::from(&bytes[..] == b"farewell"),
                NetworkEvent::Disconnected { graph, .. } => drop(down.insert(graph)),
                NetworkEvent::Connected { graph, .. } => drop(down.remove(&graph)),
                NetworkEvent::Unreachable { peer } => break assert_eq!(peer, id(from)),
                _ => {}
            }
        }
        assert_eq!((frames, down.len()), (1, 2));
        // The other run has noticed nothing: these are its next events.
        second.send(to, b"still here");
        assert_eq!(staying[1].undisturbed_frame().await, b"still here");
        staying[1].send(from, b"so are we");
        assert_eq!(second.undisturbed_frame().await, b"so are we");

        // And it can be taken up again.
        let mut again = Party::join(leaves.0, leaves.1, DIGEST);
        again.connected().await;
        staying[0].connected().await;
    }
}

#[tokio::test]
async fn a_peer_without_the_run_is_absent_until_it_joins() {
    let [(one, one_run), (two, two_run)] = hubs().await;
    // Whoever has the lower id dials and gets the answer; the other one waits to be dialled.
    let (early, late) = if id(1) < id(2) {
        ((&one, &one_run), (&two, &two_run))
    } else {
        ((&two, &two_run), (&one, &one_run))
    };
    let strangers = Party::join(late.0, late.1, OTHER);
    let mut first = Party::join(early.0, early.1, DIGEST);
    let mut graphs = BTreeSet::new();
    while graphs.len() < 2 {
        match first.next().await {
            NetworkEvent::Absent { graph, .. } => assert!(graphs.insert(graph), "told twice"),
            other @ (NetworkEvent::Connected { .. } | NetworkEvent::Frame { .. }) => {
                panic!("unexpected {other:?}")
            }
            _ => {}
        }
    }
    let mut second = Party::join(late.0, late.1, DIGEST);
    second.connected().await;
    first.connected().await;
    drop(strangers);
}

#[tokio::test]
async fn a_hub_refuses_the_same_run_twice_and_too_many() {
    let [(one, config), _] = hubs().await;
    let _run = Party::join(&one, &config, ALONE);
    let again = one.attach(RunConfig {
        digest: ALONE,
        ..config.clone()
    });
    assert!(matches!(again, Err(NetworkError::SameRun)));
    let digest = |number: usize| [number as u8; 32];
    let mut runs: Vec<_> = (1..RUNS)
        .map(|number| Party::join(&one, &config, digest(number)))
        .collect();
    let more = || {
        one.attach(RunConfig {
            digest: digest(99),
            ..config.clone()
        })
    };
    assert!(matches!(more(), Err(NetworkError::TooManyRuns { limit: RUNS })));
    runs.pop();
    assert!(more().is_ok());
}

#[tokio::test]
async fn an_offence_in_one_run_costs_no_other() {
    let [(one, one_run), (two, mut two_run)] = hubs().await;
    let mut good = [
        Party::join(&one, &one_run, OTHER),
        Party::join(&two, &two_run, OTHER),
    ];
    for party in &mut good {
        party.connected().await;
    }
    two_run.public.max_frame = 10;
    let mut bad = [
        Party::join(&one, &one_run, DIGEST),
        Party::join(&two, &two_run, DIGEST),
    ];
    for party in &mut bad {
        party.connected().await;
    }
    bad[0].send(2, &[0; 11]);
    let offence = bad[1]
        .find(|event| {
            if let NetworkEvent::Offence { offence, .. } = event {
                Some(offence)
            } else {
                None
            }
        })
        .await;
    assert_eq!(
        offence,
        Offence::FrameTooLong {
            length: 11,
            limit: 10
        }
    );
    for party in &mut bad {
        party
            .find(|event| {
                matches!(
                    event,
                    NetworkEvent::Disconnected {
                        graph: Network::Public,
                        ..
                    }
                )
                .then_some(())
            })
            .await;
        party
            .find(|event| {
                matches!(
                    event,
                    NetworkEvent::Connected {
                        graph: Network::Public,
                        ..
                    }
                )
                .then_some(())
            })
            .await;
    }
    good[0].send(2, b"unharmed");
    assert_eq!(good[1].undisturbed_frame().await, b"unharmed");
}

/// The plan still has the peer where it was; edges that run look where the list has it now.
#[tokio::test]
async fn a_running_edge_finds_a_peer_that_has_moved() {
    let (before, after) = (Addresses::new(&[1, 2]), Addresses::new(&[1, 2]));
    let mut config = before.config(1);
    config.hub.private.peers.clone_from(&config.run.private.peers);
    config.hub.public.peers.clone_from(&config.run.public.peers);
    let one = Hub::start(config.hub).await.unwrap();
    let mut here = Party::join(&one, &config.run, DIGEST);
    // Two listens elsewhere, and cannot dial one.
    let mut moved = after.config(2);
    for graph in [&mut moved.run.private, &mut moved.run.public] {
        graph.peers[0].addresses.clear();
    }
    let two = Hub::start(moved.hub).await.unwrap();
    let mut there = Party::join(&two, &moved.run, DIGEST);
    let refused = here.find(|event| match event {
        NetworkEvent::Refused { peer, .. } => Some(peer),
        _ => None,
    });
    assert_eq!(refused.await, id(2));
    let now = after.config(1).run;
    one.relist(&now.private.peers, &now.public.peers, &[]).unwrap();
    here.connected().await;
    there.connected().await;
}
