//! Refusals say what to do, and what they say works.

use std::path::Path;

use undertone_tests::{Ended, Parties, alone, follow_in, run_in, write_npy};

fn undertone(folder: &Path, line: &str) -> Ended {
    run_in(folder, line.split(' '))
}

/// A refusal whose message or hint says each of these.
#[track_caller]
fn refused(ended: &Ended, code: i32, parts: &[&str]) {
    let refusal = ended.refused(code, parts[0]);
    for part in parts {
        assert!(refusal.to_string().contains(part), "{part}: {refusal}");
    }
}

/// Three parties with this file each, refused by `local`; what it said.
#[track_caller]
fn inputs_refused(extension: &str, content: &[u8], parts: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("inputs")).expect("writable");
    for name in ["ann", "ben", "cleo"] {
        let path = folder.path().join(format!("inputs/{name}.{extension}"));
        std::fs::write(path, content).expect("writable");
    }
    let run = "[data]\nunit = \"record\"\nclip = { kind = \"box\", low = 0, high = 10 }\n";
    std::fs::write(folder.path().join("run.toml"), run).expect("writable");
    let ended = undertone(folder.path(), "local --inputs inputs --run run.toml --json");
    refused(&ended, 7, parts);
    ended.stdout
}

#[test]
fn no_delta_is_proposed_that_hides_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = undertone(
        folder.path(),
        "local --nodes 4 --dimension 3 --epsilon 1000 --json",
    );
    refused(&ended, 2, &["privacy.epsilon = 10 or less"]);
    assert!(!ended.stdout.contains("suffices"), "{}", ended.stdout);
}

#[test]
fn a_file_that_is_no_plan_is_described() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("README.md"), "# Words\n").expect("writable");
    let ended = undertone(folder.path(), "verify README.md --json");
    refused(&ended, 3, &["this is no plan", "undertone plan"]);
    undertone(
        folder.path(),
        "local --nodes 4 --dimension 3 --output kept --json",
    )
    .json_of(0);
    for command in ["audit", "verify"] {
        let ended = undertone(
            folder.path(),
            &format!("{command} kept/party-0/receipt.json --json"),
        );
        refused(&ended, 3, &["this is a receipt", "undertone receipt"]);
    }
}

#[test]
fn a_daemon_or_a_run_file_that_is_not_there_is_said_how_to_be_had() {
    let parties = Parties::new(3);
    let status = parties.run(["status", "--json"]);
    refused(&status, 2, &["undertone node --config", "--config node.toml"]);
    let planned = parties.run([
        "plan",
        "absent.toml",
        "--peers",
        "peers.toml",
        "--out",
        "p",
        "--json",
    ]);
    refused(&planned, 2, &["absent.toml", "undertone example"]);
}

#[test]
fn tables_of_other_programs_have_different_errors() {
    let pandas = b",age\n0,0.5\n1,0.25\n";
    inputs_refused("csv", pandas, &["column 1 has no name", "index=False"]);
    let comma: [&[u8]; 3] = [
        b"age;pulse\n3,14;2,5\n",
        b"3,14;2,5\n1,5;2,5\n",
        b"age,pulse\n\"3,14\",\"2,5\"\n",
    ];
    for table in comma {
        inputs_refused("csv", table, &["decimal=','", "write 3.14"]);
    }
    let said = inputs_refused(
        "csv",
        b"\"61,14\",\"2,71\"\n\"3,5\",\"1,5\"\n",
        &["decimal comma"],
    );
    assert!(!said.contains("61"), "no cell is quoted: {said}");
    inputs_refused("pt", b"PK", &["safetensors.torch.save_file"]);
    let whole = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1), }";
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((whole.len() as u16 + 1).to_le_bytes());
    npy.extend(whole.bytes().chain(*b"\n").chain([0; 16]));
    inputs_refused("npy", &npy, &["astype('float64')"]);
    let header = br#"{"steps":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}}"#;
    let mut model = (header.len() as u64).to_le_bytes().to_vec();
    model.extend(header.iter().chain(&[0; 16]));
    inputs_refused("safetensors", &model, &["steps", "tensor.float()"]);
}

#[test]
fn tables_of_different_lengths_are_refused_with_a_hint_at_records() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("inputs")).expect("writable");
    for (name, rows) in [("ann", 3), ("ben", 2), ("cleo", 2)] {
        let table = format!("age,pulse\n{}", "0.5,0.25\n".repeat(rows));
        std::fs::write(folder.path().join(format!("inputs/{name}.csv")), table).expect("writable");
    }
    let ended = undertone(folder.path(), "local --inputs inputs --json");
    refused(&ended, 7, &["unit = \\\"record\\\" under [data]"]);
}

#[test]
fn large_counts_are_read_as_people_write_them() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let ended = undertone(folder.path(), "local --nodes 3 --dimension 1e3 --json");
    assert_eq!(ended.json_of(0)["utility"]["is_noise"], true);
    for wrong in ["1.5", "1e-3", "-1", "1e99", "many"] {
        let line = format!("local --nodes 3 --dimension={wrong} --json");
        refused(
            &undertone(folder.path(), &line),
            2,
            &["write a whole number, such as 1000000 or 1e6"],
        );
    }
}

#[test]
fn a_simulations_interval_stands_under_what_it_is_of() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("run.toml"),
        "name = \"s\"\n[data]\nshape = [4]\n",
    )
    .expect("writable");
    let ended = undertone(folder.path(), "simulate run.toml --parties 5 --runs 10 --kills 1");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("10 runs, 1 kill each"), "{}", ended.stdout);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let rms = lines
        .iter()
        .position(|line| line.contains("(rms)"))
        .expect("a row");
    assert!(lines[rms + 1].contains("95 % interval of it"), "{}", ended.stdout);
    let numbers = |line: &str| -> Vec<f64> {
        line.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    let (found, within) = (numbers(lines[rms]), numbers(lines[rms + 1]));
    assert!(
        within[1] < found[0] && found[0] < within[2],
        "{found:?} {within:?}"
    );
}

#[test]
fn join_says_where_its_mean_is() {
    let _alone = alone();
    let parties = Parties::new(3);
    for name in parties.names() {
        write_npy(&parties.path(&format!("{name}.npy")), &[2], &[0.1, 0.2]);
    }
    parties.plan(
        "plan",
        "name = \"where\"\n[data]\nshape = [2]\nnoise_ok = true\n[run]\njoin_ms = 60000\ngrace_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n",
    );
    let others: Vec<_> = (1..3)
        .map(|party| follow_in(parties.folder(), parties.join("plan", party)))
        .collect();
    let mut line = parties.join("plan", 0);
    line.pop();
    let ended = run_in(parties.folder(), line);
    let reported = "is in plan-alice.npy, its receipt in plan-alice.receipt.json.";
    assert!(
        ended.stdout.contains(reported),
        "{}\n{}",
        ended.stdout,
        ended.stderr
    );
    for (running, followed) in others {
        followed.rest();
        running.wait().json_of(0);
    }
}
