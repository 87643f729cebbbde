//! Two hundred runs in a row: what they leave grows with their receipts, and with nothing else.

use std::fs;
use std::path::Path;

use undertone_tests::year::{Year, make_old, until};
use undertone_tests::{alone, run_in};

#[test]
fn runs_in_a_row_leave_receipts_and_marks_and_no_folders_or_memory() {
    let _alone = alone();
    let mut year = Year::begin();
    // More than are kept in memory.
    year.run(140);
    year.delete_old();
    let (first, before) = (year.stand(0), year.restart(0));
    // A daemon has settled once it has run a few.
    year.run(20);
    let settled = year.stand(0);
    year.run(40);
    year.delete_old();
    let last = year.stand(0);
    println!("{first}\n{settled}\n{last}");
    // Folders: those of the runs that it has in memory, and no others.
    assert!(last.files as f64 <= 1.05 * first.files as f64, "{first}\n{last}");
    for (grew, was) in last.growing.iter().zip(first.growing) {
        let (each, whole) = (*grew as f64 / last.runs as f64, was as f64 / first.runs as f64);
        assert!(each <= 1.2 * whole.max(2000.0), "{first}\n{last}");
    }
    assert!(last.memory <= 1.1 * settled.memory + 1e6, "{settled}\n{last}");
    assert!(last.open_files <= settled.open_files + 8.0, "{settled}\n{last}");
    let after = year.restart(0);
    let most = 3.0 * before.as_secs_f64() + 0.5;
    assert!(after.as_secs_f64() <= most, "{before:?}, then {after:?}");
    (0..3).for_each(|party| year.check(party));
    exports(&year);
}

/// The lines of a daemon's file of receipts.
fn receipts(state: &Path) -> Vec<String> {
    let text = fs::read_to_string(state.join("receipts")).unwrap_or_default();
    text.lines().map(String::from).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("readable");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("writable");
    }
}

/// Killed as soon as one of several receipts is kept, wherever it is then; and in the two states in
/// which a kill leaves a run whose receipt was kept: with its folder, and with half of it.
#[test]
fn a_daemon_that_is_killed_while_it_deletes_runs_loses_and_doubles_no_receipt() {
    let _alone = alone();
    let mut year = Year::begin();
    year.run(8);
    let (state, ended) = (year.state(0), year.ended().to_vec());
    let (runs, aside) = (state.join("runs"), year.parties().path("aside"));
    let of = |digest: &String| runs.join(digest);
    let was = |digest: &String| fs::read(of(digest).join("receipt.json")).expect("a receipt");
    let receipt = was(&ended[0]);
    year.restart_on(0, |_| {
        ended.iter().for_each(|run| make_old(&of(run).join("run.json")));
        copy(&of(&ended[0]), &aside);
    });
    until("a receipt is kept", || receipts(&state).len() > 1);
    year.restart(0);
    let deleted = || fs::read_dir(&runs).expect("a folder").next().is_none();
    until("all runs are deleted", deleted);
    // The first line says the format.
    let kept = receipts(&state);
    assert_eq!(kept.len(), 1 + ended.len());
    year.restart_on(0, |_| copy(&aside, &of(&ended[0])));
    until("the run is deleted again", deleted);
    year.restart_on(0, |_| {
        let half = runs.join(format!("{}.deleted", ended[1]));
        copy(&aside, &half);
        fs::remove_file(half.join("receipt.json")).expect("its receipt");
    });
    until("the rest of it is deleted", deleted);
    assert_eq!(receipts(&state), kept, "each once");
    year.check(0);
    let found = year.daemon(0).http.get(&format!("/v1/runs/{}/receipt", ended[0]));
    assert_eq!(found.text().as_bytes(), receipt, "byte for byte");
}

/// The receipt of a run whose folder is gone: by the client, and out of the file without a daemon.
fn exports(year: &Year) {
    let (digest, folder) = (&year.ended()[0], year.parties().folder());
    assert!(!year.state(0).join("runs").join(digest).exists());
    let daemon = year.daemon(0);
    daemon
        .client(["result", digest, "--receipt", "one.json"])
        .json_of(0);
    daemon
        .client(["result", digest, "--output", "mean.npy"])
        .refused_at(2, "digest");
    let file = year.state(0).join("receipts");
    let file = file.to_str().expect("a name");
    let peers = ["--peers", "peers.toml", "--json"];
    let read = |more: &[&str]| run_in(folder, [&["receipt", file], more, &peers].concat());
    let checked = read(&["--of", digest, "--export", "other.json"]).json_of(0);
    assert_eq!(checked["signature_checked"], true, "{checked}");
    for name in ["json", "json.sig"] {
        let text = |file: &str| std::fs::read_to_string(year.parties().path(file)).expect("written");
        assert_eq!(text(&format!("one.{name}")), text(&format!("other.{name}")));
    }
    read(&["--of", &"0".repeat(64)]).refused_at(2, "--of");
}
