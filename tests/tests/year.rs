//! Two hundred runs in a row: what they leave grows with their receipts, and with nothing else.

use undertone_tests::year::Year;
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
