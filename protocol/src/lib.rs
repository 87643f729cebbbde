//! The computation and the messages of parties: the mixing of INCA on an exact lattice, gathering,
//! settling and publishing, and the wire format.
//!
//! ```
//! use undertone_protocol::plan::draft::Draft;
//! use undertone_protocol::plan::peers::Peers;
//! use undertone_protocol::plan::run_file::parsed::RunFile;
//!
//! // A run file, checked for four parties. What it leaves out has a default.
//! let file = RunFile::parse("name = \"four\"\n[data]\nshape = [3]\n", 4)?;
//! // With members and graphs it is a draft, to which the accountant adds noise and claims.
//! let draft = Draft::new(file, &Peers::simulated(4)?, 7)?;
//! assert_eq!((draft.parties(), draft.privacy.epsilon), (4, 1.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here does I/O, reads a clock or draws randomness of its own: time and randomness are
//! arguments. A driver (a node, the simulator, a test) feeds the machine of a [`task`] one input,
//! drains the outputs until "wait", and feeds the next.
//!
//! ```text
//! simulator   all nodes in one thread, planted faults, what must hold at every event
//! task        what is computed, in one release or many
//! run         one release: the parent machine of the phases
//! publishing  how finals become one result        mixing     shares, one file a mechanism
//! agreement   who takes part; agreeing on sets of items
//! messages    what is said, who signed it, its bytes
//! sealing     keys, letters, deals and masks: what hides a vector until it is opened
//! clipping    a contribution within its range on the lattice, and one that stands in
//! plan        what was agreed on paper: run file, peers, the checked plan
//! averaging   the mathematics of averaging in public
//! model       the mathematics of training: gradients, descent, sets, second moments
//! lattice     exact numbers, residues, injections, grids of noise
//! topology    parties, graphs, schedules          time       nanoseconds since the start
//! design      no code: the design as pages
//! ```
//!
//! A folder imports only folders that stand below it, and no two files import each other.
//!
//! # What holds
//! - Mass and weight are conserved to the bit at every event; after roll-back the finals of the
//!   agreed set add up to its parties' noisy values, to the bit.
//! - A share is counted at most once, by its sender or by its receiver.
//! - Two nodes that say `agreed` name the same set and hold the same bits. Nobody says it of an
//!   average over the public graph: those are as near to each other as the plan says if nobody
//!   lied.
//! - No final leaves before the gate has passed the agreed logs, and no share before the plan is
//!   marked as spent.
//! - Nothing that a peer sends is an error, a panic, or kept without a bound that the plan gives.
//! - Types that hold inputs, noise, shares or keys print none of it.
//!
//! # What is absent
//! The gate itself (it is the accountant's; the machine asks for it), transport, files, clocks, and
//! gossip averaging of values themselves.

pub mod agreement;
pub mod averaging;
pub mod clipping;
pub mod describe;
pub mod design;
pub mod lattice;
pub mod lobby;
pub mod messages;
pub mod mixing;
pub mod model;
pub mod plan;
pub mod publishing;
pub mod run;
pub mod sealing;
pub mod simulator;
pub mod task;
pub mod time;
pub mod topology;
