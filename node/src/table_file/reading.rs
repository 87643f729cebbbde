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

/// How a table is read of which most cells of a column of numbers are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MostlyWords {
    /// It is refused.
    Refused,
    /// It is refused, by a command that has a flag for it.
    RefusedUnlessAsked,
    /// Its cells are missing.
    Taken,
}

impl MostlyWords {
    /// As a command's `--anyway` says.
    pub fn by_flag(anyway: bool) -> Self {
        match anyway {
            true => MostlyWords::Taken,
            false => MostlyWords::RefusedUnlessAsked,
        }
    }

    /// The repair of a refusal.
    fn hint(self) -> &'static str {
        match self {
            MostlyWords::RefusedUnlessAsked => {
                "is it another column? If the cells are meant, and missing: --anyway; texts have categories"
            }
            MostlyWords::Refused | MostlyWords::Taken => {
                "is it another column? If the cells are meant, and missing: leave them empty; texts have categories"
            }
        }
    }
}

/// Reads a table, and adds up the vectors of its rows on a lattice of this cell, a power of two.
///
/// # Errors
/// It is no table of these columns (exit 7); no value is reported.
pub fn read(
    path: &Path,
    described: &Description,
    (cell, words): (f64, MostlyWords),
) -> Result<TableSum, Failure> {
    let refused = |fault: RefusedTable| {
        Failure::input(format!("{}: {}", path.display(), fault.what))
            .field("--input")
            .hint(fault.hint)
    };
    let table = add_up(path, described, cell).map_err(refused)?;
    let another = table.found.iter().find(|found| found.is_another(table.rows));
    match another.filter(|_| words != MostlyWords::Taken) {
        Some(odd) => Err(refused(RefusedTable::new(
            format!("most cells of column {:?} are no numbers", odd.name),
            words.hint(),
        ))),
        None => Ok(table),
    }
}

/// Reads the rows as the file's extension says, and adds them up.
fn add_up(path: &Path, described: &Description, cell: f64) -> Result<TableSum, RefusedTable> {
    let names = described.names();
    let of_numbers: Vec<bool> = names
        .iter()
        .map(|name| {
            let column = described.named(name);
            column.is_none_or(|column| column.categories.is_none())
        })
        .collect();
    let mut tally = RowTally::new(RowEncoder::of(described), cell);
    let add = |cells: &[RowCell<'_>]| {
        refuse_decimal_commas(cells, (&names, &of_numbers), tally.rows() + 1)?;
        tally.add(cells);
        Ok(())
    };
    let file = || {
        input_file::open(path).map_err(|e| {
            let hint = "name a file that exists and that you can read";
            RefusedTable::new(format!("cannot be opened: {e}"), hint)
        })
    };
    match extension_of(path).as_deref() {
        Some("csv") => csv::read(file()?, &names, add)?,
        Some("json") => json::read(file()?, &names, add)?,
        other => {
            let hint = match other.filter(|other| !formats::EXTENSIONS.contains(other)) {
                Some(other) => formats::hint_for(other),
                None => "with pandas: table.to_csv('table.csv', index=False)".to_owned(),
            };
            let what = "statistics are of a .csv with a row of names, or of a .json with a list of objects";
            return Err(RefusedTable::new(what, hint));
        }
    }
    let columns = names.iter().zip(&of_numbers).zip(tally.counts());
    let found = columns.map(|((name, &is_of_numbers), &counts)| FoundInColumn {
        name: (*name).to_owned(),
        bounds: described
            .named(name)
            .and_then(|column| column.bounds())
            .map(|(low, high)| format!("[{low}, {high}]")),
        is_of_numbers,
        counts,
    });
    Ok(TableSum {
        found: found.collect(),
        rows: tally.rows(),
        cells: tally.finish(),
    })
}

/// A comma in a number would be read as no number, silently: such a table was written for people of
/// one country.
fn refuse_decimal_commas(
    cells: &[RowCell<'_>],
    (names, of_numbers): (&[&str], &[bool]),
    row: u64,
) -> Result<(), RefusedTable> {
    let comma = |(cell, of_numbers): (&RowCell<'_>, &bool)| match cell {
        RowCell::Text(text) if *of_numbers => text.contains(',') && has_decimal_comma(text),
        _ => false,
    };
    match cells.iter().zip(of_numbers).position(comma) {
        None => Ok(()),
        Some(at) => Err(RefusedTable::new(
            format!(
                "row {row}, column {:?} is a number with a decimal comma",
                names[at]
            ),
            "write 3.14; with pandas: pandas.read_csv(path, decimal=',').to_csv('table.csv', index=False)",
        )),
    }
}

#[cfg(test)]
mod tests;
