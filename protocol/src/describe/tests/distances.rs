//! Δ by brute force: every pair of rows, on the lattice and off it.

use rand::RngExt;

use super::{Held, descriptions, draw_row, rng};
use crate::describe::cells::RowCell;
use crate::describe::columns::{Description, RowCount};
use crate::describe::layout::RowLayout;
use crate::describe::row::RowEncoder;
use crate::describe::tally::RowTally;

fn cells(row: &[Held]) -> Vec<RowCell<'_>> {
    row.iter().map(Held::cell).collect()
}

/// 900 random rows, and for two columns of numbers every corner.
fn vectors(described: &Description, cell: Option<f64>) -> Vec<Vec<f64>> {
    let mut encoder = RowEncoder::of(described);
    let mut rng = rng(11);
    let mut rows: Vec<Vec<Held>> = (0..900).map(|_| draw_row(described, &mut rng)).collect();
    // Rows that differ in one cell alone are the nearest to what a person's change is.
    for at in 0..200 {
        let mut row = rows[at].clone();
        let other = draw_row(described, &mut rng);
        let column = rng.random_range(0..row.len());
        row[column] = other[column].clone();
        rows.push(row);
    }
    let rounded = |value: f64, cell: f64| (value / cell).trunc() * cell;
    let vector = |row: &Vec<Held>| -> Vec<f64> {
        let vector = encoder.vector(&cells(row));
        match cell {
            Some(cell) => vector.into_iter().map(|value| rounded(value, cell)).collect(),
            None => vector,
        }
    };
    let mut vectors: Vec<Vec<f64>> = rows.iter().map(vector).collect();
    if described.count == RowCount::Private {
        vectors.push(vec![0.0; encoder.layout().coordinates]);
    }
    vectors.sort_by(|a, b| a.partial_cmp(b).expect("finite"));
    vectors.dedup();
    vectors
}

fn squared(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum()
}

/// The furthest that two rows are apart, and the longest row.
fn extremes(vectors: &[Vec<f64>]) -> (f64, f64) {
    let mut furthest = 0.0f64;
    for (at, a) in vectors.iter().enumerate() {
        for b in &vectors[at + 1..] {
            furthest = furthest.max(squared(a.iter().zip(b).map(|(a, b)| a - b)));
        }
    }
    let longest = vectors
        .iter()
        .map(|a| squared(a.iter().copied()))
        .fold(0.0, f64::max);
    (furthest.sqrt(), longest.sqrt())
}

#[test]
fn no_two_rows_are_further_apart_than_delta_and_some_nearly_are() {
    for (name, described) in descriptions() {
        let layout = RowLayout::of(&described);
        let (furthest, longest) = extremes(&vectors(&described, None));
        let fits = |found: f64, bound: f64| found <= bound * (1.0 + 1e-12);
        assert!(
            fits(furthest, layout.replace_one),
            "{name}: {furthest} > {}",
            layout.replace_one
        );
        assert!(
            fits(longest, layout.zero_out),
            "{name}: {longest} > {}",
            layout.zero_out
        );
        assert!(
            furthest > 0.99 * layout.replace_one,
            "{name}: {furthest} of {}",
            layout.replace_one
        );
        assert!(
            longest > 0.99 * layout.zero_out,
            "{name}: {longest} of {}",
            layout.zero_out
        );
    }
}

/// On the coarsest lattice that a plan may have, and on finer ones.
#[test]
fn rounded_rows_are_within_the_sensitivities_that_a_plan_has() {
    for (name, described) in descriptions() {
        let layout = RowLayout::of(&described);
        let coarsest = libm::exp2(libm::log2(layout.coarsest_cell()).floor());
        for cell in [coarsest, coarsest / 1024.0] {
            let (furthest, longest) = extremes(&vectors(&described, Some(cell)));
            assert!(
                furthest <= layout.sensitivity_replace_one(),
                "{name}, cell {cell}: {furthest}"
            );
            assert!(
                longest <= layout.sensitivity_zero_out(),
                "{name}, cell {cell}: {longest}"
            );
            assert!(
                longest > 0.0 && furthest > 0.98 * layout.replace_one,
                "{name}, cell {cell}"
            );
        }
        // What rounding can add at worst, whatever rows there are.
        let worst = 2.0 * coarsest * (layout.coordinates as f64).sqrt();
        assert!(
            layout.replace_one + worst <= layout.sensitivity_replace_one(),
            "{name}"
        );
    }
}

