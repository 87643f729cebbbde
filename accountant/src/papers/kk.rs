//! The figures of Koskela and Kulkarni, newest and first version.

pub(super) mod epsilon;
mod graphs;
pub(super) mod pairs;
