//! Step schedules against real runs, and against the paper's figures.

use proptest::prelude::*;

use super::*;
use crate::averaging::spectrum::Spectrum;
use crate::averaging::step_schedule::{Goal, Method, StepSchedule};
use crate::topology::graph::Graph;

fn spectrum(graph: &Graph) -> Spectrum {
    Spectrum::of(graph).expect("connected")
}

fn reals(norm: f64, tolerance: f64) -> Goal {
    Goal {
        norm,
        rounding: 0.0,
        tolerance,
    }
}

/// The largest distance from the mean after these steps, in f64.
fn left_after(graph: &Graph, steps: &[f64], start: &[f64]) -> f64 {
    let mut x = start.to_vec();
    for step in steps {
        let laplacian = |i: usize| graph.neighbours(i).iter().map(|&j| x[i] - x[j]).sum::<f64>();
        x = (0..x.len()).map(|i| x[i] - step * laplacian(i)).collect();
    }
    let mean = start.iter().sum::<f64>() / start.len() as f64;
    x.iter().map(|x| (x - mean).abs()).fold(0.0, f64::max)
}

/// PPSC, Table 3 (a), column "Fig. 6a": 10-cycle, edge weight 1/10, ε = 10^-3; so many rounds for a
/// mean square error of ν. Only differences along the slowest direction are left by then: 10 rounds
/// multiply them by 0.9618^10.
const TABLE_3: [(f64, usize, usize); 3] = [(1.0, 341, 226), (0.1, 371, 255), (0.01, 400, 285)];

#[test]
fn on_the_papers_cycle_at_most_40_rounds_do_what_takes_226_to_400() {
    let graph = Graph::ring(10);
    let spectrum = spectrum(&graph);
    let factor = plain::factor(&spectrum, plain::weight(&spectrum));
    assert!((factor - 0.9618).abs() < 1e-4, "{factor}");
    // The slowest direction, and one that excites all of them.
    let slow: Vec<f64> = (0..10)
        .map(|i| libm::cos(std::f64::consts::TAU * i as f64 / 10.0))
        .collect();
    let mixed = [3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0, -6.0, 5.0, 3.5];
    for (nu, theory, practice) in TABLE_3 {
        for rounds in [theory, practice] {
            // The start from which plain averaging needs exactly the table's rounds.
            let tolerance = nu.sqrt();
            let start_norm = tolerance / factor.powi(rounds as i32);
            for direction in [&slow[..], &mixed] {
                let norm = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
                let start: Vec<f64> = direction.iter().map(|x| x * start_norm / norm).collect();
                let goal = reals(start_norm, tolerance);
                let plain = StepSchedule::plain(&spectrum, goal).expect("plain");
                assert!(
                    (rounds..=rounds + 1).contains(&plain.steps.len()),
                    "{} for {rounds}",
                    plain.steps.len()
                );
                let chebyshev = StepSchedule::chebyshev(&spectrum, goal).expect("Chebyshev");
                let exact = StepSchedule::fit(&spectrum, goal).expect("finite-time");
                assert!(chebyshev.steps.len() <= 40, "{}", chebyshev.steps.len());
                assert_eq!((exact.method, exact.steps.len()), (Method::FiniteTime, 5));
                for schedule in [plain, chebyshev, exact] {
                    let left = left_after(&graph, &schedule.steps, &start);
                    assert!(
                        left <= tolerance && schedule.error <= tolerance,
                        "{:?}: {left}",
                        schedule.method
                    );
                }
                // Fewer rounds than the table's do not suffice for plain averaging along the
                // slowest direction.
                if direction == &slow[..] {
                    let fewer = vec![plain::weight(&spectrum); rounds * 9 / 10];
                    let left = left_after(&graph, &fewer, &start);
                    assert!(left * 10f64.sqrt() > tolerance, "{left} after {}", fewer.len());
                }
            }
        }
    }
    let exact = finite_time::roots(&spectrum)
        .iter()
        .map(|root| 1.0 / root)
        .collect::<Vec<_>>();
    assert!(
        left_after(&graph, &exact, &mixed) < 1e-13,
        "exact but for rounding"
    );
    assert!(left_after(&graph, &exact[..4], &mixed) > 1e-3, "and not before");
}

