//! What regressions come to: both methods, both units, figures beside a trusted server's, the same
//! bits on other machines, and what is refused.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use undertone_tests::{
    Parties, Signal, alone, assert_close, digits, follow_in, read_json, run_in, signal_if_alive, start_in,
    start_narrow_in,
};

/// Ten parties' digits.
const DIGITS: &str = "version = 1\ntask = \"regression\"\nname = \"digits\"\n[data]\nshape = [65]\n\
                      clip = { kind = \"box\", low = 0.0, high = 16.0 }\n[model]\nloss = \"softmax\"\n\
                      classes = 10\n[privacy]\nepsilon = 3.0\ndelta = 1e-5\n";

/// Least squares of rows as they are.
const SQUARES: &str = "version = 1\ntask = \"regression\"\nname = \"squares\"\n[data]\nshape = [3]\n[model]\n\
                       loss = \"squared\"\nrows = \"as-is\"\nintercept = false\n";

/// The run file of parties with this many rows each.
fn with_records(count: u64) -> String {
    SQUARES.replace("[data]\n", &format!("[data]\nrecords = {count}\n"))
}

/// Numbers that are spread evenly over [−1, 1], alike in every run.
fn spread(at: usize, column: usize) -> f64 {
    let golden = [0.754_877_666, 0.569_840_29, 0.436_7][column];
    2.0 * ((at as f64 + 0.5) * golden).fract() - 1.0
}

/// y = x_0/2 − x_1/4, and a little of something else.
fn rows(from: usize, count: usize) -> String {
    (from..from + count).fold(String::new(), |mut text, at| {
        let (x, z) = (spread(at, 0), spread(at, 1));
        let y = 0.5 * x - 0.25 * z + 0.1 * spread(at, 2);
        writeln!(text, "{x},{z},{y}").expect("a string");
        text
    })
}

fn write_tables(folder: &Path, parties: usize, rows_each: usize) {
    std::fs::create_dir(folder.join("tables")).expect("writable");
    for party in 0..parties {
        let text = rows(party * rows_each, rows_each);
        std::fs::write(folder.join(format!("tables/party-{party}.csv")), text).expect("writable");
    }
    std::fs::write(folder.join("test.csv"), rows(1 << 20, 500)).expect("writable");
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("writable");
}

const LOCAL: &str = "local --inputs tables --run run.toml --test test.csv --output kept --json";

fn weights(path: &Path) -> Vec<f64> {
    let model = read_json(path);
    let row = model["weights"][0].as_array().expect("weights");
    row.iter()
        .map(|weight| weight.as_f64().expect("a number"))
        .collect()
}

#[test]
fn statistics_fit_least_squares_in_one_release() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_tables(folder, 4, 500);
    let more =
        "method = \"statistics\"\nclip = 1.7\nridge = \"auto\"\n[privacy]\nepsilon = 3.0\ndelta = 1e-5\n";
    write(folder, "run.toml", &format!("{SQUARES}{more}"));
    let object = run_in(folder, LOCAL.split(' ')).json_of(0);
    assert_eq!(
        (&object["iterations"]["run"], &object["same_bits"]),
        (&1.into(), &true.into())
    );
    assert!(
        object["epsilon"].as_f64().is_some_and(|epsilon| epsilon <= 3.0),
        "{object}"
    );
    let r2 = object["test"]["r2"].as_f64().expect("R²");
    assert!(r2 > 0.9, "{object}");
    let plan = read_json(&folder.join("kept/plan.json"));
    // √2·R², not the 2·R² of two vectors of that length.
    let sensitivity = plan["members"][0]["sensitivity"].as_f64().expect("Δ");
    assert_close(
        &plan["members"][0]["sensitivity"],
        2f64.sqrt() * 1.7 * 1.7,
        1e-4,
        "Δ",
    );
    assert!(
        sensitivity >= 2f64.sqrt() * 1.7 * 1.7,
        "never below: {sensitivity}"
    );
    run_in(
        folder,
        ["receipt", "kept/party-1/receipt.json", "--plan", "kept/plan.json"],
    );
    let receipt = read_json(&folder.join("kept/party-1/receipt.json"));
    assert_eq!(
        (&receipt["iterations"]["planned"], &receipt["mu"]),
        (&1.into(), &receipt["mu_iteration"])
    );
    let line = "predict kept/party-1/model.npy --input test.csv --json";
    let predicted = run_in(folder, line.split(' ')).json_of(0);
    assert_close(&predicted["test"]["r2"], r2, 1e-12, "R²");
    let quote = run_in(folder, "verify kept/plan.json --full".split(' '));
    assert!(
        quote.stdout.contains("statistics has noise of spectral norm"),
        "{}",
        quote.stdout
    );
}

