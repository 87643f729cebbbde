//! What parties compute and say: the mixing of INCA on an exact lattice, gathering, settling and publishing, and the wire format.
//!
//! Nothing here does I/O, reads a clock or draws randomness of its own: time and randomness are arguments. A driver (a node, the
//! simulator, a test) feeds the machine of a [`run`] one input, drains the outputs until "wait", and feeds the next.
//!
//! - [`lattice`], [`noise`], [`injection`], [`payload`], [`mixing`]: one party's arithmetic, exact; generic, so that the accountant runs it too.
//! - [`run_file`], [`peers`], [`graph`], [`schedule`], [`plan`], [`defaults`]: what a person asks for, and the checked plan.
//! - [`gathering`], [`exchange`], [`agreement`], [`run`]: a phase is a machine of its own; the parent forwards.
//! - [`averaging`], [`dissemination`]: averaging over the public graph, in place of the flood of finals.
//! - [`message`], [`flood`], [`log`], [`wire`]: what is said, who signed it, and its bytes.
//! - [`ask`]: questions between peers outside of any run.
//! - [`simulator`], [`invariants`]: all nodes in one thread, and what must hold at every event.
//!
//! # What holds
//! - Mass and weight are conserved to the bit at every event; after roll-back the finals of the agreed set add up to its parties'
//!   noisy values, to the bit.
//! - A share is counted at most once, by its sender or by its receiver.
//! - Two nodes that say `agreed` name the same set and hold the same bits; where finals are averaged, means that are as near as the plan says if nobody
//!   lied, and else as near as sums of them can show: [`dissemination::sketch`] says how near that is.
//! - No final leaves before the gate has passed the agreed logs, and no share before the plan is marked as spent.
//! - Nothing that a peer sends is an error, a panic, or kept without a bound that the plan gives.
//! - Types that hold inputs, noise, shares or keys print none of it.
//!
//! # What is absent
//! The gate itself (it is the accountant's; the machine asks for it), transport, files, clocks, and gossip averaging of values themselves.

pub mod agreement;
pub mod ask;
pub mod averaging;
pub mod commitment;
pub mod defaults;
pub mod dissemination;
pub mod exchange;
pub mod flood;
pub mod gathering;
pub mod graph;
pub mod injection;
pub mod invariants;
pub mod lattice;
pub mod lines;
pub mod log;
pub mod message;
pub mod mixing;
pub mod noise;
pub mod payload;
pub mod peers;
pub mod plan;
mod public_draw;
pub mod run;
pub mod run_file;
pub mod schedule;
pub mod sensitivity;
pub mod simulator;
pub mod ticket;
pub mod time;
pub mod wire;
