//! Parties that nobody can dial, on hosts of their own: behind routers, without addresses in the
//! list, over relays; and relays that die.
//!
//! Each scenario runs once with the tests. `cargo test -p undertone-tests --test waiting -- relayed
//! --ignored --nocapture` runs each twenty times (`RELAYED_RUNS`).

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use undertone_tests::testnet::{Testnet, Weather, possible};
use undertone_tests::{Followed, Parties, Running, Signal, follow_at, left_out, signal, undertone};

/// How long a router remembers a connection that is silent.
const FORGETS_S: u64 = 20;

const CLEAR: Weather = Weather {
    loss_percent: 0,
    delay: Duration::ZERO,
};

/// A run of so many coordinates, at a pace at which something can happen in each phase.
fn run_file(coordinates: usize) -> String {
    format!(
        "version = 1\nname = \"relayed\"\n[data]\nnoise_ok = true\nshape = [{coordinates}]\n\
         [mechanism]\nrounds = 6\n[run]\npace_ms = 100\njoin_ms = 90000\ngrace_ms = 60000\n\
         round_ms = 8000\nsettle_ms = 20000\n"
    )
}

/// Parties on hosts, and relays on hosts of their own after these.
struct Group {
    net: Testnet,
    parties: Parties,
    count: usize,
    relays: usize,
}

impl Group {
    /// `hidden` parties stand behind routers and have no address in the list.
    fn new(count: usize, hidden: &[usize], relays: usize, weather: Weather) -> Self {
        let mut net = Testnet::new(count + relays, weather);
        let parties = Parties::at(count, |host| net.listeners(host));
        let mut list = String::from("version = 1\n");
        for (party, lines) in parties.lines().iter().enumerate() {
            let shown = |line: &&str| {
                !(hidden.contains(&party) && (line.starts_with("private") || line.starts_with("public")))
            };
            list.extend(lines.lines().filter(shown).flat_map(|line| [line, "\n"]));
        }
        for relay in 0..relays {
            let name = format!("relay-{relay}");
            let [at, _] = net.listeners(count + relay);
            let key = format!("{name}.key");
            let made = parties.run(["identity", "new", "--out", &key, "--private", &at, "--json"]);
            let id = made.json_of(0)["id"].as_str().expect("an id").to_owned();
            list += &format!("[[relay]]\nname = \"{name}\"\nid = \"{id}\"\nat = [\"{at}\"]\n");
        }
        parties.write("peers.toml", &list);
        hidden
            .iter()
            .for_each(|&host| net.put_behind_router(host, FORGETS_S));
        Group {
            net,
            parties,
            count,
            relays,
        }
    }

    /// Starts a relay on its host.
    fn relay(&self, relay: usize) -> Running {
        let [at, _] = self.net.listeners(self.count + relay);
        let key = format!("relay-{relay}.key");
        let mut command = self.net.command(self.count + relay, undertone());
        command
            .args([
                "relay",
                "--identity",
                &key,
                "--listen",
                &at,
                "--for",
                "peers.toml",
            ])
            .current_dir(self.parties.folder());
        Running::start(command, None)
    }

    fn all_relays(&self) -> Vec<Running> {
        (0..self.relays).map(|relay| self.relay(relay)).collect()
    }

    fn join(&self, party: usize) -> Running {
        let mut command = self.net.command(party, undertone());
        command
            .args(self.parties.join("plan", party))
            .current_dir(self.parties.folder());
        Running::start(command, None)
    }

    /// A party whose events are followed.
    fn follow(&self, party: usize) -> (Running, Followed) {
        let pipe = self.parties.path(&format!("{party}.events"));
        let mut command = self.net.command(party, undertone());
        command
            .args(self.parties.join("plan", party))
            .arg("--events")
            .arg(&pipe)
            .current_dir(self.parties.folder());
        follow_at(command, &pipe)
    }

    /// Relays and parties run with so many coordinates; how long the parties took.
    fn all_run(&self, coordinates: usize) -> Duration {
        self.parties.write_inputs(&[coordinates]);
        self.parties.plan("plan", &run_file(coordinates));
        let relays = self.all_relays();
        let begun = Instant::now();
        let running = (0..self.count).map(|party| self.join(party)).collect();
        let took = self.all_done(running, begun);
        end(relays);
        took
    }

    /// All have joined and have the same mean of everybody; how long it took from `begun` on.
    fn all_done(&self, running: Vec<Running>, begun: Instant) -> Duration {
        for running in running {
            let ended = running.wait();
            let object = ended.json();
            let everybody = json!(self.parties.names());
            let found = (ended.code, &object["outcome"], &object["included"]);
            assert_eq!(found, (0, &json!("done"), &everybody), "{object}");
        }
        let took = begun.elapsed();
        let mean =
            |name: &String| std::fs::read(self.parties.path(&format!("plan-{name}.npy"))).expect("a mean");
        let means: Vec<_> = self.parties.names().iter().map(mean).collect();
        assert!(means.iter().all(|mean| *mean == means[0]), "the means differ");
        took
    }
}

fn end(relays: Vec<Running>) {
    for relay in relays {
        signal(relay.pid(), Signal::SIGTERM);
        assert_eq!(relay.wait().code, 0);
    }
}

fn pause(time: Duration) {
    // Nobody sends: it only paces the starts.
    let (_sender, pace) = channel::<()>();
    let _ = pace.recv_timeout(time);
}

