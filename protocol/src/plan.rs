//! The run file that a person writes, and the checked, calibrated plan that parties agree on.

pub mod calibration;
pub mod checked;
pub mod claim;
pub mod computation;
pub mod defaults;
pub mod draft;
pub mod error;
pub mod exchange;
mod file;
pub mod hex;
pub(crate) mod known_signatures;
pub mod lines;
mod links;
pub mod named_graph;
pub mod peers;
mod precomputed_noise;
pub mod quorum;
mod range;
pub mod run_file;
pub mod scheduled;
pub mod sensitivity;
pub mod shares;
pub mod slices;
mod traffic;
pub mod values;
