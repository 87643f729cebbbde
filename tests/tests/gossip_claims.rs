//! What plans of gossip say of themselves: quotes and claims, attacks on them, and simulations of
//! what they predict.

use std::fs;
use std::path::Path;

use serde_json::Value;
use undertone_tests::{Parties, assert_close, read_json, run_in};

fn run_file(data: &str, graph: &str) -> String {
    format!(
        "version = 1\ntask = \"stream\"\nname = \"stream\"\n[data]\nshape = [50]\nclip = {{ kind = \"l2\", radius = 1.0 }}\n{data}\n\
         [privacy]\ndelta = 1e-5\n[mechanism]\nsums = \"open\"\n[topology]\nprivate = \"{graph}\"\n"
    )
}

fn number(object: &Value, key: &str) -> f64 {
    let found = object[key].as_f64();
    found.unwrap_or_else(|| panic!("{key}: {object}"))
}

fn simulate(folder: &Path, flags: &str) -> Value {
    let line = format!("simulate run.toml --parties 8 --json {flags}");
    run_in(folder, line.split_whitespace()).json_of(0)
}

/// Measured noise is the accounted one, with the spread of so many numbers; kills cost terms and
/// nothing else.
#[test]
fn simulated_estimates_are_off_as_was_accounted() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for data in ["releases = 20", ""] {
        fs::write(folder.join("run.toml"), run_file(data, "ring")).expect("writable");
        let calm = simulate(folder, "--runs 60 --seed 3");
        // At least as many independent numbers as one node has.
        let deviation = 5.0 / (2.0 * 60.0 * 50.0f64).sqrt();
        assert_close(
            &calm["rms_noise"],
            number(&calm, "standard_error"),
            deviation,
            "noise of last rows",
        );
        let off = number(&calm, "rms_error").powi(2) - number(&calm, "rms_noise").powi(2);
        assert!(
            off.abs() < 2.0 * number(&calm, "spread").powi(2) + 0.02 * number(&calm, "rms_error").powi(2)
        );
        assert_close(
            &calm["local"],
            7f64.sqrt() * number(&calm, "error_floor"),
            1e-6,
            "local noise",
        );
        assert!(calm["finished"] == 480 && calm["missed_messages"] == 0 && calm["agreed"].is_null());
        assert!(calm["endings"]["done"] == 480 && calm["violations"] == serde_json::json!([]));
        assert_close(
            &calm["epsilon"],
            number(&calm, "epsilon_claimed"),
            1e-9,
            "all have left",
        );
        let kills = simulate(folder, "--runs 20 --kills 2 --seed 4");
        assert!(number(&kills, "missed_messages") > 0.0, "{kills}");
        assert!(
            kills["rms_noise"].is_null() && kills["endings"]["degraded"].as_u64() > Some(0),
            "{kills}"
        );
        // Fewer are averaged, and some terms are missing: more noise, within reason.
        let more = number(&kills, "rms_error") / number(&calm, "standard_error");
        assert!((0.9..1.6).contains(&more), "{more}");
    }
    // Sums of everybody have uniform noise, and all the same.
    let sums = "sums = \"everybody\"";
    let run = run_file("releases = 6", "ring").replace("sums = \"open\"", sums);
    fs::write(folder.join("run.toml"), run).expect("writable");
    for kills in [0, 1] {
        let summed = simulate(folder, &format!("--runs 8 --kills {kills} --seed 5"));
        let error = number(&summed, "rms_error") / number(&summed, "standard_error");
        let deviation = 5.0 / (2.0 * 8.0 * 50.0f64).sqrt();
        assert!(
            (error - 1.0).abs() < deviation + 0.1 * f64::from(kills),
            "{error}"
        );
        assert!(
            summed["epsilon"].as_f64() <= summed["epsilon_claimed"].as_f64(),
            "{summed}"
        );
        assert!(summed["violations"] == serde_json::json!([]) && summed["spread"] == 0.0);
        assert!(number(&summed, "error_floor") * 1.2 > number(&summed, "standard_error"));
    }
    fs::write(folder.join("run.toml"), run_file("", "ring")).expect("writable");
    let refused = |flags: &str, field: &str| {
        let line = format!("simulate run.toml --parties 8 --json {flags}");
        run_in(folder, line.split_whitespace()).refused_at(2, field);
    };
    refused("--direct", "--direct");
    refused("--kill-phase publishing", "--kill-phase");
}

/// The headline stays below what is claimed; with 40 % less noise it does not.
#[test]
fn an_attack_finds_out_too_little_noise() {
    let parties = Parties::new(6);
    for data in ["releases = 6", ""] {
        parties.plan("plan", &run_file(data, "ring"));
        let audit = |flags: &str| {
            let line = format!("audit plan.json --json --pairs 200000 {flags}");
            run_in(parties.folder(), line.split_whitespace()).json_of(0)
        };
        let (honest, short) = (audit(""), audit("--noise-scale 0.6"));
        assert!(
            number(&honest, "epsilon_lower") < number(&honest, "epsilon_claimed")
                && number(&honest, "epsilon_lower") > 0.5,
            "{honest}"
        );
        assert!(
            number(&short, "epsilon_lower") > number(&short, "epsilon_claimed"),
            "{short}"
        );
    }
}

