//! Means in sequence of what programs hand over: the same means everywhere, whatever a program
//! does.

use super::*;
use crate::clipping::contribution::Clipped;
use crate::run::outcome::TrainingOutcome;

const PARTIES: usize = 6;
const ROUNDS: u64 = 5;
const DIMENSION: usize = 4;

/// Rounds by masks of pairs, and by precomputed noise.
pub(super) fn plans_of(data: &str) -> [Arc<Plan>; 2] {
    ["pairwise", "inca"].map(|kind| plan_of(data, kind))
}

fn plan_of(data: &str, kind: &str) -> Arc<Plan> {
    let text = format!(
        "task = \"rounds\"\nname = \"rounds\"\n[data]\nshape = [{DIMENSION}]\nreleases = {ROUNDS}\n{data}\n\
         [run]\niteration_ms = 4000\n[mechanism]\nkind = \"{kind}\""
    );
    let raw = RawRunFile::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    plan_from(raw, PARTIES, None, 3)
}

/// Half of the way from the last mean to a place of the party's own.
fn contribution(plan: &Plan, party: Party, latest: &[f64]) -> LatticeVector {
    let own = |at: usize| if at == party % DIMENSION { 0.4 } else { 0.1 };
    let last = |at: usize| latest.get(at).copied().unwrap_or(0.0).clamp(-10.0, 10.0);
    let values = (0..DIMENSION).map(|at| (own(at) + last(at)) / 2.0 * plan.draft().weight(party));
    plan.lattice().encode(values)
}

fn gate(plan: &Plan, logs: &AgreedLogs) -> GateVerdict {
    let enough = logs.len() >= plan.draft().run.min_parties;
    GateVerdict {
        publish: permissive_gate(plan, logs).publish.filter(|_| enough),
        reason: "too few are left".into(),
    }
}

fn run(
    plan: &Arc<Plan>,
    conditions: Conditions,
    contribution: impl Fn(Party, u32, &[f64]) -> LatticeVector,
) -> Report {
    let first = (0..PARTIES).map(|party| contribution(party, 1, &[])).collect();
    let simulation = Simulation::new(plan.clone(), first, &gate, conditions);
    simulation.contributing(contribution).run()
}

/// Rounds to which all contribute what they should.
pub(super) fn honest(plan: &Arc<Plan>, conditions: Conditions) -> Report {
    run(plan, conditions, |party, _, latest| {
        contribution(plan, party, latest)
    })
}

fn ended(report: &Report) -> Vec<(Party, &TrainingOutcome)> {
    let outcomes = report.outcomes.iter().enumerate();
    let ended = outcomes.filter_map(|(party, outcome)| Some((party, outcome.as_ref()?.training.as_ref()?)));
    ended.collect()
}

#[test]
fn everybody_holds_the_same_last_mean_also_with_weights() {
    let datas = [
        "",
        "weights = { party-0 = 3.0, party-3 = 0.5 }",
        "result = \"sum\"\nweights = { party-0 = 3.0, party-3 = 0.5 }",
    ];
    for plan in datas.into_iter().flat_map(plans_of) {
        for seed in 0..4 {
            let honest = |party: Party, _: u32, latest: &[f64]| contribution(&plan, party, latest);
            let report = run(&plan, Conditions::new(seed), honest);
            assert_eq!(report.violations, [], "seed {seed}");
            let ended = ended(&report);
            assert_eq!(ended.len(), PARTIES);
            for (_, training) in &ended {
                assert_eq!((training.iterations, training.spent), (ROUNDS, ROUNDS));
                assert_eq!(training.result, ended[0].1.result);
                assert_eq!(training.result.as_ref().map(Vec::len), Some(DIMENSION));
            }
        }
    }
}

#[test]
fn a_departure_leaves_the_others_their_means() {
    let plans = plans_of("");
    for seed in 0..20 {
        let plan = &plans[seed as usize / 2 % 2];
        let (party, at) = (seed as usize % PARTIES, Time::from_millis(20 + 15 * seed));
        let fault = match seed % 2 {
            0 => Fault::Crash { party, at },
            _ => Fault::Silence { party, at },
        };
        let honest = |party: Party, _: u32, latest: &[f64]| contribution(plan, party, latest);
        let report = run(plan, Conditions::new(seed).with_faults(vec![fault]), honest);
        assert_eq!(report.violations, [], "seed {seed}");
        let survivors: Vec<_> = ended(&report)
            .into_iter()
            .filter(|(who, _)| *who != party)
            .collect();
        assert_eq!(survivors.len(), PARTIES - 1, "seed {seed}");
        for (who, training) in &survivors {
            let iterations = training.iterations;
            assert_eq!(iterations, ROUNDS, "seed {seed}, {who}: {:?}", training.stopped);
            assert!(training.rejected.is_empty(), "{:?}", training.rejected);
            assert_eq!(training.result, survivors[0].1.result);
        }
    }
}

