//! PPSC's Algorithms 3 and 4: outer iterations, each of multi-gossip over the private graph,
//! averaging over the public one, and a step on data of one's own.
//!
//! Gathering, START and the mark that the plan is spent are those of a [`Run`]. From there on each
//! node acts on its own edges in order, with no settling and no gate: this is what the paper
//! prints, and it tells everybody who reads the public graph the exact sum of each piece's states
//! in every outer iteration. Frames are the share's and the round's of the plan's one release, with
//! numbers that go on from one outer iteration to the next; rounds travel as frames of later
//! iterations.
//!
//! There is nothing to take back: where somebody departs it ends, with the last iterate of one's
//! own. What a peer can send: a round out of its turn, or a share that is not due, changes nothing;
//! what is kept of it is one slot for each message that the plan has it say next.

mod averaging;
mod departing;
mod gossip;
mod public_rounds;
mod turn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::agreement::shelf::Shelf;
use crate::lattice::vector::LatticeVector;
use crate::messages::notice::Network;
use crate::messages::signing::{Members, Signer};
use crate::messages::stage::Phase;
use crate::messages::wire::{self, Bytes};
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::Noise;
use crate::plan::checked::Plan;
use crate::plan::computation::recursion::RecursionSettings;
use crate::run::interface::{Input, InputError, Output};
use crate::run::machine::{Identity, Run};
use crate::run::outcome::Event;
use crate::task::nothing::Nothing;
use crate::task::outer::public_rounds::PublicRounds;
use crate::task::outer::turn::GossipTurn;
use crate::time::Time;
use crate::topology::party::Party;

/// The stage that a node is in.
enum OuterStage {
    /// Until the plan is marked as spent.
    Gathering,
    Gossip(GossipTurn),
    Averaging,
    /// Its own step is computed elsewhere.
    Stepping,
    Over,
}

/// One node's part in Algorithm 3 or 4.
pub struct Outer {
    plan: Arc<Plan>,
    me: Party,
    run: Run,
    noise: Noise,
    signer: Signer,
    members: Members,
    stage: OuterStage,
    /// Outer iterations that are over here.
    done: u64,
    /// This node's latest iterate.
    iterate: LatticeVector,
    /// Shares that came, by outer iteration and round.
    shares: BTreeMap<(u64, u32), Bytes>,
    /// Own shares of the last outer iterations: on a new connection they go out again.
    sent: VecDeque<(u64, Party, Arc<[u8]>)>,
    rounds: PublicRounds,
    connected: BTreeSet<(Network, Party)>,
    unreachable: BTreeSet<Party>,
    /// The moment when something was last heard that was waited for, or this node did something
    /// itself.
    moved: Time,
    /// Whether nobody needs this node any more.
    complete: bool,
    outbox: VecDeque<Output>,
}

impl Outer {
    /// Creates this node's part in the outer iterations; `value` is its first iterate.
    ///
    /// # Panics
    /// If the plan has no outer iterations, or the party is not in it.
    pub(super) fn new(plan: Arc<Plan>, identity: Identity, value: Noisy, noise: Noise, now: Time) -> Self {
        let (me, digest) = (identity.party, *plan.digest());
        let members = Members::of(&plan);
        let nothing = plan.lattice().zeros(plan.draft().dimension());
        let signer = Signer::new(me, digest, identity.key.clone(), identity.epoch);
        let unmixed = Box::new(Nothing(nothing.pack()));
        let mut outer = Outer {
            rounds: PublicRounds::of(&plan, me),
            run: Run::new(
                plan.clone(),
                identity,
                Noisy::with_noise_in(nothing),
                unmixed,
                now,
            ),
            plan,
            me,
            noise,
            signer,
            members,
            stage: OuterStage::Gathering,
            done: 0,
            iterate: value.into_vector(),
            shares: BTreeMap::new(),
            sent: VecDeque::new(),
            connected: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            moved: now,
            complete: false,
            outbox: VecDeque::new(),
        };
        outer.drain(now);
        outer
    }

    pub(super) fn shelving(mut self, shelf: &Shelf) -> Self {
        self.run = self.run.shelving(shelf);
        self
    }

    fn settings(&self) -> &RecursionSettings {
        let settings = self.plan.draft().computation.recursion();
        settings.expect("a task of outer iterations is made for plans that have them")
    }

