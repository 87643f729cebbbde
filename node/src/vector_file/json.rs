//! `.json`: nested arrays of numbers, all of one shape.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use thiserror::Error as Reason;

use crate::vector_file::layout::{Format, Layout};
use crate::vector_file::unusable::UnusableFile;
use crate::vector_file::vector::VectorFile;

/// Our choice, numpy's old limit: no array has more axes.
const MOST_AXES: usize = 32;

pub(super) fn read(mut file: File) -> Result<VectorFile, UnusableFile> {
    let mut bytes = vec![];
    file.read_to_end(&mut bytes)
        .map_err(|e| UnusableFile::new(format!("cannot be read: {e}"), "copy it again"))?;
    // A byte order mark, which some editors write, says nothing (RFC 8259, section 8.1).
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut reading = Reading::default();
    let mut parser = serde_json::Deserializer::from_slice(text);
    let read = Element {
        reading: &mut reading,
        depth: 0,
    }
    .deserialize(&mut parser)
    .and_then(|()| parser.end());
    read.map_err(|e| unusable(&e, text, &reading))?;
    let shape: Vec<usize> = reading.lengths.iter().map(|length| length.unwrap_or(0)).collect();
    if reading.values.is_empty() {
        return Err(UnusableFile::new(
            "it has no numbers",
            "at least one row and one coordinate are needed",
        ));
    }
    Ok(VectorFile {
        layout: Layout {
            shape,
            format: Format::Json,
        },
        values: reading.values,
    })
}

const ARRAYS: &str = "it must hold numbers in nested arrays, each of one length, such as [[1, 2], [3, 4]]";

/// Says why a text is none of numbers in arrays, and what to do.
fn unusable(error: &serde_json::Error, text: &[u8], reading: &Reading) -> UnusableFile {
    if let Some(word) = word_at(text, error.line(), error.column()).filter(|_| !error.is_data()) {
        let word = word.trim_start_matches(['-', '+']);
        let value = match word.to_ascii_lowercase().as_str() {
            "nan" | "na" | "none" => Some(f64::NAN),
            "inf" | "infinity" => Some(f64::INFINITY),
            _ => None,
        };
        if let Some(value) = value {
            return UnusableFile::not_finite(reading.place(), value);
        }
    }
    let what = error.to_string();
    let hint = match &what {
        what if what.contains("is an object") => {
            "write the values alone, as nested arrays; with pandas: table.to_json(path, orient='values')"
        }
        what if what.contains("is null") => "a missing value has no mean: fill it, or leave its row out",
        what if what.contains("is a text") => "write numbers without quotation marks",
        _ => ARRAYS,
    };
    UnusableFile::new(what, hint)
}

/// The word that a parser stopped at; line and column are counted from 1.
fn word_at(text: &[u8], line: usize, column: usize) -> Option<&str> {
    let line = text.split(|&byte| byte == b'\n').nth(line.checked_sub(1)?)?;
    let ends = |byte: &u8| matches!(byte, b',' | b'[' | b']') || byte.is_ascii_whitespace();
    let before = &line[..column.checked_sub(1)?.min(line.len())];
    let begin = before.iter().rposition(ends).map_or(0, |at| at + 1);
    let word = line[begin..].split(ends).next()?;
    std::str::from_utf8(word).ok()
}

/// The reasons why numbers in arrays are no array of numbers; never a number of them.
#[derive(Debug, Reason)]
enum Ragged {
    #[error("ragged: {place} is a number where others are arrays")]
    Number { place: String },
    #[error("ragged: {place} is an array where others are numbers")]
    Array { place: String },
    #[error("ragged: {place} has {length} elements where others have {expected}")]
    Length {
        place: String,
        length: usize,
        expected: usize,
    },
    #[error("{place} is not finite")]
    NotFinite { place: String },
    #[error("more than {MOST_AXES} nested arrays")]
    TooDeep,
}

/// The values that were read so far. The shape is that of the first elements; all others must
/// agree.
#[derive(Default)]
struct Reading {
    values: Vec<f64>,
    /// The depth of numbers, once there was one.
    numbers_at: Option<usize>,
    /// Length of the arrays of each depth, once one was closed.
    lengths: Vec<Option<usize>>,
    /// The indices of the element that is being read.
    path: Vec<usize>,
}

impl Reading {
    fn place(&self) -> String {
        if self.path.is_empty() {
            "the whole".into()
        } else {
            self.path.iter().map(|index| format!("[{index}]")).collect()
        }
    }

    fn number(&mut self, depth: usize, value: f64) -> Result<(), Ragged> {
        if *self.numbers_at.get_or_insert(depth) != depth || self.lengths.len() > depth {
            return Err(Ragged::Number { place: self.place() });
        }
        if !value.is_finite() {
            return Err(Ragged::NotFinite { place: self.place() });
        }
        self.values.push(value);
        Ok(())
    }

    fn open(&mut self, depth: usize) -> Result<(), Ragged> {
        if self.numbers_at.is_some_and(|at| depth >= at) {
            return Err(Ragged::Array { place: self.place() });
        }
        if depth >= MOST_AXES {
            return Err(Ragged::TooDeep);
        }
        if self.lengths.len() == depth {
            self.lengths.push(None);
        }
        Ok(())
    }

    fn close(&mut self, depth: usize, length: usize) -> Result<(), Ragged> {
        let expected = *self.lengths[depth].get_or_insert(length);
        if expected != length {
            return Err(Ragged::Length {
                place: self.place(),
                length,
                expected,
            });
        }
        Ok(())
    }
}

/// A number or an array, read at a depth of arrays.
struct Element<'a> {
    reading: &'a mut Reading,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Element<'_> {
    /// The place, not the word: that is private.
    fn refuse<E: Error>(&self, what: &str) -> Result<(), E> {
        Err(E::custom(format!(
            "{} is {what}, not a number",
            self.reading.place()
        )))
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers in nested arrays")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.reading.number(self.depth, value).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.refuse("a text")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.refuse("true or false")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.refuse("null")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.refuse("an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        let (reading, depth) = (self.reading, self.depth);
        reading.open(depth).map_err(A::Error::custom)?;
        reading.path.push(0);
        let mut length = 0;
        while sequence
            .next_element_seed(Element {
                reading: &mut *reading,
                depth: depth + 1,
            })?
            .is_some()
        {
            length += 1;
            *reading.path.last_mut().expect("pushed above") = length;
        }
        reading.path.pop();
        reading.close(depth, length).map_err(A::Error::custom)
    }
}

pub(super) fn write(mut out: impl Write, shape: &[usize], values: &[f64]) -> std::io::Result<()> {
    write_level(&mut out, shape, values)?;
    out.write_all(b"\n")
}

fn write_level(out: &mut impl Write, shape: &[usize], values: &[f64]) -> std::io::Result<()> {
    let Some((&length, inner)) = shape.split_first() else {
        return Ok(serde_json::to_writer(out, &values[0])?);
    };
    out.write_all(b"[")?;
    for (index, part) in values.chunks(values.len() / length.max(1)).enumerate() {
        out.write_all(if index > 0 { b", " } else { b"" })?;
        write_level(out, inner, part)?;
    }
    out.write_all(b"]")
}
