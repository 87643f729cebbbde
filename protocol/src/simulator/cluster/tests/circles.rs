//! Secure sums over neighbourhoods: whoever departs and whenever, all who are left open each round
//! for one set, or stop; every sum is that of the set, to the bit.

mod knowledge;
mod memory;
mod planted;
mod reading;

use super::*;
use crate::messages::log::ShareId;
use crate::mixing::noisy::Noisy;
use crate::run::outcome::GossipOutcome;
use crate::simulator::cluster::lying::{Sending, Sent};
use crate::simulator::equivocator::Revealing;

const PARTIES: usize = 8;
const RELEASES: u64 = 6;

/// Graphs whose circles have at least three others.
pub(super) const GRAPHS: [&str; 3] = [
    "private = \"complete\"",
    "private = { kind = \"random-regular\", degree = 4 }",
    "private = { kind = \"random-regular\", degree = 5 }",
];

pub(super) fn circles(graph: &str, edges: &str) -> Arc<Plan> {
    let lines = format!(
        "releases = {RELEASES}\n[mechanism]\nsums = \"neighbours\"\n\
         {edges}\n[topology]\n{graph}\n[run]\nsettle_ms = 2000\n"
    );
    plan(PARTIES, &lines, RELEASES as u32)
}

/// A release, and the noise of each vector, for which the simulator's own stands.
fn release(plan: &Plan, party: Party, round: u32) -> LatticeVector {
    let readers = plan.active_edges(round).neighbours(party).len();
    let release = [0.05 * party as f64, -0.02 * f64::from(round)].into_iter();
    plan.lattice()
        .encode(release.chain(std::iter::repeat_n(0.0, 2 * readers)))
}

fn simulation(plan: &Arc<Plan>, conditions: Conditions) -> Simulation<'_> {
    let first = (0..PARTIES).map(|party| release(plan, party, 1)).collect();
    Simulation::new(plan.clone(), first, &permissive_gate, conditions)
        .contributing(|party, round, _| release(plan, party, round))
}

pub(super) fn run(plan: &Arc<Plan>, conditions: Conditions) -> Report {
    simulation(plan, conditions).run()
}

fn ended(report: &Report) -> Vec<(Party, &Outcome, &GossipOutcome)> {
    let outcomes = report.outcomes.iter().enumerate();
    let ended = outcomes.filter_map(|(party, outcome)| {
        let outcome = outcome.as_ref()?;
        Some((party, outcome, outcome.gossip.as_deref()?))
    });
    ended.collect()
}

fn span(plan: &Arc<Plan>, seed: u64) -> (u64, u64) {
    let report = run(plan, Conditions::new(seed));
    let started = report.outcomes.iter().flatten().filter_map(|it| it.started_at);
    let finished = report.finished_at.iter().flatten();
    (
        started.min().expect("it starts").as_nanos(),
        finished.min().expect("it ends").as_nanos(),
    )
}

#[test]
fn everybody_opens_its_sum_of_each_round() {
    for (seed, graph) in (1..).zip(GRAPHS) {
        let plan = circles(graph, "");
        let report = run(&plan, Conditions::new(seed));
        assert_eq!(report.violations, [], "{graph}");
        let ended = ended(&report);
        assert_eq!(ended.len(), PARTIES, "{graph}: {:?}", report.outcomes);
        for (_, outcome, gossip) in &ended {
            assert_eq!(outcome.ending, Ending::Done, "{graph}: {:?}", gossip.stopped);
            assert_eq!(
                (u64::from(gossip.rounds), u64::from(gossip.spent)),
                (RELEASES, RELEASES)
            );
            assert_eq!(gossip.estimates.len(), 2 * RELEASES as usize);
        }
    }
}

/// One party is killed at a random moment, loud or silent: the others go on with one set, or stop.
fn kills(seeds: std::ops::Range<u64>) -> (usize, BTreeSet<u32>) {
    let (mut whole, mut moments) = (0, BTreeSet::new());
    for seed in seeds {
        let plan = circles(GRAPHS[seed as usize / 2 % GRAPHS.len()], "");
        let (started, finished) = span(&plan, seed);
        let mut rng = stream(seed, "kill", 0);
        let at = Time::from_nanos(rng.random_range(started..finished));
        let party = rng.random_range(0..PARTIES);
        let fault = match seed % 2 {
            0 => Fault::Crash { party, at },
            _ => Fault::Silence { party, at },
        };
        let report = run(&plan, Conditions::new(seed).with_faults(vec![fault]));
        assert_eq!(report.violations, [], "seed {seed}");
        let survivors: Vec<_> = ended(&report)
            .into_iter()
            .filter(|(who, ..)| *who != party)
            .collect();
        assert_eq!(survivors.len(), PARTIES - 1, "seed {seed}");
        for (who, _, gossip) in &survivors {
            let all = u64::from(gossip.rounds) == RELEASES;
            assert_eq!(
                all,
                gossip.stopped.is_none(),
                "seed {seed}, {who}: {:?}",
                gossip.stopped
            );
            assert!(
                gossip.missed.keys().all(|unreachable| *unreachable == party),
                "seed {seed}"
            );
            whole += usize::from(all);
            moments.extend(gossip.missed.values().map(|missed| missed.first));
        }
    }
    (whole, moments)
}

