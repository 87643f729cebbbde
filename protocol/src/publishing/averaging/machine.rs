//! Publishing by averaging: instead of every final, each node sends its own to its public neighbours, and averages until all are within ν.
//!
//! 1. **Entries.** The second agreement is on entries ([`entry`]): weight, range and hash of each gated final. So all know whose finals are averaged
//!    (the set E, signed by a quorum), with which weights, and bit for bit what; and how many rounds it takes. With its entry a node sends its neighbours its
//!    *opening*: the final in units of the plan's [`terms`]. They take it only if it has the entry's hash and range.
//! 2. **The fast form** ([`fast`]): the rounds that [`Course::fit`](crate::averaging::Course::fit) gives for E's graph and ranges, on integers. Its error is bounded beforehand, so a node
//!    that has done the last round has its result, whatever becomes of others.
//! 3. **Falling back.** Who misses a message says so, once, signed and flooded; whoever hears of it begins ratio consensus ([`fallback`]) from the very same
//!    opening, those that have their result as well, for the others' sake. A neighbour that is gone, or silent for `settle_ms`, is *cut off*, by a signed and flooded
//!    notice; what follows from all cuts is in [`view`]. It ends when a difference of at most ν/2 to the exact mean is verified, or after
//!    [`FALLBACK_STAGES`] × `settle_ms` without one.
//! 4. **Comparing.** Whoever has its result says so; once the others have theirs it floods sums of it with random signs ([`sketch`]), and waits for those of
//!    the others, briefly.
//!
//! Nobody counts `agreed` unless its result has exactly E's finals and a quorum's sums are near its own. If nobody lied, two nodes that do are within ν of
//! each other, whichever form each finished with: their bounds say so. If somebody did they are as near as sums can show: [`sketch`] says how near that is.
//!
//! All of this is for neighbours that follow the protocol. One that lies can spoil the mean, as it can with its own value; what it cannot do:
//!
//! - Be believed where it can be checked: an opening that is not the one of its entry, or a change beyond what the entries allow, is told and not used,
//!   and its author is *broken*: it is not waited for any more.
//! - Hold up the others for ever: nobody is waited for longer than [`LONGEST_WAIT`] × `settle_ms` (in ratio consensus up to half as long again), whatever
//!   it says; nor the fast form as a whole for longer than [`FAST_STAGES`], or all of averaging for longer than [`MOST_STAGES`] of them.
//! - Leave two honest nodes with different results that both are agreed, unless their difference is too small for the sums to show. It cannot make its
//!   lie fit the sums: nobody knows their signs before the results are fixed that they compare (`comparing` has the argument).
//! - Fill memory: a neighbour's messages of two rounds are kept in each form, and of nobody else.
//!
//! Privacy is that of publishing all finals: every message is a function of the openings of E, of signed notices and of time; each party enters one
//! opening, which was gated, and nothing that is private enters later. (The invariant [`entered`](crate::invariants::entered) holds that in the simulator.)
//!
//! The machine is fed by its parent, [`crate::run`], and its deeds are drained from it. What comes in is in `receiving` and `inbox`, what goes out in `sending`;
//! `fast_rounds` and `falling_back` move the two forms on, `patience` says how long is waited for whom, `concluding` and `comparing` are the end.

mod comparing;
mod concluding;
pub mod entry;
pub mod fallback;
mod falling_back;
pub mod fast;
mod fast_rounds;
mod inbox;
mod opening;
mod patience;
mod receiving;
mod sending;
pub mod sketch;
pub mod terms;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::averaging::ratio;
use crate::flood::Flood;
use crate::graph::Graph;
use crate::lattice::Lattice;
use crate::message::{Form, Notice, Signer};
use crate::mixing::Party;
use crate::time::Time;
use crate::wire::Bytes;
use comparing::Comparing;
use entry::Entry;
use fallback::Fallback;
use fast::Fast;
use inbox::Inbox;
use terms::Terms;

pub use concluding::{Averaged, Mean};
pub use opening::Opening;

/// Ratio consensus is given up after so many times `settle_ms`. Our choice: a silent party costs one of them, a second one another.
pub const FALLBACK_STAGES: u64 = 4;

/// A neighbour that says that it waits for others is waited for so many times `settle_ms`: one for the party that it waits for, and as much again.
pub const LONGEST_WAIT: u64 = 2;

/// The fast form is given up so many times `settle_ms` after E was agreed: else a neighbour that says each round just in time would hold up a run for
/// [`LONGEST_WAIT`] of them a round. Our choice: 24 s by default, which is 240 rounds of 0.1 s each, and longer than ratio consensus may take, which has
/// more rounds to do and larger ones. So a network that is too slow for this would not be helped by more.
pub const FAST_STAGES: u64 = 6;

/// All honest nodes have a result, or none, so many times `settle_ms` before they stop comparing: the last sums are told half-way.
pub const COMPARING_STAGES: u64 = 2;

/// All of averaging takes at most so many times `settle_ms` once E is agreed, whatever anybody does.
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
    pub terms: Arc<Terms>,
    /// Where finals live.
    pub lattice: Lattice,
    /// Patience with a silent neighbour.
    pub settle_ms: u64,
    /// The fewest members of the plan, this node included, that have to hold one mean so that it is agreed: any two such sets share one outside of the
    /// coalition.
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

/// E, as all know it.
struct Electorate {
    /// When this node knew it.
    begun: Time,
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

/// One node's averaging.
pub struct Averaging {
    setup: Setup,
    own: Vec<i64>,
    stage: Stage,
    electorate: Option<Electorate>,
    inbox: Inbox,
    /// Neighbours' openings that are what their entries say.
    openings: BTreeMap<Party, Bytes>,
    /// Neighbours that signed what their entries, or everybody's, rule out.
    broken: BTreeSet<Party>,
    /// The messages of this and the round before: who reconnects may lack both.
    recent: Vec<Arc<[u8]>>,
    /// The newest message that was sent.
    sent: Option<(Form, u32)>,
    /// When the present wait began, and when neighbours are told of it next.
    waits: Time,
    beat: Time,
    ended: bool,
    comparing: Comparing,
    deeds: Vec<Deed>,
}

impl Averaging {
    /// Sends this node's opening to whom it reaches.
    pub fn new(setup: Setup, opening: Opening, connected: &BTreeSet<Party>) -> Self {
        let mut averaging = Averaging {
            setup,
            own: opening.values,
            stage: Stage::Waiting,
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
    pub fn take_deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }

    fn fault(&mut self, text: impl Into<String>) {
        self.deeds.push(Deed::Fault(text.into()));
    }

    fn offence(&mut self, peer: Party, text: impl Into<String>) {
        self.deeds.push(Deed::Offence(peer, text.into()));
    }

    /// What a neighbour signed cannot be: it is not waited for again.
    fn breaks(&mut self, peer: Party, text: impl Into<String>) {
        self.broken.insert(peer);
        self.offence(peer, text);
    }

    /// E is agreed, with the entries of all of its members. This node is one of them.
    pub fn begin(&mut self, now: Time, entries: BTreeMap<Party, Entry>, sights: &Sights<'_>) {
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
        self.electorate = Some(Electorate {
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
                self.stage = Stage::Fast(Fast::new(
                    schedule,
                    self.setup.terms.opening_bytes,
                    neighbours,
                    self.own.clone(),
                ));
            }
            // In pieces, or of finals that reach too far: then what is left of the graph averages as well as it can.
            None => self.miss(now, sights),
        }
        self.recheck();
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
        self.compare(now, sights);
        self.tell_waiting(now, sights);
    }
}
