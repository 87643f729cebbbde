//! Hosts between two of which nothing passes any more, and a host that much is lost on the way to:
//! nothing closes, and everybody has the mean all the same.

use std::time::Duration;

use serde_json::Value;
use undertone_tests::testnet::{Testnet, Weather, possible};
use undertone_tests::{Followed, Parties, Running, follow_at, left_out, undertone};

const HOSTS: usize = 6;

const FINE: Weather = Weather {
    loss_percent: 0,
    delay: Duration::ZERO,
};

/// The lines that each run has beside its mechanism and its times.
const RUN: &str = "version = 1\nname = \"dark\"\n[data]\nnoise_ok = true\nshape = [100]\n";

/// A round waits no longer than a second for what does not come.
const DARK: &str = "[run]\njoin_ms = 60000\npace_ms = 100\nround_ms = 1000\nsettle_ms = 6000\n";

/// Time for what is lost several times in a row, and sent again after 0.2 s, 0.4 s, …
const LOSSES: &str = "[run]\njoin_ms = 60000\npace_ms = 100\nround_ms = 30000\nsettle_ms = 30000\n";

/// A run on hosts of their own; the first party's events are followed.
struct Hosts {
    net: Testnet,
    parties: Parties,
    running: Vec<Running>,
    events: Followed,
}

impl Hosts {
    fn start(lines: &str) -> Self {
        let net = Testnet::new(HOSTS, FINE);
        let parties = Parties::at(HOSTS, |host| net.listeners(host));
        parties.write_inputs(&[100]);
        parties.plan("plan", &format!("{RUN}{lines}"));
        let command = |party: usize| {
            let mut command = net.command(party, undertone());
            command
                .args(parties.join("plan", party))
                .current_dir(parties.folder());
            command
        };
        let pipe = parties.path("events");
        let mut first = command(0);
        first.arg("--events").arg(&pipe);
        let (first, events) = follow_at(first, &pipe);
        let others = (1..HOSTS).map(|party| Running::start(command(party), None));
        let running = std::iter::once(first).chain(others).collect();
        Hosts {
            net,
            parties,
            running,
            events,
        }
    }

    /// Each party's exit code and final object.
    fn ends(self) -> Vec<(i32, Value)> {
        self.events.rest();
        let ended = self.running.into_iter().map(Running::wait);
        let ends = ended.map(|ended| (ended.code, ended.json())).collect();
        drop((self.net, self.parties));
        ends
    }
}

#[test]
fn a_dark_edge_of_fifteen_costs_nobody_its_mean() {
    if let Err(missing) = possible() {
        return left_out("a dark edge", &missing);
    }
    for mechanism in [
        "",
        "[mechanism]\nkind = \"pairwise\"\n",
        "[mechanism]\nkind = \"ppsc\"\n",
    ] {
        for phase in ["mixing", "settling"] {
            let mut hosts = Hosts::start(&format!("{mechanism}{DARK}"));
            hosts.events.until(phase, |event| event["phase"] == phase);
            hosts.net.darken((1, 4));
            for (party, (code, object)) in hosts.ends().into_iter().enumerate() {
                let included = object["included"].as_array().map(Vec::len);
                assert_eq!(
                    (code, included),
                    (0, Some(HOSTS)),
                    "{mechanism:?}, dark from {phase} on, party {party}: {object}"
                );
            }
        }
    }
}

#[test]
fn losses_on_the_way_to_a_host_cost_nobody_its_mean() {
    if let Err(missing) = possible() {
        return left_out("losses on the way to a host", &missing);
    }
    for percent in [10, 25, 40] {
        let mut hosts = Hosts::start(LOSSES);
        hosts.events.until("mixing", |event| event["phase"] == "mixing");
        hosts.net.lose(4, percent);
        for (party, (code, object)) in hosts.ends().into_iter().enumerate() {
            assert_eq!(
                (code, &object["agreed"]),
                (0, &Value::Bool(true)),
                "{percent} % are lost, party {party}: {object}"
            );
        }
    }
}
