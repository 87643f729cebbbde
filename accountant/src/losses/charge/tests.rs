//! The theorem against the worst that it allows, computed outcome by outcome; numbers from outside;
//! edges.

use super::*;

/// A run of which every law is known: a Gaussian mechanism of loss `mu`, seen in bins, shows itself
/// whole with the chance `draw`, and may be moved by `distance` after each history.
#[derive(Clone, Copy)]
struct Release {
    mu: f64,
    draw: f64,
    distance: f64,
}

impl Release {
    fn charge(self) -> Charge {
        Charge {
            draw: self.draw,
            distance: self.distance,
            ..Charge::of_loss(self.mu)
        }
    }
}

fn normal(x: f64) -> f64 {
    libm::erfc(-x / std::f64::consts::SQRT_2) / 2.0
}

/// The edges of the bins in which a release of loss μ is seen: enough that δ is that of the
/// density.
fn edges(mu: f64, bins: usize) -> Vec<f64> {
    let step = (mu + 9.0) / (bins - 2) as f64;
    let inner = (0..bins - 1).map(|bin| -4.5 + step * bin as f64);
    std::iter::once(f64::NEG_INFINITY)
        .chain(inner)
        .chain([f64::INFINITY])
        .collect()
}

/// The chance of each bin, where the mean is `shift`.
fn chances(edges: &[f64], shift: f64) -> Vec<f64> {
    let pairs = edges.windows(2);
    pairs
        .map(|edge| normal(edge[1] - shift) - normal(edge[0] - shift))
        .collect()
}

/// The mean of `values` under `chances`, once mass `distance` has moved to where it raises (or
/// lowers) it most: the furthest that total variation allows.
fn moved(chances: &[f64], values: &[f64], distance: f64, raise: bool) -> f64 {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    if !raise {
        order.reverse();
    }
    let to = values[order[order.len() - 1]];
    let mut left = distance;
    order
        .iter()
        .map(|&bin| {
            let taken = left.min(chances[bin]);
            left -= taken;
            (chances[bin] - taken) * values[bin] + taken * to
        })
        .sum()
}

/// Returns the true δ of `releases` one after another, each moved for the worst: P(S) − e^ε P′(S).
/// S is the best event against the ideal ones, by induction from the last release.
fn truth(releases: &[Release], epsilon: f64, bins: usize) -> f64 {
    /// (P(S), P′(S)) given what was seen so far, of which the log-likelihood ratio is `ratio`.
    fn go(releases: &[Release], (epsilon, bins): (f64, usize), ratio: f64) -> (f64, f64) {
        let Some((first, rest)) = releases.split_first() else {
            let inside = f64::from(u8::from(ratio > epsilon));
            return (inside, inside);
        };
        let edges = edges(first.mu, bins);
        let (here, there) = (chances(&edges, first.mu), chances(&edges, 0.0));
        let mut values: Vec<(f64, f64)> = here
            .iter()
            .zip(&there)
            .map(|(p, q)| go(rest, (epsilon, bins), ratio + libm::log(p / q)))
            .collect();
        // A bad draw shows which data set it is: seen with the one it is in S, with the other not.
        values.extend([(1.0, 1.0), (0.0, 0.0)]);
        let with_draw = |chances: &[f64], shown: [f64; 2]| {
            let good = chances.iter().map(|chance| chance * (1.0 - first.draw));
            good.chain(shown.map(|shown| shown * first.draw))
                .collect::<Vec<f64>>()
        };
        let (one, other): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
        (
            moved(&with_draw(&here, [1.0, 0.0]), &one, first.distance, true),
            moved(&with_draw(&there, [0.0, 1.0]), &other, first.distance, false),
        )
    }
    let (one, other) = go(releases, (epsilon, bins), 0.0);
    one - libm::exp(epsilon) * other
}

fn all(releases: &[Release]) -> Charge {
    releases.iter().map(|release| release.charge()).sum()
}

const fn release(mu: f64, draw: f64, distance: f64) -> Release {
    Release { mu, draw, distance }
}

