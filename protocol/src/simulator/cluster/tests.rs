use std::collections::{BTreeMap, BTreeSet};

use self::sealed::{PAIRWISE, SEALED, SEALED_PPSC};
use super::*;
use crate::messages::log::{Fate, fates};
use crate::messages::stage::Phase;
use crate::messages::stage::{Stage, Stages};
use crate::plan::calibration::Calibration;
use crate::plan::claim::{Claim, Faults, Predicted};
use crate::plan::defaults::Defaults;
use crate::plan::draft::Draft;
use crate::plan::error::PlanError;
use crate::plan::peers::Peers;
use crate::plan::run_file::raw::RawRunFile;
use crate::plan::run_file::records::RecordCounts;
use crate::plan::run_file::settings::{Coalitions, CorrelatedNoise};
use crate::run::outcome::Ending;
use crate::simulator::direct::{Leaving, direct};
use crate::simulator::equivocator::{Equivocation, OtherVersion, Revealing};
use crate::simulator::invariants::trace;
use crate::simulator::scenario::random_faults;
use crate::simulator::stream::stream;

/// A plan of simulated parties with two coordinates; noise of about the right size.
pub(crate) fn plan(parties: usize, lines: &str, rounds: u32) -> Arc<Plan> {
    plan_of(2, parties, lines, rounds)
}

/// As [`plan`], with so many coordinates.
pub(crate) fn plan_of(dimension: usize, parties: usize, lines: &str, rounds: u32) -> Arc<Plan> {
    let task = match lines.contains("sums = ") {
        true => "stream",
        false => "mean",
    };
    let text = format!("name = \"test\"\ntask = \"{task}\"\n[data]\nshape = [{dimension}]\n{lines}");
    let mut raw = RawRunFile::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    if task == "mean" {
        // Without sealed finals, and so with Gaussian noise, unless the lines say otherwise.
        raw.run.sealed.get_or_insert(false);
    }
    plan_from(raw, parties, None, rounds)
}

/// The plan of a run file, with noise of about the right size; so many rows a party.
pub(crate) fn plan_from(raw: RawRunFile, parties: usize, records: Option<u64>, rounds: u32) -> Arc<Plan> {
    let plan = plan_with_noise(raw, (parties, records), rounds, 4.0);
    Arc::new(plan.unwrap_or_else(|error| panic!("{error}")))
}

/// The plan of a run file, with independent noise of this standard deviation.
pub(crate) fn plan_with_noise(
    raw: RawRunFile,
    (parties, records): (usize, Option<u64>),
    rounds: u32,
    independent_std: f64,
) -> Result<Plan, PlanError> {
    let file = raw.resolve(parties, Defaults::File);
    let mut file = file.unwrap_or_else(|error| panic!("{error}"));
    if let Some(count) = records {
        file.data.records = Some(RecordCounts::exactly(count));
    }
    let peers = Peers::simulated(parties).expect("enough parties");
    let draft = Draft::new(file, &peers, 7).unwrap_or_else(|error| panic!("{error}"));
    let privacy = &draft.privacy;
    let claim = Claim {
        holds_as_headline: true,
        ..Claim::theorem(
            privacy.colluding,
            Faults::Class,
            (0.2, privacy.epsilon),
            privacy.delta,
        )
    };
    // Iterations of gossip, not rounds, are what a plan of outer iterations asks for.
    let drawn = draft
        .computation
        .recursion()
        .and_then(|_| Calibration::draw_schedule(&draft, 1, 11));
    let rounds = drawn.map_or(rounds, |schedule| schedule.rounds() as u32);
    let calibration = Calibration {
        rounds,
        drawn: if draft.privacy.coalitions == Coalitions::Any {
            Calibration::draw(&draft, rounds, 11)
        } else {
            None
        },
        independent_std: if draft.exchange.adds_own_noise() {
            independent_std
        } else {
            0.0
        },
        correlated_std: match draft.exchange.correlated() {
            CorrelatedNoise::Gaussian if draft.averages() => 0.0,
            CorrelatedNoise::Gaussian => 2.5 * independent_std,
            CorrelatedNoise::Uniform => 0.0,
        },
        claims: vec![claim],
        predicted: Predicted {
            standard_error: 1.0,
            standard_error_one_dropout: Some(1.0),
            standard_error_late_dropout: None,
            standard_error_correcting: None,
            central: 1.0,
            local: 1.0,
            error_floor: 1.0,
            bytes_per_party: 0,
        },
    };
    Plan::assemble(draft, calibration, [3; 16])
}

