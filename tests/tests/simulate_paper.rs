//! `undertone simulate --paper`: the paper's numbers, ours and the ratio.

use serde_json::Value;
use undertone_tests::{assert_close, run_in};

fn table(name: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let answer = run_in(folder.path(), ["simulate", "--paper", name, "--json"]).json_of(0);
    assert_eq!(answer["paper"], name);
    for row in answer["rows"].as_array().expect("rows") {
        for key in ["theorem", "least"] {
            let (paper, ours) = (
                row[key]["paper"].as_f64().expect("a number"),
                row[key]["ours"].as_f64().expect("a number"),
            );
            assert_close(&row[key]["ratio"], ours / paper, 1e-12, name);
        }
    }
    answer
}

fn column<'a>(table: &'a Value, key: &'a str, whose: &'a str) -> Vec<f64> {
    table["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row[key][whose].as_f64().expect("a number"))
        .collect()
}

#[test]
fn ppsc_table_2() {
    let table = table("ppsc-table2");
    assert_eq!(
        column(&table, "theorem", "paper"),
        [8.0, 12.0, 15.0, 18.0, 21.0, 25.0]
    );
    assert_eq!(
        column(&table, "theorem", "ours"),
        [8.0, 12.0, 15.0, 18.0, 21.0, 24.0]
    );
    assert_eq!(
        column(&table, "least", "paper"),
        [5.0, 8.0, 11.0, 14.0, 17.0, 20.0]
    );
    assert_eq!(column(&table, "least", "ours"), column(&table, "least", "paper"));
    assert!(
        table["notes"].to_string().contains("0.99985"),
        "the erratum is said"
    );
}

#[test]
fn ppsc_table_3() {
    let table = table("ppsc-table3");
    assert_eq!(
        column(&table, "theorem", "paper"),
        [341.0, 371.0, 400.0, 282.0, 312.0, 341.0, 223.0, 253.0, 282.0]
    );
    assert_eq!(
        column(&table, "theorem", "ours"),
        column(&table, "theorem", "paper")
    );
    assert_eq!(
        column(&table, "least", "paper"),
        [226.0, 255.0, 285.0, 167.0, 197.0, 227.0, 123.0, 153.0, 183.0]
    );
    assert!(
        column(&table, "least", "ratio")
            .into_iter()
            .all(|ratio| (0.9..=1.01).contains(&ratio)),
        "{table}"
    );
    assert!(
        table["notes"].to_string().contains("0.874"),
        "the erratum is said"
    );
}

#[test]
fn a_table_takes_no_run() {
    let folder = tempfile::tempdir().expect("a folder");
    run_in(folder.path(), ["simulate", "--paper", "ppsc-table9", "--json"]).refused(2, "ppsc-table2");
    run_in(
        folder.path(),
        ["simulate", "--paper", "ppsc-table2", "--parties", "4", "--json"],
    )
    .refused(2, "--parties");
    run_in(folder.path(), ["simulate", "--json"]).refused(2, "RUN.toml");
    let text = run_in(folder.path(), ["simulate", "--paper", "ppsc-table2"]);
    assert!(
        text.code == 0 && text.stdout.contains("Figure 5") && text.stdout.contains("0.9998"),
        "{}",
        text.stdout
    );
}
