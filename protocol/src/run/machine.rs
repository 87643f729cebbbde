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
//! let draft = Draft::new(file, &Peers::simulated(n, None)?, 7)?;
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

mod circles;
mod confirming;
mod correcting;
mod gathering;
#[cfg(test)]
pub(crate) mod held;
mod inputs;
mod leaving;
mod mixing;
mod mixing_again;
mod observed;
mod opening;
mod publishing;
mod reaching;
mod sealing;
mod settling;
mod succeeding;
mod waking;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use libp2p_identity::Keypair;
use zeroize::Zeroizing;

use crate::agreement::agreeing::{Agreement, Electorate};
use crate::agreement::flood::Flood;
use crate::agreement::gathering::{Draw, Entrant, Gathering};
use crate::agreement::presence::Presence;
use crate::agreement::shelf::Shelf;
use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::{AgreedLogs, ShareId};
use crate::messages::signing::{Members, Signer};
use crate::messages::stage::{Phase, Stage};
use crate::mixing::ahead::NoiseAhead;
use crate::mixing::course::{Course, Onset};
use crate::mixing::exchange::{ArrivedShare, ShareExchange};
use crate::mixing::gossip::circles::CircleRound;
use crate::mixing::machine::Mixing;
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::Noise;
use crate::plan::checked::Plan;
use crate::publishing::averaging::early::EarlyRounds;
use crate::publishing::interface::Published;
use crate::publishing::opening::SetOpening;
use crate::publishing::publication::Publication;
use crate::run::commons::Commons;
use crate::run::confirmation::Confirmation;
use crate::run::interface::{Input, InputError, Output};
use crate::run::item_rules::ItemRules;
use crate::run::members::{attendance, electorate, starts};
use crate::run::outcome::{Ending, Event, Outcome};
use crate::run::record::Record;
use crate::run::seals::Seals;
use crate::run::unsealing::Unsealing;
use crate::run::waking::Waking;
use crate::sealing::run_key::{PairKey, RunKey};
use crate::time::Time;
use crate::topology::party::Party;

/// Who this node is in a run.
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

enum Machine {
    Gathering {
        gathering: Box<Gathering>,
        onset: Onset,
    },
    /// A later release of a plan: this node's value is waited for.
    Awaiting,
    Spending {
        mixing: Mixing<LatticeVector, LatticeWeight>,
    },
    Mixing {
        exchange: ShareExchange,
    },
    Settling {
        exchange: ShareExchange,
        agreement: Agreement,
    },
    Auditing {
        exchange: ShareExchange,
        logs: Arc<AgreedLogs>,
        /// When no verdict is waited for any more.
        until: Time,
        /// Where a verdict on fewer than before is waited for, since finals are sealed and some of
        /// those who owed a correction gave none.
        unsealing: Option<Unsealing>,
    },
    Publishing {
        agreement: Agreement,
        /// None: this node withholds its final, and only hears what the others agree on.
        publication: Option<Box<dyn Publication>>,
    },
    /// Sealed finals, of which some are corrected.
    Correcting {
        exchange: ShareExchange,
        agreement: Agreement,
        unsealing: Unsealing,
    },
    /// Sealed finals, of which nothing is corrected any more.
    Opening {
        opening: SetOpening,
        unsealing: Unsealing,
        confirmation: Confirmation,
    },
    /// Noise of releases to come is mixed, among these; or it is not, though their logs are agreed
    /// on: then it may be mixed again.
    Mixed {
        members: BTreeSet<Party>,
    },
    Over,
}

