//! What a plan's claims range over: the tolerated class as executions and coalitions, and its
//! worst.

pub mod claim_error;
pub mod coalitions;
pub mod faults;
pub mod gossip;
pub mod random;
pub(super) mod screen;
pub mod setting;
pub mod worst;
