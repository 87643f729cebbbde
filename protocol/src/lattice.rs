//! Exact numbers: states as vectors of integers, what is injected into them, and how noise is laid
//! onto their grids.

pub mod grid;
mod handed_over;
pub mod injection;
pub mod packed;
pub mod payload;
pub mod sampling;
pub mod vector;
mod words;
