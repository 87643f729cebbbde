//! A run: the parent machine that owns one machine a phase and forwards to it.
//!
//! Feed one input, drain the outputs until [`Output::Wait`], feed the next. Here for all parties of
//! a plan at once, over a network that delivers everything in order:
//!
//! ```
//! use std::collections::{BTreeMap, VecDeque};
//! use std::sync::Arc;
//! use rand::SeedableRng;
//! use undertone_protocol::messages::notice::Network;
//! use undertone_protocol::messages::wire::Bytes;
//! use undertone_protocol::mixing::noise::LatticeNoise;
//! use undertone_protocol::mixing::ticket::Tickets;
//! use undertone_protocol::plan::calibration::Calibration;
//! use undertone_protocol::plan::checked::Plan;
//! use undertone_protocol::plan::claim::{Adversary, Claim, Established, Faults, Predicted};
//! use undertone_protocol::plan::draft::Draft;
//! use undertone_protocol::plan::peers::{Peers, simulated_keypair};
//! use undertone_protocol::plan::run_file::parsed::RunFile;
//! use undertone_protocol::clipping::contribution::Clipped;
//! use undertone_protocol::run::interface::{Input, Output};
//! use undertone_protocol::run::machine::{Identity, Run};
//! use undertone_protocol::run::outcome::Ending;
//! use undertone_protocol::sealing::run_key::{PairKey, RunKey};
//! use undertone_protocol::simulator::cluster::permissive_gate as gate;
//! use undertone_protocol::time::Time;
//! let n = 4;
//! let file = RunFile::parse("name = \"four\"\n[data]\nshape = [2]", n)?;
//! let draft = Draft::new(file, &Peers::simulated(n)?, 7)?;
//! let claim = Claim {
//!     adversary: Adversary::Coalition, size: draft.privacy.colluding, faults: Faults::Class,
//!     mu: 0.2, epsilon: draft.privacy.epsilon, delta: draft.privacy.delta,
//!     established: Established::Theorem, cases: 1, seed: None, changes: None,
//!     basis: None, connectivity: None, draw: None, sealed: false,
//!     sampling_delta: 0.0, unbounded: false, sentence: None, holds_as_headline: true,
//! };
//! let calibration = Calibration {
//!     rounds: 4, drawn: Calibration::draw(&draft, 4, 11), independent_std: 4.0,
//!     correlated_std: 0.0, claims: vec![claim],
//!     predicted: Predicted {
//!         standard_error: 1.0, standard_error_one_dropout: Some(1.0),
//!         standard_error_late_dropout: None, standard_error_correcting: None,
//!         central: 1.0, local: 1.0, error_floor: 1.0, bytes_per_party: 0,
//!     },
//! };
//! let plan = Arc::new(Plan::assemble(draft, calibration, [3; 16])?);
//! let draft = plan.draft();
//! let mut now = Time::ZERO;
//! let mut runs: Vec<Run> = (0..n).map(|party| {
//!     let rng = rand::rngs::ChaCha8Rng::seed_from_u64(party as u64);
//!     let stds = (plan.calibration().independent_std, plan.calibration().correlated_std);
//!     let mut noise = LatticeNoise::new(rng, *plan.lattice(), 2, stds.1);
//!     let identity = Identity {
//!         party, key: simulated_keypair(party),
//!         run_key: RunKey::from_secret([party as u8; 32]),
//!         pair_key: PairKey::from_secret([party as u8 + 100; 32]),
//!         seal_seed: [party as u8; 32], nonce_secret: [party as u8; 32], epoch: 0,
//!     };
//!     let (contribution, _) = Clipped::of(&plan, party, vec![0.1 * party as f64, 0.2]);
//!     // Without its own noise it is no input: `Run::new` takes nothing else.
//!     let value = noise.noisy(stds.0, contribution);
//!     Run::new(plan.clone(), identity, value, Box::new(noise), now)
//! }).collect();
//! let mut tickets: Vec<Tickets> = (0..n).map(|_| Tickets::default()).collect();
//! let mut wakes = vec![now; n];
//! let mut outcomes = BTreeMap::new();
//! let mut post = VecDeque::new();
//! let (private, public) = (&draft.private_graph, &draft.public_graph);
//! for (network, graph) in [(Network::Private, private), (Network::Public, public)] {
//!     for me in 0..n {
//!         let peers = graph.neighbours(me).iter();
//!         post.extend(peers.map(|&peer| (me, Input::Connected { network, peer })));
//!     }
//! }
//! while outcomes.len() < n {
//!     // With nothing on its way it is the turn of whoever wants to be woken first.
//!     let (me, input) = post.pop_front().unwrap_or_else(|| {
//!         let me = (0..n).min_by_key(|&me| wakes[me]).expect("there are parties");
//!         now = now.max(wakes[me]);
//!         (me, Input::Tick)
//!     });
//!     let (run, tickets) = (&mut runs[me], &mut tickets[me]);
//!     run.handle(now, input)?;
//!     wakes[me] = loop {
//!         match run.poll_output() {
//!             Output::Public { to, frame } => {
//!                 let frame = Bytes::from_owner(frame);
//!                 post.push_back((to, Input::Public { from: me, frame }));
//!             }
//!             // A share leaves only if its ticket can be taken just before its first byte.
//!             Output::Private { to, frame, share } => {
//!                 if share.is_none_or(|share| tickets.of(share).take()) {
//!                     let frame = Bytes::from_owner(frame);
//!                     post.extend(share.map(|share| (me, Input::Left { share })));
//!                     post.push_back((to, Input::Private { from: me, frame }));
//!                 }
//!             }
//!             Output::Recall(shares) => {
//!                 run.handle(now, Input::Recalled(tickets.recall(&shares)))?;
//!             }
//!             // A node creates a file that says so, and answers once it is on disk.
//!             Output::Spend => post.push_back((me, Input::Spent(Ok(())))),
//!             Output::Reveal => post.push_back((me, Input::Revealed(Ok(())))),
//!             Output::Audit(logs) => {
//!                 post.push_back((me, Input::Verdict(gate(run.plan(), &logs))));
//!             }
//!             Output::Event(_) | Output::Contribute { .. } => {}
//!             Output::Finished(outcome) => {
//!                 outcomes.insert(me, *outcome);
//!             }
//!             Output::Wait { until } => break until,
//!         }
//!     };
//! }
//! assert!(outcomes.values().all(|outcome| outcome.ending == Ending::Done && outcome.agreed));
//! Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An error leaves the machine unchanged. What peers send is never an error: what is out of order
//! is ignored, with an [`Event::Offence`]. Everything that is kept is bounded by the plan: one slot
//! a kind, party and stage.
//!
//! Outputs go only to peers that are connected; when a connection is lost the transport drops what
//! it had queued for it, and the machine sends again what matters once it is told of a new one.

