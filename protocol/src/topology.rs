//! The connections of parties, and their order: parties, graphs, schedules.

pub mod active_edges;
mod apart;
pub mod connectivity;
pub mod graph;
pub(crate) mod greatest_matching;
mod harary;
mod independent;
pub mod multi_gossip;
mod pairings;
pub mod party;
pub(crate) mod public_draw;
pub mod schedule;
pub(crate) mod ways;
