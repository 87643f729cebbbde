//! Bounds that hold for every coalition, or for a draw of them.

pub mod before_publishing;
pub mod bound;
pub mod closed_form;
pub mod confidence;
pub mod connectivity;
pub mod flows;
pub mod paper_noise;
pub mod static_draw;
pub mod uniform;
