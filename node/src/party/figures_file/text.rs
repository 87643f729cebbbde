//! Figures as a table that a person reads: a column for each group, intervals of 95 %.

mod digits;
mod kept;
mod shown_as;
mod together;

use undertone_protocol::describe::columns::Description;
use undertone_protocol::describe::figures::groups::{AllFigures, GroupFigures};

pub use self::digits::p_value;
use self::digits::{exact, number, with_error};
use self::kept::kept;
pub use self::shown_as::ShownAs;
use super::shown::{FigureLine, FigureUnit, ShownFigure, lines, percent};
use crate::reporting::screen::columns_of;

/// The start of a deviation that noise cannot tell from 0.
const AT_MOST: &str = "at most ";

/// A row of the table: labels, and a cell for each group.
struct TextRow {
    labels: [String; 2],
    cells: Vec<String>,
}

/// The whole table with its footer.
pub fn text(described: &Description, figures: &AllFigures, shown: &ShownAs) -> String {
    with_truth(described, (figures, None), shown)
}

/// The table with the true figures behind the others, where they are known.
pub fn with_truth(
    described: &Description,
    (figures, truth): (&AllFigures, Option<&AllFigures>),
    shown: &ShownAs,
) -> String {
    let z = shown.asked.z();
    let (figures, left_out) = told_groups(figures);
    let is_told = |group: &&GroupFigures| !left_out.contains(&group.group);
    let truths: Option<Vec<Vec<FigureLine>>> = truth.map(|truth| {
        let told = truth.groups.iter().filter(is_told);
        told.map(|group| lines(described, group, &shown.asked)).collect()
    });
    let groups = figures.groups.iter();
    let groups: Vec<Vec<FigureLine>> = groups
        .map(|group| lines(described, group, &shown.asked))
        .collect();
    let rows = text_rows((&groups, truths.as_deref()), shown);
    let mut text = rendered(described, &figures, &rows);
    let left_out: Vec<String> = left_out.into_iter().flatten().collect();
    if !left_out.is_empty() {
        text += &format!("(too few rows to tell anything of: {})\n", left_out.join(", "));
    }
    if rows
        .iter()
        .flat_map(|row| &row.cells)
        .any(|cell| cell.starts_with(AT_MOST))
    {
        text += "(at most: the range is wide for such a deviation; ask for quantiles)\n";
    }
    for table in &figures.tables {
        text += &together::of_table(described, table, z);
    }
    text += &together::of_covariances(&figures, z);
    text + &footer(shown, truths.is_some())
}

/// The rows that are kept, each with a cell for every group, and the true figure behind it.
fn text_rows(
    (groups, truths): (&[Vec<FigureLine>], Option<&[Vec<FigureLine>]>),
    shown: &ShownAs,
) -> Vec<TextRow> {
    let z = shown.asked.z();
    let mut column = "";
    let mut row = |at: usize| {
        let line = &groups[0][at];
        // A column's name stands before its first line.
        let name = if line.column == column { "" } else { &line.column };
        column = &line.column;
        let cell = |(group, lines): (usize, &Vec<FigureLine>)| {
            let shown = cell(&lines[at], shown.population.then_some(z));
            let truth = truths.and_then(|truths| truths.get(group)?.get(at)?.figure.as_ref());
            match (&lines[at].figure, truth) {
                (Some(figure), Some(truth)) => {
                    format!("{shown} ({})", true_number(&lines[at], figure, truth.value))
                }
                _ => shown,
            }
        };
        let labels = match line.column.is_empty() {
            true => [line.statistic.clone(), String::new()],
            false => [name.to_owned(), line.statistic.clone()],
        };
        TextRow {
            labels,
            cells: groups.iter().enumerate().map(cell).collect(),
        }
    };
    kept(groups, shown).into_iter().map(&mut row).collect()
}

/// Says what intervals and counts are.
fn footer(shown: &ShownAs, has_truth: bool) -> String {
    let percent = percent(shown.asked.confidence);
    let errors = match shown.population {
        true => "of noise and of sampling",
        false => "of the noise",
    };
    let behind = match has_truth {
        true => "In brackets behind: the true figure. ",
        false => "",
    };
    format!(
        "\n{behind}All intervals {percent} %, {errors}: one in {} misses. Shown counts are clamped one by one, and \
             need not add up.\n",
        (100.0 / (100.0 - percent)).round()
    )
}

