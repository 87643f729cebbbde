//! One node's averaging: what it knows, and how it comes to a result. Its other methods stand
//! beside it, by theme.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::averaging::entry::FinalEntry;
use crate::averaging::terms::AveragingTerms;
use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::messages::notice::Notice;
use crate::messages::stage::Stage;
use crate::messages::wire::Bytes;
use crate::mixing::finals::FinalState;
use crate::publishing::averaging::fast::Fast;
use crate::publishing::averaging::flooding::FloodedEntries;
use crate::publishing::averaging::inbox::Inbox;
use crate::publishing::averaging::opening::Opening;
use crate::publishing::flood::FloodedFinals;
use crate::publishing::interface::{Published, PublishingAction, Setup, Surroundings};
use crate::publishing::result::{Accuracy, Sum};
use crate::time::Time;
use crate::topology::party::Party;

/// A neighbour that says that it waits for others is waited for so many times `settle_ms`: one for
/// the party that it waits for, and as much again.
pub const LONGEST_WAIT: u64 = 2;

/// Averaging is given up so many times `settle_ms` after E was agreed: else a neighbour that says
/// each round just in time would hold up a run for [`LONGEST_WAIT`] of them a round. Our choice:
/// 24 s by default, which is 240 rounds of 0.1 s each. A network that is too slow for this is
/// better served by the flood.
pub const AVERAGING_STAGES: u64 = 6;

/// The additional wait in `settle_ms` of a node that has done all rounds, for the word of those
/// that have not. They say at the end of [`AVERAGING_STAGES`] that they missed a message.
const LAST_WORD_STAGES: u64 = 1;

/// A flood of the finals takes so many times `settle_ms`. Our choice: all leave at once, where a
/// plan that floods has the time for them that mixing left over.
pub const FLOODING_STAGES: u64 = 2;

/// All of averaging takes at most so many times `settle_ms` once E is agreed, whatever anybody
/// does.
pub const MOST_STAGES: u64 = AVERAGING_STAGES + LAST_WORD_STAGES + FLOODING_STAGES;

/// E, as all know it.
pub(super) struct Entrants {
    /// The moment when this node knew it.
    pub(super) begun: Time,
    pub(super) members: BTreeSet<Party>,
    pub(super) entries: BTreeMap<Party, FinalEntry>,
    pub(super) neighbours: Vec<Party>,
}

pub(super) enum Mode {
    /// Until E is agreed.
    Waiting,
    Rounds(Fast),
    /// All rounds are done; the result is given out once the others have theirs.
    Holding(Published),
    /// The result is given out; who missed a message may still have the finals flooded.
    GivenOut,
    /// Finals are flooded; of all rounds came this, if they were done and it was not given out.
    Flooding(Option<Published>),
    /// There is no result.
    Over,
}

/// One node's averaging.
pub struct Averaging {
    pub(super) setup: Setup,
    pub(super) terms: Arc<AveragingTerms>,
    pub(super) lattice: Lattice,
    finals: FloodedFinals,
    /// This node's own final, for the case that all are flooded.
    own_final: FinalState,
    /// Its opening, in units of the terms.
    pub(super) own: Vec<i64>,
    pub(super) stage: Mode,
    pub(super) electorate: Option<Entrants>,
    pub(super) inbox: Inbox,
    /// Neighbours' openings that are what their entries say.
    pub(super) openings: BTreeMap<Party, Bytes>,
    /// Neighbours that signed what their entries, or everybody's, rule out.
    pub(super) broken: BTreeSet<Party>,
    /// The messages of this and the round before: who reconnects may lack both.
    pub(super) recent: Vec<Arc<[u8]>>,
    /// The moment when the present wait began, and when neighbours are informed of it next.
    pub(super) waits: Time,
    pub(super) beat: Time,
    pub(super) actions: Vec<PublishingAction>,
}

