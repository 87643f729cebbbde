//! What holds for every coalition, or for a draw of them.

pub mod before_publishing;
pub mod bound;
pub mod confidence;
pub mod connectivity;
pub mod coverage;
pub mod draws;
pub(crate) mod exact_sum;
pub mod spreading;
pub mod uniform;