/// Two of five without an address, one relay, delay and loss.
fn two_hidden_meet_over_one_relay() -> Duration {
    let weather = Weather {
        loss_percent: 1,
        delay: Duration::from_millis(20),
    };
    let group = Group::new(5, &[1, 3], 1, weather);
    group.all_run(1000)
}

/// All of five without an address, two relays, long vectors; and the same with addresses.
fn all_hidden_exchange_long_vectors() -> (Duration, Duration) {
    let took = |hidden: &[usize], relays: usize| {
        let group = Group::new(5, hidden, relays, CLEAR);
        group.all_run(1_000_000)
    };
    (took(&[0, 1, 2, 3, 4], 2), took(&[], 0))
}

/// The moments at which a relay dies.
const PHASES: [&str; 4] = ["gathering", "mixing", "settling", "publishing"];

/// Two of five without an address, so many relays, of which some are killed in a phase of the run
/// and start again if they are to. Returns what the parties had.
fn relays_die(phase: &str, relays: usize, killed: usize, restart: bool) -> Vec<Value> {
    let group = Group::new(5, &[0, 1], relays, CLEAR);
    group.parties.write_inputs(&[1000]);
    group.parties.plan("plan", &run_file(1000));
    let mut running_relays = group.all_relays();
    let mut running: Vec<Running> = (1..5).map(|party| group.join(party)).collect();
    let (first, mut events) = group.follow(0);
    running.insert(0, first);
    events.until(phase, |event| {
        event["event"] == "phase" && event["phase"] == phase
    });
    for relay in running_relays.drain(..killed) {
        signal(relay.pid(), Signal::SIGKILL);
        relay.wait();
    }
    if restart {
        running_relays.extend((0..killed).map(|relay| group.relay(relay)));
    }
    let objects = running.into_iter().map(|running| running.wait().json()).collect();
    end(running_relays);
    objects
}

#[test]
fn two_parties_without_addresses_meet_over_a_relay() {
    if let Err(missing) = possible() {
        return left_out("parties over a relay", &missing);
    }
    println!("{:?}", two_hidden_meet_over_one_relay());
}

#[test]
fn five_parties_without_addresses_exchange_a_million_coordinates() {
    if let Err(missing) = possible() {
        return left_out("long vectors over relays", &missing);
    }
    let (relayed, direct) = all_hidden_exchange_long_vectors();
    println!("{relayed:?} over two relays, {direct:?} directly");
}

#[test]
fn a_party_without_an_address_dials_whatever_its_id() {
    if let Err(missing) = possible() {
        return left_out("a party without an address", &missing);
    }
    for late in [Duration::ZERO, Duration::from_secs(2 * FORGETS_S + 5)] {
        let group = Group::new(3, &[1], 0, CLEAR);
        group.parties.write_inputs(&[50]);
        group.parties.plan("plan", &run_file(50));
        let mut running = vec![group.join(1), group.join(2)];
        pause(late);
        let begun = Instant::now();
        running.push(group.join(0));
        println!("{:?} after the last had come", group.all_done(running, begun));
    }
}

#[test]
fn a_relay_that_starts_again_costs_nobody_the_mean() {
    if let Err(missing) = possible() {
        return left_out("a relay that starts again", &missing);
    }
    for phase in PHASES {
        let objects = relays_die(phase, 1, 1, true);
        for object in objects {
            assert_eq!(object["outcome"], "done", "{phase}: {object}");
        }
    }
}

#[test]
fn the_death_of_relays_is_a_departure_at_worst() {
    if let Err(missing) = possible() {
        return left_out("relays that die", &missing);
    }
    for (phase, relays) in [("mixing", 1), ("publishing", 2)] {
        let objects = relays_die(phase, relays, 1, false);
        let done = objects.iter().filter(|object| object["outcome"] == "done");
        let (done, least) = (done.count(), if relays > 1 { 5 } else { 0 });
        println!("{phase}, one of {relays} relays: {done} of 5 are done");
        assert!(done >= least, "{phase}, one of {relays}: {objects:#?}");
        // The class covers one departure: nobody who ends has more than one missing.
        for object in objects.iter().filter(|object| !object["included"].is_null()) {
            let included = object["included"].as_array().map_or(0, Vec::len);
            assert!(included >= 4, "{phase}, one of {relays}: {object}");
        }
    }
}

/// Every scenario, `RELAYED_RUNS` times.
#[test]
#[ignore = "a soak of an hour"]
fn each_scenario_twenty_times() {
    possible().expect("namespaces");
    let runs = std::env::var("RELAYED_RUNS").map_or(20, |runs| runs.parse().expect("a number"));
    for run in 0..runs {
        let (relayed, direct) = all_hidden_exchange_long_vectors();
        let ratio = relayed.as_secs_f64() / direct.as_secs_f64();
        println!(
            "{run}: N2 {:?}, N4 {ratio:.2} times direct",
            two_hidden_meet_over_one_relay()
        );
        for phase in PHASES {
            let ends = |restart| {
                let objects = relays_die(phase, 1, 1, restart);
                objects
                    .iter()
                    .filter(|object| object["outcome"] == "done")
                    .count()
            };
            assert_eq!(ends(true), 5, "{phase}");
            println!("{run}: N5 {phase}: {} of 5 without the relay", ends(false));
        }
    }
}