mod auditing;
mod circles;
mod confirming;
mod correcting;
mod gathering;
#[cfg(test)]
pub(crate) mod held;
mod inputs;
mod leaving;
mod mixing;
mod next_release;
mod observed;
mod opening;
mod publishing;
mod reaching;
mod settling;
mod spending;
mod summing;
mod waking;

use std::collections::BTreeSet;
use std::sync::Arc;

use libp2p_identity::Keypair;
use zeroize::Zeroizing;

use crate::agreement::flood::Flood;
use crate::agreement::gathering::{Draw, Entrant, Gathering, GatheringStep};
use crate::agreement::presence::Presence;
use crate::agreement::shelf::Shelf;
use crate::messages::signing::{Members, Signer};
use crate::messages::stage::Phase;
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::Noise;
use crate::plan::checked::Plan;
use crate::run::config::{Connectivity, RunConfig, attendance, starts};
use crate::run::context::{Record, StepContext};
use crate::run::early::EarlyShares;
use crate::run::interface::{Input, InputError, Output};
use crate::run::item_rules::ItemRules;
use crate::run::outcome::Event;
use crate::run::phase::{GatheringPhase, RunPhase};
use crate::run::public_state::PublicState;
use crate::run::waking::Waking;
use crate::sealing::run_key::{PairKey, RunKey};
use crate::time::Time;
use crate::topology::party::Party;

