//! Intervals hold where tables are odd: heavy ties, a constant column, a group of five rows.

use rand_distr::{Distribution, StandardNormal};

use super::coverage::Held;
use super::plain::figures;
use super::{described, rng};
use crate::describe::cells::RowCell;
use crate::describe::figures::estimate::Estimate;
use crate::describe::figures::groups::{ColumnFigures, GroupFigures};
use crate::describe::figures::mean::MeanFigures;
use crate::describe::figures::quantiles::QuantileFigures;
use crate::describe::layout::RowLayout;
use crate::describe::row::RowEncoder;

const ODD: &str = "group_by = \"arm\"\n[[column]]\nname = \"arm\"\ncategories = [\"large\", \"five\"]\n\
                   [[column]]\nname = \"tied\"\nlow = 0\nhigh = 100\nbins = 40\nwant = [\"mean\", \"quantiles\"]\n\
                   [[column]]\nname = \"constant\"\nlow = 0\nhigh = 100\nwhole = true\nwant = [\"mean\", \"quantiles\"]\n";

/// Sums of 4,000 rows, five of which are of the second group.
fn sums() -> Vec<f64> {
    let described = described(ODD);
    let mut encoder = RowEncoder::of(&described);
    let mut sums = vec![0.0; encoder.layout().coordinates];
    for row in 0..4000u32 {
        let cell = |name: &&str| match *name {
            "arm" => RowCell::Text(if row < 5 { "five" } else { "large" }),
            "tied" => RowCell::Number(f64::from(row * 7 % 5) * 20.0),
            _ => RowCell::Number(40.0),
        };
        let cells: Vec<RowCell<'_>> = described.names().iter().map(cell).collect();
        let vector = encoder.vector(&cells);
        sums.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
    }
    sums
}

fn means(group: &GroupFigures, at: usize) -> &MeanFigures {
    match &group.statistics[at].of {
        ColumnFigures::Mean(figures) => figures,
        other => panic!("{other:?}"),
    }
}

fn quantiles(group: &GroupFigures, at: usize) -> &QuantileFigures {
    match &group.statistics[at].of {
        ColumnFigures::Quantiles(figures) => figures,
        other => panic!("{other:?}"),
    }
}

/// How often the intervals of a column's kinds of figures held.
#[derive(Default)]
struct OfColumn {
    mean: Held,
    sd: Held,
    quantiles: Held,
    missing: Held,
    sum: Held,
}

fn add(held: &mut Held, found: &Estimate, truth: &Estimate) {
    held.add_noisy(found.raw.unwrap_or(found.value), found.noise, truth.value);
}

impl OfColumn {
    fn add(&mut self, (found, truth): (&GroupFigures, &GroupFigures), at: usize) {
        let (one, known) = (means(found, at), means(truth, at));
        add(&mut self.missing, &one.missing, &known.missing);
        add(&mut self.sum, &one.sum, &known.sum);
        if let (Some(one), Some(known)) = (&one.mean, &known.mean) {
            add(&mut self.mean, one, known);
        }
        if let (Some(one), Some(known)) = (&one.sd, &known.sd) {
            self.sd
                .add_noisy(one.variance, one.variance_noise, known.variance);
        }
        let (one, known) = (quantiles(found, at + 1), quantiles(truth, at + 1));
        let pairs = one
            .quantiles
            .iter()
            .flatten()
            .zip(known.quantiles.iter().flatten());
        pairs.for_each(|(one, known)| self.quantiles.add(one.noise, known.value));
    }
}

#[test]
fn intervals_of_ties_of_a_constant_column_and_of_a_group_of_five_rows_hold() {
    const RUNS: u32 = 400;
    let (described, exact) = (described(ODD), sums());
    let noise = 5.25 * RowLayout::of(&described).replace_one;
    let truth = figures(&described, exact.clone(), 0.0, 4000);
    let mut rng = rng(34);
    let (mut large, mut five) = (
        [(); 2].map(|()| OfColumn::default()),
        [(); 2].map(|()| OfColumn::default()),
    );
    let mut sizes = [(); 2].map(|()| Held::default());
    for _ in 0..RUNS {
        let noisy = exact.iter().map(|sum| {
            let normal: f64 = StandardNormal.sample(&mut rng);
            sum + noise * normal
        });
        let found = figures(&described, noisy.collect(), noise, 4000);
        for (group, columns) in [&mut large, &mut five].into_iter().enumerate() {
            let pair = (&found.groups[group], &truth.groups[group]);
            add(&mut sizes[group], &pair.0.rows, &pair.1.rows);
            for (at, column) in columns.iter_mut().enumerate() {
                column.add(pair, 2 * at);
            }
        }
    }
    let linear = 0.925..=0.975;
    for (name, column) in ["tied", "constant"].iter().zip(&large) {
        let [mean, sd, quantiles] = [&column.mean, &column.sd, &column.quantiles].map(Held::share);
        println!("{name}: mean {mean:.3}, sd {sd:.3}, quantiles {quantiles:.3}");
        assert!(
            (0.92..=0.99).contains(&mean) && (0.92..=0.99).contains(&sd),
            "{name}: {mean} {sd}"
        );
        assert!(quantiles >= 0.98, "{name}: {quantiles}");
        assert_eq!(column.mean.count(), RUNS);
    }
    for size in &sizes {
        assert!(linear.contains(&size.share()), "{}", size.share());
    }
    for column in &five {
        let [missing, sum] = [&column.missing, &column.sum].map(Held::share);
        println!(
            "five rows: missing {missing:.3}, sum {sum:.3}, {} means shown",
            column.mean.count()
        );
        assert!(
            linear.contains(&missing) && linear.contains(&sum),
            "{missing} {sum}"
        );
        // Noise alone takes a group of five above five times its error almost never.
        assert!(column.mean.count() <= 1 && column.quantiles.count() <= 3);
    }
}

/// A time whose event is not known is missing, and so is one before the first edge; beyond the last
/// one nobody has watched.
#[test]
fn times_without_a_known_event_are_missing_and_late_ones_are_censored() {
    let described = described(
        "[[column]]\nname = \"time\"\nlow = 1\nhigh = 12\nwant = [\"survival\"]\nbins = 6\nevent = \"died\"\n",
    );
    let mut encoder = RowEncoder::of(&described);
    let mut vector = |time: f64, event| encoder.vector(&[RowCell::Number(time), event]);
    let missing = vector(f64::NAN, RowCell::Number(1.0));
    for event in ["2", "0.5", "yes", "NA", "", "1e400"] {
        assert_eq!(vector(7.0, RowCell::Text(event)), missing, "{event:?}");
    }
    assert_eq!(vector(7.0, RowCell::Number(-1.0)), missing);
    assert_eq!(vector(0.5, RowCell::Number(1.0)), missing);
    let (died, left) = (vector(7.0, RowCell::Text("1")), vector(7.0, RowCell::Text("0")));
    assert!(died != missing && left != missing && died != left);
    assert_eq!(vector(7.0, RowCell::Text("True")), died);
    assert_eq!(vector(7.0, RowCell::Text("0.0")), left);
    let last = vector(11.9, RowCell::Number(0.0));
    assert_eq!(vector(400.0, RowCell::Number(1.0)), last);
    assert_eq!(vector(400.0, RowCell::Number(0.0)), last);
}
