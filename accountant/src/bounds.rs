//! What holds for every coalition, or for a draw of them.

pub mod before_publishing;
pub mod bound;
pub mod closed_form;
pub mod confidence;
pub mod connectivity;
pub mod draws;
pub(crate) mod exact_sum;
pub mod uniform;
