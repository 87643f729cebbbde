//! Parties behind routers that translate addresses: nobody can dial them, and what is silent is
//! forgotten.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::json;
use undertone_tests::testnet::{Testnet, Weather, possible};
use undertone_tests::{Parties, Running, left_out, undertone};

const HOSTS: usize = 3;

/// All must come, however late.
const RUN: &str = "version = 1\nname = \"router\"\n[data]\nnoise_ok = true\nshape = [50]\n[run]\npace_ms = 40\n\
                   join_ms = 120000\ngrace_ms = 120000\nround_ms = 10000\nsettle_ms = 20000\n";

/// How long a router remembers a connection that is silent.
const FORGETS_S: u64 = 20;

/// A party's id. All are written with as many characters of an alphabet in ASCII's order, so that
/// texts compare as ids do.
fn id(parties: &Parties, party: usize) -> &str {
    let mut lines = parties.lines()[party].lines();
    lines.find(|line| line.starts_with("id = ")).expect("an id")
}

/// Hosts in the order of their parties' ids.
fn by_id(parties: &Parties) -> Vec<usize> {
    let mut hosts: Vec<usize> = (0..HOSTS).collect();
    hosts.sort_by_key(|&host| id(parties, host));
    hosts
}

/// Runs all parties, the one whose id has this rank behind a router and the last of the others so
/// much later; all must have the mean. How long it took from the last start on.
fn run(rank: usize, late: Duration) -> Duration {
    let mut net = Testnet::new(
        HOSTS,
        Weather {
            loss_percent: 0,
            delay: Duration::ZERO,
        },
    );
    let parties = Parties::at(HOSTS, |host| net.listeners(host));
    let mut hosts = by_id(&parties);
    let behind = hosts.remove(rank);
    net.put_behind_router(behind, FORGETS_S);
    hosts.insert(0, behind);
    parties.write_inputs(&[50]);
    parties.plan("plan", RUN);
    let join = |host: usize| {
        let mut command = net.command(host, undertone());
        command
            .args(parties.join("plan", host))
            .current_dir(parties.folder());
        Running::start(command, None)
    };
    let (last, early) = hosts.split_last().expect("three");
    let mut running: Vec<Running> = early.iter().map(|&host| join(host)).collect();
    // Nobody sends: it only paces the starts.
    let (_sender, pace) = channel::<()>();
    let _ = pace.recv_timeout(late);
    let begun = Instant::now();
    running.push(join(*last));
    for running in running {
        let ended = running.wait();
        let object = ended.json();
        assert_eq!((ended.code, &object["outcome"]), (0, &json!("done")), "{object}");
    }
    begun.elapsed()
}

#[test]
fn a_party_behind_a_router_takes_part_whatever_its_id() {
    if let Err(missing) = possible() {
        return left_out("parties behind routers", &missing);
    }
    for rank in [0, HOSTS - 1] {
        let took = run(rank, Duration::ZERO);
        println!("its id has rank {rank} of {HOSTS}: {took:?}");
    }
}

#[test]
fn a_router_that_forgets_silent_connections_costs_nobody_the_mean() {
    if let Err(missing) = possible() {
        return left_out("a router that forgets", &missing);
    }
    let took = run(1, Duration::from_secs(2 * FORGETS_S + 5));
    println!("{took:?} after the last had come");
}
