use proptest::prelude::*;

use super::*;

fn data(clip: Clip, adjacency: Adjacency, unit: Unit, shape: Vec<usize>) -> Data {
    Data {
        shape,
        unit,
        adjacency,
        clip,
        weights: None,
        records: None,
        columns: None,
        tensors: None,
        contributed: Contributed::AsTheyAre,
        noise_ok: false,
    }
}

fn of(clip: Clip, adjacency: Adjacency, weight: f64) -> f64 {
    data(clip, adjacency, Unit::Party, vec![10, 10]).sensitivity(weight)
}

/// Each tensor may move by itself: squares add up.
#[test]
fn tensors_move_each_in_its_ball() {
    let radius = [("b", 3.0), ("w", 4.0)];
    let clip = Clip::Tensors {
        radius: radius
            .into_iter()
            .map(|(name, it)| (name.to_owned(), it))
            .collect(),
    };
    let of = |adjacency, unit| data(clip.clone(), adjacency, unit, vec![5]);
    let replaced = of(Adjacency::ReplaceOne, Unit::Party);
    assert_eq!(
        (replaced.sensitivity(1.0), replaced.sensitivity(0.5)),
        (10.0, 5.0)
    );
    assert_eq!(of(Adjacency::ZeroOut, Unit::Record).sensitivity(9.0), 5.0);
    assert_eq!(
        (replaced.largest_coordinate(), replaced.radius()),
        (4.0, Some(5.0))
    );
}

/// A program's sum is rounded once: what that adds is the lattice's to keep below what is said.
#[test]
fn rounding_a_sum_of_rows_counts() {
    let ball = |radius, dimension, adjacency| Data {
        contributed: Contributed::ByProgram,
        ..data(Clip::L2 { radius }, adjacency, Unit::Record, vec![dimension])
    };
    for (radius, dimension) in [(1.0, 1), (0.5, 1210), (1e-9, 1_000_000), (3e7, 7)] {
        let one = ball(radius, dimension, Adjacency::ReplaceOne);
        let (cell, root) = (one.coarsest_cell(), (dimension as f64).sqrt());
        assert!(one.sensitivity(1.0) >= 2.0 * radius + 2.0 * root * cell);
        assert!(
            one.sensitivity(1.0) <= 2.0 * radius * 1.005,
            "{radius}, {dimension}"
        );
        assert!(
            one.sensitivity(1.0) >= 2.0 * radius * 1.0009,
            "{radius}, {dimension}"
        );
        let zeroed = ball(radius, dimension, Adjacency::ZeroOut);
        assert!((one.sensitivity(1.0) - zeroed.sensitivity(1.0) - radius).abs() <= 1e-12 * radius);
    }
}

/// A sum of tensors is rounded as one vector: Δ is that of a row that moves all tensors at once.
#[test]
fn sums_of_tensors_are_rounded_as_one_vector() {
    let radius = [("a", 0.3), ("b", 0.4)].map(|(name, radius)| (name.to_owned(), radius));
    let tensors = |contributed| Data {
        contributed,
        ..data(
            Clip::Tensors {
                radius: radius.clone().into(),
            },
            Adjacency::ReplaceOne,
            Unit::Record,
            vec![6],
        )
    };
    let ball = Data {
        contributed: Contributed::ByProgram,
        ..data(
            Clip::L2 { radius: 0.5 },
            Adjacency::ReplaceOne,
            Unit::Record,
            vec![6],
        )
    };
    let (rows, sum) = (tensors(Contributed::AsTheyAre), tensors(Contributed::ByProgram));
    assert!((rows.sensitivity(1.0) - 1.0).abs() < 1e-12 && rows.coarsest_cell() == f64::INFINITY);
    assert_eq!(sum.coarsest_cell(), ball.coarsest_cell());
    assert!((sum.sensitivity(1.0) - ball.sensitivity(1.0)).abs() < 1e-12);
    assert!(sum.sensitivity(1.0) > 1.0009 && sum.sensitivity(1.0) < 1.005);
}