    pub(super) fn handle(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        match input {
            Input::Private { from, frame } => {
                self.check_peer(from)?;
                self.receive_share(from, &frame);
            }
            Input::Public { from, frame } => {
                self.check_peer(from)?;
                match wire::of_iteration(&frame) {
                    Ok((number, inner)) if number > 1 => self.receive_round(from, number, &inner),
                    _ => self.run.handle(now, Input::Public { from, frame })?,
                }
            }
            Input::Contribution { iteration, value } => {
                let awaited = matches!(self.stage, OuterStage::Stepping) && iteration == self.iteration();
                if !awaited {
                    return Err(InputError::NotAsked("Contribution"));
                }
                self.stepped(now, value.into_vector());
            }
            Input::Leave if self.is_under_way() => self.depart("this node was told to leave".into()),
            input => {
                self.run.handle(now, input.clone())?;
                self.notice_edge(&input);
            }
        }
        self.drain(now);
        self.advance(now);
        Ok(())
    }

    /// Who is waited for may have slept as long: nothing is done twice, and nothing by the clock.
    pub(super) fn oversleeps(&mut self, missed_ms: u64, now: Time) -> bool {
        match self.is_under_way() {
            true => self.run.has_missed(missed_ms),
            false => self.run.oversleeps(missed_ms, now),
        }
    }

    fn check_peer(&self, peer: Party) -> Result<(), InputError> {
        if peer < self.plan.parties() {
            Ok(())
        } else {
            Err(InputError::Peer(peer))
        }
    }

    /// Whether states have begun to leave this node, and it has not ended.
    fn is_under_way(&self) -> bool {
        !matches!(self.stage, OuterStage::Gathering | OuterStage::Over)
    }

    /// Takes what the gathering run wants, and begins once it has START and the plan is spent.
    fn drain(&mut self, now: Time) {
        loop {
            match self.run.poll_output() {
                Output::Wait { .. } => break,
                Output::Finished(outcome) => {
                    self.stage = OuterStage::Over;
                    self.outbox.push_back(Output::Finished(outcome));
                }
                output => self.outbox.push_back(output),
            }
        }
        if matches!(self.stage, OuterStage::Gathering) && self.run.has_handed_over() {
            self.moved = now;
            self.begin_gossip();
        }
    }

    /// Goes on as far as what is here allows; ends where somebody who is waited for is gone.
    fn advance(&mut self, now: Time) {
        while self.step() {
            self.moved = now;
        }
        if self.is_under_way() {
            self.look_for_departed(now);
        }
        self.check_complete();
    }

    fn step(&mut self) -> bool {
        match self.stage {
            OuterStage::Gossip(_) => self.step_gossip(),
            OuterStage::Averaging => self.step_averaging(),
            OuterStage::Gathering | OuterStage::Stepping | OuterStage::Over => false,
        }
    }

    /// This node's step is done: what it came to is its iterate.
    fn stepped(&mut self, now: Time, value: LatticeVector) {
        self.iterate = value;
        self.done += 1;
        self.moved = now;
        self.outbox.push_back(Output::Event(Event::Iteration(self.done)));
        if self.done < self.settings().iterations {
            self.begin_gossip();
        } else {
            self.finish(None);
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
                until: until.min(self.patience_ends()),
            }
        })
    }

    fn send(&mut self, network: Network, to: Party, frame: Arc<[u8]>) {
        if !self.connected.contains(&(network, to)) {
            return;
        }
        self.outbox.push_back(match network {
            Network::Private => Output::Private {
                to,
                frame,
                share: None,
            },
            Network::Public => Output::Public { to, frame },
        });
    }

    fn offence(&mut self, peer: Party, text: impl Into<String>) {
        let text = text.into();
        self.outbox
            .push_back(Output::Event(Event::Offence { peer, text }));
    }

    fn phase(&mut self, phase: Phase) {
        self.outbox.push_back(Output::Event(Event::Phase(phase)));
    }

    /// The run that gathered.
    pub(super) fn release(&self) -> &Run {
        &self.run
    }

    /// The number of the iterate that comes next, from 1.
    pub(super) fn iteration(&self) -> u32 {
        match self.stage {
            OuterStage::Gathering => 1,
            // At most some thousands: a checked plan.
            _ => (self.done + 2) as u32,
        }
    }
}

#[cfg(test)]
mod tests;
