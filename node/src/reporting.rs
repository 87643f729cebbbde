//! Speaking with people: failures, reports, tables, progress, logs, output.

pub mod date;
pub mod escaped;
pub mod failure;
pub mod input_file;
pub mod logging;
pub mod output;
pub mod output_file;
pub mod process;
pub mod progress;
pub mod report;
pub mod screen;
pub mod sentences;
pub mod table;
