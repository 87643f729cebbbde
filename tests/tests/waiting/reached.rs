//! Parties that list one port, or none, on this machine: what they exchange, and over which
//! connections.

use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::spawn;

use serde_json::{Value, json};
use undertone_tests::daemon::Daemon;
use undertone_tests::{Parties, Running, start_in};

const RUN: &str = "version = 1\nname = \"reached\"\n[data]\nnoise_ok = true\nshape = [40]\n\
                   [run]\njoin_ms = 60000\nround_ms = 10000\nsettle_ms = 20000\n";

/// The peer list without the lines of these parties that begin so.
fn list_without(parties: &Parties, leave_out: impl Fn(usize, &str) -> bool) -> String {
    let mut list = String::from("version = 1\n");
    for (party, lines) in parties.lines().iter().enumerate() {
        let kept = lines.lines().filter(|line| !leave_out(party, line));
        list.extend(kept.flat_map(|line| [line, "\n"]));
    }
    list
}

/// Everybody joins and has the mean; the final objects.
fn all_join(parties: &Parties, more: impl Fn(usize) -> Vec<String>) -> Vec<Value> {
    parties.write_inputs(&[40]);
    parties.plan("plan", RUN);
    let join = |party: usize| {
        let arguments = parties.join("plan", party).into_iter().chain(more(party));
        start_in(parties.folder(), arguments)
    };
    let running: Vec<Running> = (0..parties.names().len()).map(join).collect();
    let objects = running.into_iter().map(|running| running.wait().json_of(0));
    let objects: Vec<Value> = objects.collect();
    for object in &objects {
        let found = (&object["outcome"], &object["included"]);
        assert_eq!(found, (&json!("done"), &json!(parties.names())), "{object}");
    }
    objects
}

/// The ways from one party to another: private, public.
fn ways<'a>(objects: &'a [Value], parties: &Parties, (from, to): (usize, usize)) -> [&'a str; 2] {
    let links = &objects[from]["links"][&parties.names()[to]];
    ["private", "public"].map(|graph| links[graph].as_str().unwrap_or_default())
}

#[test]
fn one_encrypted_port_is_enough_for_both_graphs() {
    let parties = Parties::new(4);
    let list = list_without(&parties, |party, line| party > 0 && line.starts_with("public"));
    parties.write("peers.toml", &list);
    let objects = all_join(&parties, |_| vec![]);
    // Of two it is enough that one can be dialled in the clear.
    assert_eq!(ways(&objects, &parties, (1, 0)), ["encrypted", "plain"]);
    assert_eq!(ways(&objects, &parties, (0, 1)), ["encrypted", "plain"]);
    for pair in [(1, 2), (2, 1), (3, 1)] {
        assert_eq!(ways(&objects, &parties, pair), ["encrypted"; 2]);
    }
}

#[test]
fn a_member_that_relays_joins_two_without_addresses() {
    let parties = Parties::new(5);
    let hidden = |party: usize| party == 1 || party == 3;
    let list = list_without(&parties, |party, line| {
        hidden(party) && (line.starts_with("private") || line.starts_with("public"))
    });
    parties.write(
        "peers.toml",
        &list.replacen("private", "relay = true\nprivate", 1),
    );
    let objects = all_join(&parties, |_| vec![]);
    assert_eq!(ways(&objects, &parties, (1, 3)), ["over alice"; 2]);
    assert_eq!(ways(&objects, &parties, (3, 1)), ["over alice"; 2]);
    assert_eq!(ways(&objects, &parties, (1, 2)), ["encrypted", "plain"]);
    assert_eq!(ways(&objects, &parties, (0, 3)), ["encrypted", "plain"]);
}

#[test]
fn ipv6_alone_is_enough() {
    let parties = Parties::new(3);
    let list = parties.peer_list().replace("/ip4/127.0.0.1/", "/ip6/::1/");
    parties.write("peers.toml", &list);
    if TcpListener::bind(("::1", 0)).is_err() {
        return undertone_tests::left_out("IPv6", "this machine has none");
    }
    all_join(&parties, |_| vec![]);
}

