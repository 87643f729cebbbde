//! The Gaussian trade-off against an independent implementation's numbers.

use serde_json::Value;
use undertone_accountant::losses::gaussian;

fn vectors(kind: &str) -> Vec<[f64; 3]> {
    let file: Value = serde_json::from_str(include_str!("vectors/gaussian.json")).expect("vectors parse");
    let rows = file[kind].as_array().expect("a list").clone();
    assert!(rows.len() > 20);
    rows.into_iter()
        .map(|row| [0, 1, 2].map(|index| row[index].as_f64().expect("a number")))
        .collect()
}

#[track_caller]
fn assert_close(found: f64, expected: f64, relative: f64) {
    assert!(
        (found - expected).abs() <= relative * expected.abs(),
        "found {found:e}, expected {expected:e}"
    );
}

#[test]
fn delta_of_epsilon_and_mu() {
    for [epsilon, mu, delta] in vectors("delta_of_epsilon_mu") {
        assert_close(gaussian::delta(epsilon, mu).expect("in range"), delta, 1e-9);
    }
}

#[test]
fn mu_of_epsilon_and_delta() {
    for [epsilon, delta, mu] in vectors("mu_of_epsilon_delta") {
        assert_close(gaussian::mu(epsilon, delta).expect("in range"), mu, 1e-9);
    }
}

#[test]
fn epsilon_of_delta_and_mu() {
    for [delta, mu, epsilon] in vectors("epsilon_of_delta_mu") {
        assert_close(gaussian::epsilon(delta, mu).expect("in range"), epsilon, 1e-8);
    }
}
