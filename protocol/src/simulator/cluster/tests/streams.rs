//! Streams of which everybody reads one sum a round: whoever departs and whenever, all who are left
//! have the same rows, to the bit.

use super::*;
use crate::run::outcome::TrainingOutcome;

const PARTIES: usize = 8;
const RELEASES: u64 = 6;

pub(super) fn summed(run: &str) -> Arc<Plan> {
    let lines = format!(
        "releases = {RELEASES}\n[mechanism]\nsums = \"everybody\"\n\
         [topology]\nprivate = \"ring\"\n[run]\nsettle_ms = 2000\n{run}"
    );
    plan(PARTIES, &lines, 4)
}

fn release(plan: &Plan, party: Party, round: u32) -> LatticeVector {
    plan.lattice()
        .encode([0.05 * party as f64, -0.02 * f64::from(round)].into_iter())
}

/// Lets no fewer publish than the plan says, as the real gate does.
fn gate(plan: &Plan, logs: &AgreedLogs) -> GateVerdict {
    let enough = logs.len() >= plan.draft().run.min_parties;
    GateVerdict {
        publish: permissive_gate(plan, logs).publish.filter(|_| enough),
        reason: "too few are left".into(),
    }
}

pub(super) fn run(plan: &Arc<Plan>, conditions: Conditions) -> Report {
    let first = (0..PARTIES).map(|party| release(plan, party, 1)).collect();
    Simulation::new(plan.clone(), first, &gate, conditions)
        .contributing(|party, round, _| release(plan, party, round))
        .run()
}

fn ended(report: &Report) -> Vec<(Party, &Outcome, &TrainingOutcome)> {
    let outcomes = report.outcomes.iter().enumerate();
    let ended = outcomes.filter_map(|(party, outcome)| {
        let outcome = outcome.as_ref()?;
        Some((party, outcome, outcome.training.as_ref()?))
    });
    ended.collect()
}

/// From the first START to the first end, in a stream without faults.
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
fn everybody_has_a_row_for_each_release() {
    let plan = summed("");
    for seed in 0..5 {
        let report = run(&plan, Conditions::new(seed));
        assert_eq!(report.violations, [], "seed {seed}");
        let ended = ended(&report);
        assert_eq!(ended.len(), PARTIES);
        for (_, outcome, stream) in &ended {
            assert_eq!(outcome.ending, Ending::Done);
            assert_eq!((stream.iterations, stream.spent), (RELEASES, RELEASES));
            assert!(stream.departed.is_empty() && stream.rejected.is_empty());
            let rows = stream.result.as_ref().expect("rows");
            assert_eq!(rows.len(), 2 * RELEASES as usize);
        }
    }
}

/// The rows are sums of means: the last one is, but for noise, that of all releases.
#[test]
fn rows_are_means_added_up() {
    let plan = summed("");
    let report = run(&plan, Conditions::new(2));
    let rows = ended(&report)[0].2.result.clone().expect("rows");
    let noise_free = |round: f64| [0.05 * 3.5 * round, -0.02 * round * (round + 1.0) / 2.0];
    for (row, round) in rows.chunks(2).zip(1..) {
        // Noise of 4 a party, of which eight are averaged in each round.
        let error = 4.0 * (f64::from(round) / 8.0).sqrt();
        let truth = noise_free(f64::from(round));
        assert!(row.iter().zip(truth).all(|(x, t)| (x - t).abs() < 6.0 * error));
    }
}

#[test]
fn a_round_lasts_as_long_as_its_pace() {
    let plan = summed("round_ms = 8000\npace_ms = 700");
    let (started, finished) = span(&plan, 3);
    let took = (finished - started) / 1_000_000;
    assert!((5 * 700..6 * 700).contains(&took), "{took} ms");
}

/// One party is killed at a random moment, loud or silent: the others end with the same rows, to
/// the bit, or without going on; nobody has a sum that another one lacks a party of.
fn kills(seeds: std::ops::Range<u64>) -> usize {
    let plan = summed("");
    let mut moments = BTreeSet::new();
    let mut whole = 0;
    for seed in seeds {
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
        for (who, outcome, ended) in &survivors {
            let withheld = matches!(outcome.ending, Ending::Withheld { .. });
            let same = ended.result == survivors[0].2.result && ended.iterations == RELEASES;
            assert!(same || withheld || ended.stopped.is_some(), "seed {seed}, {who}");
            assert!(ended.rejected.is_empty(), "{:?}", ended.rejected);
            assert!(ended.departed.keys().all(|unreachable| *unreachable == party));
            whole += usize::from(same);
        }
        moments.extend(survivors[0].2.departed.values().copied());
    }
    assert!(moments.len() >= 4, "at many moments: {moments:?}");
    whole
}

#[test]
fn a_kill_in_mid_stream_leaves_the_others_the_same_rows() {
    assert_eq!(kills(0..50), 50 * (PARTIES - 1), "a kill costs nobody else a row");
}

#[test]
#[ignore = "a minute"]
fn a_thousand_kills_in_mid_stream() {
    assert_eq!(
        kills(0..1000),
        1000 * (PARTIES - 1),
        "a kill costs nobody else a row"
    );
}

/// A party that leaves between two rounds ends with the rows that it has.
#[test]
fn who_leaves_between_two_rounds_keeps_its_rows() {
    let plan = summed("round_ms = 8000\npace_ms = 700");
    let (started, _) = span(&plan, 4);
    let first = (0..PARTIES).map(|party| release(&plan, party, 1)).collect();
    let mut simulation = Simulation::new(plan.clone(), first, &gate, Conditions::new(4))
        .contributing(|party, round, _| release(&plan, party, round));
    // The second round begins 700 ms after START, is open some ms later, and lasts as long.
    let at = Time::from_nanos(started).plus_millis(1200);
    let (party, input) = (3, Input::Leave);
    simulation.schedule(at, Occurrence::Input { party, input });
    let report = simulation.run();
    let left = report.outcomes[3].as_ref().expect("it ended");
    let stream = left.training.as_ref().expect("a stream");
    assert_eq!((&left.ending, stream.iterations), (&Ending::Degraded, 2));
    assert_eq!(stream.stopped.as_deref(), Some("this node was told to leave"));
    assert_eq!(report.finished_at[3], Some(at));
}
