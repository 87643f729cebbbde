//! The tools that check the house's own rules: its sources as tokens, who imports whom, and the
//! shape of files. The rules stand in `tests/layers.rs` and `tests/shape.rs`.

pub mod arrows;
pub mod flags;
pub mod functions;
pub mod layers;
pub mod prose;
pub mod sources;
pub mod tokens;