#[test]
fn a_complete_graph_takes_one_round() {
    let schedule = StepSchedule::fit(&spectrum(&Graph::complete(8)), reals(1e6, 1.0)).expect("a schedule");
    assert_eq!((schedule.method, schedule.steps.len()), (Method::FiniteTime, 1));
}

#[test]
fn no_schedule_reaches_below_what_rounding_leaves() {
    let spectrum = spectrum(&Graph::ring(10));
    let goal = Goal {
        norm: 1e6,
        rounding: integers::ROUNDING,
        tolerance: 1.0,
    };
    assert_eq!(StepSchedule::fit(&spectrum, goal), None);
    assert!(
        StepSchedule::fit(
            &spectrum,
            Goal {
                tolerance: 100.0,
                ..goal
            }
        )
        .is_some()
    );
}

/// A run on integers, as nodes do it: each adds up its neighbours' changes.
fn run_on_integers(graph: &Graph, schedule: &StepSchedule, changes: &[f64], start: &[i64]) -> Vec<i64> {
    let mut states: Vec<i64> = start.to_vec();
    let mut sums: Vec<i64> = (0..states.len())
        .map(|i| graph.neighbours(i).iter().map(|&j| start[j]).sum())
        .collect();
    for (step, bound) in schedule.steps.iter().zip(changes) {
        let mut moved = vec![0; states.len()];
        for i in 0..states.len() {
            let degree = graph.neighbours(i).len() as i64;
            integers::step(&mut states[i..=i], &sums[i..=i], degree, *step, &mut moved[i..=i]);
            assert!(
                moved[i].unsigned_abs() as f64 <= *bound,
                "{} beyond {bound}",
                moved[i]
            );
        }
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += graph.neighbours(i).iter().map(|&j| moved[j]).sum::<i64>();
        }
    }
    states
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any graph, any start: all three methods end within what they say, and the changes stay
    /// within what they say.
    #[test]
    fn schedules_end_within_their_stated_error(
        parties in 3usize..24,
        extra in proptest::collection::vec((0usize..24, 0usize..24), 0..40),
        scale in 1u32..40,
        seed: u64,
    ) {
        let mut edges: Vec<(usize, usize)> = (1..parties).map(|i| ((seed as usize ^ i) % i, i)).collect();
        edges.extend(extra.into_iter().filter(|&(a, b)| a < b && b < parties));
        edges.sort_unstable();
        edges.dedup();
        let graph = Graph::from_edges(parties, &edges).expect("a graph");
        let spectrum = spectrum(&graph);
        let range = 1i64 << scale;
        let drawn = |i: u64| (seed.wrapping_mul(i * 2 + 1).rotate_left(17) as i64) % range;
        let start: Vec<i64> = (0..parties as u64).map(drawn).collect();
        let norm = (parties as f64).sqrt() * range as f64;
        let goal = Goal { norm, rounding: integers::ROUNDING, tolerance: 4096.0 };
        let schedules = [
            StepSchedule::fit(&spectrum, goal),
            StepSchedule::chebyshev(&spectrum, goal),
            StepSchedule::finite_time(&spectrum, goal),
        ];
        prop_assert!(schedules[0].is_some());
        let mean = start.iter().sum::<i64>() as f64 / parties as f64;
        for schedule in schedules.into_iter().flatten() {
            let changes = schedule.changes(&spectrum, goal);
            prop_assert!(schedule.error <= goal.tolerance);
            for state in run_on_integers(&graph, &schedule, &changes, &start) {
                let off = (state as f64 - mean).abs();
                prop_assert!(off <= schedule.error, "{:?}: {off}, not {}", schedule.method, schedule.error);
            }
        }
    }
}
