//! The noise of each figure is σ times the length of the figure's gradient by the released
//! coordinates: every formula, against derivatives by differences.

use std::collections::BTreeSet;

use super::described;
use super::plain::{figures, people, sum};
use crate::describe::columns::Description;
use crate::describe::columns::Want;
use crate::describe::figures::comparison::difference;
use crate::describe::figures::counts::CountFigures;
use crate::describe::figures::covariance::CovarianceFigures;
use crate::describe::figures::estimate::Estimate;
use crate::describe::figures::groups::{AllFigures, ColumnFigures};
use crate::describe::figures::mean::MeanFigures;
use crate::describe::figures::quantiles::rank_variance;
use crate::describe::figures::survival::SurvivalFigures;
use crate::describe::layout::BlockKind;
use crate::describe::released::{Cumulative, ReleasedSum};

const PEOPLE: usize = 6000;
/// Small beside the counts: no figure is clamped, pooled or too few to tell, but the formulas are
/// the same at every σ.
const NOISE: f64 = 3.0;
/// The step of differences, in coordinates. Counts are hundreds: the sixth power of the step over
/// them is 1e-14, and rounding of the figures is as much.
const STEP: f64 = 1.0;
/// The central difference of the sixth order: (offset, weight).
const STENCIL: [(f64, f64); 6] = [
    (-3.0, -1.0 / 60.0),
    (-2.0, 9.0 / 60.0),
    (-1.0, -45.0 / 60.0),
    (1.0, 45.0 / 60.0),
    (2.0, -9.0 / 60.0),
    (3.0, 1.0 / 60.0),
];

/// A figure: its name, its value as computed, and its noise.
type Named = (String, f64, f64);

/// All numbers that a released sum gives, each with the noise that is said of it.
#[derive(Default)]
struct All(Vec<Named>);

impl All {
    fn add(&mut self, name: &str, value: f64, noise: f64) {
        self.0.push((name.to_owned(), value, noise));
    }

    fn estimate(&mut self, name: &str, of: &Estimate) {
        self.add(name, of.raw.unwrap_or(of.value), of.noise);
    }

    fn mean(&mut self, of: &MeanFigures) {
        self.estimate("missing", &of.missing);
        self.estimate("sum", &of.sum);
        // Nothing more is said of a group that nobody is in.
        if let (Some(mean), Some(sd)) = (&of.mean, &of.sd) {
            self.estimate("mean", mean);
            self.add("variance", sd.variance, sd.variance_noise);
            self.add("sd", sd.value, sd.noise.expect("above 0"));
        }
    }

    fn counts(&mut self, of: &CountFigures) {
        for cell in &of.cells {
            self.estimate("count", &cell.count);
            cell.share.iter().for_each(|share| self.estimate("share", share));
        }
    }

    fn survival(&mut self, of: &SurvivalFigures) {
        self.estimate("survival missing", &of.missing);
        for point in &of.curve {
            self.add("S(t)", point.survival, point.noise);
        }
    }

    fn covariances(&mut self, of: &CovarianceFigures) {
        assert!(!of.projected);
        self.estimate("complete", &of.complete);
        let noise = |of: &Option<Vec<Vec<f64>>>, i: usize, j: usize| of.as_ref().expect("enough")[i][j];
        let shown = |of: &Option<Vec<Vec<Option<f64>>>>, i: usize, j: usize| {
            of.as_ref().expect("enough")[i][j].expect("shown")
        };
        for (i, j) in (0..of.columns.len()).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            self.add("covariance", noise(&of.covariance, i, j), noise(&of.noise, i, j));
            let correlation = shown(&of.correlation, i, j);
            self.add("correlation", correlation, shown(&of.correlation_noise, i, j));
        }
    }

    /// Everything that has noise, in a fixed order.
    fn of(found: &AllFigures) -> Vec<Named> {
        let mut all = All::default();
        for group in &found.groups {
            all.estimate("rows", &group.rows);
            for statistic in &group.statistics {
                match &statistic.of {
                    ColumnFigures::Mean(of) => all.mean(of),
                    ColumnFigures::Counts(of) => all.counts(of),
                    ColumnFigures::Plain(of) => {
                        of.cells.iter().for_each(|cell| all.estimate("magnitude", cell))
                    }
                    ColumnFigures::Quantiles(of) => all.estimate("quantiles missing", &of.missing),
                    ColumnFigures::Survival(of) => all.survival(of),
                }
            }
        }
        let means = found
            .groups
            .iter()
            .filter_map(|group| match &group.statistics[0].of {
                ColumnFigures::Mean(of) => of.mean.as_ref(),
                _ => None,
            });
        if let [one, other, ..] = means.collect::<Vec<_>>()[..] {
            let apart = difference(one, other);
            all.add("difference", apart.value, apart.noise);
        }
        let cells = found.tables.iter().flat_map(|table| &table.cells);
        cells.for_each(|cell| all.estimate("table", cell));
        found.covariances.iter().for_each(|of| all.covariances(of));
        all.0
    }
}

