//! The reason why a file cannot be averaged.

use std::fmt;

/// The fault of a file, and what to do; never a value of it.
#[derive(Debug)]
pub(super) struct UnusableFile {
    pub(super) what: String,
    pub(super) hint: String,
}

impl UnusableFile {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        UnusableFile {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// A number that has no mean; `place` is where it stands.
    pub(super) fn not_finite(place: impl fmt::Display, value: f64) -> Self {
        let what = if value.is_nan() {
            "not a number (NaN)"
        } else {
            "infinite"
        };
        UnusableFile::new(
            format!("{place} is {what}"),
            "replace or drop such numbers before averaging",
        )
    }
}