/// A vector of whole steps of the plan's inputs.
pub(crate) fn integers(plan: &Plan, steps: &[i128]) -> LatticeVector {
    let lattice = plan.lattice();
    lattice.encode(steps.iter().map(|&step| step as f64 * lattice.value_step()))
}

pub(crate) fn inputs(plan: &Plan) -> Vec<LatticeVector> {
    (0..plan.parties())
        .map(|party| {
            plan.lattice().encode(
                (0..plan.draft().dimension()).map(|at| if at == 0 { 0.1 * party as f64 } else { -0.05 }),
            )
        })
        .collect()
}

fn simulate(plan: &Arc<Plan>, conditions: Conditions) -> Report {
    Simulation::new(plan.clone(), inputs(plan), &permissive_gate, conditions).run()
}

const UNIFORM: &str = "[mechanism]\ncorrelated = \"uniform\"";
const UNIFORM_PPSC: &str = "[mechanism]\ncorrelated = \"uniform\"\nkind = \"ppsc\"";

#[test]
fn without_faults_everybody_holds_the_exact_sum() {
    let readable = [("", 7), (UNIFORM, 3), (UNIFORM_PPSC, 14)];
    let sealed = [(SEALED, 3), (SEALED_PPSC, 14), (PAIRWISE, 4)];
    let lines = [&readable[..], &sealed].concat();
    for plan in lines.into_iter().map(|(lines, rounds)| plan(8, lines, rounds)) {
        everybody_holds_the_exact_sum(&plan);
    }
}

fn everybody_holds_the_exact_sum(plan: &Arc<Plan>) {
    let report = simulate(plan, Conditions::new(1));
    assert_eq!(report.violations, []);
    let everybody: BTreeSet<Party> = (0..8).collect();
    for outcome in report.outcomes.iter() {
        let outcome = outcome.as_ref().expect("finished");
        assert_eq!(
            (&outcome.ending, outcome.agreed, &outcome.included),
            (&Ending::Done, true, &everybody)
        );
        assert_eq!(
            outcome.sum.as_ref().map(|sum| &sum.value),
            report.sum_over(&everybody).as_ref()
        );
    }
}

/// Plans of PPSC: one component; and three paths (the paper's Figure 4c,
/// accountant/docs/papers.md), where a vanished party may cut off a sole neighbour.
fn ppsc_plans() -> [Arc<Plan>; 2] {
    let paths = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9)];
    let edges: Vec<String> = paths
        .iter()
        .map(|(a, b)| format!("[\"party-{a}\", \"party-{b}\"]"))
        .collect();
    let paths = format!(
        "[mechanism]\nkind = \"ppsc\"\n[topology]\nprivate = {{ kind = \"edges\", edges = [{}] }}",
        edges.join(", ")
    );
    [plan(8, "[mechanism]\nkind = \"ppsc\"", 14), plan(10, &paths, 16)]
}

#[test]
fn multi_gossip_takes_as_many_network_rounds_as_its_longest_chain_of_edges() {
    for plan in ppsc_plans()
        .into_iter()
        .chain([plan(20, "[mechanism]\nkind = \"ppsc\"", 18)])
    {
        let everybody = others(&plan, &[]);
        let calm = simulate(&plan, Conditions::new(1));
        assert_eq!(calm.violations, []);
        let sums = calm.outcomes.iter().map(|outcome| {
            outcome
                .as_ref()
                .and_then(|it| it.sum.as_ref())
                .map(|sum| &sum.value)
        });
        assert!(
            sums.into_iter()
                .all(|sum| sum == calm.sum_over(&everybody).as_ref())
        );
        // With a constant latency of 1 ms and nothing else that takes time, private messages on the
        // critical path are milliseconds.
        let latency_us = (1000, 1000);
        let report = simulate(
            &plan,
            Conditions {
                latency_us,
                instant: true,
                ..Conditions::new(2)
            },
        );
        let first = report.private.first_left.expect("a share left");
        let rounds = |last: Option<Time>| last.expect("all get there").since(first) as f64 / 1e6;
        let (arrived, answered) = (
            rounds(report.private.last_arrived),
            rounds(report.private.last_answered),
        );
        let chain = f64::from(plan.rounds());
        println!(
            "{} parties: {arrived} rounds to the last share, {answered} to its answer, chain of {chain}",
            plan.parties()
        );
        assert!(arrived >= 1.0 && answered >= arrived + 1.0);
        assert!(answered <= 1.3 * chain, "{answered} rounds for {chain}");
    }
}

