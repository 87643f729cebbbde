//! Mechanisms, graphs and faults beyond the default, in the simulator: real plans, real noise, the
//! real gate.

use std::sync::Arc;

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Ending, Outcome};
use undertone_protocol::simulator::scenario::{Conditions, Fault};
use undertone_protocol::time::Time;
use undertone_tests::simulated::{assert_exact, kills, mixing_time, others, simulate};

fn plan(parties: usize, lines: &str) -> Arc<Plan> {
    let lines = format!("{lines}\n[run]\nround_ms = 200\nsettle_ms = 1600\njoin_ms = 2000");
    undertone_tests::simulated::plan(parties, 5, &lines)
}

/// Without a fault everybody holds the exact sum; after one kill in mixing, loud or silent, the
/// survivors hold theirs.
fn exact_with_and_without_a_kill(plan: &Arc<Plan>, seeds: u64) {
    for seed in 0..seeds {
        let report = simulate(plan, Conditions::new(seed));
        assert_exact(
            &report,
            &others(plan, &[]),
            &Ending::Done,
            &format!("seed {seed}"),
        );
        for loud in [true, false] {
            let (faults, dead) = kills(plan, seed, &[loud]);
            let what = format!("seed {seed}: {faults:?}");
            let report = simulate(plan, Conditions::new(seed).with_faults(faults));
            assert_exact(&report, &others(plan, &dead), &Ending::Degraded, &what);
        }
    }
}

#[test]
fn two_and_three_shares_a_round() {
    exact_with_and_without_a_kill(&plan(6, "[mechanism]\nfanout = 2\nrounds = 4"), 6);
    exact_with_and_without_a_kill(&plan(8, "[mechanism]\nfanout = 3\nrounds = 3"), 4);
}

#[test]
fn early_injection() {
    exact_with_and_without_a_kill(&plan(6, "[mechanism]\ninjection = \"early\"\nrounds = 5"), 6);
}

const CUSTOM: &str = r#"[mechanism]
fanout = FANOUT
injection = { c = ["1/2", "1/4", "0.25", "0"], z = [["1", "1/2", "0"], ["-1", "0.5", "1"], ["0", "-1", "1/2"], ["0", "0", "-3/2"]] }"#;

#[test]
fn an_injection_of_ones_own() {
    for fanout in ["1", "2"] {
        let plan = plan(6, &CUSTOM.replace("FANOUT", fanout));
        assert_eq!(plan.rounds(), 3, "(c, Z) has three rounds");
        exact_with_and_without_a_kill(&plan, 5);
    }
}

#[test]
fn sparse_graphs_on_both_sides() {
    // Messages take up to four hops around the public ring, and seven along it once somebody is
    // dead.
    let ring = plan(
        8,
        "[topology]\nprivate = { kind = \"random-regular\", degree = 4 }\npublic = \"ring\"\n[mechanism]\nrounds = 5",
    );
    exact_with_and_without_a_kill(&ring, 4);
    let edges = "[[\"party-0\", \"party-1\"], [\"party-1\", \"party-2\"], [\"party-2\", \"party-3\"], [\"party-3\", \"party-4\"], \
                 [\"party-4\", \"party-5\"], [\"party-5\", \"party-0\"], [\"party-0\", \"party-3\"], [\"party-1\", \"party-4\"], \
                 [\"party-2\", \"party-5\"]]";
    let lines = format!(
        "[topology]\nprivate = {{ kind = \"edges\", edges = {edges} }}\npublic = {{ kind = \"random-regular\", degree = 3 }}\n\
         [mechanism]\nrounds = 4"
    );
    exact_with_and_without_a_kill(&plan(6, &lines), 4);
}

#[test]
fn a_private_ring_and_a_public_path_without_dropouts() {
    let path: Vec<String> = (0..5)
        .map(|i| format!("[\"party-{i}\", \"party-{}\"]", i + 1))
        .collect();
    let lines = format!(
        "[privacy]\ndropouts = 0\n[topology]\nprivate = \"ring\"\npublic = {{ kind = \"edges\", edges = [{}] }}\n[mechanism]\nrounds = 4",
        path.join(", ")
    );
    let plan = plan(6, &lines);
    for seed in 0..5 {
        let report = simulate(&plan, Conditions::new(seed));
        assert_exact(
            &report,
            &others(&plan, &[]),
            &Ending::Done,
            &format!("seed {seed}"),
        );
    }
}

