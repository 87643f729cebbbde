//! What a daemon says of its peers: who answers on each graph, and what is there instead.

use std::net::TcpListener;

use serde_json::Value;
use undertone_tests::daemon::Daemon;
use undertone_tests::openapi::Document;
use undertone_tests::{Parties, alone};

#[test]
fn only_the_listed_identity_counts_as_an_answer() {
    let _alone = alone();
    let parties = Parties::new(4);
    // In alice's list the two addresses of carol are each other's, and in carol's those of alice:
    // neither has the other by dialling it.
    let swapped = |party: usize| {
        let [private, public] = parties.ports(party).map(|port| format!("/tcp/{port}\""));
        let list = parties.peer_list().replace(&private, "/tcp/0\"");
        list.replace(&public, &private).replace("/tcp/0\"", &public)
    };
    let start = |party: usize, peers: &str| {
        let file = format!("{}.peers.toml", parties.names()[party]);
        parties.write(&file, peers);
        Daemon::start(&parties, party, &format!("peers = {file:?}\n"))
    };
    // At dave's private address is something that takes connections and says nothing of ours; at
    // his public one is nobody.
    let _squatter = TcpListener::bind(("127.0.0.1", parties.ports(3)[0])).expect("nobody listens there");
    let (alice, bob, carol) = (
        start(0, &swapped(2)),
        start(1, &parties.peer_list()),
        start(2, &swapped(0)),
    );
    let reply = alice.http.get("/v1/status");
    Document::new(alice.http.get("/v1/openapi.json").json_of(200)).check(&reply);
    let status = reply.json_of(200);
    let side = |name: &str, graph: &str| {
        let peer = status["peers"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|peer| peer["name"] == name)
            .expect("a peer");
        peer[graph].clone()
    };
    for graph in ["private", "public"] {
        let side = side("bob", graph);
        assert_eq!(
            (&side["reachable"], &side["problem"]),
            (&Value::Bool(true), &Value::Null),
            "{side}"
        );
    }
    let problems = [
        ("carol", "private", "does not speak our protocol"),
        ("carol", "public", "does not speak our protocol"),
        ("dave", "private", ""),
        ("dave", "public", "refuses connections"),
    ];
    for (name, graph, problem) in problems {
        let side = side(name, graph);
        assert_eq!(side["reachable"], Value::Bool(false), "{name}, {graph}: {side}");
        assert!(
            side["problem"]
                .as_str()
                .is_some_and(|said| said.contains(problem)),
            "{name}, {graph}: {side}"
        );
    }
    let metrics = alice.http.get("/metrics").text();
    assert!(
        metrics.contains("undertone_peers_reachable{graph=\"private\"} 1\n"),
        "{metrics}"
    );
    for daemon in [alice, bob, carol] {
        assert_eq!(daemon.end().0.code, 0);
    }
}
