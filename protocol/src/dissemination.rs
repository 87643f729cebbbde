//! Publishing by averaging: instead of every final, each node sends its own to its public neighbours, and averages until all are within ν.
//!
//! 1. **Entries.** The second agreement is on entries ([`entry`]): weight, range and hash of each gated final. So all know whose finals are averaged
//!    (the set E, signed by a quorum), with which weights, and bit for bit what; and how many rounds it takes. With its entry a node sends its neighbours its
//!    *opening*: the final in units of the plan's [`terms`]. They take it only if it has the entry's hash.
//! 2. **The fast form** ([`fast`]): the rounds that [`Course::fit`](crate::averaging::Course::fit) gives for E's graph and ranges, on integers. Its error is bounded beforehand, so a node
//!    that has done the last round has its result, whatever becomes of others.
//! 3. **Falling back.** Who misses a message says so, once, signed and flooded; whoever hears of it begins ratio consensus ([`fallback`]) from the very same
//!    opening, those that have their result as well, for the others' sake. A neighbour that is gone, or silent for `settle_ms`, is *cut off*, by a signed and flooded
//!    notice; what follows from all cuts is in [`view`]. It ends when a difference of at most ν/2 to the exact mean is verified, or after
//!    [`FALLBACK_STAGES`] × `settle_ms` without one.
//!
//! Nobody counts `agreed` unless its result has exactly E's finals: two nodes that do are within ν of each other, whichever form each finished with.
//!
//! Privacy is that of publishing all finals: every message is a function of the openings of E, of signed notices and of time; each party enters one
//! opening, which was gated, and nothing that is private enters later. (The invariant [`entered`](crate::invariants::entered) holds that in the simulator.)
//!
//! The machine is fed by its parent, [`crate::run`], and its deeds are drained from it.

pub mod entry;
pub mod fallback;
pub mod fast;
pub mod terms;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::averaging::ratio::{self, Ratio};
use crate::averaging::{Spectrum, integers};
use crate::flood::Flood;
use crate::graph::Graph;
use crate::lattice::{Lattice, LatticeWeight};
use crate::message::{Form, Notice, Round, Signer};
use crate::mixing::Party;
use crate::time::Time;
use crate::wire::{self, Bytes};
use entry::Entry;
use fallback::{Fallback, Said};
use fast::Fast;
use terms::Terms;
use view::View;

/// Ratio consensus is given up after so many times `settle_ms`. Our choice: a silent party costs one of them, a second one another.
pub const FALLBACK_STAGES: u64 = 4;

/// What an averaging node is given.
pub struct Setup {
    /// This node's party.
    pub me: Party,
    /// Signs its rounds.
    pub signer: Signer,
    /// The public graph.
    pub graph: Arc<Graph>,
    /// The plan's terms.
    pub terms: Arc<Terms>,
    /// Where finals live.
    pub lattice: Lattice,
    /// Patience with a silent neighbour.
    pub settle_ms: u64,
}

/// What the machine sees besides its own state.
pub struct Sights<'a> {
    /// All notices held.
    pub flood: &'a Flood,
    /// Whom this node finds gone.
    pub gone: &'a BTreeMap<Party, Time>,
    /// Public neighbours that can be reached.
    pub connected: &'a BTreeSet<Party>,
    /// When each neighbour last sent this node something that it had signed.
    pub heard: &'a BTreeMap<Party, Time>,
}

/// What the machine wants.
#[derive(Debug)]
pub enum Deed {
    /// Sign and flood this.
    Say(Notice),
    /// Sign this for one neighbour.
    Tell(Party, Notice),
    /// Send a frame to a public neighbour.
    Send(Party, Arc<[u8]>),
    /// A peer sent what it may not send.
    Offence(Party, String),
    /// Something went wrong.
    Fault(String),
    /// How it ended for this node, once.
    Ended(Box<Averaged>),
}

/// What averaging came to.
#[derive(Clone, Debug)]
pub struct Averaged {
    /// Whose finals are in the mean.
    pub included: BTreeSet<Party>,
    /// The mean with its bound; none if none was verified.
    pub mean: Option<Mean>,
    /// Whether these are all of E's, and the bound is within ν/2.
    pub whole: bool,
}

