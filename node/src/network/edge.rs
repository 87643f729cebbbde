//! One edge of one run: keeps two streams to one peer on one graph, one each way, and says when
//! they come and go.
//!
//! ```text
//! establishing  dial (the lower peer id at once, the higher after a second) → open a stream, get
//!               one on the same connection → both hellos done
//! conversing    frames both ways until either stream ends → establishing
//! ```
//!
//! Two that dial each other at once have two connections for a while. The one on which the lower
//! peer id has opened its stream counts: the other end opens its own there, too, before any frame
//! leaves. The other connection, which has no streams then, is closed like any that nobody uses.
//!
//! Edges of several runs share connections. A connection is closed when nobody answers on it, or
//! when an edge on it broke and no other uses it.

mod conversing;
mod establishing;
pub(super) mod state;
pub(super) mod ways;
