//! Figures without noise are plain statistics, and those with noise are as far off as they say.

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::{described, rng};
use crate::describe::cells::RowCell;
use crate::describe::columns::Description;
use crate::describe::figures::counts::CountFigures;
use crate::describe::figures::estimate::ReadingAs;
use crate::describe::figures::groups::AllFigures;
use crate::describe::figures::mean::MeanFigures;
use crate::describe::figures::quantiles::QuantileFigures;
use crate::describe::figures::survival::SurvivalFigures;
use crate::describe::layout::RowLayout;
use crate::describe::released::ReleasedSum;
use crate::describe::row::RowEncoder;

pub(super) const TABLE: &str = "[[column]]\nname = \"age\"\nlow = 0\nhigh = 100\nwhole = true\n\
                     want = [\"mean\", \"quantiles\"]\n\
                     [[column]]\nname = \"sex\"\ncategories = [\"f\", \"m\"]\n\
                     [[column]]\nname = \"months\"\nlow = 0\nhigh = 10\nbins = 10\nwant = [\"survival\"]\n\
                     event = \"died\"\n\
                     [[column]]\nname = \"weight\"\nlow = 30\nhigh = 130\nwant = [\"histogram\"]\nbins = 4\n\
                     [[column]]\nname = \"arm\"\ncategories = [\"a\", \"b\"]\n\
                     [[table]]\ncolumns = [\"sex\", \"arm\"]\n\
                     [[covariance]]\ncolumns = [\"age\", \"weight\"]\n";

/// A made-up person.
#[derive(Clone, Copy)]
pub(super) struct Person {
    age: Option<f64>,
    sex: &'static str,
    months: f64,
    died: f64,
    weight: f64,
    arm: &'static str,
}

pub(super) fn people(count: usize) -> Vec<Person> {
    let mut rng = rng(21);
    let person = |_| {
        let age: f64 = rng.random_range(20.0f64..90.0).floor();
        Person {
            age: (rng.random_range(0..10) > 0).then_some(age),
            sex: ["f", "m", "x", ""][rng.random_range(0..20usize).min(3) % 4],
            months: f64::from(rng.random_range(0..10)) + 0.5,
            died: f64::from(rng.random_range(0..2)),
            weight: 40.0 + age / 2.0 + rng.random_range(0.0..40.0),
            arm: ["a", "b"][rng.random_range(0..2)],
        }
    };
    (0..count).map(person).collect()
}

/// Cells in the order of [`Description::names`].
fn row<'a>(described: &Description, person: &'a Person) -> Vec<RowCell<'a>> {
    let cell = |name: &&str| match *name {
        "age" => person.age.map_or(RowCell::Text("NA"), RowCell::Number),
        "sex" => RowCell::Text(person.sex),
        "months" => RowCell::Number(person.months),
        "died" => RowCell::Number(person.died),
        "weight" => RowCell::Number(person.weight),
        _ => RowCell::Text(person.arm),
    };
    described.names().iter().map(cell).collect()
}

pub(super) fn sum(described: &Description, people: &[Person]) -> Vec<f64> {
    let mut encoder = RowEncoder::of(described);
    let mut sums = vec![0.0; encoder.layout().coordinates];
    for person in people {
        let vector = encoder.vector(&row(described, person));
        sums.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
    }
    sums
}

pub(super) fn figures(described: &Description, sums: Vec<f64>, noise: f64, rows: usize) -> AllFigures {
    let released = ReleasedSum::of(described.clone(), sums, noise, Some(rows as f64)).expect("as long");
    released.figures(&ReadingAs::default())
}

fn near(found: f64, expected: f64) {
    let close = (found - expected).abs() <= 1e-9 * expected.abs().max(1.0);
    assert!(close, "{found}, not {expected}");
}

