//! Labs that train together from Python by the examples of the package: a notebook that every lab
//! runs, one of whose kernels is restarted while another lab dies; and PyTorch.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;
use undertone_tests::composition::top;
use undertone_tests::daemon::Daemon;
use undertone_tests::python::{environment_with_wheel, python};
use undertone_tests::{Ended, Parties, Running, Signal, alone, digits, left_out, read_json, signal};

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

/// Waits until a run has this many means; the run.
fn until(daemon: &Daemon, digest: &str, means: u64) -> Value {
    // Nobody sends: it only paces the asking.
    let (_sender, pace) = channel::<()>();
    loop {
        let run = daemon.http.get(&format!("/v1/runs/{digest}"));
        if run.status == 200 {
            let run = run.json();
            let over = ["ended", "interrupted"]
                .iter()
                .any(|state| run["state"] == *state);
            if over || run["iteration"].as_u64().is_some_and(|known| known >= means) {
                return run;
            }
        }
        let _ = pace.recv_timeout(Duration::from_millis(20));
    }
}

fn said(ended: &Ended) -> String {
    format!("{}\n{}", ended.stdout, ended.stderr)
}

#[test]
fn labs_train_by_a_notebook_although_a_kernel_restarts_and_a_lab_dies() {
    let Some(python) = python() else {
        return left_out("labs", "no Python with ensurepip, numpy and pandas");
    };
    let _alone = alone();
    let parties = Parties::new(5);
    let run = "version = 1\ntask = \"rounds\"\nname = \"labs\"\n[data]\nreleases = 20\nunit = \"record\"\n\
               tensors = { weights = [10, 65] }\nrecords = { at_most = 200 }\n\
               clip = { kind = \"tensors\", radius = { weights = 1.0 } }\n\
               [privacy]\nepsilon = 8.0\ndelta = 1e-5\n[run]\njoin_ms = 60000\niteration_ms = 8000\n";
    let (mut daemons, digest) = labs(&parties, run);
    let python = environment_with_wheel(&python, parties.folder());
    let script = top().join("tests/python/notebook.py").display().to_string();
    let notebook = top()
        .join("node/python/examples/labs.ipynb")
        .display()
        .to_string();
    let begin = |lab: &str| start(&parties, &python, lab, &["-W", "error", &script, &notebook]);
    let mut kernels: Vec<Running> = parties.names().iter().map(|lab| begin(lab)).collect();
    // The second lab's kernel is killed after round 5, and comes back to the session.
    until(&daemons[0], &digest, 5);
    signal(kernels[1].pid(), Signal::SIGKILL);
    kernels.remove(1).wait();
    kernels.insert(1, begin(&parties.names()[1]));
    // The last lab dies in round 10, with its daemon.
    let run = until(&daemons[0], &digest, 10);
    assert!(run["iteration"].as_u64() < Some(20), "{run}");
    daemons.pop().expect("five").kill();
    signal(kernels[4].pid(), Signal::SIGKILL);
    kernels.pop().expect("five").wait();
    for (kernel, lab) in kernels.into_iter().zip(parties.names()) {
        let ended = kernel.wait();
        println!("{lab}: {}", ended.stdout);
        assert_eq!(ended.code, 0, "{lab}: {}", said(&ended));
        assert!(ended.stdout.contains("degraded: "), "{lab}: {}", said(&ended));
        let gone = format!("round 20 of 20, without {}", parties.names()[4]);
        assert!(ended.stdout.contains(&gone), "{lab}: {}", said(&ended));
    }
    let weights = |lab: &str| std::fs::read(parties.path(&format!("{lab}.weights.npy"))).expect("weights");
    for lab in &parties.names()[..4] {
        assert!(
            weights(lab) == weights(&parties.names()[0]),
            "{lab} has another model"
        );
        let file = format!("{lab}.receipt.json");
        let receipt = ["receipt", &file, "--plan", "plan.json", "--json"];
        parties.run(receipt).json_of(0);
        assert_eq!(read_json(&parties.path(&file))["iterations"]["spent"], 20);
    }
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
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