#[test]
fn a_party_can_be_what_is_protected() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_tables(folder, 5, 40);
    let more = "clip = 0.3\nstep = 1.0\niterations = 6\n[privacy]\nepsilon = 10.0\ndelta = 1e-3\n";
    let unit = "[data]\nunit = \"party\"\nweights = { party-0 = 1.25 }\n";
    write(
        folder,
        "run.toml",
        &format!("{SQUARES}{more}").replace("[data]\n", unit),
    );
    let object = run_in(folder, LOCAL.split(' ')).json_of(0);
    assert_eq!(object["same_bits"], true);
    // With noise that is seeded, and so always the same: five parties leave something of a model.
    let line = "simulate run.toml --inputs tables --test test.csv --seed 3 --json";
    let simulated = run_in(folder, line.split(' ')).json_of(0);
    let r2 = simulated["this_plan"]["mean"].as_f64().expect("R²");
    assert!(r2 > 0.3, "{simulated}");
    let plan = read_json(&folder.join("kept/plan.json"));
    let sensitivity = |party: usize| plan["members"][party]["sensitivity"].as_f64();
    // 2·C·a: 0.6 a party, whatever its rows.
    assert_eq!([sensitivity(0), sensitivity(1)], [Some(0.75), Some(0.6)]);
    assert!(
        plan["members"][0]["records"].is_null(),
        "nobody says how many rows it has"
    );
    assert_eq!(weights(&folder.join("kept/party-0/model.json")).len(), 2);
}

/// Accuracy on rows held out: of the plan, of a trusted server's noise, of local noise.
#[test]
fn digits_are_as_good_as_a_trusted_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    digits::share_out(folder, 10);
    write(folder, "run.toml", DIGITS);
    let line = "simulate run.toml --inputs tables --test test.csv --runs 2 --kills 1 --json";
    let object = run_in(folder, line.split(' ')).json_of(0);
    let of = |who: &str, what: &str| object[who][what].as_f64().unwrap_or_else(|| panic!("{object}"));
    assert!(of("this_plan", "worst") >= 0.86, "{object}");
    assert!(
        of("trusted_server", "mean") - of("this_plan", "mean") <= 0.02,
        "{object}"
    );
    assert!(of("local_noise", "mean") < 0.85, "{object}");
    assert!(
        object["epsilon"].as_f64().is_some_and(|epsilon| epsilon <= 3.0),
        "{object}"
    );
    assert_eq!(
        (&object["runs_with_the_same_bits"], &object["violations"]),
        (&2.into(), &Value::Array(vec![]))
    );
}

/// Twenty columns, half of the target's variance the model's: how much worse than without noise, in
/// units of what no model explains.
#[test]
fn least_squares_lose_little() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let squares = SQUARES.replace("[3]", "[21]");
    let privacy = "[privacy]\nepsilon = 1.0\ndelta = 1e-6\n";
    let descent = "clip = 4.427\niterations = 20\nstep = 0.6\nmomentum = 0.0\n";
    // |v|² is 22 on average; ρ is 0.15 of the noise's norm.
    let statistics = "method = \"statistics\"\nclip = 4.69\nridge = \"auto\"\n";
    for (more, most) in [(descent, 0.003), (statistics, 0.014)] {
        write(folder, "run.toml", &format!("{squares}{more}{privacy}"));
        let line = "simulate run.toml --parties 10 --runs 5 --seed 3 --json";
        let object = run_in(folder, line.split(' ')).json_of(0);
        let r2 = object["this_plan"]["mean"].as_f64().expect("R²");
        let without = object["without_noise"].as_f64().expect("R²");
        let excess = (without - r2) / (1.0 - without);
        assert!(
            without > 0.45 && excess <= most,
            "{excess} above {most}: {object}"
        );
        let local = object["local_noise"]["mean"].as_f64().expect("R²");
        assert!(local < r2, "{object}");
    }
}

