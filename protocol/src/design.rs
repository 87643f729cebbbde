//! The design of the protocol: what its words mean, what its machines do, which rules hold, and
//! which test fails without each of them. The proofs of privacy stand in the accountant's pages.

#[doc = include_str!("../docs/words.md")]
pub mod words {}

#[doc = include_str!("../docs/phases.md")]
pub mod phases {}

#[doc = include_str!("../docs/agreement.md")]
pub mod agreement {}

#[doc = include_str!("../docs/sealing.md")]
pub mod sealing {}

#[doc = include_str!("../docs/slices.md")]
pub mod slices {}

#[doc = include_str!("../docs/masks.md")]
pub mod masks {}

#[doc = include_str!("../docs/streams.md")]
pub mod streams {}

#[doc = include_str!("../docs/training.md")]
pub mod training {}
