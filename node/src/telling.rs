//! Speaking with people: failures, reports, tables, progress, logs.

pub mod failure;
pub mod logging;
pub mod process;
pub mod progress;
pub mod report;
pub mod table;
