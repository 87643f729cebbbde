//! Making plans, telling what they promise, and checking them as a member would.

mod circles;
pub mod files;
pub mod foundations;
pub mod gossip;
pub mod instead;
pub mod make;
pub mod mechanism;
pub mod plot;
pub mod policy;
mod printed;
pub mod quote;
pub mod template;
mod trained;
pub mod worth;
