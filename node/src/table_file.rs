//! Tables of typed cells, found by the names of their columns: `.csv` with a row of names, and
//! `.json` with a list of objects.
//!
//! Whatever a cell holds is data: a word where a number should be is missing, and no error. Only
//! the shape of a table is refused.

mod bare_words;
mod csv;
mod json;
pub mod reading;
mod refused;
