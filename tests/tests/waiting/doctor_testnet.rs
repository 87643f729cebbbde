//! `undertone doctor` on a testnet: six hosts, packet loss, delay, and everything that people get
//! wrong.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use undertone_tests::testnet::{Testnet, Weather, possible};
use undertone_tests::{Ended, Followed, Parties, Running, Signal, follow_at, left_out, signal, undertone};

const HOSTS: usize = 6;
const WEATHER: Weather = Weather {
    loss_percent: 5,
    delay: Duration::from_millis(20),
};
const RUN: &str = "version = 1\nname = \"doctor\"\n[data]\nnoise_ok = true\nshape = [1000]\n[mechanism]\nrounds = 4\n\
                   [run]\njoin_ms = 100000\nround_ms = 4000\n";

/// A party waits for the others on its host.
fn gather(net: &Testnet, parties: &Parties, party: usize, program: &Path) -> (Running, Followed) {
    // A pipe for each: of one that both had, the end of the first would close the second one's.
    let version = program.file_name().expect("a program").display();
    let pipe = parties.path(&format!("{}-{version}.events", parties.names()[party]));
    let mut command = net.command(party, program);
    command
        .args(parties.join("plan", party))
        .arg("--events")
        .arg(&pipe)
        .current_dir(parties.folder());
    let (running, mut events) = follow_at(command, &pipe);
    events.until("gathering", |e| {
        e["event"] == "phase" && e["phase"] == "gathering"
    });
    (running, events)
}

/// Alice asks from her host.
fn doctor(net: &Testnet, parties: &Parties, plan: &str, more: &[&str]) -> Ended {
    let mut command = net.command(0, undertone());
    command
        .args(["doctor", plan, "--identity", "alice.key", "--json"])
        .args(more)
        .current_dir(parties.folder());
    Running::start(command, None).wait()
}

