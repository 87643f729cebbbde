//! Sealing of a vector until it is opened for an agreed set: pure functions of given keys, secrets
//! and numbers.
//!
//! A party draws a secret K for each vector that it seals, expands K's own mask and adds it. It
//! deals shares of K to some members, its holders: [`deal`] says what they are and how anybody
//! checks them, [`letter`] how a share reaches a holder past everybody else, [`holders`] who holds.
//! Any t holders make K known; fewer learn nothing of it. Pairs of parties have keys in common,
//! too, which no message carries: [`run_key`] makes them of what READYs name, and [`mask`] expands
//! the masks of both kinds.
//!
//! Curve25519 and the cipher of letters are `snow`'s, groups and scalars `curve25519-dalek`'s; no
//! other room uses either. Randomness is the caller's. Secrets are wiped when they are dropped;
//! what `snow` and the hashes leave of them in memory that they free is not.

pub mod deal;
mod hash;
pub mod holders;
pub mod letter;
pub mod mask;
pub mod pair_masks;
mod resolver;
pub mod run_key;
pub mod slice_tree;
#[cfg(test)]
mod vectors;
