//! The computations of a run: a file for each task, with its keys and its checks.

pub mod asked;
pub(crate) mod beside;
pub mod choice;
pub mod describe;
pub mod exchange_noise;
pub mod method;
pub mod model;
pub mod recursion;
pub mod rounds;
pub mod sequence;
pub mod stream;
pub mod template;
