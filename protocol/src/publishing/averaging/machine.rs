//! One node's averaging: what it knows, and how it moves from form to form. Its other methods stand
//! beside it, by theme.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agreement::flood::Flood;
use crate::averaging::entry::FinalEntry;
use crate::averaging::ratio;
use crate::averaging::terms::AveragingTerms;
use crate::lattice::grid::Lattice;
use crate::messages::notice::{Form, Notice};
use crate::messages::signing::Signer;
use crate::messages::wire::Bytes;
use crate::publishing::averaging::averaged::Averaged;
use crate::publishing::averaging::comparison::Comparing;
use crate::publishing::averaging::fallback::Fallback;
use crate::publishing::averaging::fast::Fast;
use crate::publishing::averaging::inbox::Inbox;
use crate::publishing::averaging::opening::Opening;
use crate::time::Time;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// Ratio consensus is given up after so many times `settle_ms`. Our choice: a silent party costs
/// one of them, a second one another.
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

/// What an averaging node is given.
pub struct Setup {
    /// This node's party.
    pub me: Party,
    /// Signs its rounds.
    pub signer: Signer,
    /// The public graph.
    pub graph: Arc<Graph>,
    /// The plan's terms.
    pub terms: Arc<AveragingTerms>,
    /// Where finals live.
    pub lattice: Lattice,
    /// Patience with a silent neighbour.
    pub settle_ms: u64,
    /// The fewest members of the plan, this node included, that have to hold one mean so that it is
    /// agreed: any two such sets share one outside of the coalition.
    pub quorum: usize,
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
pub enum PublishingDeed {
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
    pub fn new(setup: Setup, opening: Opening, connected: &BTreeSet<Party>) -> Self {
        let mut averaging = Averaging {
            setup,
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
    pub fn take_deeds(&mut self) -> Vec<PublishingDeed> {
        std::mem::take(&mut self.deeds)
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
    pub fn begin(&mut self, now: Time, entries: BTreeMap<Party, FinalEntry>, sights: &Sights<'_>) {
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
                    self.setup.terms.opening_bytes,
                    neighbours,
                    self.own.clone(),
                ));
            }
            // In pieces, or of finals that reach too far: then what is left of the graph averages
            // as well as it can.
            None => self.miss(now, sights),
        }
        self.recheck();
    }

    /// Does what can be done now.
    pub fn advance(&mut self, now: Time, sights: &Sights<'_>) {
        if let (Mode::Fast(_), Some(electorate)) = (&self.stage, &self.electorate)
            && electorate.members.iter().any(|&party| sights.flood.missed(party))
        {
            self.fall_back(now, sights);
        }
        loop {
            let moved = match self.stage {
                Mode::Waiting => false,
                Mode::Fast(_) => self.step_fast(now, sights),
                Mode::Fallback { .. } => {
                    self.look_around(now, sights);
                    self.step_fallback(now, sights)
                }
            };
            if !moved {
                break;
            }
        }
        self.compare(now, sights);
        self.tell_waiting(now, sights);
    }
}
