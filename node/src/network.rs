//! Carries frames to the neighbours on the two graphs. Transport only: it knows nothing of plans or
//! messages, but that notices on a public stream repeat what others on it said (see `session.rs`).
//!
//! A `Hub` has two swarms with one identity: the encrypted one is Noise and Yamux over TCP or a
//! relay's circuit, the plain one Yamux over TCP. They listen on two ports, so that nothing can be
//! talked down from one to the other. Frames of the private graph take the encrypted swarm, and no
//! other. Those of the public graph take the plain one where either end can be dialled there, and
//! else the encrypted one, on streams of a protocol of their own. Any number of runs attach to it;
//! [`RunNetwork`](run_network::RunNetwork) is a hub for one run. On each graph every neighbour of a
//! run is an *edge* with two long-lived streams, one each way, that begin with a signed hello (see
//! `hello.rs`), which names the run, and then carry frames. Edges of several runs with the same
//! peer share connections. Beside that, listed peers may ask each other what belongs to no run
//! (`Hub::ask`), on streams of another protocol.
//!
//! Invariants:
//! - Only listed peers get a connection; only a peer whose hello names one of our digests and our
//!   version, signed by its key over our nonce, gets its frames read, by that run. Private frames
//!   go to whoever holds the peer's key, or to nobody.
//! - `Handle::send` never waits. A frame's ticket is taken before its first byte leaves, else no
//!   byte of it does.
//! - A peer's unread frames are bounded for each run (`RunGraph::inbound_bytes`, 64 frames): it is
//!   not read from beyond that, and nobody else waits for it.
//! - Memory is used as bytes arrive, not as a length announces them, and never above the limits.
//! - Where a peer is, is looked up at each attempt: the operator's list wins over a plan, which
//!   leads nobody inside of this machine's networks. Who answers there has to prove the listed id.
//! - Of two peers it is enough that one can dial the other, or that a relay has one of them. If
//!   both dial at once, their edges come up on one of the two connections, and no frame is lost or
//!   comes twice.
//! - A relay (`relays.rs`) serves listed peers only, within limits (`metered.rs`), and reads
//!   nothing. A node that nobody can dial keeps places at two of them (`reserving.rs`).
//! - A killed peer is `NetworkEvent::Disconnected` and `NetworkEvent::Unreachable` within
//!   milliseconds; one that nobody can dial is within seconds: all relays that have been there
//!   since before say that it is at none of them, or it has been away for five. A connection on
//!   which two pings in a row stay unanswered is closed. A process that is silent for less is
//!   noticed by the caller's deadlines only; between frames silence is allowed here.
//! - Who knows only a peer's public key can connect on the public graph in its name, and gets no
//!   further: such connections get challenges and pings only, are few, go after a hello's deadline
//!   or when newer ones come, and keep nobody out.
//!
//! No promises are made of the order between graphs. Nor are there any for the delivery of frames
//! that had left when a connection breaks: the caller sends again. Who talks to whom, and how much,
//! is not hidden.

mod address;
pub(crate) mod ask;
mod attaching;
mod carrier;
mod command;
pub(crate) mod config;
pub mod dial_fault;
mod door;
mod edge;
pub(crate) mod event;
pub(crate) mod group;
pub(crate) mod handle;
pub(crate) mod held_port;
mod hello;
pub(crate) mod hub;
mod hub_state;
mod lane;
mod line;
pub mod links;
mod metered;
mod muxer;
mod neighbours;
pub(crate) mod offence;
mod peer_table;
mod pending_connections;
pub(crate) mod queue;
mod received;
mod relays;
mod reports;
mod reserving;
pub mod run_network;
mod session;
mod swarm;

#[cfg(test)]
mod tests;
