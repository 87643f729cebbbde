//! `undertone account` as a binary: every vector that an independent implementation gave us, and
//! what it refuses.
//!
//! The vectors lie beside the accountant's own tests. Their numbers come from an independent
//! implementation; the trade-off's were checked there against 60-digit arithmetic.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use undertone_tests::{Ended, assert_close, read_json, run_in};

fn vectors(name: &str) -> Value {
    read_json(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../accountant/tests/vectors")
            .join(name),
    )
}

fn gaussian(flags: [(&str, f64); 2]) -> Value {
    let arguments = flags
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_owned(), format!("{value:?}")]);
    let ended = run_in(
        Path::new("."),
        ["account", "gaussian", "--json"]
            .map(String::from)
            .into_iter()
            .chain(arguments),
    );
    ended.json_of(0)
}

#[test]
fn gaussian_answers_every_vector() {
    let vectors = vectors("gaussian.json");
    let cases = [
        ("delta_of_epsilon_mu", ["epsilon", "mu"], "delta", 1e-9),
        ("mu_of_epsilon_delta", ["epsilon", "delta"], "mu", 1e-9),
        ("epsilon_of_delta_mu", ["delta", "mu"], "epsilon", 1e-8),
    ];
    for (table, given, asked, tolerance) in cases {
        let rows = vectors[table].as_array().expect("rows");
        assert!(rows.len() >= 20, "{table} has {} rows", rows.len());
        for row in rows {
            let number = |i: usize| row[i].as_f64().expect("a number");
            let [first, second] = given;
            let answer = gaussian([
                (&format!("--{first}"), number(0)),
                (&format!("--{second}"), number(1)),
            ]);
            let what = format!("{asked} of {first} = {}, {second} = {}", number(0), number(1));
            assert_close(&answer[asked], number(2), tolerance, &what);
            assert_eq!(
                answer[first].as_f64(),
                Some(number(0)),
                "{what}: what was given comes back"
            );
            assert_eq!(
                answer[second].as_f64(),
                Some(number(1)),
                "{what}: what was given comes back"
            );
            let mu = answer["mu"].as_f64().expect("a number");
            assert_close(&answer["noise_multiplier"], 1.0 / mu, 1e-12, "noise multiplier");
        }
    }
}

#[test]
fn gaussian_has_values_at_its_edges() {
    // ε = 0: δ = Φ(μ/2) − Φ(−μ/2), the total variation distance; 2Φ(1/2) − 1 from tables.
    let answer = gaussian([("--epsilon", 0.0), ("--mu", 1.0)]);
    assert_close(&answer["delta"], 0.382_924_922_548_026, 1e-9, "total variation");
    // No noise needed for nothing learnt; and what is learnt from nothing is nothing.
    let answer = gaussian([("--delta", 0.1), ("--mu", 0.0)]);
    assert_eq!(answer["epsilon"].as_f64(), Some(0.0));
    assert_eq!(
        answer["noise_multiplier"],
        Value::Null,
        "1/0 is not a JSON number"
    );
    // A δ that is met without any ε.
    assert_eq!(
        gaussian([("--delta", 0.5), ("--mu", 1e-3)])["epsilon"].as_f64(),
        Some(0.0)
    );
    // What is lost rounds towards more: the answer, asked back, is not below what was given.
    let mu = gaussian([("--epsilon", 1.0), ("--delta", 1e-6)])["mu"]
        .as_f64()
        .expect("a number");
    let delta = gaussian([("--epsilon", 1.0), ("--mu", mu)])["delta"]
        .as_f64()
        .expect("a number");
    assert!(
        (1e-6 * (1.0 - 1e-6)..=1e-6 * (1.0 + 1e-9)).contains(&delta),
        "{delta:e}"
    );
}

