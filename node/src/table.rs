//! Tables that a person can read.

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
    pub fn with_headings<const N: usize>(headings: [&str; N]) -> Self {
        let mut table = Table { rows: vec![], ruled: true };
        table.row(headings.map(String::from));
        table
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) -> &mut Self {
        self.rows.push(cells.into());
        self
    }

    /// The text, every line indented by two spaces.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (i, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
            text += &format!("  {}\n", cells.join("  ").trim_end());
            if i == 0 && self.ruled {
                let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
                text += &format!("  {}\n", rule.join("  "));
            }
        }
        text
    }
}

/// A number with four significant digits, without an exponent where that is readable.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor();
    if (-4.0..6.0).contains(&magnitude) {
        let decimals = (3.0 - magnitude).clamp(0.0, 8.0) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.3e}")
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
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::with_headings(["who", "error"]);
        table.row(["alice".into(), number(0.0123456)]);
        assert_eq!(table.render(), "  who    error\n  -----  -------\n  alice  0.01235\n");
        assert_eq!(number(1234.5), "1234"); // half to even
        assert_eq!(number(-2.5e-9), "-2.500e-9");
        assert_eq!(bytes(1_500_000), "1.5 MB");
    }
}
