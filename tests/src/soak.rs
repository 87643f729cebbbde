//! Runs of every mechanism with faults and liars, by seed: who has the result, and who has none and
//! why.

pub mod fault;
pub mod mechanism;
pub mod simulated;
pub mod summary;
