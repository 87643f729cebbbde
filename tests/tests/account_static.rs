//! `undertone account static` as a binary: what an independent program found, and what is refused.

use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::{Ended, assert_close, read_json, run_in};

fn ask(arguments: &str) -> Ended {
    let arguments = format!("account static {arguments} --json");
    run_in(Path::new("."), arguments.split_whitespace())
}

#[test]
fn it_answers_every_vector() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../accountant/tests/vectors/floor.json");
    let vectors = read_json(&beside);
    let cases = vectors["vectors"].as_array().expect("a list").iter();
    let cases: Vec<&Value> = cases.filter(|case| case["kind"] == "static").collect();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let given = &case["given"];
        let answer = ask(&format!(
            "--parties {} --removed {} --rounds {} --share-faults {}",
            given["parties"], given["removed"], given["rounds"], given["share_faults"]
        ))
        .json_of(0);
        let expected = case["expected"]["ln_p"].as_f64().expect("a number");
        assert_close(&answer["ln_p"], expected, 1e-6, &case["name"].to_string());
        assert!(answer["ln_p"].as_f64() >= Some(expected), "never below: {answer}");
    }
}

#[test]
fn it_says_how_many_rounds_are_enough() {
    let answer = ask("--parties 200 --removed 40 --rounds 10").json_of(0);
    assert_eq!(answer["rounds"], json!({"1e-9": 9, "1e-12": 11}));
    let few = ask("--parties 3 --removed 1 --rounds 4").json_of(0);
    assert_eq!(few["rounds"], json!({"1e-9": 31, "1e-12": 41}));
    // Of three, the two who stay meet in one of three pairings: 2 (2/3)^T, either of them apart.
    let pairs = ask("--parties 3 --removed 1 --rounds 10 --draw pairings").json_of(0);
    assert_close(
        &pairs["ln_p"],
        2f64.ln() + 10.0 * (2.0f64 / 3.0).ln(),
        1e-7,
        "pairings",
    );
    let many = ask("--parties 200 --removed 40 --rounds 20 --draw pairings").json_of(0);
    assert!(many["ln_p"].as_f64() < Some(1e-8f64.ln()), "{many}");
}

#[test]
fn what_is_out_of_range_is_refused_by_its_flag() {
    for (arguments, flag) in [
        ("--parties 1 --removed 0 --rounds 1", "--parties"),
        ("--parties 5001 --removed 0 --rounds 1", "--parties"),
        ("--parties 8 --removed 7 --rounds 1", "--removed"),
        ("--parties 8 --removed 1 --rounds 0", "--rounds"),
        ("--parties 8 --removed 1 --rounds 64", "--rounds"),
        (
            "--parties 8 --removed 2 --rounds 3 --share-faults 5",
            "--share-faults",
        ),
    ] {
        ask(arguments).refused_at(2, flag);
    }
}
