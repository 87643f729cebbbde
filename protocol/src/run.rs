//! One release: the parent machine that owns one machine a phase.

pub mod backlog;
mod commons;
mod confirmation;
pub mod interface;
mod item_rules;
pub mod machine;
mod members;
pub mod outcome;
mod record;
mod seals;
mod unsealing;
mod waking;
