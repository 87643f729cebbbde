//! Gossip: estimates, whoever departs and whenever; nobody stops for anybody.

use super::*;
use crate::run::outcome::{GossipOutcome, MissedMessages};

const OPEN: &str = "[mechanism]\nsums = \"open\"\n";

const GRAPHS: [&str; 4] = [
    "private = \"complete\"",
    "private = \"ring\"",
    "private = { kind = \"random-regular\", degree = 4 }",
    "private = { kind = \"edges\", edges = [[\"party-0\", \"party-1\"], [\"party-1\", \"party-2\"], \
     [\"party-2\", \"party-3\"], [\"party-3\", \"party-4\"], [\"party-4\", \"party-5\"], \
     [\"party-5\", \"party-6\"], [\"party-6\", \"party-7\"], [\"party-1\", \"party-6\"]] }",
];

fn gossip_plan(releases: u32, mechanism: &str, graph: &str, rounds: u32) -> Arc<Plan> {
    let lines = format!("releases = {releases}\n{OPEN}{mechanism}\n[topology]\n{graph}\n");
    plan(8, &lines, rounds)
}

fn stream_of(releases: u32, graph: &str) -> Arc<Plan> {
    gossip_plan(releases, "", graph, releases)
}

fn release(plan: &Plan, party: Party, round: u32) -> LatticeVector {
    plan.lattice()
        .encode([0.05 * party as f64, -0.02 * f64::from(round)].into_iter())
}

fn gossiping(plan: &Arc<Plan>, conditions: Conditions) -> Report {
    let first = (0..plan.parties()).map(|party| release(plan, party, 1)).collect();
    Simulation::new(plan.clone(), first, &permissive_gate, conditions)
        .contributing(|party, round, _| release(plan, party, round))
        .run()
}

fn outcome(report: &Report, party: Party) -> (&Outcome, &GossipOutcome) {
    let outcome = report.outcomes[party].as_ref().expect("it ended");
    (outcome, outcome.gossip.as_ref().expect("of gossip"))
}

#[test]
fn without_faults_everybody_ends_with_all_that_was_due() {
    let ways = ["", "edges = \"matching\"", "edges = { degree = 2 }"];
    for (graph, edges) in GRAPHS
        .into_iter()
        .flat_map(|graph| ways.map(|edges| (graph, edges)))
    {
        for (releases, rounds) in [(1, 9), (6, 6)] {
            let plan = gossip_plan(releases, edges, graph, rounds);
            let report = gossiping(&plan, Conditions::new(3));
            assert_eq!(report.violations, [], "{graph} {edges} {releases}");
            for party in 0..8 {
                let (outcome, gossip) = outcome(&report, party);
                assert_eq!(outcome.ending, Ending::Done);
                assert!(gossip.missed.is_empty() && gossip.rounds == rounds && gossip.spent == releases);
                let rows = if releases == 1 { 1 } else { rounds };
                assert_eq!(gossip.estimates.len(), 2 * rows as usize);
            }
            let reported = |event: &Event| matches!(event, Event::Complete);
            assert_eq!(
                report
                    .events
                    .iter()
                    .filter(|(_, _, event)| reported(event))
                    .count(),
                8
            );
        }
    }
}

/// Averages of what all contributed: of so many rounds they are near the mean.
#[test]
fn many_rounds_come_near_the_mean() {
    let plan = gossip_plan(1, "", GRAPHS[1], 60);
    let report = gossiping(&plan, Conditions::new(4));
    assert_eq!(report.violations, []);
    let sum = report.sum_over(&(0..8).collect()).expect("some");
    let mean = sum.to_f64(plan.lattice().step() / 8.0);
    for party in 0..8 {
        for (estimate, mean) in outcome(&report, party).1.estimates.iter().zip(&mean) {
            assert!((estimate - mean).abs() < 1e-2, "{estimate} {mean}");
        }
    }
}

