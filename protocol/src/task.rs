//! The tasks, of one release or of many: one file a task, above the run of one release.

mod clock;
pub mod gossip;
pub mod machine;
pub mod mean;
mod nothing;
pub mod outer;
pub(crate) mod released;
pub mod training;

#[cfg(test)]
pub(crate) mod tests;
