//! The undertone node: carries the protocol over libp2p, and is the command line.
//!
//! ```text
//! commands     the command line, one file or folder a command
//! measuring    benchmark machinery and the papers' tables
//! daemon       runs one after another and at once, budgets, the HTTP API
//! party        taking part in a run: identity, input, driver, receipt
//! planning     making and checking plans, and what they promise in words
//! vector_file  .npy, .csv, .json, .safetensors
//! network      two swarms, streams, frames
//! telling      failures, reports, tables, progress, logs, output
//! ```
//!
//! A folder imports only folders that stand below it, and no two files import each other.

// Printing macros panic where the reader has left: `telling::output`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod commands;
pub mod daemon;
#[cfg(test)]
mod forking;
pub mod measuring;
pub mod network;
pub mod party;
pub mod planning;
pub mod telling;
pub mod vector_file;