/// What strangers learn stands beside the headline, and nowhere where rows may follow estimates.
#[test]
fn quotes_say_what_neighbours_and_strangers_learn() {
    let parties = Parties::new(8);
    let quote = |data: &str, graph: &str| {
        parties.plan("plan", &run_file(data, graph));
        let plan = read_json(&parties.path("plan.json"));
        let text = parties.run(["verify", "plan.json", "--full"]);
        assert_eq!(text.code, 0, "{}", text.stderr);
        let words = text.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        (plan["claims"].as_array().expect("a list").clone(), words)
    };
    let local = "Open gossip is local noise against a neighbour: 2.65 times the floor at n = 8";
    let (claims, text) = quote("releases = 20", "ring");
    let apart: Vec<&Value> = claims.iter().filter(|it| it["adversary"] == "apart").collect();
    let [apart] = apart[..] else {
        panic!("one of strangers: {claims:?}")
    };
    assert!(apart["faults"] == "none" && apart["established"] == "exhaustive" && apart["size"] == 1);
    assert!(apart["holds_as_headline"] == false && claims[0]["holds_as_headline"] == true);
    assert!(number(apart, "epsilon") < 0.6 * number(&claims[0], "epsilon"));
    for line in [
        local,
        "A stranger, who is a neighbour of a party in no round, reaches 0.247 of",
        "a remark, never the headline",
        "whose rounding adds at most",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let (claims, text) = quote("releases = 20\nadaptive = true", "ring");
    assert!(claims.len() == 1 && claims[0]["faults"] == "any");
    assert!(
        text.contains("nothing is said of strangers") && text.contains(local),
        "{text}"
    );
    let (claims, text) = quote("releases = 20", "complete");
    assert!(
        claims.len() == 1 && text.contains("Nobody is a stranger"),
        "{text}"
    );
    let (claims, text) = quote("", "ring");
    assert!(claims.len() == 1 && !text.contains("stranger"), "{text}");
}

/// The run file of a stream whose neighbours read sums, against so many who collude or depart.
fn of_circles(graph: &str, colluding: usize, dropouts: usize) -> String {
    let sums = "sums = \"neighbours\"";
    run_file("releases = 20", "GRAPH")
        .replace("\"GRAPH\"", graph)
        .replace("sums = \"open\"", sums)
        .replace(
            "[privacy]\n",
            &format!("[privacy]\ncolluding = {colluding}\ndropouts = {dropouts}\n"),
        )
}

/// What counts of secure sums is what the worst readers learn of them together: quotes name them,
/// and warn where sums hide next to nothing.
#[test]
fn quotes_of_sums_name_the_worst_readers() {
    let parties = Parties::new(8);
    let quote = |run: &str| {
        parties.plan("plan", run);
        let object = parties.run(["verify", "plan.json", "--json"]).json_of(0);
        (object, parties.run(["verify", "plan.json"]).stdout)
    };
    let (ring, text) = quote(&of_circles("\"ring\"", 1, 0));
    let floors = number(&ring["predicted"], "standard_error") / number(&ring["predicted"], "error_floor");
    assert!(number(&ring["worst_readers"], "part_of_open") < 0.51, "{ring}");
    assert!(
        floors < 2.2 && !text.contains("NEXT TO NOTHING"),
        "{floors} {text}"
    );
    assert!(text.contains("Nobody reads a message") && text.contains("open messages' squared loss"));
    let class = &ring["claims"][0];
    assert!(class["faults"] == "class" && class["established"] == "exhaustive" && class["sealed"] == true);
    assert!(
        class["holds_as_headline"] == true && number(class, "epsilon") <= 1.0,
        "{class}"
    );
    let audit = |flags: &str| {
        let line = format!("audit plan.json --json --pairs 100000 {flags}");
        run_in(parties.folder(), line.split_whitespace()).json_of(0)
    };
    let (honest, short) = (audit(""), audit("--noise-scale 0.6"));
    assert!(
        number(&honest, "epsilon_lower") < number(&honest, "epsilon_claimed"),
        "{honest}"
    );
    assert!(
        number(&short, "epsilon_lower") > number(&short, "epsilon_claimed"),
        "{short}"
    );
    // A complete graph less one edge: what its two ends read differs in one message.
    let mut edges = vec![];
    for one in 0..8 {
        let others = (one + 1..8).filter(|&other| (one, other) != (2, 5));
        let names = parties.names();
        edges.extend(others.map(|other| format!("[\"{}\", \"{}\"]", names[one], names[other])));
    }
    let less = format!("{{ kind = \"edges\", edges = [{}] }}", edges.join(", "));
    let (less, text) = quote(&of_circles(&less, 1, 1));
    let worst = &less["worst_readers"];
    assert!(number(worst, "part_of_open") > 0.99, "{worst}");
    let ends = [&parties.names()[2], &parties.names()[5]];
    let readers = worst["readers"].to_string();
    assert!(
        ends.iter().any(|end| readers.contains(&format!("\"{end}\""))),
        "{worst}"
    );
    assert!(ends.iter().any(|end| worst["party"] == end.as_str()), "{worst}");
    for words in [
        "THESE SUMS HIDE NEXT TO NOTHING",
        "The way out is sums = \"everybody\"",
        worst["party"].as_str().expect("a name"),
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (whole, text) = quote(&of_circles("\"complete\"", 1, 1));
    assert!(number(&whole["worst_readers"], "part_of_open") < 0.4, "{whole}");
    assert!(!text.contains("NEXT TO NOTHING"), "{text}");
}

#[test]
fn only_streams_of_gossip_follow_their_estimates() {
    let parties = Parties::new(4);
    for (run, words) in [
        (run_file("adaptive = true", "ring"), "data.releases of 2 or more"),
        (
            run_file("adaptive = true", "ring")
                .replace("task = \"stream\"\n", "")
                .replace("sums = \"open\"", "kind = \"inca\""),
            "belongs to task = \\\"stream\\\"",
        ),
    ] {
        parties.write("refused.toml", &run);
        let line = "plan refused.toml --peers peers.toml --out refused.json --json";
        let refused = run_in(parties.folder(), line.split(' ')).refused_at(2, "data.adaptive");
        assert!(refused.to_string().contains(words), "{refused}");
    }
}