#[test]
fn figures_without_noise_are_those_of_the_rows() {
    let (described, people) = (described(TABLE), people(600));
    let found = figures(&described, sum(&described, &people), 0.0, people.len());
    let ages: Vec<f64> = people.iter().filter_map(|person| person.age).collect();
    let count = ages.len() as f64;
    let mean = ages.iter().sum::<f64>() / count;
    let variance = ages.iter().map(|age| (age - mean).powi(2)).sum::<f64>() / count;
    let of_age: &MeanFigures = of!(found, 0, Mean);
    near(of_age.missing.value, 600.0 - count);
    near(of_age.mean.as_ref().expect("enough").value, mean);
    near(of_age.sum.value, ages.iter().sum());
    let sd = of_age.sd.as_ref().expect("enough");
    near(sd.value, variance.sqrt());
    near(sd.low, sd.high);
    let quantiles: &QuantileFigures = of!(found, 1, Quantiles);
    let mut sorted = ages.clone();
    sorted.sort_by(f64::total_cmp);
    for quantile in quantiles.quantiles.as_ref().expect("enough") {
        let rank = (quantile.q * count).ceil() as usize;
        near(quantile.value, sorted[rank.saturating_sub(1)]);
        assert!(quantile.noise[0] <= quantile.value && quantile.value <= quantile.noise[1]);
    }
    let counts: &CountFigures = of!(found, 2, Counts);
    let with = |sex: &str| people.iter().filter(|person| person.sex == sex).count() as f64;
    for (cell, sex) in counts.cells.iter().zip(["f", "m", "x", ""]) {
        near(cell.count.value, with(sex));
    }
    // Shares are of those that are not missing.
    near(
        counts.cells[0].share.as_ref().expect("enough").value,
        with("f") / (600.0 - with("")),
    );
    assert!(counts.cells[2].share.is_some() && counts.cells[3].share.is_none());
    let histogram: &CountFigures = of!(found, 4, Counts);
    let heavy = people
        .iter()
        .filter(|person| (55.0..80.0).contains(&person.weight))
        .count();
    near(histogram.cells[1].count.value, heavy as f64);
    check_survival(of!(found, 3, Survival), &people);
    check_tables(&found, &people);
}

/// A life table, step by step.
fn check_survival(found: &SurvivalFigures, people: &[Person]) {
    let (mut left, mut survival) = (people.len() as f64, 1.0);
    for (t, point) in found.curve.iter().enumerate() {
        let here = |died: f64| {
            let exits = people.iter().filter(|person| person.months.floor() == t as f64);
            exits.filter(|person| person.died == died).count() as f64
        };
        let at_risk = left - here(0.0) / 2.0;
        near(point.at_risk, at_risk);
        survival *= 1.0 - here(1.0) / at_risk;
        near(point.survival, survival);
        near(point.to, t as f64 + 1.0);
        left -= here(0.0) + here(1.0);
    }
    assert!(found.curve.len() >= 9, "{found:?}");
}

fn check_tables(found: &AllFigures, people: &[Person]) {
    let table = &found.tables[0];
    let with = |sex: &str, arm: &str| {
        let people = people
            .iter()
            .filter(|person| person.sex == sex && person.arm == arm);
        people.count() as f64
    };
    near(table.cells[0].value, with("f", "a"));
    near(table.cells[5].value, with("m", "b"));
    let pairs: Vec<(f64, f64)> = people.iter().filter_map(|p| Some((p.age?, p.weight))).collect();
    let count = pairs.len() as f64;
    let means = (
        pairs.iter().map(|pair| pair.0).sum::<f64>() / count,
        pairs.iter().map(|pair| pair.1).sum::<f64>() / count,
    );
    let covariance = pairs
        .iter()
        .map(|(a, b)| (a - means.0) * (b - means.1))
        .sum::<f64>()
        / count;
    let of = &found.covariances[0];
    near(of.complete.value, count);
    near(of.covariance.as_ref().expect("enough")[0][1], covariance);
    assert!(!of.projected);
    // Without noise Pearson's own χ², but for what is not declared.
    let independence = table.independence.as_ref().expect("two columns");
    let cells = [["f", "a"], ["f", "b"], ["m", "a"], ["m", "b"]].map(|[sex, arm]| with(sex, arm));
    let total: f64 = cells.iter().sum();
    let chi_square: f64 = (0..4)
        .map(|at| {
            let row = cells[at / 2 * 2] + cells[at / 2 * 2 + 1];
            let expected = row * (cells[at % 2] + cells[at % 2 + 2]) / total;
            (cells[at] - expected).powi(2) / expected
        })
        .sum();
    near(independence.chi_square, chi_square);
}

