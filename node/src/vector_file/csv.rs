//! `.csv`: rows of numbers, all of one length, under an optional row of names.

use std::fs::File;
use std::io::Write;

use csv::{ReaderBuilder, StringRecord, Trim, WriterBuilder};
use thiserror::Error;

use crate::vector_file::layout::{Format, Layout};
use crate::vector_file::unusable::UnusableFile;
use crate::vector_file::vector::VectorFile;

/// A first row without a single number is taken as the names of the columns.
pub(super) fn read(file: File, _bytes: u64) -> Result<VectorFile, UnusableFile> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .buffer_capacity(1 << 18)
        .from_reader(file);
    let mut record = StringRecord::new();
    let (mut header, mut values, mut rows, mut columns) = (None, vec![], 0usize, 0usize);
    while next(&mut reader, &mut record, rows)? {
        // The first row sets the number of columns, and may name them.
        if rows == 0 && header.is_none() {
            columns = record.len();
            if record.iter().all(|cell| cell.parse::<f64>().is_err())
                && record.iter().any(|cell| !cell.is_empty())
            {
                header = Some(names(&record)?);
                continue;
            }
        }
        rows += 1;
        let line = record.position().map_or(0, ::csv::Position::line);
        if record.len() != columns {
            let what = format!(
                "ragged: row {rows} (line {line}) has {} columns, the first row has {columns}",
                record.len()
            );
            return Err(UnusableFile::new(
                what,
                "every row needs the same number of columns",
            ));
        }
        for (column, cell) in record.iter().enumerate() {
            values.push(number(cell).map_err(|what| wrong_cell(what, rows, line, column))?);
        }
    }
    if rows == 0 {
        return Err(UnusableFile::new(
            "it has no rows of numbers",
            "at least one row is needed",
        ));
    }
    Ok(VectorFile {
        layout: Layout {
            shape: vec![rows, columns],
            format: Format::Csv { header },
        },
        values,
    })
}

/// The first row as names. What says that the table is of another kind is refused.
fn names(record: &StringRecord) -> Result<Vec<String>, UnusableFile> {
    if record.len() == 1 && record[0].contains(';') {
        return Err(UnusableFile::new("semicolons separate its columns", AS_COMMAS));
    }
    if record.iter().any(has_decimal_comma) {
        return Err(UnusableFile::new(
            "its first row has numbers with a decimal comma",
            AS_COMMAS,
        ));
    }
    if record.len() > 1 && record[0].is_empty() {
        return Err(UnusableFile::new(
            "column 1 has no name: a table from pandas has its row numbers there, which are no data",
            "leave them out, table.to_csv(path, index=False), or give the column a name",
        ));
    }
    Ok(record.iter().map(str::to_owned).collect())
}

fn next(
    reader: &mut ::csv::Reader<File>,
    record: &mut StringRecord,
    rows: usize,
) -> Result<bool, UnusableFile> {
    reader.read_record(record).map_err(|e| match e.kind() {
        ::csv::ErrorKind::Utf8 { .. } => {
            UnusableFile::new(format!("row {} is not UTF-8 text", rows + 1), "save it as UTF-8")
        }
        ::csv::ErrorKind::Io(e) => UnusableFile::new(format!("cannot be read: {e}"), "copy it again"),
        // The library's other errors are about what it is told to do; their text has no values.
        _ => UnusableFile::new(
            format!("row {} cannot be read", rows + 1),
            "save it as plain comma-separated numbers",
        ),
    })
}

/// How a table that a spreadsheet wrote in much of Europe becomes one of numbers.
const AS_COMMAS: &str = "write 3.14 and put commas between columns; with pandas: \
                         pandas.read_csv(path, sep=';', decimal=',').to_csv(path, index=False)";

/// Why a cell has no mean; never what stands there.
#[derive(Clone, Copy, Debug, Error)]
enum WrongCell {
    #[error("not a number (NaN)")]
    Nan,
    #[error("infinite")]
    Infinite,
    #[error("empty")]
    Empty,
    #[error("not a number")]
    Word,
    #[error("a number with a decimal comma")]
    DecimalComma,
    #[error("several numbers between semicolons")]
    Semicolons,
}

fn has_decimal_comma(cell: &str) -> bool {
    cell.contains(',') && cell.replacen(',', ".", 1).parse::<f64>().is_ok()
}

fn number(cell: &str) -> Result<f64, WrongCell> {
    match cell.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(number) if number.is_nan() => Err(WrongCell::Nan),
        Ok(_) => Err(WrongCell::Infinite),
        Err(_) if cell.is_empty() => Err(WrongCell::Empty),
        Err(_) if has_decimal_comma(cell) => Err(WrongCell::DecimalComma),
        Err(_) if cell.contains(';') => Err(WrongCell::Semicolons),
        Err(_) => Err(WrongCell::Word),
    }
}

/// Says where, not what: what stands there is private. So may be what stands in the first row,
/// which only looks like names.
fn wrong_cell(what: WrongCell, row: usize, line: u64, column: usize) -> UnusableFile {
    let hint = match what {
        WrongCell::DecimalComma | WrongCell::Semicolons => AS_COMMAS,
        _ => "correct or drop that row (a first row of names may not contain numbers)",
    };
    UnusableFile::new(
        format!("row {row} (line {line}), column {} is {what}", column + 1),
        hint,
    )
}

/// One line for each of the last axis.
pub(super) fn write(
    out: impl Write,
    header: Option<&[String]>,
    shape: &[usize],
    values: &[f64],
) -> std::io::Result<()> {
    let mut writer = WriterBuilder::new().flexible(true).from_writer(out);
    let columns = shape.last().copied().unwrap_or(1).max(1);
    if let Some(header) = header {
        writer.write_record(header)?;
    }
    for row in values.chunks(columns) {
        // Shortest text that reads back as the same number.
        writer.write_record(row.iter().map(|value| format!("{value:?}")))?;
    }
    writer.flush()
}
