use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::time::Time;

use super::*;
use crate::party::noise_tests::{COORDINATES, assert_planned_noise};
use crate::testing::plan_of;

fn plan(data: &str, mechanism: &str, parties: usize) -> Arc<Plan> {
    let text = format!(
        "name = \"t\"\ntask = \"stream\"\n[data]\nnoise_ok = true\n{data}\n[mechanism]\n{mechanism}\n"
    );
    Arc::new(plan_of(&text, parties, None))
}

fn rows_of(plan: &Arc<Plan>, rows: Vec<f64>) -> StreamOfRows {
    StreamOfRows::of(plan, 1, rows, ChaCha12Rng::seed_from_u64(6))
}

#[test]
fn every_row_of_a_stream_leaves_with_the_planned_noise() {
    let data = format!("shape = [{COORDINATES}]\nreleases = 5");
    for mechanism in ["sums = \"open\"", "sums = \"everybody\""] {
        let plan = plan(&data, mechanism, 8);
        let mut party = rows_of(&plan, vec![0.0; 5 * COORDINATES]);
        assert_planned_noise(&plan, &mut party, &[], mechanism);
    }
}

/// In round k leaves row k; beyond the last one the point of the range nearest to zero. Parties of
/// one seed draw the same noise.
#[test]
fn rows_leave_in_their_rounds() {
    let plan = plan(
        "shape = [2]\nreleases = 3\nclip = { kind = \"l2\", radius = 10.0 }",
        "",
        4,
    );
    let mut party = rows_of(&plan, vec![1.0, 2.0, 3.0, -4.0, 5.0, 6.0]);
    let mut zeros = rows_of(&plan, vec![0.0; 6]);
    let cell = plan.lattice().value_step();
    for (round, expected) in [
        (2, [3.0, -4.0]),
        (3, [5.0, 6.0]),
        (1, [1.0, 2.0]),
        (4, [0.0, 0.0]),
    ] {
        let mut value = party.contribution(round, &[]).vector().clone();
        value.subtract(zeros.contribution(round, &[]).vector());
        let found = value.to_f64(plan.lattice().step());
        let near = |at: usize| (found[at] - expected[at]).abs() <= cell;
        assert!(near(0) && near(1), "{round}: {found:?}");
    }
}

fn outcome(gossip: GossipOutcome, ending: Ending) -> Outcome {
    Outcome {
        ending,
        started: BTreeSet::from([0, 1, 2, 3]),
        started_at: Some(Time::ZERO),
        schedule_seed: None,
        records: Default::default(),
        logs: None,
        own_log: None,
        verdict: None,
        included: BTreeSet::new(),
        agreed: false,
        sum: None,
        accuracy: None,
        sealed: None,
        opened_for: vec![],
        unopened: vec![],
        out_of_range: false,
        tally: Default::default(),
        training: None,
        gossip: Some(Box::new(gossip)),
    }
}

fn gossip(plan: &Plan, rounds: u32, missed: &[(Party, MissedMessages)]) -> GossipOutcome {
    GossipOutcome {
        rounds,
        spent: rounds,
        missed: BTreeMap::from_iter(missed.iter().copied()),
        stopped: (rounds < plan.rounds()).then(|| "it was told to leave".to_owned()),
        estimates: vec![0.5; 2 * rounds as usize],
    }
}

#[test]
fn an_account_says_whose_messages_were_missing_and_who_departed() {
    let plan = plan("shape = [2]\nreleases = 6", "sums = \"open\"", 4);
    let rounds = plan.rounds();
    let whole = Gossiped::of(&plan, &outcome(gossip(&plan, rounds, &[]), Ending::Done)).expect("gossip");
    assert!(whole.has_estimate && whole.standard_error.is_some() && whole.reason.is_none());
    let missing = [
        (2, MissedMessages { first: 1, count: 1 }),
        (
            3,
            MissedMessages {
                first: rounds,
                count: 1,
            },
        ),
    ];
    let ended = outcome(gossip(&plan, rounds, &missing), Ending::Degraded);
    let without = Gossiped::of(&plan, &ended).expect("gossip");
    assert_eq!(without.departed, ["party-3"], "gone at the end");
    assert_eq!(
        without.faults[0], "no message of party-2 came in round 1",
        "{:?}",
        without.faults
    );
    assert!(without.standard_error.is_none(), "nobody knows what is missing");
    assert!(
        without
            .reason
            .is_some_and(|reason| reason.contains("party-2") && reason.contains("party-3"))
    );
}

#[test]
fn an_account_charges_the_releases_that_left() {
    let plan = plan("shape = [2]\nreleases = 6", "sums = \"open\"", 4);
    let of = |rounds| {
        let ended = outcome(gossip(&plan, rounds, &[]), Ending::Degraded);
        Gossiped::of(&plan, &ended).expect("gossip")
    };
    let (one, four, all) = (of(1), of(4), of(plan.rounds()));
    assert!(
        (four.mu / one.mu - 2.0).abs() < 1e-9,
        "√4: {} {}",
        one.mu,
        four.mu
    );
    assert!(one.epsilon < four.epsilon && four.epsilon < all.epsilon);
    assert_eq!((&one.rounds["run"], &one.rounds["spent"]), (&json!(1), &json!(1)));
    assert!(
        one.reason
            .is_some_and(|reason| reason.contains("after 1 of 6 rounds"))
    );
    let spent = Ending::Spent {
        reason: "before".into(),
    };
    let before = outcome(gossip(&plan, 0, &[]), spent);
    assert!(Gossiped::of(&plan, &before).is_none(), "an earlier start says it");
}
