//! The run file: what a person asks for, in TOML.

pub mod accept_by;
mod complete;
pub mod error;
pub mod fraction;
pub mod limits;
pub mod parsed;
pub mod problem;
pub mod raw;
pub mod records;
pub mod settings;
pub mod tensors;
