//! Gossip averaging with open messages, in processes: one value and streams, on several graphs; who
//! dies in mid-stream; what quotes and receipts say; and what is refused.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::daemon::Daemon;
use undertone_tests::{
    Parties, Signal, alone, assert_close, follow_in, killed, npy_shape, read_json, read_npy, receipt, run_in,
    signal_if_alive, write_npy,
};

const PARTIES: usize = 6;
const RELEASES: usize = 12;
const COLUMNS: usize = 3;

/// What party `party` measures in round `round`, from 1.
fn measured(party: usize, round: usize) -> [f64; COLUMNS] {
    [0.1 * party as f64, 0.05 * round as f64, -0.2]
}

/// What the estimates' last row would be without noise.
fn added_up() -> Vec<f64> {
    let mean = |round: usize, column: usize| {
        (0..PARTIES)
            .map(|party| measured(party, round)[column])
            .sum::<f64>()
            / PARTIES as f64
    };
    (0..COLUMNS)
        .map(|column| (1..=RELEASES).map(|round| mean(round, column)).sum())
        .collect()
}

/// Deadlines that nobody comes to, on a machine with other work, too.
const PATIENT: &str = "join_ms = 60000\nround_ms = 60000\nsettle_ms = 60000\n";

fn run_file(lines: &str, graph: &str, run: &str) -> String {
    format!(
        "version = 1\ntask = \"stream\"\nname = \"telemetry\"\n[data]\nnoise_ok = true\nclip = {{ kind = \"l2\", radius = 1.0 }}\n\
         {lines}\n[privacy]\nepsilon = 8.0\ncolluding = 1\n[mechanism]\nsums = \"open\"\n[topology]\n\
         private = {graph}\n[run]\n{PATIENT}{run}"
    )
}

fn write_stream(folder: &Path, rows: usize) {
    fs::create_dir(folder.join("rows")).expect("writable");
    for party in 0..PARTIES {
        let values: Vec<f64> = (1..=rows).flat_map(|round| measured(party, round)).collect();
        write_npy(
            &folder.join(format!("rows/node-{party}.npy")),
            &[rows, COLUMNS],
            &values,
        );
    }
}

const LOCAL: &str = "local --inputs rows --run run.toml --output kept --json";

#[test]
fn a_stream_gives_every_node_a_row_for_each_release() {
    let _alone = alone();
    let graphs = [
        "\"complete\"",
        "\"ring\"",
        "{ kind = \"random-regular\", degree = 4 }",
    ];
    for graph in graphs {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        write_stream(folder, RELEASES);
        let run = run_file(&format!("releases = {RELEASES}"), graph, "");
        fs::write(folder.join("run.toml"), run).expect("writable");
        let object = run_in(folder, LOCAL.split(' ')).json_of(0);
        assert_eq!(
            (&object["outcome"], &object["finished"], &object["agreed"]),
            (&json!("done"), &json!(PARTIES), &Value::Null),
            "{graph}: {object}"
        );
        assert_close(&object["iterations"]["run"], RELEASES as f64, 0.0, "rounds");
        let plan = read_json(&folder.join("kept/plan.json"));
        assert!(plan["out"].is_null() && plan["edges"].as_array().expect("edges").len() == RELEASES);
        let std = plan["mechanism"]["independent_std"].as_f64().expect("a number");
        let truth = added_up();
        for party in 0..PARTIES {
            let (_, header, rows) = read_npy(&folder.join(format!("kept/node-{party}/mean.npy")));
            assert_eq!(npy_shape(&header), [RELEASES, COLUMNS]);
            // Noise of the sum is at most that of a party's own, in each release.
            let receipt = receipt::of_local(&folder.join("kept"), &format!("node-{party}"));
            let (error, spread) = (&receipt["standard_error"], &receipt["spread"]);
            let (error, spread) = (
                error.as_f64().expect("an error"),
                spread.as_f64().expect("a spread"),
            );
            assert!(error > 0.0 && error < std * (RELEASES as f64).sqrt());
            for (found, truth) in rows[COLUMNS * (RELEASES - 1)..].iter().zip(&truth) {
                assert!(
                    (found - truth).abs() < 7.0 * error + spread,
                    "{graph}: {found}, truth {truth} ± {error}, {spread}"
                );
            }
            assert_eq!(
                (&receipt["agreed"], &receipt["execution"], &receipt["outcome"]),
                (&Value::Null, &Value::Null, &json!("done"))
            );
            assert_eq!(receipt["faults"], json!([]));
            // What is claimed is what all releases together cost, against anybody.
            assert_close(&receipt["epsilon"], 8.0, 1e-4, "what was asked for");
            assert!(receipt["epsilon"].as_f64() <= Some(8.0));
        }
        if graph == graphs[0] {
            let reported = run_in(
                folder,
                ["receipt", "kept/node-1/receipt.json", "--plan", "kept/plan.json"],
            );
            let line = "The estimates are this party's own, after 12 of 12 rounds";
            assert!(
                reported.code == 0 && reported.stdout.contains(line),
                "{}{}",
                reported.stdout,
                reported.stderr
            );
            let quote = run_in(folder, ["verify", "kept/plan.json", "--full"]);
            let line = "Open gossip is local noise against a neighbour: 2.24 times the floor at n = 6";
            assert!(quote.code == 0 && quote.stdout.contains(line), "{}", quote.stdout);
        }
    }
}

