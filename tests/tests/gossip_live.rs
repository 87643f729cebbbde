//! Streams that are measured as they go: programs that hand over a row a round, and a daemon that
//! is stopped in mid-stream.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::daemon::Daemon;
use undertone_tests::http::Http;
use undertone_tests::ports::Ports;
use undertone_tests::{
    Parties, Running, alone, assert_close, left_out, npy_shape, read_json, read_npy, receipt, undertone,
    write_npy,
};

const PARTIES: usize = 5;
const RELEASES: usize = 8;

fn run_file(data: &str, mechanism: &str, run: &str) -> String {
    format!(
        "version = 1\ntask = \"stream\"\nname = \"live\"\n[data]\nshape = [3]\nreleases = {RELEASES}\nnoise_ok = true\n\
         clip = {{ kind = \"l2\", radius = 2.0 }}\n{data}\n[privacy]\nepsilon = 8.0\n[mechanism]\n\
         {mechanism}\n[topology]\nprivate = \"ring\"\n[run]\njoin_ms = 60000\n{run}\n"
    )
}

/// A local cluster whose parties each run a program.
fn local(folder: &Path) -> Value {
    let line = "local --inputs rows --run run.toml --output kept --json --program";
    let mut command = std::process::Command::new(undertone());
    command
        .args(line.split(' '))
        .arg(env!("CARGO_BIN_EXE_telemetry"))
        .current_dir(folder);
    Running::start(command, None).wait().json_of(0)
}

/// Lengths of what a party's program was told, by round.
fn reported(folder: &Path, party: usize) -> Vec<(u32, u64)> {
    let text = fs::read_to_string(folder.join(format!("rows/node-{party}.txt.told"))).expect("what was told");
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).expect("a number");
    let line = |line: &str| {
        let mut words = line.split(' ');
        (number(words.next()) as u32, number(words.next()))
    };
    text.lines().map(line).collect()
}

/// Rows come out of programs; who reads messages is told no estimate before the end, unless rows
/// may follow them.
#[test]
fn programs_hand_over_a_row_a_round() {
    let _alone = alone();
    let secure = "sums = \"everybody\"";
    let (open, patient) = ("sums = \"open\"", "round_ms = 60000");
    for (data, mechanism, run, is_reported) in [
        ("", open, patient, false),
        ("adaptive = true", open, patient, true),
        ("", secure, "settle_ms = 15000\nround_ms = 60000", true),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        fs::create_dir(folder.join("rows")).expect("writable");
        for party in 0..PARTIES {
            let text = format!("{}\n", 0.1 * party as f64);
            fs::write(folder.join(format!("rows/node-{party}.txt")), text).expect("writable");
        }
        fs::write(folder.join("run.toml"), run_file(data, mechanism, run)).expect("writable");
        let object = local(folder);
        assert_eq!(
            (&object["outcome"], &object["finished"]),
            (&json!("done"), &json!(PARTIES))
        );
        assert!(object["rms_error"].is_null() && object["iteration_ms"]["median"].is_number());
        // The last row: 0.2 from each round, 0.05 (1 + … + 8), and −0.2.
        let truth = [1.6, 1.8, -1.6];
        for party in 0..PARTIES {
            let (_, header, rows) = read_npy(&folder.join(format!("kept/node-{party}/mean.npy")));
            assert_eq!(npy_shape(&header), [RELEASES, 3]);
            let receipt = receipt::of_local(&folder.join("kept"), &format!("node-{party}"));
            let error = receipt["standard_error"].as_f64().expect("an error");
            let spread = receipt["spread"].as_f64().unwrap_or(0.0);
            for (found, truth) in rows[3 * (RELEASES - 1)..].iter().zip(truth) {
                assert!((found - truth).abs() < 7.0 * error + spread, "{found} {truth}");
            }
            let reported = reported(folder, party);
            let rounds: Vec<u32> = reported.iter().map(|(round, _)| *round).collect();
            assert_eq!(rounds, (1..=RELEASES as u32).chain([0]).collect::<Vec<_>>());
            assert_eq!(reported[0].1, 0, "nothing is known before the first");
            let early = reported[1..RELEASES].iter();
            assert!(
                early.clone().all(|(_, length)| (*length > 0) == is_reported),
                "{reported:?}"
            );
        }
    }
}

