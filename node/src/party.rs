//! Taking part in a run: identity, input, the driver of the machine, receipt.

pub mod agreed_outcome;
mod circle_noise;
pub mod clipping;
pub mod coefficients;
pub mod contributor;
pub mod driver;
pub mod events;
pub mod figures_file;
pub(crate) mod gossiped;
pub mod identity;
pub mod input;
mod iteration_times;
pub mod journal;
pub mod links;
pub mod marks;
pub mod model_file;
#[cfg(test)]
mod noise_tests;
pub mod part;
pub mod plan_digest;
pub mod plan_map;
pub mod program;
pub mod randomness;
pub mod reaching;
pub mod reading_back;
pub mod receipt;
pub mod room;
pub mod rows;
mod run_clock;
mod sealing;
pub mod shelf;
pub mod signals;
pub mod silence;
mod solver;
pub mod spent;
pub mod trained;
pub mod trainee;