#[test]
fn a_kill_in_mid_stream_leaves_the_others_one_set_a_round() {
    let (whole, moments) = kills(0..30);
    assert_eq!(whole, 30 * (PARTIES - 1), "a kill costs nobody else a row");
    assert!(moments.len() >= 4, "at many moments: {moments:?}");
}

/// A member that tells nothing that opens anything, or wrong shares, costs nobody a row: the others
/// hold as many shares as are needed.
#[test]
fn a_member_that_does_not_open_is_opened_by_others() {
    for (seed, revealing) in (0..).zip([Revealing::Nothing, Revealing::WrongShares, Revealing::Nothing]) {
        let plan = circles(GRAPHS[seed as usize], "");
        let conditions = Conditions {
            revealing: Some((5, revealing)),
            ..Conditions::new(seed)
        };
        let report = run(&plan, conditions);
        assert_eq!(report.violations, [], "{revealing:?}");
        for (who, outcome, gossip) in ended(&report).into_iter().filter(|(who, ..)| *who != 5) {
            // Who tells wrong shares of others' secrets tells its own.
            let silent = usize::from(revealing == Revealing::Nothing);
            assert_eq!(outcome.opened_for, [5][..silent], "{who}: {revealing:?}");
            let liar_alone = gossip.missed.keys().all(|unreachable| *unreachable == 5);
            assert!(liar_alone && gossip.stopped.is_none(), "{who}: {gossip:?}");
            assert_eq!(u64::from(gossip.rounds), RELEASES, "{who}: {revealing:?}");
        }
    }
}

/// Who reads a sum that values and noise cannot make uses it for nothing: it stops there, and no
/// message of its own follows from it.
#[test]
fn a_sum_out_of_range_ends_the_stream_for_its_readers() {
    let plan = circles(GRAPHS[0], "");
    let far = 10 * plan.lattice().circle_bound(2) / (1 << 16);
    let lie = |party: Party, round: u32| {
        let honest = release(&plan, party, round);
        match (party, round) {
            (3, 2) => plan
                .lattice()
                .vector((0..honest.len()).map(|at| if at == 1 { far } else { 0 })),
            _ => honest,
        }
    };
    let first = (0..PARTIES).map(|party| release(&plan, party, 1)).collect();
    let report = Simulation::new(plan.clone(), first, &permissive_gate, Conditions::new(7))
        .contributing(|party, round, _| lie(party, round))
        .run();
    assert_eq!(report.violations, []);
    let ended = ended(&report);
    assert_eq!(ended.len(), PARTIES);
    for (who, outcome, gossip) in ended {
        assert_eq!((gossip.rounds, gossip.spent), (1, 2), "{who}");
        assert_eq!(outcome.ending, Ending::Degraded);
        let reason = gossip.stopped.as_deref().unwrap_or_default();
        assert!(
            reason.contains("further out than values and noise can be"),
            "{who}: {reason}"
        );
    }
}

/// Vectors that no honest neighbour sends, in any state, change nothing and are no error. One
/// vector of each neighbour is kept of rounds to come.
#[test]
fn vectors_that_are_not_due_do_no_harm() {
    let plan = circles(GRAPHS[0], "");
    let mut value = release(&plan, 0, 1);
    let noise = noise_of(&plan, 1, 0, &mut value);
    let mut task = Task::new(
        plan.clone(),
        identity_of(1, 0),
        Noisy::with_noise_in(value),
        Box::new(noise),
        Time::ZERO,
    );
    let width = plan.circle_ring().expect("circles").width();
    let id = |round: u32, from: Party, to: Party| ShareId { round, from, to };
    let mut frames: Vec<Arc<[u8]>> = vec![];
    for digest in [*plan.digest(), [9; 32]] {
        for id in [
            id(0, 1, 0),
            id(1, 1, 0),
            id(2, 1, 0),
            id(u32::MAX, 1, 0),
            id(1, 2, 0),
            id(1, 1, 3),
            id(1, 700, 0),
            id(2, 1, 90),
        ] {
            frames.extend(
                [0, 1, 2 * width, 2 * width + 1]
                    .map(|length| wire::sealed_frame(&digest, id, &vec![0xff; length])),
            );
        }
    }
    frames.extend([vec![], vec![wire::VERSION, 9], vec![wire::VERSION, 9, 1, 1]].map(Arc::from));
    for (at, frame) in (1..).zip(frames.iter().cycle().take(50_000)) {
        let frame = Bytes::from_owner(frame.clone());
        let input = Input::Private { from: 1, frame };
        task.handle(Time::from_nanos(at), input)
            .expect("peers make no errors");
        while !matches!(task.poll_output(), Output::Wait { .. }) {}
    }
    assert_eq!(task.run_number(), 1);
    assert!(
        task.kept_early() <= 2,
        "one of this round, one of the next: {}",
        task.kept_early()
    );
}

#[test]
#[ignore = "minutes"]
fn a_thousand_kills_in_streams_of_circles() {
    let (whole, _) = kills(0..1000);
    println!("{} of 1000 streams went on to their end", whole / (PARTIES - 1));
    assert_eq!(whole, 1000 * (PARTIES - 1), "a kill costs nobody else a row");
}
