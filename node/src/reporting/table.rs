//! Tables that a person can read.

use crate::reporting::screen::{self, columns_of, lines_of};

/// Rows of cells under optional headings, columns as wide as they need.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    ruled: bool,
}

impl Table {
    /// A table without headings.
    pub fn new() -> Self {
        Table::default()
    }

    /// A table with a line under its first row.
    pub fn with_headings<'a>(headings: impl IntoIterator<Item = &'a str>) -> Self {
        Table {
            rows: vec![headings.into_iter().map(String::from).collect()],
            ruled: true,
        }
    }

    /// Adds a row below the others.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) -> &mut Self {
        self.rows.push(cells.into_iter().collect());
        self
    }

    /// The rows as comma-separated values (RFC 4180), headings first.
    pub fn csv(&self) -> String {
        let cell = |cell: &String| match cell.contains([',', '"', '\n']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.clone(),
        };
        let line = |row: &Vec<String>| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n";
        self.rows.iter().map(line).collect()
    }

    /// The text, every line indented by two blanks, as wide as [`screen::width`] at most: cells are
    /// wrapped between words.
    pub fn render(&self) -> String {
        self.render_within(screen::width())
    }

    /// The text in lines of at most `width` columns. Where even the longest words do not fit beside
    /// each other, each row is a paragraph of its own.
    pub fn render_within(&self, width: usize) -> String {
        let widths = self.widths(width.saturating_sub(INDENT.len()));
        let Some(widths) = widths else {
            return self.paragraphs(width);
        };
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            text += &line_of(row, &widths);
            if index == 0 && self.ruled {
                let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
                text += &line_of(&rules, &widths);
            }
        }
        text
    }

    /// The width of each column so that all fit into `room`; none where they cannot without
    /// breaking a word.
    fn widths(&self, room: usize) -> Option<Vec<usize>> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let largest = |of: fn(&str) -> usize| -> Vec<usize> {
            let column = |i: usize| {
                self.rows
                    .iter()
                    .filter_map(move |row| row.get(i))
                    .map(|cell| of(cell))
            };
            (0..count).map(|i| column(i).max().unwrap_or(0)).collect()
        };
        let mut least = largest(longest_word);
        let natural = largest(columns_of);
        // Without headings the first column has labels, which are short: they stay on one line.
        if let (false, Some(label)) = (self.ruled, natural.first()) {
            least[0] = least[0].max(*label.min(&(room / 3)));
        }
        let mut widths = natural.clone();
        let gaps = GAP.len() * count.saturating_sub(1);
        // One step after another, that column gives way which then takes the fewest lines.
        while widths.iter().sum::<usize>() + gaps > room {
            let lines = |i: usize| natural[i] as f64 / (widths[i] - 1) as f64;
            let yielding = (0..count).filter(|&i| widths[i] > least[i].max(1));
            let next = yielding.min_by(|&a, &b| lines(a).total_cmp(&lines(b)))?;
            widths[next] -= 1;
        }
        Some(widths)
    }

    /// Each row as lines of its own: the heading of each cell, where there is one, and the cell.
    fn paragraphs(&self, width: usize) -> String {
        let (headings, rows) = self.rows.split_at(usize::from(self.ruled));
        let headings = headings.first();
        let mut text = String::new();
        for row in rows {
            for (i, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
                let heading = headings.and_then(|headings| headings.get(i));
                let line = heading.map_or(cell.clone(), |heading| format!("{heading}: {cell}"));
                let indent = if i == 0 {
                    INDENT.to_owned()
                } else {
                    INDENT.repeat(2)
                };
                text += &screen::wrapped(&format!("{indent}{line}\n"), width);
            }
        }
        text
    }
}

/// Blanks before each line.
const INDENT: &str = "  ";

/// Blanks between two columns.
const GAP: &str = "  ";

/// Columns of the longest word.
fn longest_word(text: &str) -> usize {
    text.split(' ').map(columns_of).max().unwrap_or(0)
}

