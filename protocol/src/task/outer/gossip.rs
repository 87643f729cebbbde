//! Multi-gossip of one outer iteration: this node's own edges, in order.

use std::collections::{BTreeSet, VecDeque};

use crate::lattice::grid::LatticeWeight;
use crate::messages::log::ShareId;
use crate::messages::notice::Network;
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::mixing::machine::Mixing;
use crate::mixing::portion::Share;
use crate::plan::exchange::injector::Mechanism;
use crate::task::outer::turn::GossipTurn;
use crate::task::outer::{Outer, OuterStage};
use crate::topology::multi_gossip::{HandOver, MultiGossip};
use crate::topology::party::Party;

impl Outer {
    /// The edges of an outer iteration, from 0, in which this node has a part.
    pub(super) fn own_edges(&self, outer: u64) -> VecDeque<HandOver> {
        let iterations = self.settings().gossip_iterations as usize;
        let seed = self.plan.schedule_seed().unwrap_or(0).wrapping_add(outer);
        let drawn = MultiGossip::draw(&self.plan.draft().private_graph, iterations, seed);
        let drawn = drawn.expect("in a checked plan everybody has a private neighbour");
        let edges = drawn.edges().iter().flatten();
        let mut own: Vec<HandOver> = edges
            .filter(|edge| edge.out == self.me || edge.into == self.me)
            .copied()
            .collect();
        own.sort_by_key(|edge| edge.round);
        own.into()
    }

    /// A share's number: those of earlier outer iterations come before, each of which has at most
    /// as many rounds as iterations.
    pub(super) fn number(&self, outer: u64, round: u32) -> u32 {
        outer as u32 * self.settings().gossip_iterations + round
    }

    pub(super) fn begin_gossip(&mut self) {
        let due = self.own_edges(self.done);
        let hand_outs = due.iter().filter(|edge| edge.out == self.me).count();
        let value = self.iterate.pack();
        let mechanism = Mechanism::HandOver { hand_outs };
        let mut mixing = Mixing::new(mechanism, value, LatticeWeight(0), false, &mut self.noise);
        mixing.prepare(&mut self.noise);
        let kept = self.done.saturating_sub(self.window());
        self.shares = self.shares.split_off(&(self.done, 0));
        self.sent.retain(|(outer, ..)| *outer >= kept);
        self.stage = OuterStage::Gossip(GossipTurn { mixing, due });
    }

    /// Returns the most outer iterations that another node may be ahead, or behind. It comes no
    /// further ahead than a round for each public edge between.
    pub(super) fn window(&self) -> u64 {
        1 + (self.plan.parties() / self.rounds.in_an_iteration()) as u64
    }

    /// One own edge, or the end of them. False: a share is waited for.
    pub(super) fn step_gossip(&mut self) -> bool {
        let OuterStage::Gossip(phase) = &mut self.stage else {
            return false;
        };
        let Some(edge) = phase.due.front().copied() else {
            let OuterStage::Gossip(phase) = std::mem::replace(&mut self.stage, OuterStage::Averaging) else {
                return false;
            };
            let state = phase.mixing.finish(&BTreeSet::new()).value;
            self.begin_averaging(state.to_f64(self.plan.lattice().step()));
            return true;
        };
        if edge.out == self.me {
            self.hand_out(edge);
            return true;
        }
        let Some(values) = self.shares.remove(&(self.done, edge.round)) else {
            return false;
        };
        let dimension = self.plan.draft().dimension();
        let values = (values, LatticeWeight(0));
        if let Ok(share) = Share::received(self.plan.lattice(), values, dimension, edge.round)
            && let OuterStage::Gossip(phase) = &mut self.stage
        {
            phase.due.pop_front();
            phase.mixing.accept(edge.out, &share);
        }
        true
    }

    fn hand_out(&mut self, edge: HandOver) {
        let number = self.number(self.done, edge.round);
        let (plan, me) = (self.plan.clone(), self.me);
        let OuterStage::Gossip(phase) = &mut self.stage else {
            return;
        };
        phase.due.pop_front();
        let id = ShareId {
            round: number,
            from: me,
            to: edge.into,
        };
        let lattice = plan.lattice();
        let length = plan.draft().dimension() * lattice.wire_bytes as usize;
        let mut frame = None;
        phase.mixing.split(&[edge.into], |state| {
            let write = |bytes: &mut [u8]| lattice.write_share(&state.value, number, bytes);
            let (made, written) = wire::share_frame_with(plan.digest(), id, LatticeWeight(0), length, write);
            if written.is_err() {
                return state.value.pack();
            }
            let values = Bytes::from_owner(made.clone()).slice(made.len() - length..);
            frame = Some(made);
            lattice.own_share(values)
        });
        // Residues always fit.
        if let Some(frame) = frame {
            self.sent.push_back((self.done, edge.into, frame.clone()));
            self.send(Network::Private, edge.into, frame);
        }
    }

    /// A private neighbour is there again: it may lack what was under way.
    pub(super) fn send_shares_again(&mut self, peer: Party) {
        let shares = self.sent.iter().filter(|(_, to, _)| *to == peer);
        let frames: Vec<_> = shares.map(|(.., frame)| frame.clone()).collect();
        frames
            .into_iter()
            .for_each(|frame| self.send(Network::Private, peer, frame));
    }

    /// A share is kept if it is due, in this outer iteration or one that its sender may have come
    /// to, and there is none yet.
    pub(super) fn receive_share(&mut self, from: Party, frame: &Bytes) {
        let (digest, id, values) = match wire::read_private(frame) {
            Ok(PrivateFrame::Share {
                digest, id, values, ..
            }) => (digest, id, frame.slice(values)),
            Ok(PrivateFrame::Answer { .. } | PrivateFrame::Message { .. } | PrivateFrame::Sealed { .. }) => {
                return self.offence(from, "an answer or a message, where none is given");
            }
            Err(reason) => return self.offence(from, reason.to_string()),
        };
        if let Err(reason) = self.members.same_plan(&digest) {
            return self.offence(from, reason.to_string());
        }
        let iterations = self.settings().gossip_iterations;
        let dimension = self.plan.draft().dimension();
        let fits = values.len() == dimension * self.plan.lattice().wire_bytes as usize;
        if id.from != from || id.to != self.me || id.round == 0 || !fits {
            return self.offence(from, "a share that is not due");
        }
        let outer = u64::from((id.round - 1) / iterations);
        let round = (id.round - 1) % iterations + 1;
        if outer < self.done || self.shares.contains_key(&(outer, round)) {
            // Sent again on a new connection.
            return;
        }
        let ahead = outer <= self.done + self.window() && outer < self.settings().iterations;
        let is_due = |edge: &HandOver| edge.out == from && edge.into == self.me && edge.round == round;
        if !ahead || !self.own_edges(outer).iter().any(is_due) {
            return self.offence(from, "a share that is not due");
        }
        self.shares.insert((outer, round), values);
    }
}
