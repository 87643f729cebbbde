//! The Python package: its wheel in a fresh environment, and four daemons' owners who use it.

use std::path::PathBuf;
use std::process::Command;

use undertone_tests::composition::top;
use undertone_tests::daemon::Daemon;
use undertone_tests::python::{environment_with_wheel, python};
use undertone_tests::{Parties, Running, alone, left_out, read_json};

/// What each party's data may cost: alice's vectors two runs at ε = 1, and no third.
fn configuration(epsilon: &str) -> String {
    format!(
        "[policy]\nmax_epsilon = 8.0\n[[data_set]]\nname = \"vectors\"\nepsilon = {epsilon}\ndelta = 1e-6\n\
         [[data_set]]\nname = \"rows\"\nunit = \"record\"\nepsilon = 50.0\ndelta = 1e-2\n"
    )
}

const VECTORS: &str = "noise_ok = true\nshape = [2, 3]\n";
const MODEL: &str = "noise_ok = true\nshape = [10]\ntensors = { bias = [4], \"out.weight\" = [2, 3] }\n\
                     clip = { kind = \"tensors\", radius = { bias = 0.5, \"out.weight\" = 0.5 } }\n";
const TABLE: &str = "shape = [2]\nunit = \"record\"\nrecords = { at_most = 2000 }\ncolumns = [\"age\", \"weight\"]\n\
                     clip = { kind = \"box\", low = [18, 40], high = [100, 160] }\n";
const ROUNDS: &str =
    "shape = [2]\nreleases = 3\nunit = \"record\"\nrecords = 1000\nclip = { kind = \"l2\", radius = 1.0 }\n";

/// Tensors whose rows the node clips.
const SESSION: &str = "tensors = { bias = [2], \"out.weight\" = [2, 2] }\nreleases = 3\nunit = \"record\"\nrecords = 1000\n\
                       clip = { kind = \"tensors\", radius = { bias = 0.1, \"out.weight\" = 0.1 } }\n";
/// Tensors whose rows a program clips and adds up.
const SUMS: &str = "tensors = { bias = [2], weight = [2, 2] }\nreleases = 2\nunit = \"record\"\n\
                    records = { at_most = 2000 }\nclipped = \"by-program\"\n\
                    clip = { kind = \"tensors\", radius = { bias = 0.1, weight = 0.1 } }\n";

/// Every plan of the test, and four tables of a thousand rows.
fn prepare(parties: &Parties) {
    parties.write_inputs(&[2, 3]);
    let plan = |name: &str, task: &str, data: &str, epsilon: f64| {
        let run = format!(
            "version = 1\ntask = \"{task}\"\nname = \"{name}\"\n[data]\n{data}[privacy]\nepsilon = {epsilon:?}\n\
             delta = 1e-6\n[run]\njoin_ms = 60000\n"
        );
        parties.plan(name, &run);
    };
    for (name, epsilon) in [("array", 1.0), ("array-2", 1.0), ("dear", 9.0), ("alone", 1.0)] {
        plan(name, "mean", VECTORS, epsilon);
    }
    plan("model", "mean", MODEL, 1.0);
    plan("table", "mean", TABLE, 1.0);
    plan("table-2", "mean", TABLE, 1.0);
    let years = TABLE.replace("\"age\", \"weight\"", "\"2019\", \"2020\"");
    plan("years", "mean", &years, 1.0);
    plan("years-2", "mean", &years, 1.0);
    plan(
        "plain",
        "mean",
        &TABLE.replace("columns = [\"age\", \"weight\"]\n", ""),
        1.0,
    );
    plan("rounds", "rounds", ROUNDS, 8.0);
    plan("rounds-2", "rounds", ROUNDS, 8.0);
    plan("session", "rounds", SESSION, 8.0);
    plan("sums", "rounds", SUMS, 8.0);
    for (party, name) in parties.names().iter().enumerate() {
        let row = |row: usize| format!("{}.5,{}\n", 30 + (row + party) % 50, 60 + (row * party) % 40);
        let rows: String = (0..1000).map(row).collect();
        parties.write(&format!("{name}.csv"), &format!("age,weight\n{rows}"));
    }
}

#[test]
fn four_owners_average_from_python_by_the_built_wheel() {
    let Some(python) = python() else {
        return left_out("python", "no Python with ensurepip, numpy and pandas");
    };
    let _alone = alone();
    let parties = Parties::new(4);
    prepare(&parties);
    let python = environment_with_wheel(&python, parties.folder());
    let daemons: Vec<Daemon> = (0..4)
        .map(|party| Daemon::start(&parties, party, &configuration(["1.6", "20.0"][party.min(1)])))
        .collect();
    let revoke = parties.run(["identity", "revoke", "--identity", "dave.key"]);
    parties.write("dave.revoked", &revoke.stdout);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/with_daemons.py");
    let mut command = Command::new(python);
    command.args(["-W", "error", script]).arg(parties.folder());
    let ended = Running::start(command, None).wait();
    println!("{}", ended.stdout);
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stdout.matches("done: ").count(), 12, "{}", ended.stdout);
    for daemon in &daemons {
        let token = daemon.http.token.clone().expect("each has one");
        assert!(
            !ended.stdout.contains(&token) && !ended.stderr.contains(&token),
            "the token is printed"
        );
        assert!(ended.stderr.contains("AlreadySpent"), "{}", ended.stderr);
        // The receipt is saved byte for byte: its signature holds.
        let receipt = format!("{}.receipt.json", daemon.name);
        let arguments = [
            "receipt",
            &receipt,
            "--plan",
            "array.json",
            "--peers",
            "peers.toml",
            "--json",
        ];
        parties.run(arguments).json_of(0);
        assert_eq!(read_json(&parties.path(&receipt))["party"], daemon.name.as_str());
        // What Python saved of a table is what the commands read.
        let [figures, receipt] =
            ["figures.json", "figures.receipt.json"].map(|end| format!("{}.{end}", daemon.name));
        let checked = parties.run(["receipt", &receipt, "--figures", &figures, "--json"]);
        assert_eq!(checked.json_of(0)["figures_checked"], true);
    }
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}

/// The package says that it runs on Python 3.9, which few machines have: its syntax is checked, and
/// what it uses of the standard library.
#[test]
fn package_is_of_python_3_9() {
    let Some(python) = python() else {
        return left_out("python", "no Python with ensurepip, numpy and pandas");
    };
    let folder = top().join("node/python");
    let mut files: Vec<PathBuf> = vec![top().join("node/python/examples/digits_torch.py")];
    for part in ["undertone_node", "backend"] {
        let there = std::fs::read_dir(folder.join(part)).expect(part).flatten();
        let sources = there.map(|file| file.path());
        files.extend(sources.filter(|path| path.extension().is_some_and(|it| it == "py")));
    }
    assert!(files.len() > 10, "{files:?}");
    let newer = folder_with(
        "newer.py",
        "import tomllib\nX = int | None\nfor _ in zip([], [], strict=True): pass\n",
    );
    let later = folder_with("later.py", "match 1:\n    case 1: pass\n");
    let judged = |files: &[PathBuf]| {
        let script = top().join("tests/python/python_3_9.py");
        let output = Command::new(&python)
            .arg(script)
            .args(files)
            .output()
            .expect("it starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(judged(&files), "");
    let said = judged(&[newer.path().join("newer.py"), later.path().join("later.py")]);
    for word in ["tomllib", "evaluated", "zip(strict=)", "Pattern matching"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// A folder with one file.
fn folder_with(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(name), text).expect("writable");
    folder
}
