//! The proofs of privacy: statement, hypotheses, proof, where in the code each hypothesis is
//! enforced, and which test fails without it. What the protocol does stands in its own pages,
//! [`undertone_protocol::design`].

#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("../docs/roll_back.md")]
pub mod roll_back {}

#[doc = include_str!("../docs/connectivity.md")]
pub mod connectivity {}

#[doc = include_str!("../docs/static_draws.md")]
pub mod static_draws {}

#[doc = include_str!("../docs/composition.md")]
pub mod composition {}

#[doc = include_str!("../docs/rounding.md")]
pub mod rounding {}

#[doc = include_str!("../docs/papers.md")]
pub mod papers {}
