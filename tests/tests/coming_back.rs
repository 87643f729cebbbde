//! Daemons that are killed, at any moment of a run: before its mark they take part again, after it
//! they are mute and read what the others agreed on.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use undertone_tests::daemon::Daemon;
use undertone_tests::{Parties, Signal, alone, follow_in, run_in, signal};

const PARTIES: usize = 5;

const RUN: &str = "version = 1\nname = \"coming back\"\n[data]\nnoise_ok = true\nshape = [8]\n\
                   [run]\njoin_ms = 20000\nround_ms = 1000\nsettle_ms = 3000\n";

const WARD: &str = "output = \"NAME.out\"\n[[data_set]]\nname = \"ward\"\nfile = \"ward.npy\"\nepsilon = 1000\ndelta = 0.3\n\
                    [[data_set]]\nname = \"table\"\nunit = \"record\"\nfile = \"table.csv\"\nepsilon = 1000\ndelta = 0.3\n";

/// Five parties whose daemons run, the last of which is killed.
struct Group {
    parties: Parties,
    daemons: Vec<Daemon>,
    /// The log of the one that was killed last.
    log_before: String,
}

impl Group {
    fn new() -> Self {
        let parties = Parties::new(PARTIES);
        parties.write("peers.toml", &parties.peer_list());
        parties.write_inputs(&[8]);
        for name in parties.names() {
            let data = parties.path(&format!("{name}.data"));
            std::fs::create_dir_all(&data).expect("the test's folder is writable");
            std::fs::copy(parties.path(&format!("{name}.npy")), data.join("ward.npy")).expect("writable");
            let row = |row: usize| format!("0.{row:02},{}\n", row % 2);
            let rows: String = (0..40).map(row).collect();
            std::fs::write(data.join("table.csv"), format!("dose,ill\n{rows}")).expect("writable");
        }
        let mut group = Group {
            parties,
            daemons: vec![],
            log_before: String::new(),
        };
        group.daemons = (0..PARTIES).map(|party| group.start(party)).collect();
        group
    }

    fn start(&self, party: usize) -> Daemon {
        let name = &self.parties.names()[party];
        Daemon::start(
            &self.parties,
            party,
            &format!("peers = \"peers.toml\"\n{}", WARD.replace("NAME", name)),
        )
    }

    /// Makes a plan and has these daemons take part in it; its digest.
    fn submit(&self, name: &str, run: &str, parties: impl Iterator<Item = usize>) -> String {
        self.submit_of("ward", (name, run), parties)
    }

    /// Makes a plan and has these daemons take part in it with this data set; its digest.
    fn submit_of(
        &self,
        set: &str,
        (name, run): (&str, &str),
        parties: impl Iterator<Item = usize>,
    ) -> String {
        let digest = self.parties.plan(name, run);
        let plan = std::fs::read(self.parties.path(&format!("{name}.json"))).expect("a plan");
        for party in parties {
            self.daemons[party]
                .submit(&plan, &format!("data_set={set}"), None)
                .json_of(201);
        }
        digest
    }

    /// Kills the last daemon once `until` is true of an event of its run, waits `more`, and starts
    /// it again.
    fn kill(&mut self, digest: &str, until: impl Fn(&Value) -> bool, more: Duration) {
        self.kill_for_good(digest, until, more);
        self.daemons.push(self.start(PARTIES - 1));
    }

    fn kill_for_good(&mut self, digest: &str, until: impl Fn(&Value) -> bool, more: Duration) {
        let victim = self.daemons.pop().expect("five");
        victim
            .http
            .events(&format!("/v1/runs/{digest}/events"), &[], |event| until(event));
        let begun = Instant::now();
        while begun.elapsed() < more {
            std::hint::spin_loop();
        }
        self.log_before = victim.kill().stderr;
    }

    fn run(&self, party: usize, digest: &str) -> Value {
        self.daemons[party]
            .http
            .get(&format!("/v1/runs/{digest}"))
            .json_of(200)
    }

    /// The run of one that goes on to its end.
    fn ended(&self, party: usize, digest: &str) -> Value {
        self.daemons[party]
            .http
            .events(&format!("/v1/runs/{digest}/events"), &[], |_| false);
        self.run(party, digest)
    }

    /// The run of the one that restarted, once it has read its result.
    fn read_back(&self, digest: &str) -> Value {
        let begun = Instant::now();
        loop {
            let run = self.run(PARTIES - 1, digest);
            if run["state"] == "ended" || begun.elapsed() > Duration::from_secs(90) {
                return run;
            }
        }
    }