#[test]
fn gaussian_refuses_what_makes_no_sense() {
    let ask = |arguments: &str| {
        run_in(
            Path::new("."),
            format!("account gaussian --json {arguments}").split_whitespace(),
        )
    };
    for (arguments, field) in [
        ("", "--epsilon"),
        ("--epsilon 1", "--delta"),
        ("--epsilon 1 --delta 0.1 --mu 1", "--mu"),
        ("--epsilon -1 --delta 0.1", "--epsilon"),
        ("--epsilon nan --delta 0.1", "--epsilon"),
        ("--epsilon inf --mu 1", "--epsilon"),
        ("--epsilon 1 --delta 0", "--delta"),
        ("--epsilon 1 --delta 1", "--delta"),
        ("--mu 1 --delta -0.5", "--delta"),
        ("--mu -1 --delta 0.1", "--mu"),
        ("--mu nan --delta 0.1", "--mu"),
    ] {
        ask(arguments).refused_at(2, field);
    }
    ask("--epsilon much --delta 0.1").refused(2, "--epsilon");
    ask("--sigma 1").refused(2, "--sigma");
}

struct Account {
    folder: tempfile::TempDir,
}

impl Account {
    fn new() -> Self {
        Account {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("execution.json")
    }

    fn ask_text(&self, execution: &str, flags: &str) -> Ended {
        std::fs::write(self.file(), execution).expect("writable");
        self.ask(flags)
    }

    fn ask(&self, flags: &str) -> Ended {
        run_in(
            self.folder.path(),
            format!("account inca execution.json --json {flags}").split_whitespace(),
        )
    }
}

/// Uniform correlated noise: the losses of an independent implementation, and what goes with it.
#[test]
fn uniform_noise_answers_every_vector() {
    let account = Account::new();
    let vectors = vectors("floor.json");
    let of_kind = |case: &&Value| case["kind"] == "uniform";
    let cases: Vec<&Value> = vectors["vectors"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(of_kind)
        .collect();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let (name, given) = (&case["name"], &case["given"]);
        let flags = format!(
            "--correlated uniform --independent-std {} --sensitivity {} --delta 1e-6",
            given["independent_std"], given["sensitivity"]
        );
        let answer = account
            .ask_text(&given["execution"].to_string(), &flags)
            .json_of(0);
        let expected = case["expected"]["losses"].as_object().expect("losses");
        assert_eq!(
            answer["losses"].as_object().map(|it| it.len()),
            Some(expected.len()),
            "{name}"
        );
        for (party, loss) in expected {
            assert_close(
                &answer["losses"][party],
                loss.as_f64().expect("a loss"),
                1e-9,
                &format!("{name}: {party}"),
            );
        }
    }
    account
        .ask("--correlated uniform --independent-std 1 --correlated-std 1 --delta 1e-6")
        .refused_at(2, "--correlated-std");
    account
        .ask("--independent-std 1 --delta 1e-6")
        .refused(2, "--correlated-std");
    let twice = r#"{"parties": 3, "rounds": 1, "injection": "incremental", "corrupted": [],
        "out": [[[1, 2], [0, 2], [0, 1]]]}"#;
    let fanout = account.ask_text(twice, "--correlated uniform --independent-std 1 --delta 1e-6");
    fanout.refused(7, "execution.json");
}