#[test]
fn one_value_ends_near_the_mean_everywhere() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_stream(folder, 1);
    for party in 0..PARTIES {
        let path = folder.join(format!("rows/node-{party}.npy"));
        write_npy(&path, &[COLUMNS], &measured(party, 1));
    }
    fs::write(
        folder.join("run.toml"),
        run_file("", "\"ring\"", "accuracy = 0.01\n"),
    )
    .expect("writable");
    let object = run_in(folder, LOCAL.split(' ')).json_of(0);
    let rounds = object["rounds"].as_u64().expect("a count");
    assert!((10..100).contains(&rounds), "{rounds}");
    assert!(object["largest_difference"].as_f64() < Some(0.05), "{object}");
    let (found, error) = (&object["rms_error"], &object["standard_error"]);
    let (found, error) = (
        found.as_f64().expect("an error"),
        error.as_f64().expect("an error"),
    );
    assert!(found < 5.0 * error, "{object}");
    let (_, header, _) = read_npy(&folder.join("kept/node-0/mean.npy"));
    assert_eq!(npy_shape(&header), [COLUMNS]);
}

const VICTIM: &str = "node-2";

/// Runs a stream and kills a node once it has told of its fourth release: the folder, what `local`
/// said at its end, and the last release that the node told of. `run`: the run file with this line.
fn killed_after_the_fourth_release(
    pace_ms: u64,
    run: impl Fn(&str) -> String,
) -> (tempfile::TempDir, Value, u64) {
    let end = RefCell::new(None);
    killed::in_time(pace_ms, |pace_ms| {
        let folder = tempfile::tempdir().expect("a folder");
        write_stream(folder.path(), RELEASES);
        let run = run(&format!("pace_ms = {pace_ms}\n"));
        fs::write(folder.path().join("run.toml"), run).expect("writable");
        let (running, mut events) = follow_in(folder.path(), LOCAL.split(' '));
        let pids = events.spawned(PARTIES);
        events.until("the fourth release", |e| {
            e["event"] == "iteration" && e["party"] == *VICTIM && e["k"] == 4
        });
        let started = pids.iter().find(|(name, _)| name == VICTIM);
        signal_if_alive(started.expect("it was started").1, Signal::SIGKILL);
        let last = killed::in_stream(&events.rest(), VICTIM, RELEASES);
        let ended = running.wait();
        let Some(last) = last else { return false };
        let object = ended.json_of(5);
        assert_eq!(object["finished"], PARTIES - 1, "{object}");
        *end.borrow_mut() = Some((folder, object, last));
        true
    });
    end.into_inner().expect("the last attempt's")
}

/// Nobody stops: the others' files have all their rows, and say who is missing since when.
#[test]
fn a_node_that_dies_in_mid_stream_is_left_out_and_nobody_stops() {
    let _alone = alone();
    for graph in ["\"ring\"", "\"complete\""] {
        let run = |pace: &str| run_file(&format!("releases = {RELEASES}"), graph, pace);
        let (folder, object, _) = killed_after_the_fourth_release(200, run);
        let (folder, victim) = (folder.path(), VICTIM);
        for party in (0..PARTIES).filter(|party| *party != 2) {
            let name = format!("node-{party}");
            let (_, header, _) = read_npy(&folder.join(format!("kept/{name}/mean.npy")));
            assert_eq!(npy_shape(&header), [RELEASES, COLUMNS]);
            let receipt = receipt::of_local(&folder.join("kept"), &name);
            let neighbour = graph == "\"complete\"" || [1, 3].contains(&party);
            let (outcome, departed) = match neighbour {
                true => ("degraded", json!([victim])),
                false => ("done", json!([])),
            };
            assert_eq!(
                (&receipt["outcome"], &receipt["departed"]),
                (&json!(outcome), &departed)
            );
            assert_eq!(object["exit_codes"][&name], if neighbour { 5 } else { 0 });
            let faults = receipt["faults"].to_string();
            assert_eq!(
                faults.contains("messages of node-2 did not come, the first in round"),
                neighbour
            );
            assert_close(&receipt["epsilon"], 8.0, 1e-4, "all releases have left");
        }
    }
}

