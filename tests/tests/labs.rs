//! Labs that train together from Python with PyTorch, by the example of the package.

use std::path::Path;
use std::process::Command;

use undertone_tests::composition::top;
use undertone_tests::daemon::Daemon;
use undertone_tests::python::{environment_with_wheel, python};
use undertone_tests::{Ended, Parties, Running, alone, digits, left_out};

const ROWS: &str = "[policy]\nmax_epsilon = 8.0\n[[data_set]]\nname = \"digits\"\nunit = \"record\"\nepsilon = 20.0\n\
                    delta = 1e-4\n";

/// Daemons of all parties, each of which has a twelfth of the digits, and a plan for them.
fn labs(parties: &Parties, run: &str) -> (Vec<Daemon>, String) {
    digits::share_out_to(parties);
    let digest = parties.plan("plan", run);
    let start = |party| Daemon::start(parties, party, ROWS);
    ((0..parties.names().len()).map(start).collect(), digest)
}

/// A lab's Python with a program of the repository.
fn start(parties: &Parties, python: &Path, lab: &str, arguments: &[&str]) -> Running {
    let mut command = Command::new(python);
    command
        .args(arguments)
        .env("LAB", lab)
        .current_dir(parties.folder());
    Running::start(command, None)
}

fn said(ended: &Ended) -> String {
    format!("{}\n{}", ended.stdout, ended.stderr)
}

#[test]
fn labs_train_with_pytorch_by_sums_of_clipped_gradients() {
    let Some(python) = python() else {
        return left_out("labs", "no Python with ensurepip, numpy and pandas");
    };
    let torch = Command::new(&python).args(["-c", "import torch"]).output();
    if !torch.is_ok_and(|torch| torch.status.success()) {
        // 600 MB that no machine of CI has.
        return println!("left out: no PyTorch (Debian: python3-torch)");
    }
    let _alone = alone();
    let parties = Parties::new(4);
    let run = "version = 1\ntask = \"rounds\"\nname = \"torch\"\n[data]\nreleases = 15\nunit = \"record\"\n\
               tensors = { \"0.weight\" = [16, 64], \"0.bias\" = [16], \"2.weight\" = [10, 16], \"2.bias\" = [10] }\n\
               records = { at_most = 200 }\nclipped = \"by-program\"\n[data.clip]\nkind = \"tensors\"\n\
               radius = { \"0.weight\" = 0.5, \"0.bias\" = 0.2, \"2.weight\" = 0.7, \"2.bias\" = 0.3 }\n\
               [privacy]\nepsilon = 8.0\ndelta = 1e-5\n[run]\njoin_ms = 60000\niteration_ms = 20000\n";
    let (daemons, _) = labs(&parties, run);
    let python = environment_with_wheel(&python, parties.folder());
    let script = top()
        .join("node/python/examples/digits_torch.py")
        .display()
        .to_string();
    let begin = |lab: &String| {
        let [config, table, weights] =
            ["node.toml", "csv", "weights.pt"].map(|extension| format!("{lab}.{extension}"));
        start(
            &parties,
            &python,
            lab,
            &[&script, &config, &table, "plan.json", &weights],
        )
    };
    let labs: Vec<Running> = parties.names().iter().map(begin).collect();
    let ended: Vec<Ended> = labs.into_iter().map(Running::wait).collect();
    for lab in &ended {
        println!("{}", lab.stdout);
        assert_eq!(lab.code, 0, "{}", said(lab));
        let right = lab
            .stdout
            .split('%')
            .next()
            .and_then(|percent| percent.trim().parse::<f64>().ok());
        assert!(right.is_some_and(|right| right > 40.0), "{}", said(lab));
    }
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}
