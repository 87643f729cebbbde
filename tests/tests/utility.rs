//! The utility of a result: a person who would get nothing but noise is warned, and refused
//! unless that is meant.

use std::path::Path;

use undertone_tests::daemon::Daemon;
use undertone_tests::{Ended, Parties, alone, read_json, run_in};

/// Five parties with eight coordinates in the unit ball: noise of norm 5.
const NOISE: &str = "version = 1\nname = \"noise\"\n[data]\nshape = [8]\n[run]\njoin_ms = 60000\n";

/// As the plan's quote, `verify` and whoever refuses it say it.
const SENTENCE: &str = "mean here has norm at most 1.00, the noise has norm";

/// Makes plan NAME.json; what was printed for people.
fn plan(parties: &Parties, name: &str, run: &str) -> Ended {
    let (run_file, plan_file) = (format!("{name}.toml"), format!("{name}.json"));
    parties.write(&run_file, run);
    parties.run(["plan", &run_file, "--peers", "peers.toml", "--out", &plan_file])
}

#[test]
fn a_plan_of_noise_says_so_loudly_and_is_not_joined() {
    let parties = Parties::new(5);
    parties.write_inputs(&[8]);
    let planned = plan(&parties, "plan", NOISE);
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    assert!(planned.stdout.contains("NOTHING BUT NOISE"), "{}", planned.stdout);
    assert!(planned.stdout.contains(SENTENCE), "{}", planned.stdout);
    assert!(
        planned.stdout.contains("privacy.epsilon = "),
        "{}",
        planned.stdout
    );
    assert!(planned.stderr.contains("nothing but noise"), "{}", planned.stderr);
    let verified = parties.run(["verify", "plan.json"]);
    assert_eq!(verified.code, 0, "its claims hold: {}", verified.stderr);
    assert!(verified.stdout.contains(SENTENCE), "{}", verified.stdout);
    let join = parties.join("plan", 0);
    let refusal = run_in(parties.folder(), &join).refused_at(2, "data.noise_ok");
    let said = refusal["error"]["message"].as_str().expect("a sentence");
    assert!(said.contains(SENTENCE), "{said}");
    let hint = refusal["error"]["hint"].as_str().expect("what to do");
    assert!(
        hint.contains("parties") && hint.contains("noise_ok = true"),
        "{hint}"
    );
    // Nothing is spent: a second time it is this again.
    run_in(parties.folder(), &join).refused_at(2, "data.noise_ok");
}

#[test]
fn a_daemon_refuses_noise_as_join_does() {
    let _alone = alone();
    let parties = Parties::new(5);
    parties.write_inputs(&[8]);
    plan(&parties, "plan", NOISE);
    let alice = Daemon::start(&parties, 0, "");
    let refusal = alice.client(["submit", "plan.json", "--input", "alice.npy"]);
    refusal.refused(2, "noise_ok");
    parties.write("run.toml", NOISE);
    let refusal = alice.client(["submit", "--propose", "run.toml", "--input", "alice.npy"]);
    refusal.refused(2, "noise_ok");
    let status = alice.client(["status"]).json_of(0);
    assert_eq!(status["runs"].as_array().map(Vec::len), Some(0), "{status}");
}

fn inputs(folder: &Path) {
    std::fs::create_dir(folder.join("inputs")).expect("writable");
    undertone_tests::write_inputs(&folder.join("inputs"), 4, &[8]);
}

/// Deadlines that a busy machine keeps.
const PATIENT: &str = "[run]\njoin_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";

fn local(folder: &Path, run: &str, line: &str) -> Ended {
    std::fs::write(folder.join("run.toml"), format!("{run}{PATIENT}")).expect("writable");
    let line = format!("local --run run.toml --output kept {line}");
    run_in(folder, line.trim_end().split(' '))
}

#[test]
fn inputs_of_ones_own_are_refused_and_made_up_ones_are_not() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    inputs(folder.path());
    let ball = "[data]\nclip = { kind = \"l2\", radius = 1.0 }\n";
    local(folder.path(), ball, "--inputs inputs --json").refused_at(2, "data.noise_ok");
    let meant = local(
        folder.path(),
        &format!("{ball}noise_ok = true\n"),
        "--inputs inputs",
    );
    assert_eq!(meant.code, 0, "{}", meant.stderr);
    assert!(meant.stdout.contains(SENTENCE), "{}", meant.stdout);
    let made_up = local(folder.path(), ball, "--nodes 4 --dimension 8");
    assert_eq!(made_up.code, 0, "{}", made_up.stderr);
    assert!(
        made_up.stdout.contains(SENTENCE) && !made_up.stdout.contains("NOTHING BUT NOISE"),
        "{}",
        made_up.stdout
    );
    let receipt = read_json(&folder.path().join("kept/party-0/receipt.json"));
    let said = receipt["utility"]["sentence"].as_str().expect("a sentence");
    assert!(said.contains(SENTENCE), "{said}");
    assert_eq!(receipt["utility"]["is_noise"], true);
}

/// An age of 58 that nobody gave a range counts as 1.
#[test]
fn no_range_is_made_up_for_rows_or_for_files() {
    let folder = tempfile::tempdir().expect("a folder");
    inputs(folder.path());
    for (run, line) in [
        ("version = 1\n", "--inputs inputs --json"),
        ("[data]\nunit = \"record\"\n", "--inputs inputs --json"),
        ("[data]\nunit = \"record\"\n", "--nodes 4 --dimension 3 --json"),
    ] {
        let refusal = local(folder.path(), run, line).refused_at(2, "data.clip");
        assert!(refusal.to_string().contains("never from the data"), "{refusal}");
    }
    let parties = Parties::new(4);
    parties.write(
        "run.toml",
        "name = \"rows\"\n[data]\nshape = [3]\nunit = \"record\"\n",
    );
    let planned = parties.run([
        "plan",
        "run.toml",
        "--peers",
        "peers.toml",
        "--out",
        "p.json",
        "--json",
    ]);
    planned.refused_at(2, "data.clip");
}

#[test]
fn patients_of_hospitals_have_a_mean_in_every_word() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let ended = local(folder.path(), "", "");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let columns = |text: &str| text.contains("age (years)  ") && text.contains("± standard error");
    assert!(columns(&ended.stdout), "{}", ended.stdout);
    let quote = run_in(folder.path(), ["verify", "kept/plan.json"]);
    let full = run_in(folder.path(), ["verify", "kept/plan.json", "--full"]);
    let utility = "A mean here lies within its public bounds, the noise is at most 0.";
    assert!(full.stdout.contains(utility), "{}", full.stdout);
    let row = quote.stdout.lines().find(|line| line.contains("age (years)  "));
    let row = row.unwrap_or_else(|| panic!("a row for each column: {}", quote.stdout));
    assert!(row.contains("18 ") && row.contains("100 "), "{row}");
}
