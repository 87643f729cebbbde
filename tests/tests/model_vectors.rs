//! The mathematics of a training and of statistics against an independent program's answers, as the
//! examples `reference_vectors` and `training_vectors` give them.

#[path = "../../accountant/examples/training_vectors/answers.rs"]
mod answers;
#[path = "../../protocol/examples/reference_vectors/described.rs"]
mod described;
#[path = "../../protocol/examples/reference_vectors/models.rs"]
mod models;

use std::collections::BTreeMap;
use std::error::Error;

use serde_json::Value;

/// What an example answers.
type Answer = Result<Value, Box<dyn Error>>;

/// The first number that is off by more than 10⁻⁹, relatively; answers may say more than asked.
fn off(found: &Value, expected: &Value) -> Option<String> {
    match expected {
        Value::Object(entries) => entries.iter().find_map(|(key, value)| {
            let place = off(found.get(key).unwrap_or(&Value::Null), value)?;
            Some(format!("{key}.{place}"))
        }),
        Value::Array(entries) => {
            if found.as_array().map(Vec::len) != Some(entries.len()) {
                return Some("length".into());
            }
            let each = entries.iter().enumerate();
            each.into_iter()
                .find_map(|(at, value)| Some(format!("{at}.{}", off(&found[at], value)?)))
        }
        Value::Number(number) => {
            let (found, expected) = (found.as_f64(), number.as_f64().unwrap_or(f64::NAN));
            let close = |found: f64| (found - expected).abs() <= 1e-9 * expected.abs().max(1e-3);
            (!found.is_some_and(close)).then(|| format!("{found:?} for {expected}"))
        }
        other => (found != other).then(|| format!("{found} for {other}")),
    }
}

#[test]
fn every_answer_is_the_reference_programs() {
    let file: Value = serde_json::from_str(include_str!("../data/models.json")).expect("vectors parse");
    let mut answered = BTreeMap::new();
    for vector in file["vectors"].as_array().expect("a list") {
        let (name, kind) = (&vector["name"], vector["kind"].as_str().unwrap_or_default());
        let answer = match kind {
            "descend" => models::descend(&vector["given"]),
            "statistics" => models::statistics(&vector["given"]),
            "projection" => models::projection(&vector["given"]),
            "budget" => answers::budget(&vector["given"]),
            "ahead" => answers::precomputed(&vector["given"]),
            other => panic!("nobody answers {other}"),
        };
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(off(&answer, &vector["expected"]), None, "{name}");
        *answered.entry(kind.to_owned()).or_insert(0) += 1;
    }
    let counts: Vec<i32> = answered.into_values().collect();
    // ahead, budget, descend, projection, statistics.
    assert_eq!(counts, [4, 6, 6, 5, 3]);
}

#[test]
fn every_answer_about_a_table_is_the_reference_programs() {
    let file: Value = serde_json::from_str(include_str!("../data/described.json")).expect("vectors parse");
    let mut answered = BTreeMap::new();
    for vector in file["vectors"].as_array().expect("a list") {
        let (name, kind) = (&vector["name"], vector["kind"].as_str().unwrap_or_default());
        let answer = match kind {
            "root" => described::root(&vector["given"]),
            "layout" => described::layout(&vector["given"]),
            "rows" => described::rows(&vector["given"]),
            "figures" => described::figures(&vector["given"]),
            other => panic!("nobody answers {other}"),
        };
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(off(&answer, &vector["expected"]), None, "{name}");
        *answered.entry(kind.to_owned()).or_insert(0) += 1;
    }
    let counts: Vec<i32> = answered.into_values().collect();
    // figures, layout, root, rows.
    assert_eq!(counts, [8, 8, 2, 6]);
}

#[test]
fn a_number_that_is_off_is_found() {
    let expected = serde_json::json!({ "a": [1.0, 2.0] });
    assert_eq!(off(&expected, &expected), None);
    for wrong in [
        serde_json::json!({ "a": [1.0, 2.00000001] }),
        serde_json::json!({ "a": [1.0] }),
        serde_json::json!({}),
    ] {
        assert!(off(&wrong, &expected).is_some(), "{wrong}");
    }
}
