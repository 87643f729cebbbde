//! Executions: the events of a run, their file formats, and an adversary's view of them.

pub mod adversary;
pub mod checked;
pub mod error;
pub mod exchanges;
pub mod file;
pub mod gossip;
pub mod gossip_file;
mod masks_file;
pub mod ppsc_file;
pub(super) mod raw;
pub mod seen;
pub mod settled;
pub mod share;
pub mod theorem_r;
pub mod trace;
pub mod usable;
