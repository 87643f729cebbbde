//! `account inca` against an independent implementation's numbers: the paper's executions, and
//! share fates with roll-back.

use serde_json::Value;
use undertone_accountant::account::inca;
use undertone_accountant::losses::loss::Noise;

#[track_caller]
fn assert_close(name: &str, found: &Value, expected: &Value) {
    let (found, expected) = (
        found.as_f64().expect("a number"),
        expected.as_f64().expect("a number"),
    );
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs() + 1e-14,
        "{name}: found {found:e}, expected {expected:e}"
    );
}

fn check(file: &str, cases: usize) {
    let file: Value = serde_json::from_str(file).expect("vectors parse");
    let list = file["cases"].as_array().expect("a list");
    assert_eq!(list.len(), cases);
    for case in list {
        let name = case["name"].as_str().expect("a name");
        let std = |key: &str| case[key].as_f64().expect("a variance").sqrt();
        let noise = Noise {
            independent_std: std("independent_variance"),
            correlated_std: std("correlated_variance"),
        };
        let delta = case["delta"].as_f64().expect("a number");
        let account = inca::inca(&case["execution"].to_string(), noise, 1.0, delta)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = serde_json::to_value(&account).expect("serialises");
        let expected = &case["expect"];
        assert_close(name, &found["mu"], &expected["mu"]);
        assert_close(name, &found["epsilon"], &expected["epsilon"]);
        let losses = expected["losses"].as_object().expect("an object");
        assert_eq!(
            found["losses"].as_object().expect("an object").len(),
            losses.len()
        );
        for (party, loss) in losses {
            assert_close(name, &found["losses"][party], loss);
        }
        for (index, weight) in expected["weights"].as_array().expect("a list").iter().enumerate() {
            assert_close(name, &found["weights"][index], weight);
        }
        for key in [
            "honest",
            "independent_vectors",
            "rank_condition",
            "strongly_connected",
        ] {
            assert_eq!(found[key], expected[key], "{name}: {key}");
        }
    }
}

#[test]
fn executions_of_the_paper() {
    check(include_str!("vectors/inca.json"), 8);
}

#[test]
fn fates_of_shares_and_roll_back() {
    check(include_str!("vectors/inca_shares.json"), 8);
}
