//! Recorded samples, compared to the byte: plans, what runs say, and receipts. What differs is
//! written beside the build, to be copied to `tests/samples/` if the change is meant.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use undertone::party::driver::Finish;
use undertone::party::receipt::Account;
use undertone_accountant::gate::decision::gate;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::simulated_keypair;
use undertone_protocol::run::outcome::Outcome;
use undertone_tests::plans::calibrated;
use undertone_tests::recorded::{Kill, Recording};

/// Compares a sample with what was recorded.
#[track_caller]
fn assert_recorded(name: &str, found: &[u8]) {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let recorded = fs::read(samples.join(name)).unwrap_or_default();
    if recorded == found {
        return;
    }
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("samples");
    fs::create_dir_all(&beside).expect("a folder for what differs");
    fs::write(beside.join(name), found).expect("writable");
    let first = recorded.iter().zip(found).take_while(|(a, b)| a == b).count();
    panic!(
        "{name} differs from its sample from byte {first} on ({} bytes, recorded {}); see {}",
        found.len(),
        recorded.len(),
        beside.join(name).display()
    );
}

/// A plan of simulated parties with a given nonce; `records`: how many rows each contributes.
fn plan(parties: usize, text: &str, records: Option<u64>) -> Arc<Plan> {
    let text = format!("name = \"sample\"\n{text}");
    calibrated(&text, parties, records)
}

/// The papers' noise, which the samples are of.
const GAUSSIAN: &str = "[mechanism]\ncorrelated = \"gaussian\"\n";

const TIMES: &str = "round_ms = 200\nsettle_ms = 1600\njoin_ms = 2000";

fn inca() -> Arc<Plan> {
    plan(6, &format!("[data]\nshape = [4]\n{GAUSSIAN}[run]\n{TIMES}"), None)
}

fn ppsc() -> Arc<Plan> {
    let text = format!("[data]\nshape = [4]\n{GAUSSIAN}kind = \"ppsc\"\n[run]\n{TIMES}");
    plan(6, &text, None)
}

fn consensus() -> Arc<Plan> {
    let text = format!(
        "[data]\nshape = [8]\n[topology]\npublic = \"ring\"\n[mechanism]\nrounds = 5\n\
         [run]\ndissemination = \"consensus\"\n{TIMES}"
    );
    plan(8, &text, None)
}

fn static_coalitions() -> Arc<Plan> {
    let text = format!("[data]\nshape = [3]\n[privacy]\ncoalitions = \"static\"\n[run]\n{TIMES}");
    plan(6, &text, None)
}

fn records_in_a_box() -> Arc<Plan> {
    let text = "[data]\nshape = [3]\nunit = \"record\"\n\
                clip = { kind = \"box\", low = [-1, 0, 40], high = [1, 1, 500] }\n\
                [privacy]\nepsilon = 20.0\ndelta = 0.01\n[mechanism]\ncorrelated = \"gaussian\"\nrounds = 4\n\
                [run]\ngrace_ms = 2000\n";
    plan(4, text, Some(300))
}

#[test]
fn plans_are_what_they_were() {
    let samples = [
        ("plan-inca.json", inca()),
        ("plan-ppsc.json", ppsc()),
        ("plan-consensus.json", consensus()),
        ("plan-static.json", static_coalitions()),
        ("plan-records.json", records_in_a_box()),
    ];
    for (name, plan) in samples {
        assert_recorded(name, plan.to_json().as_ref());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// How many frames there were, their SHA-256 in order with whom they went to, the first of each
/// kind in full, and how the run ended for each.
fn reported(recording: &Recording) -> String {
    let mut hash = Sha256::new();
    let mut firsts = String::new();
    let mut kinds = vec![];
    for frame in &recording.frames {
        let network = if frame.network == Network::Private {
            "private"
        } else {
            "public"
        };
        let way = format!("{network} {} to {}", frame.from, frame.to);
        hash.update(&way);
        hash.update((frame.bytes.len() as u64).to_le_bytes());
        hash.update(&frame.bytes);
        // The second byte is the frame's kind; notices of one length are mostly of one kind.
        let kind = (network, frame.bytes[1], frame.bytes.len());
        if kinds.len() < 8 && !kinds.contains(&kind) {
            kinds.push(kind);
            let _ = writeln!(firsts, "{way}: {}", hex(&frame.bytes));
        }
    }
    let mut text = format!(
        "{} frames, SHA-256 {}\n{firsts}",
        recording.frames.len(),
        hex(&hash.finalize())
    );
    for (party, outcome) in recording.outcomes.iter().enumerate() {
        let _ = match outcome {
            None => writeln!(text, "party {party} was killed"),
            Some(outcome) => writeln!(text, "party {party} {}", ended(outcome)),
        };
    }
    text
}

fn ended(outcome: &Outcome) -> String {
    let sum = outcome.sum.as_ref().map(|sum| {
        let coordinates = sum.value.to_f64(1.0);
        format!("weight {}, sum {coordinates:?}", sum.weight.0)
    });
    let accuracy = outcome
        .accuracy
        .map(|it| (it.steps, it.standard_errors, it.apart));
    format!(
        "{:?}, agreed {}, included {:?}, accuracy {accuracy:?}, {}",
        outcome.ending,
        outcome.agreed,
        outcome.included,
        sum.unwrap_or("no sum".into())
    )
}

/// Records a run, and the receipts of two parties that ended it.
fn assert_run(name: &str, plan: &Arc<Plan>, kill: Option<Kill>) {
    let recording = Recording::of(plan, 7, kill);
    assert_recorded(&format!("run-{name}.txt"), reported(&recording).as_bytes());
    let folder = tempfile::tempdir().expect("a folder");
    let ended = recording.outcomes.iter().enumerate();
    let ended = ended.filter_map(|(party, outcome)| Some((party, outcome.clone()?)));
    for (party, outcome) in ended.take(1) {
        let ran = outcome.plan(plan).into_owned();
        let finish = Finish {
            links: serde_json::Value::Null,
            gate: outcome.logs.as_ref().map(|logs| gate(&ran, logs)),
            outcome,
            draws: 0,
            iteration_ms: serde_json::Value::Null,
            silence: Default::default(),
            left_out: false,
            wall_s: 1.0,
            private_bytes: 2,
            public_bytes: 3,
        };
        let account = Account::of(plan, party, &finish).unwrap_or_else(|e| panic!("{e:?}"));
        let path = folder.path().join("receipt.json");
        account
            .write(&path, &simulated_keypair(party))
            .unwrap_or_else(|e| panic!("{e:?}"));
        let mut receipt = fs::read(&path).expect("written");
        receipt.extend(fs::read(folder.path().join("receipt.json.sig")).expect("written"));
        assert_recorded(&format!("receipt-{name}.txt"), &receipt);
    }
}

const EARLY: Option<Kill> = Some(Kill { party: 3, shares: 2 });

#[test]
fn inca_says_what_it_said() {
    assert_run("inca", &inca(), None);
    assert_run("inca-kill", &inca(), EARLY);
}

#[test]
fn ppsc_says_what_it_said() {
    assert_run("ppsc", &ppsc(), None);
    assert_run("ppsc-kill", &ppsc(), EARLY);
}

#[test]
fn consensus_says_what_it_said() {
    assert_run("consensus", &consensus(), None);
    assert_run("consensus-kill", &consensus(), EARLY);
}

#[test]
fn static_coalitions_say_what_they_said() {
    assert_run("static", &static_coalitions(), None);
    assert_run("static-kill", &static_coalitions(), EARLY);
}
