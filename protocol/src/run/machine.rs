//! A run: the parent machine that owns one machine a phase and forwards to it.
//!
//! Feed one input, drain the outputs until [`Output::Wait`], feed the next:
//!
//! ```ignore
//! run.handle(now, input)?;
//! let until = loop {
//!     match run.poll_output() {
//!         Output::Public { to, frame } => public.send(to, frame),
//!         // Dropped unless the share's ticket can be taken.
//!         Output::Private { to, frame, share } => private.send(to, frame, share.map(|it| tickets.of(it))),
//!         Output::Recall(shares) => run.handle(now, Input::Recalled(tickets.recall(&shares)))?,
//!         Output::Spend => answer_later(Input::Spent(create_spent_file())),
//!         Output::Audit(logs) => answer_later(Input::Verdict(gate(run.plan(), &logs))),
//!         Output::Event(event) => show(event),
//!         Output::Finished(outcome) => report(outcome),
//!         Output::Wait { until } => break until,
//!     }
//! };
//! ```
//!
//! An error leaves the machine unchanged. What peers send is never an error: what is out of order
//! is ignored, with an [`Event::Offence`]. Everything that is kept is bounded by the plan: one slot
//! a kind, party and stage.
//!
//! Outputs go only to peers that are connected; when a connection is lost the transport drops what
//! it had queued for it, and the machine sends again what matters once it is told of a new one.

mod averaged;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use libp2p_identity::Keypair;

use crate::agreement::agreeing::{Agreement, Clock, Electorate, StageSights, Step};
use crate::agreement::flood::Flood;
use crate::agreement::gathering::{Attendance, Draw, Gathering, GatheringStep};
use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::commitment::Nonce;
use crate::messages::log::{AgreedLogs, Answer, Log, ShareId};
use crate::messages::notice::{Incarnation, ItemSet, Network, Phase, Seat, Stage};
use crate::messages::signing::{Members, Signer};
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::mixing::course::Course;
use crate::mixing::exchange::{ArrivedShare, Deed, Exchange, Outset, Tally};
use crate::mixing::machine::Mixing;
use crate::mixing::portion::Noise;
use crate::mixing::ticket::Recalled;
use crate::plan::checked::Plan;
use crate::publishing::averaging::machine::Averaging;
use crate::publishing::result::{Accuracy, Sum};
use crate::run::commons::{Commons, Early, ItemRules};
use crate::run::interface::{Input, InputError, Output};
use crate::run::outcome::{Ending, Event, GateVerdict, Outcome, Progress};
use crate::time::Time;
use crate::topology::party::Party;

/// Who this node is in a run.
pub struct Identity {
    /// Its party.
    pub party: Party,
    /// Signs for it.
    pub key: Keypair,
    /// Fresh randomness of this start.
    pub incarnation: Incarnation,
    /// More of it: what this start adds to a schedule that is drawn at START. Secret until then.
    pub nonce: Nonce,
    /// Larger than every sequence number of earlier starts: wall-clock milliseconds at the start ×
    /// 2^16 will do.
    pub epoch: u64,
}

