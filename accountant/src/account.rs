//! The answers of `undertone account`, one file a mechanism.

pub mod answer;
pub mod composition;
pub mod connectivity;
pub mod gaussian;
pub mod gossip;
pub mod inca;
pub(crate) mod mixing_graph;
pub mod ppsc;
pub mod static_coalitions;
pub mod training;
