//! One edge of one run: keeps two streams to one peer on one graph, one each way, and says when
//! they come and go.
//!
//! ```text
//! establishing  dial (lower peer id) or wait → open a stream, get one → both hellos done
//! conversing    frames both ways until either stream ends → establishing
//! ```
//!
//! Edges of several runs share connections. A connection is closed when nobody answers on it, or
//! when an edge on it broke and no other uses it.

mod conversing;
mod establishing;
pub(super) mod state;
