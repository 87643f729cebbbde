//! Runs of gossip averaging against an independent implementation.

use serde_json::Value;
use undertone_accountant::account::gossip::execution::{GossipAccountError, run};

#[track_caller]
fn assert_close(name: &str, found: Option<f64>, expected: &Value) {
    let (found, expected) = (found.expect("a number"), expected.as_f64().expect("a number"));
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs() + 1e-14,
        "{name}: found {found:e}, expected {expected:e}"
    );
}

#[test]
fn forty_runs() {
    let vectors: Value =
        serde_json::from_str(include_str!("vectors/gossip_execution.json")).expect("vectors parse");
    let executions = vectors["executions"].as_array().expect("a list");
    assert_eq!(executions.len(), 40);
    for (index, vector) in executions.iter().enumerate() {
        let answer = run(&vector["execution"].to_string(), 1.0, 1e-6).expect("an answer");
        let losses = vector["losses"].as_object().expect("losses");
        assert_eq!(answer.losses.len(), losses.len(), "run {index}");
        let mut largest: f64 = 0.0;
        for (party, loss) in &answer.losses {
            let expected = &losses[&party.to_string()];
            let name = format!("run {index}, party {party}");
            assert_close(&name, Some(loss.lower), &expected["lower"]);
            assert_close(&name, Some(loss.upper), &expected["upper"]);
            assert_close(&name, Some(loss.one), &expected["one"]);
            largest = largest.max(expected["upper"].as_f64().expect("a number"));
        }
        assert_close("noise", answer.noise_error, &vector["noise_error"]);
        assert_close("weights", answer.weight_error, &vector["weight_error"]);
        assert!((answer.mu - largest.sqrt()).abs() < 1e-9);
    }
}

#[test]
fn sensitivity_scales_and_nonsense_is_refused_by_its_place() {
    let good = r#"{"parties": 3, "rounds": 2, "edges": [[[0, 1], [1, 2]], [[0, 1]]], "view": "sum", "corrupted": [0]}"#;
    let (one, three) = (run(good, 1.0, 1e-6), run(good, 3.0, 1e-6));
    let (one, three) = (one.expect("an answer"), three.expect("an answer"));
    assert!((three.mu / one.mu - 3.0).abs() < 1e-9 && three.epsilon > one.epsilon);
    for (from, to, place) in [
        ("\"parties\": 3", "\"parties\": 0", "parties"),
        ("\"rounds\": 2", "\"rounds\": 0", "rounds"),
        ("\"rounds\": 2", "\"rounds\": 3", "edges"),
        ("\"rounds\": 2", "\"rounds\": 99999999", "too many"),
        ("[1, 2]", "[1, 3]", "edges[0]"),
        ("[1, 2]", "[1, 0]", "edges[0]"),
        ("[1, 2]", "[1, 1]", "edges[0]"),
        ("[0]}", "[3]}", "corrupted[0]"),
        ("[0]}", "[0, 0]}", "corrupted[1]"),
        ("\"sum\"", "\"sums\"", "messages"),
        ("\"view\": \"sum\",", "", "view"),
        ("[0]}", "[0], \"std\": [1.0]}", "std"),
        ("[0]}", "[0], \"std\": [1.0, 0.0]}", "std[1]"),
        ("[0]}", "[0], \"std\": [1.0, -1]}", "std[1]"),
        ("[0]}", "[0], \"contributions\": 0}", "contributions"),
        ("[0]}", "[0], \"contributions\": 3}", "contributions"),
        ("[0]}", "[0], \"online\": [[true, true, true]]}", "online"),
        (
            "[0]}",
            "[0], \"online\": [[true, true, true], [true]]}",
            "online[1]",
        ),
        ("[0]}", "[0], \"published\": [7]}", "published[0]"),
        ("[0]}", "[0], \"publish\": [1]}", "publish"),
    ] {
        let text = good.replace(from, to);
        let refused = run(&text, 1.0, 1e-6).expect_err(&text).to_string();
        assert!(refused.contains(place), "{text}: {refused}");
    }
    for (sensitivity, delta, flag) in [
        (-1.0, 1e-6, "--sensitivity"),
        (1.0, 0.0, "delta"),
        (f64::NAN, 0.1, "--sens"),
    ] {
        let refused = run(good, sensitivity, delta).expect_err("out of range");
        assert!(refused.to_string().contains(flag), "{refused}");
        assert!(matches!(refused, GossipAccountError::Account(_)));
    }
}
