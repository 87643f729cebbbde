//! Numbers of figures in files, with the digits that mean something.

use serde_json::{Value, json};

/// Digits of a figure in files: more says nothing that noise leaves, and the last ones of f64 may
/// differ between machines.
const DIGITS: usize = 12;

/// Numbers with as many digits as files have.
pub(super) fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| !number.is_u64() && !number.is_i64()) {
            Some(float) => json!(digits(float)),
            None => Value::Number(number),
        },
        Value::Array(entries) => entries.into_iter().map(rounded).collect(),
        Value::Object(entries) => entries
            .into_iter()
            .map(|(key, value)| (key, rounded(value)))
            .collect(),
        other => other,
    }
}

/// A number with as many digits as files have.
pub(super) fn digits(number: f64) -> f64 {
    format!("{number:.*e}", DIGITS - 1).parse().unwrap_or(number)
}

/// A number as text; nothing where it is none.
pub(super) fn text_of(number: f64) -> String {
    match number.is_finite() {
        true => digits(number).to_string(),
        false => String::new(),
    }
}