fn problems(found: &Value) -> Vec<&str> {
    found["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

#[track_caller]
fn assert_says(found: &Value, sentence: &str) {
    let problems = problems(found);
    assert!(
        problems.iter().any(|problem| problem.contains(sentence)),
        "nothing says {sentence:?}: {problems:#?}"
    );
}

/// Every edge's round trip is at least what the forwarders add, and the proposed round follows from
/// the slowest.
fn check_measured(found: &Value) {
    let peers = found["peers"].as_array().expect("a list");
    assert_eq!(peers.len(), 2 * (HOSTS - 1), "both graphs");
    for peer in peers {
        let rtt = peer["rtt_ms"]
            .as_f64()
            .unwrap_or_else(|| panic!("no answer: {peer}"));
        assert!(rtt >= 2.0 * WEATHER.delay.as_secs_f64() * 1e3, "{peer}");
        assert!(
            peer["bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0),
            "{peer}"
        );
        assert!(
            peer["clock_ms"].as_f64().is_some_and(|ms| ms.abs() < 1000.0),
            "the same clock: {peer}"
        );
    }
    let round = &found["round_ms"];
    let (needed, proposed) = (
        round["needed"].as_f64().expect("measured"),
        round["proposed"].as_f64().expect("measured"),
    );
    assert!(needed >= 80.0 && proposed >= 4.0 * needed, "{round}");
}

/// The peer list with what people get wrong, all at once.
fn mistaken_list(net: &Testnet, parties: &Parties) -> String {
    let mut lines: Vec<String> = parties.lines().to_vec();
    lines[1] = lines[1].replacen("tcp/7001", "tcp/7003", 1);
    lines[2] = lines[2]
        .replace("tcp/7001", "tcp/0")
        .replace("tcp/7002", "tcp/7001")
        .replace("tcp/0", "tcp/7002");
    let id = |lines: &str| {
        lines
            .lines()
            .find(|line| line.starts_with("id"))
            .expect("an id")
            .to_owned()
    };
    lines[3] = lines[3].replace(&id(&lines[3]), &id(&parties.new_identity("stranger")));
    let nobody = format!("/ip4/{}/", net.address(99));
    lines[4] = lines[4].replace(&format!("/ip4/{}/", net.address(4)), &nobody);
    format!("version = 1\n{}", lines.concat())
}

/// This program as it was before it answered questions: the protocol's name is another one.
fn old_version(folder: &Path) -> PathBuf {
    let (name, older) = (b"/undertone/ask/1", b"/undertone/ask/0");
    let mut program = std::fs::read(undertone()).expect("readable");
    let places: Vec<usize> = (0..program.len() - name.len())
        .filter(|&at| program[at..].starts_with(name))
        .collect();
    assert!(
        !places.is_empty(),
        "the program speaks {}",
        String::from_utf8_lossy(name)
    );
    for at in places {
        program[at..at + older.len()].copy_from_slice(older);
    }
    let (written, path) = (folder.join("written"), folder.join("undertone-before"));
    std::fs::write(&written, program).expect("writable");
    // Another process writes what is executed: one that this process starts meanwhile could hold it
    // open for writing a moment longer.
    let copied = std::process::Command::new("install")
        .arg(&written)
        .arg(&path)
        .status();
    assert!(copied.expect("coreutils").success());
    path
}

#[test]
fn doctor_finds_what_people_get_wrong_on_a_testnet() {
    if let Err(missing) = possible() {
        return left_out("doctor on a testnet", &missing);
    }
    let net = Testnet::new(HOSTS, WEATHER);
    let parties = Parties::at(HOSTS, |host| net.listeners(host));
    parties.write_inputs(&[1000]);
    parties.plan("plan", RUN);
    let mut nodes: Vec<_> = (1..HOSTS)
        .map(|party| gather(&net, &parties, party, &undertone()))
        .collect();

    let healthy = doctor(&net, &parties, "plan.json", &[]).json_of(0);
    assert_eq!(problems(&healthy), Vec::<&str>::new());
    check_measured(&healthy);

    // Too few could be reached: exit 4.
    parties.write("peers.toml", &mistaken_list(&net, &parties));
    let mistaken = parties.plan("mistaken", RUN);
    // Patient with who is silent, longer than peers are with who asks nothing.
    let patient = ["--timeout-ms", "4000"];
    let found = doctor(&net, &parties, "mistaken.json", &patient).json_of(4);
    let [bob, dave, erin] = [1, 3, 99].map(|host| net.address(host));
    assert_says(
        &found,
        &format!("bob refuses connections at /ip4/{bob}/tcp/7003 (private graph)"),
    );
    assert_says(&found, "the private and public addresses of carol are swapped");
    assert_says(
        &found,
        &format!("answers at /ip4/{dave}/tcp/7001 (private graph), not dave"),
    );
    assert_says(
        &found,
        &format!("nothing answers at /ip4/{erin}/tcp/7001 (erin, private graph)"),
    );
    assert_says(&found, "frank runs another plan");
    let frank = found["peers"].as_array().expect("a list").iter();
    let measured = |peer: &&Value| peer["name"] == "frank" && peer["bytes_per_s"].is_number();
    assert_eq!(frank.filter(measured).count(), 2, "on both graphs: {found}");
    assert_says(&found, &format!("this one's is {mistaken}"));

    // One who is too old to answer: the run could end without him, exit 5.
    let (frank, _) = nodes.pop().expect("the last host's");
    signal(frank.pid(), Signal::SIGKILL);
    frank.wait();
    nodes.push(gather(&net, &parties, HOSTS - 1, &old_version(parties.folder())));
    let found = doctor(&net, &parties, "plan.json", &[]).json_of(5);
    assert_says(&found, "frank takes no questions on the private graph");
    assert_says(&found, "its software is older, update it");
    assert!(
        problems(&found).iter().all(|problem| problem.contains("frank")),
        "{found}"
    );
}