enum Machine {
    Gathering {
        gathering: Gathering,
        mixing: Mixing<LatticeVector, LatticeWeight>,
    },
    Spending {
        mixing: Mixing<LatticeVector, LatticeWeight>,
    },
    Mixing {
        exchange: Exchange,
    },
    Settling {
        exchange: Exchange,
        agreement: Agreement,
    },
    Auditing {
        exchange: Exchange,
        logs: Arc<AgreedLogs>,
    },
    Publishing {
        agreement: Agreement,
        averaging: Option<Box<Averaging>>,
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
    /// Rounds of averaging that came early.
    early_rounds: Early,
    /// This node was told to leave, and waits to know what has left it.
    leaving: bool,
    /// What the outcome will say; its ending is known when it is given out.
    record: Record,
}

/// What is known of the outcome so far.
#[derive(Default)]
struct Record {
    started: BTreeSet<Party>,
    started_at: Option<Time>,
    logs: Option<Arc<AgreedLogs>>,
    own_log: Option<Log>,
    verdict: Option<GateVerdict>,
    withheld: Option<String>,
    tally: Tally,
    received: usize,
    accuracy: Option<Accuracy>,
    finished: bool,
    complete: bool,
}

impl Run {
    /// This node's part. `value` is x̃ = clipped, rounded x + η*; `noise` draws η, all of it here,
    /// while nobody waits. Floods READY at once: all checks of the input are done, and the plan is
    /// not spent.
    ///
    /// # Panics
    /// If the party is not in the plan.
    pub fn new(plan: Arc<Plan>, identity: Identity, value: LatticeVector, noise: Noise, now: Time) -> Self {
        let Identity {
            party: me,
            key,
            incarnation,
            nonce,
            epoch,
        } = identity;
        let draft = plan.draft();
        assert!(me < plan.parties(), "the driver takes its party from the plan");
        let members = Members::new(
            *plan.digest(),
            draft.members.iter().map(|member| member.public_key()).collect(),
        );
        let course = Course::of(&plan, me);
        let rules = ItemRules::of(&plan, &course);
        let draws = plan.draws_at_start();
        let flood = Flood::new(me, members).committing(draws);
        let electorate = Electorate {
            me,
            parties: plan.parties(),
            colluding: draft.privacy.colluding,
            private: Arc::new(draft.private_graph.clone()),
            public: Arc::new(draft.public_graph.clone()),
        };
        let neighbours = draft.public_graph.neighbours(me).to_vec();
        let commons = Commons::new(
            Signer::new(me, *plan.digest(), key, epoch),
            flood,
            rules,
            neighbours,
        );
        let seat = Seat {
            party: me,
            incarnation,
        };
        let attendance = Attendance {
            parties: plan.parties(),
            min_parties: draft.run.min_parties,
            join_ms: draft.run.join_ms,
        };
        let draw = draws.then_some(Draw {
            digest: *plan.digest(),
            nonce,
        });
        let gathering = Gathering::new(seat, attendance, now, draw);
        let ready = gathering.ready();
        let weight = LatticeWeight(plan.lattice().weight(draft.weight_units(me)));
        let mixing = course.begin(value, weight, noise);
        let mut run = Run {
            plan: plan.clone(),
            settle_ms: draft.run.settle_ms,
            course,
            electorate,
            commons,
            machine: Machine::Gathering { gathering, mixing },
            now,
            private: BTreeSet::new(),
            pull_at: Time::FAR,
            gone: BTreeMap::new(),
            early: BTreeMap::new(),
            early_rounds: Early::new(),
            leaving: false,
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
            Input::Disconnected {
                network: Network::Public,
                peer,
            } => self.commons.disconnected(peer),
            Input::Disconnected {
                network: Network::Private,
                peer,
            } => {
                self.private.remove(&peer);
                if let Some(exchange) = self.exchange() {
                    exchange.disconnected(peer);
                }
            }
            Input::Gone { peer } => {
                self.gone.entry(peer).or_insert(self.now);
                if let Some(exchange) = self.exchange() {
                    exchange.gone(peer, true);
                }
            }
            Input::Public { from, frame } => {
                let gathered =
                    !matches!(&self.machine, Machine::Gathering { gathering, .. } if !gathering.has_signed());
                if !self.commons.receive(self.now, from, &frame, gathered) && !due {
                    return Ok(());
                }
                self.hand_on_rounds();
            }
            Input::Private { from, frame } => self.receive_private(from, &frame),
            Input::Spent(result) => self.spent(result),
            Input::Verdict(verdict) => self.judged(verdict),
            Input::Leave => self.leave(),
            Input::Left { share } => self
                .exchange()
                .into_iter()
                .for_each(|exchange| exchange.left(share)),
            Input::Recalled(recalled) => self.recalled(&recalled),
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

    /// Where the run is.
    pub fn progress(&self) -> Progress {
        let exchange = self.holdings();
        let round = match self.machine {
            Machine::Gathering { .. } | Machine::Spending { .. } => 0,
            _ => exchange.map_or(self.course.rounds + 1, Exchange::round),
        };
        Progress {
            phase: self.phase(),
            ready: self.commons.flood.readies().len(),
            round,
            tally: exchange.map_or(self.record.tally, Exchange::tally),
            received: exchange.map_or(self.record.received, |exchange| exchange.received.len()),
        }
    }

    fn phase(&self) -> Phase {
        match self.machine {
            _ if self.record.finished => Phase::Done,
            Machine::Gathering { .. } | Machine::Spending { .. } => Phase::Gathering,
            Machine::Mixing { .. } => Phase::Mixing,
            Machine::Settling { .. } | Machine::Auditing { .. } => Phase::Settling,
            Machine::Publishing { .. } => Phase::Publishing,
            Machine::Over => Phase::Done,
        }
    }

    /// The longest frames that peers may send: on the public graph, on the private one.
    pub fn frame_limits(plan: &Plan) -> (usize, usize) {
        let course = Course::of(plan, 0);
        let share = course.share_bytes();
        let rules = ItemRules::of(plan, &course);
        let averaging = plan
            .terms()
            .map_or(0, |_| Averaging::frame_limit(course.dimension));
        (
            wire::public_frame_limit(plan.parties(), rules.largest()).max(averaging),
            wire::private_frame_limit(share),
        )
    }

    fn check(&self, input: &Input) -> Result<(), InputError> {
        match *input {
            Input::Connected { peer, .. }
            | Input::Disconnected { peer, .. }
            | Input::Gone { peer }
            | Input::Public { from: peer, .. }
            | Input::Private { from: peer, .. }
                if peer >= self.electorate.parties =>
            {
                Err(InputError::Peer(peer))
            }
            Input::Spent(_) if !matches!(self.machine, Machine::Spending { .. }) => {
                Err(InputError::NotAsked("Spent"))
            }
            Input::Verdict(_) if !matches!(self.machine, Machine::Auditing { .. }) => {
                Err(InputError::NotAsked("Verdict"))
            }
            Input::Recalled(ref recalled)
                if !self
                    .holdings()
                    .is_some_and(|exchange| exchange.has_asked_for(recalled)) =>
            {
                Err(InputError::NotAsked("Recalled"))
            }
            _ => Ok(()),
        }
    }

    /// The mixing state, for checks of conservation.
    pub(crate) fn holdings(&self) -> Option<&Exchange> {
        match &self.machine {
            Machine::Mixing { exchange }
            | Machine::Settling { exchange, .. }
            | Machine::Auditing { exchange, .. } => Some(exchange),
            _ => None,
        }
    }

    /// The bytes of a party's item, for a simulated party that shows others another one.
    pub(crate) fn item(&self, stage: Stage, author: Party) -> Option<&[u8]> {
        self.commons
            .items(stage)
            .get(author)
            .map(|body| &body.bytes()[..])
    }

    fn exchange(&mut self) -> Option<&mut Exchange> {
        match &mut self.machine {
            Machine::Mixing { exchange }
            | Machine::Settling { exchange, .. }
            | Machine::Auditing { exchange, .. } => Some(exchange),
            _ => None,
        }
    }

    fn connected(&mut self, network: Network, peer: Party) {
        self.gone.remove(&peer);
        match network {
            Network::Public => {
                self.commons.connected(peer);
                if let Machine::Publishing {
                    averaging: Some(averaging),
                    ..
                } = &mut self.machine
                {
                    averaging.connected(peer);
                }
            }
            Network::Private => {
                self.private.insert(peer);
            }
        }
        if let Some(exchange) = self.exchange() {
            exchange.gone(peer, false);
            if network == Network::Private {
                exchange.connected(peer);
            }
        }
    }

    fn receive_private(&mut self, from: Party, frame: &Bytes) {
        let (digest, read) = match wire::read_private(frame) {
            Err(reason) => return self.commons.offence(from, reason),
            Ok(read @ (PrivateFrame::Share { digest, .. } | PrivateFrame::Answer { digest, .. })) => {
                (digest, read)
            }
        };
        if let Err(reason) = self.commons.flood.members().same_plan(&digest) {
            return self.commons.offence(from, reason);
        }
        match read {
            PrivateFrame::Share {
                id, weight, values, ..
            } => {
                self.receive_share(
                    from,
                    id,
                    ArrivedShare {
                        weight,
                        values: frame.slice(values),
                    },
                );
            }
            PrivateFrame::Answer { id, answer, .. } => self.receive_answer(from, id, answer),
        }
    }

    fn receive_share(&mut self, from: Party, id: ShareId, arrival: ArrivedShare) {
        match &mut self.machine {
            Machine::Gathering { .. } | Machine::Spending { .. } => {
                let due = id.from == from && id.to == self.course.me && self.may_be_due(id);
                if due && arrival.values.len() == self.course.share_bytes() {
                    self.early.entry(id).or_insert(arrival);
                } else {
                    self.commons.offence(
                        from,
                        format!(
                            "a share that is not due: round {}, from {} to {}",
                            id.round, id.from, id.to
                        ),
                    );
                }
            }
            Machine::Mixing { exchange }
            | Machine::Settling { exchange, .. }
            | Machine::Auditing { exchange, .. } => {
                exchange.share(from, id, arrival);
            }
            // The logs are agreed or the run is over: no answer can change anything, and a refusal
            // might contradict an earlier answer.
            Machine::Publishing { .. } | Machine::Over => {}
        }
    }

    /// Whether a share may be due to this node. Until START has drawn the schedule here, when
    /// others may have begun: as many of a neighbour as any schedule has.
    fn may_be_due(&self, id: ShareId) -> bool {
        if !self.plan.draws_at_start() || self.plan.seed_at_start().is_some() {
            return self.course.is_due(id.round, id.from);
        }
        let graph = &self.plan.draft().private_graph;
        let sent = self.plan.rounds() as usize * self.plan.fanout() as usize;
        let held = self
            .early
            .keys()
            .filter(|other| other.from == id.from && **other != id)
            .count();
        (1..=self.plan.rounds()).contains(&id.round)
            && graph.joins(id.from, id.to)
            && held < sent.div_ceil(graph.neighbours(id.from).len().max(1))
    }

    /// The plan with the schedule that START drew, once it has; else as it was given.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// START has drawn the schedule.
    fn draw(&mut self, seed: u64) {
        self.plan = Arc::new(self.plan.with_draw(seed));
        let schedule = Arc::new(self.plan.schedule().clone());
        self.course.draw(schedule.clone());
        self.commons.rules.schedule = schedule;
        let due = |id: &ShareId| self.course.is_due(id.round, id.from);
        let undue: Vec<ShareId> = self.early.keys().copied().filter(|id| !due(id)).collect();
        for id in undue {
            self.early.remove(&id);
            self.commons.offence(
                id.from,
                format!(
                    "a share that is not due: round {}, from {} to {}",
                    id.round, id.from, id.to
                ),
            );
        }
    }

    fn receive_answer(&mut self, from: Party, id: ShareId, answer: Answer) {
        if id.to != from || id.from != self.course.me {
            return self
                .commons
                .offence(from, "an answer about somebody else's share");
        }
        if let Err(reason) = self.commons.flood.members().verify_answer(id, &answer) {
            return self.commons.offence(from, reason);
        }
        if let Some(exchange) = self.exchange() {
            exchange.answer(from, id, answer);
        }
    }

    /// Steps the phase's machine until it wants nothing more, then asks for what is lacking.
    fn advance(&mut self) {
        while self.step() {
            self.carry_out();
        }
        self.carry_out();
        self.pull_at = self.commons.pull(self.now);
    }

    /// One step of the present phase. False: it wants nothing more now.
    fn step(&mut self) -> bool {
        match &mut self.machine {
            Machine::Gathering { gathering, .. } => match gathering.step(self.now, &self.commons.flood) {
                Some(step) => self.gather(step),
                None => return false,
            },
            Machine::Mixing { exchange } => {
                exchange.advance(self.now);
                if !exchange.is_quiet(self.now) {
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
                    None => return false,
                }
            }
            Machine::Publishing { agreement, .. } => {
                match self
                    .commons
                    .step(agreement, Stage::Publishing, self.now, &self.gone)
                {
                    Some(step) => self.publish(step),
                    None => return self.step_averaging() || self.check_complete(),
                }
            }
            Machine::Spending { .. } | Machine::Auditing { .. } | Machine::Over => return false,
        }
        true
    }

    fn gather(&mut self, step: GatheringStep) {
        match step {
            GatheringStep::Say(notice) => self.commons.say(notice),
            GatheringStep::Call => self.commons.call(),
            GatheringStep::Abort(reason) => {
                self.machine = Machine::Over;
                self.finish(Ending::Aborted { reason }, BTreeSet::new(), false, None);
            }
            GatheringStep::Liar(party) => {
                self.machine = Machine::Over;
                let name = &self.plan.draft().members[party].name;
                let reason =
                    format!("{name} revealed another nonce for the schedule than it had committed to");
                self.finish(Ending::Aborted { reason }, BTreeSet::new(), false, None);
            }
            GatheringStep::Begin(parties, seed) => {
                seed.into_iter().for_each(|seed| self.draw(seed));
                if let Machine::Gathering { mixing, .. } = std::mem::replace(&mut self.machine, Machine::Over)
                {
                    (self.record.started, self.record.started_at) = (parties, Some(self.now));
                    self.machine = Machine::Spending { mixing };
                    self.commons.outbox.push_back(Output::Spend);
                }
            }
        }
    }

    fn spent(&mut self, result: Result<(), String>) {
        let Machine::Spending { mixing } = std::mem::replace(&mut self.machine, Machine::Over) else {
            return;
        };
        if let Err(reason) = result {
            return self.finish(Ending::Spent { reason }, BTreeSet::new(), false, None);
        }
        self.commons.event(Event::Phase(Phase::Mixing));
        let start = self.record.started_at.unwrap_or(self.now);
        let absent = (0..self.electorate.parties).filter(|party| !self.record.started.contains(party));
        let gone = absent.chain(self.gone.keys().copied()).collect();
        let outset = Outset {
            start,
            now: self.now,
            absent: gone,
            connected: self.private.clone(),
        };
        let mut exchange = Exchange::new(self.course.clone(), mixing, outset);
        for (id, arrival) in std::mem::take(&mut self.early) {
            exchange.share(id.from, id, arrival);
        }
        self.machine = Machine::Mixing { exchange };
    }

    /// When settling ends at the latest: nodes that began together place it alike.
    fn settling_ends(&self) -> Time {
        let mixing_ms = u64::from(self.course.rounds).saturating_mul(self.course.round_ms);
        let start = self.record.started_at.unwrap_or(self.now);
        start.plus_millis(mixing_ms.saturating_add(self.settle_ms))
    }

    fn begin_settling(&mut self) {
        let Machine::Mixing { mut exchange } = std::mem::replace(&mut self.machine, Machine::Over) else {
            return;
        };
        self.commons.event(Event::Phase(Phase::Settling));
        let begin = exchange.deadline(self.course.rounds);
        let clock = Clock::new(begin, self.settle_ms);
        let called = self.log_calls(&exchange, &clock);
        let log = exchange.close(called.iter().copied().collect());
        self.commons.keep_log(log.clone());
        self.commons.give_item(Stage::Settling, &wire::log_to_bytes(&log));
        self.record.own_log = Some(log);
        let agreement = Agreement::new(
            self.electorate.clone(),
            Stage::Settling,
            self.record.started.clone(),
            clock,
            called,
        );
        self.machine = Machine::Settling { exchange, agreement };
    }

    /// Whom the log calls gone: found gone, its log not here, and its log cannot be on the way: it
    /// still owes this node a share (nobody signs a log before all shares are answered), or it has
    /// been gone for a while.
    fn log_calls(&self, exchange: &Exchange, clock: &Clock) -> BTreeSet<Party> {
        let certain =
            |party: Party, since: Time| exchange.is_owed_by(party) || self.now >= clock.call_at(since);
        let held = |party: Party| self.commons.items(Stage::Settling).get(party).is_some();
        let gone = self
            .gone
            .iter()
            .filter(|(party, since)| self.record.started.contains(party) && certain(**party, **since));
        gone.map(|(party, _)| *party)
            .filter(|&party| !held(party))
            .collect()
    }

    fn settle(&mut self, step: Step) {
        match step {
            Step::Say(notice) => self.commons.say(notice),
            Step::Over => {
                let reason = "no set of logs was agreed on in time".to_string();
                self.withhold(reason.clone());
                self.finish(Ending::Withheld { reason }, BTreeSet::new(), false, None);
            }
            Step::Agreed(set) => {
                let Machine::Settling { exchange, .. } = std::mem::replace(&mut self.machine, Machine::Over)
                else {
                    return;
                };
                let logs = set
                    .iter()
                    .filter_map(|(party, hash)| Some((*party, self.commons.log_named(*party, hash)?)));
                let logs: AgreedLogs = logs.collect();
                let logs = Arc::new(logs);
                if !logs.contains_key(&self.course.me) {
                    self.withhold("the agreed set of logs does not hold this node's".to_string());
                }
                self.record.logs = Some(logs.clone());
                self.commons.outbox.push_back(Output::Audit(logs.clone()));
                self.machine = Machine::Auditing { exchange, logs };
            }
        }
    }

    fn judged(&mut self, verdict: GateVerdict) {
        let Machine::Auditing { exchange, logs } = std::mem::replace(&mut self.machine, Machine::Over) else {
            return;
        };
        (self.record.tally, self.record.received) = (exchange.tally(), exchange.received.len());
        self.record.verdict = Some(verdict.clone());
        let publishers = match verdict.publish {
            Some(publishers)
                if !publishers.is_empty() && publishers.iter().all(|party| logs.contains_key(party)) =>
            {
                publishers
            }
            _ => {
                self.withhold(verdict.reason.clone());
                let reason = self.record.withheld.clone().unwrap_or(verdict.reason);
                return self.finish(Ending::Withheld { reason }, BTreeSet::new(), false, None);
            }
        };
        self.commons.event(Event::Phase(Phase::Publishing));
        let mut averaging = None;
        if !publishers.contains(&self.course.me) {
            self.withhold(verdict.reason);
        } else if self.record.withheld.is_none() {
            match self.give_final(exchange, &logs, &publishers) {
                Ok(begun) => averaging = begun,
                Err(reason) => self.withhold(reason),
            }
        }
        let clock = Clock::new(self.now.max(self.settling_ends()), self.settle_ms);
        let agreement = Agreement::new(
            self.electorate.clone(),
            Stage::Publishing,
            publishers,
            clock,
            BTreeSet::new(),
        );
        self.machine = Machine::Publishing { agreement, averaging };
    }

    /// With averaging the final goes to the neighbours, else to everybody.
    fn give_final(
        &mut self,
        exchange: Exchange,
        logs: &AgreedLogs,
        publishers: &BTreeSet<Party>,
    ) -> Result<Option<Box<Averaging>>, String> {
        let last = exchange
            .settle(logs, publishers)
            .map_err(|liar| format!("party {liar} signed for a share that its log denies"))?;
        if self.commons.rules.terms.is_some() {
            return self.begin_averaging(last).map(Some);
        }
        let (digest, me, length) = (
            &self.course.digest,
            self.course.me,
            self.commons.rules.final_limit(),
        );
        let (frame, written) = wire::body_frame_with(digest, Stage::Publishing, me, length, |bytes| {
            let (weight, values) = bytes.split_at_mut(wire::FINAL_HEADER);
            weight.copy_from_slice(&last.weight.0.to_le_bytes());
            self.course.lattice.write_final(&last.value, values)
        });
        written.map_err(|_| "this node's final does not fit on the wire".to_string())?;
        self.commons.give_body(Stage::Publishing, frame, length);
        Ok(None)
    }

    fn publish(&mut self, step: Step) {
        match step {
            Step::Say(notice) => self.commons.say(notice),
            Step::Agreed(set) if self.commons.rules.terms.is_some() => self.average(&set),
            Step::Agreed(set) => self.conclude(&set, true),
            Step::Over => {
                let Machine::Publishing { agreement, .. } = &self.machine else {
                    return;
                };
                let mut set = self.commons.items(Stage::Publishing).set();
                set.retain(|(party, _)| agreement.expected().contains(party));
                match self.commons.rules.terms {
                    Some(_) => self.conclude_without_mean(&set, false),
                    None => self.conclude(&set, false),
                }
            }
        }
    }

    fn conclude(&mut self, set: &ItemSet, agreed: bool) {
        let included: BTreeSet<Party> = set.iter().map(|(party, _)| *party).collect();
        if let Some(reason) = self.record.withheld.clone() {
            return self.finish(Ending::Withheld { reason }, included, agreed, None);
        }
        let parties = self.electorate.parties;
        let finals = set
            .iter()
            .filter_map(|(party, hash)| self.commons.items(Stage::Publishing).version(*party, hash));
        let finals: Vec<_> = finals
            .filter_map(|body| self.commons.rules.last(parties, body.bytes()).ok())
            .collect();
        let ending = if agreed && included.len() == parties {
            Ending::Done
        } else {
            Ending::Degraded
        };
        self.finish(ending, included, agreed, Sum::of(&self.course.lattice, &finals));
    }

    /// Tells once that nobody needs this node any more.
    fn check_complete(&mut self) -> bool {
        let Machine::Publishing { agreement, .. } = &self.machine else {
            return false;
        };
        if self.record.complete
            || !self.record.finished
            || !(agreement.has_voted() || self.record.withheld.is_some())
        {
            return false;
        }
        let signers: BTreeSet<Party> = self
            .commons
            .flood
            .votes(Stage::Publishing)
            .map(|vote| vote.signer)
            .collect();
        let voted = agreement
            .expected()
            .iter()
            .all(|party| signers.contains(party) || self.gone.contains_key(party));
        let all = voted && self.all_averaged();
        if all {
            self.record.complete = true;
            self.commons.event(Event::Complete);
        }
        all
    }

    /// Ends the run for this node before its time. No share that is still here leaves any more; if
    /// one has left, the final is withheld. Who has published its final already has that in its
    /// result, with what is here of the others'.
    fn leave(&mut self) {
        let reason = "this node was told to leave".to_string();
        match &mut self.machine {
            Machine::Over => {}
            Machine::Publishing { .. } if self.record.finished => {}
            Machine::Publishing {
                averaging: Some(averaging),
                ..
            } if averaging.members().is_some() => {
                averaging.leave(self.now, &self.commons.sights(&self.gone));
                self.carry_out_averaging();
            }
            Machine::Publishing { .. } => self.publish(Step::Over),
            Machine::Gathering { .. } | Machine::Spending { .. } => {
                self.finish(Ending::Aborted { reason }, BTreeSet::new(), false, None);
            }
            Machine::Mixing { exchange }
            | Machine::Settling { exchange, .. }
            | Machine::Auditing { exchange, .. } => {
                if exchange.recall_all() {
                    // How it ends is known with the answer.
                    self.leaving = true;
                    return;
                }
                let ending = if exchange.anything_left() {
                    Ending::Withheld { reason }
                } else {
                    Ending::Aborted { reason }
                };
                self.finish(ending, BTreeSet::new(), false, None);
            }
        }
        self.machine = Machine::Over;
    }

    /// What became of shares that were called back: the round ends, or this node leaves.
    fn recalled(&mut self, recalled: &Recalled) {
        if let Some(exchange) = self.exchange() {
            exchange.recalled(recalled);
        }
        if self.leaving {
            self.leave();
        }
    }

    fn withhold(&mut self, reason: String) {
        self.record.withheld.get_or_insert(reason);
    }

    fn finish(&mut self, ending: Ending, included: BTreeSet<Party>, agreed: bool, sum: Option<Sum>) {
        if std::mem::replace(&mut self.record.finished, true) {
            return;
        }
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
            included,
            agreed,
            sum,
            accuracy: record.accuracy,
            tally: tally.unwrap_or(record.tally),
        };
        self.commons.event(Event::Phase(Phase::Done));
        self.commons.outbox.push_back(Output::Finished(Box::new(outcome)));
    }

    /// Turns the exchange's deeds into outputs.
    fn carry_out(&mut self) {
        let deeds = self.exchange().map(Exchange::take_deeds).unwrap_or_default();
        for deed in deeds {
            match deed {
                Deed::Share { to, frame, id } => {
                    self.commons.outbox.push_back(Output::Private {
                        to,
                        frame,
                        share: Some(id),
                    });
                }
                Deed::Recall(shares) => self.commons.outbox.push_back(Output::Recall(shares)),
                Deed::Round(round) => self.commons.event(Event::Round(round)),
                Deed::Fault(fault) => self.commons.event(Event::Fault(fault.to_string())),
                Deed::Offence { peer, offence } => self.commons.offence(peer, offence.to_string()),
                Deed::Answer { id, verdict } if self.private.contains(&id.from) => {
                    match self.commons.signer().answer(id, verdict) {
                        Ok(answer) => {
                            let frame = wire::answer_frame(&self.course.digest, id, &answer);
                            self.commons.outbox.push_back(Output::Private {
                                to: id.from,
                                frame,
                                share: None,
                            });
                        }
                        Err(reason) => self.commons.event(Event::Fault(reason.to_string())),
                    }
                }
                // It will send the share again on a new connection, and be answered then.
                Deed::Answer { .. } => {}
            }
        }
    }

    fn wake(&self) -> Time {
        let phase = match &self.machine {
            Machine::Gathering { gathering, .. } => gathering.wake(),
            Machine::Mixing { exchange } => exchange.wake(self.now),
            Machine::Settling { agreement, .. } => agreement.wake(self.now, &self.gone),
            Machine::Publishing { agreement, .. } => {
                agreement.wake(self.now, &self.gone).min(self.averaging_wake())
            }
            Machine::Spending { .. } | Machine::Auditing { .. } | Machine::Over => Time::FAR,
        };
        phase.min(self.pull_at)
    }
}

impl Commons {
    fn step(
        &self,
        agreement: &mut Agreement,
        stage: Stage,
        now: Time,
        gone: &BTreeMap<Party, Time>,
    ) -> Option<Step> {
        let none = BTreeMap::new();
        let in_logs = if stage == Stage::Settling {
            &self.in_logs
        } else {
            &none
        };
        agreement.step(
            now,
            &StageSights {
                flood: &self.flood,
                items: self.items(stage),
                gone,
                in_logs,
            },
        )
    }
}

#[cfg(test)]
pub(super) mod tests;
