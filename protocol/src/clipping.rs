//! A party's contribution within the range that its Δ was derived from, on the plan's lattice.
//!
//! [`contribution::Clipped`] can only be made here. Its constructors clip, so that whatever values
//! they are given, or none, the result lies within the range; and a change of the protected unit
//! moves the result by at most Δ ([`crate::plan::sensitivity`]).

mod ball;
pub mod contribution;
pub mod range;
pub mod row_sum;