/// People whose columns stand in another order are the same sum.
#[test]
fn a_sum_does_not_depend_on_the_order_of_a_files_columns() {
    // Cells are looked up by name: what changes with a file is where they stand in it.
    let described = described(TABLE);
    let people = people(50);
    let names = described.names();
    let mut reversed: Vec<&str> = names.clone();
    reversed.reverse();
    let mut encoder = RowEncoder::of(&described);
    for person in &people {
        let cells = row(&described, person);
        let file: Vec<RowCell<'_>> = cells.iter().rev().copied().collect();
        let found: Vec<RowCell<'_>> = names
            .iter()
            .map(|name| file[reversed.iter().position(|known| known == name).expect("there")])
            .collect();
        assert_eq!(encoder.vector(&cells), encoder.vector(&found));
    }
}

/// Told the total, a rank has less noise; a formula without it would be found by its spread.
#[test]
fn ranks_know_of_the_total() {
    let described =
        described("[[column]]\nname = \"age\"\nlow = 0\nhigh = 100\nbins = 16\nwant = [\"quantiles\"]\n");
    let people = people(1000);
    let layout = RowLayout::of(&described);
    let exact = sum(&described, &people);
    let mut rng = rng(8);
    let (noise, mut squares) = (12.0, 0.0);
    for _ in 0..600 {
        let noisy: Vec<f64> = exact
            .iter()
            .map(|sum| {
                let normal: f64 = StandardNormal.sample(&mut rng);
                sum + noise * normal
            })
            .collect();
        let released = ReleasedSum::of(described.clone(), noisy, noise, Some(1000.0)).expect("as long");
        let (y, std) = released.part(&layout.blocks[0], 0);
        let rows = released.rows_of(0);
        let cumulative = crate::describe::released::Cumulative::of(&y, std, rows);
        let below = people
            .iter()
            .filter(|person| person.age.is_some_and(|age| age < 75.0))
            .count();
        let error = cumulative.counts[11] - below as f64;
        squares += error * error / cumulative.covariance(11, 11);
    }
    let spread = (squares / 600.0).sqrt();
    assert!((spread - 1.0).abs() < 0.07, "{spread}");
}

/// Beside many empty cells each is shown by itself; the nearest point of the simplex would leave
/// many intervals.
#[test]
fn a_cell_beside_many_empty_ones_is_within_its_interval() {
    let categories: Vec<String> = (0..998).map(|at| format!("\"c{at}\"")).collect();
    let text = format!(
        "[[column]]\nname = \"sex\"\ncategories = [{}]\n",
        categories.join(", ")
    );
    let described = described(&text);
    let layout = RowLayout::of(&described);
    let s = layout.blocks[0].scale;
    let mut rng = rng(9);
    let (noise, mut held) = (8.0, 0);
    for _ in 0..300 {
        let sums = (0..layout.coordinates).map(|at| {
            let normal: f64 = StandardNormal.sample(&mut rng);
            let truth = if at == 0 { 1000.0 } else { 0.0 };
            s * truth + noise * normal
        });
        let found = figures(&described, sums.collect(), noise, 1000);
        let cells: &CountFigures = of!(found, 0, Counts);
        let cell = &cells.cells[0].count;
        held += u32::from((cell.value - 1000.0).abs() <= 1.96 * cell.noise);
        assert!(cells.cells.iter().all(|cell| cell.count.value >= 0.0));
        let raw: f64 = cells.cells.iter().filter_map(|cell| cell.count.raw).sum();
        near(raw, 1000.0);
    }
    assert!((270..=300).contains(&held), "{held} of 300");
}

/// The last bin is closed at the top; what is beyond falls into it, as below into the first.
#[test]
fn bins_are_closed_at_the_top_and_hold_what_is_outside() {
    use crate::describe::row::{bin_of, magnitude_of};
    let edges = [0.0, 1.0, 2.5, 10.0];
    for (number, bin) in [
        (-5.0, 0),
        (0.0, 0),
        (0.99, 0),
        (1.0, 1),
        (2.5, 2),
        (10.0, 2),
        (11.0, 2),
    ] {
        assert_eq!(bin_of(&edges, number), bin, "{number}");
    }
    for (number, place) in [
        (0.0, 41),
        (-0.0, 41),
        (1.0, 62),
        (1.99, 62),
        (2.0, 63),
        (-1.0, 20),
        (1e-30, 42),
        (1e30, 82),
        (-1e30, 0),
        (-1e-30, 40),
    ] {
        assert_eq!(magnitude_of(number), place, "{number}");
    }
}
