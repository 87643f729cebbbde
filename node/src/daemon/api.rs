//! The local HTTP API: loopback or a Unix socket, a bearer token, problem+json, an OpenAPI
//! document.
//!
//! Invariants:
//! - All that it answers comes from the [`Service`](crate::daemon::service::Service); it has no
//!   state of a run of its own.
//! - `/healthz` and `/readyz` answer anybody, and so does `/`, a page that is the same for all;
//!   everything else needs the token, which is compared in constant time, before the body is read.
//! - Who shows no token is in nobody's way: it waits for its own kind only, and gives its place to
//!   the next.
//! - Every bound is checked while bytes come: connections, headers, bodies (bytes and time), slow
//!   readers, uploads and results under way.
//! - A vector goes from the socket to a file that only the daemon's user can read and that is
//!   deleted once it was read, or refused. It is in no log, error or answer; a mean only in the
//!   answer to `…/result`.

mod api_state;
mod body;
mod bounds;
mod connection_limiter;
mod contribution_body;
mod digest;
pub mod feed;
mod guard;
mod keys;
mod listen;
mod metrics;
mod negotiation;
mod offers;
mod openapi;
mod page;
mod plans;
pub mod problem;
mod query;
mod rounds;
mod routes;
mod runs;
pub(crate) mod server;
mod shown;
mod status;
pub mod token;
