//! The answers of `undertone account`, one file a mechanism.

pub mod answer;
pub mod composition;
pub mod connectivity;
pub mod gaussian;
pub mod gossip;
pub mod inca;
mod mixing_graph;
pub mod ppsc;