/// What a stream costs is charged some releases ahead of what leaves: whoever is stopped in
/// mid-stream keeps the rest.
#[test]
fn a_daemon_that_is_stopped_in_mid_stream_keeps_what_has_not_left() {
    let _alone = alone();
    let parties = Parties::new(4);
    let run = run_file("", "sums = \"open\"", "round_ms = 60000\npace_ms = 200");
    let run = run.replace(&format!("releases = {RELEASES}"), "releases = 20");
    let digest = parties.plan("live", &run);
    let configuration = "[[data_set]]\nname = \"rows\"\nfile = \"rows.npy\"\nepsilon = 30.0\ndelta = 1e-5\n";
    let start = |party: usize| {
        Daemon::configure(&parties, party, configuration);
        let file = parties.path(&format!("{}.data/rows.npy", parties.names()[party]));
        write_npy(&file, &[20, 3], &[0.1; 60]);
        Daemon::start(&parties, party, configuration)
    };
    let mut daemons: Vec<Daemon> = (0..4).map(start).collect();
    let plan = fs::read(parties.path("live.json")).expect("a plan");
    for daemon in &daemons {
        daemon.submit(&plan, "data_file=rows.npy", None).json_of(201);
    }
    let claimed = read_json(&parties.path("live.json"))["claims"][0]["mu"].as_f64();
    let whole = claimed.expect("a loss").powi(2);
    let path = format!("/v1/runs/{digest}");
    let charged = |daemon: &Daemon| daemon.http.get(&path).json_of(200)["charged"].clone();
    let third = |event: &Value| event["k"].as_u64() >= Some(3);
    daemons[0].http.events(&format!("{path}/events"), &[], third);
    let stopped = daemons.remove(0);
    assert_close(&charged(&stopped), whole / 2.0, 1e-6, "ten releases of twenty");
    stopped.end();
    for daemon in &daemons {
        daemon.http.events(&format!("{path}/events"), &[], |_| false);
        assert_close(&charged(daemon), whole, 1e-6, "all of theirs have left");
    }
    let again = Daemon::start(&parties, 0, configuration);
    let status = again.http.get("/v1/status").json_of(200);
    // What was charged ahead, or, where the daemon found the time to end the run, what has left.
    let spent = status["budgets"][0]["mu_squared"].as_f64().expect("a budget");
    let releases = spent / whole * 20.0;
    assert!((2.999..10.001).contains(&releases), "{releases} releases");
    for daemon in daemons.into_iter().chain([again]) {
        daemon.end();
    }
}

/// An address of this machine that is not the loopback's; `None` if it has none. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address that is nobody's (RFC 5737).
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Sums of neighbours through daemons: what a node makes of them is told to whoever asks on its own
/// machine, and to nobody else; the mean of everybody's sums is anybody's.
#[test]
fn daemons_tell_sums_of_neighbours_on_their_own_machine_only() {
    let Some(elsewhere) = own_address() else {
        return left_out(
            "asking from elsewhere",
            "this machine has the loopback's addresses only",
        );
    };
    let _alone = alone();
    let parties = Parties::new(PARTIES);
    let ports = Ports::hold(PARTIES);
    let everywhere = |port: u16| SocketAddr::from(([0, 0, 0, 0], port));
    let daemons: Vec<Daemon> = (0..PARTIES)
        .map(|party| Daemon::start_with(&parties, party, everywhere(ports[party]), "allow_remote = true\n"))
        .collect();
    for (circle, is_owners) in [("neighbours", true), ("everybody", false)] {
        let mechanism = format!("sums = \"{circle}\"");
        let run = run_file("", &mechanism, "settle_ms = 15000\nround_ms = 60000");
        let digest = parties.plan(circle, &run.replace("\"ring\"", "\"complete\""));
        let plan = fs::read(parties.path(&format!("{circle}.json"))).expect("a plan");
        let rows = parties.path("rows.npy");
        write_npy(&rows, &[RELEASES, 3], &[0.1; 3 * RELEASES]);
        let rows = fs::read(&rows).expect("rows");
        for daemon in &daemons {
            let vector = Some(("application/x-npy", &rows[..]));
            daemon.submit(&plan, "", vector).json_of(201);
        }
        let path = format!("/v1/runs/{digest}");
        for daemon in &daemons {
            daemon.http.events(&format!("{path}/events"), &[], |_| false);
            let status = daemon.http.get(&path).json_of(200);
            assert_eq!(
                (&status["outcome"], &status["owners_alone"]),
                (&json!("done"), &json!(is_owners))
            );
            let port = daemon.http.address.rsplit(':').next().expect("a port");
            let from_elsewhere = Http {
                address: format!("{elsewhere}:{port}"),
                token: daemon.http.token.clone(),
            };
            for path in [format!("{path}/result"), format!("{path}/rounds/1")] {
                let here = daemon.http.get(&path);
                let there = from_elsewhere.get(&path);
                match is_owners {
                    true => {
                        let problem = there.json_of(403);
                        assert_eq!(problem["type"], "urn:undertone:problem:owners-alone");
                    }
                    false => assert_eq!(there.status, here.status),
                }
                assert_ne!(here.status, 403);
            }
            assert_eq!(daemon.http.get(&format!("{path}/result")).status, 200);
        }
    }
    daemons.into_iter().for_each(|daemon| drop(daemon.end()));
}