/// Nobody stops where somebody vanishes, however many do, and each says whom it lacked.
#[test]
fn whoever_vanishes_is_left_out_from_then_on() {
    for graph in [GRAPHS[0], GRAPHS[1]] {
        let plan = stream_of(30, graph);
        let crash = |party: Party, at: u64| Fault::Crash {
            party,
            at: Time::from_nanos(at * 1_000_000),
        };
        let faults = vec![crash(2, 12), crash(3, 14), crash(6, 16)];
        let report = gossiping(&plan, Conditions::new(5).with_faults(faults));
        assert_eq!(report.violations, [], "{graph}");
        for party in [0, 1, 4, 5, 7] {
            let (outcome, gossip) = outcome(&report, party);
            let ending = if gossip.missed.is_empty() {
                Ending::Done
            } else {
                Ending::Degraded
            };
            assert_eq!((&outcome.ending, gossip.rounds), (&ending, 30));
            let neighbour = plan.draft().private_graph.joins(party, 2);
            let missed = gossip.missed.get(&2);
            assert_eq!(neighbour, missed.is_some());
            let to_the_end = |missed: &MissedMessages| missed.first + missed.count == 31 && missed.first > 1;
            assert!(missed.is_none_or(to_the_end), "{missed:?}");
        }
        // No deadline had to pass: a closed connection tells it all.
        let ended = report.finished_at.iter().flatten().max().expect("some ended");
        assert!(ended.as_millis() < 500, "{ended:?}");
    }
}

/// Who falls silent costs one deadline, and who is back is waited for again.
#[test]
fn who_is_late_once_is_waited_for_again_once_it_is_heard() {
    let plan = gossip_plan(
        12,
        "",
        &format!("{}\n[run]\nround_ms = 400\npace_ms = 100", GRAPHS[0]),
        12,
    );
    let suspend = Fault::Suspend {
        party: 1,
        at: Time::from_millis(250),
        for_ms: 2_000,
    };
    let report = gossiping(&plan, Conditions::new(6).with_faults(vec![suspend]));
    assert_eq!(report.violations, []);
    for party in (0..8).filter(|party| *party != 1) {
        let (_, gossip) = outcome(&report, party);
        assert_eq!(gossip.rounds, 12);
        let of = gossip.missed.get(&1).expect("it was late");
        assert!(
            of.first > 1 && of.count < 12 && gossip.missed.len() == 1,
            "{gossip:?}"
        );
    }
    let ended = report.finished_at[0].expect("it ended").as_millis();
    assert!(ended < 2_400, "one deadline, not one a round: {ended}");
    // Whoever was away makes up for its rounds.
    assert_eq!(outcome(&report, 1).1.rounds, 12);
}

/// A connection that breaks and comes back loses nothing that is waited for.
#[test]
fn what_was_lost_with_a_connection_is_sent_again() {
    let plan = gossip_plan(20, "", &format!("{}\n[run]\nround_ms = 60000", GRAPHS[1]), 20);
    for seed in 0..20 {
        let cuts = (0..4u64).map(|cut| Fault::Cut {
            network: Network::Private,
            ends: (0, 1),
            at: Time::from_nanos((8 + seed) * 500_000 + cut * 5_000_000),
            for_ms: 3,
        });
        let mut conditions = Conditions::new(seed).with_faults(cuts.collect());
        conditions.duplicates = 0.1;
        let report = gossiping(&plan, conditions);
        assert_eq!(report.violations, [], "{seed}");
        for party in 0..8 {
            let (outcome, _) = outcome(&report, party);
            assert_eq!(outcome.ending, Ending::Done, "{seed}");
        }
    }
}

/// Every mix of faults: whatever was not there is left out, to the bit, and everybody ends.
#[test]
fn any_faults_leave_terms_out_and_nothing_else() {
    for seed in 0..40 {
        let graph = GRAPHS[seed as usize % GRAPHS.len()];
        let (releases, rounds) = if seed % 3 == 0 { (1, 12) } else { (12, 12) };
        let plan = gossip_plan(releases, "", &format!("{graph}\n[run]\nround_ms = 50"), rounds);
        let faults = random_faults(seed, &plan, 6, 60);
        let report = gossiping(&plan, Conditions::new(seed).with_faults(faults));
        assert_eq!(report.violations, [], "seed {seed}");
    }
}