/// Mean blocks by a fine net of u and w: a smaller a², or missing at the origin, would be found.
#[test]
fn a_means_block_is_as_wide_as_its_bounds_are_apart_and_no_wider() {
    let block = |a_squared: f64, c: f64, r: f64| -> f64 {
        let point = |at: Option<f64>| match at {
            None => [r, 0.0, 0.0],
            Some(u) => [0.0, u, a_squared.sqrt() * (u * u - c)],
        };
        let grid = (0..=2000)
            .map(|k| Some(f64::from(k) / 1000.0 - 1.0))
            .chain([None]);
        let points: Vec<[f64; 3]> = grid.map(point).collect();
        let mut most = 0.0f64;
        for (at, a) in points.iter().enumerate() {
            for b in &points[at + 1..] {
                most = most.max(squared(a.iter().zip(b).map(|(a, b)| a - b)));
            }
        }
        most
    };
    use crate::describe::layout::{MEAN_A_SQUARED, MEAN_CENTRE, mean_norm_squared};
    let r = mean_norm_squared().sqrt();
    let most = block(MEAN_A_SQUARED, MEAN_CENTRE, r);
    assert!((most - 4.0).abs() < 1e-9, "{most}");
    assert!(block(3.0, MEAN_CENTRE, r) > 4.0 + 1e-3, "a² = 3 is too much");
    let exact = [
        (11.0 + 5.0 * 5f64.sqrt()) / 8.0,
        (1.0 + MEAN_A_SQUARED) / (2.0 * MEAN_A_SQUARED),
    ];
    assert!((exact[0] - MEAN_A_SQUARED).abs() < 1e-14 && (exact[1] - MEAN_CENTRE).abs() < 1e-14);
}

/// κ is of the grouped blocks: another number of ungrouped ones changes nothing.
#[test]
fn ungrouped_blocks_do_not_change_the_weight_of_groups() {
    let named = |wanted: &str| {
        let found = descriptions().into_iter().find(|(name, _)| *name == wanted);
        RowLayout::of(&found.expect("there").1)
    };
    let (one, with_table) = (named("private by arm"), named("private table by arm"));
    assert_eq!(one.kappa_squared, with_table.kappa_squared);
    assert!(
        (one.kappa_squared - 0.716_694_434_766).abs() < 1e-9,
        "{}",
        one.kappa_squared
    );
}

#[test]
fn a_rows_coordinates_are_in_its_own_slot_alone() {
    for (name, described) in descriptions() {
        let mut encoder = RowEncoder::of(&described);
        let layout = encoder.layout().clone();
        if described.group_by.is_none() {
            continue;
        }
        let mut rng = rng(5);
        for _ in 0..100 {
            let row = draw_row(&described, &mut rng);
            let vector = encoder.vector(&cells(&row));
            let slots = vector[..layout.slots * layout.slot_length].chunks(layout.slot_length);
            let filled = slots
                .filter(|slot| slot.iter().any(|value| *value != 0.0))
                .count();
            assert_eq!(filled, 1, "{name}");
        }
    }
}

/// The tally's shortcut is the sum of rows that are rounded one by one.
#[test]
fn a_tally_is_the_sum_of_rounded_rows_to_the_bit() {
    for (name, described) in descriptions() {
        let cell = libm::exp2(-20.0);
        let mut rng = rng(7);
        let mut encoder = RowEncoder::of(&described);
        let mut tally = RowTally::new(encoder.clone(), cell);
        let mut sums = vec![0i128; encoder.layout().coordinates];
        for _ in 0..200 {
            let row = draw_row(&described, &mut rng);
            tally.add(&cells(&row));
            let vector = encoder.vector(&cells(&row));
            sums.iter_mut()
                .zip(vector)
                .for_each(|(sum, value)| *sum += (value / cell) as i128);
        }
        assert_eq!(tally.rows(), 200);
        assert!(tally.counts() == encoder.counts(), "{name}");
        assert_eq!(tally.finish(), sums, "{name}");
    }
}
