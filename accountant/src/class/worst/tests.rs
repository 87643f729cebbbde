use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::multi_gossip::MultiGossip;
use undertone_protocol::topology::schedule::Schedule;

use super::*;
use crate::execution::share::Fate;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::inca::{CustomInjection, InjectionSpec, NamedInjection};
use crate::parallel::in_parallel;

/// A run of PPSC over this graph.
fn exchanges(graph: &Graph, rounds: u32, seed: u64) -> Setting {
    let gossip = MultiGossip::fitting(graph, rounds, seed).expect("everybody has a neighbour");
    let parties = graph.parties();
    Setting {
        mechanism: Mechanism::Ppsc,
        out: gossip.schedule().out().to_vec(),
        ..setting(parties, 1, 1, INCREMENTAL)
    }
}

const INCREMENTAL: InjectionSpec = InjectionSpec::Named(NamedInjection::Incremental);

fn setting(parties: usize, rounds: usize, fanout: usize, injection: InjectionSpec) -> Setting {
    let schedule = Schedule::draw(&Graph::complete(parties), fanout, rounds, 3).expect("enough neighbours");
    Setting {
        mechanism: injection.into(),
        out: schedule.out().to_vec(),
        sensitivity: (0..parties).map(|party| 1.0 + 0.1 * party as f64).collect(),
        weights: vec![1.0; parties],
        colluding: 1,
        dropouts: 1,
        rollback: true,
        uniform: false,
        drawn_share_faults: None,
    }
}

/// Each share returned in any R ≥ t or accepted in any R > t, whether or not that is the same as
/// another.
fn every_share(setting: &Setting) -> Vec<ShareFault> {
    let rounds = setting.rounds() as u32;
    let mut faults = Vec::new();
    for (round, from, to) in faults::shares(setting) {
        for applied in round..=rounds {
            let fates: &[Fate] = if applied > round {
                &[Fate::Returned, Fate::Accepted]
            } else {
                &[Fate::Returned]
            };
            faults.extend(fates.iter().map(|&fate| ShareFault {
                round,
                from,
                to,
                fate,
                applied: Some(applied),
                seen: true,
            }));
        }
    }
    faults
}

/// The class by definition: every execution against every coalition, with care.
fn by_definition(setting: &Setting, ratio: f64) -> f64 {
    let base = setting.fault_free().expect("a schedule");
    let executions: Vec<Execution> = match setting.rollback {
        true => std::iter::once(base.clone())
            .chain(
                every_share(setting)
                    .into_iter()
                    .map(|fault| base.clone().with_shares(vec![fault]).expect("a fault")),
            )
            .collect(),
        false => std::iter::once(base.clone())
            .chain(
                faults::shares_of_class(setting)
                    .into_iter()
                    .map(|fault| base.clone().with_shares(vec![fault]).expect("a fault")),
            )
            .chain(faults::crashes(setting).expect("executions"))
            .collect(),
    };
    let mut worst = 0.0f64;
    for execution in executions {
        for coalition in coalitions::all(setting.parties(), setting.coalition_size()) {
            let view = View::of(&execution.clone().with_corrupted(coalition).expect("parties"));
            let squares = squared_losses(
                &view,
                Noise {
                    independent_std: 1.0,
                    correlated_std: ratio.sqrt(),
                },
            );
            for (&party, square) in view.honest.iter().zip(squares) {
                worst = worst.max(scaled(setting.sensitivity[party], square));
            }
        }
    }
    worst
}

#[test]
fn the_fast_path_finds_the_worst_of_the_class() {
    let custom = InjectionSpec::Custom(CustomInjection {
        c: vec![0.4, 0.3, 0.2, 0.1],
        z: vec![
            vec![1.0, 0.5, 0.25],
            vec![-0.5, 1.0, 0.5],
            vec![0.25, -1.0, 1.0],
            vec![-0.75, -0.5, -1.75],
        ],
    });
    let settings = [
        setting(5, 3, 1, InjectionSpec::Named(NamedInjection::Incremental)),
        setting(5, 3, 1, InjectionSpec::Named(NamedInjection::Early)),
        setting(5, 3, 2, InjectionSpec::Named(NamedInjection::Incremental)),
        setting(4, 3, 1, custom),
        Setting {
            rollback: false,
            ..setting(4, 3, 1, InjectionSpec::Named(NamedInjection::Incremental))
        },
        Setting {
            dropouts: 2,
            ..setting(4, 2, 1, InjectionSpec::Named(NamedInjection::Incremental))
        },
        exchanges(&Graph::complete(5), 7, 3),
        exchanges(&Graph::ring(6), 9, 1),
        // Too few exchanges to hide everybody: some values are alone.
        exchanges(&Graph::complete(5), 3, 2),
        Setting {
            dropouts: 0,
            ..exchanges(
                &Graph::from_edges(7, &[(0, 1), (0, 2), (1, 2), (2, 3), (4, 5), (5, 6), (4, 6)])
                    .expect("a graph"),
                6,
                5,
            )
        },
    ];
    for setting in settings {
        let class = Class::of(&setting).expect("executions").expect("few cases");
        assert_eq!(
            class.cases(),
            faults::count(&setting) * coalitions::all(setting.parties(), setting.coalition_size()).len()
        );
        for ratio in [0.5, 12.0] {
            let (fast, truth) = (class.worst(ratio).expect("a run"), by_definition(&setting, ratio));
            // Never below, but for the rounding of the truth itself; above by no more than is added
            // on purpose.
            let above = fast.square / truth - 1.0;
            assert!(
                (-1e-12..=1.01 * SCREENED).contains(&above),
                "{} {truth}",
                fast.square
            );
            let screened = class.screen(ratio)[0].square;
            assert!((screened / truth - 1.0).abs() < 1e-10, "{screened} {truth}");
        }
    }
}

#[test]
fn the_example_has_as_many_cases_as_the_design_says() {
    let class_setting = setting(8, 6, 1, InjectionSpec::Named(NamedInjection::Incremental));
    assert_eq!(
        Class::of(&class_setting)
            .expect("executions")
            .expect("few cases")
            .cases(),
        28 * (1 + 8 * 36)
    );
}

#[test]
fn what_is_too_large_is_not_exhausted() {
    let many = setting(17, 1, 1, InjectionSpec::Named(NamedInjection::Incremental));
    assert!(Class::of(&many).expect("executions").is_none());
    let long = setting(16, 320, 1, InjectionSpec::Named(NamedInjection::Incremental));
    assert!(Class::of(&long).expect("executions").is_none());
    let everybody = Setting {
        dropouts: 4,
        ..setting(5, 3, 1, InjectionSpec::Named(NamedInjection::Incremental))
    };
    assert!(Class::of(&everybody).expect("executions").is_none());
}

#[test]
fn work_in_parallel_keeps_its_order() {
    let results = in_parallel(100, |index| (index % 3 != 0).then_some(index));
    assert_eq!(
        results,
        (0..100).filter(|index| index % 3 != 0).collect::<Vec<_>>()
    );
    assert!(in_parallel(0, Some).is_empty());
}
