//! The invariants of every run, one checker each. Each is tested on a made-up bad state.
//!
//! 1. [`mass`]: the states, and shares on the way, add up to what was injected, to the bit, at
//!    every event; after roll-back the finals of the agreed set add up to its members' x̃.
//! 2. [`weight`]: the same with weights.
//! 3. [`agreed`]: all nodes that say `agreed` name the same set and hold the same bits; all that
//!    publish computed their gate from the same logs.
//! 4. [`clear`]: nothing that was sealed travels in the clear, and no final before its phase.
//! 5. [`gated`]: no final, nor a digest of one, leaves unless the gate has named its author. (That
//!    the claimed ε is never below the realised one is the accountant's to check.)
//! 6. [`once`]: nobody sends two bodies under one id, signs two items, lists or votes of one stage,
//!    or starts a plan twice.
//! 7. [`trace`]: the same seed gives the same trace.
//! 8. [`entered`]: averaging enters each party's gated final once, bit for bit, also when it begins
//!    anew.
//! 9. [`ordered`]: shares are those of the schedule, each party's in the order of their rounds,
//!    which with PPSC makes network rounds the same as one iteration after the other. (That no γ is
//!    used twice is the simulator's to check: it draws them.)
//! 10. [`accused`]: nobody but a liar is said to have sent what it may not.
//! 11. [`begun`]: all who begin with one START name the same set; nobody of the set of a later
//!     START has begun with an earlier one.

pub mod accused;
pub mod agreed;
pub mod begun;
pub mod clear;
pub mod entered;
pub mod gated;
pub mod mass;
pub mod once;
pub mod opened;
pub mod ordered;
pub mod trace;
pub mod violation;
pub mod weight;
