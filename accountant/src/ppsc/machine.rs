//! The states of PPSC's multi-gossip (Algorithm 1), on any payload: numbers to run it, unit impulses to account for it.

use undertone_protocol::mixing::Party;
use undertone_protocol::payload::Payload;

/// One state a party. Whatever is sent is either accepted, taken back or lost; the first two keep the sum of all states.
#[derive(Clone, Debug)]
pub struct MultiGossip<P> {
    states: Vec<P>,
}

impl<P: Payload> MultiGossip<P> {
    /// β(0), by party.
    pub fn new(states: Vec<P>) -> Self {
        MultiGossip { states }
    }

    /// `out` keeps the fresh `noise` γ as its state and hands out ω = β − γ.
    pub fn send(&mut self, out: Party, noise: P) -> P {
        let mut omega = std::mem::replace(&mut self.states[out], noise);
        omega.subtract(&self.states[out]);
        omega
    }

    /// `party` adds ω: the in-agent that accepts it, or the out-agent that takes it back.
    pub fn add(&mut self, party: Party, omega: &P) {
        self.states[party].add(omega);
    }

    /// β, by party.
    pub fn states(&self) -> &[P] {
        &self.states
    }
}