/// A verified mean.
#[derive(Clone)]
pub struct Mean {
    /// An average of openings × their number: about the sum of finals, in steps of the lattice.
    pub sum: Vec<i128>,
    /// Σ of the weights, exact.
    pub weight: LatticeWeight,
    /// Each coordinate of `sum` is within this of the exact sum of the finals, in steps.
    pub steps: f64,
    /// The same for the result, in standard errors.
    pub standard_errors: f64,
}

impl std::fmt::Debug for Mean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mean({} coordinates, within {})", self.sum.len(), self.standard_errors)
    }
}

/// E, as all know it.
struct Electorate {
    members: BTreeSet<Party>,
    entries: BTreeMap<Party, Entry>,
    neighbours: Vec<Party>,
    ratio_width: usize,
}

enum Stage {
    /// Until E is agreed.
    Waiting,
    Fast(Fast),
    Fallback {
        fallback: Box<Fallback>,
        ends: Time,
    },
}

/// A message that came in and was not used yet.
struct Arrival {
    view: u64,
    spread: f64,
    values: Bytes,
}

/// One node's averaging.
pub struct Averaging {
    setup: Setup,
    own: Vec<i64>,
    stage: Stage,
    electorate: Option<Electorate>,
    inbox: BTreeMap<(Party, Form, u32), Arrival>,
    /// Neighbours' openings that have their entry's hash.
    openings: BTreeMap<Party, Bytes>,
    /// The messages of this and the round before: who reconnects may lack both.
    recent: Vec<Arc<[u8]>>,
    /// The newest message that was sent.
    sent: Option<(Form, u32)>,
    /// When the present wait began, and when neighbours are told of it next.
    waits: Time,
    beat: Time,
    ended: bool,
    deeds: Vec<Deed>,
}

/// A final's opening and entry: what this node commits to.
pub struct Opening {
    values: Vec<i64>,
    bytes: Vec<u8>,
    /// The entry.
    pub entry: Entry,
}

impl Opening {
    /// Of a gated final.
    ///
    /// # Errors
    /// A coordinate beyond what an opening has room for, which no honest final has.
    pub fn of(terms: &Terms, value: impl Iterator<Item = i128>, weight: LatticeWeight) -> Result<Self, String> {
        let wide: Vec<i128> = value.map(|steps| terms.opening(steps)).collect();
        let range = wide.iter().map(|x| x.unsigned_abs()).max().unwrap_or(0);
        let mut bytes = vec![0; wide.len() * terms.opening_bytes];
        let fits = integers::write(wide.iter().copied(), terms.opening_bytes, &mut bytes);
        if !fits || range >= 1 << 47 {
            return Err("this node's final does not fit into an opening".to_string());
        }
        let entry = Entry::new(weight, range as u64, &bytes);
        Ok(Opening { values: wide.into_iter().map(|x| x as i64).collect(), bytes, entry })
    }
}

impl Averaging {
    /// Sends this node's opening to whom it reaches.
    pub fn new(setup: Setup, opening: Opening, connected: &BTreeSet<Party>) -> Self {
        let mut averaging = Averaging {
            setup,
            own: opening.values,
            stage: Stage::Waiting,
            electorate: None,
            inbox: BTreeMap::new(),
            openings: BTreeMap::new(),
            recent: Vec::new(),
            sent: None,
            waits: Time::ZERO,
            beat: Time::FAR,
            ended: false,
            deeds: Vec::new(),
        };
        averaging.send(Form::Fast, 0, 0, 0.0, &opening.bytes, connected);
        averaging
    }

    /// The longest frame of any plan's averaging.
    pub fn frame_limit(dimension: usize) -> usize {
        256 + (dimension + 1) * 16
    }

    /// Whether this node has its result, or knows that it gets none.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// E, once it is agreed.
    pub fn members(&self) -> Option<&BTreeSet<Party>> {
        Some(&self.electorate.as_ref()?.members)
    }

