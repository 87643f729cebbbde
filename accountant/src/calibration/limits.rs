//! Limits that every search for rounds and noise keeps to.

/// The share of the budget, as a squared loss, that plans are calibrated to: the gate counts
/// numerical doubt as exceeded.
pub const MARGIN: f64 = 1.0 - 1e-6;

/// The fewest rounds that are tried when their number is `auto`: below, noise has nothing to hide
/// behind.
pub(crate) const FEWEST_ROUNDS: usize = 3;

/// The most rounds that are tried when their number is `auto`: above, what a cut-off party loses
/// before publishing grows, and so do latency and traffic.
pub(crate) const MOST_ROUNDS: usize = 12;

/// How close to the best number of rounds a smaller one must come, in expected error: a round takes
/// time and traffic, and 3 % more noise are not seen. Our choice.
pub(crate) const CLOSE_ENOUGH: f64 = 1.03;
