//! `undertone receipt`: a receipt that was changed by one byte, or is another plan's, is not
//! believed; one that is good is said in five sentences.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use undertone_tests::{Ended, alone, read_json, run_in};

const MECHANISMS: [&str; 4] = [
    "",
    "[mechanism]\nkind = \"pairwise\"\n",
    "[mechanism]\nkind = \"ppsc\"\n",
    "[run]\nsealed = false\n",
];

/// A run of four whose receipts lie in the folder.
fn ran(folder: &Path, mechanism: &str) -> PathBuf {
    let deadlines = "join_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";
    let section = if mechanism.contains("[run]") {
        ""
    } else {
        "[run]\n"
    };
    std::fs::write(
        folder.join("run.toml"),
        format!("{mechanism}{section}{deadlines}"),
    )
    .expect("writable");
    let line = "local --nodes 4 --dimension 3 --run run.toml --output kept --json";
    run_in(folder, line.split(' ')).json_of(0);
    folder.join("kept/party-0/receipt.json")
}

fn receipt(folder: &Path, line: &str) -> Ended {
    run_in(folder, format!("receipt {line}").split(' '))
}

#[test]
fn a_good_receipt_is_said_in_five_sentences() {
    let _alone = alone();
    for mechanism in MECHANISMS {
        let folder = tempfile::tempdir().expect("a folder");
        let stated = read_json(&ran(folder.path(), mechanism));
        let line = "kept/party-0/receipt.json --plan kept/plan.json";
        let object = receipt(folder.path(), &format!("{line} --json")).json_of(0);
        assert_eq!(
            (&object["signature_checked"], &object["plan_checked"]),
            (&json!(true), &json!(true)),
            "{mechanism}"
        );
        let [found, said] = [&object["mu_recomputed"], &stated["mu"]].map(|mu| mu.as_f64().expect("μ"));
        assert!(
            (found / said - 1.0).abs() < 1e-9,
            "{mechanism}: {found} for {said}"
        );
        let sentences: Vec<&str> = object["sentences"]
            .as_array()
            .expect("sentences")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(sentences.len(), 5);
        for (sentence, part) in sentences.iter().zip([
            "party-0 says of the run \"local\"",
            "the data of party-0, party-1, party-2, party-3; nobody left",
            "any one party's data would make nothing that can be seen more than",
            "any one of the 4 parties",
            "A mean here has norm at most 1.00, the noise has norm",
        ]) {
            assert!(sentence.contains(part), "{mechanism}: {sentence}");
        }
        let shown = receipt(folder.path(), line);
        assert!(
            shown.stdout.contains("signature (--plan or --peers): checked"),
            "{}",
            shown.stdout
        );
        let alone = receipt(folder.path(), "kept/party-0/receipt.json");
        assert!(alone.stdout.contains("NOT CHECKED"), "{}", alone.stdout);
    }
}

#[test]
fn one_changed_byte_is_not_believed() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = ran(folder.path(), "");
    let signed = folder.path().join("kept/party-0/receipt.json.sig");
    for file in [&path, &signed] {
        let good = std::fs::read(file).expect("readable");
        let length = good.len();
        // The last byte of the signature's file is a line's end.
        for at in (0..60).map(|part| part * (length - 1) / 60) {
            let mut changed = good.clone();
            changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
            std::fs::write(file, &changed).expect("writable");
            receipt(
                folder.path(),
                "kept/party-0/receipt.json --plan kept/plan.json --json",
            )
            .refused_at(3, "receipt.json");
        }
        std::fs::write(file, &good).expect("writable");
    }
    receipt(
        folder.path(),
        "kept/party-0/receipt.json --plan kept/plan.json --json",
    )
    .json_of(0);
    std::fs::remove_file(&signed).expect("there");
    receipt(
        folder.path(),
        "kept/party-0/receipt.json --plan kept/plan.json --json",
    )
    .refused(3, "signature");
}

/// A party that signs for less than what happened is detected by what happened, whatever key it
/// has.
#[test]
fn a_loss_below_the_executions_and_another_plan_are_refused() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = ran(folder.path(), "");
    let stated = read_json(&path);
    for (key, factor) in [("mu", 0.99), ("epsilon", 0.99), ("independent_std", 0.5)] {
        let mut less = stated.clone();
        less[key] = json!(less[key].as_f64().expect("a number") * factor);
        std::fs::write(&path, less.to_string()).expect("writable");
        receipt(folder.path(), "kept/party-0/receipt.json --json").refused_at(3, "receipt.json");
    }
    let other = tempfile::tempdir().expect("a folder");
    ran(other.path(), "");
    let line = format!(
        "kept/party-0/receipt.json --plan {} --json",
        folder.path().join("kept/plan.json").display()
    );
    receipt(other.path(), &line).refused_at(3, "receipt.json");
    // What is no receipt is told apart.
    let refusal = receipt(other.path(), "kept/plan.json --json").refused_at(3, "plan.json");
    assert!(refusal.to_string().contains("undertone verify"), "{refusal}");
}

#[test]
fn a_run_that_never_began_has_revealed_nothing() {
    let _alone = alone();
    let parties = undertone_tests::Parties::new(4);
    parties.write_inputs(&[3]);
    parties.plan(
        "plan",
        "name = \"lonely\"\n[data]\nshape = [3]\nnoise_ok = true\n[run]\njoin_ms = 300\n",
    );
    run_in(parties.folder(), parties.join("plan", 0)).json_of(4);
    let line = "plan-alice.receipt.json --plan plan.json --peers peers.toml --json";
    let object = receipt(parties.folder(), line).json_of(0);
    let said = object["sentences"].to_string();
    assert!(
        said.contains("it never began") && said.contains("tells nobody anything"),
        "{said}"
    );
}