    /// What is to be done.
    pub fn take_deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }

    fn fault(&mut self, text: impl Into<String>) {
        self.deeds.push(Deed::Fault(text.into()));
    }

    /// To all neighbours that take part and can be reached.
    fn send(&mut self, form: Form, round: u32, view: u64, spread: f64, values: &[u8], connected: &BTreeSet<Party>) {
        match self.setup.signer.round(form, round, view, spread, values) {
            Ok(signed) => {
                let frame = wire::round_frame(&signed, values);
                let to: Vec<Party> = self.partners().into_iter().filter(|peer| connected.contains(peer)).collect();
                self.deeds.extend(to.into_iter().map(|peer| Deed::Send(peer, frame.clone())));
                let keep = self.recent.len().saturating_sub(1);
                self.recent.drain(..keep);
                self.recent.push(frame);
                self.sent = Some((form, round));
            }
            Err(reason) => self.fault(reason.to_string()),
        }
    }

    /// The neighbours that this node's messages go to.
    fn partners(&self) -> Vec<Party> {
        match (&self.stage, &self.electorate) {
            (Stage::Fallback { fallback, .. }, _) => fallback.roles().live.clone(),
            (_, Some(electorate)) => electorate.neighbours.clone(),
            (_, None) => self.setup.graph.neighbours(self.setup.me).to_vec(),
        }
    }

    /// A neighbour can be reached (again): it may lack this node's last messages.
    pub fn connected(&mut self, peer: Party) {
        if self.partners().contains(&peer) {
            self.deeds.extend(self.recent.iter().map(|frame| Deed::Send(peer, frame.clone())));
        }
    }

    /// A signed round of a neighbour. What came before, or is of no use any more, is ignored; a neighbour cannot be two rounds ahead.
    pub fn round(&mut self, round: Round, values: Bytes) {
        let Round { author, form, round, view, spread, .. } = round;
        let (oldest, newest) = match (&self.stage, form) {
            (Stage::Waiting, _) => (0, 1),
            (Stage::Fast(fast), Form::Fast) => (fast.wants().unwrap_or(u32::MAX), fast.wants().map_or(0, |wanted| wanted + 1)),
            (Stage::Fast(_), Form::Ratio) => (0, 1),
            // Openings still matter: whoever holds one can enter it.
            (Stage::Fallback { .. }, Form::Fast) => (0, 0),
            (Stage::Fallback { fallback, .. }, Form::Ratio) => (fallback.round(), fallback.round() + 1),
        };
        let opens = (form, round) == (Form::Fast, 0);
        if round < oldest || (opens && self.openings.contains_key(&author)) {
            return;
        }
        if round > newest {
            if form == Form::Fast && !matches!(self.stage, Stage::Fallback { .. }) && !self.ended {
                self.deeds.push(Deed::Offence(author, format!("round {round} of averaging, which it cannot have reached")));
            }
            return;
        }
        if let Err(reason) = self.check_length(author, form, round, values.len()) {
            return self.deeds.push(Deed::Offence(author, reason));
        }
        self.inbox.entry((author, form, round)).or_insert(Arrival { view, spread, values });
        if opens && self.electorate.is_some() {
            self.check_opening(author);
        }
    }

    fn check_length(&self, author: Party, form: Form, round: u32, found: usize) -> Result<(), String> {
        let coordinates = self.own.len();
        let expected = match (form, &self.electorate, &self.stage) {
            (Form::Fast, _, _) if round == 0 => Some(coordinates * self.setup.terms.opening_bytes),
            (Form::Fast, _, Stage::Fast(fast)) => fast.length(round),
            (Form::Ratio, Some(electorate), _) => Some((coordinates + 1) * electorate.ratio_width),
            // Its length follows from E, and is looked at again then.
            _ => (found <= (coordinates + 1) * 16).then_some(found),
        };
        match expected {
            Some(expected) if expected == found => Ok(()),
            Some(expected) => Err(format!("round {round} of averaging has {found} bytes, expected {expected}")),
            None => Err(format!("party {author} sent round {round} of averaging, which the schedule does not have")),
        }
    }

    /// Takes an opening out of the inbox and keeps it if it is what its author committed to.
    fn check_opening(&mut self, author: Party) {
        let Some(arrival) = self.inbox.remove(&(author, Form::Fast, 0)) else { return };
        let entry = self.electorate.as_ref().and_then(|electorate| electorate.entries.get(&author));
        match entry {
            Some(entry) if entry.is_of(&arrival.values) => {
                self.openings.insert(author, arrival.values);
            }
            Some(_) => self.deeds.push(Deed::Offence(author, "an opening that is not the one that it announced".into())),
            None => {}
        }
    }

    /// E is agreed, with the entries of all of its members. This node is one of them.
    pub fn begin(&mut self, now: Time, entries: BTreeMap<Party, Entry>, sights: &Sights<'_>) {
        let (me, graph) = (self.setup.me, self.setup.graph.clone());
        let members: BTreeSet<Party> = entries.keys().copied().collect();
        let neighbours: Vec<Party> = graph.neighbours(me).iter().copied().filter(|other| members.contains(other)).collect();
        let ratio_width = ratio::width(entries.values().map(|entry| entry.range as f64).sum()).min(16);
        let schedule = self.schedule(&members, &entries);
        self.electorate = Some(Electorate { members, entries, neighbours: neighbours.clone(), ratio_width });
        neighbours.iter().for_each(|&author| self.check_opening(author));
        self.wait(now);
        match schedule {
            Some(schedule) => {
                self.stage = Stage::Fast(Fast::new(schedule, self.setup.terms.opening_bytes, neighbours, self.own.clone()));
            }
            // In pieces, or of finals that reach too far: then what is left of the graph averages as well as it can.
            None => self.miss(now, sights),
        }
        self.recheck();
    }

    fn schedule(&self, members: &BTreeSet<Party>, entries: &BTreeMap<Party, Entry>) -> Option<terms::Schedule> {
        let order: Vec<Party> = members.iter().copied().collect();
        let index = |party: Party| order.binary_search(&party).ok();
        let edges = self.setup.graph.edges().iter().filter_map(|&(a, b)| Some((index(a)?, index(b)?)));
        let graph = Graph::from_edges(order.len(), &edges.collect::<Vec<_>>()).ok()?;
        let ranges: Vec<f64> = entries.values().map(|entry| entry.range as f64).collect();
        self.setup.terms.schedule(&Spectrum::of(&graph)?, &ranges, self.weight(entries.values()))
    }

    fn weight<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> f64 {
        self.setup.lattice.weight_to_f64(entries.map(|entry| entry.weight.0).fold(0, i128::saturating_add))
    }

    /// Messages that came before their length could be told.
    fn recheck(&mut self) {
        let early: Vec<(Party, Form, u32)> = self.inbox.keys().copied().collect();
        for key in early {
            let (author, form, round) = key;
            let stranger = self.electorate.as_ref().is_some_and(|electorate| !electorate.members.contains(&author));
            let length = self.inbox[&key].values.len();
            if stranger || self.check_length(author, form, round, length).is_err() {
                self.inbox.remove(&key);
            }
        }
    }

    fn wait(&mut self, now: Time) {
        self.waits = now;
        self.beat = now.plus_millis(self.setup.settle_ms / 4);
    }

    /// This node misses a message, or there is no fast form.
    fn miss(&mut self, now: Time, sights: &Sights<'_>) {
        if !sights.flood.missed(self.setup.me) {
            self.deeds.push(Deed::Say(Notice::Missed));
        }
        self.fall_back(now, sights);
    }

    fn fall_back(&mut self, now: Time, sights: &Sights<'_>) {
        let Some(electorate) = &self.electorate else { return };
        let view = View::of(sights.flood, &self.setup.graph, &electorate.members);
        let roles = view.roles(&self.setup.graph, &electorate.members, self.setup.me);
        let mut ratio = Ratio::new(self.own.iter().copied());
        for (party, steward) in &roles.stewards {
            if *steward == self.setup.me {
                self.enter(&mut ratio, *party, false);
            }
        }
        let fallback = Box::new(Fallback::new(ratio, electorate.ratio_width, view, roles));
        let ends = now.plus_millis(self.setup.settle_ms.saturating_mul(FALLBACK_STAGES));
        self.stage = Stage::Fallback { fallback, ends };
        self.inbox.retain(|(_, form, _), _| *form == Form::Ratio);
        self.wait(now);
        self.say_round(sights);
    }

    fn enter(&self, ratio: &mut Ratio, party: Party, out: bool) {
        if let Some(bytes) = self.openings.get(&party) {
            ratio.enter(integers::read_narrow(bytes, self.setup.terms.opening_bytes), out);
        }
    }

    /// Sends the present round of ratio consensus.
    fn say_round(&mut self, sights: &Sights<'_>) {
        let Stage::Fallback { fallback, .. } = &self.stage else { return };
        let round = fallback.round();
        match fallback.message() {
            Some((view, spread, bytes)) => self.send(Form::Ratio, round, view, spread, &bytes, sights.connected),
            None => self.fault("a running sum does not fit into a message"),
        }
    }

    /// Does what can be done now.
    pub fn advance(&mut self, now: Time, sights: &Sights<'_>) {
        if let (Stage::Fast(_), Some(electorate)) = (&self.stage, &self.electorate)
            && electorate.members.iter().any(|&party| sights.flood.missed(party))
        {
            self.fall_back(now, sights);
        }
        loop {
            let moved = match self.stage {
                Stage::Waiting => false,
                Stage::Fast(_) => self.step_fast(now, sights),
                Stage::Fallback { .. } => {
                    self.look_around(now, sights);
                    self.step_fallback(now, sights)
                }
            };
            if !moved {
                break;
            }
        }
        self.tell_waiting(now, sights);
    }

    fn step_fast(&mut self, now: Time, sights: &Sights<'_>) -> bool {
        let Stage::Fast(fast) = &mut self.stage else { return false };
        let Some(round) = fast.wants() else { return false };
        let here = |party: &Party| match round {
            0 => self.openings.contains_key(party),
            _ => self.inbox.contains_key(&(*party, Form::Fast, round)),
        };
        let lacking: Vec<Party> = fast.neighbours().iter().copied().filter(|party| !here(party)).collect();
        if !lacking.is_empty() {
            if lacking.iter().any(|&party| self.is_lost(party, now, sights)) {
                self.miss(now, sights);
                return true;
            }
            return false;
        }
        let (openings, inbox) = (&self.openings, &mut self.inbox);
        let mut take = |party: Party| match round {
            0 => openings.get(&party).cloned(),
            _ => inbox.remove(&(party, Form::Fast, round)).map(|arrival| arrival.values),
        };
        let messages: BTreeMap<Party, Bytes> =
            fast.neighbours().iter().filter_map(|&party| Some((party, take(party)?))).collect();
        let made = fast.step(&messages);
        let done = fast.wants().is_none();
        self.wait(now);
        match made {
            Ok(Some(bytes)) => self.send(Form::Fast, round + 1, 0, 0.0, &bytes, sights.connected),
            Ok(None) if done => self.conclude_fast(),
            Ok(None) => {}
            Err(reason) => {
                self.fault(reason);
                self.miss(now, sights);
            }
        }
        true
    }

    /// Whether a neighbour whose message is needed is gone, or has said nothing for so long that it is not waited for.
    fn is_lost(&self, party: Party, now: Time, sights: &Sights<'_>) -> bool {
        sights.gone.contains_key(&party) || now >= self.patience(party, sights)
    }

    /// Until when a neighbour is waited for: from when this wait began (before, it may have had nothing to say) or it was last heard of.
    fn patience(&self, party: Party, sights: &Sights<'_>) -> Time {
        sights.heard.get(&party).copied().unwrap_or(self.waits).max(self.waits).plus_millis(self.setup.settle_ms)
    }

    /// Takes up what was flooded about cut edges, and cuts those to neighbours that are lost.
    fn look_around(&mut self, now: Time, sights: &Sights<'_>) {
        let (Stage::Fallback { fallback, .. }, Some(electorate)) = (&self.stage, &self.electorate) else { return };
        let (me, round) = (self.setup.me, fallback.round());
        let view = View::of(sights.flood, &self.setup.graph, &electorate.members);
        let lacking = |party: &&Party| !self.inbox.contains_key(&(**party, Form::Ratio, round));
        let lost = |party: &&Party| !view.is_cut(me, **party) && lacking(party);
        // One that has its result may have left; it is missed only where its message is waited for.
        let waits = !self.ended || self.sent == Some((Form::Ratio, round));
        let gone = |party: &&Party| waits && self.is_lost(**party, now, sights);
        let cut_by_other = |party: &&Party| view.has_cut(**party, me) && !view.has_cut(me, **party);
        let cut = electorate.neighbours.iter().filter(|party| cut_by_other(party) || (lost(party) && gone(party)));
        let notices = cut.map(|&party| Notice::Severed { party, held: self.openings.contains_key(&party) });
        let notices: Vec<Deed> = notices.map(Deed::Say).collect();
        self.deeds.extend(notices);
        let (Stage::Fallback { fallback, .. }, Some(electorate)) = (&mut self.stage, &self.electorate) else { return };
        if view != *fallback.view() {
            let roles = view.roles(&self.setup.graph, &electorate.members, me);
            let (openings, width) = (&self.openings, self.setup.terms.opening_bytes);
            fallback.change(view, roles, |ratio, before, after| {
                let mine = |roles: &view::Roles, party: Party| roles.stewards.get(&party) == Some(&me);
                for (&party, bytes) in openings {
                    match (mine(before, party), mine(after, party)) {
                        (false, true) => ratio.enter(integers::read_narrow(bytes, width), false),
                        (true, false) => ratio.enter(integers::read_narrow(bytes, width), true),
                        _ => {}
                    }
                }
            });
            let live = fallback.roles().live.clone();
            self.inbox.retain(|(party, ..), _| live.contains(party));
        }
    }

    fn step_fallback(&mut self, now: Time, sights: &Sights<'_>) -> bool {
        // A cut that this node has just decided on is taken up when it comes back as a held notice.
        if self.deeds.iter().any(|deed| matches!(deed, Deed::Say(Notice::Severed { .. }))) {
            return false;
        }
        let Stage::Fallback { fallback, ends } = &mut self.stage else { return false };
        let round = fallback.round();
        let given_up = now >= *ends || round >= ratio::MOST_ROUNDS - 1;
        if given_up && !self.ended {
            self.conclude_fallback(false);
            return false;
        }
        let live = fallback.roles().live.clone();
        let ahead = live.iter().any(|party| self.inbox.contains_key(&(*party, Form::Ratio, round)));
        if self.sent != Some((Form::Ratio, round)) {
            // Who has its result goes on only for others' sake.
            if self.ended && !ahead {
                return false;
            }
            self.wait(now);
            self.say_round(sights);
        }
        let Stage::Fallback { fallback, .. } = &mut self.stage else { return false };
        if given_up || !live.iter().all(|party| self.inbox.contains_key(&(*party, Form::Ratio, round))) {
            return false;
        }
        let messages = live.iter().filter_map(|party| {
            let Arrival { view, spread, values } = self.inbox.remove(&(*party, Form::Ratio, round))?;
            Some((*party, Said { view, spread, sums: values }))
        });
        let messages: BTreeMap<Party, Said> = messages.collect();
        let verified = fallback.step(messages).is_some();
        if verified && !self.ended {
            self.conclude_fallback(true);
        }
        let alone = live.is_empty() && !self.ended && verified;
        if alone {
            self.conclude_fallback(false);
        }
        true
    }

    /// While this node waits for others it says so: whoever waits for it must not take it for silent.
    fn tell_waiting(&mut self, now: Time, sights: &Sights<'_>) {
        if !self.is_waiting(now) || now < self.beat {
            return;
        }
        self.beat = now.plus_millis(self.setup.settle_ms / 4);
        let reached: Vec<Party> = self.partners().into_iter().filter(|peer| sights.connected.contains(peer)).collect();
        self.deeds.extend(reached.into_iter().map(|peer| Deed::Tell(peer, Notice::Waiting)));
    }

    fn is_waiting(&self, now: Time) -> bool {
        match &self.stage {
            Stage::Waiting => false,
            Stage::Fast(fast) => fast.wants().is_some(),
            Stage::Fallback { fallback, ends } => now < *ends && self.sent == Some((Form::Ratio, fallback.round())),
        }
    }

    /// When to advance although nothing happened.
    pub fn wake(&self, now: Time, sights: &Sights<'_>) -> Time {
        if !self.is_waiting(now) {
            return Time::FAR;
        }
        let patience = self.partners().into_iter().map(|party| self.patience(party, sights)).filter(|&at| at > now);
        let ends = match &self.stage {
            Stage::Fallback { ends, .. } if !self.ended => *ends,
            _ => Time::FAR,
        };
        patience.chain([self.beat, ends]).min().unwrap_or(Time::FAR)
    }

    fn conclude_fast(&mut self) {
        let (Stage::Fast(fast), Some(electorate)) = (&self.stage, &self.electorate) else { return };
        let included = electorate.members.clone();
        let count = included.len() as i128;
        let sum = fast.state().iter().map(|&x| self.setup.terms.to_steps(i128::from(x).wrapping_mul(count))).collect();
        let mean = self.mean(electorate, &included, sum, fast.schedule().course.error);
        self.end(included, mean);
    }

    fn conclude_fallback(&mut self, only_within: bool) {
        let (Stage::Fallback { fallback, .. }, Some(electorate)) = (&self.stage, &self.electorate) else { return };
        let included = fallback.roles().included();
        let scale = included.len() as f64 * f64::from(self.setup.terms.grain_log2).exp2();
        let mean = fallback.best().and_then(|best| {
            let sum = best.mean.iter().map(|x| (x * scale).round() as i128).collect();
            self.mean(electorate, &included, sum, best.bound)
        });
        if only_within && !mean.as_ref().is_some_and(|mean| self.is_within(mean)) {
            return;
        }
        self.end(included, mean);
    }

    fn is_within(&self, mean: &Mean) -> bool {
        mean.standard_errors <= 0.5 * self.setup.terms.accuracy()
    }

    /// `bound`: how far an average in units may be from the exact one of the openings.
    fn mean(&self, electorate: &Electorate, included: &BTreeSet<Party>, sum: Vec<i128>, bound: f64) -> Option<Mean> {
        let weights = included.iter().filter_map(|party| Some(electorate.entries.get(party)?.weight.0));
        let weight = LatticeWeight(weights.fold(0, i128::saturating_add));
        let in_parties = self.setup.lattice.weight_to_f64(weight.0);
        let terms = &self.setup.terms;
        let units = bound + terms.rounded(included.len());
        let steps = units * included.len() as f64 * f64::from(terms.grain_log2).exp2();
        let standard_errors = units * terms.unit_errors(included.len(), in_parties);
        (in_parties > 0.0).then_some(Mean { sum, weight, steps, standard_errors })
    }

    fn end(&mut self, included: BTreeSet<Party>, mean: Option<Mean>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let all = self.electorate.as_ref().is_some_and(|electorate| electorate.members == included);
        let whole = all && mean.as_ref().is_some_and(|mean| self.is_within(mean));
        self.deeds.push(Deed::Say(Notice::Averaged));
        self.deeds.push(Deed::Ended(Box::new(Averaged { included, mean, whole })));
    }

    /// Ends with what there is: this node leaves.
    pub fn leave(&mut self) {
        match self.stage {
            Stage::Fallback { .. } => self.conclude_fallback(false),
            _ => {
                let included = self.electorate.as_ref().map(|electorate| electorate.members.clone()).unwrap_or_default();
                self.end(included, None);
            }
        }
    }
}
