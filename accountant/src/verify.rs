//! Any node recomputes a plan's claims before it joins, and refuses a plan whose claims do not
//! hold.

pub mod check;
mod claim;
mod clearance;
pub mod error;
