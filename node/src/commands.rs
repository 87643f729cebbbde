//! The command line, one file or folder a command.

pub mod account;
pub mod audit;
pub mod backup;
pub mod benchmark;
pub mod cli;
pub mod client;
pub mod doctor;
pub mod example;
pub mod figures;
pub mod help;
pub mod identity;
pub mod join;
pub mod ledger;
pub mod local;
pub mod manual;
mod page;
pub mod plan;
pub mod predict;
pub mod receipt;
pub mod relay;
pub mod schema;
pub mod setup;
mod shown;
pub mod simulate;
pub mod testnet;
pub mod version;
