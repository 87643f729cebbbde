//! A cell of a table: its number, or why it has none.

use std::fmt;

use thiserror::Error;

/// The reasons why a cell has no mean; never its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum WrongCell {
    #[error("not a number (NaN)")]
    Nan,
    #[error("infinite")]
    Infinite,
    #[error("empty")]
    Empty,
    #[error("not a number, but a word for a missing value")]
    Missing,
    #[error("not a number")]
    Word,
    #[error("a number with a unit or a symbol")]
    Unit,
    #[error("a number with a decimal comma")]
    DecimalComma,
    #[error("a number with a comma, which may separate thousands or decimals")]
    ThousandsOrDecimals,
    #[error("a number in which thousands are separated")]
    Thousands,
    #[error("several numbers between {0}")]
    Several(Separator),
}

/// A separator of columns in place of commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Semicolons,
    Tabs,
    Bars,
    Spaces,
}

impl fmt::Display for Separator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Separator::Semicolons => "semicolons",
            Separator::Tabs => "tabs",
            Separator::Bars => "bars (|)",
            Separator::Spaces => "spaces",
        })
    }
}

impl Separator {
    const ALL: [Separator; 4] = [
        Separator::Semicolons,
        Separator::Tabs,
        Separator::Bars,
        Separator::Spaces,
    ];

    fn splits(self, text: char) -> bool {
        match self {
            Separator::Semicolons => text == ';',
            Separator::Tabs => text == '\t',
            Separator::Bars => text == '|',
            Separator::Spaces => text.is_whitespace(),
        }
    }

    /// Returns the separator of the columns in a first row of one cell. Names have spaces of their
    /// own, numbers have none.
    pub(super) fn of_first_row(cell: &str) -> Option<Self> {
        let of_names = Self::ALL[..3]
            .iter()
            .copied()
            .find(|separator| cell.contains(|text: char| separator.splits(text)));
        of_names.or_else(|| Self::of_numbers(cell))
    }

    /// Returns the separator of the numbers of a cell.
    fn of_numbers(cell: &str) -> Option<Self> {
        let numbers = |separator: &Self| {
            let parts: Vec<&str> = cell
                .split(|text: char| separator.splits(text))
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .collect();
            let number = |part: &&str| part.parse::<f64>().is_ok() || has_decimal_comma(part);
            // A part of a row that a decimal comma has cut.
            parts.len() > 1 && parts.iter().filter(|part| number(part)).count() * 2 >= parts.len()
        };
        Self::ALL.into_iter().find(numbers)
    }

    /// How such a table becomes one with commas.
    pub(super) fn hint(self) -> &'static str {
        match self {
            // What a spreadsheet writes in much of Europe.
            Separator::Semicolons => AS_COMMAS,
            Separator::Tabs => {
                "put commas between columns; with pandas: \
                 pandas.read_csv(path, sep='\\t').to_csv(path, index=False) (sep='\\t' is a tab)"
            }
            Separator::Bars => {
                "put commas between columns; with pandas: \
                 pandas.read_csv(path, sep='|').to_csv(path, index=False)"
            }
            Separator::Spaces => {
                "put commas between columns; with numpy: numpy.savetxt(path, table, delimiter=','); with \
                 pandas: pandas.read_csv(path, sep=r'\\s+').to_csv(path, index=False)"
            }
        }
    }
}

/// How a table that a spreadsheet wrote in much of Europe becomes one of numbers.
const AS_COMMAS: &str = "write 3.14 and put commas between columns; with pandas: \
                         pandas.read_csv(path, sep=';', decimal=',').to_csv(path, index=False)";
/// Points to the task that counts missing cells, so that no row has to be left out.
const DESCRIBE_IT: &str = "leaving rows out biases a mean: take the table as it is, and missing cells are counted; \
                           in a run file (--run): task = \"describe\", and for each column [[describe.column]], \
                           name = \"age\", low = 18, high = 100 (undertone help describe); or fill the cell, \
                           or leave its row out";
const THOUSANDS: &str = "write 1234567.8 without separators: pandas.read_csv(path, thousands=',').to_csv(path, \
                         index=False); if it is several numbers, put commas between columns";
const EITHER: &str = "if the comma separates thousands, write 1234: pandas.read_csv(path, thousands=','); if \
                      decimals, write 1.234: pandas.read_csv(path, decimal=','); then .to_csv(path, index=False)";

impl WrongCell {
    /// Says what to do; `last`: the cell is the last of a row of several.
    pub(super) fn hint(self, last: bool) -> &'static str {
        match self {
            WrongCell::Several(separator) => separator.hint(),
            WrongCell::DecimalComma => AS_COMMAS,
            WrongCell::Thousands => THOUSANDS,
            WrongCell::ThousandsOrDecimals => EITHER,
            WrongCell::Unit => "write the plain number, without %, currency or unit",
            WrongCell::Empty if last => {
                "does each row end with a comma? leave it out; else fill the cell, or leave its row out"
            }
            WrongCell::Empty | WrongCell::Missing | WrongCell::Nan | WrongCell::Infinite => DESCRIBE_IT,
            WrongCell::Word => {
                "if the row is of names, none of them may be a number; else write a number there, or leave the row out"
            }
        }
    }
}

/// The number in a cell, which is finite.
pub(super) fn number(cell: &str) -> Result<f64, WrongCell> {
    match cell.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(number) if number.is_nan() => Err(WrongCell::Nan),
        Ok(_) => Err(WrongCell::Infinite),
        Err(_) => Err(wrong(cell)),
    }
}

