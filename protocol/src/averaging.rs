//! Averaging in public: every node ends near the mean of all vectors by exchanging only with its
//! neighbours on the public graph.
//!
//! All synchronous forms are one iteration, x ← x − c_r·L·x with the graph's Laplacian L, and
//! differ in their steps c_1…c_K. With the eigenvalues λ of L, what is left of the differences
//! after K rounds is p(λ) = Π (1 − c_r λ):
//!
//! - [`plain`]: c_r = 1/n, the paper's Algorithm 2 (PPSC, edge weight a in (0, 1/n]);
//! - [`chebyshev`]: 1/c_r are the roots of the Chebyshev polynomial on [λ₂, λ_n], the best one for
//!   an interval;
//! - [`finite_time`]: 1/c_r are the eigenvalues themselves; after as many rounds as there are
//!   different ones nothing is left. It stops earlier where that is accurate enough.
//!
//! [`StepSchedule::fit`](step_schedule::StepSchedule::fit) takes the one with fewest rounds and
//! bounds its error rigorously, the rounding to integers included. When a message is missed the
//! finals are flooded instead.
//!
//! Nothing here knows of parties, signatures or time: see [`crate::publishing::averaging`].

pub mod chebyshev;
pub mod entry;
pub mod finite_time;
pub mod integers;
pub mod plain;
pub mod spectrum;
pub mod step_schedule;
pub mod terms;

#[cfg(test)]
mod tests;