const COLUMNS: &str = "[[column]]\nname = \"age\"\nlow = 0\nhigh = 100\nbins = 5\n\
                       want = [\"mean\", \"quantiles\"]\n\
                       [[column]]\nname = \"months\"\nlow = 0\nhigh = 10\nbins = 5\nwant = [\"survival\"]\n\
                       event = \"died\"\n\
                       [[column]]\nname = \"weight\"\nlow = 30\nhigh = 130\n\
                       want = [\"histogram\", \"magnitude\"]\nbins = 4\n";
const SEX: &str = "[[column]]\nname = \"sex\"\ncategories = [\"f\", \"m\"]\n";
const ARM: &str = "[[column]]\nname = \"arm\"\ncategories = [\"a\", \"b\"]\n";
const TOGETHER: &str = "[[table]]\ncolumns = [\"sex\", \"arm\"]\n\
                        [[covariance]]\ncolumns = [\"age\", \"weight\"]\nshare = 2.5\n";

/// Every block, with groups or without, of rows whose number is public or private.
fn layouts() -> [(&'static str, Description); 4] {
    let private = "count = \"private\"\n";
    let by_arm = format!("group_by = \"arm\"\n{COLUMNS}{SEX}{ARM}{TOGETHER}");
    let plain = format!("{COLUMNS}{SEX}{ARM}{TOGETHER}");
    [
        ("public", described(&plain)),
        ("private", described(&format!("{private}{plain}"))),
        ("groups", described(&by_arm)),
        ("private groups", described(&format!("{private}{by_arm}"))),
    ]
}

/// σ times the length of the gradient of each number, by central differences of the sixth order.
fn lengths(sums: &[f64], numbers: impl Fn(Vec<f64>) -> Vec<f64>) -> Vec<f64> {
    let mut squares = vec![0.0; numbers(sums.to_vec()).len()];
    for at in 0..sums.len() {
        let mut slope = vec![0.0; squares.len()];
        for (offset, weight) in STENCIL {
            let mut moved = sums.to_vec();
            moved[at] += offset * STEP;
            let values = numbers(moved).into_iter();
            slope
                .iter_mut()
                .zip(values)
                .for_each(|(slope, value)| *slope += weight * value / STEP);
        }
        squares
            .iter_mut()
            .zip(slope)
            .for_each(|(square, slope)| *square += slope * slope);
    }
    squares.into_iter().map(|square| NOISE * square.sqrt()).collect()
}

fn check(name: &str, said: f64, length: f64) {
    let apart = (said - length).abs();
    assert!(
        apart <= 1e-9 * length.max(1e-3),
        "{name}: {said}, but σ × the gradient is {length}"
    );
}

#[test]
fn noise_of_every_figure_is_the_length_of_its_gradient() {
    let people = people(PEOPLE);
    let mut kinds = BTreeSet::new();
    for (layout, described) in layouts() {
        let exact = sum(&described, &people);
        let named = |sums| All::of(&figures(&described, sums, NOISE, PEOPLE));
        let said = named(exact.clone());
        let lengths = lengths(&exact, |sums| {
            named(sums).into_iter().map(|(_, value, _)| value).collect()
        });
        assert_eq!(said.len(), lengths.len());
        for ((kind, _, said), length) in said.into_iter().zip(lengths) {
            check(&format!("{layout}, {kind}"), said, length);
            kinds.insert(kind);
        }
    }
    assert_eq!(kinds.len(), 17, "{kinds:?}");
}

/// Ranks, by which intervals of quantiles are found: rows below an edge, less a share of all that
/// have a number.
#[test]
fn noise_of_every_rank_is_the_length_of_its_gradient() {
    const SHARES: [f64; 3] = [0.1, 0.5, 0.9];
    let people = people(PEOPLE);
    for (layout, described) in layouts() {
        let exact = sum(&described, &people);
        let cumulative = |sums| {
            let released =
                ReleasedSum::of(described.clone(), sums, NOISE, Some(PEOPLE as f64)).expect("as long");
            let is_quantiles = |kind: &BlockKind| *kind == BlockKind::Of(Want::Quantiles);
            let blocks = &released.layout.blocks;
            let block = blocks
                .iter()
                .find(|block| is_quantiles(&block.kind))
                .expect("wanted");
            let (y, std) = released.part(block, 0);
            Cumulative::of(&y, std, released.rows_of(0))
        };
        let said = cumulative(exact.clone());
        let last = said.counts.len() - 2;
        let ranks: Vec<(usize, f64)> = SHARES
            .iter()
            .flat_map(|q| (0..=last).map(move |edge| (edge, *q)))
            .collect();
        let lengths = lengths(&exact, |sums| {
            let counts = cumulative(sums).counts;
            ranks
                .iter()
                .map(|(edge, q)| counts[*edge] - q * counts[last])
                .collect()
        });
        for ((edge, q), length) in ranks.iter().zip(lengths) {
            let variance = rank_variance(
                *q,
                (said.covariance(*edge, *edge), said.covariance(*edge, last)),
                said.covariance(last, last),
            );
            check(&format!("{layout}, {q} at {edge}"), variance.sqrt(), length);
        }
    }
}