fn wrong(cell: &str) -> WrongCell {
    const MISSING: [&str; 9] = ["na", "n/a", "#n/a", "null", "none", "-", "--", ".", "?"];
    let plain = |text: &str| text.parse::<f64>().is_ok() || has_decimal_comma(text);
    let signs = ['%', '$', '€', '£', '¥', '°'];
    let bare = cell.trim_matches(|text: char| signs.contains(&text) || text.is_whitespace());
    match cell {
        "" => WrongCell::Empty,
        _ if MISSING.contains(&cell.to_ascii_lowercase().as_str()) => WrongCell::Missing,
        _ if thousands(cell) == Some(true) => WrongCell::Thousands,
        _ if thousands(cell) == Some(false) => WrongCell::ThousandsOrDecimals,
        _ if has_decimal_comma(cell) => WrongCell::DecimalComma,
        _ if bare.len() < cell.len() && plain(bare) => WrongCell::Unit,
        _ => match Separator::of_numbers(cell) {
            Some(separator) => WrongCell::Several(separator),
            None if cell.contains(';') => WrongCell::Several(Separator::Semicolons),
            None if cell.contains('\t') => WrongCell::Several(Separator::Tabs),
            None => WrongCell::Word,
        },
    }
}

/// Whether a text is a number with one comma in place of its point.
pub(super) fn has_decimal_comma(cell: &str) -> bool {
    cell.contains(',') && cell.replacen(',', ".", 1).parse::<f64>().is_ok()
}

/// Whether groups of three digits are separated in a number: surely, or perhaps, since one comma
/// may stand for the point.
fn thousands(cell: &str) -> Option<bool> {
    let digits = cell.trim_start_matches(['-', '+']);
    let separators = |text: char| matches!(text, ',' | '.' | '\'' | '’' | '_' | ' ' | '\u{a0}' | '\u{202f}');
    let mut found = digits.chars().filter(|text| separators(*text));
    let separator = found.next()?;
    // What follows the last group: decimals, after another sign.
    let decimal = digits
        .rfind([',', '.'])
        .filter(|at| !digits[*at..].starts_with(separator));
    let (whole, decimals) = decimal.map_or((digits, ""), |at| (&digits[..at], &digits[at + 1..]));
    let mut groups = whole.split(separator);
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let leads = |group: &str| (1..=3).contains(&group.len()) && !group.starts_with('0') && all_digits(group);
    let first = groups.next().is_some_and(leads);
    let (mut others, mut fine) = (0, first && all_digits(decimals));
    for group in groups {
        others += 1;
        fine &= group.len() == 3 && all_digits(group);
    }
    if !fine || others == 0 {
        return None;
    }
    Some(separator != ',' || others > 1 || decimal.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_is_no_number_is_described() {
        use Separator::*;
        use WrongCell::*;
        for (cell, wrong) in [
            ("", Empty),
            ("nan", Nan),
            ("-inf", Infinite),
            ("1e999", Infinite),
            ("NA", Missing),
            ("n/a", Missing),
            ("?", Missing),
            ("word", Word),
            ("12abc", Word),
            ("2020-01-31", Word),
            ("12:30", Word),
            ("a b", Word),
            ("5 %", Unit),
            ("$12.50", Unit),
            ("€5", Unit),
            ("3,14", DecimalComma),
            ("-0,5", DecimalComma),
            ("1234,5", DecimalComma),
            ("0,125", DecimalComma),
            ("1,234", ThousandsOrDecimals),
            ("-12,345", ThousandsOrDecimals),
            ("1,234,567", Thousands),
            ("1,234.5", Thousands),
            ("1.234,56", Thousands),
            ("1.234.567", Thousands),
            ("1 234", Thousands),
            ("1\u{a0}234,5", Thousands),
            ("1'234.5", Thousands),
            ("1_234", Thousands),
            ("1;2", Several(Semicolons)),
            ("1,5;2,5", Several(Semicolons)),
            ("5;2", Several(Semicolons)),
            ("1;x", Several(Semicolons)),
            ("20\t30", Several(Tabs)),
            ("5\t2", Several(Tabs)),
            ("20|30", Several(Bars)),
            (" 20 | 30 ", Several(Bars)),
            ("20 30 40", Several(Spaces)),
            ("1.0e+00 2.5e-01", Several(Spaces)),
        ] {
            assert_eq!(number(cell), Err(wrong), "{cell:?}");
            for last in [false, true] {
                assert!(!wrong.hint(last).is_empty());
            }
        }
        for (cell, value) in [
            ("1", 1.0),
            ("+.5", 0.5),
            ("1e3", 1000.0),
            ("1.", 1.0),
            ("-0", -0.0),
        ] {
            assert_eq!(number(cell), Ok(value));
        }
    }

    #[test]
    fn names_are_separated_by_no_spaces() {
        assert_eq!(Separator::of_first_row("body mass"), None);
        assert_eq!(Separator::of_first_row("1.0 2.5"), Some(Separator::Spaces));
        for (cell, separator) in [
            ("age;bmi", Separator::Semicolons),
            ("age\tbmi", Separator::Tabs),
            ("age|bmi", Separator::Bars),
        ] {
            assert_eq!(Separator::of_first_row(cell), Some(separator));
        }
    }
}
