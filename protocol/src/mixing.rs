//! The private phase of a run: one party's arithmetic, one file a mechanism, and the exchange of
//! shares around it.

pub mod exchange;
pub mod finals;
pub mod gossip;
mod inca;
mod injector;
pub mod machine;
mod masks;
pub mod mechanism;
pub mod noise;
pub mod noisy;
pub mod offence;
pub mod parameters;
pub mod portion;
mod ppsc;
pub mod precomputed;
mod state;
pub mod ticket;
