//! Figures as lines that a reader compares: one for each number of a statistic, the same in every
//! group.

use undertone_protocol::describe::columns::{DescribedColumn, Description, Want};
use undertone_protocol::describe::figures::counts::{CellFigures, CountFigures, PlainCells};
use undertone_protocol::describe::figures::estimate::{Estimate, ReadingAs};
use undertone_protocol::describe::figures::groups::{ColumnFigures, GroupFigures, StatisticFigures};
use undertone_protocol::describe::figures::mean::MeanFigures;
use undertone_protocol::describe::figures::quantiles::QuantileFigures;
use undertone_protocol::describe::figures::survival::SurvivalFigures;
use undertone_protocol::describe::layout::LARGEST_POWER;

use super::decimals::text_of;

/// A number of a group, with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureLine {
    /// The column; empty of the number of rows.
    pub column: String,
    /// The statistic that was asked for and that the number belongs to; `None` of the number of
    /// rows.
    pub want: Option<Want>,
    /// The statistic, such as "mean", or a category.
    pub statistic: String,
    /// The unit that the number is shown in.
    pub unit: FigureUnit,
    /// The figure; `None` where it is not shown.
    pub figure: Option<ShownFigure>,
}

impl FigureLine {
    /// The statistic by name, whether it is a count or a share.
    pub fn name(&self) -> String {
        match self.unit {
            FigureUnit::Share if !self.statistic.starts_with("S(") => format!("share {}", self.statistic),
            _ => self.statistic.clone(),
        }
    }

    /// The number, of a line without noise: a median time that is not there is never reached.
    pub fn true_value(&self) -> Option<f64> {
        let is_time = self.unit == FigureUnit::Own && self.statistic == "median time";
        let never = is_time.then_some(f64::INFINITY);
        self.figure.as_ref().map(|figure| figure.value).or(never)
    }
}

/// The unit that a number is shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    /// The column's.
    Own,
    /// A count of rows.
    Rows,
    /// A share, from 0 to 1.
    Share,
}

/// The least and the most that a count can be.
const COUNT: [f64; 2] = [0.0, f64::INFINITY];

/// The least and the most that a share can be.
const SHARE: [f64; 2] = [0.0, 1.0];

/// A number with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownFigure {
    /// As shown.
    pub value: f64,
    /// As computed, where that differs.
    pub raw: Option<f64>,
    /// The error by noise, where there is one number for it.
    pub noise: Option<f64>,
    /// The interval's low end.
    pub low: f64,
    /// The interval's high end; infinite where it is not reached.
    pub high: f64,
    /// The error as a sample.
    pub sampling: Option<f64>,
    /// Half the interval's width where it is even around the number, also where its ends are cut.
    pub reach: Option<f64>,
    /// The interval as one of a population, where it has no even width.
    of_population: Option<[f64; 2]>,
    /// The least and the most that the number can be.
    limits: [f64; 2],
}

impl ShownFigure {
    fn of(estimate: &Estimate, limits: [f64; 2], z: f64) -> Self {
        let figure = ShownFigure {
            raw: estimate.raw,
            noise: Some(estimate.noise),
            sampling: estimate.sampling,
            limits,
            ..ShownFigure::between(estimate.value, limits)
        };
        figure.reaching(z * estimate.noise)
    }

    /// A number with an interval that is not even around it.
    pub fn between(value: f64, [low, high]: [f64; 2]) -> Self {
        ShownFigure {
            value,
            raw: None,
            noise: None,
            low,
            high,
            sampling: None,
            reach: None,
            of_population: None,
            limits: [f64::NEG_INFINITY, f64::INFINITY],
        }
    }

    /// Sets the interval to this far on both sides, of the number as computed and as shown: where
    /// these differ, it has what is shown, and holds at least as often. It ends where the number
    /// cannot be.
    fn reaching(mut self, reach: f64) -> Self {
        let raw = self.raw.unwrap_or(self.value);
        let [least, most] = self.limits;
        self.low = (raw.min(self.value) - reach).max(least);
        self.high = (raw.max(self.value) + reach).min(most);
        self.reach = Some(reach);
        self
    }

