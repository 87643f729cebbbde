//! Figures of several columns together, below the table of each by itself.

use undertone_protocol::describe::columns::Description;
use undertone_protocol::describe::figures::groups::AllFigures;
use undertone_protocol::describe::figures::table::TableFigures;

use super::digits::{number, p_value, with_error};
use crate::reporting::screen::columns_of;

/// Combinations that are listed, of three columns and more. Our choice: a screen.
const MOST_COMBINATIONS: usize = 40;

/// Counts of combinations: a table of two columns, a list of more, and whether two are independent.
pub(super) fn of_table(described: &Description, table: &TableFigures, z: f64) -> String {
    let labels: Vec<Vec<String>> = table
        .columns
        .iter()
        .filter_map(|name| described.named(name).map(|column| column.labels()))
        .collect();
    let cell = |at: usize| with_error(table.cells[at].value, z * table.cells[at].noise);
    let mut text = format!("\n{}\n", table.columns.join(" × "));
    text += &match &labels[..] {
        [rows, columns] => grid(rows, columns, &cell),
        _ => {
            let mut told: Vec<usize> = (0..table.cells.len()).collect();
            told.retain(|&at| table.cells[at].value > z * table.cells[at].noise);
            told.sort_by(|a, b| table.cells[*b].value.total_cmp(&table.cells[*a].value));
            told.truncate(MOST_COMBINATIONS);
            let line = |at| format!("  {}  {}\n", combination(&labels, at), cell(at));
            told.into_iter().map(line).collect()
        }
    };
    match &table.independence {
        Some(test) => {
            let [_, p] = p_value(test.p);
            text + &format!(
                "  independent of each other? χ² = {:.2}, {} degrees of freedom, {p} (noise and sampling; \
                     not corrected for how many tables you look at)\n",
                test.chi_square, test.degrees
            )
        }
        None => text,
    }
}

/// The cells of two columns, one down and one across, aligned on the right.
fn grid(rows: &[String], columns: &[String], cell: &dyn Fn(usize) -> String) -> String {
    let of_row = |row: usize| (0..columns.len()).map(move |at| cell(row * columns.len() + at));
    let cells: Vec<Vec<String>> = (0..rows.len()).map(|row| of_row(row).collect()).collect();
    let widest = |(at, label): (usize, &String)| {
        let cells = cells.iter().map(|row| columns_of(&row[at]));
        cells.max().unwrap_or(0).max(columns_of(label))
    };
    let widths: Vec<usize> = columns.iter().enumerate().map(widest).collect();
    let first = rows.iter().map(|row| columns_of(row)).max().unwrap_or(0);
    let line = |label: &str, cells: &[String]| {
        let mut line = format!("  {label}{}", " ".repeat(first - columns_of(label)));
        for (cell, width) in cells.iter().zip(&widths) {
            line += &format!("  {}{cell}", " ".repeat(width - columns_of(cell)));
        }
        line.trim_end().to_owned() + "\n"
    };
    let below = rows.iter().zip(&cells).map(|(row, cells)| line(row, cells));
    line("", columns) + &below.collect::<String>()
}

/// The combination of labels at this place, the last column's the fastest.
fn combination(labels: &[Vec<String>], at: usize) -> String {
    let (mut rest, mut names) = (at, vec![]);
    for labels in labels.iter().rev() {
        names.push(labels[rest % labels.len()].as_str());
        rest /= labels.len();
    }
    names.reverse();
    names.join(" × ")
}

/// Correlations with their intervals, a pair a line.
pub(super) fn of_covariances(figures: &AllFigures, z: f64) -> String {
    let mut text = String::new();
    for covariance in &figures.covariances {
        let complete = with_error(covariance.complete.value, z * covariance.complete.noise);
        text += &format!("\ncorrelations over {complete} complete rows\n");
        let Some(correlations) = &covariance.correlation else {
            text += "  too few to tell\n";
            continue;
        };
        for (i, row) in correlations.iter().enumerate() {
            for (j, correlation) in row.iter().enumerate().skip(i + 1) {
                let shown = match (correlation, covariance.correlation_interval((i, j), z)) {
                    (Some(correlation), Some([low, high])) => {
                        let [value, low, high] =
                            [*correlation, low, high].map(|end| number(end, (high - low) / 2.0));
                        format!("{value} [{low}, {high}]")
                    }
                    _ => "too few to tell".to_owned(),
                };
                text += &format!(
                    "  {} × {}  {shown}\n",
                    covariance.columns[i], covariance.columns[j]
                );
            }
        }
        if covariance.projected {
            text += "  (eigenvalues below 0 were set to 0)\n";
        }
    }
    text
}