/// A model does not depend on which instructions a machine has: half of the parties run without the
/// wide ones that libraries choose at run time, and nobody's frames are refused.
#[test]
fn machines_with_and_without_wide_instructions_agree() {
    let _alone = alone();
    let parties = Parties::new(4);
    for (party, name) in parties.names().iter().enumerate() {
        parties.write(&format!("{name}.csv"), &rows(300 * party, 300));
    }
    let more = "clip = 1.0\nstep = 0.7\niterations = 15\nset = { kind = \"ball\", radius = 0.4 }\n[privacy]\nepsilon = 3.0\n";
    parties.plan("plan", &format!("{}{more}", with_records(300)));
    let running = parties.names().iter().enumerate().map(|(party, name)| {
        let line =
            format!("join plan.json --identity {name}.key --input {name}.csv --output {name}.json --json");
        match party % 2 {
            0 => start_narrow_in(parties.folder(), line.split(' ')),
            _ => start_in(parties.folder(), line.split(' ')),
        }
    });
    let running: Vec<_> = running.collect();
    for running in running {
        let object = running.wait().json_of(0);
        assert_eq!(object["iterations"]["run"], 15, "{object}");
    }
    let of = |name: &String| weights(&parties.path(&format!("{name}.json")));
    let first = of(&parties.names()[0]);
    assert!(parties.names().iter().all(|name| of(name) == first));
    // And the same noise gives the same model in processes of either kind.
    parties.write(
        "run.toml",
        &DIGITS.replace("classes = 10", "classes = 10\niterations = 3"),
    );
    let line = "simulate run.toml --parties 4 --seed 5 --json";
    let wide = start_in(parties.folder(), line.split(' '));
    let narrow = start_narrow_in(parties.folder(), line.split(' '));
    let model = |object: Value| object["model_sha256"][0].as_str().expect("a hash").to_owned();
    assert_eq!(model(wide.wait().json_of(0)), model(narrow.wait().json_of(0)));
}

/// More leave than planned: everybody else stops with the model so far.
#[test]
fn two_kills_end_a_training_with_the_model_so_far() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_tables(folder, 6, 300);
    let more = "clip = 1.0\nstep = 0.7\niterations = 400\n[privacy]\nepsilon = 3.0\n";
    write(folder, "run.toml", &format!("{SQUARES}{more}"));
    let (running, mut events) = follow_in(folder, LOCAL.split(' '));
    let pids: Vec<i32> = events.spawned(6).into_iter().map(|(_, pid)| pid).collect();
    events.until("the fifth iteration", |event| {
        event["event"] == "iteration" && event["k"] == 5
    });
    for victim in [1, 4] {
        signal_if_alive(pids[victim], Signal::SIGKILL);
    }
    events.rest();
    let object = running.wait().json_of(5);
    let run = object["iterations"]["run"].as_u64().expect("a count");
    assert!((5..400).contains(&run), "{object}");
    let survivors = ["party-0", "party-2", "party-3", "party-5"];
    for name in survivors {
        assert_eq!(object["exit_codes"][name], 5, "{object}");
        let receipt = read_json(&folder.join(format!("kept/{name}/receipt.json")));
        let spent = receipt["iterations"]["spent"].as_u64().expect("a count");
        assert!(
            receipt["epsilon"].as_f64().is_some_and(|epsilon| epsilon < 3.0) && spent <= run + 1,
            "{receipt}"
        );
    }
    let of = |name: &str| {
        let model = read_json(&folder.join(format!("kept/{name}/model.json")));
        (
            model["iterations"].as_u64().expect("a count"),
            model["weights"].clone(),
        )
    };
    let models = survivors.map(of);
    for (iterations, weights) in &models {
        let alike = models.iter().filter(|(other, _)| other == iterations);
        assert!(
            alike.into_iter().all(|(_, other)| other == weights),
            "one model after {iterations}"
        );
    }
}

