//! Groups that meet again: runs that all members propose in turn and accept unasked, at times that
//! their configurations have in common.

mod accepting;
pub(in crate::daemon) mod attending;
pub mod every;
pub(in crate::daemon) mod file_stamp;
pub(in crate::daemon) mod forecasts;
mod keeping;
mod looking_ahead;
mod proposing;
pub mod schedule_status;
mod showing;
pub(in crate::daemon) mod timetable;

#[cfg(test)]
mod tests;
