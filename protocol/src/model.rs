//! The mathematics of a training: what a row says of a model, and what a sum of such makes of the
//! next model. Pure functions of their arguments.
//!
//! - [`loss`]: a row's gradient at a public model. Private, and allowed to differ between machines
//!   in its last bits.
//! - [`descent`]: the next model from a sum over rows. Public, and the same to the bit on every
//!   machine: additions, multiplications, divisions, square roots and comparisons of f64 only, one
//!   coordinate after the other, each rounded on its own. No fused operations, no library kernels,
//!   no threads over a sum.
//! - [`projection`]: onto the sets that a model may be kept in, under the same rule.
//! - [`local_step`]: what a party makes of a mean of states, in PPSC's outer recursions. Private.
//! - [`auc`]: how well scores tell two classes apart.
//! - [`statistics`]: least squares from one sum of second moments, solved by each for itself.
//!
//! Nothing here knows of parties, noise or the lattice.

pub mod affine;
pub mod auc;
pub mod descent;
pub mod local_step;
pub mod loss;
pub mod ordered;
pub mod projection;
pub mod statistics;
