//! The daemon's HTTP API from outside: what it answers is what its OpenAPI document says, nobody without the token gets anything, nothing
//! that is sent to it stops it, and a vector that was brought to it shows up nowhere but in a mean.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libp2p_identity::{PeerId, PublicKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use undertone_tests::daemon::Daemon;
use undertone_tests::http::{Http, Reply};
use undertone_tests::openapi::Document;
use undertone_tests::{Parties, alone, assert_mean_of, read_npy, write_npy};

/// Four parties whose gathering lasts until somebody ends it.
const RUN: &str = "version = 1\ntask = \"mean\"\nname = \"api\"\n[data]\nshape = [8]\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[run]\njoin_ms = 60000\n";

/// Small enough that a test can be over it.
const LIMITS: &str = "[api]\nmax_body_bytes = 1048576\n";

/// A coordinate that is in no log, error or answer.
const MARK: f64 = 0.271_828_182_845;

fn nobody() -> String {
    "0".repeat(64)
}

/// A daemon under examination: every answer is held against the document, and kept.
struct Examined {
    daemon: Daemon,
    document: Document,
    answers: Vec<Reply>,
}

impl Examined {
    fn start(parties: &Parties, configuration: &str) -> Self {
        let daemon = Daemon::start(parties, 0, configuration);
        let document = Document::new(daemon.http.get("/v1/openapi.json").json_of(200));
        Examined {
            daemon,
            document,
            answers: vec![],
        }
    }

    #[track_caller]
    fn keep(&mut self, reply: Reply) -> Reply {
        self.document.check(&reply);
        self.answers.push(reply.clone());
        reply
    }

    #[track_caller]
    fn get(&mut self, path: &str) -> Reply {
        let reply = self.daemon.http.get(path);
        self.keep(reply)
    }

    #[track_caller]
    fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let reply = self.daemon.http.ask(method, path, headers, body);
        self.keep(reply)
    }

    #[track_caller]
    fn post(&mut self, path: &str, parts: &[(&str, Option<&str>, &[u8])]) -> Reply {
        let reply = self.daemon.post(path, parts);
        self.keep(reply)
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A vector in the format of its name.
fn npy(parties: &Parties, name: &str, values: &[f64]) -> Vec<u8> {
    write_npy(&parties.path(name), &[values.len()], values);
    bytes(&parties.path(name))
}

#[test]
fn without_the_token_there_is_nothing_but_health() {
    let _alone = alone();
    let parties = Parties::new(4);
    let mut examined = Examined::start(&parties, LIMITS);
    let operations = examined.document.operations();
    assert!(operations.len() >= 16, "{operations:?}");
    let right = examined.daemon.http.token.clone().expect("a token");
    let near = format!("{}0", &right[..right.len() - 1]);
    let wrong = [None, Some("x"), Some(near.as_str())].map(|token| examined.daemon.http.with_token(token));
    for (path, method) in &operations {
        let path = path.replace("{digest}", &nobody());
        for stranger in &wrong {
            let reply = examined.keep(stranger.ask(&method.to_uppercase(), &path, &[], &[]));
            if ["/healthz", "/readyz"].contains(&path.as_str()) {
                assert_eq!(reply.status, 200, "{path}");
            } else {
                reply.refused(401, "Authorization");
                assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            }
        }
    }
    // Nor does a stranger learn which paths there are, or get a body taken.
    wrong[0].get("/v1/secrets").refused(401, "token");
    wrong[0]
        .ask("POST", "/v1/runs", &[], &vec![0; 4 << 20])
        .refused(401, "token");
    let socket = parties.path("alice.state/api.sock");
    let mode = |path: &Path| {
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).expect("it is there").permissions())
    };
    assert_eq!(mode(&socket) & 0o777, 0o600);
    assert_eq!(mode(&parties.path("alice.state/api.token")) & 0o777, 0o600);
    let (ended, _) = examined.daemon.end();
    assert!(
        !ended.stderr.contains(&right) && !ended.stdout.contains(&right),
        "the token was printed"
    );
    assert!(!socket.exists(), "the socket goes with the daemon");
}

