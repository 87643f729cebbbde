//! Questions that one hub asks another.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::mpsc;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{ECHO_LIMIT, Question, Reply};

use crate::forking;
use crate::network::address;
use crate::network::ask::{AskFault, Asked, NotTaken};
use crate::network::config::{HubConfig, PeerAddress};
use crate::network::dial_fault::DialFault;
use crate::network::hub::Hub;
use crate::network::offence::Offence;
use crate::network::tests::nodes::*;

fn listing(addresses: &Addresses, number: u8) -> HubConfig {
    let NodeConfig { mut hub, run } = addresses.config(number);
    (hub.private.peers, hub.public.peers) = (run.private.peers, run.public.peers);
    hub
}

async fn hub(addresses: &Addresses, number: u8) -> Hub {
    // It may be another one at its ports.
    forking::until_over();
    Hub::start(listing(addresses, number)).await.unwrap()
}

const GRAPHS: [Network; 2] = [Network::Private, Network::Public];

#[tokio::test]
async fn a_peer_says_who_it_is_what_it_runs_and_sends_bytes_back() {
    let addresses = Addresses::new(&[1, 2]);
    let (one, two) = (hub(&addresses, 1).await, hub(&addresses, 2).await);
    let _run = two.attach(addresses.config(2).run).unwrap();
    two.name_list([0x1d; 32]);
    for graph in GRAPHS {
        let mut inquiry = soon(one.inquire(graph, id(2))).await.unwrap();
        for (digest, known) in [
            (Some(DIGEST), Some("running")),
            (Some([9; 32]), None),
            (None, None),
        ] {
            let (reply, _) = soon(inquiry.ask(&Question::Check { digest }, &[])).await.unwrap();
            let Reply::Checked {
                messages: 1,
                software,
                plan,
                other: None,
                seen,
                time_ms,
                list,
            } = reply
            else {
                panic!("{reply:?}")
            };
            // In the clear it is not named.
            assert_eq!(list, (graph == Network::Private).then_some([0x1d; 32]));
            assert_eq!(
                (software.as_str(), plan.as_deref()),
                (env!("CARGO_PKG_VERSION"), known)
            );
            assert!(
                seen == "/ip4/127.0.0.1" && time_ms > 1_600_000_000_000,
                "{seen}, {time_ms}"
            );
        }
        let bytes: Vec<u8> = (0..ECHO_LIMIT).map(|i| i as u8).collect();
        let (reply, back) = soon(inquiry.ask(&Question::Echo, &bytes)).await.unwrap();
        assert!(reply == Reply::Echoed && back == bytes);
        // Whoever sends more is not heard to the end.
        assert!(
            soon(inquiry.ask(&Question::Echo, &[0; ECHO_LIMIT + 1]))
                .await
                .is_err()
        );
        // Either may ask, whoever has dialled.
        assert!(
            soon(two.ask(graph, id(1), &Question::Echo, b"back"))
                .await
                .is_ok()
        );
    }
}

#[tokio::test]
async fn a_node_for_one_run_names_it() {
    let addresses = Addresses::new(&[1, 2]);
    let one = hub(&addresses, 1).await;
    let _two = Node::start(addresses.config(2)).await;
    let other = |reply| match reply {
        Reply::Checked { other, plan, .. } => (plan.is_some(), other),
        reply => panic!("{reply:?}"),
    };
    for (digest, expected) in [(DIGEST, (true, None)), ([9; 32], (false, Some(DIGEST)))] {
        let question = Question::Check { digest: Some(digest) };
        let (reply, _) = soon(one.ask(Network::Public, id(2), &question, &[]))
            .await
            .unwrap();
        assert_eq!(other(reply), expected);
    }
}

