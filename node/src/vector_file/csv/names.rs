//! The first row of a table as the names of its columns.

use csv::StringRecord;

use crate::vector_file::csv::cell::{Separator, has_decimal_comma};
use crate::vector_file::unusable::UnusableFile;

/// The longest name, in bytes: that of a plan's column.
const LONGEST: usize = 256;

/// How a column of row numbers or labels is left out.
const WITHOUT_LABELS: &str = "if it numbers or labels the rows, as pandas and R write them, it is no data: \
                              table.to_csv(path, index=False), or row.names=FALSE; else give it a name";

/// Returns the first row as names. A row that shows another kind of table is refused. (No name is
/// revealed: a first row of words may be data.)
pub(super) fn of(record: &StringRecord) -> Result<Vec<String>, UnusableFile> {
    let refused = |what: String, hint: &str| Err(UnusableFile::new(what, hint));
    if record[0].starts_with("sep=") {
        return refused(
            "its first line (sep=…) is for a spreadsheet".into(),
            "leave that line out, and put commas between columns",
        );
    }
    if record[0].starts_with("# ") {
        return refused(
            "its first line is a comment (#…)".into(),
            "names stand there plainly; with numpy: numpy.savetxt(path, table, delimiter=',', header='a,b', \
             comments='')",
        );
    }
    if let (1, Some(separator)) = (record.len(), Separator::of_first_row(&record[0])) {
        return refused(format!("{separator} separate its columns"), separator.hint());
    }
    if record.iter().any(has_decimal_comma) {
        return refused(
            "its first row has numbers with a decimal comma".into(),
            Separator::Semicolons.hint(),
        );
    }
    // pandas calls a column without a name so when it reads it.
    if record.len() > 1 && (record[0].is_empty() || record[0].starts_with("Unnamed: 0")) {
        return refused("column 1 has no name".into(), WITHOUT_LABELS);
    }
    let last = record.len() - 1;
    for (column, name) in record.iter().enumerate() {
        let number = column + 1;
        if name.is_empty() && column == last {
            let hint = "does each line end with a comma? leave it out; else give the column a name";
            return refused(format!("column {number} has no name"), hint);
        }
        if name.is_empty() {
            return refused(format!("column {number} has no name"), "give it a name");
        }
        if name.len() > LONGEST || name.contains(char::is_control) {
            return refused(
                format!(
                    "the name of column {number} is longer than {LONGEST} bytes, or has control characters"
                ),
                "give it a short name on one line",
            );
        }
        if let Some(earlier) = record.iter().take(column).position(|earlier| earlier == name) {
            return refused(
                format!("columns {} and {number} have the same name", earlier + 1),
                "give each column a name of its own: columns are told apart by it",
            );
        }
    }
    Ok(record.iter().map(str::to_owned).collect())
}

/// Whether a row is 0, 1, 2, …, which is how columns without names are numbered.
pub(super) fn are_column_numbers(record: &StringRecord) -> bool {
    record
        .iter()
        .enumerate()
        .all(|(column, cell)| cell == column.to_string())
}

/// Returns the refusal of a first row of column numbers, which may be data or not.
pub(super) fn column_numbers() -> UnusableFile {
    UnusableFile::new(
        "its first row is 0, 1, … as columns without names are numbered: it is not known whether it is data",
        "if it is none, leave it out: table.to_csv(path, index=False, header=False); if it is data, put a row \
         of names above it",
    )
}
