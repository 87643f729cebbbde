//! Gossip averaging: one value of each party in many rounds, or a stream of them, one a round.
//!
//! Gathering, START and the mark that the plan is spent are those of a [`Run`]. From there on each
//! node sends one message a round to its neighbours and goes on with what came: no settling, no
//! agreement, no gate. Nobody publishes, and each node has an estimate of its own.
//!
//! A departed party leaves its terms out, and nobody stops for it; any number may. What a peer can
//! send: a message that is not due, of another weight or beyond its round's bound is as one that
//! did not come; of what is due one is kept for each neighbour and round. A liar moves its
//! neighbours' estimates as far as values and noise at their utmost in every round so far could,
//! and no further.

mod ending;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::agreement::shelf::Shelf;
use crate::lattice::grid::LatticeWeight;
use crate::messages::log::ShareId;
use crate::messages::notice::Network;
use crate::messages::signing::Members;
use crate::messages::stage::Phase;
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::mixing::gossip::averaging::CarriedWeight;
use crate::mixing::gossip::rounds::{GossipRounds, OwnMessage};
use crate::mixing::noisy::Noisy;
use crate::plan::checked::Plan;
use crate::run::interface::{Input, InputError, Output};
use crate::run::machine::{Identity, Run};
use crate::run::outcome::{Event, Progress};
use crate::task::nothing::Nothing;
use crate::time::Time;
use crate::topology::party::Party;

/// The stage that a node is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GossipStage {
    /// Until the plan is marked as spent.
    Gathering,
    Rounds,
    Over,
}

/// One node's part in gossip averaging.
pub struct GossipTask {
    plan: Arc<Plan>,
    me: Party,
    run: Run,
    members: Members,
    stage: GossipStage,
    rounds: GossipRounds,
    connected: BTreeSet<Party>,
    /// The release that was asked for last.
    asked: u32,
    /// Whether nobody needs this node any more.
    complete: bool,
    outbox: VecDeque<Output>,
}

impl GossipTask {
    /// This node's part; `value` is its first release, clipped, rounded, with its own noise.
    ///
    /// # Panics
    /// If the party is not in the plan.
    pub(super) fn new(plan: Arc<Plan>, identity: Identity, value: Noisy, now: Time) -> Self {
        let me = identity.party;
        let members = Members::of(&plan);
        let nothing = plan.lattice().zeros(plan.draft().dimension());
        let unmixed = Box::new(Nothing(nothing.pack()));
        let mut task = GossipTask {
            rounds: GossipRounds::of(&plan, me, value.into_vector()),
            run: Run::new(
                plan.clone(),
                identity,
                Noisy::with_noise_in(nothing),
                unmixed,
                now,
            ),
            plan,
            me,
            members,
            stage: GossipStage::Gathering,
            connected: BTreeSet::new(),
            asked: 1,
            complete: false,
            outbox: VecDeque::new(),
        };
        task.drain();
        task
    }

    pub(super) fn shelving(mut self, shelf: &Shelf) -> Self {
        self.run = self.run.shelving(shelf);
        self
    }

    pub(super) fn handle(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        match input {
            Input::Private { from, frame } => {
                if from >= self.plan.parties() {
                    return Err(InputError::Peer(from));
                }
                self.receive(from, &frame);
            }
            Input::Contribution { iteration, value } => {
                let awaited = self.stage == GossipStage::Rounds;
                if !awaited || self.rounds.lacks_release() != Some(iteration) {
                    return Err(InputError::NotAsked("Contribution"));
                }
                self.rounds.contribute(value.into_vector());
            }
            Input::Leave if self.stage == GossipStage::Rounds => {
                self.finish(Some("this node was told to leave".into()));
            }
            input => {
                self.run.handle(now, input.clone())?;
                self.notice_edge(&input);
            }
        }
        self.drain();
        self.advance(now);
        Ok(())
    }

    /// Messages that came meanwhile are not late, nor are those of others who slept as long.
    pub(super) fn oversleeps(&mut self, missed_ms: u64, now: Time) -> bool {
        match self.stage {
            GossipStage::Rounds => self.run.has_missed(missed_ms),
            GossipStage::Gathering | GossipStage::Over => self.run.oversleeps(missed_ms, now),
        }
    }

    /// Takes what the gathering run wants, and begins once it has START and the plan is spent.
    pub(super) fn drain(&mut self) {
        loop {
            match self.run.poll_output() {
                Output::Wait { .. } => break,
                Output::Finished(outcome) => {
                    self.stage = GossipStage::Over;
                    self.outbox.push_back(Output::Finished(outcome));
                }
                // It is looked at with what is known of the rounds.
                Output::Event(Event::Complete) => {}
                output => self.outbox.push_back(output),
            }
        }
        if self.stage == GossipStage::Gathering && self.run.has_handed_over() {
            self.stage = GossipStage::Rounds;
            let started = self.run.started();
            let absent = (0..self.plan.parties()).filter(|party| !started.contains(party));
            // Whoever has handed over has a START.
            let start = self.run.started_at().unwrap_or(Time::ZERO);
            self.rounds.begin(start, absent);
            self.event(Event::Round(1));
        }
    }

