//! The undertone node: carries the protocol over libp2p, and is the command line.

pub mod account_command;
pub mod benchmark;
pub mod cli;
pub mod clipping;
pub mod driver;
pub mod events;
pub mod failure;
pub mod identity;
pub mod identity_command;
pub mod input;
pub mod join;
pub mod local;
pub mod logging;
pub mod network;
pub mod plan_command;
pub mod process;
pub mod progress;
pub mod quote;
pub mod receipt;
pub mod result;
pub mod signals;
pub mod simulate;
pub mod spent;
pub mod synthetic;
pub mod table;
pub mod vector_file;
