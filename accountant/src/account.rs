//! The answers of `undertone account`, one file a mechanism.

pub mod answer;
pub mod baselines;
pub mod composition;
pub mod conditions;
pub mod connectivity;
pub mod departing;
pub mod gaussian;
pub mod gossip;
pub mod inca;
mod mixing_graph;
pub mod ppsc;
pub mod static_coalitions;
pub mod training;
pub mod without_roll_back;
