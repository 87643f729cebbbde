//! `.csv`: rows of numbers, all of one length, under an optional row of names.

mod cell;
mod names;

use std::fs::File;
use std::io::{Read, Seek, Write};

use csv::{QuoteStyle, Reader, ReaderBuilder, StringRecord, Trim, WriterBuilder};

use crate::vector_file::csv::cell::number;
use crate::vector_file::expected::Expected;
use crate::vector_file::layout::{Format, Layout};
use crate::vector_file::unusable::UnusableFile;
use crate::vector_file::vector::VectorFile;

/// A first row without a single number is taken as the names of the columns. One of numbers is,
/// too, where the plan has those names, or where it alone is in quotation marks, as programs write
/// names that are numbers.
pub(super) fn read(mut file: File, expected: Expected<'_>) -> Result<VectorFile, UnusableFile> {
    let quoted = quotes_names(&mut file)?;
    let mut reader = reader().from_reader(file);
    let mut record = StringRecord::new();
    let mut table = TableRows::default();
    while next(&mut reader, &mut record, table.rows)? {
        // The first row sets the number of columns, and may name them.
        if table.rows == 0 && table.header.is_none() {
            table.columns = record.len();
            let words = record.iter().all(|cell| cell.parse::<f64>().is_err())
                && record.iter().any(|cell| !cell.is_empty());
            if words || quoted || expected.names(record.iter()) {
                table.header = Some(names::of(&record)?);
                continue;
            }
            table.numbered = names::are_column_numbers(&record);
        }
        table.add(&record)?;
    }
    table.finish(expected)
}

fn reader() -> ReaderBuilder {
    let mut builder = ReaderBuilder::new();
    builder
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .buffer_capacity(1 << 18);
    builder
}

/// Bytes of a file's start that are looked at for the marks of its first two rows. Our choice: more
/// than names of a thousand columns take.
const FIRST_ROWS: u64 = 1 << 16;

/// Whether all cells of the first row are in quotation marks, and none of the second is.
fn quotes_names(file: &mut File) -> Result<bool, UnusableFile> {
    let unreadable = |e: std::io::Error| UnusableFile::new(format!("cannot be read: {e}"), "copy it again");
    let mut start = vec![];
    let read = Read::by_ref(file).take(FIRST_ROWS).read_to_end(&mut start);
    let rewound = file.rewind();
    read.and(rewound.map(|()| 0)).map_err(unreadable)?;
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
    let mut reader = reader().quoting(false).from_reader(start);
    let mut rows = reader.byte_records().map_while(Result::ok);
    let (Some(first), Some(second)) = (rows.next(), rows.next()) else {
        return Ok(false);
    };
    let marked = |cell: &[u8]| cell.len() > 1 && cell.starts_with(b"\"") && cell.ends_with(b"\"");
    Ok(first.iter().all(marked) && !second.iter().any(|cell| cell.starts_with(b"\"")))
}

/// The rows of a table that were read so far.
#[derive(Default)]
struct TableRows {
    header: Option<Vec<String>>,
    /// Whether its first row, which was taken for numbers, is 0, 1, … as columns are numbered.
    numbered: bool,
    values: Vec<f64>,
    rows: usize,
    columns: usize,
}

impl TableRows {
    fn add(&mut self, record: &StringRecord) -> Result<(), UnusableFile> {
        self.rows += 1;
        let line = record.position().map_or(0, ::csv::Position::line);
        if record.len() != self.columns {
            let what = format!(
                "ragged: row {} (line {line}) has {} columns, the first row has {}",
                self.rows,
                record.len(),
                self.columns
            );
            return Err(UnusableFile::new(what, self.hint_of_ragged(record)));
        }
        for (column, cell) in record.iter().enumerate() {
            let number = number(cell).map_err(|what| {
                let of_last = self.columns > 1 && column + 1 == self.columns;
                // Where, not what: what stands there is private. So may be what stands in the first
                // row, which only looks like names.
                UnusableFile::new(
                    format!("row {} (line {line}), column {} is {what}", self.rows, column + 1),
                    what.hint(of_last),
                )
            })?;
            self.values.push(number);
        }
        Ok(())
    }

    fn hint_of_ragged(&self, record: &StringRecord) -> &'static str {
        let (found, planned) = (record.len(), self.columns);
        match found.checked_sub(planned) {
            Some(1) if record[found - 1].is_empty() => {
                "does each row end with a comma, and the first one not? leave it out"
            }
            Some(1) if self.header.is_some() && planned > 1 => {
                "if rows begin with a number or a name of their own, leave that out (pandas: index=False, \
                 R: row.names=FALSE); if numbers have a decimal comma, write 3.14"
            }
            Some(_) if found > planned => {
                "every row needs the same number of columns; a comma within a number separates columns: \
                 write 3.14, and 1234 instead of 1,234"
            }
            _ => "every row needs the same number of columns",
        }
    }

    fn finish(self, expected: Expected<'_>) -> Result<VectorFile, UnusableFile> {
        if self.rows == 0 {
            return Err(UnusableFile::new(
                "it has no rows of numbers",
                "at least one row is needed",
            ));
        }
        // A row below it makes it a name; a plan's count makes it data again.
        if self.numbered && self.rows > 1 && expected.numbers != Some(self.values.len()) {
            return Err(names::column_numbers());
        }
        Ok(VectorFile {
            layout: Layout {
                shape: vec![self.rows, self.columns],
                format: Format::Csv { header: self.header },
            },
            values: self.values,
        })
    }
}

fn next(reader: &mut Reader<File>, record: &mut StringRecord, rows: usize) -> Result<bool, UnusableFile> {
    reader.read_record(record).map_err(|e| match e.kind() {
        ::csv::ErrorKind::Utf8 { .. } => {
            UnusableFile::new(format!("row {} is not UTF-8 text", rows + 1), "save it as UTF-8")
        }
        ::csv::ErrorKind::Io(e) => UnusableFile::new(format!("cannot be read: {e}"), "copy it again"),
        // The library's other errors are about wrong uses of it; their text has no values.
        _ => UnusableFile::new(
            format!("row {} cannot be read", rows + 1),
            "save it as plain comma-separated numbers",
        ),
    })
}

/// One line for each of the last axis.
pub(super) fn write(
    mut out: impl Write,
    header: Option<&[String]>,
    shape: &[usize],
    values: &[f64],
) -> std::io::Result<()> {
    let columns = shape.last().copied().unwrap_or(1).max(1);
    if let Some(header) = header {
        // Names that are numbers are read as names again.
        let quotes = match header.iter().any(|name| name.parse::<f64>().is_ok()) {
            true => QuoteStyle::Always,
            false => QuoteStyle::Necessary,
        };
        let mut writer = WriterBuilder::new().quote_style(quotes).from_writer(&mut out);
        writer.write_record(header)?;
        writer.flush()?;
    }
    let mut writer = WriterBuilder::new().flexible(true).from_writer(out);
    for row in values.chunks(columns) {
        // Shortest text that reads back as the same number.
        writer.write_record(row.iter().map(|value| format!("{value:?}")))?;
    }
    writer.flush()
}
