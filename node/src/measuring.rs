//! The project's own measuring: benchmark machinery, simulated trials and the papers' tables.

pub mod baseline;
mod failed;
pub mod gossip_trial;
pub(super) mod iterations;
pub(super) mod local_run;
pub(super) mod papers;
pub(super) mod relays;
pub mod synthetic;
pub mod training_trial;
pub mod trial;