    /// Widens the interval by the error as a sample, where there is one.
    pub fn of_population(mut self, z: f64) -> Self {
        if let Some([low, high]) = self.of_population {
            (self.low, self.high) = (low, high);
        }
        match (self.noise, self.sampling) {
            (Some(noise), Some(sampling)) => self.reaching(z * noise.hypot(sampling)),
            _ => self,
        }
    }

    /// Whether the interval has this number. Without noise an interval is the number, but for
    /// rounding.
    pub fn holds(&self, truth: f64) -> bool {
        let slack = 1e-9 * truth.abs().max(1.0);
        (truth.is_infinite() && self.high == truth) || (self.low - slack..=self.high + slack).contains(&truth)
    }

    /// Half the interval's width, as far as it has ends.
    pub fn half(&self) -> f64 {
        self.reach.unwrap_or(match self.high.is_finite() {
            true => (self.high - self.low) / 2.0,
            false => self.value - self.low,
        })
    }
}

/// A share in percent, without the digits that a binary fraction adds.
pub fn percent(share: f64) -> f64 {
    (share * 1e12).round() / 1e10
}

/// A count of rows, as it is shown.
pub(super) fn count(estimate: &Estimate, z: f64) -> ShownFigure {
    ShownFigure::of(estimate, COUNT, z)
}

/// All lines of a group, in the order of the description.
pub fn lines(described: &Description, group: &GroupFigures, asked: &ReadingAs) -> Vec<FigureLine> {
    let z = asked.z();
    let rows = line("", "rows", FigureUnit::Rows, Some(count(&group.rows, z)));
    let mut lines = vec![rows];
    for statistic in &group.statistics {
        let Some(column) = described.named(&statistic.column) else {
            continue;
        };
        let of_statistic = of_statistic(column, statistic, asked);
        // Each statistic of a column says how many cells are missing: once is enough.
        let is_known = |line: &FigureLine| {
            let mut known = lines.iter();
            line.statistic == "missing"
                && known.any(|known| (&known.column, &known.statistic) == (&line.column, &line.statistic))
        };
        let fresh: Vec<FigureLine> = of_statistic
            .into_iter()
            .filter(|line| line.unit == FigureUnit::Share || !is_known(line))
            .map(|line| FigureLine {
                want: Some(statistic.want),
                ..line
            })
            .collect();
        lines.extend(fresh);
    }
    lines
}

fn line(column: &str, statistic: &str, unit: FigureUnit, figure: Option<ShownFigure>) -> FigureLine {
    FigureLine {
        column: column.to_owned(),
        want: None,
        statistic: statistic.to_owned(),
        unit,
        figure,
    }
}

fn of_statistic(
    column: &DescribedColumn,
    statistic: &StatisticFigures,
    asked: &ReadingAs,
) -> Vec<FigureLine> {
    let (name, z) = (&column.name, asked.z());
    match &statistic.of {
        ColumnFigures::Mean(figures) => of_mean((name, column.bounds()), figures, z),
        ColumnFigures::Counts(figures) => {
            let labels = match &column.categories {
                Some(_) => column.labels(),
                None => bin_labels(&column.edges_of(statistic.want)),
            };
            of_counts(name, &labels, figures, z)
        }
        ColumnFigures::Plain(figures) => of_magnitudes(name, figures, z),
        ColumnFigures::Quantiles(figures) => of_quantiles(name, figures, asked),
        ColumnFigures::Survival(figures) => of_survival(name, &column.edges_of(statistic.want), figures, z),
    }
}