/// A stand-in that is as strict as the tolerated class: `dropouts` departures, and one share
/// between members of L late or returned.
fn class_gate(plan: &Plan, logs: &AgreedLogs) -> GateVerdict {
    let faults = fates(logs, plan.rounds())
        .into_iter()
        .filter(|(id, fate)| *fate != Fate::Accepted { applied: id.round })
        .count();
    let departed = plan.parties() - logs.len();
    let passes = departed <= plan.draft().privacy.dropouts && faults <= 1;
    let publish = passes.then(|| logs.keys().copied().collect());
    GateVerdict {
        publish,
        reason: format!("{departed} departed, {faults} shares at fault"),
    }
}

/// When the last of all nodes began to mix, began to settle, and finished, in a run without faults.
fn milestones(plan: &Arc<Plan>) -> (u64, u64, u64) {
    let report = simulate(plan, Conditions::new(0));
    let latest = |phase| {
        let begins = report
            .events
            .iter()
            .filter(|(_, _, event)| *event == Event::Phase(phase))
            .map(|(at, _, _)| at.as_nanos());
        begins.max().expect("every node gets there")
    };
    (
        latest(Phase::Mixing),
        latest(Phase::Settling),
        latest(Phase::Done),
    )
}

fn others(plan: &Plan, dead: &[Party]) -> BTreeSet<Party> {
    (0..plan.parties())
        .filter(|party| !dead.contains(party))
        .collect()
}

#[test]
fn too_few_at_the_start_abort_and_nothing_private_leaves() {
    let plan = plan(8, "", 7);
    let crash = |party| Fault::Crash {
        party,
        at: Time::from_nanos(300_000),
    };
    let absent = Conditions {
        absent: BTreeSet::from([2, 5]),
        ..Conditions::new(4)
    };
    for conditions in [absent, Conditions::new(5).with_faults(vec![crash(2), crash(5)])] {
        let report = simulate(&plan, conditions);
        assert_eq!(report.violations, []);
        for party in others(&plan, &[2, 5]) {
            let outcome = report.outcomes[party].as_ref().expect("no violation of liveness");
            assert!(
                matches!(outcome.ending, Ending::Aborted { .. }),
                "{:?}",
                outcome.ending
            );
            assert!(outcome.started.is_empty());
        }
        assert!(report.shares_left.iter().all(|left| !left));
    }
}

#[test]
fn one_absent_member_is_started_without_and_rolled_back() {
    let plan = plan(8, "[run]\njoin_ms = 500", 7);
    let report = simulate(
        &plan,
        Conditions {
            absent: BTreeSet::from([3]),
            ..Conditions::new(6)
        },
    );
    assert_eq!(report.violations, []);
    let survivors = others(&plan, &[3]);
    for &party in &survivors {
        let outcome = report.outcomes[party].as_ref().expect("no violation of liveness");
        assert_eq!(
            (&outcome.ending, &outcome.included, outcome.agreed),
            (&Ending::Degraded, &survivors, true)
        );
        assert_eq!(
            outcome.sum.as_ref().map(|sum| &sum.value),
            report.sum_over(&survivors).as_ref()
        );
    }
}

#[test]
fn logs_that_reach_only_some_never_make_two_sets_and_those_cut_off_withhold() {
    let plan = plan(8, "", 7);
    let (_, settling, _) = milestones(&plan);
    for seed in 0..24 {
        // Cut off for good on both graphs while logs are on their way: one side of three at most,
        // the other can agree.
        let mut rng = stream(seed, "partition", 0);
        let group: BTreeSet<Party> = (0..rng.random_range(1..=4))
            .map(|_| rng.random_range(0..8))
            .collect();
        let at = Time::from_nanos(settling - 800_000 + rng.random_range(0..2_000_000));
        let fault = Fault::Partition {
            group: group.clone(),
            at,
            for_ms: 10_000_000,
        };
        let report = simulate(&plan, Conditions::new(seed).with_faults(vec![fault]));
        assert_eq!(report.violations, [], "seed {seed}");
        let published = |party: &Party| {
            let outcome = report.outcomes[*party]
                .as_ref()
                .expect("no violation of liveness");
            !matches!(outcome.ending, Ending::Withheld { .. })
        };
        let ends: BTreeMap<Party, bool> = (0..8).map(|party| (party, published(&party))).collect();
        let sets: BTreeSet<_> = report
            .outcomes
            .iter()
            .flatten()
            .filter_map(|outcome| outcome.logs.as_ref().map(|logs| logs.keys().collect::<Vec<_>>()))
            .collect();
        assert!(sets.len() <= 1, "seed {seed}: {sets:?}");
        let small = if group.len() < 4 {
            group.clone()
        } else {
            (0..8).collect()
        };
        // Whoever is on the small side either had everything before the cut, or withholds.
        for party in small.iter().filter(|party| ends[party]) {
            let outcome = report.outcomes[*party].as_ref().expect("finished");
            assert!(
                outcome.logs.as_ref().is_some_and(|logs| logs.contains_key(party)),
                "seed {seed}: party {party}"
            );
        }
    }
}

