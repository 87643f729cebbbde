//! Figures as comma-separated values: group, column, statistic, value, raw, noise, low, high,
//! sampling.

use undertone_protocol::describe::columns::Description;
use undertone_protocol::describe::figures::estimate::ReadingAs;
use undertone_protocol::describe::figures::groups::AllFigures;

use super::decimals::text_of;
use super::shown::{FigureLine, FigureUnit, ShownFigure, count, lines};
use crate::reporting::table::Table;

const HEADINGS: [&str; 9] = [
    "group",
    "column",
    "statistic",
    "value",
    "raw",
    "noise",
    "low",
    "high",
    "sampling",
];

/// The rows of all figures, headings first. What is not shown is empty, and so is the upper end of
/// an interval that is not reached.
pub(super) fn of(
    described: &Description,
    figures: &AllFigures,
    (asked, population): (&ReadingAs, bool),
) -> String {
    let z = asked.z();
    let mut table = Table::with_headings(HEADINGS);
    for group in &figures.groups {
        let name = group.group.clone().unwrap_or_default();
        for mut line in lines(described, group, asked) {
            line.figure = line.figure.map(|figure| match population {
                true => figure.of_population(z),
                false => figure,
            });
            table.row(row(&name, &line));
        }
    }
    add_tables(&mut table, (described, figures), z);
    add_correlations(&mut table, figures, z);
    table.csv()
}

/// A row for each cell of each table.
fn add_tables(table: &mut Table, (described, figures): (&Description, &AllFigures), z: f64) {
    for cross in &figures.tables {
        let labels: Vec<Vec<String>> = cross
            .columns
            .iter()
            .filter_map(|name| described.named(name).map(|column| column.labels()))
            .collect();
        for (at, cell) in cross.cells.iter().enumerate() {
            let (mut rest, mut names) = (at, vec![]);
            for labels in labels.iter().rev() {
                names.push(labels[rest % labels.len()].clone());
                rest /= labels.len();
            }
            names.reverse();
            let line = FigureLine {
                column: cross.columns.join(" × "),
                want: None,
                statistic: names.join(" × "),
                unit: FigureUnit::Rows,
                figure: Some(count(cell, z)),
            };
            table.row(row("", &line));
        }
    }
}

/// A row for each correlation.
fn add_correlations(table: &mut Table, figures: &AllFigures, z: f64) {
    let text = |value: Option<f64>| value.map_or(String::new(), text_of);
    for covariance in &figures.covariances {
        let pairs = covariance.correlation.iter().zip(&covariance.correlation_noise);
        for (correlations, noises) in pairs {
            for (i, row) in correlations.iter().enumerate() {
                for (j, correlation) in row.iter().enumerate().skip(i + 1) {
                    let interval = covariance.correlation_interval((i, j), z);
                    table.row([
                        String::new(),
                        format!("{} × {}", covariance.columns[i], covariance.columns[j]),
                        "correlation".to_owned(),
                        text(*correlation),
                        text(*correlation),
                        text(noises[i][j]),
                        text(interval.map(|[low, _]| low)),
                        text(interval.map(|[_, high]| high)),
                        String::new(),
                    ]);
                }
            }
        }
    }
}

fn row(group: &str, line: &FigureLine) -> [String; 9] {
    let number = |of: fn(&ShownFigure) -> Option<f64>| {
        let value = line.figure.as_ref().and_then(of);
        value.map_or(String::new(), text_of)
    };
    [
        group.to_owned(),
        line.column.clone(),
        line.name(),
        number(|figure| Some(figure.value)),
        number(|figure| figure.raw),
        number(|figure| figure.noise),
        number(|figure| Some(figure.low)),
        number(|figure| Some(figure.high)),
        number(|figure| figure.sampling),
    ]
}
