use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::messages::log::{Fate, fates};
use crate::messages::notice::{Phase, Stage};
use crate::plan::calibration::Calibration;
use crate::plan::claim::{Adversary, Claim, Established, Faults, Predicted};
use crate::plan::draft::Draft;
use crate::plan::peers::Peers;
use crate::plan::run_file::parsed::RunFile;
use crate::plan::run_file::settings::{Coalitions, IndependentNoise};
use crate::run::outcome::Ending;
use crate::simulator::direct::{Leaving, direct};
use crate::simulator::equivocator::Equivocation;
use crate::simulator::invariants::trace;
use crate::simulator::scenario::random_faults;
use crate::simulator::stream::stream;

/// A plan of simulated parties with two coordinates; noise of about the right size.
pub(crate) fn plan(parties: usize, lines: &str, rounds: u32) -> Arc<Plan> {
    plan_of(2, parties, lines, rounds)
}

fn plan_of(dimension: usize, parties: usize, lines: &str, rounds: u32) -> Arc<Plan> {
    let text = format!("name = \"test\"\n[data]\nshape = [{dimension}]\n{lines}");
    let file = RunFile::parse(&text, parties).unwrap_or_else(|error| panic!("{error}"));
    let peers = Peers::simulated(parties, None).expect("enough parties");
    let draft = Draft::new(file, &peers, 7).unwrap_or_else(|error| panic!("{error}"));
    let claim = Claim {
        adversary: Adversary::Coalition,
        size: draft.privacy.colluding,
        faults: Faults::Class,
        mu: 0.2,
        epsilon: draft.privacy.epsilon,
        delta: draft.privacy.delta,
        established: Established::Theorem,
        cases: 1,
        seed: None,
        changes: None,
        holds_as_headline: true,
    };
    let calibration = Calibration {
        rounds,
        drawn: if draft.privacy.coalitions == Coalitions::Any {
            Calibration::draw(&draft, rounds, 11)
        } else {
            None
        },
        independent_std: if draft.mechanism.independent_noise == IndependentNoise::Calibrated {
            4.0
        } else {
            0.0
        },
        correlated_std: 10.0,
        claims: vec![claim],
        predicted: Predicted {
            standard_error: 1.0,
            standard_error_one_dropout: Some(1.0),
            standard_error_late_dropout: None,
            central: 1.0,
            local: 1.0,
            error_floor: 1.0,
            bytes_per_party: 0,
        },
    };
    Arc::new(Plan::assemble(draft, calibration, [3; 16]).unwrap_or_else(|error| panic!("{error}")))
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

#[test]
fn without_faults_everybody_holds_the_exact_sum() {
    let plan = plan(8, "", 7);
    let report = simulate(&plan, Conditions::new(1));
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

/// Plans of PPSC: one component; and three paths (the paper's Figure 4c, ERRATA), where a vanished
/// party may cut off a sole neighbour.
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

#[test]
fn a_kill_in_multi_gossip_costs_its_own_value_only() {
    for plan in ppsc_plans() {
        let (good, latest) = kills(&plan, 20, true);
        assert_eq!(good, 20);
        assert!(latest < 200, "{latest} ms later");
        assert_eq!(kills(&plan, 10, false).0, 10, "silently");
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

/// Kills one party at a random moment of its mixing in each of many runs. All others must end
/// degraded, agreed, with the exact sum of their x̃. Returns in how many runs they did, and by how
/// many ms the slowest run ended later than one without a kill.
fn kills(plan: &Arc<Plan>, runs: u64, loud: bool) -> (u64, u64) {
    let (mut good, mut done, mut latest) = (0, 0, 0);
    let (start, end, finished) = milestones(plan);
    for seed in 0.. {
        if done == runs {
            break;
        }
        let mut rng = stream(seed, "kill", 0);
        let (party, at) = (
            rng.random_range(0..plan.parties()),
            Time::from_nanos(rng.random_range(start..end)),
        );
        let fault = if loud {
            Fault::Crash { party, at }
        } else {
            Fault::Silence { party, at }
        };
        let report = Simulation::new(
            plan.clone(),
            inputs(plan),
            &class_gate,
            Conditions::new(seed).with_faults(vec![fault]),
        )
        .run();
        assert_eq!(report.violations, [], "seed {seed}");
        if report
            .events
            .iter()
            .any(|(_, who, event)| (*who, event) == (party, &Event::Phase(Phase::Settling)))
        {
            continue;
        }
        done += 1;
        let survivors = others(plan, &[party]);
        let exact = report.sum_over(&survivors);
        let as_it_should = |other: &Party| {
            report.outcomes[*other].as_ref().is_some_and(|outcome| {
                outcome.ending == Ending::Degraded
                    && outcome.agreed
                    && outcome.included == survivors
                    && outcome.sum.as_ref().map(|sum| &sum.value) == exact.as_ref()
            })
        };
        if survivors.iter().all(as_it_should) {
            good += 1;
        } else {
            println!(
                "seed {seed}: party {party} killed at {} us, loud: {loud}",
                at.as_nanos() / 1000
            );
        }
        let slowest = report
            .finished_at
            .iter()
            .flatten()
            .max()
            .expect("somebody finished")
            .as_nanos();
        latest = latest.max(slowest.saturating_sub(finished) / 1_000_000);
    }
    (good, latest)
}

#[test]
fn a_loud_kill_in_mixing_costs_milliseconds_and_nothing_else() {
    let (good, latest) = kills(&plan(8, "", 7), 60, true);
    assert_eq!(good, 60);
    assert!(latest < 200, "{latest} ms later");
}

#[test]
fn a_silent_kill_in_mixing_costs_the_deadlines_and_nothing_else() {
    let (good, latest) = kills(&plan(8, "", 7), 60, false);
    assert_eq!(good, 60);
    // Seven rounds of 2 s, three quarters of settling.
    assert!((16_000..18_000).contains(&latest), "{latest} ms later");
}

#[test]
fn a_loud_kill_after_mixing_costs_milliseconds_mostly() {
    let plan = plan(8, "", 7);
    let (_, settling, finished) = milestones(&plan);
    let mut quick = 0;
    for seed in 0..40 {
        let mut rng = stream(seed, "late kill", 0);
        let (party, at) = (
            rng.random_range(0..8),
            Time::from_nanos(rng.random_range(settling..finished)),
        );
        let report = simulate(
            &plan,
            Conditions::new(seed).with_faults(vec![Fault::Crash { party, at }]),
        );
        assert_eq!(report.violations, [], "seed {seed}");
        for other in others(&plan, &[party]) {
            let outcome = report.outcomes[other].as_ref().expect("no violation of liveness");
            assert!(outcome.agreed, "seed {seed}");
            assert!(
                outcome.included.is_superset(&others(&plan, &[party])),
                "seed {seed}"
            );
        }
        let slowest = report
            .finished_at
            .iter()
            .flatten()
            .max()
            .expect("somebody finished")
            .as_nanos();
        quick += u32::from(slowest < finished + 500_000_000);
    }
    // A body that only some got holds the vote up to three quarters of the stage.
    assert!(quick >= 38, "{quick} of 40");
}

#[test]
fn two_kills_leave_one_agreed_set_or_everybody_withholds() {
    let plan = plan(8, "", 7);
    let (start, end, finished) = milestones(&plan);
    let mut withheld = 0;
    for seed in 0..40 {
        let mut rng = stream(seed, "two kills", 0);
        let first = rng.random_range(0..8);
        let dead = [first, (first + rng.random_range(1..8)) % 8];
        let mut at = || Time::from_nanos(rng.random_range(start..end));
        let faults = vec![
            Fault::Crash {
                party: dead[0],
                at: at(),
            },
            Fault::Silence {
                party: dead[1],
                at: at(),
            },
        ];
        let faults = if seed % 2 == 0 {
            faults
        } else {
            dead.map(|party| Fault::Crash { party, at: at() }).to_vec()
        };
        let report = Simulation::new(
            plan.clone(),
            inputs(&plan),
            &class_gate,
            Conditions::new(seed).with_faults(faults),
        )
        .run();
        assert_eq!(report.violations, [], "seed {seed}");
        for other in others(&plan, &dead) {
            let outcome = report.outcomes[other].as_ref().expect("no violation of liveness");
            match &outcome.ending {
                Ending::Withheld { .. } => withheld += 1,
                Ending::Degraded => assert!(outcome.agreed, "seed {seed}"),
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        if seed % 2 == 1 {
            let slowest = report
                .finished_at
                .iter()
                .flatten()
                .max()
                .expect("somebody finished")
                .as_nanos();
            assert!(
                slowest < finished + 1_000_000_000,
                "seed {seed}: two loud kills are refused at once {dead:?}"
            );
        }
    }
    assert!(
        withheld > 200,
        "two departures are more than the class tolerates: {withheld}"
    );
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

/// Every kind of fault at once, on several graphs and mechanisms: whatever happens, invariants hold
/// and everybody who is up finishes.
fn soak(seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u32> {
    let plans = [
        plan(8, "", 7),
        plan(
            5,
            "[mechanism]\nrollback = false\n[run]\nround_ms = 60\nsettle_ms = 320\njoin_ms = 300",
            4,
        ),
        plan(
            6,
            "[topology]\nprivate = \"ring\"\n[run]\nround_ms = 40\nsettle_ms = 320\njoin_ms = 300",
            4,
        ),
        plan(
            5,
            "[mechanism]\nfanout = 2\n[run]\nround_ms = 40\nsettle_ms = 160\njoin_ms = 300",
            3,
        ),
        plan(
            8,
            "[topology]\nprivate = { kind = \"random-regular\", degree = 4 }\npublic = { kind = \"random-regular\", degree = 3 }\n[run]\nround_ms = 30\nsettle_ms = 320\njoin_ms = 300",
            5,
        ),
        plan(
            7,
            "[mechanism]\nkind = \"ppsc\"\n[run]\nround_ms = 20\nsettle_ms = 320\njoin_ms = 300",
            14,
        ),
        plan(
            6,
            "[mechanism]\nkind = \"ppsc\"\nindependent_noise = \"none\"\naccept_exact_sum = true\n[topology]\nprivate = { kind = \"edges\", edges = [[\"party-0\", \"party-1\"], [\"party-1\", \"party-2\"], [\"party-3\", \"party-4\"], [\"party-4\", \"party-5\"]] }\n[run]\nround_ms = 20\nsettle_ms = 320\njoin_ms = 300",
            16,
        ),
    ];
    let mut endings: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in seeds {
        let plan = &plans[seed as usize % plans.len()];
        let faults = random_faults(seed, plan, 1 + seed as usize % 4, 20);
        let conditions = Conditions {
            duplicates: 0.05,
            ..Conditions::new(seed)
        }
        .with_faults(faults.clone());
        let report = simulate(plan, conditions);
        assert_eq!(report.violations, [], "seed {seed}: {faults:?}");
        for outcome in report.outcomes.iter().flatten() {
            let name = match outcome.ending {
                Ending::Done => "done",
                Ending::Degraded => "degraded",
                Ending::Aborted { .. } => "aborted",
                Ending::Spent { .. } => "spent",
                Ending::Withheld { .. } => "withheld",
            };
            *endings.entry(name).or_insert(0) += 1;
        }
    }
    endings
}

#[test]
fn invariants_hold_in_any_mix_of_faults() {
    let endings = soak(0..56);
    for name in ["done", "degraded", "withheld"] {
        assert!(
            endings.contains_key(name),
            "the mix reaches everything: {endings:?}"
        );
    }
}

/// `cargo test --release -p undertone-protocol --lib -- --ignored soak`
#[test]
#[ignore = "minutes; for changes of the machines"]
fn invariants_hold_in_a_long_soak() {
    println!("{:?}", soak(1000..4000));
}

#[test]
fn whom_the_gate_leaves_out_withholds_and_is_rolled_back() {
    let plan = plan(8, "", 7);
    let without = |left_out: Party| {
        move |_: &Plan, logs: &AgreedLogs| GateVerdict {
            publish: Some(logs.keys().copied().filter(|&party| party != left_out).collect()),
            reason: format!("{left_out} is left out"),
        }
    };
    let report = Simulation::new(plan.clone(), inputs(&plan), &without(5), Conditions::new(8)).run();
    assert_eq!(report.violations, []);
    let publishers = others(&plan, &[5]);
    for (party, outcome) in report.outcomes.iter().enumerate() {
        let outcome = outcome.as_ref().expect("no violation of liveness");
        assert!(outcome.agreed && outcome.included == publishers);
        if party == 5 {
            assert_eq!(
                outcome.ending,
                Ending::Withheld {
                    reason: "5 is left out".into()
                }
            );
            assert!(outcome.sum.is_none());
        } else {
            assert_eq!(outcome.ending, Ending::Degraded);
            assert_eq!(
                outcome.sum.as_ref().map(|sum| &sum.value),
                report.sum_over(&publishers).as_ref()
            );
        }
    }
}

#[test]
fn when_the_gate_refuses_everybody_withholds_and_no_final_leaves() {
    let plan = plan(8, "", 7);
    let refuse = |_: &Plan, _: &AgreedLogs| GateVerdict {
        publish: None,
        reason: "over budget".into(),
    };
    let report = Simulation::new(plan.clone(), inputs(&plan), &refuse, Conditions::new(9)).run();
    assert_eq!(report.violations, [], "an item of the second stage would be one");
    for outcome in report
        .outcomes
        .iter()
        .map(|outcome| outcome.as_ref().expect("no violation of liveness"))
    {
        assert_eq!(
            outcome.ending,
            Ending::Withheld {
                reason: "over budget".into()
            }
        );
        assert!(outcome.included.is_empty() && outcome.own_log.is_some());
    }
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
        let last = 10_000 * u64::from(plan.lattice().final_bytes);
        assert!(last > 16 << 10);
        // Six nodes get five finals each; everything else is together as large as a few.
        let public: u64 = report.bytes.iter().map(|(_, public)| public).sum();
        assert!(public < 38 * last, "{public} bytes, a final is {last}");
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

/// One party shows some of the others another log, or another final. Returns in how many runs
/// somebody saw both, and in how many all others held an agreed result.
fn equivocations(
    plan: &Arc<Plan>,
    stage: Stage,
    fooled: usize,
    seeds: std::ops::Range<u64>,
) -> (usize, usize) {
    let (mut seen, mut agreed) = (0, 0);
    for seed in seeds {
        let mut rng = stream(seed, "equivocation", 0);
        let liar = rng.random_range(0..plan.parties());
        let others: Vec<Party> = others(plan, &[liar]).into_iter().collect();
        // The first of them is one to whom the liar speaks itself.
        let neighbours = plan.draft().public_graph.neighbours(liar);
        let neighbour = neighbours[rng.random_range(0..neighbours.len())];
        let first = others
            .iter()
            .position(|&party| party == neighbour)
            .expect("nobody is its own neighbour");
        let fooled: BTreeSet<Party> = (0..fooled)
            .map(|step| others[(first + step) % others.len()])
            .collect();
        let what = format!(
            "seed {seed}: {liar} shows {fooled:?} another item of {}",
            stage.phase().name()
        );
        let equivocation = Some(Equivocation {
            party: liar,
            stage,
            fooled,
        });
        let report = simulate(
            plan,
            Conditions {
                equivocation,
                ..Conditions::new(seed)
            },
        );
        // Two sets, or two nodes with different bits, would be violations.
        assert_eq!(report.violations, [], "{what}");
        // The liar itself holds one version only, perhaps not the one that the others agree on.
        let holds = |&party: &Party| {
            report.outcomes[party]
                .as_ref()
                .is_some_and(|outcome| outcome.agreed && outcome.sum.is_some())
        };
        agreed += usize::from(others.iter().all(holds));
        let told = |event: &Event| matches!(event, Event::Offence { peer, text } if *peer == liar && text.contains("more than one"));
        seen += usize::from(report.events.iter().any(|(_, _, event)| told(event)));
    }
    (seen, agreed)
}

#[test]
fn a_party_that_shows_some_another_item_costs_nobody_the_result() {
    let complete = plan(8, "", 5);
    for stage in Stage::ALL {
        for fooled in 1..=3 {
            assert_eq!(
                equivocations(&complete, stage, fooled, 0..3),
                (3, 3),
                "{stage:?}, {fooled} fooled"
            );
        }
    }
    // Long finals are pulled, not pushed.
    let long = plan_of(10_000, 8, "", 3);
    assert_eq!(equivocations(&long, Stage::Publishing, 2, 0..1), (1, 1));
}

/// On a ring it can show each half another item before the halves have met, and so split the vote:
/// the run stops, or all agree, never some on this and some on that.
#[test]
fn on_a_ring_a_party_that_shows_some_another_item_makes_no_two_results() {
    let ring = plan(8, "[topology]\npublic = \"ring\"", 5);
    let counts: Vec<_> = Stage::ALL
        .into_iter()
        .map(|stage| equivocations(&ring, stage, 1, 0..6))
        .collect();
    assert!(
        counts.iter().all(|&(seen, agreed)| seen > 0 && agreed > 0),
        "{counts:?}"
    );
}

const STATIC: &str = "[privacy]\ncoalitions = \"static\"";

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
fn static_runs_survive_kills_duplicates_and_absence() {
    let plan = plan(8, STATIC, 5);
    assert_eq!(kills(&plan, 6, true).0, 6);
    assert_eq!(kills(&plan, 4, false).0, 4);
    let absent = Conditions {
        absent: BTreeSet::from([3]),
        duplicates: 0.2,
        ..Conditions::new(5)
    };
    let report = simulate(&plan, absent);
    assert_eq!(report.violations, []);
    let rest = others(&plan, &[3]);
    for &party in &rest {
        let outcome = report.outcomes[party].as_ref().expect("finished");
        assert_eq!((&outcome.ending, &outcome.included), (&Ending::Degraded, &rest));
    }
}

#[test]
fn a_reveal_that_does_not_fit_ends_the_run_for_all_and_names_who() {
    let plan = plan(8, STATIC, 5);
    let report = simulate(
        &plan,
        Conditions {
            false_reveal: Some(2),
            ..Conditions::new(1)
        },
    );
    assert_eq!(report.violations, []);
    for party in others(&plan, &[2]) {
        assert!(!report.shares_left[party], "nothing private has left {party}");
        match &report.outcomes[party].as_ref().expect("finished").ending {
            Ending::Aborted { reason } => {
                assert!(reason.starts_with("party-2 revealed another nonce"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    }
    // The seed is nobody's choice only if all of the plan's kind is said: the plain kind is not
    // taken.
    let honest = simulate(&plan, Conditions::new(1));
    assert!(
        honest
            .outcomes
            .iter()
            .flatten()
            .all(|outcome| outcome.ending == Ending::Done)
    );
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
            assert!(report.outcomes[6].is_none() && report.shares_left[6] == (round > 1 || sends));
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
