//! `.json`: a list of objects, one a row, whose keys are the names of columns.

use std::fmt;
use std::fs::File;
use std::io::BufReader;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use undertone_protocol::describe::cells::RowCell;

use crate::table_file::bare_words::QuotedWords;
use crate::table_file::refused::RefusedTable;

/// A cell that owns its text.
#[derive(Default)]
enum OwnedCell {
    #[default]
    Empty,
    Number(f64),
    Text(String),
}

impl OwnedCell {
    fn borrowed(&self) -> RowCell<'_> {
        match self {
            OwnedCell::Empty => RowCell::Empty,
            OwnedCell::Number(number) => RowCell::Number(*number),
            OwnedCell::Text(text) => RowCell::Text(text),
        }
    }
}

/// Calls `each` with the cells of every object that are of these names, in their order. A key that
/// an object lacks is a cell that is missing.
pub(super) fn read(
    file: File,
    names: &[&str],
    each: impl FnMut(&[RowCell<'_>]) -> Result<(), RefusedTable>,
) -> Result<(), RefusedTable> {
    let mut rows = RowsOfObjects {
        names,
        each,
        seen: vec![false; names.len()],
        rows: 0,
        refused: None,
    };
    let words = QuotedWords::new(BufReader::with_capacity(1 << 18, file));
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 18, words));
    let read = rows.read(&mut deserializer).and_then(|()| deserializer.end());
    if let Some(refused) = rows.refused {
        return Err(refused);
    }
    // Where, and what kind of error; never the text, which is private.
    read.map_err(|e| {
        RefusedTable::new(
            format!("line {}: it is no list of objects of plain cells", e.line()),
            "write [{\"age\": 57, \"arm\": \"new\"}, …]; with pandas: \
             table.to_json('table.json', orient='records')",
        )
    })?;
    match rows.seen.iter().position(|seen| !seen) {
        Some(at) if rows.rows > 0 => Err(RefusedTable::no_column(names[at])),
        _ => Ok(()),
    }
}

struct RowsOfObjects<'a, F> {
    names: &'a [&'a str],
    each: F,
    /// Which names some object has.
    seen: Vec<bool>,
    rows: u64,
    refused: Option<RefusedTable>,
}

impl<F: FnMut(&[RowCell<'_>]) -> Result<(), RefusedTable>> RowsOfObjects<'_, F> {
    fn read<'de, D: Deserializer<'de>>(&mut self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(ListVisitor(self))
    }
}

struct ListVisitor<'r, 'a, F>(&'r mut RowsOfObjects<'a, F>);

impl<'de, F: FnMut(&[RowCell<'_>]) -> Result<(), RefusedTable>> Visitor<'de> for ListVisitor<'_, '_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let rows = self.0;
        while let Some(cells) = seq.next_element_seed(ObjectSeed {
            names: rows.names,
            seen: &mut rows.seen,
        })? {
            rows.rows += 1;
            let borrowed: Vec<RowCell<'_>> = cells.iter().map(OwnedCell::borrowed).collect();
            if let Err(refused) = (rows.each)(&borrowed) {
                rows.refused = Some(refused);
                return Err(de::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

struct ObjectSeed<'r> {
    names: &'r [&'r str],
    seen: &'r mut [bool],
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = Vec<OwnedCell>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<OwnedCell>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = Vec<OwnedCell>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of plain cells")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<OwnedCell>, A::Error> {
        let mut cells: Vec<OwnedCell> = self.names.iter().map(|_| OwnedCell::Empty).collect();
        while let Some(key) = map.next_key::<String>()? {
            match self.names.iter().position(|name| *name == key.trim()) {
                Some(at) => {
                    cells[at] = map.next_value_seed(CellSeed)?;
                    self.seen[at] = true;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(cells)
    }
}

struct CellSeed;

impl<'de> DeserializeSeed<'de> for CellSeed {
    type Value = OwnedCell;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<OwnedCell, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CellSeed {
    type Value = OwnedCell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cell")
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<OwnedCell, E> {
        Ok(OwnedCell::Text(truth.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<OwnedCell, E> {
        Ok(OwnedCell::Number(number as f64))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<OwnedCell, E> {
        Ok(OwnedCell::Number(number as f64))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<OwnedCell, E> {
        Ok(OwnedCell::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OwnedCell, E> {
        Ok(OwnedCell::Text(text.to_owned()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<OwnedCell, E> {
        Ok(OwnedCell::Empty)
    }

    // What is no plain cell says something, and no number.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OwnedCell, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(OwnedCell::Text("[]".to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OwnedCell, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(OwnedCell::Text("{}".to_owned()))
    }
}
