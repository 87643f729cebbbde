//! The daemon's clients: `submit`, `accept`, `decline`, `status`, `schedule`, `watch`,
//! `result`, `withdraw`, `peers revoke`, `peers revoked`.
//! They know nothing but the API.

mod connection;
mod daemon;
mod digest;
mod endpoint;
pub mod keys;
pub mod result;
pub mod schedule;
mod show;
pub mod status;
pub mod stream;
pub mod submit;
mod vector;