fn check_inca(file: &str, beyond_the_paper: bool) {
    let account = Account::new();
    let cases = vectors(file);
    let cases = cases["cases"].as_array().expect("cases");
    assert!(cases.len() >= 8, "{file} has {} cases", cases.len());
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let number = |key: &str| case[key].as_f64().unwrap_or_else(|| panic!("{name}: {key}"));
        let (independent, correlated) = (
            number("independent_variance").sqrt(),
            number("correlated_variance").sqrt(),
        );
        let sensitivity = case
            .get("sensitivity")
            .and_then(Value::as_f64)
            .map_or(String::new(), |s| format!("--sensitivity {s:?}"));
        let flags = format!(
            "--independent-std {independent:?} --correlated-std {correlated:?} --delta {:?} {sensitivity}",
            number("delta")
        );
        let answer = account
            .ask_text(&case["execution"].to_string(), &flags)
            .json_of(0);
        let expect = &case["expect"];
        for key in ["mu", "epsilon"] {
            match expect[key].as_f64() {
                Some(expected) => assert_close(&answer[key], expected, 1e-8, &format!("{name}: {key}")),
                None => assert!(
                    answer[key].is_null() && answer["unbounded"] == true,
                    "{name}: {key} is {}",
                    answer[key]
                ),
            }
        }
        if let Some(mu) = expect["mu"].as_f64() {
            assert_close(&answer["mu"], mu, 1e-9, &format!("{name}: mu"));
        }
        check_losses(name, &answer["losses"], &expect["losses"]);
        let weights = expect["weights"].as_array().expect("weights");
        assert_eq!(
            answer["weights"].as_array().map(Vec::len),
            Some(weights.len()),
            "{name}"
        );
        for (party, weight) in weights.iter().enumerate() {
            assert_close(
                &answer["weights"][party],
                weight.as_f64().expect("a number"),
                1e-9,
                &format!("{name}: weight {party}"),
            );
        }
        assert_eq!(answer["honest"], expect["honest"], "{name}");
        for key in ["independent_vectors", "rank_condition", "strongly_connected"] {
            if beyond_the_paper {
                assert_eq!(
                    answer[key],
                    Value::Null,
                    "{name}: {key} is the paper's, for executions of the paper"
                );
            } else {
                assert_eq!(answer[key], expect[key], "{name}: {key}");
            }
        }
    }
}

/// Squared losses agree to 1e-9; of parties whose loss is nothing but rounding (1e-33 of the
/// largest) only that is asked.
fn check_losses(name: &str, found: &Value, expected: &Value) {
    let (found, expected) = (
        found.as_object().expect("losses"),
        expected.as_object().expect("losses"),
    );
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "{name}: the honest parties"
    );
    let largest = expected.values().filter_map(Value::as_f64).fold(0.0, f64::max);
    for (party, loss) in expected {
        let what = format!("{name}: loss of {party}");
        match loss.as_f64() {
            Some(loss) if loss > 1e-12 * largest => assert_close(&found[party], loss, 1e-9, &what),
            Some(_) => {
                assert!(
                    found[party]
                        .as_f64()
                        .is_some_and(|l| (0.0..=1e-12 * largest).contains(&l)),
                    "{what}: {}",
                    found[party]
                )
            }
            None => assert!(found[party].is_null(), "{what}: {}", found[party]),
        }
    }
}

#[test]
fn inca_answers_every_vector_of_the_paper() {
    check_inca("inca.json", false);
}

#[test]
fn inca_answers_every_vector_with_fates_and_roll_back() {
    check_inca("inca_shares.json", true);
}

/// Three parties, two rounds, rings to either side: nothing wrong with it.
fn sound() -> Value {
    let out = [[[1], [2], [0]], [[2], [0], [1]]];
    json!({"parties": 3, "rounds": 2, "injection": "incremental", "out": out, "corrupted": [2]})
}

/// What may be wrong in an execution file: where, the value, and what the refusal speaks of.
fn wrongs() -> [(&'static str, Value, &'static str); 22] {
    [
        ("/corrupted", json!([3]), "corrupted"),
        ("/corrupted", json!([-1]), "line"),
        ("/out/1/2", json!([7]), "out"),
        ("/out/0/0", json!([0]), "out"),
        ("/out/0/0", json!([1, 1]), "out"),
        ("/out", json!([[[1], [2], [0]]]), "out"),
        (
            "/online",
            json!([[true, false, true], [true, true, true], [true, true, true]]),
            "online",
        ),
        ("/online", json!([[true, true, true]]), "online"),
        (
            "/shares",
            json!([{"round": 1, "from": 0, "to": 2, "fate": "returned"}]),
            "shares",
        ),
        (
            "/shares",
            json!([{"round": 3, "from": 0, "to": 1, "fate": "returned"}]),
            "shares",
        ),
        (
            "/shares",
            json!([{"round": 0, "from": 0, "to": 1, "fate": "returned"}]),
            "shares",
        ),
        (
            "/shares",
            json!([{"round": 2, "from": 0, "to": 2, "fate": "accepted", "applied": 1}]),
            "shares",
        ),
        (
            "/shares",
            json!([{"round": 1, "from": 0, "to": 1, "fate": "eaten"}]),
            "eaten",
        ),
        ("/rolled_back", json!([9]), "rolled_back"),
        ("/published", json!([5]), "published"),
        ("/sensitivity", json!([1.0]), "sensitivity"),
        ("/sensitivity", json!([1.0, -1.0, 1.0]), "sensitivity"),
        ("/injection", json!("sometimes"), "injection"),
        (
            "/injection",
            json!({"c": [0.5, 0.5], "z": [[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]]}),
            "injection",
        ),
        (
            "/injection",
            json!({"c": [0.25, 0.25, 0.5], "z": [[1.0, 0.0], [-1.0, 1.0], [0.0, 1.0]]}),
            "injection",
        ),
        ("/parties", json!(1_000_000_000_000_u64), "parties"),
        ("/colour", json!("blue"), "colour"),
    ]
}