#[test]
fn an_audit_of_a_training_finds_noise_that_is_too_small() {
    let parties = Parties::new(4);
    let more = "clip = 1.0\nstep = 0.7\niterations = 3\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n";
    parties.plan("plan", &format!("{}{more}", with_records(100)));
    let audit = |scale: &str| {
        let line = format!("audit plan.json --json --pairs 300000 --noise-scale {scale}");
        let object = run_in(parties.folder(), line.split(' ')).json_of(0);
        ["epsilon_lower", "epsilon_claimed"].map(|key| object[key].as_f64().expect("a number"))
    };
    let [lower, claimed] = audit("1.0");
    assert!(lower <= claimed && lower >= claimed / 2.0, "{lower} of {claimed}");
    let [lower, claimed] = audit("0.6");
    assert!(lower > claimed, "{lower} of {claimed}");
    let line = "account training --epsilon 1 --delta 1e-5 --iterations 4 --published 2 --json";
    let object = run_in(parties.folder(), line.split(' ')).json_of(0);
    let plan = read_json(&parties.path("plan.json"));
    let mu = plan["claims"][0]["mu"].as_f64().expect("μ");
    assert_close(&object["mu"], mu / 2f64.sqrt(), 1e-4, "half of the squares");
    run_in(
        parties.folder(),
        line.replace("--published 2", "--published 7").split(' '),
    )
    .refused_at(2, "--published");
}

#[test]
fn what_does_not_go_together_is_refused_by_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_tables(folder, 4, 30);
    let squares = format!("{SQUARES}clip = 1.0\nstep = 0.7\n");
    for (from, to, field) in [
        ("clip = 1.0\n", "", "model.clip"),
        (
            "\"squared\"",
            "\"logistic\"\nmethod = \"statistics\"",
            "model.method",
        ),
        (
            "step = 0.7\n",
            "method = \"statistics\"\nstep = 0.7\n",
            "model.step",
        ),
        ("step = 0.7\n", "step = 0.7\nridge = \"auto\"\n", "model.ridge"),
        ("step = 0.7\n", "", "model.step"),
        (
            "step = 0.7\n",
            "step = 0.7\niterations = 10001\n",
            "model.iterations",
        ),
        ("step = 0.7\n", "step = 0.7\nclasses = 3\n", "model.classes"),
        ("step = 0.7\n", "step = 0.7\ntarget = 3\n", "model.target"),
        (
            "[model]",
            "[mechanism]\nkind = \"ppsc\"\n[model]",
            "mechanism.kind",
        ),
        (
            "[model]",
            "[mechanism]\nkind = \"pairwise\"\nrounds = 9\n[model]",
            "mechanism.rounds",
        ),
        (
            "[model]",
            "[privacy]\ncoalitions = \"static\"\n[model]",
            "privacy.coalitions",
        ),
        (
            "[model]",
            "[run]\ndissemination = \"consensus\"\n[model]",
            "run.dissemination",
        ),
    ] {
        let text = squares.replace(from, to);
        assert_ne!(text, squares, "{from}");
        write(folder, "run.toml", &text);
        run_in(folder, LOCAL.split(' ')).refused_at(2, field);
    }
    write(folder, "run.toml", "version = 1\nname = \"x\"\n");
    let line = "simulate run.toml --inputs tables --test test.csv --json";
    run_in(folder, line.split(' ')).refused_at(2, "--inputs");
}

/// A party's own file: its node says what is wrong with it, and no value.
#[test]
fn tables_that_do_not_fit_a_model_are_unusable() {
    let parties = Parties::new(4);
    let softmax = with_records(2).replace("\"squared\"", "\"softmax\"\nclasses = 3\nstep = 1.0");
    let named = softmax.replace(
        "[data]\n",
        "[data]\nnoise_ok = true\ncolumns = [\"age\", \"dose\", \"stage\"]\n",
    );
    parties.plan("plan", &named);
    let name = &parties.names()[0];
    for (table, reported) in [
        ("age,dose,stage\n1,2,0\n1,2,3\n", "row 2"),
        ("age,dose,stage\n1,2,0\n1,2,0.5\n", "row 2"),
        ("age,dose,stage\n1,2,-1\n1,2,1\n", "row 1"),
        ("dose,age,stage\n1,2,0\n1,2,1\n", "age"),
        ("age,dose,stage\n1,NaN,0\n1,2,1\n", ""),
        ("age,dose\n1,2\n1,2\n", "shape"),
        ("age,dose,stage\n1,2,0\n", "records"),
    ] {
        parties.write("own.csv", table);
        let line = format!("join plan.json --identity {name}.key --input own.csv --output m.json --json");
        let object = run_in(parties.folder(), line.split(' ')).refused(7, "");
        let error = &object["error"];
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| message.contains(reported)),
            "{object}"
        );
        assert!(
            error["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
            "{object}"
        );
    }
}
