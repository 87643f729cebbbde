//! One release: the parent machine that owns one machine a phase.

pub mod backlog;
mod config;
mod context;
mod early;
mod early_slices;
pub mod interface;
mod item_rules;
pub mod machine;
pub mod outcome;
mod phase;
mod public_state;
mod seals;
mod waking;
