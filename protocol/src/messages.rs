//! Messages: notices and logs, their signatures, and their bytes.

pub mod ask;
pub mod commitment;
pub mod held_kind;
pub mod lobby;
pub mod log;
pub mod notice;
mod placed_log;
pub mod question;
pub mod revocation;
pub mod row;
pub mod set;
pub mod signature;
pub mod signing;
pub mod stage;
#[cfg(test)]
pub(crate) mod testing;
pub mod wire;
