//! `undertone node`: a daemon that an operator leaves running. It takes runs, one after another and
//! several at once, keeps to its policy and to its data sets' budgets, and answers a local API.
//!
//! Invariants:
//! - Nothing private leaves before it is charged on disk ([`ledger`]), and no final before what it
//!   costs is.
//! - A run that fails ends that run; the daemon goes on.
//! - One daemon at a time has a state directory ([`state`]). A corrupt ledger is refused, never
//!   guessed; a damaged record or receipt is skipped, named, and never served.
//! - What was checked is what is joined: a plan is kept and hashed byte for byte.

mod accepted;
mod admission;
pub mod api;
pub mod backup;
mod charged;
pub mod clock;
pub mod config;
mod contribution;
mod counters;
mod damaged;
pub mod event_log;
mod glance;
mod handed_in;
mod kept;
pub mod keys;
pub mod ledger;
mod listening;
mod mean_file;
mod offers;
mod outcome_file;
mod peers;
pub mod policy;
mod published;
mod reading_back;
pub mod receipts;
mod receiving;
pub mod refusal;
mod reload;
pub mod restored;
mod resuming;
mod retention;
pub mod rounds_desk;
pub mod run_files;
mod run_seconds;
pub mod running;
mod runs;
pub mod schedule;
pub mod service;
mod shared;
pub mod state;
pub mod status;
mod submitting;
mod taking_part;
mod tape;
mod travel;
