//! The tolerated class that claims are about: its executions and coalitions.

pub mod claim_error;
pub mod coalitions;
pub mod faults;
pub mod gossip;
pub mod random;
pub mod setting;
