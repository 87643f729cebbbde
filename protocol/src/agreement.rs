//! Agreement on the parties that take part, and on sets of items: the flood, gathering, votes.

pub mod agreeing;
pub mod anti_entropy;
pub mod flood;
pub mod gathering;
pub mod items;
pub mod placing;
pub mod presence;
pub mod shelf;
pub mod trees;
pub mod unreachable;
pub mod wanted_sets;