#[tokio::test]
async fn an_offer_reaches_whoever_owns_the_hub_and_nobody_else() {
    let addresses = Addresses::new(&[1, 2]);
    let (one, two) = (hub(&addresses, 1).await, hub(&addresses, 2).await);
    let (reply, _) = soon(one.ask(Network::Public, id(2), &Question::Offer, b"plan"))
        .await
        .unwrap();
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    let (sender, mut asked) = mpsc::channel(1);
    two.answer_with(sender);
    for answer in [Ok(()), Err(NotTaken::Unacceptable("not today".to_owned()))] {
        let owner = async {
            match asked.recv().await {
                Some(Asked::Offer {
                    peer,
                    graph,
                    plan,
                    answer: slot,
                }) => {
                    assert_eq!((peer, &plan[..]), (id(1), &b"plan"[..]));
                    assert_eq!(graph, Network::Public);
                    slot.send(answer.clone()).unwrap();
                }
                other => panic!("{other:?}"),
            }
        };
        let question = one.ask(Network::Public, id(2), &Question::Offer, b"plan");
        let (reply, ()) = soon(futures::future::join(question, owner)).await;
        let expected = match answer {
            Ok(()) => Reply::Taken,
            Err(why) => Reply::Refused {
                reason: why.to_string(),
            },
        };
        assert_eq!(reply.unwrap().0, expected);
    }
}

#[tokio::test]
async fn an_address_that_is_wrong_is_described() {
    let addresses = Addresses::new(&[1, 2, 3]);
    let one = hub(&addresses, 1).await;
    let two = hub(&addresses, 2).await;
    for graph in GRAPHS {
        let fault = soon(one.inquire(graph, id(3))).await.err();
        assert!(
            matches!(fault, Some(AskFault::Dial(DialFault::Refused))),
            "{fault:?}"
        );
        assert!(matches!(
            soon(one.inquire(graph, id(9))).await.err(),
            Some(AskFault::NotListed)
        ));
    }
    let [private, public] = [two.private_address().clone(), two.public_address().clone()];
    assert_eq!(
        soon(one.reach(Network::Private, id(3), &private)).await,
        Err(DialFault::OtherPeer(id(2)))
    );
    assert_eq!(
        soon(one.reach(Network::Public, id(3), &public)).await,
        Err(DialFault::OtherPeer(id(2)))
    );
    for (graph, address) in [(Network::Private, &public), (Network::Public, &private)] {
        let fault = soon(one.reach(graph, id(2), address)).await;
        assert!(matches!(fault, Err(DialFault::NotOurs(_))), "{fault:?}");
    }
    assert_eq!(soon(one.reach(Network::Private, id(2), &private)).await, Ok(()));
    let name = "/dns/no-such-host.invalid/tcp/7001".parse().unwrap();
    assert_eq!(
        soon(one.reach(Network::Public, id(2), &name)).await,
        Err(DialFault::Unknown)
    );
}

/// The operator's list changes while the hub runs: who is new is let in and found, who moved is
/// found elsewhere, and a list that cannot be one changes nothing.
#[tokio::test]
async fn a_hub_takes_another_list() {
    let addresses = Addresses::new(&[1, 2, 3]);
    let everybody = listing(&addresses, 1);
    let lists = |numbers: &[u8]| {
        [&everybody.private, &everybody.public].map(|listening| {
            let peers = listening.peers.iter();
            let some = peers.filter(|peer| numbers.iter().any(|number| id(*number) == peer.peer_id));
            some.cloned().collect::<Vec<PeerAddress>>()
        })
    };
    let [private, public] = lists(&[2]);
    let mut few = listing(&addresses, 1);
    (few.private.peers, few.public.peers) = (private, public);
    let one = Hub::start(few).await.unwrap();
    let (_two, three) = (hub(&addresses, 2).await, hub(&addresses, 3).await);
    let stranger = soon(one.inquire(Network::Public, id(3))).await.err();
    assert!(matches!(stranger, Some(AskFault::NotListed)), "{stranger:?}");
    let refused = soon(three.inquire(Network::Public, id(1))).await.err();
    assert!(refused.is_some(), "one does not know three");
    let [private, public] = lists(&[2, 3]);
    let twice = [public.clone(), public.clone()].concat();
    assert!(one.relist(&private, &twice, &[]).is_err());
    let stranger = soon(one.inquire(Network::Private, id(3))).await.err();
    assert!(matches!(stranger, Some(AskFault::NotListed)), "{stranger:?}");
    one.relist(&private, &public, &[]).unwrap();
    for graph in GRAPHS {
        soon(one.inquire(graph, id(3))).await.unwrap();
        soon(three.inquire(graph, id(1))).await.unwrap();
        soon(one.inquire(graph, id(2))).await.unwrap();
    }
    // Three has moved to where nobody is; and one that is asked for the first time is looked for
    // there.
    let [mut private, public] = lists(&[2, 3]);
    let nowhere = address::to_multiaddr((Ipv4Addr::LOCALHOST, free_port()).into());
    private
        .iter_mut()
        .for_each(|peer| peer.addresses = vec![nowhere.clone()]);
    let fresh = Hub::start(listing(&Addresses::new(&[4, 2, 3]), 4)).await.unwrap();
    fresh.relist(&private, &public, &[]).unwrap();
    let fault = soon(fresh.inquire(Network::Private, id(3))).await.err();
    assert!(
        matches!(fault, Some(AskFault::Dial(DialFault::Refused))),
        "{fault:?}"
    );
}