fn of_mean((name, bounds): (&str, Option<(f64, f64)>), figures: &MeanFigures, z: f64) -> Vec<FigureLine> {
    let (least, most) = bounds.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let own = |statistic, estimate: Option<&Estimate>, limits| {
        line(
            name,
            statistic,
            FigureUnit::Own,
            estimate.map(|estimate| ShownFigure::of(estimate, limits, z)),
        )
    };
    let sd = figures.sd.as_ref().map(|sd| ShownFigure {
        noise: sd.noise,
        ..ShownFigure::between(sd.value, [sd.low, sd.high])
    });
    vec![
        own("mean", figures.mean.as_ref(), [least, most]),
        line(name, "sd", FigureUnit::Own, sd),
        own("sum", Some(&figures.sum), [f64::NEG_INFINITY, f64::INFINITY]),
        missing(name, &figures.missing, z),
    ]
}

fn missing(name: &str, estimate: &Estimate, z: f64) -> FigureLine {
    line(name, "missing", FigureUnit::Rows, Some(count(estimate, z)))
}

fn bin_labels(edges: &[f64]) -> Vec<String> {
    // Edges that bounds are divided into have the digits of a binary fraction.
    let bins = edges
        .windows(2)
        .map(|pair| format!("{} to {}", text_of(pair[0]), text_of(pair[1])));
    bins.chain(["missing".to_owned()]).collect()
}

fn of_counts(name: &str, labels: &[String], figures: &CountFigures, z: f64) -> Vec<FigureLine> {
    let cells = labels.iter().zip(&figures.cells);
    let shown = |(label, cell): (&String, &CellFigures)| {
        let share = cell.share.as_ref();
        let share = share.map(|share| ShownFigure::of(share, SHARE, z));
        [
            line(name, label, FigureUnit::Rows, Some(count(&cell.count, z))),
            line(name, label, FigureUnit::Share, share),
        ]
    };
    cells.flat_map(shown).collect()
}

fn of_magnitudes(name: &str, figures: &PlainCells, z: f64) -> Vec<FigureLine> {
    let cells = figures.cells.iter().enumerate();
    let label = |at: usize| {
        let powers = 2 * LARGEST_POWER as usize + 1;
        match at {
            at if at < powers => format!("−2^{}", LARGEST_POWER - at as i32),
            at if at == powers => "0".to_owned(),
            at if at <= 2 * powers => format!("2^{}", at as i32 - powers as i32 - 1 - LARGEST_POWER),
            _ => "missing".to_owned(),
        }
    };
    cells
        .map(|(at, cell)| line(name, &label(at), FigureUnit::Rows, Some(count(cell, z))))
        .collect()
}

fn of_quantiles(name: &str, figures: &QuantileFigures, asked: &ReadingAs) -> Vec<FigureLine> {
    let label = |q: f64| match q {
        0.5 => "median".to_owned(),
        q => format!("{} %", percent(q)),
    };
    // A line for each that was asked for, also where there are too few rows.
    let quantiles = asked.quantiles.iter().enumerate().map(|(at, &q)| {
        let found = figures.quantiles.as_ref().and_then(|found| found.get(at));
        let figure = found.map(|quantile| ShownFigure {
            of_population: Some(quantile.all),
            ..ShownFigure::between(quantile.value, quantile.noise)
        });
        line(name, &label(q), FigureUnit::Own, figure)
    });
    quantiles
        .chain([missing(name, &figures.missing, asked.z())])
        .collect()
}

fn of_survival(name: &str, edges: &[f64], figures: &SurvivalFigures, z: f64) -> Vec<FigureLine> {
    // A line for each edge, also beyond the end of a group's curve.
    let points = edges.iter().skip(1).enumerate().map(|(at, to)| {
        let figure = figures.curve.get(at).map(|point| {
            let estimate = Estimate {
                value: point.survival,
                noise: point.noise,
                sampling: Some(point.sampling),
                raw: None,
            };
            ShownFigure::of(&estimate, SHARE, z)
        });
        line(name, &format!("S({})", text_of(*to)), FigureUnit::Share, figure)
    });
    let median = figures.reached(0.5, z).map(|reached| ShownFigure {
        of_population: Some(reached.all),
        ..ShownFigure::between(reached.value, reached.noise)
    });
    let median = line(name, "median time", FigureUnit::Own, median);
    points
        .chain([median, missing(name, &figures.missing, z)])
        .collect()
}
