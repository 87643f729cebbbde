//! The guide's ways from one laptop to several machines, done on hosts by the commands of its pages
//! alone.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;
use undertone_tests::documents::page::Page;
use undertone_tests::journey::{Journey, block_with};
use undertone_tests::testnet::possible;
use undertone_tests::{Running, alone, left_out, read_json};

const HOSPITALS: [&str; 5] = ["aarhus", "bergen", "coimbra", "delft", "evora"];

/// From a proposal until the others have it, on a machine that does other things.
const OFFERED: Duration = Duration::from_secs(60);

/// How long the fourth person is away.
const LATE: Duration = Duration::from_secs(30);

/// All have the same file, but for its name.
#[track_caller]
fn all_have(journey: &Journey, people: usize, file: impl Fn(&str) -> String) {
    let of = |person: usize| journey.read(person, &file(&journey.names()[person]));
    for person in 1..people {
        assert!(of(person) == of(0), "{} has another one", journey.names()[person]);
    }
}

/// The lines of a block that join, and those after them.
fn joins(journey: &Journey, block: &str) -> (Vec<(usize, String)>, String) {
    let (joins, after): (Vec<_>, Vec<_>) = journey
        .lines(block)
        .into_iter()
        .partition(|(_, line)| line.starts_with("undertone join"));
    let after: Vec<String> = after.into_iter().map(|(_, line)| line).collect();
    (joins, after.join("\n"))
}

/// Four by hand, the fourth of whom is late; then the plan of five, whose tables have other
/// lengths.
#[test]
fn hospitals_average_by_hand_although_one_is_late_and_a_fifth_comes_next_month() {
    if let Err(missing) = possible() {
        return left_out("averages by hand", &missing);
    }
    let _alone = alone();
    let page = "averages.md";
    let hospitals = Journey::new(&HOSPITALS);
    for person in 0..HOSPITALS.len() {
        hospitals.done(person, "undertone example hospitals");
    }
    hospitals.plan(page, 4);
    let check = block_with(page, "--max-epsilon 1 --min-colluders 1");
    for (person, name) in HOSPITALS.iter().enumerate().take(4) {
        hospitals.done(person, &check.replace("aarhus", name));
    }
    let (mut first, after) = joins(&hospitals, &block_with(page, "--output aarhus-mean.csv"));
    let last = first.pop().expect("four lines");
    assert_eq!((first.len(), last.0), (3, 3), "the fourth line is the fourth's");
    let waiting = first.iter().map(|(person, line)| hospitals.start(*person, line));
    let waiting: Vec<_> = waiting.collect();
    // Nobody sends: it only lets the time pass.
    let (_sender, pace) = channel::<()>();
    let _ = pace.recv_timeout(LATE);
    hospitals.together(&[last]);
    for (person, join) in waiting.into_iter().enumerate() {
        let said = hospitals.succeeded(person, join).stderr;
        let waited = |line: &str| line.contains("delft") && line.contains("waited for");
        assert!(said.lines().any(waited), "{said}");
    }
    all_have(&hospitals, 4, |name| format!("{name}-mean.csv"));
    hospitals.mail(3, [0], &["delft-mean.csv"]);
    hospitals.done(0, &after);

    hospitals.walk(&block_with(page, "--out evora.key"));
    hospitals.mail(4, [0], &["evora.lines"]);
    hospitals.done(0, &block_with(page, "> peers-of-five.toml"));
    hospitals.mail(0, 1..5, &["next.json"]);
    hospitals.walk(&block_with(page, "head -n 844"));
    let (all, after) = joins(&hospitals, &block_with(page, "--output aarhus-next.csv"));
    hospitals.together(&all);
    all_have(&hospitals, 5, |name| format!("{name}-next.csv"));
    hospitals.mail(4, [0], &["evora-next.csv"]);
    hospitals.done(0, &after);
    let receipt = read_json(&hospitals.folder(0).join("next-receipt.json"));
    let rows = [
        ("aarhus", 843),
        ("bergen", 911),
        ("coimbra", 750),
        ("delft", 1000),
        ("evora", 607),
    ];
    for (name, count) in rows {
        assert_eq!(receipt["records"][name], count, "{receipt}");
    }
}

/// A row of the table of coefficients: the value, its error, and the ends of its interval.
#[track_caller]
fn coefficient(text: &str, name: &str) -> [f64; 4] {
    let table = text.split_once("coefficient ").expect("a table").1;
    let row = table.lines().find_map(|line| line.trim().strip_prefix(name));
    let row = row.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    let numbers: Vec<f64> = row
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{name} {row}"))
}

#[test]
fn hospitals_fit_a_model_and_have_its_coefficients_by_name() {
    if let Err(missing) = possible() {
        return left_out("a model by hand", &missing);
    }
    let _alone = alone();
    let page = "models.md";
    let hospitals = Journey::new(&HOSPITALS);
    let run_file = block_with(page, "cat > risk.toml");
    let run_file = run_file.split("undertone ").next().expect("a beginning");
    for person in 0..HOSPITALS.len() {
        hospitals.done(person, &block_with(page, "os.mkdir"));
    }
    hospitals.done(0, run_file);
    hospitals.plan(page, 5);
    let (all, after) = joins(&hospitals, &block_with(page, "--output aarhus-model.json"));
    let ended = hospitals.together(&all);
    all_have(&hospitals, 5, |name| format!("{name}-model.json"));
    hospitals.mail(4, [0], &["evora-model.json"]);
    hospitals.done(0, &after);

    let guide = Page::read("node/guide/models.md").text;
    for name in ["age", "systolic", "creatinine", "stays", "intercept"] {
        let stated = coefficient(&guide, name);
        for ended in &ended {
            let [value, error, low, high] = coefficient(&ended.stdout, name);
            // Both have noise of that error.
            let apart = (value - stated[0]).abs() / error.hypot(stated[1]);
            assert!(
                error > 0.0 && apart < 6.0,
                "{name}: {value} ± {error}, {stated:?}"
            );
            let half = 1.96 * error;
            for (end, expected) in [(low, value - half), (high, value + half)] {
                assert!((end - expected).abs() < 0.02 * half, "{name}: {}", ended.stdout);
            }
        }
    }
}