#[test]
fn what_makes_no_sense_is_refused_by_name_and_the_daemon_goes_on() {
    let _alone = alone();
    let parties = Parties::new(4);
    let digest = parties.plan("plan", RUN);
    let mut examined = Examined::start(&parties, LIMITS);
    let plan = bytes(&parties.path("plan.json"));
    let vector = npy(&parties, "vector.npy", &[MARK; 8]);
    let (plan, vector) = (
        ("plan", Some("plan.json"), plan.as_slice()),
        ("vector", Some("vector.npy"), vector.as_slice()),
    );

    // Paths.
    for (path, method) in examined.document.operations() {
        if path.contains("{digest}") && method != "post" {
            examined
                .ask(
                    &method.to_uppercase(),
                    &path.replace("{digest}", &nobody()),
                    &[],
                    &[],
                )
                .refused(404, "digest");
        }
    }
    let accept = format!("/v1/offers/{}/accept", nobody());
    examined.post(&accept, &[vector]).refused(404, "");
    for name in [
        "x",
        &digest.to_uppercase(),
        &digest[1..],
        "%ff",
        "..%2f..%2fetc%2fpasswd",
    ] {
        examined.get(&format!("/v1/runs/{name}")).refused(404, "digest");
    }
    examined
        .daemon
        .http
        .get("/v1/nothing")
        .refused(404, "openapi.json");
    examined
        .daemon
        .http
        .ask("PUT", "/v1/runs", &[], &[])
        .refused(405, "PUT");

    // Bodies.
    let form = "multipart/form-data; boundary=b";
    for (media_type, body, status, about) in [
        ("application/json", "{}", 415, "Content-Type"),
        ("multipart/form-data", "", 415, "boundary"),
        (form, "", 400, "multipart"),
        (
            form,
            "--b\r\nContent-Disposition: form-data; name=\"plan\"\r\n\r\n{}",
            400,
            "multipart",
        ),
        (form, "--b\r\nno header\r\n\r\n--b--\r\n", 400, "multipart"),
    ] {
        examined
            .ask(
                "POST",
                "/v1/runs",
                &[("Content-Type", media_type)],
                body.as_bytes(),
            )
            .refused(status, about);
    }
    examined.post("/v1/runs", &[]).refused(400, "plan");
    examined.post("/v1/runs", &[vector]).refused(400, "plan");
    examined.post("/v1/runs", &[plan]).refused(400, "vector");
    examined
        .post("/v1/runs", &[plan, plan, vector])
        .refused(400, "two parts");
    examined
        .post("/v1/runs", &[plan, vector, ("data_file", None, b"x.npy")])
        .refused(400, "both");
    examined
        .post("/v1/runs", &[plan, vector, ("secret", None, b"x")])
        .refused(400, "parts: plan");
    examined
        .post("/v1/runs", &[plan, ("vector", None, vector.2)])
        .refused(415, "extension");
    examined
        .post("/v1/runs", &[plan, ("vector", Some("x.pickle"), vector.2)])
        .refused(415, ".pickle");
    examined
        .post("/v1/runs", &[plan, ("data_set", None, &[b'x'; 256])])
        .refused(413, "data_set");
    examined
        .post("/v1/runs", &[plan, ("data_set", None, b"\xff")])
        .refused(400, "data_set");
    let long = vec![b' '; 2 << 20];
    examined
        .post("/v1/runs", &[plan, ("vector", Some("x.csv"), &long)])
        .refused(413, "max_body_bytes");
    let chunked = [("Content-Type", form), ("Transfer-Encoding", "chunked")];
    let head = b"--b\r\nContent-Disposition: form-data; name=\"vector\"; filename=\"x.csv\"\r\n\r\n";
    let mut pieces = format!("{:x}\r\n", head.len()).into_bytes();
    pieces.extend_from_slice(head);
    for _ in 0..32 {
        pieces.extend(b"\r\n10000\r\n");
        pieces.extend_from_slice(&long[..1 << 16]);
    }
    pieces.extend(b"\r\n0\r\n\r\n");
    examined
        .ask("POST", "/v1/runs", &chunked, &pieces)
        .refused(413, "max_body_bytes");

    // Plans.
    let text = String::from_utf8_lossy(plan.2).into_owned();
    let looser = text.replacen("\"epsilon\": 1.0", "\"epsilon\": 0.5", 1);
    assert_ne!(text, looser);
    for bad in ["", "{}", &text[..text.len() / 2], &looser] {
        let problem = examined
            .post("/v1/runs", &[("plan", Some("plan.json"), bad.as_bytes()), vector])
            .refused(422, "");
        assert_eq!(
            (&problem["type"], &problem["exit_code"]),
            (&"urn:undertone:problem:plan-refused".into(), &3.into())
        );
    }

    // Vectors.
    let wider = npy(&parties, "wide.npy", &[MARK; 9]);
    let strange = npy(&parties, "nan.npy", &[f64::NAN; 8]);
    for (name, bad, about) in [
        ("wide.npy", wider.as_slice(), "shape"),
        ("nan.npy", &strange, "not a number"),
        ("cut.npy", &vector.2[..100], "truncated"),
        ("0.csv", b"", "empty"),
    ] {
        let problem = examined
            .post("/v1/runs", &[plan, ("vector", Some(name), bad)])
            .refused(422, about);
        assert_eq!(
            (&problem["type"], &problem["exit_code"]),
            (&"urn:undertone:problem:input-unusable".into(), &7.into())
        );
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|text| text.contains(name) && !text.contains("alice.state")),
            "{problem}"
        );
    }
    for name in ["absent.npy", "../alice.key", "/etc/passwd", ""] {
        let reply = examined.post("/v1/runs", &[plan, ("data_file", None, name.as_bytes())]);
        assert!((400..500).contains(&reply.status), "{name}: {}", reply.text());
    }
    examined
        .post("/v1/runs", &[plan, ("data_set", None, b"absent")])
        .json();

    // Proposals.
    for (media_type, body) in [
        ("application/toml", "version = 1\nnonsense = 1\n"),
        ("text/plain", "="),
    ] {
        let reply = examined.ask(
            "POST",
            "/v1/offers",
            &[("Content-Type", media_type)],
            body.as_bytes(),
        );
        reply.refused(400, "line");
    }
    examined
        .post("/v1/offers", &[("run", Some("run.toml"), b"\xff")])
        .refused(400, "UTF-8");

    assert_eq!(
        examined.get("/v1/runs").json_of(200),
        json!({ "runs": [] }),
        "nothing of that was taken"
    );
    let left: Vec<_> = std::fs::read_dir(parties.path("alice.state/incoming"))
        .expect("a folder")
        .collect();
    assert!(left.is_empty(), "uploads were left: {left:?}");
    examined.end_clean();
}