impl Averaging {
    /// Sends this node's opening to whom it reaches.
    pub(super) fn new(
        setup: Setup,
        (terms, finals): (Arc<AveragingTerms>, FloodedFinals),
        own_final: FinalState,
        opening: Opening,
        connected: &BTreeSet<Party>,
    ) -> Self {
        let mut averaging = Averaging {
            setup,
            terms,
            lattice: *finals.lattice(),
            finals,
            own_final,
            own: opening.values,
            stage: Mode::Waiting,
            electorate: None,
            inbox: Inbox::default(),
            openings: BTreeMap::new(),
            broken: BTreeSet::new(),
            recent: Vec::new(),
            waits: Time::ZERO,
            beat: Time::FAR,
            actions: Vec::new(),
        };
        let signed = averaging.setup.signer.round(0, &opening.bytes);
        averaging.send(signed, &opening.bytes, connected);
        averaging
    }

    /// The longest frame of any plan's averaging.
    pub fn frame_limit(dimension: usize) -> usize {
        256 + (dimension + 1) * 16
    }

    /// E, once it is agreed.
    pub fn members(&self) -> Option<&BTreeSet<Party>> {
        Some(&self.electorate.as_ref()?.members)
    }

    /// This node's publishing comes to this.
    pub(super) fn end(&mut self, published: Published) {
        self.stage = Mode::Over;
        self.actions.push(PublishingAction::Ended(Box::new(published)));
    }

    pub(super) fn fault(&mut self, text: impl Into<String>) {
        self.actions.push(PublishingAction::Fault(text.into()));
    }

    pub(super) fn offence(&mut self, peer: Party, text: impl Into<String>) {
        self.actions.push(PublishingAction::Offence(peer, text.into()));
    }

    /// Records a signed message that no honest neighbour signs: its author is not waited for again.
    pub(super) fn breaks(&mut self, peer: Party, text: impl Into<String>) {
        self.broken.insert(peer);
        self.offence(peer, text);
    }

    /// E is agreed, with the entries of all of its members. This node is one of them.
    pub fn begin(&mut self, now: Time, entries: BTreeMap<Party, FinalEntry>, around: &Surroundings<'_>) {
        let (me, graph) = (self.setup.me, self.setup.graph.clone());
        let members: BTreeSet<Party> = entries.keys().copied().collect();
        let neighbours: Vec<Party> = graph
            .neighbours(me)
            .iter()
            .copied()
            .filter(|other| members.contains(other))
            .collect();
        let schedule = self.schedule(&members, &entries);
        self.electorate = Some(Entrants {
            begun: now,
            members,
            entries,
            neighbours: neighbours.clone(),
        });
        neighbours.iter().for_each(|&author| self.check_opening(author));
        self.wait(now);
        match schedule {
            Some(schedule) => {
                self.stage = Mode::Rounds(Fast::new(
                    schedule,
                    self.terms.opening_bytes,
                    neighbours,
                    self.own.clone(),
                ));
                self.recheck();
            }
            // In pieces, or of finals that reach too far.
            None => self.miss(around),
        }
    }

    /// Does what can be done now.
    pub fn advance(&mut self, now: Time, around: &Surroundings<'_>) {
        let missed = |party: &Party| around.flood.missed(*party);
        let averages = matches!(self.stage, Mode::Rounds(_) | Mode::Holding(_) | Mode::GivenOut);
        if averages && self.members().is_some_and(|members| members.iter().any(missed)) {
            return self.flood();
        }
        while self.step_rounds(now, around) {}
        self.give_out_in_time(now, around);
        self.tell_waiting(now, around);
    }

    /// This node misses a message, or there is no schedule.
    pub(super) fn miss(&mut self, around: &Surroundings<'_>) {
        if !around.flood.missed(self.setup.me) {
            self.actions.push(PublishingAction::Say(Notice::Missed));
        }
        self.flood();
    }

    /// Floods this node's final; what the rounds came to here, if they are done, stands in where no
    /// set of finals is agreed on.
    fn flood(&mut self) {
        let Some(electorate) = &self.electorate else {
            return;
        };
        let members = electorate.members.clone();
        let averaged = match std::mem::replace(&mut self.stage, Mode::Over) {
            Mode::Holding(published) => Some(published),
            _ => None,
        };
        match self.finals.item(&self.own_final, Stage::Finals, self.setup.me) {
            Ok(item) => {
                self.stage = Mode::Flooding(averaged);
                self.actions.push(PublishingAction::Flood { members, item });
            }
            Err(reason) => {
                self.fault(reason.to_string());
                self.end(Published::without_sum(members, false));
            }
        }
    }