    fn mean(&self, party: usize, digest: &str) -> PathBuf {
        let name = &self.parties.names()[party];
        self.parties.path(&format!("{name}.out/{digest}/mean.npy"))
    }

    fn spent(&self, party: usize) -> f64 {
        let budget = &self.daemons[party].http.get("/v1/status").json_of(200)["budgets"][0];
        assert_eq!(budget["reserved_mu_squared"], 0.0, "{budget}");
        budget["epsilon_spent"].as_f64().expect("a number")
    }

    /// Whether the one that was killed has said anything in a run since another one lost it there:
    /// who says something is connected first. Before START all come and go.
    fn has_spoken_again(&self, digest: &str) -> bool {
        let name = &self.parties.names()[PARTIES - 1];
        let path = format!("/v1/runs/{digest}/events");
        let events = self.daemons[0].http.events(&path, &[], |_| false);
        let begun = events.iter().position(|(.., event)| event["phase"] == "mixing");
        let of = |event: &&Value| event["event"] == "peer" && event["peer"] == **name;
        let states: Vec<&str> = events[begun.expect("it began")..]
            .iter()
            .map(|(.., event)| event)
            .filter(of)
            .filter_map(|event| event["state"].as_str())
            .collect();
        let lost = states.iter().position(|state| *state == "unreachable");
        lost.is_some_and(|lost| states[lost..].iter().any(|state| state.ends_with(" connected")))
    }

    /// Ends the one that restarted and checks all that it has sent, to anybody: of the run nothing
    /// but questions for the result, though it had sent frames of it before.
    fn assert_was_mute(&mut self, digest: &str) {
        let restarted = self.daemons.pop().expect("five").end().0.stderr;
        let digest = format!("digest=\"{digest}\"");
        let sent = |log: &str, what: &str| -> Vec<String> {
            let lines = log
                .lines()
                .filter(|line| line.contains(what) && line.contains(&digest));
            lines.map(String::from).collect()
        };
        for what in ["hello signed", "frame sent"] {
            assert!(!sent(&self.log_before, what).is_empty(), "{}", self.log_before);
            assert_eq!(sent(&restarted, what), [""; 0]);
        }
        let asked = sent(&restarted, "question asked");
        assert!(!asked.is_empty(), "{restarted}");
        let others: Vec<&String> = asked
            .iter()
            .filter(|line| !line.contains("kind=\"outcome\""))
            .collect();
        assert!(others.is_empty(), "{others:?}");
        self.daemons.push(self.start(PARTIES - 1));
    }

    /// Checks that the one that restarted has the result of the first, and a receipt that checks.
    fn assert_same_result(&self, task: &str, digest: &str) {
        let last = PARTIES - 1;
        let result = |party: usize| {
            let media_type = if task == "describe" {
                "application/json"
            } else {
                "application/x-npy"
            };
            let path = format!("/v1/runs/{digest}/result");
            self.daemons[party]
                .http
                .ask("GET", &path, &[("Accept", media_type)], b"")
        };
        match task {
            "describe" => {
                let (theirs, own) = (result(0).json_of(200), result(last).json_of(200));
                assert_eq!((&own["sums"], &own["rows"]), (&theirs["sums"], &theirs["rows"]));
                let included = own["included"].as_array().map_or(0, Vec::len);
                assert_eq!(own["rows"], json!(40.0 * included as f64));
            }
            _ => assert_eq!(result(last).body, result(0).body, "{task}"),
        }
        let receipt = self.daemons[last].http.get(&format!("/v1/runs/{digest}/receipt"));
        self.parties.write("receipt.json", &receipt.text());
        let signature = self.daemons[last]
            .http
            .get(&format!("/v1/runs/{digest}/receipt.sig"));
        std::fs::write(self.parties.path("receipt.json.sig"), &signature.body).expect("writable");
        let plan = format!("{task}.json");
        let checked = self
            .parties
            .run(["receipt", "receipt.json", "--plan", &plan, "--json"]);
        assert_eq!(checked.code, 0, "{task}: {}{}", checked.stdout, checked.stderr);
    }

