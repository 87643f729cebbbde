//! Known inputs, from which others are made.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Runtime;
use undertone::daemon::api::feed::Feed;
use undertone::daemon::config::{Config, NodeArgs};
use undertone::daemon::service::Service;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::messages::signature::Signature;
use undertone_protocol::messages::stage::Stage;
use undertone_protocol::messages::wire::{self, asks};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_tests::daemon::Daemon;
use undertone_tests::recorded::Recording;
use undertone_tests::{Parties, simulated};

const TIMES: &str = "round_ms = 200\nsettle_ms = 1600\njoin_ms = 2000";

fn plan_of(lines: &str) -> Arc<Plan> {
    simulated::plan(5, 4, &format!("{lines}[run]\n{TIMES}"))
}

fn some_plans() -> Vec<Arc<Plan>> {
    let kinds = [
        "",
        "[mechanism]\nkind = \"ppsc\"\n",
        "[mechanism]\nkind = \"pairwise\"\n",
    ];
    let averaged = format!(
        "[topology]\npublic = \"ring\"\n[mechanism]\nrounds = 5\n[run]\ndissemination = \"consensus\"\nsealed = false\n{TIMES}"
    );
    let averaged = simulated::plan(8, 4, &averaged);
    let sliced = format!("[mechanism]\nkind = \"pairwise\"\n[run]\ndissemination = \"slices\"\n{TIMES}");
    let sliced = simulated::plan(5, 4, &sliced);
    kinds.into_iter().map(plan_of).chain([averaged, sliced]).collect()
}

/// The different frames of real runs on one graph.
fn frames(network: Network) -> Vec<Vec<u8>> {
    let mut frames = vec![];
    for plan in some_plans() {
        let recorded = Recording::of(&plan, 3, None).frames;
        let wanted = recorded.into_iter().filter(|frame| frame.network == network);
        frames.extend(wanted.map(|frame| frame.bytes.to_vec()));
    }
    frames.sort_unstable();
    frames.dedup();
    // Many differ in their signatures only.
    let step = frames.len().div_ceil(300);
    frames.into_iter().step_by(step).collect()
}

pub(crate) fn public_frames() -> Vec<Vec<u8>> {
    frames(Network::Public)
}

pub(crate) fn private_frames() -> Vec<Vec<u8>> {
    frames(Network::Private)
}

/// A plan, and the logs of a run of it.
pub(crate) fn logs() -> (Arc<Plan>, Vec<Vec<u8>>) {
    let plan = plan_of("");
    let frames = Recording::of(&plan, 3, None).frames;
    let logs = frames
        .iter()
        .filter_map(|frame| match wire::read_public(&frame.bytes).ok()?.item()? {
            (Stage::Settling, _, bytes) => Some(frame.bytes[bytes].to_vec()),
            _ => None,
        });
    let logs = logs.collect();
    (plan, logs)
}

pub(crate) fn questions() -> Vec<Vec<u8>> {
    let signature = Signature([7; 64]);
    let asked = [
        Question::Check { digest: None },
        Question::Check {
            digest: Some([9; 32]),
        },
        Question::Echo,
        Question::Offer,
        Question::Keys { held: [9; 32] },
    ];
    let asked = asked
        .iter()
        .map(|question| asks::question_frame([1; 16], signature, question, b"payload"));
    let replies = [
        Reply::Taken,
        Reply::Echoed,
        Reply::Refused {
            reason: "not today".into(),
        },
    ];
    let replies = replies
        .iter()
        .map(|reply| asks::reply_frame([1; 16], signature, reply, b""));
    asked.chain(replies).collect()
}

pub(crate) fn plans() -> Vec<Vec<u8>> {
    some_plans()
        .iter()
        .map(|plan| plan.to_json().as_bytes().to_vec())
        .collect()
}

/// A run file of a training for six parties.
const TRAINING: &str = "version = 1\ntask = \"regression\"\nname = \"fit\"\n[data]\nshape = [3]\ncolumns = [\"a\", \"b\", \"kind\"]\nclip = { kind = \"box\", low = [0, 1, 0], high = [5, 9, 2] }\n[model]\nloss = \"softmax\"\nclasses = 3\ntarget = \"kind\"\niterations = 20\n";

