//! The daemon's HTTP API from outside: what it answers is what its OpenAPI document says, nobody
//! without the token gets anything, nothing that is sent to it stops it, and a vector that was
//! brought to it shows up nowhere but in a mean.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use undertone_tests::daemon::Daemon;
use undertone_tests::http::{Http, Reply};
use undertone_tests::openapi::Document;
use undertone_tests::{Parties, alone, write_npy};

/// Four parties whose gathering lasts until somebody ends it.
const RUN: &str = "version = 1\ntask = \"mean\"\nname = \"api\"\n[data]\nnoise_ok = true\nshape = [8]\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[run]\njoin_ms = 60000\n";

/// Small enough that a test can be over it.
const LIMITS: &str = "[api]\nmax_body_bytes = 1048576\n";

/// A coordinate that is in no log, error or answer.
const MARK: f64 = 0.271_828_182_845;

/// A part of a form: its name, its file's name, its bytes.
type Part<'a> = (&'a str, Option<&'a str>, &'a [u8]);

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
    let last = if right.ends_with('0') { '1' } else { '0' };
    let near = format!("{}{last}", &right[..right.len() - 1]);
    let wrong = [None, Some("x"), Some(near.as_str())].map(|token| examined.daemon.http.with_token(token));
    for (path, method) in &operations {
        let path = path.replace("{digest}", &nobody()).replace("{round}", "1");
        for stranger in &wrong {
            let reply = examined.keep(stranger.ask(&method.to_uppercase(), &path, &[], &[]));
            if ["/", "/healthz", "/readyz"].contains(&path.as_str()) {
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
    wrong_paths(&mut examined, &digest, vector);
    wrong_forms(&mut examined);
    wrong_parts(&mut examined, plan, vector);
    too_long_bodies(&mut examined, plan);
    wrong_plans(&mut examined, plan, vector);
    wrong_vectors(&mut examined, &parties, plan, vector);
    wrong_proposals(&mut examined);
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

/// Runs and offers that nobody knows, and paths that are none.
fn wrong_paths(examined: &mut Examined, digest: &str, vector: Part) {
    for (path, method) in examined.document.operations() {
        if path.contains("{digest}") && method != "post" {
            examined
                .ask(
                    &method.to_uppercase(),
                    &path.replace("{digest}", &nobody()).replace("{round}", "1"),
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
}

const FORM: &str = "multipart/form-data; boundary=b";

/// Bodies that are no form.
fn wrong_forms(examined: &mut Examined) {
    for (media_type, body, status, about) in [
        ("application/json", "{}", 415, "Content-Type"),
        ("multipart/form-data", "", 415, "boundary"),
        (FORM, "", 400, "multipart"),
        (
            FORM,
            "--b\r\nContent-Disposition: form-data; name=\"plan\"\r\n\r\n{}",
            400,
            "multipart",
        ),
        (FORM, "--b\r\nno header\r\n\r\n--b--\r\n", 400, "multipart"),
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
}

/// Forms with parts too few, too many or unknown.
fn wrong_parts(examined: &mut Examined, plan: Part, vector: Part) {
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
}

/// Bodies above the limit, said beforehand or found out on the way.
fn too_long_bodies(examined: &mut Examined, plan: Part) {
    let long = vec![b' '; 2 << 20];
    examined
        .post("/v1/runs", &[plan, ("vector", Some("x.csv"), &long)])
        .refused(413, "max_body_bytes");
    let chunked = [("Content-Type", FORM), ("Transfer-Encoding", "chunked")];
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
}

/// Plans that are cut, or that somebody touched.
fn wrong_plans(examined: &mut Examined, plan: Part, vector: Part) {
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
}

/// Vectors of another shape, and files that are none or not for this daemon.
fn wrong_vectors(examined: &mut Examined, parties: &Parties, plan: Part, vector: Part) {
    let wider = npy(parties, "wide.npy", &[MARK; 9]);
    let strange = npy(parties, "nan.npy", &[f64::NAN; 8]);
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
}

/// Run files that make no sense.
fn wrong_proposals(examined: &mut Examined) {
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
    /// Ends the daemon: in time, and with no trace of what was brought to it in any answer or line
    /// of its log.
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
