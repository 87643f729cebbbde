//! What a plan's claims range over: the tolerated class as executions and coalitions.

pub mod claim_error;
pub mod coalitions;
pub mod faults;
pub mod gossip;
pub mod random;
pub mod setting;
