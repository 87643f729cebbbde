use proptest::prelude::*;
use undertone_protocol::topology::party::Party;

use super::*;
use crate::bounds::draws::search::{Effort, searched, sufficient};
use crate::class::faults::single_shares;
use crate::class::setting::Setting;
use crate::execution::checked::Execution;
use crate::execution::seen::seen_states;
use crate::execution::trace::Trace;
use crate::losses::loss::{self, Noise};
use crate::losses::view::View;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::inca::{InjectionSpec, NamedInjection};

fn fault_free(out: &[Vec<Vec<Party>>]) -> Execution {
    Execution::fault_free(
        Mechanism::Inca(InjectionSpec::Named(NamedInjection::Incremental)),
        out.to_vec(),
    )
    .expect("a schedule")
}

fn dense(execution: &Execution, coalition: &[Party], ratio: f64) -> Vec<f64> {
    let view = View::of(
        &execution
            .clone()
            .with_corrupted(coalition.iter().copied())
            .expect("parties"),
    );
    loss::squared_losses(
        &view,
        Noise {
            independent_std: 1.0,
            correlated_std: ratio.sqrt(),
        },
    )
}

/// A schedule on a complete graph, with how many parties it has, and its seed.
fn schedule(parties: Range<usize>, rounds: Range<usize>) -> impl Strategy<Value = (usize, u64, Schedule)> {
    (parties, 1usize..3, rounds, 0u64..1000).prop_map(|(parties, fanout, rounds, seed)| {
        let drawn = Schedule::draw(&Graph::complete(parties), fanout, rounds, seed);
        (parties, seed, drawn.expect("enough neighbours"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        rng_seed: proptest::test_runner::RngSeed::Fixed(6),
        ..ProptestConfig::default()
    })]

    #[test]
    fn conditioning_round_by_round_is_the_loss_of_the_whole_view(
        (parties, seed, schedule) in schedule(4..11, 1..7),
        share in 0.0f64..0.7,
        ratio in 0.1f64..500.0,
    ) {
        let coalition = draw_parties(parties, (parties as f64 * share) as usize, seed);
        let fast = squared_losses(schedule.out(), &coalition, ratio).expect("no doubt");
        for (fast, dense) in fast.iter().zip(dense(&fault_free(schedule.out()), &coalition, ratio)) {
            prop_assert!((fast / dense - 1.0).abs() < 1e-9, "{fast} {dense}");
        }
    }

    #[test]
    fn one_more_state_is_what_a_view_with_its_row_loses(
        (parties, seed, schedule) in schedule(4..9, 1..5),
        colluding in 0usize..3,
        ratio in 1f64..500.0,
    ) {
        let coalition = draw_parties(parties, colluding, seed);
        let base = fault_free(schedule.out());
        let against = base.clone().with_corrupted(coalition.iter().copied()).expect("parties");
        let trace = Trace::of(&against, &vec![1.0; parties]);
        let view = View::of_trace(&trace, &against);
        // The rows of the view, and one more state at a time.
        let noise = Noise { independent_std: 1.0, correlated_std: ratio.sqrt() };
        let mut worst = loss::squared_losses(&view, noise).into_iter().fold(0.0, f64::max);
        let states = seen_states(&against);
        let seen = states.iter().filter_map(|&(party, t)| trace.state(party, t));
        let finals = view.honest.iter().map(|&party| trace.final_state(party));
        let rows: Vec<&[f64]> = seen.chain(finals).collect();
        for &party in &view.honest {
            for t in (0..schedule.rounds() as u32).filter(|&t| !states.contains(&(party, t))) {
                let mut more = rows.clone();
                more.push(trace.state(party, t).expect("kept"));
                let view = View::from_rows(&more, view.honest.clone(), |party| trace.noises(party));
                worst = loss::squared_losses(&view, noise).into_iter().fold(worst, f64::max);
            }
        }
        let fast = worst_with_a_share_fault(schedule.out(), &coalition, ratio).unwrap_or(f64::INFINITY);
        // What can be computed from the rest is in doubt on both sides.
        prop_assume!(fast.is_finite() || worst.is_finite());
        prop_assert!((fast / worst - 1.0).abs() < 1e-6, "{fast} {worst}");
    }
}

#[test]
fn no_fault_of_a_share_loses_more_than_its_state_shows() {
    for (parties, rounds, fanout, size, ratio) in [(6, 4, 1, 2, 30.0), (7, 3, 2, 1, 5.0), (8, 5, 1, 3, 200.0)]
    {
        let schedule =
            Schedule::draw(&Graph::complete(parties), fanout, rounds, 9).expect("enough neighbours");
        let coalition = draw_parties(parties, size, 4);
        let bound = worst_with_a_share_fault(schedule.out(), &coalition, ratio).expect("no doubt");
        let setting = Setting {
            mechanism: Mechanism::Inca(InjectionSpec::Named(NamedInjection::Incremental)),
            out: schedule.out().to_vec(),
            sensitivity: vec![1.0; parties],
            weights: vec![1.0; parties],
            colluding: size,
            dropouts: 0,
            rollback: true,
            uniform: false,
        };
        let base = setting.fault_free().expect("a schedule");
        let mut worst = 0.0f64;
        for fault in single_shares(&setting) {
            let execution = base
                .clone()
                .with_shares(vec![fault])
                .expect("a share of the schedule");
            worst = dense(&execution, &coalition, ratio)
                .into_iter()
                .fold(worst, f64::max);
        }
        assert!(worst <= bound, "{worst} {bound}");
        assert!(
            worst > dense(&base, &coalition, ratio).into_iter().fold(0.0, f64::max),
            "faults cost something"
        );
    }
}

#[test]
fn a_climb_finds_more_than_ten_thousand_random_coalitions() {
    let draws = Draws {
        graph: Graph::complete(30),
        fanout: 1,
        rounds: 6,
        colluding: 5,
        dropouts: 0,
    };
    let schedule = Schedule::draw(&draws.graph, 1, 6, 3).expect("enough neighbours");
    let random = in_parallel(10_000, |seed| {
        Some(largest(squared_losses(
            schedule.out(),
            &draw_parties(30, 5, seed as u64),
            30.0,
        )))
    });
    let random = random.into_iter().fold(0.0, f64::max);
    let found = searched(
        schedule.out(),
        5,
        30.0,
        Effort {
            victims: 30,
            starts: 2,
            steps: 200,
            choices: usize::MAX,
        },
    );
    assert!(found.square >= random, "{found:?} {random}");
    assert_eq!(found.coalition.len(), 5);
    assert!(found.cases <= 30 * 5 * 12 + 2 * 200, "{found:?}");
    let again = largest(squared_losses(schedule.out(), &found.coalition, 30.0));
    assert_eq!(found.square, again, "that coalition learns as much");
}

#[test]
fn no_failure_in_ten_thousand_draws_leaves_seven_in_ten_thousand() {
    assert!((Draws::chance(0, 10_000) / 6.905e-4 - 1.0).abs() < 1e-4);
    assert!(Draws::chance(3, 10_000) > 1.8 * Draws::chance(0, 10_000));
    assert_eq!(Draws::chance(5, 5), 1.0);
    assert!((Draws::needed(1e-5) / 690_772.0 - 1.0).abs() < 1e-4);
}

#[test]
fn a_party_loses_no_less_if_more_collude_or_depart() {
    for seed in 0..30 {
        let schedule = Schedule::draw(&Graph::complete(12), 1, 4, seed).expect("enough neighbours");
        let all = draw_parties(12, 5, seed);
        let losses = |against: &[Party]| -> Vec<(Party, f64)> {
            let outside = (0..12).filter(|party| !against.contains(party));
            outside
                .zip(squared_losses(schedule.out(), against, 40.0).expect("no doubt"))
                .collect()
        };
        let fewer = losses(&all[..2]);
        for (party, loss) in losses(&all) {
            let before = fewer
                .iter()
                .find(|(other, _)| *other == party)
                .expect("outside of both")
                .1;
            assert!(
                before <= loss * (1.0 + 1e-9),
                "seed {seed}, party {party}: {before} {loss}"
            );
        }
    }
}

#[test]
fn failures_are_what_loses_more_than_allowed() {
    let draws = Draws {
        graph: Graph::complete(12),
        fanout: 1,
        rounds: 5,
        colluding: 2,
        dropouts: 1,
    };
    let worst = draws.worst_of(0..20, 40.0);
    assert!(worst > 1.0 / 9.0 && worst < 1.0);
    assert_eq!(draws.failures(0..20, 40.0, worst), 0);
    assert!(draws.failures(0..20, 40.0, worst * (1.0 - 1e-9)) >= 1);
    assert!(draws.worst_without_share_faults(3, 40.0) < draws.worst(3, 40.0));
}

#[test]
fn who_reads_all_that_reaches_a_party_learns_its_value() {
    // Six receivers a round: a state has many readers, and the contacts of a victim, one after the
    // other, are not the best choice of them.
    let schedule = Schedule::draw(&Graph::complete(60), 6, 10, 3).expect("enough neighbours");
    let found = searched(
        schedule.out(),
        20,
        1e4,
        Effort {
            victims: 1,
            starts: 2,
            steps: 1,
            choices: usize::MAX,
        },
    );
    assert!((found.square - 1.0).abs() < 1e-6, "{}", found.square);
    assert!(found.cases <= 2, "from the first start on: {}", found.cases);
    // The fewest who are found to suffice do, and one less do not by the same choice.
    let few = sufficient(schedule.out());
    assert!((10..20).contains(&few), "{few}");
    let learns = |size: usize| {
        searched(
            schedule.out(),
            size,
            1e4,
            Effort {
                victims: 1,
                starts: 60,
                steps: 1,
                choices: usize::MAX,
            },
        )
        .square
    };
    assert!(
        learns(few) > 1.0 - 1e-6 && learns(few / 2) < 0.5,
        "{few}: {} {}",
        learns(few),
        learns(few / 2)
    );
}

#[test]
fn draws_that_nobody_could_make_are_refused() {
    let draws = |parties: usize, rounds: usize| Draws {
        graph: Graph::complete(parties),
        fanout: 1,
        rounds,
        colluding: 20,
        dropouts: 20,
    };
    assert!(!draws(200, 40).take_too_long() && !draws(500, 30).take_too_long());
    assert!(draws(1024, 63).take_too_long());
    let large = crate::testing::draft(
        1024,
        "[privacy]\ncoalitions = \"static\"\n[mechanism]\nrounds = 60",
    );
    let refused = crate::calibration::calibrate::calibrate(&large, &mut |_| {}).expect_err("too many");
    assert!(
        matches!(
            refused,
            crate::calibration::error::CalibrateError::Draws {
                parties: 1024,
                rounds: 60
            }
        ),
        "{refused}"
    );
}
