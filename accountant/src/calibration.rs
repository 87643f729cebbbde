//! Noise, rounds, claims and remedies for a draft.

pub mod by_circles;
mod by_connectivity;
mod by_draw;
pub mod by_own_noise;
pub mod calibrate;
pub mod claims;
pub mod error;
mod gaussian;
pub mod gossip;
pub mod limits;
pub mod optimum;
pub mod outlook;
pub mod printed;
pub(crate) mod releases;
pub mod remedy;
pub(crate) mod sealed;
pub mod utility;
