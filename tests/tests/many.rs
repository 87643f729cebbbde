//! What many parties cost: the words around a run grow with their number, not with its square.

use undertone_protocol::messages::notice::{Network, Notice};
use undertone_protocol::messages::stage::Stage;
use undertone_protocol::messages::wire::{self, PublicFrame};
use undertone_tests::recorded::Recording;
use undertone_tests::{alone, run_in, simulated};

/// Bytes that a party sends for each other one beside finals: READY, START, logs, lists, votes,
/// keys, and what is asked for. Found: 1,159 with 80 parties.
const MOST: f64 = 1200.0;

/// Bytes of length before each frame.
const LENGTH: usize = 4;

/// Bytes a party and a party, of all that is said in public but finals and that there are some.
fn words(parties: usize, lines: &str) -> f64 {
    let times = "[run]\nround_ms = 2000\nsettle_ms = 16000\njoin_ms = 20000\n";
    let plan = simulated::plan(parties, 1, &format!("{lines}{times}"));
    let recording = Recording::of(&plan, 3, None);
    let done = |outcome: &Option<_>| outcome.is_some();
    assert!(recording.outcomes.iter().all(done), "{parties} parties");
    let of_finals = |frame: &[u8]| match wire::read_public(frame) {
        Ok(PublicFrame::Body { stage, .. }) => stage != Stage::Settling,
        Ok(PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. }) => {
            matches!(signed.notice, Notice::Item { stage, .. } if stage != Stage::Settling)
        }
        _ => false,
    };
    let public = recording
        .frames
        .iter()
        .filter(|frame| frame.network == Network::Public);
    let words = public.filter(|frame| !of_finals(&frame.bytes));
    let bytes: usize = words.map(|frame| LENGTH + frame.bytes.len()).sum();
    bytes as f64 / (parties * parties) as f64
}

/// `cargo test --release -p undertone-tests --test many -- --ignored --nocapture`
#[test]
#[ignore = "half an hour; for changes of what is said"]
fn words_of_very_many_parties_are_as_few() {
    for parties in [200, 400, 1000] {
        let found = words(parties, "");
        println!("{parties} parties: {found:.0} bytes a party and a party");
        assert!(found <= MOST, "{parties} parties: {found}");
    }
}

#[test]
fn words_grow_with_the_parties_and_not_faster() {
    for lines in [
        "",
        "[mechanism]\nkind = \"pairwise\"\n",
        "[topology]\npublic = \"ring\"\n",
    ] {
        let found = [12, 40, 80].map(|parties| words(parties, lines));
        println!("{lines:?}: {found:.0?} bytes a party and a party");
        assert!(found.iter().all(|bytes| *bytes <= MOST), "{lines:?}: {found:?}");
    }
}

/// Peak resident memory of the largest of so many nodes, in bytes. They have patience: what a
/// machine cannot do in time is another test's.
fn memory(parties: usize, dimension: usize) -> u64 {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let run =
        "version = 1\n[data]\nnoise_ok = true\n[run]\njoin_ms = 60000\nround_ms = 60000\nsettle_ms = 60000\n";
    std::fs::write(folder.path().join("run.toml"), run).expect("writable");
    let line = format!("local --json --nodes {parties} --dimension {dimension} --run run.toml");
    let object = run_in(folder.path(), line.split(' ')).json_of(0);
    object["peak_memory_bytes"].as_u64().expect("a number")
}

#[test]
fn a_node_holds_a_few_vectors_however_many_parties_there_are() {
    let dimension = 500_000;
    let vector = 8 * dimension as u64;
    let [few, many] = [4, 12].map(|parties| memory(parties, dimension));
    println!("4 parties: {} MiB each, 12: {} MiB", few >> 20, many >> 20);
    assert!(many <= 8 * vector + (64 << 20), "{many} bytes");
    // Others' finals are in a file: in memory they would be three vectors more.
    assert!(
        many <= few + 2 * vector,
        "{few} bytes with 4 parties, {many} with 12"
    );
}