/// For a program that fails something else counts: from outside nobody can tell, not from lengths,
/// not from moments, not from sets.
#[test]
fn a_program_that_fails_is_not_seen() {
    let plan = plan_of("", "inca");
    let seen = |fails_at: Option<u32>| {
        let contributed =
            |party: Party, round: u32, latest: &[f64]| match party == 3 && Some(round) == fails_at {
                true => Clipped::stand_in(&plan, party).into_vector(),
                false => contribution(&plan, party, latest),
            };
        let report = run(&plan, Conditions::new(7), contributed);
        assert_eq!(report.violations, []);
        let ended = ended(&report);
        let sets: Vec<_> = ended
            .iter()
            .map(|(who, it)| (*who, it.departed.clone(), it.iterations))
            .collect();
        let means: Vec<_> = ended.iter().map(|(_, it)| it.result.clone()).collect();
        ((report.bytes, report.finished_at, sets), means)
    };
    let whole = seen(None);
    for round in 1..=ROUNDS as u32 {
        let failed = seen(Some(round));
        assert_eq!(whole.0, failed.0, "round {round}");
        assert_ne!(whole.1, failed.1, "its contribution is missed in the mean");
    }
}

/// A program of the party's rows: their clipped sum, or nothing where it cannot read one of them.
fn program(rows: &[[f64; DIMENSION]], latest: &[f64]) -> Option<[f64; DIMENSION]> {
    let mut sum = [0.0; DIMENSION];
    for row in rows {
        if row.iter().any(|cell| !cell.is_finite()) {
            return None;
        }
        let norm = row.iter().map(|cell| cell * cell).sum::<f64>().sqrt().max(1.0);
        let parts = sum.iter_mut().zip(row).enumerate();
        parts.for_each(|(at, (sum, cell))| {
            *sum += (cell / norm + latest.get(at).copied().unwrap_or(0.0).clamp(-1.0, 1.0)) / 4.0;
        });
    }
    Some(sum)
}

/// Two data sets that differ in one row, on which the program of one fails in every round: the same
/// frames in number, length and order, at the same times, and the same sets.
#[test]
fn a_row_on_which_a_program_fails_is_in_no_frame() {
    let text = format!(
        "task = \"rounds\"\nname = \"rounds\"\n[data]\nshape = [{DIMENSION}]\nreleases = {ROUNDS}\n\
         unit = \"record\"\nclip = {{ kind = \"l2\", radius = 1.0 }}\n[run]\niteration_ms = 4000"
    );
    let raw = RawRunFile::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let plan = plan_from(raw, PARTIES, Some(3), 3);
    let recorded = |row: [f64; DIMENSION], seed: u64| {
        let contributed = |party: Party, _: u32, latest: &[f64]| {
            let last = if party == 2 { row } else { [0.5, 0.0, -0.5, 0.1] };
            let sum = program(&[[0.1, 0.2, 0.3, party as f64], [0.0; DIMENSION], last], latest);
            // What the node makes of it, whatever it did.
            plan.lattice().encode(sum.unwrap_or([0.0; DIMENSION]).into_iter())
        };
        let first = (0..PARTIES).map(|party| contributed(party, 1, &[])).collect();
        let conditions = Conditions::new(seed);
        let simulation = Simulation::new(plan.clone(), first, &gate, conditions);
        let mut simulation = simulation.contributing(contributed);
        simulation.journals = vec![Default::default(); PARTIES];
        simulation.play();
        let journals = std::mem::take(&mut simulation.journals);
        let frames: Vec<_> = journals.iter().map(|journal| journal.frames()).collect();
        let report = simulation.finish();
        assert_eq!(report.violations, []);
        let ended = ended(&report);
        let sets = ended.iter().map(|(party, it)| {
            let included = report.outcomes[*party]
                .as_ref()
                .map(|outcome| outcome.included.clone());
            (
                *party,
                included,
                it.departed.clone(),
                it.corrected.clone(),
                it.rejected.clone(),
            )
        });
        let sets: Vec<_> = sets.collect();
        let results: Vec<_> = ended.iter().map(|(_, it)| it.result.clone()).collect();
        ((frames, sets), results)
    };
    for seed in 0..8 {
        let (whole, means) = recorded([0.3, 0.3, 0.3, 0.3], seed);
        let (failed, other) = recorded([0.3, f64::NAN, 0.3, 0.3], seed);
        assert_eq!(whole, failed, "seed {seed}");
        assert_ne!(means, other, "its rows are missed in the mean");
        let (frames, sets) = whole;
        let most = frames.iter().map(Vec::len).min().expect("parties");
        assert!(
            most > 10 * ROUNDS as usize && sets.len() == PARTIES,
            "{most} frames"
        );
    }
}
