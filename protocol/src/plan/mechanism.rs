//! Everything of a plan that differs between mechanisms: a file each.
//!
//! A kind is written in a run file; its [`Rules`](rules::Rules) say which settings, graphs and
//! schedules go with it. With the number of rounds they make the [`Planned`](rules::Planned)
//! mechanism that a plan keeps, which says what its lattice has to carry, and by which
//! [way](ways_in::Mechanism) value and noise get into a party's states. So a new mechanism is a
//! file here with both, one in [`mixing`](crate::mixing::mechanism) with what a party does, and a
//! line where each is chosen:
//! [`MechanismKind::rules`](super::run_file::settings::MechanismKind::rules) and
//! [`Mechanism`](ways_in::Mechanism).

pub mod family;
mod gossip;
mod inca;
mod pairwise;
mod ppsc;
pub mod rules;
mod sums_of_all;
pub mod ways_in;
