//! One release: the parent machine that owns one machine a phase.

pub mod backlog;
mod commons;
pub mod interface;
pub mod machine;
pub mod outcome;
