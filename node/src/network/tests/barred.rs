//! Peers whose keys were revoked.

use tokio::sync::mpsc;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};

use crate::network::ask::{AskFault, Asked};
use crate::network::event::NetworkEvent;
use crate::network::hub::Hub;
use crate::network::queue::Frame;
use crate::network::tests::nodes::*;

const GRAPHS: [Network; 2] = [Network::Private, Network::Public];

async fn hub(addresses: &Addresses, number: u8) -> Hub {
    let NodeConfig { mut hub, run } = addresses.config(number);
    (hub.private.peers, hub.public.peers) = (run.private.peers, run.public.peers);
    Hub::start(hub).await.unwrap()
}

#[tokio::test]
async fn a_peer_whose_key_was_revoked_gets_no_answer_and_keeps_the_edges_of_a_run_that_goes_on() {
    let addresses = Addresses::new(&[1, 2]);
    let (one, two) = (hub(&addresses, 1).await, hub(&addresses, 2).await);
    let echo = |graph| two.ask(graph, id(1), &Question::Echo, b"here");
    for graph in GRAPHS {
        soon(echo(graph)).await.unwrap();
    }
    // A stream that was open before is of no more use.
    let mut inquiry = soon(two.inquire(Network::Private, id(1))).await.unwrap();
    let (run, mut events) = one.attach(addresses.config(1).run).unwrap();
    let (first, _events) = two.attach(addresses.config(2).run).unwrap();
    let connected = |event| match event {
        Some(NetworkEvent::Connected { graph, .. }) => Some(graph),
        Some(_) => None,
        None => panic!("the hub has ended"),
    };
    let mut up = vec![];
    while up.len() < 2 {
        up.extend(connected(soon(events.recv()).await));
    }
    one.bar(&[id(2)].into());
    assert!(soon(inquiry.ask(&Question::Echo, b"here")).await.is_err());
    for graph in GRAPHS {
        let fault = soon(one.ask(graph, id(2), &Question::Echo, b"there")).await.err();
        assert!(matches!(fault, Some(AskFault::Revoked)), "{fault:?}");
        let greeted = soon(two.inquire(graph, id(1))).await;
        assert!(greeted.is_err(), "{graph}: it got a hello");
    }
    // The run goes on, and its edges come up again where they break.
    drop(first);
    let (again, _events) = two.attach(addresses.config(2).run).unwrap();
    let mut up = vec![];
    while up.len() < 2 {
        up.extend(connected(soon(events.recv()).await));
    }
    again
        .handle()
        .send(Network::Private, id(1), Frame::new(b"late"[..].into()))
        .unwrap();
    let frame = loop {
        if let Some(NetworkEvent::Frame { bytes, .. }) = soon(events.recv()).await {
            break bytes.to_vec();
        }
    };
    assert_eq!(frame, b"late");
    // Once it is over nothing is left: the next connection is turned away at the door.
    let mut links = two.links();
    soon(links.next()).await;
    drop(run);
    drop(again);
    // The connection goes as well, long before it would for having no streams.
    let begun = std::time::Instant::now();
    while futures::FutureExt::now_or_never(links.next()).is_none() {
        assert!(soon(echo(Network::Private)).await.is_err());
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "it stays");
    }
    two.clone().shutdown().await;
    let two = hub(&addresses, 2).await;
    for graph in GRAPHS {
        let asked = two.ask(graph, id(1), &Question::Echo, b"here");
        assert!(soon(asked).await.is_err(), "{graph}: it was let in");
    }
    // Nobody but who is barred is.
    one.bar(&[].into());
    for graph in GRAPHS {
        soon(two.ask(graph, id(1), &Question::Echo, b"here"))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn links_that_come_up_are_told_once_whoever_dialled() {
    let addresses = Addresses::new(&[1, 2]);
    let (one, two) = (hub(&addresses, 1).await, hub(&addresses, 2).await);
    soon(two.ask(Network::Private, id(1), &Question::Echo, b"here"))
        .await
        .unwrap();
    let (mut of_one, mut of_two) = (one.links(), two.links());
    assert_eq!(soon(of_one.next()).await, [id(2)].into());
    assert_eq!(soon(of_two.next()).await, [id(1)].into());
    // A second question takes the same connection.
    soon(one.ask(Network::Private, id(2), &Question::Echo, b"here"))
        .await
        .unwrap();
    assert!(futures::FutureExt::now_or_never(of_one.next()).is_none());
}

#[tokio::test]
async fn of_revoked_keys_nothing_is_said_on_a_plain_connection() {
    let addresses = Addresses::new(&[1, 2]);
    let (one, two) = (hub(&addresses, 1).await, hub(&addresses, 2).await);
    let (sender, mut asked) = mpsc::channel(1);
    one.answer_with(sender);
    let question = Question::Keys { held: [0; 32] };
    let (reply, _) = soon(two.ask(Network::Public, id(1), &question, &[]))
        .await
        .unwrap();
    assert!(matches!(reply, Reply::Refused { reason } if reason.contains("encrypted")));
    let owner = async {
        let Some(Asked::Keys {
            held,
            statements,
            answer,
        }) = asked.recv().await
        else {
            panic!("another question");
        };
        answer.send((Reply::Keys { held }, statements)).unwrap();
    };
    let question = two.ask(Network::Private, id(1), &question, b"statements");
    let (replied, ()) = soon(futures::future::join(question, owner)).await;
    assert_eq!(
        replied.unwrap(),
        (Reply::Keys { held: [0; 32] }, b"statements".to_vec())
    );
}
