//! Tables that a person can read.

use comfy_table::presets::NOTHING;

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

    /// The text, every line indented by two spaces.
    pub fn render(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_preset(NOTHING).add_rows(&self.rows);
        if self.ruled {
            let rules: Vec<String> = table
                .column_max_content_widths()
                .iter()
                .map(|&width| "-".repeat(width.into()))
                .collect();
            let (headings, rows) = self.rows.split_at(1);
            table = comfy_table::Table::new();
            table
                .load_preset(NOTHING)
                .add_rows(headings)
                .add_row(rules)
                .add_rows(rows);
        }
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });
        table
            .trim_fmt()
            .lines()
            .map(|line| format!("  {line}\n"))
            .collect()
    }
}

/// A number with four significant digits, without an exponent where that is readable.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    match decimals(value) {
        Some(decimals) => format!("{value:.decimals$}"),
        None => format!("{value:.3e}"),
    }
}

/// Places after the point; none where an exponent is more readable.
fn decimals(value: f64) -> Option<usize> {
    let magnitude = value.abs().log10().floor();
    (-4.0..6.0)
        .contains(&magnitude)
        .then(|| (3.0 - magnitude).clamp(0.0, 8.0) as usize)
}

/// A number with four significant digits on which a person may rely as an upper bound, such as ε:
/// what is shown is never below `value`.
pub fn at_most(value: f64) -> String {
    let nearest = number(value);
    let shown = nearest.parse::<f64>().unwrap_or(f64::INFINITY);
    if shown >= value {
        return nearest;
    }
    // Rounded down, by less than one unit of the last digit shown.
    match decimals(value) {
        Some(decimals) => format!("{:.decimals$}", shown + 10f64.powi(-(decimals as i32))),
        None => number(shown + 10f64.powf(value.abs().log10().floor() - 3.0)),
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
            "  who    error\n  -----  -------\n  alice  0.01235\n"
        );
        assert_eq!(number(1234.5), "1234"); // half to even
        assert_eq!(number(-2.5e-9), "-2.500e-9");
        assert_eq!(bytes(1_500_000), "1.5 MB");
    }

    #[test]
    fn bounds_are_never_shown_below_what_they_are() {
        assert_eq!(
            (at_most(0.82864), number(0.82864)),
            ("0.8287".into(), "0.8286".into())
        );
        assert_eq!(
            (at_most(1.0), at_most(0.0), at_most(0.99996)),
            ("1.000".into(), "0".into(), "1.0000".into())
        );
        assert_eq!(
            (at_most(1.00001), at_most(9.99991), at_most(1234.2)),
            ("1.001".into(), "10.000".into(), "1235".into())
        );
        assert_eq!(
            (at_most(1.23401e-7), at_most(1_234_500.1)),
            ("1.235e-7".into(), "1.235e6".into())
        );
        let mut value = 1.7e-9;
        while value < 1e9 {
            let (shown, nearest): (f64, f64) =
                (at_most(value).parse().unwrap(), number(value).parse().unwrap());
            assert!(
                shown >= value && shown >= nearest && shown <= value * 1.002,
                "{value}: {shown}"
            );
            value *= 1.003_17;
        }
    }
}
