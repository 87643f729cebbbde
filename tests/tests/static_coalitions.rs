//! `coalitions = "static"`: a plan without a schedule, drawn at START from everybody's nonces,
//! whose claim is a theorem about that draw.

use serde_json::{Value, json};
use undertone::party::spent::marks_of;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::Ending;
use undertone_protocol::simulator::direct::{Leaving, direct};
use undertone_protocol::simulator::scenario::{Conditions, Fault};
use undertone_protocol::time::Time;
use undertone_tests::{PLAN, Parties, alone, read_json, run_in, simulated};

const RUN: &str = "name = \"test\"\n[data]\nshape = [3]\n[privacy]\ncoalitions = \"static\"\n";

#[test]
fn a_local_run_draws_its_schedule_and_says_so() {
    let _alone = alone();
    let kinds = ["pairwise", "ppsc"].map(|kind| format!("[mechanism]\nkind = \"{kind}\"\n"));
    for mechanism in [String::new()].iter().chain(&kinds) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(
            folder.path().join("run.toml"),
            RUN.replace("[data]\nshape = [3]\n", "")
                + mechanism
                + "[run]\njoin_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n",
        )
        .expect("written");
        let run = |output: &str| {
            let line = format!("local --json --nodes 6 --dimension 3 --run run.toml --output {output}");
            run_in(folder.path(), line.split(' ')).json_of(0)
        };
        let ended = run("out");
        let claim = &ended["claims"][0];
        assert_eq!(
            (
                &claim["basis"],
                &claim["established"],
                &claim["holds_as_headline"]
            ),
            (&json!("draw"), &json!("theorem"), &json!(true))
        );
        assert!(claim["draw"]["chance"].as_f64() <= Some(1e-9), "{claim}");
        assert!(ended["epsilon_claimed"].as_f64() <= Some(1.0), "{ended}");
        assert!(ended["epsilon"].as_f64() < ended["epsilon_claimed"].as_f64());
        let plan = read_json(&folder.path().join("out/plan.json"));
        assert_eq!(
            (&plan["schedule_seed"], &plan["out"]),
            (&Value::Null, &Value::Null)
        );
        let drawn = |output: &str| {
            let each = (0..6).map(|party| {
                let receipt = read_json(&folder.path().join(format!("{output}/party-{party}/receipt.json")));
                assert_eq!(receipt["connectivity"]["among"], 5, "{receipt}");
                let draw = &receipt["draw"];
                assert_eq!(
                    (&draw["tries"], &draw["delta"]),
                    (&json!(1), &json!(1e-6)),
                    "{draw}"
                );
                let execution = &receipt["execution"];
                [&execution["out"], &execution["masks"], &execution["edges"]].map(Value::clone)
            });
            each.collect::<Vec<_>>()
        };
        let first = drawn("out");
        assert!(first.iter().all(|out| *out == first[0]), "one schedule for all");
        if mechanism.is_empty() {
            assert_eq!(run("again")["outcome"], "done");
            assert_ne!(drawn("again")[0], first[0], "other nonces, another schedule");
        }
    }
}

#[test]
fn quote_says_what_the_draw_is_for() {
    let parties = Parties::new(6);
    parties.write("run.toml", RUN);
    let reported = parties.run([
        "plan",
        "run.toml",
        "--peers",
        "peers.toml",
        "--out",
        "plan.json",
        "--full",
    ]);
    for words in [
        "chosen before the schedule is drawn",
        "unless somebody chooses who departs by the schedule",
        "but for a draw of chance",
        "δ includes 3 times that chance",
    ] {
        assert!(reported.stdout.contains(words), "{words}: {}", reported.stdout);
    }
    let verified = parties.run(["verify", "plan.json", "--accept-claims", "sampled"]);
    assert!(verified.stderr.contains("--accept-claims") && verified.stderr.contains("ignored"));
    assert!(
        verified.stdout.contains("claims were computed again"),
        "{}",
        verified.stdout
    );
    let sure = parties
        .run(["verify", "plan.json", "--json", "--max-epsilon", "1"])
        .json_of(0);
    assert_eq!(sure["verified"], true);
    parties
        .run(["verify", "plan.json", "--json", "--max-epsilon", "0.9"])
        .refused_at(3, "--max-epsilon");
}

