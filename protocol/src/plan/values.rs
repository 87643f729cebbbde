//! The values that a key of a configuration file takes. Help pages and the JSON Schemas of the
//! files are made of them.

use std::fmt;
use std::ops::Bound;

/// The values that a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// True or false.
    Flag,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number, both bounds included; `u64::MAX`: there is no largest one.
    Whole(u64, u64),
    /// A finite number between two bounds.
    Number(Bound<f64>, Bound<f64>),
    /// Text that this regular expression matches as a whole, and its form for people.
    Text(&'static str, &'static str),
    /// A list of such values, at least so many.
    List(&'static Values, usize),
    /// A table with such a value for each name; the names are the file's own.
    Named(&'static Values),
    /// A table with these keys and no others. A key that begins with "?" may be left out.
    Table(&'static [(&'static str, Values)]),
    /// A value of one of these kinds.
    OneOf(&'static [Values]),
}

/// Any finite number.
pub const ANY_NUMBER: Values = Values::Number(Bound::Unbounded, Bound::Unbounded);
/// A number above 0.
pub const POSITIVE: Values = Values::Number(Bound::Excluded(0.0), Bound::Unbounded);
/// A number from 0 on.
pub const NOT_NEGATIVE: Values = Values::Number(Bound::Included(0.0), Bound::Unbounded);
/// A number above 0 and below 1: a chance.
pub const CHANCE: Values = Values::Number(Bound::Excluded(0.0), Bound::Excluded(1.0));
/// A number from 0 to below 1: a share that remains.
pub const BELOW_ONE: Values = Values::Number(Bound::Included(0.0), Bound::Excluded(1.0));
/// Text without a rule of its own, such as a path.
pub const ANY_TEXT: Values = Values::Text("^.+$", "text");

impl Values {
    /// The key of a table's entry, and whether it may be left out.
    pub fn entry(key: &'static str) -> (&'static str, bool) {
        match key.strip_prefix('?') {
            Some(key) => (key, true),
            None => (key, false),
        }
    }
}

/// The values in words, as a help page lists them: `1 to 63`, `above 0`, `"any", "static"`,
/// `{ kind = "l2", radius }`.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Flag => f.write_str("true, false"),
            Values::Words(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                f.write_str(&quoted.join(", "))
            }
            Values::Whole(least, u64::MAX) => write!(f, "whole, {least} or more"),
            Values::Whole(least, most) if least == most => write!(f, "{least}"),
            Values::Whole(least, most) => write!(f, "{least} to {most}"),
            Values::Number(low, high) => interval(f, *low, *high),
            Values::Text(_, form) => f.write_str(form),
            Values::List(of, _) => write!(f, "[{of}, …]"),
            Values::Named(of) => write!(f, "{{ name = {of}, … }}"),
            Values::Table(entries) => table(f, entries),
            Values::OneOf(kinds) => {
                let kinds: Vec<String> = kinds.iter().map(Values::to_string).collect();
                f.write_str(&kinds.join(" or "))
            }
        }
    }
}

fn interval(f: &mut fmt::Formatter<'_>, low: Bound<f64>, high: Bound<f64>) -> fmt::Result {
    match (low, high) {
        (Bound::Unbounded, Bound::Unbounded) => f.write_str("a number"),
        (Bound::Included(low), Bound::Unbounded) => write!(f, "{low} or above"),
        (Bound::Excluded(low), Bound::Unbounded) => write!(f, "above {low}"),
        (Bound::Included(low), Bound::Included(high)) => write!(f, "{low} to {high}"),
        (Bound::Included(low), Bound::Excluded(high)) => write!(f, "{low} to below {high}"),
        (Bound::Excluded(low), Bound::Included(high)) => write!(f, "above {low}, at most {high}"),
        (Bound::Excluded(low), Bound::Excluded(high)) => write!(f, "above {low}, below {high}"),
        (Bound::Unbounded, Bound::Included(high)) => write!(f, "at most {high}"),
        (Bound::Unbounded, Bound::Excluded(high)) => write!(f, "below {high}"),
    }
}

/// A table by its keys; the one word that an entry allows stands beside its key, since it tells
/// the tables of a key apart.
fn table(f: &mut fmt::Formatter<'_>, entries: &[(&'static str, Values)]) -> fmt::Result {
    let entry = |(key, values): &(&'static str, Values)| match (Values::entry(key), values) {
        ((key, _), Values::Words([word])) => format!("{key} = \"{word}\""),
        ((key, true), _) => format!("[{key}]"),
        ((key, false), _) => key.to_owned(),
    };
    let entries: Vec<String> = entries.iter().map(entry).collect();
    write!(f, "{{ {} }}", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_said_as_a_file_writes_them() {
        let table = Values::Table(&[
            ("kind", Values::Words(&["paper"])),
            ("rounds", POSITIVE),
            ("?weight", CHANCE),
        ]);
        for (values, said) in [
            (
                Values::OneOf(&[Values::Words(&["auto"]), Values::Whole(1, 63)]),
                r#""auto" or 1 to 63"#,
            ),
            (Values::Whole(0, u64::MAX), "whole, 0 or more"),
            (BELOW_ONE, "0 to below 1"),
            (
                Values::Number(Bound::Excluded(0.0), Bound::Included(1.0)),
                "above 0, at most 1",
            ),
            (
                Values::Named(&Values::List(&Values::Whole(1, 9), 1)),
                "{ name = [1 to 9, …], … }",
            ),
            (table, r#"{ kind = "paper", rounds, [weight] }"#),
        ] {
            assert_eq!(values.to_string(), said);
        }
    }
}
