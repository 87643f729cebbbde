//! Making plans, saying what they promise, and checking them as a member would.

pub mod alternatives;
mod as_in_paper;
mod bounded;
pub mod brief;
mod circles;
pub mod deadlines;
pub mod described;
pub mod files;
pub mod foundations;
pub mod gain;
pub mod gossip;
pub mod make;
pub mod mechanism;
pub mod plot;
pub mod policy;
pub mod quote;
mod relays;
pub mod revoked;
pub mod scheduled;
mod spreading;
pub mod template;
mod trained;
pub mod utility;
