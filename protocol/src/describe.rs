//! Descriptive statistics of a table, from one private sum: how a row becomes a vector, and what a
//! sum of such vectors says of every column.
//!
//! - [`columns`]: the table's description as a run file writes it, complete.
//! - [`root`]: the square root of prefix sums, by which bins travel where quantiles are wanted.
//! - [`faults`]: faults of a description, with their repairs.
//! - [`layout`]: which coordinates belong to which statistic, their scales, and Δ.
//! - [`cells`]: the cells of a row, as its file has them, and how they are read.
//! - [`row`]: the vector of a row.
//! - [`tally`]: the sum of many rows on a lattice, each rounded towards zero by itself.
//! - [`released`]: a released sum, divided among the statistics, with its noise.
//! - [`figures`]: everything that is shown: estimates with the noise of each.
//! - [`chance`]: quantiles and tails of the normal and the χ² distribution.
//!
//! A row's vector is a list of *blocks*, one a statistic. The *diameter* of a block is the most
//! that two rows differ by in it, in Euclidean length; its *norm* is the most that one row has.
//! Each block is multiplied by a scale such that blocks of the same share have the same diameter.
//! With groups, or where nobody says how many rows there are, the vector has a *slot* for each
//! group: a row fills its own, and the others are 0.
//!
//! Figures are each node's own, computed in f64 from the agreed sums. Nothing here knows of
//! parties, noise sources or messages.

pub mod cells;
pub mod chance;
pub mod columns;
pub mod faults;
pub mod figures;
pub mod layout;
pub mod released;
pub mod root;
pub mod row;
pub mod tally;

#[cfg(test)]
mod tests;