/// Brute force: never below the truth, and each part counts for as much as it can be worth.
#[test]
fn delta_is_that_of_the_worst_law_that_the_parts_allow() {
    let cases: [(&[Release], usize); 7] = [
        (&[release(1.0, 0.0, 0.0)], 4000),
        (&[release(1.0, 0.01, 0.0)], 4000),
        (&[release(1.0, 0.0, 1e-3)], 4000),
        (&[release(0.5, 1e-3, 1e-4)], 4000),
        (&[release(0.6, 1e-3, 1e-3), release(0.8, 2e-3, 5e-4)], 120),
        (&[release(1.0, 0.0, 1e-3), release(1.0, 0.0, 1e-3)], 120),
        (
            &[
                release(0.7, 1e-3, 1e-4),
                release(0.3, 1e-4, 1e-3),
                release(0.9, 2e-3, 1e-4),
            ],
            36,
        ),
    ];
    for (releases, bins) in cases {
        for epsilon in [0.0, 0.3, 1.0, 1.7] {
            let (found, bound) = (truth(releases, epsilon, bins), all(releases).delta(epsilon));
            assert!(found <= bound, "{} at {epsilon}: {found} {bound}", releases.len());
            assert!(
                found > 0.9 * bound,
                "{} at {epsilon}: {found} {bound}",
                releases.len()
            );
            // Without one of the parts it would be below.
            let charge = all(releases);
            for less in [
                Charge { draw: 0.0, ..charge },
                Charge {
                    distance: 0.0,
                    ..charge
                },
            ] {
                let least = less.delta(epsilon);
                assert!(less == charge || bins < 4000 || found > least, "{found} {least}");
            }
        }
    }
}

/// Checks that the ε that each run states of its own adds up to less than the truth: hence d is
/// what is charged.
#[test]
fn what_sampling_adds_to_each_run_is_less_than_what_it_adds_to_all() {
    let delta = 0.1;
    let own = gaussian::epsilon(delta, 1.5).expect("in range");
    let stated = delta / 20.0;
    let charge = Charge {
        distance: distance_of(stated, own),
        ..Charge::of_loss(1.5)
    };
    let releases = [release(1.5, 0.0, charge.distance); 2];
    let ideal = Charge {
        distance: 0.0,
        ..charge + charge
    };
    let epsilon = ideal.epsilon(delta);
    assert!(epsilon > own + 1.8, "{epsilon} {own}");
    let found = truth(&releases, epsilon, 200);
    let added_up = ideal.delta(epsilon) + 2.0 * stated;
    assert!(found > 1.04 * added_up, "{found} {added_up}");
    assert!(found <= (charge + charge).delta(epsilon), "{found}");
}

/// At the size of a run, each term to nine digits: mpmath, 60 digits.
#[test]
fn numbers_from_outside() {
    let charge = Charge {
        mu_squared: 0.25,
        draw: 3e-7,
        distance: 2e-9,
    };
    for (epsilon, delta) in OUTSIDE {
        let found = charge.delta(epsilon);
        assert!(
            found >= delta && found < delta * (1.0 + 1e-9),
            "{epsilon}: {found}"
        );
        if found < charge.delta(epsilon - 1e-3) {
            let back = charge.epsilon(found);
            assert!((back - epsilon).abs() < 1e-9, "{back} {epsilon}");
        }
    }
    // δ falls, and then rises with e^ε: the least ε is taken, and a larger one holds all the more.
    assert!(charge.delta(8.0) > charge.delta(2.25));
    assert!(charge.is_within(8.0, charge.delta(2.25)));
    assert_eq!(charge.epsilon(1e-7), f64::INFINITY, "the draw alone is more");
    assert_eq!(charge.epsilon(3.1e-7), f64::INFINITY, "sampling adds the rest");
    assert!(!charge.is_within(1e9, 3e-7));
}
const OUTSIDE: [(f64, f64); 5] = [
    (0.5, 0.052440628585112205),
    (1.2, 0.002415811503460876),
    (2.0, 9.755946747145095e-06),
    (2.25, 1.3596841175283213e-06),
    (8.0, 6.2639159740834565e-06),
];

#[test]
fn gaussian_charges_cost_what_the_gaussian_says() {
    for (epsilon, delta) in [(1.0, 1e-6), (0.1, 1e-9), (11.3, 1e-9), (3.0, 0.2), (1e-4, 1e-5)] {
        let charge = Charge::of_loss(gaussian::mu(epsilon, delta).expect("in range"));
        assert!(charge.mu_squared > 0.0 && charge.mu() >= gaussian::mu(epsilon, delta).expect("in range"));
        let exact = gaussian::epsilon(delta, charge.mu()).expect("in range");
        let found = charge.epsilon(delta);
        assert!(
            found >= exact * (1.0 - 1e-14) && found < exact * (1.0 + 1e-9),
            "{found} {exact}"
        );
        assert!(charge.is_within(epsilon * (1.0 + 1e-6), delta) && !charge.is_within(epsilon * 0.999, delta));
    }
}

