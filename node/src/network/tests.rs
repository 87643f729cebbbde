//! Whole networks on loopback. Nothing sleeps: tests wait for events, under one generous deadline.

mod ask;
mod barred;
mod dialling;
mod hostile_relay;
mod hub;
mod impostor;
pub(super) mod nodes;
mod relays;
mod runs;
mod streams;
