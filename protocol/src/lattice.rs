//! Exact numbers: states as vectors of integers or of residues, what is injected into them, and how
//! noise is laid onto their grids.

pub mod average;
mod gossip_grid;
pub mod grid;
mod handed_over;
pub mod injection;
pub mod packed;
pub mod payload;
pub mod residue;
pub mod sampling;
mod uniform;
pub mod vector;
pub mod width;
mod words;
