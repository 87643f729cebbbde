//! The undertone node: carries the protocol over libp2p, and is the command line.
//!
//! ```
//! use undertone::vector_file::formats::read;
//!
//! # let folder = tempfile::tempdir().expect("a folder");
//! let table = folder.path().join("aarhus.csv");
//! std::fs::write(&table, "age,weight\n40,70.5\n52,81\n")?;
//! // Tables and vectors are read and checked before a plan is spent.
//! let read_back = read(&table).expect("a table of numbers");
//! assert_eq!(read_back.layout.shape, [2, 2]);
//! assert_eq!(read_back.values, [40.0, 70.5, 52.0, 81.0]);
//! // What cannot be used is refused by its place, never by its value.
//! std::fs::write(&table, "age,weight\n40,heavy\n")?;
//! assert!(read(&table).is_err());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ```text
//! commands     the command line, one file or folder a command
//! measuring    benchmark machinery and the papers' tables
//! daemon       runs one after another and at once, budgets, the HTTP API
//! party        taking part in a run: identity, input, driver, receipt
//! planning     making and checking plans, and what they promise in words
//! vector_file  .npy, .csv, .json, .safetensors
//! network      two swarms, streams, frames
//! reporting    failures, reports, tables, progress, logs, output
//! ```
//!
//! A folder imports only folders that stand below it, and no two files import each other.

// Printing macros panic where the reader has left: `reporting::output`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod commands;
pub mod daemon;
#[cfg(test)]
mod forking;
pub mod measuring;
pub mod network;
pub mod party;
pub mod planning;
pub mod reporting;
pub mod table_file;
#[cfg(test)]
mod testing;
pub mod vector_file;