    /// The flood that this node begins with its own final.
    pub(super) fn flooding(self) -> FloodedEntries {
        let averaged = match self.stage {
            Mode::Flooding(averaged) => averaged,
            _ => None,
        };
        let entries = self.electorate.map(|electorate| electorate.entries);
        FloodedEntries::new(self.finals, self.terms, entries.unwrap_or_default(), averaged)
    }

    /// All rounds are done: this node says so, and keeps its result.
    pub(super) fn conclude(&mut self, now: Time) {
        let (Mode::Rounds(fast), Some(electorate)) = (&self.stage, &self.electorate) else {
            return;
        };
        let published = self.published(fast, electorate);
        self.actions.push(PublishingAction::Say(Notice::Averaged));
        self.stage = Mode::Holding(published);
        self.wait(now);
    }

    /// The result of all rounds. Nothing is agreed: each node has another one, within ν of it.
    fn published(&self, fast: &Fast, electorate: &Entrants) -> Published {
        let included = electorate.members.clone();
        let count = included.len() as i128;
        let weights = electorate.entries.values().map(|entry| entry.weight.0);
        let weight = LatticeWeight(weights.fold(0, i128::saturating_add));
        let in_parties = self.lattice.weight_to_f64(weight.0);
        let terms = &self.terms;
        let units = fast.schedule().step_schedule.error + terms.rounded(included.len());
        let steps = units * included.len() as f64 * libm::exp2(f64::from(terms.grain_log2));
        let standard_errors = units * terms.unit_errors(included.len(), in_parties);
        let sum = fast
            .state()
            .iter()
            .map(|&x| terms.to_steps(i128::from(x).wrapping_mul(count)));
        Published {
            included,
            agreed: false,
            sum: Some(Sum {
                value: self.lattice.vector(sum),
                weight,
            }),
            accuracy: Some(Accuracy {
                steps,
                standard_errors,
                apart: standard_errors + 0.5 * terms.accuracy(),
            }),
        }
    }

    /// Gives out the result once all others have theirs, or the last word of those who have not is
    /// no longer waited for.
    fn give_out_in_time(&mut self, now: Time, around: &Surroundings<'_>) {
        let holds = matches!(self.stage, Mode::Holding(_));
        if holds && (self.is_over(around) || now >= self.given_out_by()) {
            self.give_out();
        }
    }

    fn give_out(&mut self) {
        if let Mode::Holding(published) = std::mem::replace(&mut self.stage, Mode::GivenOut) {
            self.actions.push(PublishingAction::Ended(Box::new(published)));
        }
    }

    /// Returns the moment when rounds are given up.
    pub(super) fn averaging_ends(&self) -> Time {
        self.stages_end(AVERAGING_STAGES)
    }

    /// Returns the moment when a result is given out, whatever others say.
    pub(super) fn given_out_by(&self) -> Time {
        self.stages_end(AVERAGING_STAGES + LAST_WORD_STAGES)
    }

    /// The end of this many times `settle_ms`, from when E was agreed.
    fn stages_end(&self, stages: u64) -> Time {
        let begun = self
            .electorate
            .as_ref()
            .map_or(Time::ZERO, |electorate| electorate.begun);
        begun.plus_millis(self.setup.settle_ms.saturating_mul(stages))
    }

    /// Ends with what there is: this node leaves.
    pub fn leave(&mut self) {
        match &self.stage {
            Mode::Holding(_) => self.give_out(),
            Mode::GivenOut | Mode::Flooding(_) | Mode::Over => {}
            Mode::Waiting | Mode::Rounds(_) => {
                let members = self.members().cloned().unwrap_or_default();
                self.end(Published::without_sum(members, false));
            }
        }
    }

    /// Whether nobody who averages needs this node any more, as far as it knows: all that are not
    /// gone have their results.
    pub fn is_over(&self, around: &Surroundings<'_>) -> bool {
        let ended = |party: &Party| around.flood.averaged(*party) || around.unreachable.contains_key(party);
        let me = self.setup.me;
        let mut others = self.members().into_iter().flatten().filter(|party| **party != me);
        others.all(ended)
    }
}