/// A model of that, as `predict` reads it, one with bounds in the wrong order (which was a panic),
/// and one of no class at all.
pub(crate) fn models() -> Vec<Vec<u8>> {
    let run = RunFile::parse(TRAINING, 6).unwrap_or_else(|e| panic!("{e}"));
    let mut model = json!({
        "version": 1, "digest": "aa", "epsilon": 0.5, "delta": 1e-6, "iterations": 20,
        "model": run.computation.model(), "weights": [[0.5, -1.0, 2.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.25]],
    });
    let whole = model.to_string().into_bytes();
    let low = model["model"]
        .as_object_mut()
        .and_then(|model| model.get_mut("bounds"));
    let low = low.expect("it has bounds");
    low["low"][0] = json!(110.0);
    let disordered = model.to_string().into_bytes();
    (model["model"]["classes"], model["weights"]) = (json!(0), json!([]));
    vec![whole, disordered, model.to_string().into_bytes()]
}

pub(crate) fn run_files() -> Vec<Vec<u8>> {
    let files = [
        TRAINING,
        "version = 1\ntask = \"rounds\"\n[data]\nshape = [1]\nunit = \"record\"\nreleases = 20\nclip = { kind = \"box\", low = -1, high = 1 }\n",
        "version = 1\ntask = \"mean\"\nname = \"x\"\n[data]\nshape = [4, 5]\nclip = { kind = \"box\", low = -1, high = 2 }\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\ncolluding = 2\ndropouts = 1\n",
        "version = 1\n[data]\nshape = [3]\nunit = \"record\"\ncolumns = [\"a\", \"b\", \"c\"]\n[mechanism]\nkind = \"ppsc\"\nrounds = 6\n[run]\njoin_ms = 60000\nsealed = false\n",
        "version = 1\n[topology]\nprivate = { kind = \"random-regular\", degree = 4 }\npublic = \"ring\"\n[mechanism]\nkind = \"inca\"\nfanout = 2\n[run]\ndissemination = \"consensus\"\nmin_parties = 4\n",
    ];
    files.map(|file| file.as_bytes().to_vec()).to_vec()
}

pub(crate) fn peer_lists() -> Vec<Vec<u8>> {
    vec![Parties::new(3).peer_list().into_bytes()]
}

pub(crate) fn folder() -> tempfile::TempDir {
    // In memory, where there is such a place: millions of files are written.
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).expect("a folder")
    } else {
        tempfile::tempdir().expect("a folder")
    }
}

/// A ledger with charges, and the marks beside the key, as the daemon writes them.
pub(crate) fn ledgers() -> [Vec<Vec<u8>>; 2] {
    use undertone::daemon::ledger::Ledger;
    use undertone::daemon::ledger::account::Protected;
    use undertone_accountant::losses::charge::Charge;
    use undertone_protocol::plan::run_file::settings::{Adjacency, Unit};
    let folder = folder();
    let marks = undertone::party::spent::marks_of(&folder.path().join("a.key"), "alice");
    let mut ledger = Ledger::open(folder.path(), marks.expect("none yet")).expect("a new one");
    let charge = |mu_squared: f64| Charge {
        mu_squared,
        draw: 1e-9,
        distance: 1e-11,
    };
    let [first, second, third] = ["a", "b", "c"].map(|digit| digit.repeat(64));
    for digest in [&first, &second, &third] {
        let of = Protected {
            data_set: "ward".into(),
            unit: Unit::Party,
            adjacency: Adjacency::ReplaceOne,
        };
        ledger
            .reserve(digest, of, charge(0.25), vec![])
            .expect("there is no limit");
    }
    for digest in [&first, &second] {
        let charged = ledger.charge_part(digest, charge(0.2));
        charged.expect("it was reserved");
    }
    ledger.raise(&first, charge(0.5)).expect("it was charged");
    ledger.settle(&second, charge(0.1)).expect("it was charged");
    ledger.reveal(&third).expect("there is room");
    ["ledger", "a.key.spent/marks"]
        .map(|name| vec![std::fs::read(folder.path().join(name)).expect("it is there")])
}

