//! Trainings between processes: one model everywhere, from tables of several parties.

use std::path::Path;

use serde_json::Value;
use undertone_tests::daemon::Daemon;
use undertone_tests::receipt::assert_mu_follows;
use undertone_tests::{
    Parties, Signal, assert_close, digits, follow_in, read_json, read_npy, run_in, signal_if_alive, start_in,
};

const ITERATIONS: usize = 50;

/// Ten parties' digits, and every fifth row held out.
const RUN: &str = "version = 1\ntask = \"regression\"\nname = \"digits\"\n[data]\nshape = [65]\n\
                   clip = { kind = \"box\", low = 0.0, high = 16.0 }\n[model]\nloss = \"softmax\"\nclasses = 10\n\
                   [privacy]\nepsilon = 3.0\ndelta = 1e-5\n";

/// Writes `tables/` of so many parties, `test.csv` and `run.toml`.
fn prepare(folder: &Path, parties: usize) {
    digits::share_out(folder, parties);
    std::fs::write(folder.join("run.toml"), RUN).expect("writable");
}

const LOCAL: &str = "local --inputs tables --run run.toml --test test.csv --output kept --json";

fn accuracy(object: &Value) -> f64 {
    object["test"]["accuracy"]
        .as_f64()
        .unwrap_or_else(|| panic!("no accuracy: {object}"))
}

/// How often noise is precomputed is in the plan and in its quote; elsewhere nothing is said of it.
#[test]
fn a_plan_says_how_often_noise_is_mixed() {
    let parties = Parties::new(6);
    let planned = |run: &str| {
        parties.write("run.toml", run);
        parties.run([
            "plan",
            "run.toml",
            "--peers",
            "peers.toml",
            "--out",
            "plan.json",
            "--json",
        ])
    };
    let attempts = |more: &str, expected: u64| {
        let run = format!("{RUN}{more}").replacen("[data]\n", "[data]\nrecords = 200\n", 1);
        let object = planned(&run).json_of(0);
        assert_eq!(object["training"]["attempts"], expected, "{object}");
        read_json(&parties.path("plan.json"))["computation"]["sequence"]["mixing_attempts"].clone()
    };
    assert_eq!(attempts("", 3), 3);
    let text = run_in(parties.folder(), ["verify", "plan.json", "--full"]).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("before any value is touched, at most 3 times"),
        "{text}"
    );
    assert_eq!(attempts("[run]\nmixing_attempts = 1\n", 1), 1);
    let pairwise = "[mechanism]\nkind = \"pairwise\"\n";
    assert_eq!(attempts(pairwise, 0), 3);
    // The documented default may stand in any file.
    assert_eq!(attempts(&format!("{pairwise}[run]\nmixing_attempts = 3\n"), 0), 3);
    let refused = |run: String| planned(&run).refused_at(2, "run.mixing_attempts");
    refused(format!("{RUN}{pairwise}[run]\nmixing_attempts = 2\n"));
    refused(format!("{RUN}[run]\nmixing_attempts = 0\n"));
    refused(format!("{RUN}[run]\nmixing_attempts = 17\n"));
    let mean = "version = 1\nname = \"mean\"\n[data]\nshape = [2]\nclip = { kind = \"l2\", radius = 1.0 }\n";
    refused(format!("{mean}[run]\nmixing_attempts = 2\n"));
}

#[test]
fn ten_parties_fit_digits_without_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    prepare(folder, 10);
    let object = run_in(folder, LOCAL.split(' ')).json_of(0);
    assert_eq!(
        (&object["outcome"], &object["same_bits"]),
        (&"done".into(), &true.into())
    );
    assert!(accuracy(&object) >= 0.86, "{}", object["test"]);
    assert!(
        object["epsilon"].as_f64().is_some_and(|epsilon| epsilon <= 3.0),
        "{}",
        object["epsilon"]
    );
    let claimed = object["epsilon_claimed"].as_f64().expect("a claim");
    assert!((2.997..=3.0).contains(&claimed), "{claimed}");
    let iterations = &object["iterations"];
    assert_eq!(iterations["mixings"], 1, "the first one was not in vain");
    assert_eq!(
        (&iterations["planned"], &iterations["run"]),
        (&ITERATIONS.into(), &ITERATIONS.into())
    );
    let receipt = "kept/party-3/receipt.json";
    run_in(folder, ["receipt", receipt, "--plan", "kept/plan.json"]);
    let stated = read_json(&folder.join(receipt));
    let mu = stated["mu_iteration"].as_f64().expect("μ") * (ITERATIONS as f64).sqrt();
    assert_close(&stated["mu"], mu, 1e-9, "μ over all iterations");
    // Noise of all iterations was precomputed: the receipt has that mixing's execution.
    assert_mu_follows(&stated);
    predict(folder, accuracy(&object));
}