    /// Goes on as far as what is here, and the clock, allow.
    fn advance(&mut self, now: Time) {
        while self.stage == GossipStage::Rounds && self.step(now) {}
        self.check_complete();
    }

    fn step(&mut self, now: Time) -> bool {
        if let Some(message) = self.rounds.speak() {
            for &to in self.rounds.sends(message.round) {
                let frame = self.frame(&message, to);
                Self::send(&self.connected, &mut self.outbox, to, frame);
            }
            return true;
        }
        if self.rounds.end_round(now) {
            self.ended_round();
            return true;
        }
        self.ask_for_release();
        false
    }

    fn ended_round(&mut self) {
        let done = self.rounds.done();
        if u64::from(done) <= self.plan.draft().releases() && self.plan.draft().releases() > 1 {
            self.event(Event::Iteration(done.into()));
        }
        if self.rounds.over() {
            self.finish(None);
        } else {
            self.event(Event::Round(done + 1));
        }
    }

    /// Asks for the release that this round lacks, once.
    fn ask_for_release(&mut self) {
        let Some(iteration) = self.rounds.lacks_release() else {
            return;
        };
        if iteration > self.asked {
            self.asked = iteration;
            self.outbox.push_back(Output::Contribute {
                iteration,
                released: self.rounds.latest().into(),
            });
        }
    }

    fn frame(&self, message: &OwnMessage, to: Party) -> Arc<[u8]> {
        let id = ShareId {
            round: message.round,
            from: self.me,
            to,
        };
        let weight = LatticeWeight(CarriedWeight::WHOLE.units());
        wire::message_frame(self.plan.digest(), id, weight, &message.values)
    }

    fn send(connected: &BTreeSet<Party>, outbox: &mut VecDeque<Output>, to: Party, frame: Arc<[u8]>) {
        if connected.contains(&to) {
            outbox.push_back(Output::Private {
                to,
                frame,
                share: None,
            });
        }
    }

    fn receive(&mut self, from: Party, frame: &Bytes) {
        let (digest, id, weight, values) = match wire::read_private(frame) {
            Ok(PrivateFrame::Message {
                digest,
                id,
                weight,
                values,
            }) => (digest, id, weight, frame.slice(values)),
            Ok(PrivateFrame::Share { .. } | PrivateFrame::Sealed { .. } | PrivateFrame::Answer { .. }) => {
                return self.offence(from, "a share or an answer, where parties gossip");
            }
            Err(reason) => return self.offence(from, reason),
        };
        if let Err(reason) = self.members.same_plan(&digest) {
            return self.offence(from, reason);
        }
        if let Err(reason) = self.rounds.receive(from, id, weight, values) {
            self.offence(from, reason);
        }
    }

    /// Notes who is there and who is not; who is there again gets what it may lack.
    fn notice_edge(&mut self, input: &Input) {
        match *input {
            Input::Connected {
                network: Network::Private,
                peer,
            } => {
                self.connected.insert(peer);
                self.rounds.back(peer);
                let frames: Vec<_> = self
                    .rounds
                    .due_to(peer)
                    .map(|message| self.frame(message, peer))
                    .collect();
                for frame in frames {
                    Self::send(&self.connected, &mut self.outbox, peer, frame);
                }
            }
            Input::Disconnected {
                network: Network::Private,
                peer,
            } => {
                self.connected.remove(&peer);
            }
            Input::Unreachable { peer } => self.rounds.lost(peer),
            _ => {}
        }
    }

    pub(super) fn poll_output(&mut self) -> Output {
        self.outbox.pop_front().unwrap_or_else(|| {
            let until = match self.run.poll_output() {
                Output::Wait { until } => until,
                // The run is drained whenever it was fed.
                _ => Time::ZERO,
            };
            Output::Wait {
                until: until.min(self.rounds.wake()),
            }
        })
    }

    fn event(&mut self, event: Event) {
        self.outbox.push_back(Output::Event(event));
    }

    fn offence(&mut self, peer: Party, text: impl ToString) {
        let text = text.to_string();
        self.event(Event::Offence { peer, text });
    }

    /// The run that gathered.
    pub(super) fn release(&self) -> &Run {
        &self.run
    }

    /// The rounds, for whoever checks a simulation.
    pub(crate) fn rounds(&self) -> &GossipRounds {
        &self.rounds
    }

    /// The number of the release that is under way, from 1; the last one's after it.
    pub(super) fn iteration(&self) -> u32 {
        self.rounds.spent().max(1)
    }

    /// Returns the stage that this node is in.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            phase: match self.stage {
                GossipStage::Gathering => Phase::Gathering,
                GossipStage::Rounds => Phase::Mixing,
                GossipStage::Over => Phase::Done,
            },
            round: self.rounds.round(),
            ..self.run.progress()
        }
    }
}

#[cfg(test)]
mod tests;
