//! The daemon's clients: `submit`, `accept`, `decline`, `status`, `watch`, `result`, `withdraw`.
//! They know nothing but the API.

mod connection;
mod daemon;
mod digest;
mod endpoint;
pub mod result;
mod sentences;
mod show;
pub mod status;
pub mod stream;
pub mod submit;
mod vector;
