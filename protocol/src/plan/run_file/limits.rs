//! The largest sizes that a run file may ask for.

/// The largest number of parties. Our choice: an exchange of everybody with everybody is the wrong
/// tool beyond.
pub const MOST_PARTIES: usize = 1024;
/// The largest number of rounds T of INCA: the lattice carries common denominators up to 64, and
/// D_Inc's is T + 1 (accountant/docs/rounding.md).
pub const MOST_ROUNDS: u32 = 63;
/// The largest number of network rounds of PPSC, whose lattice grows with no power of them. Our
/// choice: a plan lists them all.
pub const MOST_EXCHANGE_ROUNDS: u32 = 4096;
/// The largest fan-out. Our choice: beyond it the grids, powers of fan-out + 1, leave room for few
/// rounds, and drawing a schedule takes seconds.
pub const MOST_FANOUT: u32 = 16;
/// The most bytes that the iterates take whose mean is a model, on every node. The design's
/// `precomputed_bytes`.
pub(crate) const MOST_ITERATE_BYTES: u64 = 256 << 20;
/// The most equations that a model is held to. Our choice: making them orthogonal, which whoever
/// reads a plan does, takes their square times the parameters.
pub(crate) const MOST_EQUATIONS: u64 = 64;
/// The most iterations of a training. Our choice: each takes of the budget, and a flood.
pub(crate) const MOST_ITERATIONS: u64 = 10_000;
/// The most iterations of multi-gossip in each outer iteration of a recursion. Our choice: 40 times
/// the paper's.
pub(crate) const MOST_GOSSIP: u64 = 1024;
/// The most public rounds in each outer iteration. Our choice: above what the paper's Theorem 4
/// asks for in its last experiment.
pub(crate) const MOST_AVERAGING: u64 = 4096;
/// The most mixings of noise before a training gives up. Our choice: who fails so often has no
/// network that a training could use.
pub(crate) const MOST_ATTEMPTS: u64 = 16;
/// The largest dimension. Our choice: 2³¹ coordinates are 16 GiB a state.
pub(crate) const MOST_COORDINATES: usize = 1 << 31;
/// The most records that a party may bring. Our choice: sums of 2³¹ clipped rows still fit the
/// lattice.
pub const MOST_RECORDS: u64 = 1 << 31;
/// The longest time-out: a day. Keeps every sum of deadlines far from overflow.
pub(crate) const LONGEST_MS: u64 = 86_400_000;
