//! A party whose data are outside of the public range learns what clipping took away: on a
//! terminal, and nowhere else.

use std::path::Path;

use undertone_tests::{Ended, Parties, alone, follow_in, run_in, run_on_terminal, write_npy};

const RUN: &str = "version = 1\nname = \"clipped\"\n[data]\nshape = [8]\nnoise_ok = true\n[run]\njoin_ms = 60000\ngrace_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";

/// A run of four, of whom alice brings a vector a hundred times too long, and ends as `run` has it.
fn joined(run: fn(&Path, Vec<String>) -> Ended) -> (Parties, Ended) {
    let parties = Parties::new(4);
    parties.write_inputs(&[8]);
    write_npy(&parties.path("alice.npy"), &[8], &[100.0 / 8f64.sqrt(); 8]);
    parties.plan("plan", RUN);
    let others: Vec<_> = (1..4)
        .map(|party| follow_in(parties.folder(), parties.join("plan", party)))
        .collect();
    let mut line = parties.join("plan", 0);
    assert_eq!(line.pop().as_deref(), Some("--json"));
    line.push("-vv".to_owned());
    let ended = run(parties.folder(), line);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for (running, followed) in others {
        followed.rest();
        running.wait().json_of(0);
    }
    (parties, ended)
}

#[test]
fn join_tells_whoever_looks_on_by_how_much_a_vector_was_scaled() {
    let _alone = alone();
    let (parties, ended) = joined(run_on_terminal);
    let reported =
        "your vector was scaled by 0.0100 (data.clip); the error that is stated is the noise's only";
    assert!(ended.stdout.contains(reported), "{}", ended.stdout);
    let receipt = std::fs::read_to_string(parties.path("plan-alice.receipt.json")).expect("a receipt");
    for text in [&ended.stderr, &receipt] {
        assert!(!text.contains("scaled") && !text.contains("clipped\""), "{text}");
    }
    let (_, ended) = joined(run_in);
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains("scaled"), "no file and no log has it: {text}");
    }
    assert!(ended.stdout.contains("(of the noise)"), "{}", ended.stdout);
}

#[test]
fn local_tells_how_many_rows_of_whom_were_clipped() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let inputs = folder.path().join("inputs");
    std::fs::create_dir(&inputs).expect("writable");
    for (name, age) in [("ann", 0.5), ("ben", 58.0), ("cleo", 0.25)] {
        std::fs::write(
            inputs.join(format!("{name}.csv")),
            format!("age,height\n{}", format!("{age},0.5\n").repeat(4000)),
        )
        .expect("writable");
    }
    let run = "[data]\nunit = \"record\"\nclip = { kind = \"box\", low = 0, high = 1 }\n";
    std::fs::write(folder.path().join("run.toml"), run).expect("writable");
    let line = "local --inputs inputs --run run.toml";
    let shown = run_on_terminal(folder.path(), line.split(' '));
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let reported = "ben: 4,000 of 4,000 rows clipped (data.clip)";
    assert!(shown.stdout.contains(reported), "{}", shown.stdout);
    assert!(!shown.stdout.contains("ann: "), "{}", shown.stdout);
    let piped = run_in(folder.path(), line.split(' '));
    assert!(!piped.stdout.contains("rows clipped"), "{}", piped.stdout);
}
