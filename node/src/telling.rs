//! Speaking with people: failures, reports, tables, progress, logs, output.

pub mod failure;
pub mod logging;
pub mod output;
pub mod process;
pub mod progress;
pub mod report;
pub mod table;