/// A run file of a stream of which everybody reads one sum a round, over no private edge but a
/// ring's.
fn summed_file(run: &str) -> String {
    let stages = "settle_ms = 60000\nround_ms = 240000\n";
    run_file(&format!("releases = {RELEASES}"), "\"ring\"", run)
        .replace("sums = \"open\"", "sums = \"everybody\"")
        .replace("round_ms = 60000\nsettle_ms = 60000\n", stages)
}

fn rows_of(folder: &Path, party: usize) -> Vec<f64> {
    let (_, header, rows) = read_npy(&folder.join(format!("kept/node-{party}/mean.npy")));
    assert_eq!(npy_shape(&header), [RELEASES, COLUMNS]);
    rows
}

#[test]
fn everybody_reads_one_sum_of_each_round() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_stream(folder, RELEASES);
    fs::write(folder.join("run.toml"), summed_file("")).expect("writable");
    let object = run_in(folder, LOCAL.split(' ')).json_of(0);
    let expected = (json!("done"), json!(PARTIES), json!(true), json!(true));
    let found = ["outcome", "finished", "agreed", "same_bits"].map(|key| object[key].clone());
    assert_eq!(found, <[Value; 4]>::from(expected), "{object}");
    let plan = read_json(&folder.join("kept/plan.json"));
    let mechanism = &plan["mechanism"];
    assert_eq!(
        (&plan["computation"]["task"], &mechanism["kind"]),
        (&json!("stream"), &json!("pairwise"))
    );
    let std = mechanism["independent_std"].as_f64().expect("a number");
    let error = std * (RELEASES as f64 / PARTIES as f64).sqrt();
    let rows = rows_of(folder, 0);
    for (found, truth) in rows[COLUMNS * (RELEASES - 1)..].iter().zip(added_up()) {
        assert!(
            (found - truth).abs() < 7.0 * error,
            "{found}, truth {truth} ± {error}"
        );
    }
    for party in 0..PARTIES {
        assert_eq!(rows_of(folder, party), rows);
        let receipt = receipt::of_local(&folder.join("kept"), &format!("node-{party}"));
        assert_close(&receipt["standard_error"], error, 1e-9, "of the last row");
        // Nobody departed: a value is hidden among one more than was claimed.
        let epsilon = receipt["epsilon"].as_f64().expect("a bound");
        assert!(epsilon < 7.1 && epsilon > 7.0, "{epsilon}");
        assert_eq!(receipt["iterations"]["spent"], RELEASES);
    }
    let receipt = ["receipt", "kept/node-1/receipt.json", "--plan", "kept/plan.json"];
    let reported = run_in(folder, receipt);
    let line = "The sums are everybody's, the means of 12 of 12 rounds";
    assert!(
        reported.code == 0 && reported.stdout.contains(line),
        "{}{}",
        reported.stdout,
        reported.stderr
    );
    let quote = run_in(folder, ["verify", "kept/plan.json", "--full"]);
    let line = "One colluder can end the stream in any round";
    assert!(quote.code == 0 && quote.stdout.contains(line), "{}", quote.stdout);
}