/// The groups that have enough rows to tell something of, and the names of the others.
pub fn told_groups(figures: &AllFigures) -> (AllFigures, Vec<Option<String>>) {
    let is_told = |group: &&GroupFigures| {
        let rows = group.rows.raw.unwrap_or(group.rows.value);
        group.group.is_none() || rows >= (5.0 * group.rows.noise).max(2.0)
    };
    let (told, others): (Vec<&GroupFigures>, Vec<&GroupFigures>) = figures.groups.iter().partition(is_told);
    let told = AllFigures {
        groups: told.into_iter().cloned().collect(),
        ..figures.clone()
    };
    (
        told,
        others.into_iter().map(|group| group.group.clone()).collect(),
    )
}

fn rendered(described: &Description, figures: &AllFigures, rows: &[TextRow]) -> String {
    let head = match &described.group_by {
        Some(column) => format!("by {column}"),
        None => String::new(),
    };
    let names: Vec<String> = figures
        .groups
        .iter()
        .map(|group| group.group.clone().unwrap_or_default())
        .collect();
    let widest = |of: &dyn Fn(&TextRow) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let first = widest(&|row| columns_of(&row.labels[0])).max(columns_of(&head));
    let second = widest(&|row| columns_of(&row.labels[1]));
    let widths: Vec<usize> = (0..names.len())
        .map(|at| widest(&|row| columns_of(&row.cells[at])).max(columns_of(&names[at])))
        .collect();
    let padded = |text: &str, width: usize, right: bool| {
        let gap = " ".repeat(width.saturating_sub(columns_of(text)));
        if right { gap + text } else { text.to_owned() + &gap }
    };
    let mut text = String::new();
    let mut write = |labels: [&str; 2], cells: &[String]| {
        let mut line = padded(labels[0], first, false) + "  " + &padded(labels[1], second, false);
        for (cell, &width) in cells.iter().zip(&widths) {
            line += &format!("  {}", padded(cell, width, true));
        }
        text += line.trim_end();
        text.push('\n');
    };
    if described.group_by.is_some() {
        write([&head, ""], &names);
    }
    for row in rows {
        write([&row.labels[0], &row.labels[1]], &row.cells);
    }
    text
}

/// A figure with its interval: ± where it is even around the number.
fn cell(line: &FigureLine, population: Option<f64>) -> String {
    let Some(figure) = line.figure.clone() else {
        return match (line.unit, line.statistic.as_str()) {
            (FigureUnit::Share, "missing") => String::new(),
            (FigureUnit::Own, "median time") => "not reached".to_owned(),
            _ => "too few to tell".to_owned(),
        };
    };
    let figure = match population {
        Some(z) => figure.of_population(z),
        None => figure,
    };
    let (times, unit) = match line.unit {
        FigureUnit::Share => (100.0, " %"),
        FigureUnit::Own | FigureUnit::Rows => (1.0, ""),
    };
    let half = figure.half() * times;
    let shown = |value: f64| number(value * times, half);
    match (line.statistic.as_str(), figure.reach) {
        // Without noise there is no interval.
        _ if half == 0.0 => format!("{}{unit}", exact(figure.value * times)),
        ("sd", _) if figure.low <= 0.0 => format!("{AT_MOST}{}", shown(figure.high)),
        (_, Some(_)) if unit.is_empty() => with_error(figure.value, half),
        (_, Some(_)) => format!("{}{unit} ± {}", shown(figure.value), number(half, half)),
        (_, None) => {
            let high = match figure.high.is_finite() {
                true => shown(figure.high),
                false => "not reached".to_owned(),
            };
            format!("{} [{}, {high}]", shown(figure.value), shown(figure.low))
        }
    }
}

/// A true figure, with as many digits as the one beside it.
fn true_number(line: &FigureLine, figure: &ShownFigure, truth: f64) -> String {
    let times = if line.unit == FigureUnit::Share {
        100.0
    } else {
        1.0
    };
    match line.unit {
        FigureUnit::Rows => exact(truth.round()),
        FigureUnit::Own | FigureUnit::Share => number(truth * times, figure.half() * times),
    }
}

/// A figure of one line alone, for tests and for questions.
pub fn of_line(line: &FigureLine) -> String {
    cell(line, None)
}

/// A figure as it is shown.
pub fn of_figure(unit: FigureUnit, figure: ShownFigure) -> String {
    of_line(&FigureLine {
        column: String::new(),
        want: None,
        statistic: String::new(),
        unit,
        figure: Some(figure),
    })
}
