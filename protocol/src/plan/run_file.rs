//! The run file: what a person asks for, in TOML.

pub mod accept_by;
pub mod check;
mod complete;
pub mod error;
pub mod exchange_noise;
pub mod fraction;
pub mod gossip;
mod gossip_case;
pub mod handed_over;
pub mod limits;
pub mod method;
pub mod outer;
pub mod parsed;
pub mod problem;
pub mod raw;
pub mod settings;
pub mod template;
pub mod tensors;
pub mod training;
