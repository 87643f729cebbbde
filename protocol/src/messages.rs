//! What is said: notices and logs, who signed them, and their bytes.

pub mod ask;
pub mod commitment;
pub mod log;
pub mod notice;
pub mod question;
pub mod repeats;
pub mod signature;
pub mod signing;
#[cfg(test)]
pub(crate) mod testing;
pub mod wire;
