//! Releases: archives that are installed without Rust, the same bytes whenever they are made.
//!
//! Times are those of the commit, entries have one order and one owner. What is packed is in
//! [`release`].

pub mod crates;
pub mod deb;
pub mod image;
pub mod program;
pub mod release;
pub mod tar;
pub mod tools;

pub use tools::{TOOLS, Tool};
