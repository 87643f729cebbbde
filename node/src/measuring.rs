//! The project's own measuring: benchmark machinery, simulated trials and the papers' tables.

pub mod baseline;
mod failed;
pub(super) mod iterations;
pub(super) mod local_run;
pub(super) mod papers;
pub(super) mod relays;
pub mod synthetic;
pub(super) mod tables;
pub mod trial;
pub(super) mod vectors;