#[test]
fn a_run_is_taken_once_followed_and_withdrawn_before_its_start() {
    let _alone = alone();
    let parties = Parties::new(4);
    let digest = parties.plan("plan", RUN);
    let mut examined = Examined::start(&parties, LIMITS);
    let plan = bytes(&parties.path("plan.json"));
    let vector = npy(&parties, "vector.npy", &[MARK; 8]);
    let parts: [(&str, Option<&str>, &[u8]); 2] = [
        ("plan", Some("plan.json"), &plan),
        ("vector", Some("vector.npy"), &vector),
    ];
    let taken = examined.post("/v1/runs", &parts);
    assert_eq!(
        taken.header("location"),
        Some(format!("/v1/runs/{digest}").as_str())
    );
    assert_eq!(taken.json_of(201)["digest"], digest.as_str());
    examined.post("/v1/runs", &parts).refused(409, "");
    let at = |what: &str| format!("/v1/runs/{digest}{what}");
    assert_eq!(examined.get(&at("")).json_of(200)["name"], "api");
    assert_eq!(
        examined.get("/v1/runs").json_of(200)["runs"][0]["digest"],
        digest.as_str()
    );
    assert_eq!(examined.get("/v1/status").json_of(200)["party"], "alice");
    let sent = examined.get(&at("/plan"));
    assert_eq!(
        format!("{:x}", Sha256::digest(&sent.body)),
        digest,
        "the plan comes back byte for byte"
    );
    for what in ["/result", "/receipt", "/receipt.sig"] {
        examined.get(&at(what)).refused(409, "");
    }
    assert!(
        examined
            .get("/metrics")
            .text()
            .contains("\nundertone_runs_submitted_total 1\n")
    );

    // A watcher sees it gather, and is let go when it is withdrawn.
    let http = examined.daemon.http.clone();
    let gathering = http.events(&at("/events"), &[], |event| event["phase"] == "gathering");
    let (last, _, _) = gathering.last().cloned().expect("an event");
    let path = at("/events");
    let watcher =
        std::thread::spawn(move || http.events(&path, &[("Last-Event-ID", &last.to_string())], |_| false));
    let withdrawn = examined.ask("DELETE", &at(""), &[], &[]).json_of(200);
    assert_eq!(withdrawn["state"], "withdrawn", "{withdrawn}");
    let rest = watcher.join().expect("the stream ends with the run");
    assert!(
        rest.iter().all(|(id, _, _)| *id > last),
        "only what came after: {rest:?}"
    );
    for (_, name, event) in gathering.iter().chain(&rest) {
        assert_eq!(event["event"], name.as_str());
        examined
            .document
            .validate("/components/schemas/Event", event, "an event");
    }
    examined.ask("DELETE", &at(""), &[], &[]).refused(409, "");
    examined.get(&at("/result")).refused(404, "no mean");
    examined
        .ask("GET", &at("/events"), &[("Last-Event-ID", "yesterday")], &[])
        .refused(400, "Last-Event-ID");
    examined.end_clean();
}