/// Nobody takes the place of whoever dies: the others go on, with the same rows, and say since when
/// they are without it.
#[test]
fn a_node_that_dies_in_a_stream_of_sums_is_replaced_by_nobody() {
    let _alone = alone();
    let (folder, _, last) = killed_after_the_fourth_release(300, summed_file);
    let folder = folder.path();
    let rows = rows_of(folder, 0);
    let mut errors = vec![];
    for party in (0..PARTIES).filter(|party| *party != 2) {
        assert_eq!(rows_of(folder, party), rows);
        let receipt = receipt::of_local(&folder.join("kept"), &format!("node-{party}"));
        let since = receipt["iterations"]["departed"][VICTIM]
            .as_u64()
            .expect("a round");
        // It had contributed to the next one, perhaps, and opened that without revealing it.
        assert!((last + 1..=last + 3).contains(&since), "{since}, after {last}");
        assert_eq!(receipt["outcome"], "degraded");
        assert!(
            receipt["epsilon"].as_f64() <= Some(8.0 * (1.0 + 1e-9)),
            "{receipt}"
        );
        errors.push(receipt["standard_error"].as_f64().expect("an error"));
    }
    let plan = read_json(&folder.join("kept/plan.json"));
    let std = plan["mechanism"]["independent_std"].as_f64().expect("a number");
    let of_all = std * (RELEASES as f64 / PARTIES as f64).sqrt();
    assert!(
        errors
            .iter()
            .all(|&error| error > of_all * 1.01 && error == errors[0]),
        "{errors:?}"
    );
}

/// A run file of a stream of which each node reads the sum of its neighbours.
fn circles_file(graph: &str, run: &str) -> String {
    let stages = "settle_ms = 60000\nround_ms = 240000\n";
    run_file(&format!("releases = {RELEASES}"), graph, run)
        .replace("sums = \"open\"", "sums = \"neighbours\"")
        .replace("round_ms = 60000\nsettle_ms = 60000\n", stages)
}

#[test]
fn neighbours_read_one_sum_of_each_round() {
    let _alone = alone();
    for graph in ["\"complete\"", "{ kind = \"random-regular\", degree = 4 }"] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        write_stream(folder, RELEASES);
        fs::write(folder.join("run.toml"), circles_file(graph, "")).expect("writable");
        let object = run_in(folder, LOCAL.split(' ')).json_of(0);
        assert_eq!(
            (&object["outcome"], &object["finished"]),
            (&json!("done"), &json!(PARTIES)),
            "{graph}: {object}"
        );
        let plan = read_json(&folder.join("kept/plan.json"));
        assert_eq!(plan["mechanism"]["sums"], "neighbours");
        assert!(plan["out"].is_null() && plan["edges"].as_array().expect("edges").len() == RELEASES);
        for party in 0..PARTIES {
            let receipt = receipt::of_local(&folder.join("kept"), &format!("node-{party}"));
            let of = |key: &str| receipt[key].as_f64().expect("a number");
            let rows = rows_of(folder, party);
            for (found, truth) in rows[COLUMNS * (RELEASES - 1)..].iter().zip(added_up()) {
                let off = (found - truth).abs();
                assert!(off < 7.0 * of("standard_error") + of("spread"), "{graph}: {off}");
            }
            assert!(of("epsilon") <= 8.0 && of("epsilon") > 7.9, "{receipt}");
            assert_eq!(receipt["iterations"]["spent"], RELEASES);
            assert_eq!(receipt["opened_for"], json!([]));
            assert_eq!(
                (&receipt["faults"], &receipt["agreed"]),
                (&json!([]), &Value::Null)
            );
        }
        let reported = ["receipt", "kept/node-1/receipt.json", "--plan", "kept/plan.json"];
        let reported = run_in(folder, reported);
        assert_eq!(reported.code, 0, "{}{}", reported.stdout, reported.stderr);
        let quote = run_in(folder, ["verify", "kept/plan.json", "--full"]);
        let line = "One colluder can end it in any round";
        assert!(quote.code == 0 && quote.stdout.contains(line), "{}", quote.stdout);
    }
}