/// One node's part in a run.
pub struct Run {
    plan: Arc<Plan>,
    course: Course,
    electorate: Electorate,
    settle_ms: u64,
    pub(super) commons: Commons,
    machine: Machine,
    now: Time,
    private: BTreeSet<Party>,
    /// When to look again for items that are lacking.
    pull_at: Time,
    gone: BTreeMap<Party, Time>,
    /// Shares from parties that began earlier than this node.
    early: BTreeMap<ShareId, ArrivedShare>,
    /// Rounds from parties that published earlier than this node.
    early_rounds: EarlyRounds,
    /// The number of the run, from 1: with circles that of its round.
    number: u32,
    /// What this node has sealed for its readers, and they for it, once it has.
    circle: Option<Box<CircleRound>>,
    /// What this node seals with, from START on, and opens with.
    seals: Option<Box<Seals>>,
    /// Noise of releases to come, once it is mixed.
    ahead: Option<Box<NoiseAhead>>,
    seal_seed: Zeroizing<[u8; 32]>,
    /// Why this node leaves, while it waits to know what has left it.
    leaving: Option<String>,
    /// Until when it waits for its neighbours to end, once it has itself.
    stays_until: Option<Time>,
    /// It is not its plan's first run: nobody gathers.
    succeeds: bool,
    waking: Waking,
    /// What the outcome will say; its ending is known when it is given out.
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
        let draft = plan.draft();
        assert!(me < plan.parties(), "the driver takes its party from the plan");
        let members = Members::of(&plan);
        let course = Course::of(&plan, me);
        let rules = ItemRules::of(&plan, &course);
        let draws = plan.draws_at_start();
        let flood = Flood::new(me, members)
            .committing(draws)
            .pairing(plan.pairs())
            .with_numbers(starts(&plan))
            .with_stages(rules.stages)
            .with_colluding(draft.privacy.colluding);
        let electorate = electorate(&plan, me);
        let commons = Commons::new(
            Signer::new(me, *plan.digest(), key, epoch),
            flood,
            rules,
            electorate.public.clone(),
            now,
        );
        let entrant = Entrant {
            party: me,
            key: run_key,
            pair: plan.pairs().then_some(pair_key),
        };
        let draw = draws.then_some(Draw {
            digest: *plan.digest(),
            secret: Zeroizing::new(nonce_secret),
        });
        let present = Presence::new(electorate.clone());
        let gathering = Box::new(Gathering::new(entrant, attendance(&plan), present, now, draw));
        let (ready, weight) = (gathering.ready(), plan.lattice().weight(draft.weight_units(me)));
        let onset = course.begin_once_drawn(value.into_vector(), LatticeWeight(weight), noise);
        let mut run = Run {
            plan: plan.clone(),
            settle_ms: draft.run.settle_ms,
            course,
            electorate,
            commons,
            machine: Machine::Gathering { gathering, onset },
            now,
            private: BTreeSet::new(),
            pull_at: Time::FAR,
            gone: BTreeMap::new(),
            early: BTreeMap::new(),
            early_rounds: EarlyRounds::default(),
            number: 1,
            circle: None,
            seals: None,
            ahead: None,
            seal_seed: Zeroizing::new(seal_seed),
            leaving: None,
            stays_until: None,
            succeeds: false,
            waking: Waking::default(),
            record: Record::default(),
        };
        run.commons.event(Event::Phase(Phase::Gathering));
        run.commons.say(ready);
        run.commons.event(Event::Ready(1));
        run
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
            Input::Gone { peer } => self.lost(peer),
            Input::Public { from, frame } => {
                let gathered =
                    !matches!(&self.machine, Machine::Gathering { gathering, .. } if !gathering.has_signed());
                let news = self.commons.receive(self.now, from, &frame, gathered);
                let back = self.heard(from, &frame);
                if !news && !due && !back {
                    return Ok(());
                }
                self.hand_on_rounds();
            }
            Input::Private { from, frame } => self.receive_private(from, &frame),
            Input::Spent(result) => self.spent(result),
            Input::Revealed(result) => self.revealed(result),
            Input::Verdict(verdict) => self.judged(verdict),
            Input::Leave => self.leave("this node was told to leave".to_string()),
            Input::Left { share } => self
                .exchange()
                .into_iter()
                .for_each(|exchange| exchange.left(share)),
            Input::Recalled(recalled) => self.recalled(&recalled),
            Input::Contribution { value, .. } => self.contribute(value),
            Input::Tick => {}
        }
        self.advance();
        Ok(())
    }

    /// The next output. After [`Output::Wait`] there is none until the next input.
    pub fn poll_output(&mut self) -> Output {
        self.commons
            .outbox
            .pop_front()
            .unwrap_or_else(|| Output::Wait { until: self.wake() })
    }

    /// This node keeps long bodies on a shelf. Called before it is fed anything.
    pub fn shelving(mut self, shelf: &Shelf) -> Self {
        self.commons.shelve(shelf);
        self
    }

    fn exchange(&mut self) -> Option<&mut ShareExchange> {
        match &mut self.machine {
            Machine::Mixing { exchange }
            | Machine::Settling { exchange, .. }
            | Machine::Auditing { exchange, .. } => Some(exchange),
            _ => None,
        }
    }

    /// The number of the START that this node has begun with, and its members; `None` in a later
    /// release, which begins without one.
    pub(crate) fn start(&self) -> Option<(u8, &BTreeSet<Party>)> {
        (!self.succeeds).then_some((self.record.start_number, &self.record.started))
    }

    /// The plan with the schedule that START drew, once it has; else as it was given.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Steps the phase's machine until it wants nothing more, then asks for what is lacking.
    fn advance(&mut self) {
        while self.step() {
            self.carry_out();
        }
        self.carry_out();
        self.check_complete();
        self.pull_at = self.commons.pull(self.now);
        if let Some(gathered) = self.waits_in_public() {
            self.pull_at = self.pull_at.min(self.commons.look_out(self.now, gathered));
        }
    }

    /// One step of the present phase. False: it wants nothing more now.
    fn step(&mut self) -> bool {
        if self.leave_given_up_start() || self.step_waking() {
            return true;
        }
        self.step_informed();
        match &mut self.machine {
            Machine::Gathering { gathering, .. } => match gathering.step(self.now, &self.commons.flood) {
                Some(step) => self.gather(step),
                None => return false,
            },
            Machine::Mixing { .. } if self.waking.waits().is_some() => return false,
            Machine::Mixing { exchange } => {
                exchange.advance(self.now);
                let quiet = exchange.is_quiet(self.now);
                if !(quiet && self.is_circle_quiet()) {
                    return false;
                }
                self.begin_settling();
            }
            Machine::Settling { agreement, .. } => {
                match self
                    .commons
                    .step(agreement, Stage::Settling, self.now, &self.gone)
                {
                    Some(step) => self.settle(step),
                    None => return self.notice_own_final(),
                }
            }
            Machine::Correcting {
                agreement, unsealing, ..
            } => {
                let stage = unsealing.stage();
                match self.commons.step(agreement, stage, self.now, &self.gone) {
                    Some(step) => self.correct(stage, step),
                    None => return false,
                }
            }
            Machine::Opening { .. } => return self.step_opening() || self.step_confirming(),
            Machine::Publishing { agreement, .. } => {
                let stage = agreement.stage();
                match self.commons.step(agreement, stage, self.now, &self.gone) {
                    Some(step) => self.publish(stage, step),
                    None => return self.step_publication(),
                }
            }
            Machine::Auditing { until, .. } if self.now >= *until => self.unjudged(),
            Machine::Awaiting
            | Machine::Spending { .. }
            | Machine::Auditing { .. }
            | Machine::Mixed { .. }
            | Machine::Over => return false,
        }
        true
    }

    fn withhold(&mut self, reason: String) {
        self.record.withheld.get_or_insert(reason);
    }

    fn finish(&mut self, ending: Ending, published: Published) {
        if std::mem::replace(&mut self.record.finished, true) {
            return;
        }
        self.wipe_unless_it_goes_on();
        let tally = self.exchange().map(|exchange| exchange.tally());
        let record = &self.record;
        let outcome = Outcome {
            ending,
            started: record.started.clone(),
            started_at: record.started_at,
            schedule_seed: self.plan.seed_at_start(),
            logs: record.logs.clone(),
            own_log: record.own_log.clone(),
            verdict: record.verdict.clone(),
            included: published.included,
            agreed: published.agreed,
            sum: published.sum,
            accuracy: published.accuracy,
            sealed: record.sealed,
            opened_for: record.opened_for.clone(),
            unopened: record.unopened.clone(),
            out_of_range: record.out_of_range,
            training: None,
            gossip: None,
            tally: tally.unwrap_or(record.tally),
        };
        self.commons.event(Event::Phase(Phase::Done));
        self.commons.outbox.push_back(Output::Finished(Box::new(outcome)));
        if !self.may_go_on() {
            self.tell_finished();
        }
    }

    fn wake(&self) -> Time {
        let phase = match &self.machine {
            Machine::Gathering { gathering, .. } => gathering.wake(self.now),
            Machine::Mixing { exchange } => {
                let circle = self.circle.as_ref().map_or(Time::FAR, |circle| circle.wake());
                exchange.wake(self.now).min(circle)
            }
            Machine::Settling { agreement, .. } => agreement.wake(self.now, &self.gone),
            Machine::Publishing { agreement, .. } => {
                agreement.wake(self.now, &self.gone).min(self.publication_wake())
            }
            Machine::Correcting { agreement, .. } => agreement.wake(self.now, &self.gone),
            Machine::Opening {
                opening,
                confirmation,
                ..
            } => {
                let agreement = confirmation.agreement();
                let confirmed = agreement.map_or(Time::FAR, |it| it.wake(self.now, &BTreeMap::new()));
                opening.wake(self.now, &self.gone).min(confirmed)
            }
            Machine::Auditing { until, .. } => *until,
            // Nothing is done then: it is known that this node ran.
            Machine::Awaiting | Machine::Spending { .. } => Some(self.settling_half())
                .filter(|&half| half > self.now)
                .unwrap_or(Time::FAR),
            Machine::Mixed { .. } | Machine::Over => Time::FAR,
        };
        phase
            .min(self.pull_at)
            .min(self.stays_until())
            .min(self.waking_wake())
    }
}

#[cfg(test)]
pub(super) mod tests;
