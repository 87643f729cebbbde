//! Averaging in public: every node tells its neighbours its state, and moves towards theirs.
//!
//! A neighbour is at most one round ahead: it needs this node's state of the round before. After
//! its last round a node says once more that it is there, without a state: nobody needs it then.

use std::sync::Arc;

use crate::messages::notice::Network;
use crate::messages::wire::{self, Bytes, PublicFrame};
use crate::run::interface::Output;
use crate::run::outcome::Event;
use crate::task::outer::{Outer, OuterStage};
use crate::topology::party::Party;

/// The first number of a frame that carries a round: 1 is that of all other frames.
const FIRST_FRAME: u32 = 2;
/// Bytes of a coordinate: an f64.
const COORDINATE: usize = size_of::<f64>();

impl Outer {
    pub(super) fn begin_averaging(&mut self, state: Vec<f64>) {
        self.rounds.state = state;
        self.tell_state();
    }

    /// Signs this node's state in the present round, and sends it to all public neighbours.
    fn tell_state(&mut self) {
        let number = self.rounds.now;
        let values: Vec<u8> = self.rounds.state.iter().flat_map(|x| x.to_le_bytes()).collect();
        match self.signer.round(number, &values) {
            Ok(signed) => {
                let inner = wire::round_frame(&signed, &values);
                self.tell(wire::iteration_frame(number + FIRST_FRAME, &inner));
            }
            Err(reason) => {
                let fault = Event::Fault(reason.to_string());
                self.outbox.push_back(Output::Event(fault));
            }
        }
    }

    fn tell(&mut self, frame: Arc<[u8]>) {
        self.rounds.recent.push_back(frame.clone());
        while self.rounds.recent.len() > 2 {
            self.rounds.recent.pop_front();
        }
        for to in self.rounds.neighbours.clone() {
            self.send(Network::Public, to, frame.clone());
        }
    }

    /// A public neighbour is there again: it may lack what was under way.
    pub(super) fn send_rounds_again(&mut self, peer: Party) {
        if self.rounds.neighbours.contains(&peer) {
            for frame in self.rounds.recent.clone() {
                self.send(Network::Public, peer, frame);
            }
        }
    }

    /// One public round. False: somebody's state is waited for.
    pub(super) fn step_averaging(&mut self) -> bool {
        if !self.rounds.is_complete() {
            return false;
        }
        self.rounds.move_on();
        if !(self.rounds.now as usize).is_multiple_of(self.rounds.in_an_iteration()) {
            self.tell_state();
            return true;
        }
        self.stage = OuterStage::Stepping;
        self.outbox.push_back(Output::Contribute {
            iteration: self.iteration(),
            released: self.rounds.state.as_slice().into(),
        });
        true
    }

    /// Says that this node has ended, without a state.
    pub(super) fn tell_end(&mut self) {
        self.rounds.state = vec![];
        self.tell_state();
    }

    /// Whether every public neighbour has said that it has ended, too.
    pub(super) fn all_have_ended(&self) -> bool {
        self.rounds.is_complete()
    }

    /// Takes a neighbour's state of this round or the next.
    pub(super) fn receive_round(&mut self, from: Party, number: u32, inner: &Bytes) {
        let (round, values) = match wire::read_public(inner) {
            Ok(PublicFrame::Round { round, values }) => (round, inner.slice(values)),
            Ok(_) => return self.offence(from, "something else than a round, as one"),
            Err(reason) => return self.offence(from, reason.to_string()),
        };
        let own = round.author == from && self.rounds.neighbours.contains(&from);
        if !own || number.checked_sub(FIRST_FRAME) != Some(round.round) {
            return self.offence(from, "a round that is not its own, or with another number");
        }
        let awaited = [Some(self.rounds.now), self.rounds.now.checked_add(1)];
        if !awaited.contains(&Some(round.round)) || self.rounds.heard.contains_key(&(round.round, from)) {
            // Sent again on a new connection, or out of its turn.
            return;
        }
        if let Err(reason) = self.members.verify_round(&round, &values) {
            return self.offence(from, reason.to_string());
        }
        let last = self.settings().iterations * self.rounds.in_an_iteration() as u64;
        let expected = match u64::from(round.round) < last {
            true => self.plan.draft().dimension(),
            false => 0,
        };
        let state: Vec<f64> = values
            .chunks_exact(COORDINATE)
            .map(|bytes| f64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        if values.len() != expected * COORDINATE || state.iter().any(|x| !x.is_finite()) {
            return self.offence(
                from,
                "a state of another length, or with numbers that are not finite",
            );
        }
        self.rounds.heard.insert((round.round, from), state);
    }
}
