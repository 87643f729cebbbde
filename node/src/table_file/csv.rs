//! `.csv`: rows of cells under a row of names.

use std::fs::File;

use csv::{ByteRecord, Reader, ReaderBuilder};
use undertone_protocol::describe::cells::RowCell;

use crate::table_file::refused::RefusedTable;

/// Separators of columns that are none here.
const OTHERS: [(char, &str); 3] = [(';', "semicolons"), ('\t', "tabs"), ('|', "bars (|)")];

const NOT_UTF_8: &str =
    "save it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE, or \"CSV UTF-8\" in the spreadsheet";

/// Calls `each` with the cells of every row that are of these columns, in their order.
pub(super) fn read(
    file: File,
    names: &[&str],
    mut each: impl FnMut(&[RowCell<'_>]) -> Result<(), RefusedTable>,
) -> Result<(), RefusedTable> {
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).buffer_capacity(1 << 18);
    let mut reader = builder.from_reader(file);
    let mut record = ByteRecord::new();
    if !next(&mut reader, &mut record, 0)? {
        return Err(RefusedTable::new(
            "it has no rows",
            "its first row names the columns",
        ));
    }
    let (columns, places) = (record.len(), places(&record, names)?);
    let mut row = 0;
    let mut cells = vec![RowCell::Empty; 0];
    while next(&mut reader, &mut record, row)? {
        row += 1;
        if record.len() != columns {
            let line = record.position().map_or(0, csv::Position::line);
            return Err(RefusedTable::new(
                format!(
                    "ragged: row {row} (line {line}) has {} columns, the row of names has {columns}",
                    record.len()
                ),
                "every row needs the same number of columns; put a text with a comma in it into quotation \
                 marks, and write 3.14 for 3,14",
            ));
        }
        // Of this row alone: what a cell borrows is gone with the next.
        let mut of_row = std::mem::take(&mut cells);
        of_row.clear();
        for &place in &places {
            let text = std::str::from_utf8(&record[place]);
            let text = text.map_err(|_| {
                RefusedTable::new(
                    format!("row {row}, column {} is not UTF-8 text", place + 1),
                    NOT_UTF_8,
                )
            })?;
            of_row.push(RowCell::Text(text));
        }
        each(&of_row)?;
        cells = emptied(of_row);
    }
    Ok(())
}

/// The room of a list whose cells are gone.
fn emptied(mut cells: Vec<RowCell<'_>>) -> Vec<RowCell<'static>> {
    cells.clear();
    cells.into_iter().map(|_| RowCell::Empty).collect()
}

/// Where the columns of these names stand.
fn places(header: &ByteRecord, names: &[&str]) -> Result<Vec<usize>, RefusedTable> {
    let utf_8 = |cell: &[u8]| match std::str::from_utf8(cell) {
        Ok(name) => Ok(name.trim().trim_start_matches('\u{feff}').to_owned()),
        Err(_) => Err(RefusedTable::new("its row of names is not UTF-8 text", NOT_UTF_8)),
    };
    let found = header.iter().map(utf_8).collect::<Result<Vec<String>, _>>()?;
    if let [whole] = &found[..]
        && let Some((_, separator)) = OTHERS.iter().find(|(text, _)| whole.contains(*text))
    {
        return Err(RefusedTable::new(
            format!("{separator} separate its columns"),
            "put commas between columns; with pandas: pandas.read_csv(path, sep=None, engine='python')\
             .to_csv('table.csv', index=False)",
        ));
    }
    let place = |name: &&str| {
        let mut all = found.iter().enumerate().filter(|(_, known)| known == name);
        match (all.next(), all.next()) {
            (None, _) => Err(RefusedTable::no_column(name)),
            (Some(_), Some(_)) => Err(RefusedTable::twice(name)),
            (Some((place, _)), None) => Ok(place),
        }
    };
    names.iter().map(place).collect()
}

fn next(reader: &mut Reader<File>, record: &mut ByteRecord, rows: u64) -> Result<bool, RefusedTable> {
    reader.read_byte_record(record).map_err(|e| match e.kind() {
        csv::ErrorKind::Io(e) => RefusedTable::new(format!("cannot be read: {e}"), "copy it again"),
        // The library's other errors are about wrong uses of it; their text has no values.
        _ => RefusedTable::new(format!("row {} cannot be read", rows + 1), "save it as plain CSV"),
    })
}
