//! `coalitions = "static"`: a plan without a schedule, drawn at START from everybody's nonces;
//! sampled claims only for those who accept them.

use serde_json::Value;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::Ending;
use undertone_protocol::simulator::direct::{Leaving, direct};
use undertone_protocol::simulator::scenario::{Conditions, Fault};
use undertone_protocol::time::Time;
use undertone_tests::{PLAN, Parties, alone, read_json, run_in, simulated};

const RUN: &str = "name = \"test\"\n[data]\nshape = [3]\n[privacy]\ncoalitions = \"static\"\ndraws = 100\n[mechanism]\nrounds = 4\n";

#[test]
fn a_local_run_draws_its_schedule_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("run.toml"),
        RUN.replace("[data]\nshape = [3]\n", "")
            + "[run]\njoin_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n",
    )
    .expect("written");
    let _alone = alone();
    let ended = run_in(
        folder.path(),
        "local --json --nodes 6 --dimension 3 --run run.toml --output out".split(' '),
    )
    .json_of(0);
    let claims = ended["claims"].as_array().expect("claims");
    let sampled = claims
        .iter()
        .find(|claim| claim["established"] == "sampled")
        .expect("a sampled claim");
    assert_eq!(
        (&sampled["cases"], &sampled["holds_as_headline"]),
        (&100.into(), &false.into())
    );
    assert!(
        sampled["epsilon"].as_f64() <= Some(1.0) && sampled["delta"].as_f64() > Some(0.06),
        "{sampled}"
    );
    assert!(
        ended["epsilon_claimed"].as_f64() > Some(1.0),
        "the headline is the theorem's"
    );
    assert_eq!(ended["epsilon"], ended["epsilon_claimed"]);
    assert!(ended["epsilon_searched"].as_f64() >= Some(1.0 - 1e-3));
    let plan = read_json(&folder.path().join("out/plan.json"));
    assert_eq!(
        (&plan["schedule_seed"], &plan["out"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        plan["private_graph"].as_array().map(Vec::len),
        Some(15),
        "the graphs stay"
    );
    let receipts =
        (0..6).map(|party| read_json(&folder.path().join(format!("out/party-{party}/receipt.json"))));
    let drawn: Vec<Value> = receipts
        .map(|receipt| receipt["execution"]["out"].clone())
        .collect();
    assert!(
        drawn.iter().all(|out| *out == drawn[0]) && drawn[0].as_array().map(Vec::len) == Some(4),
        "one schedule for all"
    );
    let again = run_in(
        folder.path(),
        "local --json --nodes 6 --dimension 3 --run run.toml --output again".split(' '),
    )
    .json_of(0);
    assert_eq!(again["outcome"], "done");
    let other = read_json(&folder.path().join("again/party-0/receipt.json"));
    assert_ne!(
        other["execution"]["out"], drawn[0],
        "other nonces, another schedule"
    );
}

#[test]
fn sampled_claims_are_for_those_who_accept_them() {
    let parties = Parties::new(6);
    parties.write("run.toml", RUN);
    let told = parties.run(["plan", "run.toml", "--peers", "peers.toml", "--out", "plan.json"]);
    assert!(
        told.stdout.contains("fresh draws") && told.stdout.contains("NOT a guarantee"),
        "{}",
        told.stdout
    );
    assert!(
        told.stdout
            .contains("unless somebody chooses who departs by the schedule"),
        "{}",
        told.stdout
    );
    let verified = parties.run(["verify", "plan.json", "--accept-claims", "sampled"]);
    assert!(
        verified
            .stdout
            .contains("draws of this machine's own do not contradict"),
        "{}",
        verified.stdout
    );
    parties
        .run(["verify", "plan.json", "--json"])
        .refused_at(3, "--accept-claims");
    let sure = parties
        .run(["verify", "plan.json", "--json", "--accept-claims", "sampled"])
        .json_of(0);
    assert_eq!(
        (&sure["verified"], &sure["sample"]["draws"]),
        (&true.into(), &100.into())
    );
    parties
        .run([
            "verify",
            "plan.json",
            "--json",
            "--accept-claims",
            "sampled",
            "--max-epsilon",
            "1",
        ])
        .json_of(0);
    parties
        .run([
            "verify",
            "plan.json",
            "--json",
            "--accept-claims",
            "sampled",
            "--max-epsilon",
            "0.9",
        ])
        .refused_at(3, "--max-epsilon");
    parties
        .run(["verify", "plan.json", "--json", "--max-epsilon", "1"])
        .refused_at(3, "--max-epsilon");
    // What is sure is above the target, and may do.
    let headline = sure["epsilon_claimed"].as_f64().expect("claimed");
    parties
        .run([
            "verify",
            "plan.json",
            "--json",
            "--max-epsilon",
            &format!("{}", headline * 1.01),
        ])
        .json_of(0);
}

#[test]
fn what_static_coalitions_do_not_go_with_is_said() {
    let parties = Parties::new(6);
    for (line, field) in [
        ("injection = \"early\"", "mechanism.injection"),
        ("rollback = false", "mechanism.rollback"),
    ] {
        parties.write("run.toml", &format!("{RUN}{line}\n"));
        parties.run(PLAN).refused_at(2, field);
    }
    parties.write(
        "run.toml",
        "name = \"test\"\n[data]\nshape = [3]\n[privacy]\ndraws = 100\n",
    );
    parties.run(PLAN).refused_at(2, "privacy.draws");
}

fn plan() -> std::sync::Arc<Plan> {
    simulated::plan(
        9,
        3,
        "[privacy]\ncoalitions = \"static\"\ndraws = 100\n[mechanism]\nrounds = 5",
    )
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
