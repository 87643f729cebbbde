//! Everything that is shown of a released sum. Each node computes it for itself, at no further
//! cost: the sum is all that was released.
//!
//! An estimate has two errors, which are never mixed: `noise`, which the plan accounts for, and
//! `sampling`, as if rows were drawn independently from a population.

pub mod comparison;
pub mod counts;
pub mod covariance;
pub mod estimate;
pub mod groups;
pub mod mean;
pub mod quantiles;
pub mod survival;
pub mod table;