/// The identity of this node in a run.
pub struct Identity {
    /// Its party.
    pub party: Party,
    /// Signs for it.
    pub key: Keypair,
    /// Drawn for this start: its public half is in READY, and makes the incarnation.
    pub run_key: RunKey,
    /// Drawn for this start, too: its masks with others follow from it, where the plan has such
    /// masks.
    pub pair_key: PairKey,
    /// Fresh randomness: what the secret of this start's sealed final, and its letters, are drawn
    /// from.
    pub seal_seed: [u8; 32],
    /// Fresh randomness, never revealed: the nonces that this start adds to a schedule that START
    /// draws are made of it.
    pub nonce_secret: [u8; 32],
    /// Larger than every sequence number of earlier starts: wall-clock milliseconds at the start ×
    /// 2^16 will do.
    pub epoch: u64,
}

/// One node's part in a run.
pub struct Run {
    config: RunConfig,
    peers: Connectivity,
    pub(super) public_state: PublicState,
    phase: RunPhase,
    now: Time,
    /// The moment to look again for items that are lacking.
    pull_at: Time,
    waking: Waking,
    /// The outcome so far; its ending is known when it is given out.
    record: Record,
}

impl Run {
    /// This node's part. `value` is x̃ = clipped, rounded x + η*; `noise` draws η, all of it here,
    /// while nobody waits, unless START says how much it takes. Floods READY at once: all checks of
    /// the input are done, and the plan is not spent.
    ///
    /// # Panics
    /// If the party is not in the plan.
    pub fn new(plan: Arc<Plan>, identity: Identity, value: Noisy, noise: Noise, now: Time) -> Self {
        let Identity {
            party: me,
            key,
            run_key,
            pair_key,
            seal_seed,
            nonce_secret,
            epoch,
        } = identity;
        assert!(me < plan.parties(), "the driver takes its party from the plan");
        let config = RunConfig::first(plan, me);
        let RunConfig {
            plan,
            mixing: parameters,
            electorate,
            ..
        } = &config;
        let rules = ItemRules::of(plan, parameters);
        let draws = plan.draws_at_start();
        let flood = Flood::new(me, Members::of(plan))
            .committing(draws)
            .pairing(plan.pairs())
            .counting(plan.draft().members.iter().map(|member| member.records).collect())
            .with_numbers(starts(plan))
            .with_stages(rules.stages)
            .with_colluding(electorate.colluding);
        let signer = Signer::new(me, *plan.digest(), key, epoch);
        let mut public_state = PublicState::new(signer, flood, rules, electorate.public.clone(), now);
        let entrant = Entrant {
            party: me,
            key: run_key,
            pair: plan.pairs().then_some(pair_key),
            records: plan.announced_records(me),
        };
        let draw = draws.then_some(Draw {
            digest: *plan.digest(),
            secret: Zeroizing::new(nonce_secret),
        });
        let present = Presence::new(electorate.clone());
        let gathering = Gathering::new(entrant, attendance(plan), present, now, draw);
        public_state.event(Event::Phase(Phase::Gathering));
        public_state.say(gathering.ready());
        public_state.event(Event::Ready(1));
        let mixing_start = parameters.begin_once_drawn(value, config.own_weight(), noise);
        Run {
            config,
            peers: Connectivity::default(),
            public_state,
            phase: RunPhase::Gathering(Box::new(GatheringPhase {
                gathering,
                mixing_start,
                seal_seed: Zeroizing::new(seal_seed),
                early: EarlyShares::default(),
            })),
            now,
            pull_at: Time::FAR,
            waking: Waking::default(),
            record: Record::default(),
        }
    }