pub(crate) fn vector_files(extension: &str) -> Vec<Vec<u8>> {
    let folder = folder();
    let path = folder.path().join(format!("x.{extension}"));
    match extension {
        "npy" => undertone_tests::write_npy(&path, &[2, 3], &[1.0, -2.0, 3.5, 0.0, 1e300, 7.0]),
        "csv" => return vec![b"a,b,c\n1,2,3\n4,5e-3,-6\n".to_vec(), b"1\n2\n3\n".to_vec()],
        "json" => return vec![b"[[1, 2, 3], [4.5, -6e7, 0]]".to_vec(), b"7".to_vec()],
        _ => {
            let header = br#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[1,2],"data_offsets":[8,12]}}"#;
            let length = (header.len() as u64).to_le_bytes();
            return vec![[&length[..], header, &[0, 0, 128, 63, 0, 0, 0, 64, 0, 60, 0, 64]].concat()];
        }
    }
    vec![std::fs::read(path).expect("it is there")]
}

/// A daemon whose API takes anything.
pub(crate) struct Listening {
    daemon: Daemon,
    pub(crate) socket: PathBuf,
    _parties: Parties,
}

impl Listening {
    /// It still answers, and takes no more memory than a daemon does.
    pub(crate) fn is_well(&self) {
        assert_eq!(self.daemon.http.get("/v1/status").status, 200);
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.daemon.pid())).unwrap_or_default();
        let peak = status.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        });
        assert!(peak.is_none_or(|kib| kib < 256 << 10), "{peak:?} KiB");
    }
}

pub(crate) fn daemon() -> Listening {
    let parties = Parties::new(3);
    let daemon = Daemon::start(&parties, 0, "");
    Listening {
        socket: parties.path("alice.state/api.sock"),
        daemon,
        _parties: parties,
    }
}

/// An API in this process, and what it stands on.
pub(crate) struct Served {
    pub(crate) runtime: Runtime,
    pub(crate) feed: Feed,
    parties: Parties,
}

impl Served {
    pub(crate) fn start() -> Self {
        let parties = Parties::new(3);
        let file = parties.path(&Daemon::configure(&parties, 0, ""));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let config = Config::load(&NodeArgs {
            config: Some(file),
            ..NodeArgs::default()
        })
        .expect("a configuration");
        let feed = runtime.block_on(async { Feed::of(Service::start(config).await?) });
        Served {
            runtime,
            feed: feed.expect("an API"),
            parties,
        }
    }

    /// The token that lets requests in.
    pub(crate) fn token(&self) -> String {
        let token = std::fs::read_to_string(self.parties.path("alice.state/api.token"));
        token.expect("the API made its token").trim_end().to_owned()
    }
}

/// Requests of all kinds, with a token.
pub(crate) fn requests(token: &str) -> Vec<Vec<u8>> {
    let digest = "0".repeat(64);
    let head = format!("Host: x\r\nAuthorization: Bearer {token}\r\n");
    let (plan, table) = ("{\"version\": 1, \"members\": []}", "1,2\n");
    let round = "\u{93}NUMPY\u{1}";
    let requests = [
        "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        format!("GET /v1/status HTTP/1.1\r\n{head}\r\nGET /v1/runs?limit=3 HTTP/1.1\r\n{head}\r\n"),
        format!("GET /metrics HTTP/1.1\r\n{head}Accept: application/openmetrics-text\r\n\r\n"),
        format!(
            "POST /v1/plans HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{plan}",
            plan.len()
        ),
        format!(
            "PUT /v1/runs/{digest}?data_set=a%20b HTTP/1.1\r\n{head}Content-Type: text/csv\r\nContent-Length: {}\r\n\r\n{table}",
            table.len()
        ),
        format!(
            "POST /v1/plans HTTP/1.1\r\n{head}Content-Type: application/toml\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx = 1\r\n0\r\n\r\n"
        ),
        format!("GET /v1/runs/{digest}/result HTTP/1.1\r\n{head}Accept: text/csv;q=0.5, */*;q=0.1\r\n\r\n"),
        format!(
            "POST /v1/runs/{digest}/rounds/1 HTTP/1.1\r\n{head}Content-Type: application/x-npy\r\nContent-Length: {}\r\n\r\n{round}",
            round.len()
        ),
        format!("GET /v1/runs/{digest}/events HTTP/1.1\r\n{head}Last-Event-ID: 7\r\n\r\n"),
        format!(
            "POST /v1/offers/{digest}/accept?data_file=x.npy HTTP/1.1\r\n{head}Content-Length: 0\r\n\r\n"
        ),
        format!("PUT /v1/offers/{digest} HTTP/1.1\r\n{head}Content-Length: 0\r\n\r\n"),
        format!(
            "DELETE /v1/offers/00 HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        ),
    ];
    requests.map(String::into_bytes).to_vec()
}
