//! Checks that anybody can make of a finished run with nothing but its plan, a receipt and the
//! command line.

use std::path::Path;

use serde_json::Value;

use crate::{assert_close, read_json, run_in};

/// Gives a receipt's execution to `account inca` (or `ppsc`, by its noise) with the receipt's own
/// standard deviations and δ: its μ must come out to 1e-9; of a training the μ of one iteration.
#[track_caller]
pub fn assert_mu_follows(receipt: &Value) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("execution.json"),
        receipt["execution"].to_string(),
    )
    .expect("writable");
    let number = |key: &str| {
        format!(
            "{:?}",
            receipt[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key} of {receipt}"))
        )
    };
    let uniform = || ["--correlated".to_owned(), "uniform".to_owned()];
    let (kind, cancelling) = if receipt["pairwise_std"].is_number() {
        ("ppsc", ["--pairwise-std".to_owned(), number("pairwise_std")])
    } else if receipt["correlated_std"].is_number() {
        ("inca", ["--correlated-std".to_owned(), number("correlated_std")])
    } else if receipt["execution"]["edges"].is_array() {
        ("ppsc", uniform())
    } else {
        ("inca", uniform())
    };
    let mut flags = vec![
        "--independent-std".to_owned(),
        number("independent_std"),
        "--delta".to_owned(),
        number("delta"),
    ];
    flags.extend(cancelling);
    let command = ["account", kind, "execution.json", "--json"].map(String::from);
    let answer = run_in(folder.path(), command.into_iter().chain(flags)).json_of(0);
    let of_one = receipt["mu_iteration"].as_f64();
    let mu = of_one.or_else(|| receipt["mu"].as_f64()).expect("μ");
    // A loss that was found by elimination is stated with what that may be off.
    let is_gaussian = receipt["correlated_std"].is_number() || receipt["pairwise_std"].is_number();
    let (of_mu, of_epsilon) = if is_gaussian { (5e-6, 5e-5) } else { (1e-9, 1e-8) };
    let found = answer["mu"].as_f64().expect("μ");
    assert!(
        found <= mu * (1.0 + 1e-9),
        "{found} is above what is stated, {mu}"
    );
    assert_close(&answer["mu"], mu, of_mu, "μ of the receipt's execution");
    if of_one.is_some() {
        return;
    }
    assert_close(
        &answer["epsilon"],
        receipt["epsilon"].as_f64().expect("ε"),
        of_epsilon,
        "ε of the receipt's execution",
    );
}

/// Every key that the contract lists for a receipt is there.
#[track_caller]
pub fn assert_complete(receipt: &Value) {
    for key in [
        "version",
        "digest",
        "party",
        "outcome",
        "included",
        "agreed",
        "epsilon",
        "epsilon_claimed",
        "epsilon_searched",
        "delta",
        "mu",
        "standard_error",
        "independent_std",
        "correlated_std",
        "total_weight",
        "lost_weight",
        "claims",
        "faults",
        "departed",
        "execution",
    ] {
        assert!(receipt.get(key).is_some(), "the receipt has no {key}: {receipt}");
    }
}

/// The receipt of a party of `local --output`.
#[track_caller]
pub fn of_local(output: &Path, party: &str) -> Value {
    let receipt = read_json(&output.join(party).join("receipt.json"));
    assert_complete(&receipt);
    assert_eq!(receipt["party"], party);
    receipt
}
