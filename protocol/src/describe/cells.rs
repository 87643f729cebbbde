//! The cells of a row, as a party's table has them, and how a described column reads them. Nothing
//! that a cell holds is an error: it is a number, a category, `other` or missing.

use std::collections::BTreeMap;

use super::columns::DescribedColumn;

/// A cell of a table. It is private: there is no `Debug` that prints it.
#[derive(Clone, Copy, PartialEq)]
pub enum RowCell<'a> {
    /// Nothing, or JSON's null.
    Empty,
    /// A number, which may be none of finite ones.
    Number(f64),
    /// A text.
    Text(&'a str),
}

/// The number that a text is, by JSON's grammar, a leading plus allowed; true and false are 1 and
/// 0. Too large a number is infinite. `None` where it is none.
pub fn number_of(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("true") {
        return Some(1.0);
    }
    if text.eq_ignore_ascii_case("false") {
        return Some(0.0);
    }
    let unsigned = match text.as_bytes().first()? {
        b'+' | b'-' => &text[1..],
        _ => text,
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(unsigned);
    if whole == 0 || (whole > 1 && unsigned.starts_with('0')) {
        return None;
    }
    let mut rest = &unsigned[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = digits(fraction);
        if length == 0 {
            return None;
        }
        rest = &fraction[length..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let length = digits(exponent);
        if length == 0 {
            return None;
        }
        rest = &exponent[length..];
    }
    if !rest.is_empty() {
        return None;
    }
    // What the grammar has, Rust reads: a plus included.
    text.parse().ok()
}

/// Whether a text is a number with a comma where a point should be.
pub fn has_decimal_comma(text: &str) -> bool {
    let mut halves = text.trim().splitn(2, ',');
    let (Some(whole), Some(fraction)) = (halves.next(), halves.next()) else {
        return false;
    };
    let fractional = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    fractional && number_of(whole).is_some()
}

/// Bits that are equal for equal numbers: −0 is 0.
fn key(number: f64) -> u64 {
    (number + 0.0).to_bits()
}

/// Texts by which cells are looked up; two that are numbers are the same if these are equal.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    texts: BTreeMap<String, usize>,
    numbers: BTreeMap<u64, usize>,
}

impl Texts {
    /// Looks up these texts, trimmed, by their places.
    pub fn of(texts: &[String]) -> Self {
        let mut known = Texts::default();
        for (at, text) in texts.iter().enumerate() {
            let text = text.trim();
            known.texts.entry(text.to_owned()).or_insert(at);
            if let Some(number) = number_of(text) {
                known.numbers.entry(key(number)).or_insert(at);
            }
        }
        known
    }

    /// Returns the place of a text; `None` where it is none of them.
    pub fn text(&self, text: &str) -> Option<usize> {
        let text = text.trim();
        if let Some(&at) = self.texts.get(text) {
            return Some(at);
        }
        match self.numbers.is_empty() {
            true => None,
            false => self.number(number_of(text)?),
        }
    }

    /// Returns the place of a number.
    pub fn number(&self, number: f64) -> Option<usize> {
        self.numbers.get(&key(number)).copied()
    }
}

/// A cell as its column reads it.
#[derive(Clone, Copy, PartialEq)]
pub enum ReadCell {
    /// A finite number, not clipped.
    Number(f64),
    /// The place of a category, from 0; `other` is one more than there are, missing two more.
    Category(usize),
    /// No number: what the table says is missing, or something else.
    Missing {
        /// Whether the table says something.
        is_said: bool,
    },
}

/// How a column's cells are read.
#[derive(Clone, Debug)]
pub struct CellReader {
    missing: Texts,
    categories: Option<(Texts, usize)>,
}

impl CellReader {
    /// The reader of a described column.
    pub fn of(column: &DescribedColumn) -> Self {
        let categories = column.categories.as_deref();
        CellReader {
            missing: Texts::of(&column.missing),
            categories: categories.map(|categories| (Texts::of(categories), categories.len())),
        }
    }

    /// The reader of a column of numbers that is not described.
    pub fn of_numbers() -> Self {
        CellReader {
            missing: Texts::default(),
            categories: None,
        }
    }

    /// Reads a cell.
    pub fn read(&self, cell: RowCell<'_>) -> ReadCell {
        if let (None, RowCell::Text(text)) = (&self.categories, cell) {
            return self.read_number(text);
        }
        let is_missing = match cell {
            RowCell::Empty => true,
            RowCell::Number(number) => number.is_nan() || self.missing.number(number).is_some(),
            RowCell::Text(text) => self.missing.text(text).is_some() || text.trim().is_empty(),
        };
        match (&self.categories, cell) {
            (Some((_, count)), _) if is_missing => ReadCell::Category(count + 1),
            (Some((known, count)), cell) => {
                let found = match cell {
                    RowCell::Empty => None,
                    RowCell::Number(number) => known.number(number),
                    RowCell::Text(text) => known.text(text),
                };
                ReadCell::Category(found.unwrap_or(*count))
            }
            (None, _) if is_missing => ReadCell::Missing { is_said: true },
            (None, cell) => {
                let number = match cell {
                    RowCell::Empty => None,
                    RowCell::Number(number) => Some(number),
                    RowCell::Text(text) => number_of(text),
                };
                match number.filter(|number| number.is_finite()) {
                    Some(number) => ReadCell::Number(number),
                    None => ReadCell::Missing { is_said: false },
                }
            }
        }
    }
}

impl CellReader {
    /// A number's text, which most cells of such a column are: looked up only where some number
    /// means missing.
    fn read_number(&self, text: &str) -> ReadCell {
        match number_of(text) {
            Some(number) if number.is_finite() => match self.missing.number(number) {
                None => ReadCell::Number(number),
                Some(_) => ReadCell::Missing { is_said: true },
            },
            _ => ReadCell::Missing {
                is_said: text.trim().is_empty() || self.missing.text(text).is_some(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_json_with_a_plus_and_truths() {
        let read = [
            ("1", 1.0),
            (" -0.5 ", -0.5),
            ("+2e3", 2000.0),
            ("0", 0.0),
            ("1E-2", 0.01),
            ("True", 1.0),
            ("false", 0.0),
            ("1e400", f64::INFINITY),
        ];
        for (text, number) in read {
            assert_eq!(number_of(text), Some(number), "{text}");
        }
        for text in [
            "", "01", ".5", "1.", "1e", "0x10", "inf", "nan", "1,5", "1 2", "--1", "+", "٣",
        ] {
            assert_eq!(number_of(text), None, "{text}");
        }
        assert!(has_decimal_comma("12,5") && has_decimal_comma("-0,25"));
        assert!(!has_decimal_comma("a,5") && !has_decimal_comma("12.5") && !has_decimal_comma("1,000,000"));
    }

    fn column(categories: Option<&[&str]>) -> CellReader {
        let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        CellReader::of(&DescribedColumn {
            categories: categories.map(texts),
            missing: texts(&["", "NA", "-9"]),
            ..DescribedColumn::default()
        })
    }

    #[test]
    fn a_category_is_found_as_a_text_or_as_a_number() {
        let reader = column(Some(&["1", "two", "01"]));
        let of = |cell| match reader.read(cell) {
            ReadCell::Category(at) => at,
            _ => 99,
        };
        let texts = [
            ("1", 0),
            ("1.0", 0),
            ("true", 0),
            (" two ", 1),
            ("01", 2),
            ("Two", 3),
            ("NA", 4),
            (" ", 4),
            ("-9.0", 4),
        ];
        for (text, at) in texts {
            assert_eq!(of(RowCell::Text(text)), at, "{text:?}");
        }
        assert_eq!(of(RowCell::Number(1.0)), 0);
        assert_eq!(of(RowCell::Number(-9.0)), 4);
        assert_eq!(of(RowCell::Number(f64::NAN)), 4);
        assert_eq!(of(RowCell::Number(f64::INFINITY)), 3);
        assert_eq!(of(RowCell::Empty), 4);
    }

    #[test]
    fn whatever_is_no_number_is_missing() {
        let reader = column(None);
        for (text, is_said) in [
            ("NA", true),
            ("", true),
            ("x?", false),
            ("1e400", false),
            ("-9", true),
            ("inf", false),
        ] {
            assert!(
                reader.read(RowCell::Text(text)) == ReadCell::Missing { is_said },
                "{text:?}"
            );
        }
        assert!(reader.read(RowCell::Text("+7")) == ReadCell::Number(7.0));
        assert!(reader.read(RowCell::Number(f64::NEG_INFINITY)) == ReadCell::Missing { is_said: false });
    }
}
