//! `undertone account ppsc`, `gossip` and `compose` as a binary: every vector that an independent
//! implementation gave us, the keys of node/guide/formats.md, and what is refused.

use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::{Ended, assert_close, read_json, run_in};

fn vectors(name: &str) -> Value {
    read_json(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../accountant/tests/vectors")
            .join(name),
    )
}

/// A folder with one input file, asked about by flags.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("writable");
    }

    fn ask(&self, arguments: &str) -> Ended {
        run_in(
            self.0.path(),
            format!("account {arguments} --json").split_whitespace(),
        )
    }
}

fn keys(object: &Value) -> Vec<&str> {
    object
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn ppsc_answers_the_vectors() {
    let folder = Folder::new();
    for sequence in vectors("ppsc.json")["sequences"].as_array().expect("sequences") {
        let name = sequence["name"].as_str().expect("a name");
        folder.write("execution.json", &sequence["execution"].to_string());
        let bare = folder
            .ask("ppsc execution.json --pairwise-std 2 --delta 1e-6")
            .json_of(0);
        assert!(
            bare["mu"].is_null() && bare["epsilon"].is_null() && bare["unbounded"] == true,
            "{name}: {bare}"
        );
        assert_eq!(
            (&bare["sum_revealed"], &bare["delta"]),
            (&json!(true), &json!(1e-6)),
            "{name}"
        );
        let least = sequence["smallest_singular_value"].as_f64().expect("a number");
        assert_close(&bare["smallest_singular_value"], least, 1e-9, name);
        let rank = sequence["rank_of_D"].as_u64().expect("a number") as usize;
        assert_eq!(
            bare["components"].as_array().map(Vec::len),
            Some(10 - rank),
            "{name}"
        );
        for row in sequence["replace_one_losses_with_independent_noise"]
            .as_array()
            .expect("rows")
        {
            let flags = format!(
                "--pairwise-std {} --independent-std {} --delta 1e-6",
                row[0], row[1]
            );
            let answer = folder.ask(&format!("ppsc execution.json {flags}")).json_of(0);
            let losses = row[2]
                .as_array()
                .expect("losses")
                .iter()
                .map(|loss| loss.as_f64().expect("a number"));
            assert_close(&answer["mu"], losses.fold(0.0, f64::max).sqrt(), 1e-9, name);
            assert_eq!(answer["sum_revealed"], false, "{name}: η* hides the sum");
            assert!(
                answer.get("unbounded").is_none() && answer["epsilon"].is_f64(),
                "{name}: {answer}"
            );
        }
    }
}

#[test]
fn ppsc_scales_with_the_sensitivity_and_says_where_a_file_is_wrong() {
    let folder = Folder::new();
    let path = json!({"parties": 4, "edges": [[[1, 0]], [[2, 3]], [[1, 2]]]});
    folder.write("execution.json", &path.to_string());
    let flags = "--pairwise-std 4 --independent-std 2 --delta 1e-5";
    let one = folder.ask(&format!("ppsc execution.json {flags}")).json_of(0);
    let three = folder
        .ask(&format!("ppsc execution.json {flags} --sensitivity 3"))
        .json_of(0);
    assert_close(
        &one["same_sum_mu"],
        2f64.sqrt() / 4.0,
        1e-9,
        "the path of four, above Theorem 1",
    );
    for key in ["mu", "same_sum_mu"] {
        assert_close(
            &three[key],
            3.0 * one[key].as_f64().expect("a number"),
            1e-12,
            key,
        );
    }
    for (key, value, place) in [
        ("parties", json!(0), "parties"),
        ("edges", json!([[[1, 4]]]), "edges[0][0][1]"),
        ("edges", json!([[[1, 1]]]), "edges[0][0][1]"),
        ("corrupted", json!([9]), "corrupted[0]"),
        ("crashed", json!([[1, 0]]), "crashed[0][1]"),
        (
            "exchanges",
            json!([{"iteration": 1, "out": 0, "in": 1, "fate": "lost"}]),
            "exchanges[0].in",
        ),
        (
            "exchanges",
            json!([{"iteration": 2, "out": 2, "in": 3, "fate": "returned", "applied": 1}]),
            "exchanges[0].applied",
        ),
        ("rolled_back", json!([4]), "rolled_back[0]"),
        ("sensitivity", json!([1, 1, 1]), "sensitivity"),
        ("sensitivity", json!([1, 1, -1, 1]), "sensitivity[2]"),
        ("rounds", json!(3), "rounds"),
    ] {
        let mut execution = path.clone();
        execution[key] = value;
        folder.write("execution.json", &execution.to_string());
        folder
            .ask(&format!("ppsc execution.json {flags}"))
            .refused(7, place);
    }
    folder
        .ask(&format!("ppsc missing.json {flags}"))
        .refused_at(7, "EXECUTION.json");
    folder.write("execution.json", &path.to_string());
    folder
        .ask("ppsc execution.json --pairwise-std 1 --delta 0")
        .refused_at(2, "--delta");
    folder
        .ask("ppsc execution.json --pairwise-std -1 --delta 0.1")
        .refused_at(2, "--pairwise-std");
}

#[test]
fn gossip_answers_the_vectors() {
    let folder = Folder::new();
    let vectors = vectors("gossip.json");
    for (name, graph) in vectors["graphs"].as_object().expect("graphs") {
        let edges = graph["edges"].as_array().expect("edges").iter();
        folder.write(
            name,
            &edges
                .map(|edge| format!("{} {}\n", edge[0], edge[1]))
                .collect::<String>(),
        );
    }
    // The library's tests answer all of them; processes take their time.
    for case in vectors["cases"].as_array().expect("cases").iter().step_by(5) {
        let text = |key: &str| case[key].as_str().expect("a string");
        let observers: Vec<String> = case["observers"]
            .as_array()
            .expect("a list")
            .iter()
            .map(Value::to_string)
            .collect();
        let flags = format!(
            "gossip --graph {} --weights {} --rounds {} --target {} --observers {} --view {} --observers-noise {}",
            text("graph"),
            text("weights"),
            case["rounds"],
            case["target"],
            observers.join(","),
            text("view"),
            text("observers_noise")
        );
        let answer = folder.ask(&flags).json_of(0);
        for key in ["sensitivity_squared_lower", "sensitivity_squared_upper"] {
            match case[key].as_f64() {
                Some(0.0) => assert!(
                    answer[key].as_f64().is_some_and(|found| found.abs() < 1e-14),
                    "{flags}: {answer}"
                ),
                Some(expected) => assert_close(&answer[key], expected, 1e-9, &flags),
                None => assert!(
                    answer[key].is_null() && answer["unbounded"] == true,
                    "{flags}: {answer}"
                ),
            }
        }
    }
}

#[test]
fn gossip_runs_are_accounted_for() {
    let folder = Folder::new();
    let vectors = vectors("gossip_execution.json");
    // The library's tests answer all of them; processes take their time.
    for vector in vectors["executions"].as_array().expect("runs").iter().step_by(7) {
        folder.write("run.json", &vector["execution"].to_string());
        let answer = folder.ask("gossip --execution run.json").json_of(0);
        assert_eq!(
            keys(&answer),
            ["delta", "epsilon", "losses", "mu", "noise_error", "weight_error"]
        );
        for (party, loss) in vector["losses"].as_object().expect("losses") {
            for key in ["lower", "upper", "one"] {
                let expected = loss[key].as_f64().expect("a number");
                assert_close(&answer["losses"][party][key], expected, 1e-9, "a loss");
            }
        }
        for key in ["noise_error", "weight_error"] {
            let expected = vector[key].as_f64().expect("a number");
            assert_close(&answer[key], expected, 1e-9, key);
        }
    }
    let base = "gossip --execution run.json";
    let one = folder.ask(base).json_of(0);
    let two = folder
        .ask(&format!("{base} --sensitivity 2 --delta 1e-5"))
        .json_of(0);
    let mu = |answer: &Value| answer["mu"].as_f64().expect("a number");
    assert!((mu(&two) / mu(&one) - 2.0).abs() < 1e-9 && two["delta"] == json!(1e-5));
    folder.ask(&format!("{base} --delta 2")).refused_at(2, "--delta");
    folder
        .ask(&format!("{base} --sensitivity -1"))
        .refused_at(2, "--sensitivity");
    folder.ask(&format!("{base} --rounds 3")).refused(2, "--rounds");
    folder.ask("gossip --delta 0.1").refused(2, "--execution");
    folder
        .ask("gossip --execution none.json")
        .refused_at(7, "--execution");
    folder.write("run.json", "{\"parties\": 2}");
    folder.ask(base).refused_at(7, "run.json");
}

#[test]
fn gossip_defaults_and_refusals() {
    let folder = Folder::new();
    folder.write("path.txt", "# a path\n0 1\n1 2\n2 1\n");
    let base = "gossip --graph path.txt --weights metropolis";
    let answer = folder
        .ask(&format!("{base} --rounds 3 --target 2 --observers 0"))
        .json_of(0);
    assert_eq!(
        keys(&answer),
        ["sensitivity_squared_lower", "sensitivity_squared_upper"]
    );
    let said = format!("{base} --rounds 3 --target 2 --observers 0 --view sum --observers-noise unknown");
    assert_eq!(folder.ask(&said).json_of(0), answer);
    for (flags, field) in [
        ("--rounds 0 --target 2 --observers 0", "--rounds"),
        ("--rounds 3 --target 3 --observers 0", "--target"),
        ("--rounds 3 --target 2 --observers 0,5", "--observers"),
        ("--rounds 3 --target 2 --observers 0,0", "--observers"),
        ("--rounds 99999 --target 2 --observers 0", "--rounds"),
    ] {
        folder.ask(&format!("{base} {flags}")).refused_at(2, field);
    }
    folder
        .ask(&format!("{base} --rounds 3 --target -1 --observers 0"))
        .refused(2, "-1");
    folder
        .ask(&format!("{base} --rounds 3 --target 0 --observers x"))
        .refused(2, "--observers");
    for (text, place) in [
        ("0 1\n1 one\n", "line 2"),
        ("0 1\n1 1\n", "line 2"),
        ("0 1\n\n2 3\n", "line 3"),
        ("0 1 2\n", "line 1"),
        ("", "no edge"),
    ] {
        folder.write("path.txt", text);
        folder
            .ask(&format!("{base} --rounds 3 --target 1 --observers 0"))
            .refused(7, place);
        folder
            .ask(&format!("{base} --rounds 3 --target 1 --observers 0"))
            .refused_at(7, "path.txt");
    }
    folder
        .ask("gossip --graph none.txt --weights metropolis --rounds 1 --target 1 --observers 0")
        .refused_at(7, "--graph");
}

#[test]
fn gossip_asks_every_observer_and_draws_what_they_learn() {
    let folder = Folder::new();
    folder.write("ring.txt", "0 1\n1 2\n2 3\n3 4\n4 0\n");
    let base = "gossip --graph ring.txt --weights metropolis --rounds 5";
    let all = folder
        .ask(&format!("{base} --observers all --plot pairs.svg"))
        .json_of(0);
    assert_eq!(
        (&all["pairs"], &all["nodes"], &all["rounds"]),
        (&json!(20), &json!(5), &json!(5))
    );
    // On a ring it only matters how far apart two nodes are.
    let upper = |target: usize| {
        let one = folder
            .ask(&format!("{base} --observers 0 --target {target}"))
            .json_of(0);
        one["sensitivity_squared_upper"].as_f64().expect("a number")
    };
    let (near, far) = (upper(1), upper(2));
    let largest = all["sensitivity_squared_upper"].as_f64().expect("a number");
    assert!(largest >= near && largest <= 5.0, "{largest} {near}");
    let quantile = |percent: f64| {
        let found = all["quantiles"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|pair| pair[0] == percent)
            .expect("a quantile");
        found[1].as_f64().expect("a number")
    };
    assert!(quantile(25.0) >= far && quantile(75.0) >= near, "{all}");
    let binned: u64 = all["histogram"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|bin| bin[2].as_u64())
        .sum();
    assert_eq!(binned, 20, "{all}");
    let svg = std::fs::read_to_string(folder.0.path().join("pairs.svg")).expect("drawn");
    for text in [
        "20 pairs, 5 nodes, T = 5",
        "squared sensitivity",
        "nothing is hidden",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    let of_two = folder
        .ask(&format!("{base} --observers all --target 2"))
        .json_of(0);
    assert_eq!(of_two["pairs"], json!(4));
    assert_close(
        &of_two["sensitivity_squared_upper"],
        largest,
        1e-9,
        "every node of a ring is as exposed as any other",
    );
    for (flags, field) in [
        ("--observers 0", "--target"),
        ("--observers 0 --target 1 --plot x.svg", "--plot"),
        ("--observers all --target 5", "--target"),
        ("--observers all --plot nowhere/x.svg", "--plot"),
    ] {
        folder.ask(&format!("{base} {flags}")).refused_at(2, field);
    }
    folder
        .ask("gossip --graph ring.txt --weights metropolis --rounds 0 --observers all")
        .refused_at(2, "--rounds");
    folder
        .ask(&format!("{base} --observers every --target 1"))
        .refused(2, "--observers");
}

/// A receipt that says what its run cost, and no more than it must.
fn receipt(digest: &str, mu: Value) -> Value {
    let (party, outcome) = ("alice", "done");
    json!({"version": 1, "digest": digest, "party": party, "outcome": outcome, "mu": mu})
}

#[test]
fn releases_of_different_protection_do_not_compose() {
    let folder = Folder::new();
    folder.write("a.json", &receipt("aa", json!(0.3)).to_string());
    let of_records = |digest: &str, unit: &str, adjacency: &str| {
        let mut receipt = receipt(digest, json!(0.4));
        receipt["unit"] = json!(unit);
        receipt["adjacency"] = json!(adjacency);
        receipt["sampling_delta"] = json!(1e-8);
        receipt["epsilon"] = json!(2.0);
        receipt.to_string()
    };
    folder.write("rows.json", &of_records("ee", "record", "replace-one"));
    folder.write("whole.json", &of_records("ff", "party", "replace-one"));
    folder.write("zeroed.json", &of_records("gg", "record", "zero-out"));
    folder.write("more.json", &of_records("hh", "record", "replace-one"));
    for other in ["whole.json", "zeroed.json"] {
        folder
            .ask(&format!("compose rows.json a.json {other} --delta 1e-6"))
            .refused_at(2, other);
    }
    let answer = folder
        .ask("compose rows.json more.json a.json --delta 1e-6")
        .json_of(0);
    let distance = 1e-8 / (1.0 + 2f64.exp());
    let added = (1.0 + answer["epsilon"].as_f64().expect("a number").exp()) * 2.0 * distance;
    assert_close(
        &answer["sampling_delta"],
        added,
        1e-9,
        "of two runs, at the ε of all",
    );
}

/// Draws and sampling count in the δ of all: the noise has what is left of it.
#[test]
fn what_draws_and_sampling_add_is_composed_too() {
    let folder = Folder::new();
    let drawn = |digest: &str, mu: Value, tries: u64, outcome: &str| {
        let mut receipt = receipt(digest, mu);
        receipt["outcome"] = json!(outcome);
        receipt["draw"] = json!({ "tries": tries, "most": 3, "chance": 2e-7, "delta": 1e-6 });
        folder.write(&format!("{digest}.json"), &receipt.to_string());
    };
    drawn("aa", json!(0.3), 1, "done");
    drawn("bb", json!(0.4), 2, "done");
    drawn("cc", json!(0.0), 1, "aborted");
    drawn("dd", json!(0.0), 0, "aborted");
    let answer = folder
        .ask("compose aa.json bb.json cc.json dd.json --delta 1e-6")
        .json_of(0);
    assert_close(
        &answer["draw_delta"],
        6e-7,
        1e-9,
        "what was revealed, begun or not",
    );
    assert_eq!(answer["sampling_delta"], json!(0.0));
    let alone = folder.ask("gaussian --mu 0.5 --delta 4e-7").json_of(0);
    let epsilon = alone["epsilon"].as_f64().expect("a number");
    assert_close(&answer["epsilon"], epsilon, 1e-8, "at the rest of δ");
    // At a δ that the draws alone use up nothing is bounded.
    let none = folder.ask("compose aa.json bb.json --delta 3e-7").json_of(0);
    assert_eq!(
        (&none["epsilon"], &none["unbounded"]),
        (&Value::Null, &json!(true))
    );
    assert_close(&none["mu"], 0.5, 1e-9, "the noise is what it was");
    // A sum that was cut off at 1 says nothing of what it was of.
    let mut open = receipt("ee", json!(6.0));
    (open["sampling_delta"], open["epsilon"]) = (json!(1.0), json!(31.0));
    folder.write("ee.json", &open.to_string());
    let cut = folder.ask("compose ee.json --delta 1e-2").json_of(0);
    assert_eq!(cut["unbounded"], json!(true), "{cut}");
    let plain = "account compose --mu 0.3 --delta 1e-6".split_whitespace();
    let reported = run_in(folder.0.path(), plain).stdout;
    assert!(
        reported.contains("of which 0.0e0 for draws") && !reported.contains("-0"),
        "{reported}"
    );
}

#[test]
fn releases_compose() {
    let folder = Folder::new();
    folder.write("a.json", &receipt("aa", json!(0.3)).to_string());
    folder.write("b.json", &receipt("bb", json!(0.4)).to_string());
    let answer = folder
        .ask("compose a.json b.json --mu 1.2 --delta 1e-6")
        .json_of(0);
    assert_close(&answer["mu"], 1.3, 1e-9, "√(0.09 + 0.16 + 1.44)");
    let alone = folder.ask("gaussian --mu 1.3 --delta 1e-6").json_of(0);
    assert_close(
        &answer["epsilon"],
        alone["epsilon"].as_f64().expect("a number"),
        1e-9,
        "one conversion, at the end",
    );
    assert_eq!((&answer["releases"], &answer["delta"]), (&json!(3), &json!(1e-6)));
    let one = folder.ask("compose --guarantee 1,1e-6 --delta 1e-6").json_of(0);
    assert!(
        one["epsilon"]
            .as_f64()
            .is_some_and(|epsilon| (1.0..1.0 + 1e-9).contains(&epsilon)),
        "{one}"
    );
    let mut open = receipt("cc", Value::Null);
    open["unbounded"] = json!(true);
    folder.write("c.json", &open.to_string());
    let answer = folder.ask("compose a.json c.json --delta 1e-6").json_of(0);
    assert!(
        answer["mu"].is_null() && answer["epsilon"].is_null() && answer["unbounded"] == true,
        "{answer}"
    );
    folder.write("again.json", &receipt("aa", json!(0.3)).to_string());
    folder
        .ask("compose a.json again.json --delta 1e-6")
        .refused_at(2, "again.json");
    folder.write("broken.json", "{\"digest\": \"dd\"}");
    folder
        .ask("compose broken.json --delta 1e-6")
        .refused_at(7, "broken.json");
    folder
        .ask("compose none.json --delta 1e-6")
        .refused(7, "none.json");
    for (flags, field) in [
        ("--delta 1e-6", "--mu"),
        ("--mu 1 --delta 0", "--delta"),
        ("--mu -1 --delta 0.1", "--mu"),
        ("--guarantee 1,0 --delta 0.1", "--guarantee"),
    ] {
        folder.ask(&format!("compose {flags}")).refused_at(2, field);
    }
    folder
        .ask("compose --guarantee 1 --delta 0.1")
        .refused(2, "--guarantee");
}