#[test]
fn parts_add_up_and_round_up() {
    let none: Charge = std::iter::empty().sum();
    assert_eq!(none, Charge::NOTHING);
    assert!(none.draw.is_sign_positive() && none.sampling_delta(700.0) == 0.0 && none.epsilon(1e-9) == 0.0);
    let ten: Charge = std::iter::repeat_n(
        Charge {
            mu_squared: 0.1,
            draw: 0.1,
            distance: 0.1,
        },
        10,
    )
    .sum();
    for part in [ten.mu_squared, ten.draw, ten.distance] {
        assert!((1.0..1.0 + 1e-14).contains(&part), "{part:.17}");
    }
    assert!(
        Charge::of_loss(1e-200).mu_squared > 0.0,
        "never nothing for something"
    );
    let twice = Charge::of_loss(0.3).times(2.0);
    assert!(twice.mu() >= 0.6 && twice.mu() < 0.6 + 1e-12);
    let (a, b) = (Charge { draw: 0.5, ..ten }, Charge { distance: 0.5, ..ten });
    assert_eq!(
        a.at_most(b),
        Charge {
            draw: 0.5,
            distance: 0.5,
            ..ten
        }
    );
    assert_eq!(a.at_least(b), ten);
    assert_eq!(a.beyond(ten), Charge::NOTHING);
    assert!((ten.beyond(a).draw - 0.5).abs() < 1e-12);
}

#[test]
fn what_is_no_number_counts_as_unbounded() {
    let odd = Charge {
        mu_squared: f64::NAN,
        ..Charge::NOTHING
    };
    for charge in [
        odd,
        odd + Charge::of_loss(1.0),
        Charge::of_loss(f64::NAN),
        Charge::of_loss(f64::INFINITY),
    ] {
        assert_eq!((charge.epsilon(1e-6), charge.delta(100.0)), (f64::INFINITY, 1.0));
        assert!(!charge.is_bounded() && !charge.is_within(1e6, 0.999));
    }
    assert_eq!(odd.at_most(Charge::of_loss(1.0)), Charge::of_loss(1.0));
    assert_eq!(odd.at_least(Charge::NOTHING).mu_squared, f64::INFINITY);
    let drawn = Charge {
        draw: f64::NAN,
        ..Charge::NOTHING
    };
    assert_eq!(drawn.delta(1.0), 1.0);
}

#[test]
fn a_distance_is_never_below_what_was_stated() {
    for distance in [1e-300, 1e-13, 3e-9, 0.01] {
        for epsilon in [0.0, 1.0, 9.0, 30.0] {
            let charge = Charge {
                distance,
                ..Charge::NOTHING
            };
            let stated = charge.sampling_delta(epsilon);
            let found = distance_of(stated, epsilon);
            assert!(found >= distance, "{distance} {epsilon}: {found}");
            assert!(stated == 1.0 || found < distance * (1.0 + 1e-12));
        }
    }
    // Cut off at 1, it says nothing; nor does what is no statement.
    for (stated, epsilon) in [(1.0, 31.0), (f64::NAN, 1.0), (-1.0, 1.0), (0.5, f64::NAN)] {
        assert_eq!(distance_of(stated, epsilon), 1.0);
    }
    assert_eq!(distance_of(0.0, 1.0), 0.0);
    assert!(distance_of(1e-300, 1000.0) > 0.0);
}

#[test]
fn files_have_null_for_infinity_and_nothing_below_zero() {
    let charge = Charge {
        mu_squared: f64::INFINITY,
        draw: 1e-9,
        distance: 0.0,
    };
    let text = serde_json::to_string(&charge).expect("writes");
    assert_eq!(text, r#"{"mu_squared":null,"draw":1e-9,"distance":0.0}"#);
    assert_eq!(serde_json::from_str::<Charge>(&text).expect("reads"), charge);
    for wrong in [
        r#"{"mu_squared":-1,"draw":0,"distance":0}"#,
        r#"{"mu_squared":1,"draw":-1e-9,"distance":0}"#,
        r#"{"mu_squared":1,"draw":0,"distance":null}"#,
        r#"{"mu_squared":1,"draw":0}"#,
    ] {
        assert!(serde_json::from_str::<Charge>(wrong).is_err(), "{wrong}");
    }
}