#[test]
fn who_is_voted_out_says_who_signed_that() {
    let plan = plan(8, "", 7);
    let (started, _, _) = milestones(&plan);
    let run = &plan.draft().run;
    let settles =
        |(_, party, event): &&(Time, Party, Event)| (*party, event) == (2, &Event::Phase(Phase::Settling));
    let whole = simulate(&plan, Conditions::new(3));
    let settling = whole
        .events
        .iter()
        .find(settles)
        .expect("it settles")
        .0
        .as_nanos();
    // Party 2 loses everybody just before it would give its log, and is back after the vote.
    let deadlines_ms = u64::from(plan.rounds()) * run.round_ms + run.settle_ms;
    let at = Time::from_nanos(settling - 1);
    let for_ms = deadlines_ms - run.settle_ms / 8 - (settling - started) / 1_000_000;
    let group = BTreeSet::from([2]);
    let fault = Fault::Partition { group, at, for_ms };
    let report = simulate(&plan, Conditions::new(3).with_faults(vec![fault]));
    assert_eq!(report.violations, []);
    let outcome = report.outcomes[2].as_ref().expect("it ends");
    let Ending::Withheld { reason } = &outcome.ending else {
        panic!("{:?}", outcome.ending);
    };
    let (_, signers) = reason.split_once("was signed by ").expect("it says who");
    // It may have signed that itself, once it saw what the others had agreed on, and ends as soon
    // as it has heard of enough.
    let named: Vec<&str> = signers.split(", ").filter(|name| *name != "party-2").collect();
    let others = [0, 1, 3, 4, 5, 6, 7].map(|party| format!("party-{party}"));
    assert!(
        named.iter().all(|name| others.iter().any(|other| other == name)),
        "{reason}"
    );
    assert!(named.len() >= 4, "{reason}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let plan = plan(8, "", 7);
    let conditions = |seed| {
        Conditions {
            duplicates: 0.1,
            ..Conditions::new(seed)
        }
        .with_faults(random_faults(3, &plan, 3, 20))
    };
    let (one, again, other) = (
        simulate(&plan, conditions(3)),
        simulate(&plan, conditions(3)),
        simulate(&plan, conditions(4)),
    );
    assert_eq!(trace::check(&one.trace, &again.trace), Ok(()));
    assert!(one.trace.len() > 100);
    assert!(trace::check(&one.trace, &other.trace).is_err());
}

#[test]
fn large_finals_are_pulled_once() {
    for lines in ["", "[topology]\npublic = \"ring\""] {
        let plan = plan_of(10_000, 6, lines, 3);
        let report = simulate(&plan, Conditions::new(10));
        assert_eq!(report.violations, []);
        assert!(
            report
                .outcomes
                .iter()
                .flatten()
                .all(|outcome| outcome.ending == Ending::Done)
        );
        let length = 10_000 * u64::from(plan.lattice().final_bytes);
        assert!(length > 16 << 10);
        // Six nodes get five finals each; everything else is together as large as a few.
        let public: u64 = report.bytes.iter().map(|(_, public)| public).sum();
        assert!(public < 38 * length, "{public} bytes, a final is {length}");
    }
}

#[test]
fn the_papers_protocol_runs_without_roll_back() {
    let plan = plan(5, "[mechanism]\nrollback = false", 4);
    let report = simulate(&plan, Conditions::new(2));
    assert_eq!(report.violations, []);
    let everybody = others(&plan, &[]);
    let sum = report.outcomes[0]
        .as_ref()
        .and_then(|outcome| outcome.sum.as_ref().map(|sum| sum.value.clone()));
    assert_eq!(sum, report.sum_over(&everybody));
}

const STATIC: &str = "[run]\nsealed = true\n[privacy]\ncoalitions = \"static\"";

#[test]
fn a_schedule_that_start_draws_is_everybodys() {
    let plan = plan(8, STATIC, 5);
    assert_eq!(
        (
            plan.draws_at_start(),
            plan.schedule().rounds(),
            plan.seed_at_start()
        ),
        (true, 0, None)
    );
    let seeds: BTreeSet<u64> = (0..3)
        .map(|seed| {
            let report = simulate(&plan, Conditions::new(seed));
            assert_eq!(report.violations, [], "seed {seed}");
            let outcomes: Vec<&Outcome> = report.outcomes.iter().flatten().collect();
            assert!(
                outcomes.len() == 8 && outcomes.iter().all(|outcome| outcome.ending == Ending::Done),
                "{outcomes:?}"
            );
            let drawn: BTreeSet<u64> = outcomes
                .iter()
                .filter_map(|outcome| outcome.schedule_seed)
                .collect();
            assert_eq!(drawn.len(), 1, "all draw one");
            let with = outcomes[0].plan(&plan).into_owned();
            assert_eq!((with.schedule().rounds(), with.digest()), (5, plan.digest()));
            let logs = outcomes[0].logs.as_ref().expect("agreed");
            assert!(
                logs.iter()
                    .all(|(&party, log)| log.check(party, 8, with.schedule()).is_ok())
            );
            drawn.into_iter().next().expect("one")
        })
        .collect();
    assert_eq!(seeds.len(), 3, "other nonces, another schedule");
}

#[test]
fn without_the_talk_around_them_the_machines_come_to_the_same() {
    for lines in ["", STATIC] {
        let plan = plan(8, lines, 5);
        let everybody: BTreeSet<Party> = (0..8).collect();
        let report = direct(&plan, inputs(&plan), &class_gate, 3, &[]);
        assert_eq!(report.violations, []);
        let full = simulate(&plan, Conditions::new(3));
        for party in 0..8 {
            let (short, long) = (
                report.outcomes[party].as_ref().expect("ends"),
                full.outcomes[party].as_ref().expect("ends"),
            );
            assert_eq!(
                (&short.ending, short.schedule_seed),
                (&Ending::Done, long.schedule_seed),
                "one seed of the simulator"
            );
            let value = |outcome: &Outcome| outcome.sum.as_ref().map(|sum| (sum.value.clone(), sum.weight));
            assert_eq!(value(short), value(long), "the same noise, the same bits");
        }
        assert_eq!(
            report.outcomes[0].as_ref().map(|outcome| &outcome.included),
            Some(&everybody)
        );
        for (round, sends) in [(1, false), (1, true), (3, true), (5, false), (5, true)] {
            let report = direct(
                &plan,
                inputs(&plan),
                &class_gate,
                4,
                &[Leaving {
                    party: 6,
                    round,
                    sends,
                }],
            );
            assert_eq!(report.violations, []);
            let rest = others(&plan, &[6]);
            let outcome = report.outcomes[0].as_ref().expect("ends");
            assert_eq!(
                (&outcome.ending, &outcome.included),
                (&Ending::Degraded, &rest),
                "round {round}"
            );
            assert_eq!(
                outcome.sum.as_ref().map(|sum| &sum.value),
                report.sum_over(&rest).as_ref()
            );
            // A schedule that START draws may spare a party a round.
            let with = outcome.plan(&plan);
            let last = round - u32::from(!sends);
            let left = (1..=last).any(|round| !with.schedule().sends_to(round, 6).is_empty());
            assert!(report.outcomes[6].is_none() && report.shares_left[6] == left);
        }
        let two = [1, 2].map(|party| Leaving {
            party,
            round: 2,
            sends: false,
        });
        let withheld = direct(&plan, inputs(&plan), &class_gate, 4, &two);
        assert!(matches!(
            withheld.outcomes[0].as_ref().map(|outcome| &outcome.ending),
            Some(Ending::Withheld { .. })
        ));
    }
}

mod circles;
mod clocks;
mod dark;
mod described;
mod gated;
mod gossip;
mod kills;
mod liars;
mod mixing_again;
mod records;
mod rounds;
mod sealed;
mod soak;
mod starts;
mod streams;
mod trainings;