#[test]
fn the_four_formulas() {
    let ball = Clip::L2 { radius: 1.5 };
    let cube = Clip::Box {
        low: Bound::All(-1.0),
        high: Bound::All(3.0),
    };
    assert_eq!(of(ball.clone(), Adjacency::ReplaceOne, 1.0), 3.0);
    assert_eq!(of(ball.clone(), Adjacency::ZeroOut, 1.0), 1.5);
    assert_eq!(of(cube.clone(), Adjacency::ReplaceOne, 1.0), 40.0);
    assert_eq!(of(cube.clone(), Adjacency::ZeroOut, 1.0), 30.0);
    assert_eq!(of(ball.clone(), Adjacency::ReplaceOne, 2.5), 7.5);
    // One row of weight 1 changes, however much the party contributes.
    assert_eq!(
        data(ball, Adjacency::ReplaceOne, Unit::Record, vec![4]).sensitivity(1000.0),
        3.0
    );
}

#[test]
fn a_bound_for_each_coordinate() {
    let clip = Clip::Box {
        low: Bound::Each(vec![0.0, -2.0]),
        high: Bound::Each(vec![3.0, 2.0]),
    };
    let data = data(clip, Adjacency::ReplaceOne, Unit::Party, vec![2]);
    assert_eq!(data.sensitivity(1.0), 5.0);
    assert_eq!(
        Data {
            adjacency: Adjacency::ZeroOut,
            ..data.clone()
        }
        .sensitivity(1.0),
        13f64.sqrt().next_up(),
        "the nearest f64 is below √13"
    );
    assert_eq!(data.largest_coordinate(), 3.0);
    // Far apart magnitudes neither overflow nor vanish.
    let wide = Clip::Box {
        low: Bound::Each(vec![0.0, 0.0]),
        high: Bound::Each(vec![3e-90, 4e-90]),
    };
    let tiny = Data {
        clip: wide,
        ..data.clone()
    }
    .sensitivity(1.0);
    assert!((5e-90..5.000000000000003e-90).contains(&tiny), "{tiny}");
    let huge = Clip::Box {
        low: Bound::Each(vec![-1e100, 0.0]),
        high: Bound::All(1e100),
    };
    assert!(Data { clip: huge, ..data }.sensitivity(1.0).is_finite());
}

#[test]
fn columns_of_records_count_in_widths() {
    let clip = Clip::Box {
        low: Bound::Each(vec![0.0, 40.0, -1.0]),
        high: Bound::Each(vec![1.0, 500.0, 1.0]),
    };
    let records = data(clip.clone(), Adjacency::ReplaceOne, Unit::Record, vec![3]);
    assert!(records.scales().differ());
    assert_eq!([0, 1, 2].map(|j| records.scales().at(j)), [1.0, 460.0, 2.0]);
    assert!(
        (records.scales().root_mean_square() - ((1.0 + 460.0 * 460.0 + 4.0) / 3.0f64).sqrt()).abs() < 1e-9
    );
    let found = records.sensitivity(1000.0);
    assert!(
        found >= 3f64.sqrt() && found <= 3f64.sqrt().next_up(),
        "√3, never below: {found}"
    );
    let zeroed = Data {
        adjacency: Adjacency::ZeroOut,
        ..records.clone()
    }
    .sensitivity(1.0);
    let real = (1.0 + (500.0f64 / 460.0).powi(2) + 0.25).sqrt();
    assert!(
        zeroed >= real.next_down() && zeroed < real * (1.0 + 1e-15),
        "{zeroed} for {real}"
    );
    assert!(
        (records.largest_coordinate() - 500.0 / 460.0).abs() < 1e-15
            && records.largest_coordinate() * 460.0 >= 500.0
    );
    // Columns of one width, balls and whole vectors keep the data's unit.
    let equal = Clip::Box {
        low: Bound::Each(vec![0.0, 1.0, 2.0]),
        high: Bound::Each(vec![2.0, 3.0, 4.0]),
    };
    let equal = data(equal, Adjacency::ReplaceOne, Unit::Record, vec![3]);
    assert!(!equal.scales().differ() && (equal.sensitivity(1.0) - 12f64.sqrt()).abs() < 1e-15);
    assert!(
        !data(clip, Adjacency::ReplaceOne, Unit::Party, vec![3])
            .scales()
            .differ()
    );
    assert!(
        !data(
            Clip::L2 { radius: 1.0 },
            Adjacency::ReplaceOne,
            Unit::Record,
            vec![3]
        )
        .scales()
        .differ()
    );
}

