//! A network that falls apart while a training's noise is mixed: that mixing is in vain, and
//! another one follows.

use std::time::Duration;

use undertone_tests::receipt::assert_mu_follows;
use undertone_tests::testnet::{Testnet, Weather, possible};
use undertone_tests::{Parties, Running, digits, follow_at, left_out, read_json, undertone};

const HOSTS: usize = 6;
const ITERATIONS: usize = 5;

/// Nothing is lost while the network is whole.
const WEATHER: Weather = Weather {
    loss_percent: 0,
    delay: Duration::ZERO,
};

/// Rounds end while the network is in pieces. An iteration has time for what the kernel waits
/// before it sends again.
const RUN: &str = "version = 1\ntask = \"regression\"\nname = \"again\"\n[data]\nshape = [65]\nrecords = { at_most = 200 }\n\
                   clip = { kind = \"box\", low = 0.0, high = 16.0 }\n[model]\nloss = \"softmax\"\nclasses = 10\n\
                   iterations = 5\n[privacy]\nepsilon = 3.0\ndelta = 1e-5\n[run]\npace_ms = 300\nround_ms = 1000\n\
                   iteration_ms = 6000\njoin_ms = 60000\n";

/// Parties with a part of the digits each, and a plan "plan".
fn planned(net: &Testnet) -> Parties {
    let parties = Parties::at(HOSTS, |host| net.listeners(host));
    digits::share_out_to(&parties);
    parties.plan("plan", RUN);
    parties
}

/// Five of six hosts reach each other's private listeners no more while noise is mixed: hardly a
/// share arrives. They agree on that in public, and mix again once they do.
#[test]
fn noise_that_was_mixed_in_vain_is_mixed_again() {
    if let Err(missing) = possible() {
        return left_out("a network that falls apart in mixing", &missing);
    }
    let net = Testnet::new(HOSTS, WEATHER);
    let parties = planned(&net);
    let command = |party: usize| {
        let name = &parties.names()[party];
        let line = format!(
            "join plan.json --identity {name}.key --input {name}.csv --output {name}.json \
             --receipt {name}.receipt --json"
        );
        let mut command = net.command(party, undertone());
        command.args(line.split(' ')).current_dir(parties.folder());
        command
    };
    let pipe = parties.path("events");
    let mut first = command(0);
    first.arg("--events").arg(&pipe);
    let (first, mut events) = follow_at(first, &pipe);
    let others = (1..HOSTS - 1).map(|party| Running::start(command(party), None));
    let mut running: Vec<Running> = std::iter::once(first).chain(others).collect();
    let last = parties.names()[HOSTS - 1].as_str();
    events.until("all but one", |event| {
        event["ready"] == HOSTS - 1 && event["waiting_for"] == last
    });
    for side in [[0, 1], [0, 2], [0, 3]] {
        net.part_in_private(&side);
    }
    running.push(Running::start(command(HOSTS - 1), None));
    let again = events.until("another mixing", |event| {
        event.to_string().contains("mixed again, attempt 2 of 3")
    });
    net.heal();
    let why = again.to_string();
    assert!(
        why.contains("publishing in all 5 releases would cost epsilon"),
        "{why}"
    );
    let reported = events.rest();
    assert!(
        reported.iter().any(|event| event["phase"] == "mixing"),
        "the second one"
    );
    let ended = running.into_iter().map(Running::wait);
    for (name, ended) in parties.names().iter().zip(ended) {
        ended.json_of(0);
        let blamed = ended.stderr.contains("it belongs to plan");
        assert!(!blamed, "nobody is blamed for what came late: {}", ended.stderr);
        let receipt = read_json(&parties.path(&format!("{name}.receipt")));
        let iterations = &receipt["iterations"];
        assert_eq!(iterations["mixings"], 2, "{receipt}");
        assert_eq!(iterations["run"], ITERATIONS, "{receipt}");
        let epsilon = receipt["epsilon"].as_f64();
        assert!(epsilon.is_some_and(|epsilon| epsilon <= 3.0), "{receipt}");
        assert_mu_follows(&receipt);
    }
    let model = |name: &String| read_json(&parties.path(&format!("{name}.json")))["weights"].clone();
    let first = model(&parties.names()[0]);
    assert!(
        parties.names().iter().all(|name| model(name) == first),
        "one model"
    );
}
