//! Computes what an adversary learns from a run, and the noise that keeps it within a budget.
//!
//! ```
//! # use undertone_protocol::plan::{checked::Plan, draft::Draft, peers::Peers};
//! # use undertone_protocol::plan::run_file::parsed::RunFile;
//! use undertone_accountant::losses::gaussian;
//! use undertone_accountant::{calibrate, verify};
//!
//! let run = RunFile::parse("name = \"four\"\n[data]\nshape = [3]\n", 4)?;
//! let draft = Draft::new(run, &Peers::simulated(4)?, 1)?;
//! // Rounds, noise and claims; then what every party does with a plan that somebody else made.
//! let calibration = calibrate(&draft, &mut |_| {})?;
//! let plan = Plan::assemble(draft, calibration, [7; 16])?;
//! verify(&plan)?;
//! // Rounding only ever goes towards more loss.
//! assert!(gaussian::epsilon(1e-6, gaussian::mu(1.0, 1e-6)?)? <= 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Letters
//! Throughout, μ is a loss: sensitivity over noise, for which a result is (ε, δ)-private. Δ is a
//! sensitivity, σ* the deviation of a party's own noise, σ_Δ that of the noise that cancels in the
//! sum of all finals (with PPSC σ_γ), r = σ_Δ²/σ*². There are n parties and T rounds. x̃ is a value
//! with its party's own noise η*; η, with PPSC γ, is noise that cancels, and ω a share that hands a
//! state over.
//!
//! # How it is made
//! Everything here is a function of its arguments: no I/O, no clock, no randomness. Losses are
//! those of linear-Gaussian views, and the views come from running the protocol's own mixing
//! machine on unit impulses, not from a second description of it.
//!
//! ```text
//! papers       figures and tables of the papers, computed again
//! account      the answers of `undertone account`
//! audit        an attack on what a plan would really send
//! verify       whether a plan's claims hold          gate   whether finals may leave
//! guarantee    by which theorem a plan is private: noise, claims, errors, one file each
//! calibration  what all of these search and state alike
//! bounds       what holds for every coalition, asked through one `Bound`
//! class        the tolerated class as executions and coalitions
//! execution    what happened, its file formats, and its trace
//! mechanism    one enum, one file a mechanism: all that differs between them
//! losses       the Gaussian trade-off, linear-Gaussian views and what they cost
//! parallel     one function over many cases, on all cores
//! design       no code: the proofs as pages
//! ```
//!
//! A folder imports only folders that stand below it, and no two files import each other.
//!
//! # What holds
//! - A returned ε or δ is never below the true one, a returned budget μ never above (relative slack
//!   1e-12, [`losses::gaussian::SLACK`]).
//! - A value that is seen without noise has an infinite loss, never a large finite one
//!   ([`losses::loss`]).
//! - What elimination finds worst is summed up again, as squares, before it is claimed
//!   ([`bounds::flows`]).
//! - Nothing panics on a file, a plan or logs of others.
//! - The same arguments give the same numbers, on any number of cores.

pub mod account;
pub mod audit;
pub mod bounds;
pub mod calibration;
pub mod class;
pub mod design;
pub mod execution;
pub mod gate;
pub mod guarantee;
pub mod losses;
pub mod mechanism;
pub mod papers;
pub mod parallel;
pub mod verify;

pub use crate::account::inca::InferredLosses;
pub use crate::calibration::error::CalibrateError;
pub use crate::calibration::utility::{Realised, realised};
pub use crate::execution::checked::Execution;
pub use crate::guarantee::choice::{Guarantee, calibrate};
pub use crate::losses::loss::Noise;

pub use crate::gate::decision::{gate, withheld};
pub use crate::gate::verdict::{Audit, Basis, Verdict};
pub use crate::verify::check::verify;
pub use crate::verify::error::VerifyError;
#[cfg(test)]
#[path = "../tests/oracle/mod.rs"]
mod oracle;
#[cfg(test)]
mod testing;