#[test]
fn what_static_coalitions_do_not_go_with_is_said() {
    let parties = Parties::new(6);
    for (lines, field) in [
        ("[mechanism]\ninjection = \"early\"", "mechanism.correlated"),
        ("[mechanism]\nrollback = false", "mechanism.correlated"),
        (
            "[mechanism]\nkind = \"ppsc\"\ncorrelated = \"gaussian\"",
            "mechanism.correlated",
        ),
        ("[mechanism]\nrounds = 4", "mechanism.rounds"),
        ("[topology]\nprivate = \"ring\"", "topology.private"),
    ] {
        parties.write("run.toml", &format!("{RUN}{lines}\n"));
        parties.run(PLAN).refused_at(2, field);
    }
}

/// Many rounds: with so few parties a draw parts them easily.
fn plan() -> std::sync::Arc<Plan> {
    let lines =
        "[privacy]\ncoalitions = \"static\"\n[mechanism]\ncorrelated = \"uniform\"\n[run]\nsealed = true";
    simulated::plan(9, 3, lines)
}

#[test]
fn the_real_gate_lets_the_class_pass_whoever_dies() {
    let plan = plan();
    for seed in 0..6 {
        let at = Time::from_nanos(simulated::mixing_time(&plan, seed).start + seed * 900_000);
        let fault = if seed % 2 == 0 {
            Fault::Crash { party: 4, at }
        } else {
            Fault::Silence { party: 4, at }
        };
        let report = simulated::simulate(&plan, Conditions::new(seed).with_faults(vec![fault]));
        let rest = simulated::others(&plan, &[4]);
        for &party in &rest {
            let outcome = report.outcomes[party].as_ref().expect("ends");
            assert_eq!(
                (&outcome.ending, &outcome.included),
                (&Ending::Degraded, &rest),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_run_without_the_talk_has_the_same_gate() {
    let plan = plan();
    let leaving = |parties: &[usize]| -> Vec<Leaving> {
        parties
            .iter()
            .map(|&party| Leaving {
                party,
                round: 1 + party as u32 % 5,
                sends: party % 2 == 0,
            })
            .collect()
    };
    let inputs = || simulated::on_lattice(&plan);
    let one = direct(&plan, inputs(), &simulated::real_gate, 1, &leaving(&[3]));
    assert_eq!(one.violations, []);
    assert_eq!(
        one.outcomes
            .iter()
            .flatten()
            .filter(|outcome| outcome.sum.is_some())
            .count(),
        8
    );
    let two = direct(&plan, inputs(), &simulated::real_gate, 1, &leaving(&[3, 6]));
    assert!(
        two.outcomes
            .iter()
            .flatten()
            .all(|outcome| matches!(outcome.ending, Ending::Withheld { .. })),
        "too many departed"
    );
}

/// Who ends runs has three numbers of a node to choose among for one plan, and no more.
#[test]
fn a_node_that_has_revealed_three_numbers_joins_no_more() {
    let parties = Parties::new(6);
    parties.write_inputs(&[3]);
    let run = RUN.replace("[data]\n", "[data]\nnoise_ok = true\n") + "[run]\njoin_ms = 1000\n";
    let digest = parties.plan("plan", &run);
    let plan = read_json(&parties.path("plan.json"));
    let id = plan["members"][0]["id"].as_str().expect("an id");
    let key = parties.path(&format!("{}.key", parties.names()[0]));
    let joins = || run_in(parties.folder(), parties.join("plan", 0));
    for revealed in 0..3 {
        // Alone it gives up before it reveals anything.
        assert_eq!(joins().code, 4, "{revealed}");
        let mut marks = marks_of(&key, id).expect("marks");
        assert_eq!(marks.reveal(&digest, None).expect("room"), revealed + 1);
    }
    let refused = joins().refused(6, "3 numbers").to_string();
    assert!(refused.contains("make a new plan"), "{refused}");
}