    /// Takes one input. Time never runs backwards: an earlier `now` counts as the latest one.
    ///
    /// # Errors
    /// Our caller's mistake; the machine is unchanged.
    pub fn handle(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        self.check(&input)?;
        // Asked before the clock moves on: what falls due by this very input is no longer ahead of
        // it.
        let due = now >= self.wake();
        self.now = self.now.max(now);
        match input {
            Input::Connected { network, peer } => self.connected(network, peer),
            Input::Disconnected { network, peer } => self.disconnected(network, peer),
            Input::Refused { peer } => self.notice_presence(|presence, _| presence.refused(peer, None)),
            Input::Declined { peer } => self.declined(peer),
            Input::Unanswered { peer } => self.notice_presence(|presence, _| presence.unanswered(peer)),
            Input::Unreachable { peer } => self.lost(peer),
            Input::Public { from, frame } => {
                let gathered = !matches!(&self.phase, RunPhase::Gathering(it) if !it.gathering.has_signed());
                let news = self.public_state.receive(self.now, from, &frame, gathered);
                let back = self.heard(from, &frame);
                if !news && !due && !back {
                    return Ok(());
                }
                self.hand_on_rounds();
            }
            Input::Private { from, frame } => self.receive_private(from, &frame),
            Input::Spent(result) => self.spent(result),
            Input::Revealed(result) => self.transition(|phase, cx| match phase {
                RunPhase::Gathering(phase) => phase.revealed(result, cx),
                phase => phase,
            }),
            Input::Verdict(verdict) => self.transition(|phase, cx| match phase {
                RunPhase::Auditing(phase) => phase.judged(verdict, cx),
                phase => phase,
            }),
            Input::Leave => self.leave("this node was told to leave".to_string()),
            Input::Left { share } => {
                let transfers = self.phase.transfers_mut();
                transfers.into_iter().for_each(|it| it.shares.left(share));
            }
            Input::Recalled(recalled) => self.recalled(&recalled),
            Input::Contribution { value, .. } => self.transition(|phase, cx| match phase {
                RunPhase::Awaiting(phase) => phase.contribute(value, cx),
                phase => phase,
            }),
            Input::Tick => {}
        }
        self.advance();
        Ok(())
    }

    /// The next output. After [`Output::Wait`] there is none until the next input.
    pub fn poll_output(&mut self) -> Output {
        self.public_state
            .outbox
            .pop_front()
            .unwrap_or_else(|| Output::Wait { until: self.wake() })
    }

    /// This node keeps long bodies on a shelf. Called before it is fed anything.
    pub fn shelving(mut self, shelf: &Shelf) -> Self {
        self.public_state.shelve(shelf);
        self
    }

    /// The number of the START that this node has begun with, and its members; `None` in a later
    /// release, which begins without one.
    pub(crate) fn start(&self) -> Option<(u8, &BTreeSet<Party>)> {
        (!self.config.succeeds).then_some((self.record.start_number, &self.record.started))
    }

