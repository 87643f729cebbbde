//! All nodes in one thread, with planted faults, and what must hold at every event.

mod checks;
pub mod cluster;
pub mod direct;
pub mod equivocator;
pub mod invariants;
pub(crate) mod ledger;
mod network;
pub mod scenario;
mod stream;
mod trainees;