#[test]
fn a_dead_relay_on_the_public_graph_splits_nobodys_result() {
    // Party 2 is the only way from 0 and 1 to 3, 4 and 5: neither side is enough to agree.
    let path: Vec<String> = (0..5)
        .map(|i| format!("[\"party-{i}\", \"party-{}\"]", i + 1))
        .collect();
    let lines = format!(
        "[topology]\npublic = {{ kind = \"edges\", edges = [{}] }}\n[mechanism]\nrounds = 4",
        path.join(", ")
    );
    let plan = plan(6, &lines);
    for seed in 0..4 {
        let at = Time::from_nanos(mixing_time(&plan, seed).start + seed * 1_000_000);
        let report = simulate(
            &plan,
            Conditions::new(seed).with_faults(vec![Fault::Crash { party: 2, at }]),
        );
        for outcome in report.outcomes.iter().flatten() {
            assert!(
                matches!(outcome.ending, Ending::Withheld { .. }),
                "seed {seed}: {:?}",
                outcome.ending
            );
        }
    }
}

#[test]
fn two_dropouts_are_tolerated_when_the_plan_says_so() {
    let plan = plan(8, "[privacy]\ndropouts = 2\n[mechanism]\nrounds = 5");
    exact_with_and_without_a_kill(&plan, 2);
    for seed in 0..6 {
        for loud in [[true, true], [true, false], [false, false]] {
            let (faults, dead) = kills(&plan, seed, &loud);
            let what = format!("seed {seed}: {faults:?}");
            let report = simulate(&plan, Conditions::new(seed).with_faults(faults));
            assert_exact(&report, &others(&plan, &dead), &Ending::Degraded, &what);
        }
    }
}

#[test]
fn the_papers_protocol_survives_a_kill_with_one_result_or_none() {
    let plan = plan(6, "[mechanism]\nrollback = false\nrounds = 4");
    let report = simulate(&plan, Conditions::new(0));
    assert_exact(&report, &others(&plan, &[]), &Ending::Done, "no fault");
    let mut published = 0;
    for seed in 0..8 {
        let (faults, dead) = kills(&plan, seed, &[seed % 2 == 0]);
        let report = simulate(&plan, Conditions::new(seed).with_faults(faults.clone()));
        let survivors = others(&plan, &dead);
        let outcomes: Vec<&Outcome> = survivors
            .iter()
            .map(|&party| report.outcomes[party].as_ref().expect("finished"))
            .collect();
        let sum = |outcome: &Outcome| outcome.sum.as_ref().map(|sum| (sum.value.clone(), sum.weight));
        let first = sum(outcomes[0]);
        for outcome in &outcomes {
            assert!(sum(outcome) == first, "seed {seed}: {faults:?}");
            assert!(
                matches!(outcome.ending, Ending::Degraded | Ending::Withheld { .. }),
                "seed {seed}: {:?}",
                outcome.ending
            );
        }
        published += u32::from(first.is_some());
    }
    assert!(
        published >= 6,
        "a single crash is within the class: {published} of 8"
    );
}

/// With every message on its way for one second and all else instant, the clock counts messages on
/// the critical path.
#[test]
fn from_start_to_the_result_there_are_few_round_trips() {
    const HOP_US: u64 = 1_000_000;
    for (dimension, rounds) in [(5, 4), (5, 7), (20_000, 5)] {
        let lines = format!(
            "[mechanism]\nrounds = {rounds}\n[run]\nround_ms = 60000\nsettle_ms = 600000\njoin_ms = 600000"
        );
        let plan = undertone_tests::simulated::plan(8, dimension, &lines);
        let conditions = Conditions {
            latency_us: (HOP_US, HOP_US),
            instant: true,
            ..Conditions::new(1)
        };
        let report = simulate(&plan, conditions);
        assert_exact(&report, &others(&plan, &[]), &Ending::Done, "no fault");
        let ways = (0..8).map(|party| {
            let start = report.outcomes[party]
                .as_ref()
                .and_then(|outcome| outcome.started_at)
                .expect("it began");
            report.finished_at[party].expect("it ended").since(start) as f64 / (HOP_US as f64 * 1e3)
        });
        let ways = ways.fold(0.0, f64::max);
        println!(
            "{dimension} coordinates, {rounds} rounds: {ways} ways, {} round trips from START to the result",
            ways / 2.0
        );
        // START is held by all within one way of each other. T rounds take a way each; the last
        // answer, log, vote, final and vote one more.
        let pulled = if dimension > 5 { 2.0 } else { 0.0 };
        assert!(
            ways <= f64::from(rounds) + 6.0 + pulled,
            "{ways} ways, {rounds} rounds"
        );
        assert!(
            ways / 2.0 <= f64::from(rounds) + 5.0,
            "the bound that was promised"
        );
    }
}
