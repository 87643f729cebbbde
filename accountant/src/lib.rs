//! What an adversary learns from a run, and what noise it takes to keep that within a budget.
//!
//! Everything here is a function of its arguments: no I/O, no clock, no randomness. Losses are those of linear-Gaussian views, and
//! the views come from running the protocol's own mixing machine on unit impulses, not from a second description of it.
//!
//! - [`gaussian`]: the exact trade-off between ε, δ and the loss μ, and its inverses.
//! - [`execution`], [`view`], [`loss`]: what happened; what an adversary sees of it, as rows (B, A); what that costs each party.
//! - [`account`]: the answers of `undertone account`.
//! - [`ppsc`], [`gossip`]: the same for the two other papers' mechanisms, from edge sequences and gossip matrices.
//! - [`composition`]: several releases together.
//! - [`audit`], [`confidence`]: an attack on what a plan would really send, and what counts of it are worth.
//! - [`setting`], [`coalitions`], [`faults`], [`class`], [`before_publishing`]: what a plan's claims range over, and the worst of it.
//! - [`calibrate()`], [`verify()`]: the noise for a draft; whether a plan's claims hold.
//! - [`gate()`], [`realised`]: whether finals may leave after what really happened; how good the result is.
//! - [`outlook`]: what else a quote says: more parties gone, other ε, what would help.
//! - [`static_coalitions`]: random draws of schedule and coalition for many parties, and what they show.
//! - [`theorem_r`]: why departed parties may be counted with the coalition. With its proof.
//!
//! ```
//! use undertone_accountant::gaussian;
//! // The loss that ε = 1 at δ = 1e-6 allows, and the ε that it costs: rounding only ever goes towards more loss.
//! let mu = gaussian::mu(1.0, 1e-6)?;
//! assert!(gaussian::epsilon(1e-6, mu)? <= 1.0);
//! assert!((mu - 0.236704).abs() < 1e-6);
//! # Ok::<(), gaussian::GaussianError>(())
//! ```
//!
//! # What holds
//! - A returned ε or δ is never below the true one, a returned budget μ never above (relative slack 1e-12, [`gaussian::SLACK`]).
//! - A value that is seen without noise has an infinite loss, never a large finite one ([`loss`]).
//! - What a fast path finds worst is computed again from the machine's own run before it is claimed ([`class`]).
//! - Nothing panics on a file, a plan or logs of others.
//! - The same arguments give the same numbers, on any number of cores.

pub mod account;
pub mod audit;
pub mod before_publishing;
pub mod calibrate;
pub mod claims;
pub mod class;
pub mod coalitions;
pub mod composition;
pub mod confidence;
pub mod execution;
pub mod faults;
pub mod gate;
pub mod gaussian;
pub mod gossip;
pub mod loss;
mod mixing_graph;
pub mod optimum;
pub mod outlook;
pub mod ppsc;
mod rows;
mod screen;
pub mod setting;
pub mod settled;
pub mod static_coalitions;
#[cfg(test)]
mod testing;
pub mod theorem_r;
pub mod utility;
pub mod verify;
pub mod view;

pub use account::{GaussianAccount, InferredLosses};
pub use calibrate::{CalibrateError, calibrate};
pub use execution::Execution;
pub use gate::{Audit, Basis, Verdict, gate, withheld};
pub use loss::Noise;
pub use utility::{Realised, realised};
pub use verify::{VerifyError, verify};
