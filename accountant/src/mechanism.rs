//! The differences between the mechanisms: one enum, one file each.

pub mod chosen;
pub mod flow;
pub mod inca;
pub mod pairwise;
pub mod places;
pub mod ppsc;
pub mod rules;
pub mod unfit;