/// The model alone says of the held-out rows what the run said of it, with targets or without.
fn predict(folder: &Path, accuracy: f64) {
    let line = "predict kept/party-3/model.npy --input test.csv --output said.npy --json";
    let object = run_in(folder, line.split(' ')).json_of(0);
    assert_close(&object["test"]["accuracy"], accuracy, 1e-12, "accuracy");
    let text = std::fs::read_to_string(folder.join("test.csv")).expect("readable");
    let without: Vec<&str> = text
        .lines()
        .map(|row| row.rsplit_once(',').expect("columns").0)
        .collect();
    std::fs::write(folder.join("features.csv"), without.join("\n") + "\n").expect("writable");
    let line = "predict kept/party-3/model.json --input features.csv --output blind.npy --json";
    let blind = run_in(folder, line.split(' ')).json_of(0);
    assert!(blind["test"].is_null());
    let said = |name: &str| read_npy(&folder.join(name)).2;
    assert_eq!(said("said.npy"), said("blind.npy"));
}

/// If a party is killed in the middle, loudly or silently, the others end with one model and within
/// the budget.
#[test]
fn a_kill_costs_the_others_little() {
    let pairwise = format!("{RUN}[mechanism]\nkind = \"pairwise\"\n");
    for (victim, iteration, how, run) in [
        (2, 3, Signal::SIGKILL, RUN),
        (4, 12, Signal::SIGSTOP, RUN),
        (5, 21, Signal::SIGKILL, &pairwise),
        (7, 35, Signal::SIGSTOP, &pairwise),
        (8, 40, Signal::SIGKILL, RUN),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        prepare(folder, 10);
        std::fs::write(folder.join("run.toml"), run).expect("writable");
        let (running, mut events) = follow_in(folder, LOCAL.split(' '));
        let pids: Vec<i32> = events.spawned(10).into_iter().map(|(_, pid)| pid).collect();
        events.until("that iteration", |event| {
            event["event"] == "iteration" && event["k"] == iteration
        });
        let name = format!("party-{victim}");
        signal_if_alive(pids[victim], how);
        if how == Signal::SIGSTOP {
            for _ in 0..9 {
                events.until("nine ends", |event| {
                    event["event"] == "finished" && event["party"] != *name
                });
            }
            // A stopped process would hold `local` for ever.
            signal_if_alive(pids[victim], Signal::SIGKILL);
        }
        events.rest();
        let object = running.wait().json_of(5);
        assert_eq!(object["same_bits"], true, "{object}");
        assert_eq!(object["iterations"]["run"], ITERATIONS, "{object}");
        let since = object["iterations"]["departed"][&name]
            .as_u64()
            .expect("it departed");
        assert!(since > iteration && since <= ITERATIONS as u64, "{since}");
        assert!(object["epsilon"].as_f64().is_some_and(|epsilon| epsilon <= 3.0));
        assert!(accuracy(&object) >= 0.83, "{}", object["test"]);
    }
}

/// Four parties with a part of the digits each, and a plan of a few iterations.
fn four_with_a_plan() -> (Parties, String) {
    let parties = Parties::new(4);
    digits::share_out_to(&parties);
    let few = RUN.replace("classes = 10\n", "classes = 10\niterations = 5\n");
    let few = few.replace("[data]\n", "[data]\nrecords = { at_most = 200 }\n");
    let digest = parties.plan("plan", &few);
    (parties, digest)
}