    /// Checks that the one that restarted behind the mark read what the others have.
    fn assert_read_back(&self, digest: &str) {
        let run = self.read_back(digest);
        assert_eq!(
            (&run["state"], &run["outcome"], &run["exit_code"]),
            (&json!("ended"), &json!("degraded"), &json!(5)),
            "{run}"
        );
        assert!(run["charged"].as_f64() > Some(0.0), "{run}");
        let mean = std::fs::read(self.mean(0, digest)).expect("a mean");
        assert!(std::fs::read(self.mean(PARTIES - 1, digest)).expect("it has read it") == mean);
        assert!(!self.has_spoken_again(digest), "it is mute");
        let name = &self.parties.names()[PARTIES - 1];
        let receipt = format!("{name}.out/{digest}/receipt.json");
        let object = undertone_tests::read_json(&self.parties.path(&receipt));
        assert_eq!(object["resumed"], true);
        assert_eq!(object["included"], self.run(0, digest)["included"]);
    }
}

#[test]
fn a_daemon_killed_behind_the_mark_is_mute_and_reads_the_mean_that_all_others_have() {
    let _alone = alone();
    let mut group = Group::new();
    let digest = group.submit("mixing", &format!("{RUN}pace_ms = 200\n"), 0..PARTIES);
    group.kill(&digest, |event| event["phase"] == "mixing", Duration::ZERO);
    let spent = group.spent(PARTIES - 1);
    for party in 0..PARTIES - 1 {
        let run = group.ended(party, &digest);
        assert_eq!(run["outcome"], "degraded", "{run}");
        assert!(spent >= group.spent(party), "all of its claim is charged");
    }
    group.assert_read_back(&digest);
    assert_eq!(group.spent(PARTIES - 1), spent, "others' word changes no charge");
    let name = group.parties.names()[PARTIES - 1].clone();
    let receipt = format!("{name}.out/{digest}/receipt.json");
    let mean = format!("{name}.out/{digest}/mean.npy");
    let checked = group.parties.run([
        "receipt",
        &receipt,
        "--plan",
        "mixing.json",
        "--mean",
        &mean,
        "--json",
    ]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    // It was spent: nobody has it take part once more.
    let plan = std::fs::read(group.parties.path("mixing.json")).expect("a plan");
    let again = group.daemons[PARTIES - 1].submit(&plan, "data_set=ward", None);
    again.refused(409, "already taken part");
    // And another restart finds what it has read.
    group.assert_was_mute(&digest);
    assert_eq!(group.run(PARTIES - 1, &digest)["outcome"], "degraded");
}

/// Statistics, a model of two iterations, and a mean over numbers of records that START fixed, in
/// the phases between the mark and publishing: who restarts gets what the others have, and a
/// receipt that checks.
#[test]
fn of_every_computation_a_daemon_killed_behind_the_mark_reads_the_result() {
    let _alone = alone();
    let mut group = Group::new();
    let head =
        |task: &str| format!("version = 1\ntask = {task:?}\nname = {task:?}\n[data]\nnoise_ok = true\n");
    let timing = "[run]\njoin_ms = 20000\npace_ms = 100\n";
    let runs = [
        (
            ("describe", "mixing"),
            "records = { at_most = 50 }\n[describe]\n[[describe.column]]\nname = \"dose\"\nlow = 0\nhigh = 1\n\
             [[describe.column]]\nname = \"ill\"\ncategories = [0, 1]\n",
        ),
        (
            ("regression", "settling"),
            "records = 40\nshape = [2]\nclip = { kind = \"box\", low = 0.0, high = 1.0 }\n\
             [model]\nloss = \"logistic\"\ntarget = 1\niterations = 2\n",
        ),
        (
            ("mean", "settling"),
            "unit = \"record\"\nrecords = { at_most = 50 }\nshape = [2]\nclip = { kind = \"l2\", radius = 1.0 }\n",
        ),
    ];
    for ((task, phase), data) in runs {
        let run = head(task) + data + timing;
        let digest = group.submit_of("table", (task, &run), 0..PARTIES);
        group.kill(&digest, |event| event["phase"] == phase, Duration::ZERO);
        // In settling it may have sealed already: then its value counts.
        let mut ended: Vec<Value> = (0..PARTIES - 1)
            .map(|party| group.ended(party, &digest))
            .collect();
        ended.push(group.read_back(&digest));
        for run in ended {
            let is_good = run["outcome"] == "done" || run["outcome"] == "degraded";
            assert!(run["state"] == "ended" && is_good, "{run}");
        }
        assert!(!group.has_spoken_again(&digest), "it is mute");
        group.assert_same_result(task, &digest);
        group.assert_was_mute(&digest);
    }
}

/// A charge is on disk before the mark is: with the charge alone nothing more is said, either.
#[test]
fn a_daemon_killed_between_its_charge_and_its_mark_is_mute_and_reads_the_mean() {
    let _alone = alone();
    let mut group = Group::new();
    let digest = group.submit("charged", &format!("{RUN}pace_ms = 200\n"), 0..PARTIES);
    group.kill_for_good(&digest, |event| event["phase"] == "mixing", Duration::ZERO);
    let name = group.parties.names()[PARTIES - 1].clone();
    let marks = group.parties.path(&format!("{name}.key.spent/marks"));
    let text = std::fs::read_to_string(&marks).expect("marks");
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains(&digest)).collect();
    assert_eq!(kept.len() + 1, text.lines().count(), "{text}");
    std::fs::write(&marks, kept.join("\n") + "\n").expect("writable");
    group.daemons.push(group.start(PARTIES - 1));
    for party in 0..PARTIES - 1 {
        assert_eq!(group.ended(party, &digest)["outcome"], "degraded");
    }
    group.assert_read_back(&digest);
    group.assert_was_mute(&digest);
}