impl Examined {
    /// Ends the daemon: in time, and with no trace of what was brought to it in any answer or line of its log.
    fn end_clean(self) {
        let http: Http = self.daemon.http.clone();
        let ids: Vec<String> = http.get("/v1/runs").json_of(200)["runs"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Value::to_string)
            .collect();
        // Who never ends a request holds nobody up.
        let mut unfinished =
            UnixStream::connect(http.address.trim_start_matches("unix:")).expect("it listens");
        unfinished
            .write_all(b"GET /v1/status HTTP/1.1\r\nHost: ")
            .expect("it reads");
        let (ended, took) = self.daemon.end();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert!(took < Duration::from_secs(30), "it took {took:?} to end");
        let token = http.token.expect("a token");
        let marks = ["27182818", token.as_str()];
        let answers = self
            .answers
            .iter()
            .map(|reply| (format!("{} {}", reply.method, reply.path), reply.text()));
        let logs = [
            ("log".to_owned(), ended.stderr),
            ("output".to_owned(), ended.stdout),
        ];
        for (what, text) in answers.chain(logs) {
            for mark in marks {
                assert!(!text.contains(mark), "{what} has {mark}; runs: {ids:?}\n{text}");
            }
        }
    }
}

/// Four daemons, and the vectors that their parties bring.
fn cluster(parties: &Parties, configuration: &str) -> (Vec<Daemon>, Vec<Vec<f64>>) {
    let inputs = parties.write_inputs(&[8]);
    let daemons = (0..parties.names().len())
        .map(|party| Daemon::start(parties, party, configuration))
        .collect();
    (daemons, inputs)
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
        // The same over HTTP, held against the document.
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
            *means.last().expect("a mean")
        );
        let csv = daemon.http.ask(
            "GET",
            &format!("/v1/runs/{digest}/result"),
            &[("Accept", "text/csv")],
            &[],
        );
        document.check(&csv);
        csv.refused(406, "application/x-npy");
        let receipt = parties.path(&receipt);
        assert_eq!(
            bytes(&receipt),
            daemon.http.get(&format!("/v1/runs/{digest}/receipt")).body
        );
        is_signed(&receipt, &id_of(&parties, &daemon.name));
        // A run that is over can be watched again, and not withdrawn.
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
        daemon.client(["withdraw", &digest]).refused(2, "");
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
fn what_policy_and_budget_forbid_is_403() {
    let _alone = alone();
    let parties = Parties::new(4);
    let ward = "[policy]\nmax_epsilon = 1.5\n[[data_set]]\nname = \"ward\"\nfile = \"ward.npy\"\nepsilon = 0.5\ndelta = 1e-6\n";
    let mut examined = Examined::start(&parties, &format!("{LIMITS}{ward}"));
    write_npy(&parties.path("alice.data/ward.npy"), &[8], &[MARK; 8]);
    parties.plan("dear", &RUN.replace("epsilon = 1.0", "epsilon = 2.0"));
    parties.plan("plan", RUN);
    for (plan, exit, kind) in [("dear", 3, "policy"), ("plan", 6, "budget")] {
        let plan = bytes(&parties.path(&format!("{plan}.json")));
        let parts: [(&str, Option<&str>, &[u8]); 2] =
            [("plan", Some("plan.json"), &plan), ("data_set", None, b"ward")];
        let problem = examined.post("/v1/runs", &parts).refused(403, "");
        assert_eq!(
            (&problem["type"], &problem["exit_code"]),
            (&format!("urn:undertone:problem:{kind}").into(), &exit.into())
        );
    }
    // The same through a proposal: the plan is made, and not offered to anybody.
    let run = RUN.replace("epsilon = 1.0", "epsilon = 2.0");
    let parts: [(&str, Option<&str>, &[u8]); 2] = [
        ("run", Some("run.toml"), run.as_bytes()),
        ("data_set", None, b"ward"),
    ];
    examined.post("/v1/offers", &parts).refused(403, "");
    assert_eq!(examined.get("/v1/runs").json_of(200), json!({ "runs": [] }));
    assert_eq!(
        examined.get("/v1/status").json()["budgets"][0]["epsilon_spent"],
        0.0
    );
    examined.end_clean();
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
    let direct = parties.run(["status", "--api", &socket, "--token-file", &token, "--json"]);
    assert_eq!(direct.json_of(0)["party"], "alice");
    let text = parties.run(["status", "--config", &file]);
    assert!(text.code == 0 && text.stdout.contains("bob"), "{}", text.stdout);
    parties.write("other.token", "0123456789abcdef0123456789abcdef\n");
    parties
        .run([
            "status",
            "--api",
            &socket,
            "--token-file",
            "other.token",
            "--json",
        ])
        .refused(2, "others can read it");
    set_mode(&parties.path("other.token"), 0o600);
    parties
        .run([
            "status",
            "--api",
            &socket,
            "--token-file",
            "other.token",
            "--json",
        ])
        .refused(2, "Authorization");
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

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("ours");
}

/// `cargo test --release -p undertone-tests --test daemon_api -- --ignored --nocapture under_way`: prints what 200 requests under way cost a run.
#[test]
#[ignore = "a measurement"]
fn with_200_requests_under_way_a_run_takes_at_most_half_as_long_again() {
    let _alone = alone();
    let parties = Parties::new(4);
    const SHAPE: usize = 100_000;
    let run = RUN.replace("[8]", &format!("[{SHAPE}]"));
    parties.write_inputs(&[SHAPE]);
    let daemons: Vec<Daemon> = (0..4).map(|party| Daemon::start(&parties, party, "")).collect();
    let take_part = |name: &str| {
        let digest = parties.plan(name, &run.replace("api", name));
        for daemon in &daemons {
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
    };
    let under_requests = |name: &str| {
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
            let took = catch_unwind(AssertUnwindSafe(|| take_part(name)));
            done.store(true, Ordering::Relaxed);
            took.unwrap_or_else(|panic| resume_unwind(panic))
        });
        println!(
            "{:.0} answers a second",
            answered.into_inner() as f64 / begun.elapsed().as_secs_f64()
        );
        took
    };
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
