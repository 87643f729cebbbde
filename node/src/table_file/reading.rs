//! Reads a party's table into a sum, row by row: no row is kept.

use std::path::Path;

use undertone_protocol::describe::cells::{RowCell, has_decimal_comma};
use undertone_protocol::describe::columns::Description;
use undertone_protocol::describe::row::{CellCounts, RowEncoder};
use undertone_protocol::describe::tally::RowTally;

use crate::reporting::failure::Failure;
use crate::reporting::input_file;
use crate::reporting::output_file::extension_of;
use crate::table_file::refused::RefusedTable;
use crate::table_file::{csv, json};
use crate::vector_file::formats;

/// A party's table as a sum of its rows' vectors. It has no `Debug` that prints it.
pub struct TableSum {
    /// The sum, in cells of a lattice.
    pub cells: Vec<i128>,
    /// How many rows it has.
    pub rows: u64,
    /// Counts of odd cells by column, for the owner alone.
    pub found: Vec<FoundInColumn>,
}

/// Counts of odd cells in a column.
#[derive(Clone, PartialEq, Eq)]
pub struct FoundInColumn {
    /// The column.
    pub name: String,
    /// The bounds, or none of a column with categories.
    bounds: Option<String>,
    /// Whether the column is one of numbers.
    is_of_numbers: bool,
    /// How many cells are missing, clipped, other.
    pub counts: CellCounts,
}

impl FoundInColumn {
    /// Says in a sentence what is not as the description has it; `None` where all is.
    pub fn sentence(&self, rows: u64) -> Option<String> {
        let CellCounts {
            missing,
            no_number,
            clipped,
            other,
        } = self.counts;
        let bounds = self.bounds.as_deref().unwrap_or_default();
        let parts = [
            (missing, "missing".to_owned()),
            (no_number, "no number, and so missing".to_owned()),
            (
                clipped,
                format!("outside of {bounds}, and counted as the nearest bound"),
            ),
            (other, "no declared category, and counted as other".to_owned()),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        (!parts.is_empty()).then(|| format!("{}: of {rows} cells {}", self.name, parts.join("; ")))
    }

    /// Whether more than half of what is not missing is no number: another column is meant, then.
    fn is_another(&self, rows: u64) -> bool {
        let said = rows.saturating_sub(self.counts.missing);
        self.is_of_numbers && self.counts.no_number * 2 > said
    }
}

/// Reads a table, and adds up the vectors of its rows on a lattice of this cell, a power of two.
/// `anyway`: also where most of a column's cells are no numbers.
///
/// # Errors
/// It is no table of these columns (exit 7); no value is reported.
#[expect(clippy::too_many_lines, reason = "one check of the file after the other")]
pub fn read(path: &Path, described: &Description, (cell, anyway): (f64, bool)) -> Result<TableSum, Failure> {
    let refused = |fault: RefusedTable| {
        Failure::input(format!("{}: {}", path.display(), fault.what))
            .field("--input")
            .hint(fault.hint)
    };
    let names = described.names();
    let of_numbers: Vec<bool> = names
        .iter()
        .map(|name| {
            described
                .named(name)
                .is_none_or(|column| column.categories.is_none())
        })
        .collect();
    let mut tally = RowTally::new(RowEncoder::of(described), cell);
    let add = |cells: &[RowCell<'_>]| {
        let comma = |(cell, of_numbers): (&RowCell<'_>, &bool)| match cell {
            RowCell::Text(text) if *of_numbers => text.contains(',') && has_decimal_comma(text),
            _ => false,
        };
        if let Some(at) = cells.iter().zip(&of_numbers).position(comma) {
            return Err(RefusedTable::new(
                format!(
                    "row {}, column {:?} is a number with a decimal comma",
                    tally.rows() + 1,
                    names[at]
                ),
                "write 3.14; with pandas: pandas.read_csv(path, decimal=',').to_csv('table.csv', index=False)",
            ));
        }
        tally.add(cells);
        Ok(())
    };
    let file = || {
        input_file::open(path).map_err(|e| {
            let hint = "name a file that exists and that you can read";
            refused(RefusedTable::new(format!("cannot be opened: {e}"), hint))
        })
    };
    match extension_of(path).as_deref() {
        Some("csv") => csv::read(file()?, &names, add).map_err(refused)?,
        Some("json") => json::read(file()?, &names, add).map_err(refused)?,
        other => {
            let hint = match other.filter(|other| !formats::EXTENSIONS.contains(other)) {
                Some(other) => formats::hint_for(other),
                None => "with pandas: table.to_csv('table.csv', index=False)".to_owned(),
            };
            let what = "statistics are of a .csv with a row of names, or of a .json with a list of objects";
            return Err(refused(RefusedTable::new(what, hint)));
        }
    }
    let (rows, counts) = (tally.rows(), tally.counts().to_vec());
    let found: Vec<FoundInColumn> = names
        .iter()
        .zip(of_numbers.iter().zip(counts))
        .map(|(name, (&is_of_numbers, counts))| FoundInColumn {
            name: (*name).to_owned(),
            bounds: described
                .named(name)
                .and_then(|column| column.bounds())
                .map(|(low, high)| format!("[{low}, {high}]")),
            is_of_numbers,
            counts,
        })
        .collect();
    if let Some(odd) = found
        .iter()
        .find(|found| found.is_another(rows))
        .filter(|_| !anyway)
    {
        return Err(refused(RefusedTable::new(
            format!("most cells of column {:?} are no numbers", odd.name),
            "is it another column? If the cells are meant, and missing: --anyway; texts have categories",
        )));
    }
    Ok(TableSum {
        cells: tally.finish(),
        rows,
        found,
    })
}

#[cfg(test)]
mod tests;
