//! `undertone node`: a daemon that an operator leaves running. It takes runs, keeps to its policy and to a budget, and answers a local API.

pub mod api;
pub mod config;
pub mod ledger;
pub mod refusal;
pub mod runs;
pub mod service;
pub mod state;
pub mod status;
