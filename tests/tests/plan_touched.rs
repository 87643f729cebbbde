//! Plans that somebody touched, and what is none: `verify` refuses them, each with what is wrong.

use serde_json::{Value, json};
use undertone_tests::{Parties, read_json};

/// Uniformly random residues and sealed finals: the default.
const UNIFORM: &str = "version = 1\nname = \"test\"\n[data]\nshape = [40]\n[mechanism]\nrounds = 4\n";

/// The papers' noise, of which every coalition is computed.
const GAUSSIAN: &str = "version = 1\nname = \"test\"\n[data]\nshape = [40]\n[mechanism]\nrounds = 4\ncorrelated = \"gaussian\"\n";

/// Four parties with a plan.
fn planned(run: &str) -> Parties {
    let parties = Parties::new(4);
    parties.plan("plan", run);
    parties
}

/// What somebody may touch in a plan: where, the value instead, and what the refusal speaks of.
fn touches(plan: &Value) -> [(&'static str, Value, &'static str); 23] {
    let number = |pointer: &str| {
        plan.pointer(pointer)
            .and_then(Value::as_f64)
            .unwrap_or_else(|| panic!("{pointer}"))
    };
    let scaled = |pointer: &str, factor: f64| json!(number(pointer) * factor);
    let swapped = {
        let mut round = plan["out"][1].clone();
        let all = round.as_array_mut().expect("parties");
        all.swap(0, 1);
        if all[0][0] == 0 || all[1][0] == 1 {
            all.swap(1, 2);
        }
        round
    };
    [
        (
            "/mechanism/independent_std",
            scaled("/mechanism/independent_std", 0.9),
            "",
        ),
        (
            "/mechanism/independent_std",
            scaled("/mechanism/independent_std", 1.0 - 1e-5),
            "",
        ),
        ("/mechanism/independent_std", json!(-1.0), "independent_std"),
        ("/claims/0/mu", scaled("/claims/0/mu", 0.99), "claims"),
        ("/claims/0/epsilon", scaled("/claims/0/epsilon", 0.99), "claims"),
        ("/claims/0/delta", json!(1e-5), "claims"),
        ("/claims/0/size", json!(2), "claims"),
        ("/claims/0/cases", json!(1_000_000), "claims"),
        ("/claims", json!([]), "claims"),
        ("/privacy/epsilon", json!(0.5), ""),
        ("/privacy/delta", json!(1e-7), ""),
        ("/privacy/colluding", json!(2), ""),
        ("/out/1", swapped, ""),
        ("/out/1/0", json!([0]), "out"),
        ("/out/1/0", json!([17]), "out"),
        ("/mechanism/rounds", json!(3), ""),
        ("/mechanism/wire_bytes", json!(1), ""),
        (
            "/predicted/standard_error",
            scaled("/predicted/standard_error", 0.9),
            "predicted",
        ),
        ("/members/0/sensitivity", json!(1.0), "sensitivity"),
        ("/members/1/id", plan["members"][0]["id"].clone(), "members"),
        ("/run/min_parties", json!(1), "min_parties"),
        ("/run/quorum", json!(2), "run.quorum"),
        ("/version", json!(2), "version"),
    ]
}

/// What somebody may touch that only a plan with Gaussian noise, or one with sealed finals, has.
fn own_touches(plan: &Value) -> Vec<(&'static str, Value, &'static str)> {
    match plan.pointer("/mechanism/correlated_std").and_then(Value::as_f64) {
        Some(std) => vec![
            ("/mechanism/correlated_std", json!(std / 2.0), ""),
            ("/mechanism/correlated_std", json!(0.0), ""),
            ("/claims/0/sealed", json!(true), "claims.0.sealed"),
        ],
        None => vec![
            ("/mechanism/correlated_std", json!(1.0), "correlated_std"),
            ("/claims/0/sealed", json!(false), "claims[0]"),
            ("/claims/1/sealed", json!(false), "claims[1]"),
            ("/claims/2/sealed", json!(true), "claims[2]"),
            ("/claims/1/size", json!(3), "claims[1]"),
            (
                "/predicted/standard_error_correcting",
                json!(0.1),
                "standard_error_correcting",
            ),
            (
                "/predicted/standard_error_late_dropout",
                Value::Null,
                "standard_error_late_dropout",
            ),
            ("/run/sealed", json!(false), "claims.0.sealed"),
        ],
    }
}

#[test]
fn verify_refuses_a_plan_that_somebody_touched() {
    for run in [UNIFORM, GAUSSIAN] {
        assert_touches_are_refused(&planned(run));
    }
}

fn assert_touches_are_refused(parties: &Parties) {
    let plan = read_json(&parties.path("plan.json"));
    let rewrite = |plan: &Value| {
        parties.write("touched.json", &plan.to_string());
        parties.run(["verify", "touched.json", "--json"])
    };
    rewrite(&plan).json_of(0);
    for (pointer, value, about) in touches(&plan).into_iter().chain(own_touches(&plan)) {
        let mut touched = plan.clone();
        let found = plan.pointer(pointer).unwrap_or(&Value::Null);
        assert_ne!(*found, value, "{pointer} is changed");
        let (parent, key) = pointer.rsplit_once('/').expect("a path");
        let parent = touched.pointer_mut(parent).expect("it is there");
        match key.parse::<usize>() {
            Ok(index) => parent[index] = value,
            Err(_) => parent[key] = value,
        }
        let ended = rewrite(&touched);
        assert_eq!(ended.code, 3, "{pointer}: {}{}", ended.stdout, ended.stderr);
        let refusal = ended.refused(3, about);
        assert!(
            refusal["error"]["field"].is_string(),
            "{pointer}: {refusal} names no field"
        );
    }
}

#[test]
fn verify_refuses_what_is_no_plan() {
    let parties = planned(UNIFORM);
    let whole = std::fs::read_to_string(parties.path("plan.json")).expect("readable");
    let extra = whole.replacen('{', "{\"colour\": \"blue\",", 1);
    for text in [
        "",
        "{}",
        "[]",
        "null",
        "version = 1\n",
        &whole[..whole.len() / 2],
        &extra,
        &"[".repeat(100_000),
    ] {
        parties.write("none.json", text);
        let ended = parties.run(["verify", "none.json", "--json"]);
        assert_eq!(ended.code, 3, "{:.40}: {}{}", text, ended.stdout, ended.stderr);
        ended.refused(3, "none.json");
    }
    std::fs::write(parties.path("none.json"), [0xff; 100]).expect("writable");
    parties
        .run(["verify", "none.json", "--json"])
        .refused(3, "none.json");
}
