//! Four daemons and their command-line clients: runs that clients submit, what they say when
//! something is wrong, and what many requests under way cost a run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libp2p_identity::{PeerId, PublicKey};
use serde_json::Value;
use sha2::{Digest, Sha256};
use undertone_tests::daemon::Daemon;
use undertone_tests::openapi::Document;
use undertone_tests::{Parties, alone, assert_mean_of, read_npy, write_npy};

/// Four parties whose gathering lasts until somebody ends it.
const RUN: &str = "version = 1\ntask = \"mean\"\nname = \"api\"\n[data]\nnoise_ok = true\nshape = [8]\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[run]\njoin_ms = 60000\n";

/// Small enough that a test can be over it.
const LIMITS: &str = "[api]\nmax_body_bytes = 1048576\n";

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Four daemons, and the vectors that their parties contribute.
fn cluster(parties: &Parties, configuration: &str) -> (Vec<Daemon>, Vec<Vec<f64>>) {
    let inputs = parties.write_inputs(&[8]);
    let daemons = (0..parties.names().len())
        .map(|party| Daemon::start(parties, party, configuration))
        .collect();
    (daemons, inputs)
}

fn id_of(parties: &Parties, name: &str) -> PeerId {
    let shown = parties
        .run(["identity", "show", &format!("{name}.key"), "--json"])
        .json_of(0);
    shown["id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .expect("a peer id")
}

/// Whether RECEIPT.sig is this party's signature of RECEIPT.
#[track_caller]
fn is_signed(receipt: &Path, by: &PeerId) {
    let key = PublicKey::try_decode_protobuf(by.as_ref().digest()).expect("an ed25519 id is its key");
    let line = std::fs::read_to_string(format!("{}.sig", receipt.display())).expect("beside the receipt");
    let signature = STANDARD.decode(line.trim_end()).expect("base64");
    let signed = [
        b"undertone/receipt/1\0".as_slice(),
        &Sha256::digest(bytes(receipt)),
    ]
    .concat();
    assert!(
        key.verify(&signed, &signature),
        "{} is not signed by {by}",
        receipt.display()
    );
}

#[test]
fn four_daemons_average_what_their_clients_submit() {
    let _alone = alone();
    let parties = Parties::new(4);
    let digest = parties.plan("plan", RUN);
    let (daemons, inputs) = cluster(&parties, "");
    for daemon in &daemons {
        let taken = daemon
            .client(["submit", "plan.json", "--input", &format!("{}.npy", daemon.name)])
            .json_of(0);
        assert_eq!(taken["digest"], digest.as_str());
    }
    let document = Document::new(daemons[0].http.get("/v1/openapi.json").json_of(200));
    let mut means = vec![];
    for daemon in &daemons {
        let run = daemon.client(["watch", &digest[..10]]).json_of(0);
        assert_eq!(
            (&run["outcome"], &run["exit_code"], &run["state"]),
            (&"done".into(), &0.into(), &"ended".into()),
            "{run}"
        );
        let (mean, receipt) = (
            format!("{}.mean.npy", daemon.name),
            format!("{}.receipt.json", daemon.name),
        );
        let written = daemon
            .client(["result", &digest, "--output", &mean, "--receipt", &receipt])
            .json_of(0);
        assert_eq!(written["output"], mean.as_str());
        let (_, _, values) = read_npy(&parties.path(&mean));
        assert_mean_of(
            &values,
            &inputs,
            run["standard_error"].as_f64().expect("a standard error"),
        );
        means.push(values);
        served_over_http(daemon, &document, &digest, means.last().expect("a mean"));
        let receipt = parties.path(&receipt);
        assert_eq!(
            bytes(&receipt),
            daemon.http.get(&format!("/v1/runs/{digest}/receipt")).body
        );
        is_signed(&receipt, &id_of(&parties, &daemon.name));
        over_and_done(daemon, &document, &digest);
        // A plan is spent once.
        daemon
            .client(["submit", "plan.json", "--input", &format!("{}.npy", daemon.name)])
            .refused(6, "");
    }
    assert!(
        means.iter().all(|mean| *mean == means[0]),
        "all hold the same bits"
    );
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}

/// What the client wrote comes over HTTP too, as the document says.
fn served_over_http(daemon: &Daemon, document: &Document, digest: &str, mean: &[f64]) {
    for what in ["", "/plan", "/result", "/receipt", "/receipt.sig"] {
        let reply = daemon.http.get(&format!("/v1/runs/{digest}{what}"));
        document.check(&reply);
        assert_eq!(reply.status, 200, "{what}");
    }
    let json = daemon.http.ask(
        "GET",
        &format!("/v1/runs/{digest}/result"),
        &[("Accept", "application/json")],
        &[],
    );
    document.check(&json);
    assert_eq!(
        serde_json::from_slice::<Vec<f64>>(&json.body).expect("a list"),
        mean
    );
    let csv = daemon.http.ask(
        "GET",
        &format!("/v1/runs/{digest}/result"),
        &[("Accept", "text/csv")],
        &[],
    );
    document.check(&csv);
    csv.refused(406, "application/x-npy");
}

/// A run that is over can be watched again, and not withdrawn.
fn over_and_done(daemon: &Daemon, document: &Document, digest: &str) {
    let events = daemon
        .http
        .events(&format!("/v1/runs/{digest}/events"), &[], |_| false);
    assert!(
        events
            .iter()
            .any(|(_, name, event)| name == "phase" && event["phase"] == "mixing"),
        "{events:?}"
    );
    assert!(
        events.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "ids rise: {events:?}"
    );
    let late = daemon.http.ask("DELETE", &format!("/v1/runs/{digest}"), &[], &[]);
    document.check(&late);
    late.refused(409, "");
    daemon.client(["withdraw", digest]).refused(2, "");
}

#[test]
fn clients_say_what_is_wrong_and_exit_by_the_contract() {
    let _alone = alone();
    let parties = Parties::new(4);
    let digest = parties.plan("plan", RUN);
    parties.write_inputs(&[8]);
    write_npy(&parties.path("wide.npy"), &[9], &[0.0; 9]);
    let file = Daemon::configure(&parties, 0, "");
    parties
        .run(["status", "--config", &file, "--json"])
        .refused(2, "api.token");
    let daemon = Daemon::start(&parties, 0, LIMITS);
    wrong_submissions(&parties, &daemon);
    for client in ["status", "watch", "withdraw"] {
        daemon.client([client, &digest]).refused(2, "");
        daemon.client([client, "xyz"]).refused_at(2, "DIGEST");
    }
    daemon
        .client(["result", &digest, "--output", "mean.txt"])
        .refused_at(2, "--output");
    daemon
        .client(["result", &digest, "--output", "mean.npy"])
        .refused(2, "");
    assert!(!parties.path("mean.npy").exists());
    assert_eq!(daemon.client(["status"]).json_of(0)["party"], "alice");
    let socket = daemon.http.address.clone();
    let token = parties.path("alice.state/api.token").display().to_string();
    asked_directly(&parties, &file, &socket, &token);
    let withdrawn = {
        daemon
            .client(["submit", "plan.json", "--input", "alice.npy"])
            .json_of(0);
        daemon.client(["withdraw", &digest[..6]]).json_of(0)
    };
    assert_eq!(withdrawn["state"], "withdrawn");
    daemon.client(["watch", &digest]).json_of(4);
    drop(daemon);
    parties
        .run(["status", "--api", &socket, "--token-file", &token, "--json"])
        .refused_at(2, "--api");
    parties
        .run(["status", "--api", "https://x:1", "--token-file", &token, "--json"])
        .refused_at(2, "--api");
}

/// Plans and vectors that are absent, of another shape, no such thing, or too long.
fn wrong_submissions(parties: &Parties, daemon: &Daemon) {
    daemon.client(["submit", "plan.json"]).refused_at(2, "--input");
    daemon
        .client(["submit", "absent.json", "--input", "alice.npy"])
        .refused_at(2, "PLAN.json");
    daemon
        .client(["submit", "plan.json", "--input", "absent.npy"])
        .refused_at(7, "--input");
    daemon
        .client(["submit", "plan.json", "--input", "wide.npy"])
        .refused(7, "shape");
    daemon
        .client(["submit", "plan.json", "--input", "alice.key"])
        .refused(7, ".key");
    daemon
        .client(["submit", "peers.toml", "--input", "alice.npy"])
        .refused(3, "");
    daemon
        .client(["submit", "--propose", "peers.toml"])
        .refused(2, "");
    // Longer than the daemon takes, and than any socket's buffer: the refusal is still read.
    write_npy(&parties.path("long.npy"), &[4 << 20], &vec![0.0; 4 << 20]);
    daemon
        .client(["submit", "plan.json", "--input", "long.npy"])
        .refused(2, "max_body_bytes");
}

/// With the API's address and token on the command line instead of a configuration.
fn asked_directly(parties: &Parties, file: &str, socket: &str, token: &str) {
    // The token lies beside the socket, as the page on systemd has it.
    let beside = parties.run(["status", "--api", socket, "--json"]);
    assert_eq!(beside.code, 0, "{}", beside.stdout);
    let direct = parties.run(["status", "--api", socket, "--token-file", token, "--json"]);
    assert_eq!(direct.json_of(0)["party"], "alice");
    let text = parties.run(["status", "--config", file]);
    assert!(text.code == 0 && text.stdout.contains("bob"), "{}", text.stdout);
    parties.write("other.token", "0123456789abcdef0123456789abcdef\n");
    parties
        .run(["status", "--api", socket, "--token-file", "other.token", "--json"])
        .refused(2, "others can read it");
    set_mode(&parties.path("other.token"), 0o600);
    parties
        .run(["status", "--api", socket, "--token-file", "other.token", "--json"])
        .refused(2, "Authorization");
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("ours");
}

/// Milliseconds that a run of all daemons takes.
fn take_part(parties: &Parties, daemons: &[Daemon], name: &str, run: &str) -> u64 {
    let digest = parties.plan(name, &run.replace("api", name));
    for daemon in daemons {
        daemon
            .client([
                "submit",
                &format!("{name}.json"),
                "--input",
                &format!("{}.npy", daemon.name),
            ])
            .json_of(0);
    }
    let runs: Vec<Value> = daemons
        .iter()
        .map(|daemon| daemon.client(["watch", &digest]).json_of(0))
        .collect();
    let of = |run: &Value| {
        run["ended_ms"]
            .as_u64()
            .zip(run["started_ms"].as_u64())
            .map_or(0, |(end, start)| end - start)
    };
    runs.iter().map(of).max().expect("four")
}

/// What a run takes while 200 workers ask the daemons one thing after the other.
fn under_requests(daemons: &[Daemon], take_part: impl FnOnce() -> u64) -> u64 {
    let (done, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let took = std::thread::scope(|scope| {
        for worker in 0..200 {
            let (http, done, answered) = (&daemons[worker % 4].http, &done, &answered);
            let path = ["/v1/status", "/v1/runs", "/metrics", "/healthz"][worker / 4 % 4];
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(http.get(path).status, 200, "{path}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let took = catch_unwind(AssertUnwindSafe(take_part));
        done.store(true, Ordering::Relaxed);
        took.unwrap_or_else(|panic| resume_unwind(panic))
    });
    println!(
        "{:.0} answers a second",
        answered.into_inner() as f64 / begun.elapsed().as_secs_f64()
    );
    took
}

/// `cargo test --release -p undertone-tests --test daemon_clients -- --ignored --nocapture`:
/// prints what 200 requests under way cost a run.
#[test]
#[ignore = "a measurement"]
fn with_200_requests_under_way_a_run_takes_at_most_half_as_long_again() {
    let _alone = alone();
    let parties = Parties::new(4);
    const SHAPE: usize = 100_000;
    let run = RUN.replace("[8]", &format!("[{SHAPE}]"));
    parties.write_inputs(&[SHAPE]);
    let daemons: Vec<Daemon> = (0..4).map(|party| Daemon::start(&parties, party, "")).collect();
    let take_part = |name: &str| take_part(&parties, &daemons, name, &run);
    let under_requests = |name: &str| under_requests(&daemons, || take_part(name));
    // Turn and turn about, so that what else the machine does meets both alike.
    let pairs: Vec<[u64; 2]> = (0..5)
        .map(|i| {
            [
                take_part(&format!("quiet-{i}")),
                under_requests(&format!("loud-{i}")),
            ]
        })
        .collect();
    let median = |which: usize| {
        let mut times: Vec<u64> = pairs.iter().map(|pair| pair[which]).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let (quiet, loud) = (median(0), median(1));
    println!(
        "4 daemons, {SHAPE} coordinates: {quiet} ms alone, {loud} ms with 200 requests under way (medians of {pairs:?})"
    );
    assert!(
        loud as f64 <= 1.5 * quiet as f64,
        "{loud} ms against {quiet} ms alone"
    );
}
