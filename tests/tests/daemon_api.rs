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

/// A vector with its media type.
type Vector<'a> = (&'a str, &'a [u8]);
const NPY: &str = "application/x-npy";

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
    fn hand_in(&mut self, media_type: &str, body: &[u8]) -> Reply {
        let reply = self.daemon.http.hand_in(media_type, body);
        self.keep(reply)
    }

    /// Takes part in a plan that was handed in, at this query.
    #[track_caller]
    fn put(&mut self, place: &str, vector: Option<Vector>) -> Reply {
        let reply = self.daemon.http.bring("PUT", place, vector);
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

/// A monitor's token: it reads what has no value of a mean, and changes nothing.
#[test]
fn token_that_may_only_read_reads_no_mean_and_changes_nothing() {
    let _alone = alone();
    let parties = Parties::new(4);
    let limits = LIMITS.replacen("[api]\n", "[api]\nread_token = \"read.token\"\n", 1);
    assert_ne!(limits, LIMITS);
    let mut examined = Examined::start(&parties, &limits);
    let path = parties.path("read.token");
    let token = std::fs::read_to_string(&path).expect("the daemon made it");
    let reader = examined.daemon.http.with_token(Some(token.trim_end()));
    let readable = [
        "/metrics",
        "/v1/openapi.json",
        "/v1/status",
        "/v1/runs",
        "/v1/runs/{digest}",
        "/v1/runs/{digest}/plan",
        "/v1/runs/{digest}/receipt",
        "/v1/runs/{digest}/receipt.sig",
        "/v1/offers",
        "/v1/offers/{digest}",
        "/v1/offers/{digest}/plan",
        "/v1/schedules",
        "/v1/keys",
    ];
    let open = ["/", "/healthz", "/readyz"];
    let (mut read, mut refused) = (0, 0);
    for (path, method) in examined.document.operations() {
        let place = path.replace("{digest}", &nobody()).replace("{round}", "1");
        let reply = examined.keep(reader.ask(&method.to_uppercase(), &place, &[], &[]));
        if method == "get" && readable.contains(&path.as_str()) {
            assert!(
                [200, 404].contains(&reply.status),
                "{method} {path}: {}",
                reply.text()
            );
            read += 1;
        } else if !open.contains(&path.as_str()) {
            reply.refused(403, "nothing else");
            refused += 1;
        }
    }
    assert_eq!((read, refused), (readable.len(), 13));
    reader.get("/v1/secrets").refused(403, "nothing else");
    let (ended, _) = examined.daemon.end();
    assert!(!ended.stderr.contains(token.trim_end()), "the token was printed");
}

#[test]
fn what_makes_no_sense_is_refused_by_name_and_the_daemon_goes_on() {
    let _alone = alone();
    let parties = Parties::new(4);
    let digest = parties.plan("plan", RUN);
    let mut examined = Examined::start(&parties, LIMITS);
    let plan = bytes(&parties.path("plan.json"));
    let vector = npy(&parties, "vector.npy", &[MARK; 8]);
    wrong_paths(&mut examined, &digest, (NPY, &vector));
    wrong_plans(&mut examined, &plan);
    wrong_proposals(&mut examined);
    assert_eq!(
        examined.hand_in("application/json", &plan).json_of(201)["digest"],
        digest
    );
    let place = format!("/v1/runs/{digest}");
    wrong_requests(&mut examined, &place, (NPY, &vector));
    too_long_bodies(&mut examined, &place);
    wrong_vectors(&mut examined, &parties, &place, &vector);
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
fn wrong_paths(examined: &mut Examined, digest: &str, vector: Vector) {
    for (path, method) in examined.document.operations() {
        if path.contains("{digest}") && !["post", "put"].contains(&method.as_str()) {
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
    for (method, place) in [
        ("POST", "offers/DIGEST/accept"),
        ("PUT", "offers/DIGEST"),
        ("PUT", "runs/DIGEST"),
    ] {
        let place = format!("/v1/{}", place.replace("DIGEST", &nobody()));
        let reply = examined.daemon.http.bring(method, &place, Some(vector));
        examined.keep(reply).refused(404, "digest");
    }
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

/// Bodies of no format that is known, and queries with too much, or too little.
fn wrong_requests(examined: &mut Examined, place: &str, vector: Vector) {
    let at = |query: &str| format!("{place}?{query}");
    for media_type in [
        "text/plain",
        "multipart/form-data; boundary=b",
        "application/x-npy2",
        "",
    ] {
        examined
            .put(place, Some((media_type, vector.1)))
            .refused(415, "application/x-npy");
    }
    examined
        .ask("PUT", place, &[], vector.1)
        .refused(415, "Content-Type");
    examined.put(place, None).refused(400, "data_set");
    examined
        .put(&at("data_file=x.npy"), Some(vector))
        .refused(400, "both");
    examined
        .put(&at("secret=x"), Some(vector))
        .refused(400, "parameters: data_file");
    examined
        .put(&at("data_set=a&data_set=b"), Some(vector))
        .refused(400, "two parameters");
    for set in ["absent", "%ff", &"x".repeat(5000)] {
        examined
            .put(&at(&format!("data_set={set}")), None)
            .refused(400, "data_set");
    }
    for file in [
        "absent.npy",
        "../alice.key",
        "/etc/passwd",
        "..%2Falice.key",
        "%00",
        "",
    ] {
        let reply = examined.put(&at(&format!("data_file={file}")), None);
        assert!((400..500).contains(&reply.status), "{file}: {}", reply.text());
    }
}

/// Bodies above the limit, said beforehand or found out on the way.
fn too_long_bodies(examined: &mut Examined, place: &str) {
    let long = vec![b' '; 2 << 20];
    examined
        .put(place, Some(("text/csv", &long)))
        .refused(413, "max_body_bytes");
    examined
        .hand_in("application/json", &long)
        .refused(413, "max_body_bytes");
    let chunked = [("Content-Type", "text/csv"), ("Transfer-Encoding", "chunked")];
    let mut pieces = b"1\r\n ".to_vec();
    for _ in 0..32 {
        pieces.extend(b"\r\n10000\r\n");
        pieces.extend_from_slice(&long[..1 << 16]);
    }
    pieces.extend(b"\r\n0\r\n\r\n");
    examined
        .ask("PUT", place, &chunked, &pieces)
        .refused(413, "max_body_bytes");
}

/// Plans that are cut, or that somebody touched, or of another format.
fn wrong_plans(examined: &mut Examined, plan: &[u8]) {
    let text = String::from_utf8_lossy(plan).into_owned();
    let looser = text.replacen("\"epsilon\": 1.0", "\"epsilon\": 0.5", 1);
    assert_ne!(text, looser);
    for bad in ["", "{}", &text[..text.len() / 2], &looser] {
        let problem = examined
            .hand_in("application/json", bad.as_bytes())
            .refused(422, "");
        assert_eq!(
            (&problem["type"], &problem["exit_code"]),
            (&"urn:undertone:problem:plan-refused".into(), &3.into())
        );
    }
    for media_type in ["text/csv", "multipart/form-data; boundary=b"] {
        examined
            .hand_in(media_type, plan)
            .refused(415, "application/toml");
    }
    examined
        .ask("POST", "/v1/plans", &[], plan)
        .refused(415, "Content-Type");
}

/// Vectors of another shape, or cut, or of no numbers.
fn wrong_vectors(examined: &mut Examined, parties: &Parties, place: &str, vector: &[u8]) {
    let wider = npy(parties, "wide.npy", &[MARK; 9]);
    let strange = npy(parties, "nan.npy", &[f64::NAN; 8]);
    for (media_type, bad, about) in [
        (NPY, wider.as_slice(), "shape"),
        (NPY, &strange, "not a number"),
        (NPY, &vector[..100], "truncated"),
        ("text/csv", b"", "empty"),
    ] {
        let problem = examined.put(place, Some((media_type, bad))).refused(422, about);
        assert_eq!(
            (&problem["type"], &problem["exit_code"], &problem["field"]),
            (
                &"urn:undertone:problem:input-unusable".into(),
                &7.into(),
                &"vector".into()
            )
        );
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|text| text.contains("the vector: ") && !text.contains("alice.state")),
            "{problem}"
        );
    }
}

/// Run files that make no sense.
fn wrong_proposals(examined: &mut Examined) {
    for (media_type, body) in [
        ("application/toml", "version = 1\nnonsense = 1\n"),
        ("text/plain; charset=utf-8", "="),
    ] {
        examined.hand_in(media_type, body.as_bytes()).refused(400, "line");
    }
    examined
        .hand_in("application/toml", b"\xff")
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
    let place = format!("/v1/runs/{digest}");
    assert_eq!(
        examined.hand_in("application/json", &plan).json_of(201)["quote"],
        Value::Null
    );
    let taken = examined.put(&place, Some((NPY, &vector)));
    assert_eq!(taken.header("location"), Some(place.as_str()));
    assert_eq!(taken.json_of(201)["digest"], digest.as_str());
    examined.put(&place, Some((NPY, &vector))).refused(409, "");
    examined.hand_in("application/json", &plan).refused(409, "");
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
    let forbidden = |reply: Reply, exit: u32, kind: &str| {
        let problem = reply.refused(403, "");
        let kind = format!("urn:undertone:problem:{kind}");
        assert_eq!(
            (&problem["type"], &problem["exit_code"]),
            (&kind.into(), &exit.into())
        );
    };
    let [dear, plan] = ["dear.json", "plan.json"].map(|name| bytes(&parties.path(name)));
    forbidden(examined.hand_in("application/json", &dear), 3, "policy");
    let place = |plan: Reply, of: &str| {
        let digest = plan.json_of(201)["digest"].as_str().expect("a digest").to_owned();
        format!("/v1/{of}/{digest}")
    };
    let run = place(examined.hand_in("application/json", &plan), "runs");
    // What is refused stays handed in.
    for _ in 0..2 {
        forbidden(examined.put(&format!("{run}?data_set=ward"), None), 6, "budget");
    }
    // The same through a proposal: the plan is made, and not offered to anybody.
    let dear = RUN.replace("epsilon = 1.0", "epsilon = 2.0");
    let offer = place(examined.hand_in("application/toml", dear.as_bytes()), "offers");
    forbidden(examined.put(&format!("{offer}?data_set=ward"), None), 3, "policy");
    examined.get(&offer).refused(404, "digest");
    // Without a vector it is offered, once, and remains this node's to accept or to decline.
    let offered = examined.put(&offer, None).json_of(201);
    assert_eq!(
        (
            &offered["run"],
            offered["members"].as_object().map(|all| all.len())
        ),
        (&Value::Null, Some(3))
    );
    examined.put(&offer, None).refused(409, "accept");
    assert_eq!(examined.get(&offer).json_of(200)["proposer"], "alice");
    assert_eq!(examined.get("/v1/runs").json_of(200), json!({ "runs": [] }));
    assert_eq!(
        examined.get("/v1/status").json()["budgets"][0]["epsilon_spent"],
        0.0
    );
    examined.end_clean();
}