/// The others go on without whoever dies, with one set a round.
#[test]
fn a_node_that_dies_in_a_stream_of_circles_is_left_out() {
    let _alone = alone();
    let run = |pace: &str| circles_file("\"complete\"", pace);
    let (folder, _, _) = killed_after_the_fourth_release(300, run);
    let folder = folder.path();
    for party in (0..PARTIES).filter(|party| *party != 2) {
        let receipt = receipt::of_local(&folder.join("kept"), &format!("node-{party}"));
        assert_eq!(rows_of(folder, party).len(), RELEASES * COLUMNS);
        assert_eq!(
            (&receipt["outcome"], &receipt["departed"]),
            (&json!("degraded"), &json!([VICTIM]))
        );
        let faults = receipt["faults"].to_string();
        assert!(
            faults.contains("messages of node-2 did not come, the first in round"),
            "{faults}"
        );
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_stream(folder, 3);
    let refused = |lines: &str, mechanism: &str, code: i32, about: &str| {
        let run = run_file(lines, "\"ring\"", "");
        let run = run.replace("sums = \"open\"", &format!("sums = \"open\"\n{mechanism}"));
        fs::write(folder.join("run.toml"), run).expect("writable");
        run_in(folder, LOCAL.split(' ')).refused(code, about);
    };
    refused("releases = 4", "", 7, "3 rows, the plan has 4 releases");
    refused("releases = 3\nunit = \"record\"", "", 2, "data.unit");
    refused("releases = 3", "fanout = 2", 2, "mechanism.fanout");
    refused("releases = 3", "rounds = 4", 2, "mechanism.rounds");
    refused(
        "releases = 3",
        "edges = { degree = 0 }",
        2,
        "mechanism.edges.degree",
    );
    // On a ring the two others of a circle are as many as may be against a party.
    let of_sums = |(releases, sums): (&str, &str), code: i32, about: &str| {
        let run = run_file(releases, "\"ring\"", "").replace("settle_ms = 60000", "settle_ms = 15000");
        let run = run.replace("sums = \"open\"", &format!("sums = {sums}"));
        fs::write(folder.join("run.toml"), run).expect("writable");
        run_in(folder, LOCAL.split(' ')).refused(code, about);
    };
    let three = "releases = 3";
    of_sums((three, "\"neighbours\""), 2, "privacy.colluding");
    of_sums(
        (three, "\"everybody\"\ncorrelated = \"gaussian\""),
        2,
        "mechanism.correlated",
    );
    of_sums((three, "\"everybody\"\nrounds = 4"), 2, "mechanism.rounds");
    of_sums(
        ("releases = 1", "\"everybody\""),
        2,
        "the secure sum of everybody",
    );
    // And gossip's keys with nothing else.
    let other = "version = 1\n[data]\nclip = { kind = \"l2\", radius = 1.0 }\n[mechanism]\nedges = \"all\"\n";
    fs::write(folder.join("run.toml"), other).expect("writable");
    run_in(folder, LOCAL.split(' ')).refused(2, "mechanism.edges");
}

/// Streams in daemons: charged as a whole, and the estimates are for local callers.
#[test]
fn daemons_carry_a_stream() {
    let _alone = alone();
    let parties = Parties::new(4);
    let text = "version = 1\ntask = \"stream\"\nname = \"stream\"\n[data]\nnoise_ok = true\nshape = [3]\nreleases = 5\n\
                [mechanism]\nsums = \"open\"\n[topology]\nprivate = \"ring\"\n[run]\njoin_ms = 60000\n\
                round_ms = 60000\n";
    let digest = parties.plan("stream", text);
    let start = |party: usize| {
        let configuration =
            "[[data_set]]\nname = \"rows\"\nfile = \"rows.npy\"\nepsilon = 1.5\ndelta = 1e-5\n";
        Daemon::configure(&parties, party, configuration);
        let rows: Vec<f64> = (1..=5).flat_map(|round| measured(party, round)).collect();
        let file = parties.path(&format!("{}.data/rows.npy", parties.names()[party]));
        write_npy(&file, &[5, COLUMNS], &rows);
        Daemon::start(&parties, party, configuration)
    };
    let daemons: Vec<Daemon> = (0..4).map(start).collect();
    let plan = fs::read(parties.path("stream.json")).expect("a plan");
    for daemon in &daemons {
        daemon.submit(&plan, "data_file=rows.npy", None).json_of(201);
    }
    for daemon in &daemons {
        let path = format!("/v1/runs/{digest}");
        daemon.http.events(&format!("{path}/events"), &[], |_| false);
        let run = daemon.http.get(&path).json_of(200);
        assert_eq!(run["outcome"], "done", "{run}");
        let receipt = daemon.http.get(&format!("{path}/receipt")).json_of(200);
        receipt::assert_complete(&receipt);
        let mu = receipt["mu"].as_f64().expect("a loss");
        assert!(run["charged"].as_f64() >= Some(mu * mu * (1.0 - 1e-9)), "{run}");
        assert_close(&receipt["epsilon"], 1.0, 1e-4, "all five releases");
        assert_eq!(receipt["iterations"]["spent"], 5);
        let result = daemon.http.get(&format!("{path}/result"));
        assert!(result.status == 200, "{}", result.status);
        assert!(String::from_utf8_lossy(&result.body).contains("(5, 3"));
    }
    daemons.into_iter().map(Daemon::end).for_each(drop);
}