/// Passes connections on from one port of this machine to another.
fn forward(from: TcpListener, to: u16) {
    spawn(move || {
        for inward in from.incoming().map_while(Result::ok) {
            let Ok(outward) = TcpStream::connect(("127.0.0.1", to)) else {
                continue;
            };
            let pair = |one: &TcpStream, other: &TcpStream| {
                let clones = (one.try_clone(), other.try_clone());
                let (Ok(mut from), Ok(mut to)) = clones else {
                    return;
                };
                spawn(move || {
                    let _ = copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            };
            pair(&inward, &outward);
            pair(&outward, &inward);
        }
    });
}

#[test]
fn a_party_listens_elsewhere_than_where_it_is_listed() {
    let parties = Parties::new(4);
    // Alice is dialled at a port that something else forwards to hers.
    let [listed, _] = parties.ports(0);
    let door = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let door_port = door.local_addr().expect("bound").port();
    forward(door, listed);
    let list = parties
        .peer_list()
        .replacen(&format!("/tcp/{listed}\""), &format!("/tcp/{door_port}\""), 1);
    parties.write("peers.toml", &list);
    all_join(&parties, |party| match party {
        0 => vec!["--listen".into(), format!("/ip4/127.0.0.1/tcp/{listed}")],
        _ => vec![],
    });
}

/// A plan that puts listed parties elsewhere, inside of this machine's networks even, moves nobody.
#[test]
fn a_plan_moves_nobody_whom_a_daemon_lists() {
    let parties = Parties::new(4);
    parties.write("true.toml", &parties.peer_list());
    let [private, public] = parties.ports(2);
    let moved = parties
        .peer_list()
        .replace(&format!("/tcp/{private}\""), "/tcp/9\"")
        .replace(&format!("/tcp/{public}\""), "/tcp/7\"");
    parties.write("peers.toml", &moved);
    parties.write_inputs(&[40]);
    let digest = parties.plan("plan", RUN);
    let daemons: Vec<Daemon> = (0..4)
        .map(|party| Daemon::start(&parties, party, "peers = \"true.toml\"\n"))
        .collect();
    for daemon in &daemons {
        let input = format!("{}.npy", daemon.name);
        daemon
            .client(["submit", "plan.json", "--input", &input])
            .json_of(0);
    }
    for daemon in &daemons {
        let run = daemon.client(["watch", &digest]).json_of(0);
        let found = (&run["outcome"], &run["included"]);
        assert_eq!(found, (&json!("done"), &json!(parties.names())), "{run}");
    }
}

#[test]
fn doctor_says_which_way_each_neighbour_answers() {
    let parties = Parties::new(4);
    let list = list_without(&parties, |party, line| {
        party == 1 && (line.starts_with("private") || line.starts_with("public"))
    });
    let with_relay = list.replacen("private", "relay = true\nprivate", 1);
    let doctor = |plan: &str| {
        let arguments = [
            "doctor",
            plan,
            "--identity",
            "dave.key",
            "--timeout-ms",
            "10000",
            "--json",
        ];
        parties.run(arguments).json()
    };
    // No relay: bob cannot be asked before he runs, and that is no problem of his.
    parties.write("peers.toml", &list);
    parties.plan("alone", RUN);
    let found = doctor("alone.json");
    let texts = |key: &str| found[key].to_string();
    assert!(
        texts("notes").contains("bob has no address: it dials this node"),
        "{found}"
    );
    assert!(!texts("problems").contains("bob"), "{found}");
    // A relay, and bob at it.
    parties.write("peers.toml", &with_relay);
    parties.write_inputs(&[40]);
    parties.plan("plan", RUN);
    let join = |party: usize| start_in(parties.folder(), parties.join("plan", party));
    let running: Vec<Running> = (0..3).map(join).collect();
    let found = (0..50).map(|_| doctor("plan.json")).find(|found| {
        let peers = found["peers"].as_array().expect("a list");
        peers.iter().all(|peer| peer["problem"].is_null())
    });
    let found = found.expect("everybody answers in the end");
    let peers = found["peers"].as_array().expect("a list");
    let bob = peers
        .iter()
        .find(|peer| peer["name"] == "bob")
        .expect("a neighbour");
    assert!(bob["relay"].is_string() && bob["rtt_ms"].is_number(), "{bob}");
    let carol = peers
        .iter()
        .find(|peer| peer["name"] == "carol")
        .expect("a neighbour");
    assert!(carol["relay"].is_null(), "{carol}");
    drop(running);
}
