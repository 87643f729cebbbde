//! Keys that are not to be trusted any more.
//!
//! A statement revokes a key (`undertone_protocol::messages::revocation`). A daemon keeps one of
//! each id that its peer list has, heeds it at once, and sees to it that every other daemon of the
//! group hears it.
//!
//! ```text
//! store      the statements, in memory and on disk
//! heeding    what a statement ends: runs that have cost nothing, offers, connections
//! turns      whom to ask next
//! spreading  asks the other daemons which statements they hold, and tells them those they lack
//! ```
//!
//! Links come and go: daemons have none to each other while no run goes on. So a daemon asks every
//! listed peer when it starts, and again each time that it takes a statement or another list, until
//! that peer has answered; and each peer of which a link comes up, whoever dialled. Two daemons of
//! which one has started, or heard something, since they last spoke have then the same statements;
//! nobody is dialled for nothing.

mod heeding;
mod spreading;
pub mod store;
#[cfg(test)]
mod tests;
mod turns;
