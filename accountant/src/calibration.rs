//! Noise, rounds, claims and remedies for a draft.

pub mod claims;
pub mod error;
pub mod gossip;
pub mod limits;
pub mod optimum;
pub(crate) mod releases;
pub mod remedy;
pub(crate) mod sealed;
pub mod utility;
