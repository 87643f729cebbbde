use proptest::prelude::*;

use super::*;
use crate::execution::{Execution, InjectionSpec, NamedInjection};
use crate::loss::{self, Noise};
use crate::view::View;

fn dense(out: &[Vec<Vec<Party>>], coalition: &[Party], ratio: f64) -> Vec<f64> {
    let run = Execution::fault_free(InjectionSpec::Named(NamedInjection::Incremental), out.to_vec()).expect("a schedule");
    let view = View::of(&run.with_corrupted(coalition.iter().copied()).expect("parties"));
    loss::squared_losses(&view, Noise { independent_std: 1.0, correlated_std: ratio.sqrt() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: proptest::test_runner::RngSeed::Fixed(6), ..ProptestConfig::default() })]

    #[test]
    fn conditioning_round_by_round_is_the_loss_of_the_whole_view(
        parties in 4usize..11,
        rounds in 1usize..7,
        fanout in 1usize..3,
        share in 0.0f64..0.7,
        ratio in 0.1f64..500.0,
        seed in 0u64..1000,
    ) {
        let schedule = Schedule::draw(&Graph::complete(parties), fanout, rounds, seed).expect("enough neighbours");
        let coalition = draw_parties(parties, (parties as f64 * share) as usize, seed);
        let fast = squared_losses(schedule.out(), &coalition, ratio).expect("no doubt");
        for (fast, dense) in fast.iter().zip(dense(schedule.out(), &coalition, ratio)) {
            prop_assert!((fast / dense - 1.0).abs() < 1e-9, "{fast} {dense}");
        }
    }
}

#[test]
fn a_coalition_of_neighbours_finds_more_than_random_ones() {
    let draws = Draws { graph: Graph::complete(24), fanout: 1, rounds: 6, colluding: 4, dropouts: 0 };
    let schedule = Schedule::draw(&draws.graph, 1, 6, 3).expect("enough neighbours");
    let random = (0..500).map(|seed| largest(squared_losses(schedule.out(), &draw_parties(24, 4, seed), 30.0)));
    let random = random.fold(0.0, f64::max);
    let (found, coalition) = searched(schedule.out(), 4, 30.0, 3, 16);
    assert!(found >= random, "{found} {random}");
    assert_eq!(coalition.len(), 4);
    assert!(found > draws.worst(3, 30.0));
}

#[test]
fn no_failure_in_ten_thousand_draws_leaves_seven_in_ten_thousand() {
    let bound = failure_bound(0, 10_000);
    assert!((bound / 6.9e-4 - 1.0).abs() < 2e-3, "{bound}");
    assert!((bound / (1.0 - 0.001f64.powf(1e-4)) - 1.0).abs() < 1e-8);
    // P(X ≤ 1 | 10, p) = (1 − p)^10 + 10 p (1 − p)^9 = 0.001.
    let p = failure_bound(1, 10);
    assert!(((1.0 - p).powi(10) + 10.0 * p * (1.0 - p).powi(9) - 0.001).abs() < 1e-8, "{p}");
    assert_eq!(failure_bound(5, 5), 1.0);
    assert_eq!(draws_needed(failure_bound(0, 10_000)), 10_000.0);
    assert!(draws_needed(1e-6) > 6.9e6);
}

#[test]
fn failures_are_what_loses_more_than_allowed() {
    let draws = Draws { graph: Graph::complete(12), fanout: 1, rounds: 5, colluding: 2, dropouts: 1 };
    let worst = draws.worst_of(0..20, 40.0);
    assert!(worst > 1.0 / 9.0 && worst < 1.0);
    assert_eq!(draws.failures(0..20, 40.0, worst), 0);
    assert!(draws.failures(0..20, 40.0, worst * (1.0 - 1e-9)) >= 1);
}