/// Aarhus proposes, all others accept: the daemons' page. The run's digest.
fn run_by_offer(hospitals: &Journey) -> String {
    let lines = hospitals.lines(&block_with("daemon.md", "submit --propose"));
    let (offers, others) = lines.split_at(2);
    let offers: Vec<&str> = offers.iter().map(|(_, line)| &**line).collect();
    let offered = hospitals.done(0, &format!("{}\nprintf %s \"$DIGEST\"", offers.join("\n")));
    let digest = offered.stdout;
    for (person, line) in others {
        let line = format!("DIGEST={digest}\n{line}");
        match line.contains("undertone accept") {
            // The offer is on its way.
            true => hospitals.until(*person, &line, OFFERED),
            false => hospitals.done(*person, &line),
        };
    }
    digest
}

/// A plan that all hand in: the page of the API. It is over at all of them.
fn run_by_plan(hospitals: &Journey) {
    let block = block_with("api.md", "--out third.json");
    let (shell, _) = block.split_once("python3 -m venv").expect("Python comes then");
    let lines = hospitals.lines(shell);
    hospitals.done(0, &lines[0].1);
    hospitals.mail(0, 1..4, &["third.json"]);
    hospitals.done(0, &lines[1].1);
    let submit = &lines[2].1;
    assert!(submit.contains("bergen/node.toml"), "{submit}");
    for (person, name) in HOSPITALS[..4].iter().enumerate() {
        hospitals.done(person, &submit.replace("bergen", name));
    }
    for (person, name) in HOSPITALS[..4].iter().enumerate() {
        let digest = "$(sha256sum third.json | cut -c1-64)";
        hospitals.done(
            person,
            &format!("undertone watch {digest} --config {name}/node.toml"),
        );
    }
}

/// The budget that aarhus has spent of.
fn budget(hospitals: &Journey) -> Value {
    let status = hospitals.done(0, "undertone status --json --config aarhus/node.toml");
    status.json()["budgets"][0].clone()
}

#[test]
fn a_hospital_that_lost_its_disk_restores_a_backup_and_takes_part_in_the_next_run() {
    if let Err(missing) = possible() {
        return left_out("a lost disk", &missing);
    }
    let _alone = alone();
    let hospitals = Journey::new(&HOSPITALS[..4]);
    for person in 0..4 {
        hospitals.done(person, "undertone example hospitals");
    }
    hospitals.plan("averages.md", 4);
    let start = block_with("daemon.md", "mkdir $city");
    let daemons = (0..4).map(|person| hospitals.daemon(person, &start));
    let mut daemons: Vec<Running> = daemons.collect();
    run_by_offer(&hospitals);
    hospitals.done(0, &block_with("backup.md", "undertone backup"));
    run_by_plan(&hospitals);
    let spent = budget(&hospitals);
    assert_eq!(spent["runs"], 2, "{spent}");

    let kept = [
        "aarhus.tar",
        "aarhus.key",
        "peers.toml",
        "run.toml",
        "aarhus/node.toml",
    ];
    // Another place, where files keep their modes.
    let safe = tempfile::tempdir().expect("a folder");
    let copied = |from: &Path, to: &Path| {
        std::fs::create_dir_all(to.join("aarhus")).expect("a folder");
        for file in kept {
            std::fs::copy(from.join(file), to.join(file)).expect("a file");
        }
    };
    copied(&hospitals.folder(0), safe.path());
    hospitals.done(0, "kill -9 $(cat aarhus/state/lock)");
    daemons.remove(0).wait();
    hospitals.lose_machine(0);
    copied(safe.path(), &hospitals.folder(0));
    hospitals.done(0, "undertone example hospitals");
    let restore = block_with("backup.md", "undertone restore");
    let restore = restore.lines().last().expect("after the loss");
    hospitals.done(0, restore);
    let looked = hospitals.done(0, &block_with("backup.md", "\nwait")).stdout;
    assert!(looked.to_lowercase().contains("closed"), "{looked}");

    let adopt = block_with("backup.md", "THIRD=");
    let (at_bergen, at_aarhus) = adopt.rsplit_once('\n').expect("four lines");
    hospitals.done(1, at_bergen);
    hospitals.mail(1, [0], &["third.json", "bergen.json", "bergen.json.sig"]);
    hospitals.done(0, at_aarhus);
    hospitals.done(0, &block_with("backup.md", "--nothing-else-was-spent"));
    daemons.push(hospitals.daemon(0, &block_with("backup.md", "--ready")));
    let restored = budget(&hospitals);
    for key in ["runs", "mu_squared", "epsilon_spent"] {
        assert_eq!(restored[key], spent[key], "{key}");
    }
    run_by_offer(&hospitals);
    assert_eq!(budget(&hospitals)["runs"], 3);
}