/// The moment between the outcome and the record of the run's end, which a full disk makes long.
#[test]
fn a_daemon_killed_with_its_result_written_finds_it_with_nobody_else_there() {
    let _alone = alone();
    let mut group = Group::new();
    let digest = group.submit("written", &format!("{RUN}pace_ms = 200\n"), 0..PARTIES);
    let last = PARTIES - 1;
    let name = group.parties.names()[last].clone();
    let folder = group.parties.path(&format!("{name}.state/runs/{digest}"));
    let events = format!("/v1/runs/{digest}/events");
    let is_mixing = |event: &Value| event["phase"] == "mixing";
    group.daemons[last].http.events(&events, &[], is_mixing);
    let begun = std::fs::read(folder.join("begun.json")).expect("it goes on");
    let before = group.ended(last, &digest);
    assert_eq!(before["outcome"], "done", "{before}");
    let receipt = std::fs::read(folder.join("receipt.json")).expect("a receipt");
    group.daemons.drain(..).for_each(|daemon| drop(daemon.kill()));
    std::fs::write(folder.join("begun.json"), begun).expect("ours");
    std::fs::remove_file(folder.join("run.json")).expect("its end");
    group.daemons = vec![group.start(last)];
    let started = Instant::now();
    let run = loop {
        let run = group.run(0, &digest);
        if run["state"] == "ended" || started.elapsed() > Duration::from_secs(30) {
            break run;
        }
    };
    for key in ["state", "outcome", "exit_code", "included", "epsilon", "charged"] {
        assert_eq!(run[key], before[key], "{key}");
    }
    let again = std::fs::read(folder.join("receipt.json")).expect("a receipt");
    assert!(again == receipt, "there are no two receipts of one run");
}

#[test]
fn a_daemon_killed_before_the_start_takes_part_again() {
    let _alone = alone();
    let mut group = Group::new();
    // All but one: nobody begins before it comes.
    let digest = group.submit("gathering", RUN, 1..PARTIES);
    group.kill(&digest, |event| event["event"] == "ready", Duration::ZERO);
    let run = group.daemons[PARTIES - 1].taken_up(&digest);
    assert!(run["state"] == "gathering" || run["state"] == "waiting", "{run}");
    let plan = std::fs::read(group.parties.path("gathering.json")).expect("a plan");
    group.daemons[0].submit(&plan, "data_set=ward", None).json_of(201);
    for party in 0..PARTIES {
        let run = group.ended(party, &digest);
        assert_eq!(
            (&run["outcome"], &run["exit_code"]),
            (&json!("done"), &json!(0)),
            "{run}"
        );
    }
    let means: Vec<Vec<u8>> = (0..PARTIES)
        .map(|party| std::fs::read(group.mean(party, &digest)).expect("a mean"))
        .collect();
    assert!(means.iter().all(|mean| *mean == means[0]));
}

