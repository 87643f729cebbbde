//! Everything that reads what a peer or a user sends, fed with what nobody should send: real frames
//! and files with random edits, and random bytes. Nothing may panic or take long.
//!
//! Each target gets some thousand inputs with the tests. With the soak, a minute of each:
//! `FUZZ_SECONDS=60 cargo test -p undertone-tests --test fuzz -- --nocapture --test-threads=1`; or
//! so many inputs: `FUZZ_INPUTS=10000000 cargo test …`, with `FUZZ_SEED` for other ones. An input
//! that was found to do harm is kept in `fuzz/findings/TARGET/`, from where it is read again each
//! time.

mod corpus;
mod edits;
mod targets;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prop_assert;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::edits::edited;

/// Inputs of each target with the tests.
const INPUTS: u32 = 3000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// Random numbers of a turn: others in each.
fn rng(turn: u64) -> TestRng {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number("FUZZ_SEED").unwrap_or(0).to_le_bytes());
    seed[8..16].copy_from_slice(&turn.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &seed)
}

/// Nothing that is read takes as long, on a machine that does other things.
const LONG: Duration = Duration::from_secs(10);

/// A target with its corpus: one in so many of the inputs that others get, where each takes long.
fn fuzz(target: &str, every: u32, corpus: Vec<Vec<u8>>, read: impl Fn(&[u8])) {
    let findings = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/findings")
        .join(target);
    for finding in std::fs::read_dir(findings).into_iter().flatten().flatten() {
        read(&std::fs::read(finding.path()).expect("readable"));
    }
    corpus.iter().for_each(|input| read(input));
    let cases = number("FUZZ_INPUTS").map_or(INPUTS, |inputs| u32::try_from(inputs).unwrap_or(u32::MAX));
    let cases = (cases / every).max(1);
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let inputs = edited(corpus);
    let time = Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(0));
    let (begun, mut turns) = (Instant::now(), 0);
    while turns == 0 || begun.elapsed() < time {
        TestRunner::new_with_rng(config.clone(), rng(turns))
            .run(&inputs, |input| {
                let begun = Instant::now();
                read(&input);
                prop_assert!(begun.elapsed() < LONG, "it took {:?}", begun.elapsed());
                Ok(())
            })
            .unwrap_or_else(|found| panic!("{target}: {found}"));
        turns += 1;
    }
    let done = turns * u64::from(cases);
    let took = begun.elapsed().as_secs_f64();
    println!("{target}: {done} inputs in {took:.1} s");
}

#[test]
fn public_frames() {
    fuzz("public_frames", 1, corpus::public_frames(), targets::public_frame);
}

#[test]
fn private_frames() {
    fuzz(
        "private_frames",
        1,
        corpus::private_frames(),
        targets::private_frame,
    );
}

#[test]
fn logs() {
    let (plan, logs) = corpus::logs();
    fuzz("logs", 1, logs, |input| targets::log(&plan, input));
}

#[test]
fn questions() {
    fuzz("questions", 1, corpus::questions(), targets::question);
}

#[test]
fn plans() {
    fuzz("plans", 10, corpus::plans(), targets::plan);
}

#[test]
fn run_files() {
    fuzz("run_files", 10, corpus::run_files(), targets::run_file);
}

#[test]
fn peer_lists() {
    fuzz("peer_lists", 10, corpus::peer_lists(), targets::peer_list);
}

#[test]
fn ledgers() {
    let folder = corpus::folder();
    let [ledgers, marks] = corpus::ledgers();
    fuzz("marks", 10, marks, |input| targets::marks(folder.path(), input));
    fuzz("ledgers", 10, ledgers, |input| {
        targets::ledger(folder.path(), input)
    });
}

#[test]
fn vector_files() {
    let folder = corpus::folder();
    for extension in ["npy", "csv", "json", "safetensors"] {
        let corpus = corpus::vector_files(extension);
        let path = folder.path().join(format!("x.{extension}"));
        fuzz(extension, 10, corpus, |input| targets::vector_file(&path, input));
    }
}

#[test]
fn models() {
    let folder = corpus::folder();
    let [path, rows] = ["model.json", "rows.csv"].map(|name| folder.path().join(name));
    std::fs::write(&rows, "a,b,kind\n1,2,0\n3,4,2\n").expect("writable");
    fuzz("models", 10, corpus::models(), |input| {
        targets::model(&path, &rows, input);
    });
}

/// With the token, too: what is behind it is most of what reads.
#[test]
fn connections() {
    let served = corpus::Served::start();
    let requests = corpus::requests(&served.token());
    let answer = |input: &[u8]| targets::connection(&served.runtime, &served.feed, input);
    let status = |answer: &[u8]| String::from_utf8_lossy(answer.get(9..12).unwrap_or_default()).into_owned();
    let first: Vec<String> = requests.iter().map(|request| status(&answer(request))).collect();
    let taken = first.iter().filter(|status| *status == "200");
    assert!(
        taken.count() >= 2 && !first.contains(&"401".to_owned()),
        "{first:?}"
    );
    let counts = RefCell::new(BTreeMap::<String, u64>::new());
    fuzz("connections", 1, requests, |input| {
        *counts.borrow_mut().entry(status(&answer(input))).or_default() += 1;
    });
    println!("answers by status: {:?}", counts.into_inner());
}

#[test]
fn requests() {
    let daemon = corpus::daemon();
    fuzz("requests", 10, corpus::requests("0123456789abcdef"), |input| {
        targets::request(&daemon.socket, input)
    });
    daemon.is_well();
}
