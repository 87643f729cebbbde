//! INCA's figures.

pub(super) mod conditions;
pub(super) mod departing;
pub(super) mod errors;
pub(super) mod without_roll_back;
