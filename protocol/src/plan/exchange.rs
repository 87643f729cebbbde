//! Exchanges: the ways in which values travel between parties, and the noise that cancels between
//! them; a file for each way.
//!
//! A run file chooses an [`Exchange`](choice::Exchange), whose variant holds its settings alone.
//! Its [`Rules`](rules::Rules) say which graphs and schedules go with it; with the number of rounds
//! they make the [`Planned`](rules::Planned) exchange that a plan keeps, which says what its
//! lattice has to carry, and how value and noise [enter](injector::Mechanism) a party's states. A
//! new exchange is a file here, one in [`mixing`](crate::mixing::mechanism) with what a party does,
//! and a variant of each enum.

mod active_edges;
pub mod choice;
pub mod gossip;
pub mod inca;
pub mod injector;
pub mod pair_masks;
pub mod ppsc;
pub mod rules;
