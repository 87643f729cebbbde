//! A participant, by its place in the plan.

/// A participant, by its place in the plan, from 0.
pub type Party = usize;