/// Each by itself, over a plan: a model of each kind of file.
#[test]
fn parties_join_a_planned_training() {
    let (parties, _) = four_with_a_plan();
    let outputs = ["m.npy", "m.json", "m.safetensors", "n.json"];
    let running = parties.names().iter().zip(outputs).map(|(name, output)| {
        let line = format!(
            "join plan.json --identity {name}.key --input {name}.csv --output {output} --receipt {name}.receipt --json"
        );
        start_in(parties.folder(), line.split(' '))
    });
    let running: Vec<_> = running.collect();
    for running in running {
        let object = running.wait().json_of(0);
        assert_eq!(object["iterations"]["run"], 5, "{object}");
    }
    let weights = |name: &str| read_json(&parties.path(name))["weights"].clone();
    assert_eq!(weights("m.json"), weights("n.json"));
    let (_, _, numbers) = read_npy(&parties.path("m.npy"));
    let first = weights("m.json")[0][0].as_f64().expect("a number");
    assert_eq!((numbers.len(), numbers[0]), (650, first));
    let tensors = std::fs::read(parties.path("m.safetensors")).expect("written");
    let text = String::from_utf8_lossy(&tensors[..2000]);
    let words = ["\"weight\"", "\"bias\"", "digest"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

/// Daemons charge the whole training, and everybody gets one model.
#[test]
fn daemons_take_part_in_a_training() {
    let (parties, digest) = four_with_a_plan();
    let daemons: Vec<Daemon> = (0..4)
        .map(|party| Daemon::start(&parties, party, "[policy]\nmax_epsilon = 3.0\n"))
        .collect();
    for daemon in &daemons {
        let table = format!("{}.csv", daemon.name);
        daemon
            .client(["submit", "plan.json", "--input", &table])
            .json_of(0);
    }
    let models = daemons.iter().map(|daemon| {
        let run = daemon.client(["watch", &digest]).json_of(0);
        assert_eq!(run["outcome"], "done", "{run}");
        let model = format!("{}.npy", daemon.name);
        daemon.client(["result", &digest, "--output", &model]).json_of(0);
        read_npy(&parties.path(&model)).2
    });
    let models: Vec<Vec<f64>> = models.collect();
    assert!(
        models
            .iter()
            .all(|model| model.len() == 650 && *model == models[0])
    );
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}

#[test]
fn what_makes_no_training_is_refused_by_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    prepare(folder, 4);
    let refused = |from: &str, to: &str, (code, field): (i32, &str)| {
        let text = RUN.replace(from, to);
        assert_ne!(text, RUN, "{from}");
        std::fs::write(folder.join("run.toml"), text).expect("writable");
        run_in(folder, LOCAL.split(' ')).refused_at(code, field);
    };
    refused(
        "loss = \"softmax\"\nclasses = 10",
        "loss = \"squared\"",
        (2, "model.clip"),
    );
    refused("classes = 10\n", "", (2, "model.classes"));
    refused(
        "classes = 10\n",
        "classes = 10\niterations = 10001\n",
        (2, "model.iterations"),
    );
    refused(
        "classes = 10\n",
        "classes = 10\ntarget = \"digit\"\n",
        (2, "model.target"),
    );
    refused(
        "classes = 10\n",
        "classes = 10\nset = { kind = \"ball\", radius = 0.0 }\n",
        (2, "model.set"),
    );
    refused(
        "classes = 10\n",
        "classes = 10\nrows = \"as-is\"\n",
        (2, "model.step"),
    );
    refused(
        "[privacy]",
        "[mechanism]\nkind = \"ppsc\"\n[privacy]",
        (2, "mechanism.kind"),
    );
    // Precomputed noise that is more than a node may hold.
    refused(
        "[privacy]",
        "[mechanism]\nkind = \"inca\"\n[run]\nprecomputed_bytes = 100000\n[privacy]",
        (3, "run.precomputed_bytes"),
    );
    refused(
        "[privacy]",
        "[run]\nsettle_ms = 500\n[privacy]",
        (2, "run.settle_ms"),
    );
    // Noise longer than any gradient.
    refused("epsilon = 3.0", "epsilon = 0.01", (2, "data.noise_ok"));
    // A target that is no class: the node refuses its own file, and tells no value.
    let text = std::fs::read_to_string(folder.join("tables/party-1.csv")).expect("readable");
    let (_, rest) = text.split_once('\n').expect("rows");
    let foreign = format!("{}37\n{rest}", "0,".repeat(64));
    std::fs::write(folder.join("tables/party-1.csv"), foreign).expect("writable");
    std::fs::write(folder.join("run.toml"), RUN).expect("writable");
    let ended = run_in(folder, LOCAL.split(' '));
    assert_ne!(ended.code, 0, "{}", ended.stdout);
}