    /// The plan with the schedule that START drew, once it has; else as it was given.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.config.plan
    }

    /// Steps the phase's machine until it wants nothing more, then asks for what is lacking.
    fn advance(&mut self) {
        // Actions of the exchange follow each step, so that they leave in the order of the steps.
        while self.step() {
            self.carry_out();
        }
        self.carry_out();
        self.check_complete();
        self.pull_at = self.public_state.pull(self.now);
        if let Some(gathered) = self.waits_in_public() {
            self.pull_at = self
                .pull_at
                .min(self.public_state.anti_entropy(self.now, gathered));
        }
    }

    /// One step of the present phase. `false`: it wants nothing more now.
    fn step(&mut self) -> bool {
        if self.leave_given_up_start() || self.step_waking() {
            return true;
        }
        self.step_informed();
        if let RunPhase::Gathering(phase) = &mut self.phase {
            let step = phase.gathering.step(self.now, &self.public_state.flood);
            return step.map(|step| self.gather(step)).is_some();
        }
        let waits = self.waits_for_words();
        let mut any = false;
        self.transition(|phase, cx| {
            let (phase, stepped) = phase.step(waits, cx);
            any = stepped;
            phase
        });
        any
    }

    fn gather(&mut self, step: GatheringStep) {
        if let GatheringStep::Begin { parties, seed, .. } = &step {
            // Logs number shares by the schedule, so that both change together.
            if let Some(seed) = seed {
                self.config.draw(*seed);
                self.public_state.rules.schedule = self.config.mixing.schedule.clone();
            }
            self.config.count(&self.public_state.flood.records_of(parties));
        }
        self.transition(|phase, cx| match phase {
            RunPhase::Gathering(phase) => phase.gather(step, cx),
            phase => phase,
        });
    }

    fn spent(&mut self, result: Result<(), String>) {
        // A node that arrives late exchanges nothing before it knows that the others still wait.
        let waits = result.is_ok() && self.waits_for_words();
        self.transition(|phase, cx| match phase {
            RunPhase::Spending(mut phase) if waits => {
                phase.marked = true;
                RunPhase::Spending(phase)
            }
            RunPhase::Spending(phase) => phase.spent(result, cx),
            phase => phase,
        });
    }

    /// The phase, and what a step of it may touch besides.
    fn parts(&mut self) -> (&mut RunPhase, StepContext<'_>) {
        let cx = StepContext {
            config: &self.config,
            peers: &self.peers,
            public_state: &mut self.public_state,
            record: &mut self.record,
            now: self.now,
        };
        (&mut self.phase, cx)
    }

    /// Goes on from the present phase to the one that `to` makes of it.
    fn transition(&mut self, to: impl FnOnce(RunPhase, &mut StepContext<'_>) -> RunPhase) {
        let had_finished = self.record.finished;
        let (phase, mut cx) = self.parts();
        *phase = to(std::mem::replace(phase, RunPhase::Over), &mut cx);
        // Keys that no release needs must not wait in memory for an attacker.
        if self.record.finished && !had_finished {
            self.wipe_unless_it_goes_on();
        }
    }

    fn wake(&self) -> Time {
        let (now, unreachable) = (self.now, &self.peers.unreachable);
        let phase = match &self.phase {
            RunPhase::Gathering(phase) => phase.gathering.wake(now),
            RunPhase::Mixing(phase) => phase.wake(now),
            RunPhase::Settling(phase) => phase.wake(now, unreachable, self.public_state.is_sliced()),
            RunPhase::Correcting(phase) => phase.agreement.wake(now, unreachable),
            RunPhase::Publishing(phase) => phase.wake(now, &self.public_state, unreachable),
            RunPhase::Opening(phase) => phase.wake(now, unreachable),
            RunPhase::Auditing(phase) => phase.until,
            // Nothing is done then: it is known that this node ran.
            RunPhase::Awaiting(_) | RunPhase::Spending(_) => Some(self.settling_half())
                .filter(|&half| half > now)
                .unwrap_or(Time::FAR),
            RunPhase::HandedOver | RunPhase::Mixed(_) | RunPhase::Over => Time::FAR,
        };
        phase
            .min(self.pull_at)
            .min(self.stays_until())
            .min(self.waking_wake())
    }
}

impl RunPhase {
    /// One step, and whether it did anything. `waits`: this node was woken, and exchanges nothing
    /// before it knows that others still wait for it.
    fn step(self, waits: bool, cx: &mut StepContext<'_>) -> (RunPhase, bool) {
        match self {
            RunPhase::Mixing(phase) if !waits => phase.step(cx),
            RunPhase::Settling(phase) => phase.step(cx),
            RunPhase::Auditing(phase) => phase.step(cx),
            RunPhase::Correcting(phase) => phase.step(cx),
            RunPhase::Publishing(mut phase) => {
                let stepped = phase.step(cx);
                (RunPhase::Publishing(phase), stepped)
            }
            RunPhase::Opening(mut phase) => {
                let stepped = phase.step(cx);
                (RunPhase::Opening(phase), stepped)
            }
            phase => (phase, false),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
