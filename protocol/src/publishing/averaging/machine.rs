//! One node's averaging: what it knows, and how it moves from form to form. Its other methods stand
//! beside it, by theme.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::averaging::entry::FinalEntry;
use crate::averaging::ratio;
use crate::averaging::terms::AveragingTerms;
use crate::lattice::grid::Lattice;
use crate::messages::notice::Form;
use crate::messages::wire::Bytes;
use crate::publishing::averaging::comparison::Comparing;
use crate::publishing::averaging::fallback::Fallback;
use crate::publishing::averaging::fast::Fast;
use crate::publishing::averaging::inbox::Inbox;
use crate::publishing::averaging::opening::Opening;
use crate::publishing::interface::{Published, PublishingDeed, Setup, Surroundings};
use crate::time::Time;
use crate::topology::party::Party;

/// Ratio consensus is given up so many times `settle_ms` after the fast form would have been
/// ([`FAST_STAGES`]), whenever it began. Our choice: a silent party costs one of them, a second one
/// another.
pub const FALLBACK_STAGES: u64 = 4;

/// A neighbour that says that it waits for others is waited for so many times `settle_ms`: one for
/// the party that it waits for, and as much again.
pub const LONGEST_WAIT: u64 = 2;

/// The fast form is given up so many times `settle_ms` after E was agreed: else a neighbour that
/// says each round just in time would hold up a run for [`LONGEST_WAIT`] of them a round. Our
/// choice: 24 s by default, which is 240 rounds of 0.1 s each, and longer than ratio consensus may
/// take, which has more rounds to do and larger ones. So a network that is too slow for this would
/// not be helped by more.
pub const FAST_STAGES: u64 = 6;

/// All honest nodes have a result, or none, so many times `settle_ms` before they stop comparing:
/// the last sums are told half-way.
pub const COMPARING_STAGES: u64 = 2;

/// All of averaging takes at most so many times `settle_ms` once E is agreed, whatever anybody
/// does.
pub const MOST_STAGES: u64 = FAST_STAGES + FALLBACK_STAGES + COMPARING_STAGES;

/// E, as all know it.
pub(super) struct Entrants {
    /// When this node knew it.
    pub(super) begun: Time,
    pub(super) members: BTreeSet<Party>,
    pub(super) entries: BTreeMap<Party, FinalEntry>,
    pub(super) neighbours: Vec<Party>,
    pub(super) ratio_width: usize,
}

pub(super) enum Mode {
    /// Until E is agreed.
    Waiting,
    Fast(Fast),
    Fallback {
        fallback: Box<Fallback>,
        ends: Time,
    },
}

/// One node's averaging.
pub struct Averaging {
    pub(super) setup: Setup,
    pub(super) terms: Arc<AveragingTerms>,
    pub(super) lattice: Lattice,
    /// This node's own opening, in units of the terms.
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
    /// The newest message that was sent.
    pub(super) sent: Option<(Form, u32)>,
    /// When the present wait began, and when neighbours are told of it next.
    pub(super) waits: Time,
    pub(super) beat: Time,
    pub(super) ended: bool,
    pub(super) comparing: Comparing,
    pub(super) deeds: Vec<PublishingDeed>,
}

impl Averaging {
    /// Sends this node's opening to whom it reaches.
    pub fn new(
        setup: Setup,
        terms: Arc<AveragingTerms>,
        lattice: Lattice,
        opening: Opening,
        connected: &BTreeSet<Party>,
    ) -> Self {
        let mut averaging = Averaging {
            setup,
            terms,
            lattice,
            own: opening.values,
            stage: Mode::Waiting,
            electorate: None,
            inbox: Inbox::default(),
            openings: BTreeMap::new(),
            broken: BTreeSet::new(),
            recent: Vec::new(),
            sent: None,
            waits: Time::ZERO,
            beat: Time::FAR,
            ended: false,
            comparing: Comparing::default(),
            deeds: Vec::new(),
        };
        let signed = averaging
            .setup
            .signer
            .round(Form::Fast, 0, 0, 0.0, &opening.bytes);
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

    /// Ends without averaging.
    pub(super) fn end_without(&mut self, published: Published) {
        self.deeds.push(PublishingDeed::Ended(Box::new(published)));
    }

    pub(super) fn fault(&mut self, text: impl Into<String>) {
        self.deeds.push(PublishingDeed::Fault(text.into()));
    }

    pub(super) fn offence(&mut self, peer: Party, text: impl Into<String>) {
        self.deeds.push(PublishingDeed::Offence(peer, text.into()));
    }

    /// What a neighbour signed cannot be: it is not waited for again.
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
        let ratio_width = ratio::width(entries.values().map(|entry| entry.range as f64).sum()).min(16);
        let schedule = self.schedule(&members, &entries);
        self.electorate = Some(Entrants {
            begun: now,
            members,
            entries,
            neighbours: neighbours.clone(),
            ratio_width,
        });
        neighbours.iter().for_each(|&author| self.check_opening(author));
        self.wait(now);
        match schedule {
            Some(schedule) => {
                self.stage = Mode::Fast(Fast::new(
                    schedule,
                    self.terms.opening_bytes,
                    neighbours,
                    self.own.clone(),
                ));
            }
            // In pieces, or of finals that reach too far: then what is left of the graph averages
            // as well as it can.
            None => self.miss(now, around),
        }
        self.recheck();
    }

    /// Does what can be done now.
    pub fn advance(&mut self, now: Time, around: &Surroundings<'_>) {
        if let (Mode::Fast(_), Some(electorate)) = (&self.stage, &self.electorate)
            && electorate.members.iter().any(|&party| around.flood.missed(party))
        {
            self.fall_back(now, around);
        }
        loop {
            let moved = match self.stage {
                Mode::Waiting => false,
                Mode::Fast(_) => self.step_fast(now, around),
                Mode::Fallback { .. } => {
                    self.look_around(now, around);
                    self.step_fallback(now, around)
                }
            };
            if !moved {
                break;
            }
        }
        self.compare(now, around);
        self.tell_waiting(now, around);
    }
}