/// One party of five has no daemon: it joins, and is killed in the middle.
#[test]
fn a_join_that_is_killed_reads_the_mean_that_the_daemons_have() {
    let _alone = alone();
    let mut group = Group::new();
    let last = PARTIES - 1;
    group.daemons.pop().expect("five").kill();
    let digest = group.submit("joined", &format!("{RUN}pace_ms = 200\n"), 0..last);
    let parties = &group.parties;
    let name = parties.names()[last].clone();
    let read_with = |key: &str, more: &str| {
        let words = format!(
            "result joined.json --from-peers --identity {key}.key --output read.npy --receipt read.json --json{more}"
        );
        run_in(parties.folder(), words.split(' '))
    };
    let read = |key: &str| read_with(key, "");
    read(&name).refused(4, "can still join").to_string();
    let arguments = parties.join("joined", last);
    let (running, mut events) = follow_in(parties.folder(), arguments);
    events.until("mixing", |event| event["phase"] == "mixing");
    signal(running.pid(), Signal::SIGKILL);
    running.wait();
    // The others go on without it.
    read(&name).refused(6, "take part still");
    for party in 0..last {
        assert_eq!(group.ended(party, &digest)["outcome"], "degraded");
    }
    // Of the four who have it three do not count any more, and one is not enough.
    let revoked: Vec<String> = parties.names()[..3]
        .iter()
        .map(|name| {
            let key = format!("{name}.key");
            parties.run(["identity", "revoke", "--identity", &key]).stdout
        })
        .collect();
    parties.write("revoked.txt", &revoked.concat());
    let known = " --keys revoked.txt --peers peers.toml";
    read_with(&name, known).refused(6, "or revoked, and cannot be asked");
    let found = read(&name).json_of(5);
    assert_eq!(found["included"], group.run(0, &digest)["included"]);
    let mean = std::fs::read(group.mean(0, &digest)).expect("a mean");
    assert!(std::fs::read(parties.path("read.npy")).expect("it has read it") == mean);
    let checked = parties.run([
        "receipt",
        "read.json",
        "--plan",
        "joined.json",
        "--mean",
        "read.npy",
        "--json",
    ]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
}

/// How many kills there are, by default; `KILLS` says another number.
const KILLS: u64 = 200;

/// A run that is killed at a moment which no phase marks: the one that restarts takes part to the
/// end, leaves, or reads what the others have, and its ledger has what left.
fn killed_at_a_random_moment(group: &mut Group, number: u64) -> &'static str {
    // Weyl's sequence: any first ones of them are spread evenly.
    let moment = (number as f64 * 0.618_033_988_749_895).fract();
    // About as long as the moments are spread over.
    let run = format!("{RUN}pace_ms = 140\n");
    let digest = group.submit(&format!("random-{number}"), &run, 0..PARTIES);
    group.kill(&digest, |_| true, Duration::from_secs_f64(1.5 * moment));
    let others: Vec<Value> = (0..PARTIES - 1)
        .map(|party| group.ended(party, &digest))
        .collect();
    for run in &others {
        assert!(
            run["outcome"] == "done" || run["outcome"] == "degraded",
            "{number}: {run}"
        );
    }
    let run = group.run(PARTIES - 1, &digest);
    let is_charged = run["charged"].as_f64() > Some(0.0);
    if run["state"] == "interrupted" {
        assert!(is_charged, "{number}: {run}");
        let run = group.read_back(&digest);
        if run["outcome"] == "done" {
            // Killed between its result and the record of its end.
            let mean = std::fs::read(group.mean(0, &digest)).expect("a mean");
            assert!(std::fs::read(group.mean(PARTIES - 1, &digest)).expect("a mean") == mean);
            assert!(!group.has_spoken_again(&digest), "it is mute");
            return "found its own";
        }
        group.assert_read_back(&digest);
        group.assert_was_mute(&digest);
        return "read back";
    }
    let run = group.ended(PARTIES - 1, &digest);
    match run["outcome"].as_str() {
        Some("aborted") => {
            assert!(
                run["charged"].is_null() && run["exit_code"] == 4,
                "{number}: {run}"
            );
            "left"
        }
        Some("done" | "degraded") => {
            assert!(run["charged"].as_f64() > Some(0.0), "{number}: {run}");
            let mean = std::fs::read(group.mean(0, &digest)).expect("a mean");
            assert!(std::fs::read(group.mean(PARTIES - 1, &digest)).expect("a mean") == mean);
            "has the mean"
        }
        _ => panic!("{number}: a healthy party is without a result: {run}"),
    }
}

fn kill_at_random(kills: u64) {
    let _alone = alone();
    let mut group = Group::new();
    let mut ends = std::collections::BTreeMap::<&str, u64>::new();
    for number in 0..kills {
        *ends
            .entry(killed_at_a_random_moment(&mut group, number))
            .or_default() += 1;
    }
    println!("{kills} kills: {ends:?}");
}

#[test]
fn six_kills_at_random_moments_leave_nobody_without_a_result_or_with_another_one() {
    kill_at_random(6);
}

/// `cargo test -p undertone-tests --test coming_back -- --ignored --nocapture`
#[test]
#[ignore = "a quarter of an hour; KILLS says how many"]
fn kills_at_random_moments_leave_nobody_without_a_result_or_with_another_one() {
    let kills = std::env::var("KILLS").ok().and_then(|text| text.parse().ok());
    kill_at_random(kills.unwrap_or(KILLS));
}