#[tokio::test]
async fn who_takes_a_connection_and_closes_it_is_said_to() {
    let addresses = Addresses::new(&[1, 2]);
    let one = hub(&addresses, 1).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("/ip4/127.0.0.1/tcp/{}", listener.local_addr().unwrap().port());
    let closing = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream);
        }
    });
    for graph in GRAPHS {
        let fault = soon(one.reach(graph, id(2), &address.parse().unwrap())).await;
        assert_eq!(fault, Err(DialFault::Closed), "{graph}");
    }
    closing.abort();
}

#[tokio::test]
async fn a_peer_is_served_on_two_streams_with_64_questions_each_and_others_wait_their_turn() {
    let addresses = Addresses::new(&[1, 2]);
    let (one, _two) = (hub(&addresses, 1).await, hub(&addresses, 2).await);
    let begin = async || soon(one.inquire(Network::Private, id(2))).await.unwrap();
    let (mut first, mut second) = (begin().await, begin().await);
    for inquiry in [&mut first, &mut second] {
        soon(inquiry.ask(&Question::Echo, b"served")).await.unwrap();
    }
    let mut third = begin().await;
    let mut third = Box::pin(third.ask(&Question::Echo, b"one too many"));
    assert!(
        timeout(Duration::from_millis(50), &mut third).await.is_err(),
        "it waits"
    );
    for _ in 1..64 {
        soon(first.ask(&Question::Echo, b"again")).await.unwrap();
    }
    let last = soon(first.ask(&Question::Echo, b"the 65th")).await;
    assert!(last.is_err(), "{last:?}");
    soon(third).await.expect("the first is over");
}

#[tokio::test]
async fn fourteen_streams_wait_beside_the_two_that_are_served_and_one_more_is_turned_away() {
    let addresses = Addresses::new(&[1, 2]);
    let (one, _two) = (hub(&addresses, 1).await, hub(&addresses, 2).await);
    let begin = async || soon(one.inquire(Network::Private, id(2))).await.unwrap();
    let mut served = [begin().await, begin().await];
    for inquiry in &mut served {
        soon(inquiry.ask(&Question::Echo, b"served")).await.unwrap();
    }
    let waits = || async { begin().await.ask(&Question::Echo, b"waits").await };
    let mut waiting = Box::pin(join_all((0..14).map(|_| waits())));
    assert!(timeout(Duration::from_millis(100), &mut waiting).await.is_err());
    assert!(soon(waits()).await.is_err());
    drop(served);
    assert!(soon(waiting).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_peer_that_asks_with_another_version_learns_of_it() {
    let addresses = Addresses::new(&[1, 2]);
    let mut old = listing(&addresses, 2);
    old.version = 7;
    let (one, _two) = (hub(&addresses, 1).await, Hub::start(old).await.unwrap());
    let fault = soon(one.inquire(Network::Private, id(2))).await.err();
    assert!(
        matches!(
            fault,
            Some(AskFault::Offence(Offence::OtherVersion { theirs: 7, ours: 1 }))
        ),
        "{fault:?}"
    );
}

#[tokio::test]
async fn one_that_closed_its_connections_a_moment_ago_is_asked_on_a_new_one() {
    let addresses = Addresses::new(&[1, 2]);
    let one = hub(&addresses, 1).await;
    for graph in GRAPHS.repeat(10) {
        let two = hub(&addresses, 2).await;
        soon(two.ask(graph, id(1), &Question::Echo, b"here"))
            .await
            .unwrap();
        two.shutdown().await;
        let two = hub(&addresses, 2).await;
        // Its end of the old connection may not be known yet.
        let asked = soon(one.ask(graph, id(2), &Question::Echo, b"there")).await;
        assert!(asked.is_ok(), "{graph}: {:?}", asked.err());
        two.shutdown().await;
    }
}
