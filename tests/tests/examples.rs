//! The examples that a user of the libraries may copy: they run, and say what they promise.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use undertone_tests::undertone;

/// Runs an example of the accountant.
#[track_caller]
fn run(name: &str, arguments: &[&Path]) -> Output {
    let binary = undertone().with_file_name("examples").join(name);
    assert!(
        binary.is_file(),
        "{} is absent: run `cargo build --workspace --examples` (or `cargo test --workspace`)",
        binary.display()
    );
    Command::new(binary).args(arguments).output().expect("it starts")
}

/// Lines of an example that ended well.
#[track_caller]
fn lines(output: &Output) -> Vec<String> {
    let (text, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{text}{error}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn four_parties_average_in_memory() {
    let lines = lines(&run("four_parties", &[]));
    assert!(lines[0].starts_with("mean    ["), "{lines:?}");
    assert!(lines[2].starts_with("epsilon Some("), "{lines:?}");
}

#[test]
fn an_execution_of_one_s_own_is_accounted_for() {
    let lines = lines(&run("own_execution", &[]));
    let epsilon = |line: &String| line.rsplit(' ').next().and_then(|word| word.parse::<f64>().ok());
    let all: Vec<f64> = lines.iter().filter_map(epsilon).collect();
    assert!(
        all.len() == 3 && all.is_sorted_by(|a, b| a > b),
        "more noise, less loss: {lines:?}"
    );
}

#[test]
fn a_mechanism_of_one_s_own_is_accounted_for() {
    let lines = lines(&run("own_mechanism", &[]));
    let numbers = |line: &String| -> Vec<f64> {
        let words = line.split([' ', ',', ';']);
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let [incremental, halves] = [&lines[0], &lines[1]].map(numbers);
    for numbers in [&incremental, &halves] {
        let [before, bound, epsilon] = numbers[..] else {
            panic!("{lines:?}")
        };
        assert!(0.0 < before && before <= bound && epsilon > 0.0, "{lines:?}");
    }
    // Half of the value is in a state before any noise of a round: early states tell more.
    assert!(
        halves[0] > incremental[0] && halves[1] > incremental[1],
        "{lines:?}"
    );
}

/// A recorded receipt, which ends with the line of its signature, and its plan.
fn sample(folder: &Path, change: impl Fn(String) -> String) -> [PathBuf; 2] {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let recorded = std::fs::read_to_string(samples.join("receipt-inca.txt")).expect("a sample");
    let (text, rest) = recorded.split_once("\n}").expect("an object");
    let after = rest.find(|c: char| !c.is_whitespace()).expect("a signature");
    let (end, signature) = rest.split_at(after);
    let receipt = folder.join("receipt.json");
    std::fs::write(&receipt, change(format!("{text}\n}}{end}"))).expect("written");
    let signature = signature.lines().next().expect("a line");
    std::fs::write(folder.join("receipt.json.sig"), signature).expect("written");
    [receipt, samples.join("plan-inca.json")]
}

#[test]
fn a_receipt_is_checked_and_a_changed_one_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let [receipt, plan] = sample(folder.path(), |text| text);
    let said = lines(&run("checking_a_receipt", &[&receipt, &plan]));
    assert!(
        said[0].ends_with("signed it, and its plan is this one"),
        "{said:?}"
    );
    let refused = |output: Output, words: &str| {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(words), "{error}");
    };
    let other = plan.with_file_name("plan-ppsc.json");
    refused(
        run("checking_a_receipt", &[&receipt, &other]),
        "its digest is not the plan's",
    );
    sample(folder.path(), |text| {
        text.replacen("\"outcome\"", "\"result\"", 1)
    });
    refused(run("checking_a_receipt", &[&receipt, &plan]), "has not signed it");
    refused(run("checking_a_receipt", &[]), "usage");
}