const FLAGS: &str = "--independent-std 1 --correlated-std 2 --delta 1e-5";

#[test]
fn inca_names_the_place_of_what_an_execution_file_has_wrong() {
    let account = Account::new();
    account.ask_text(&sound().to_string(), FLAGS).json_of(0);
    for (pointer, value, about) in wrongs() {
        let mut execution = sound();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let place = execution.pointer_mut(parent).expect("the parent is there");
        match place {
            Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value.clone(),
            other => other[key] = value.clone(),
        }
        let ended = account.ask_text(&execution.to_string(), FLAGS);
        assert_eq!(
            ended.code, 7,
            "{pointer} = {value}: {}{}",
            ended.stdout, ended.stderr
        );
        ended.refused(7, about);
    }
}

#[test]
fn inca_refuses_files_that_are_none_and_flags_out_of_range() {
    let account = Account::new();
    account.ask(FLAGS).refused_at(7, "EXECUTION.json");
    for text in [
        "",
        "{\"parties\": 3,",
        "a,b\n1,2\n",
        "[]",
        "null",
        &"[".repeat(100_000),
    ] {
        account.ask_text(text, FLAGS).refused_at(7, "execution.json");
    }
    std::fs::write(account.file(), [0xff, 0xfe, 0x00]).expect("writable");
    account.ask(FLAGS).refused(7, "execution.json");
    std::fs::write(account.file(), sound().to_string()).expect("writable");
    for (flags, field) in [
        ("--independent-std 1 --correlated-std 2 --delta 0", "--delta"),
        ("--independent-std 1 --correlated-std 2 --delta 1.5", "--delta"),
        (
            "--independent-std -1 --correlated-std 2 --delta 0.1",
            "--independent-std",
        ),
        (
            "--independent-std 1 --correlated-std nan --delta 0.1",
            "--correlated-std",
        ),
        (
            "--independent-std 1 --correlated-std 2 --delta 0.1 --sensitivity -2",
            "--sensitivity",
        ),
    ] {
        account.ask(flags).refused_at(2, field);
    }
    account
        .ask("--independent-std 1 --delta 0.1")
        .refused(2, "--correlated-std");
}

#[test]
fn an_unbounded_loss_is_an_answer() {
    let account = Account::new();
    let answer = account
        .ask_text(
            &sound().to_string(),
            "--independent-std 0 --correlated-std 0 --delta 1e-5",
        )
        .json_of(0);
    assert!(
        answer["mu"].is_null() && answer["epsilon"].is_null() && answer["unbounded"] == true,
        "{answer}"
    );
}

#[test]
fn people_get_a_table() {
    let account = Account::new();
    std::fs::write(account.file(), sound().to_string()).expect("writable");
    let ended = run_in(
        account.folder.path(),
        format!("account inca execution.json {FLAGS}").split_whitespace(),
    );
    assert_eq!(ended.code, 0);
    assert!(
        ended.stdout.contains("honest party") && ended.stdout.contains("largest: μ = "),
        "{}",
        ended.stdout
    );
}
