//! The two swarms: which peers may connect, over which security, and which connections there are.

pub(super) mod build;
pub(super) mod driver;
mod faults;
mod guest;
mod ports;