/// A row under its columns, in as many lines as its longest cell takes.
fn line_of(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<Vec<String>> = row
        .iter()
        .zip(widths)
        .map(|(cell, &width)| lines_of(cell, width))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for at in 0..height {
        let mut line = INDENT.to_owned();
        for (cell, &width) in cells.iter().zip(widths) {
            let shown = cell.get(at).map_or("", String::as_str);
            line += &format!(
                "{shown}{}{GAP}",
                " ".repeat(width.saturating_sub(columns_of(shown)))
            );
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Digits that a person reads of a number. Our choice: the third is below any noise here.
const DIGITS: i32 = 3;

/// Digits that a computed number has where others compare it with theirs. Our choice.
const PRECISE: i32 = 4;

/// A number with three significant digits, without an exponent where that is readable.
pub fn number(value: f64) -> String {
    with_digits(value, DIGITS)
}

/// A number with four significant digits: of accounts and simulations, which others compute again.
pub fn precise(value: f64) -> String {
    with_digits(value, PRECISE)
}

fn with_digits(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".into();
    }
    match decimals(value, digits) {
        Some(decimals) => format!("{value:.decimals$}"),
        None => format!("{value:.0$e}", digits as usize - 1),
    }
}

/// Places after the point; none where an exponent is more readable.
fn decimals(value: f64, digits: i32) -> Option<usize> {
    // As it is once it is rounded: 0.9996 is 1.00.
    let rounded = format!("{:.1$e}", value.abs(), digits as usize - 1);
    let magnitude: i32 = rounded.split_once('e')?.1.parse().ok()?;
    (-4..6)
        .contains(&magnitude)
        .then(|| (digits - 1 - magnitude).clamp(0, 8) as usize)
}

/// A number that people wrote, such as a bound: as it is where that is short.
pub fn bound(value: f64) -> String {
    /// Letters of a number that is read at a glance. Our choice.
    const SHORT: usize = 8;
    let whole = value.to_string();
    match whole.len() <= SHORT {
        true => whole,
        false => number(value),
    }
}

/// A value with as many places as its error has: further digits say nothing.
pub fn beside_error(value: f64, error: f64) -> String {
    match decimals(error, DIGITS) {
        Some(decimals) if error > 0.0 && decimals > 0 && value.abs() < 1e9 => format!("{value:.decimals$}"),
        _ => number(value),
    }
}

/// A number with three significant digits on which a person may rely as an upper bound, such as ε:
/// what is shown is never below `value`.
pub fn at_most(value: f64) -> String {
    let nearest = number(value);
    let shown = nearest.parse::<f64>().unwrap_or(f64::INFINITY);
    if shown >= value {
        return nearest;
    }
    // Rounded down, by less than one unit of the last digit shown.
    match decimals(value, DIGITS) {
        Some(decimals) => format!("{:.decimals$}", shown + 10f64.powi(-(decimals as i32))),
        None => number(shown + 10f64.powf(value.abs().log10().floor() - f64::from(DIGITS - 1))),
    }
}

/// Bytes in the unit that people use.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::with_headings(["who", "error"]);
        table.row(["alice".into(), number(0.0123456)]);
        assert_eq!(
            table.render(),
            "  who    error\n  -----  ------\n  alice  0.0123\n"
        );
        assert_eq!(number(1234.5), "1234"); // half to even
        assert_eq!(precise(0.0123456), "0.01235");
        assert_eq!(
            (bound(100.0), bound(0.2), bound(1.0 / 3.0)),
            ("100".into(), "0.2".into(), "0.333".into())
        );
        assert_eq!(beside_error(134.656, 0.7244), "134.656");
        assert_eq!(beside_error(1234.56, 321.0), "1235");
        assert_eq!(number(-2.5e-9), "-2.50e-9");
        assert_eq!(bytes(1_500_000), "1.5 MB");
    }

    #[test]
    fn cells_are_wrapped_between_words_where_the_screen_is_narrow() {
        let mut table = Table::with_headings(["who", "what it means"]);
        table.row(["alice".into(), "any one party, with all that it sees".into()]);
        assert_eq!(
            table.render_within(30),
            "  who    what it means\n  -----  ---------------------\n  alice  any one party, with\n         \
             all that it sees\n"
        );
        let wide = table.render_within(100);
        assert_eq!(wide.lines().count(), 3, "{wide}");
    }

    #[test]
    fn rows_that_do_not_fit_beside_each_other_are_paragraphs() {
        let address = "/ip4/127.0.0.1/tcp/40001";
        let mut table = Table::with_headings(["peer", "private", "public"]);
        table.row(["bob".into(), address.into(), format!("{address} answers")]);
        assert_eq!(
            table.render_within(40),
            format!("  peer: bob\n    private: {address}\n    public: {address}\n    answers\n")
        );
    }

    #[test]
    fn bounds_are_never_shown_below_what_they_are() {
        assert_eq!(
            (at_most(0.8264), number(0.8264)),
            ("0.827".into(), "0.826".into())
        );
        assert_eq!(
            (at_most(1.0), at_most(0.0), at_most(0.9996)),
            ("1.00".into(), "0".into(), "1.00".into())
        );
        assert_eq!(
            (at_most(1.00001), at_most(9.9991), at_most(1234.2)),
            ("1.01".into(), "10.0".into(), "1235".into())
        );
        assert_eq!(
            (at_most(1.2301e-7), at_most(1_234_500.1)),
            ("1.24e-7".into(), "1.24e6".into())
        );
        let mut value = 1.7e-9;
        while value < 1e9 {
            let (shown, nearest): (f64, f64) =
                (at_most(value).parse().unwrap(), number(value).parse().unwrap());
            assert!(
                shown >= value && shown >= nearest && shown <= value * 1.011,
                "{value}: {shown}"
            );
            value *= 1.003_17;
        }
    }
}