#[test]
fn what_rounding_drops_counts() {
    let width = |low: f64, high: f64| {
        let clip = Clip::Box {
            low: Bound::All(low),
            high: Bound::All(high),
        };
        data(clip, Adjacency::ReplaceOne, Unit::Party, vec![1]).sensitivity(1.0)
    };
    assert_eq!(width(-1e-17, 1.0), 1f64.next_up());
    assert_eq!(width(1e-17, 1.0), 1.0);
    assert_eq!(width(-1.0, -1e-17), 1.0);
    // 2^53 + 1 is no f64.
    let large = (1u64 << 53) as f64;
    assert_eq!(width(-1.0, large), large.next_up());
    assert_eq!(width(1.0, large), large - 1.0);
    assert_eq!(width(1.0 - 2f64.powi(-53), large), large - 1.0 + 1.0);
}

proptest! {
    /// Against integers: everything is a small multiple of 2^-20, whose squares are exact in i128.
    #[test]
    fn never_below_the_real_number(
        bounds in proptest::collection::vec((-(1i64 << 30)..1 << 30, 1i64..1 << 30), 1..12),
        weight in 1i64..4096,
    ) {
        let unit = libm::exp2(-20f64);
        let low: Vec<f64> = bounds.iter().map(|&(low, _)| low as f64 * unit).collect();
        let high: Vec<f64> = bounds.iter().map(|&(low, width)| (low + width) as f64 * unit).collect();
        let clip = Clip::Box { low: Bound::Each(low), high: Bound::Each(high) };
        let data = data(clip, Adjacency::ReplaceOne, Unit::Party, vec![bounds.len()]);
        let found = data.sensitivity(weight as f64 / 16.0);
        let squares = bounds.iter().map(|&(_, width)| i128::from(width) * i128::from(width));
        let square: i128 = squares.sum::<i128>() * i128::from(weight) * i128::from(weight);
        // found in units of 2^-20 / 16, squared, against the exact square: compare without rounding
        // by splitting off 2^-28.
        let scaled = found / unit * 16.0;
        prop_assert!(at_least_root(scaled, square), "{scaled} is below the root of {square}");
        prop_assert!(scaled <= (square as f64).sqrt() * (1.0 + 1e-14));
    }

    #[test]
    fn one_bound_for_all_equals_a_list(
        low in -100.0f64..100.0,
        width in 0.001f64..100.0,
        dimension in 1usize..200,
    ) {
        let high = low + width;
        let one = Clip::Box { low: Bound::All(low), high: Bound::All(high) };
        let one = data(one, Adjacency::ReplaceOne, Unit::Party, vec![dimension]);
        let list = Clip::Box {
            low: Bound::Each(vec![low; dimension]),
            high: Bound::Each(vec![high; dimension]),
        };
        let (a, b) = (one.sensitivity(1.0), Data { clip: list, ..one }.sensitivity(1.0));
        prop_assert!((a - b).abs() <= 1e-13 * a * (dimension as f64).sqrt());
    }
}

/// Whether `x`² ≥ `square` exactly, for x with at most 53 bits below 2^60.
fn at_least_root(x: f64, square: i128) -> bool {
    let (mut mantissa, mut exponent) = (x, 0);
    while mantissa.fract() != 0.0 {
        mantissa *= 2.0;
        exponent += 1;
    }
    let mantissa = mantissa as i128;
    // mantissa² ≥ square · 4^exponent; square·4^exponent may overflow i128, so compare quotients:
    // floor(m² / 4^e) ≥ square.
    let squared = (mantissa as u128) * (mantissa as u128);
    squared >> (2 * exponent) >= square as u128
}
