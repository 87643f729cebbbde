//! The faults of a simulated run, and its report.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;

use crate::lattice::payload::Payload;
use crate::lattice::vector::LatticeVector;
use crate::messages::notice::{Network, Notice};
use crate::messages::set::Set;
use crate::messages::stage::Phase;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, PublicFrame};
use crate::plan::checked::Plan;
use crate::run::outcome::{Event, Outcome};
use crate::simulator::equivocator::{Equivocation, OtherWord, Revealing};
use crate::simulator::invariants::trace::Trace;
use crate::simulator::invariants::violation::Violation;
use crate::simulator::stream::stream;
use crate::time::Time;
use crate::topology::party::Party;

/// Something that goes wrong at a moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A node dies: its connections close and its address refuses new ones.
    Crash {
        /// The party.
        party: Party,
        /// The moment.
        at: Time,
    },
    /// A node falls silent for good: nothing closes.
    Silence {
        /// The party.
        party: Party,
        /// The moment.
        at: Time,
    },
    /// A node does nothing for a while, and then takes up what has piled up.
    Suspend {
        /// The party.
        party: Party,
        /// The moment of its beginning.
        at: Time,
        /// For how long.
        for_ms: u64,
    },
    /// A connection breaks, and comes back.
    Cut {
        /// The graph.
        network: Network,
        /// Between whom.
        ends: (Party, Party),
        /// The moment.
        at: Time,
        /// For how long.
        for_ms: u64,
    },
    /// All connections between a group and the others break, and come back.
    Partition {
        /// One side.
        group: BTreeSet<Party>,
        /// The moment.
        at: Time,
        /// For how long.
        for_ms: u64,
    },
    /// The messages of one party to another vanish on the way, and nothing closes. The sender goes
    /// on trying, less and less often: what it sent arrives after the hole has gone, in order.
    BlackHole {
        /// The graph; `None`: both.
        network: Option<Network>,
        /// The party whose frames vanish.
        from: Party,
        /// The party for which they were.
        to: Party,
        /// The moment.
        at: Time,
        /// For how long; `u64::MAX`: for ever.
        for_ms: u64,
    },
    /// Some of the segments to one party are lost, each by chance: what was sent arrives later, and
    /// what was sent after it waits for it.
    Loss {
        /// The party whose segments are lost; `None`: everybody's.
        from: Option<Party>,
        /// The party for which they were.
        to: Party,
        /// The probability that a segment is lost, below 1.
        share: f64,
        /// The moment.
        at: Time,
        /// For how long; `u64::MAX`: for ever.
        for_ms: u64,
    },
    /// A node's own clock goes on from later, all at once: it has not run meanwhile, and nothing
    /// has waited for it.
    ClockJump {
        /// The party.
        party: Party,
        /// The moment.
        at: Time,
        /// The amount in milliseconds.
        by_ms: u64,
    },
}

impl Fault {
    /// Returns the moment when it happens.
    pub fn at(&self) -> Time {
        match *self {
            Fault::Crash { at, .. }
            | Fault::Silence { at, .. }
            | Fault::Suspend { at, .. }
            | Fault::Cut { at, .. }
            | Fault::Partition { at, .. }
            | Fault::BlackHole { at, .. }
            | Fault::Loss { at, .. }
            | Fault::ClockJump { at, .. } => at,
        }
    }

    /// This fault, at another moment.
    pub fn moved_to(mut self, moment: Time) -> Self {
        let (Fault::Crash { at, .. }
        | Fault::Silence { at, .. }
        | Fault::Suspend { at, .. }
        | Fault::Cut { at, .. }
        | Fault::Partition { at, .. }
        | Fault::BlackHole { at, .. }
        | Fault::Loss { at, .. }
        | Fault::ClockJump { at, .. }) = &mut self;
        *at = moment;
        self
    }
}

/// The world that a run happens in.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Decides everything: noise, delays, duplicates.
    pub seed: u64,
    /// A message's way takes from..=to microseconds, each time anew.
    pub latency_us: (u64, u64),
    /// Whether a node's own work takes no time: with a constant latency the clock then counts
    /// messages on the critical path.
    pub instant: bool,
    /// The probability that a frame arrives twice.
    pub duplicates: f64,
    /// The faults.
    pub faults: Vec<Fault>,
    /// Somebody signs two versions of its item.
    pub equivocation: Option<Equivocation>,
    /// Somebody does not tell what opens sealed finals.
    pub revealing: Option<(Party, Revealing)>,
    /// Somebody signs something else than what its machine says.
    pub other_word: Option<(Party, OtherWord)>,
    /// This party reveals another nonce than it had committed to.
    pub false_reveal: Option<Party>,
    /// This party says in each later mixing all that it has said in the first one, signatures of
    /// others included.
    pub replays: Option<Party>,
    /// The gate of this party never answers.
    pub no_verdict: Option<Party>,
    /// Nodes that never start.
    pub absent: BTreeSet<Party>,
    /// The simulation is given up at this time.
    pub until: Time,
}

impl Conditions {
    /// A local network (0.1 to 1 ms a message) without faults.
    pub fn new(seed: u64) -> Self {
        Conditions {
            seed,
            latency_us: (100, 1000),
            instant: false,
            duplicates: 0.0,
            faults: Vec::new(),
            equivocation: None,
            revealing: None,
            other_word: None,
            false_reveal: None,
            replays: None,
            no_verdict: None,
            absent: BTreeSet::new(),
            until: Time::from_millis(3_600_000),
        }
    }

    /// Returns these conditions with these faults.
    pub fn with_faults(mut self, faults: Vec<Fault>) -> Self {
        self.faults = faults;
        self
    }
}

/// The time in which shares and their answers were on their way, over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivatePhase {
    /// When the first share left its sender.
    pub first_left: Option<Time>,
    /// When the last share reached its receiver.
    pub last_arrived: Option<Time>,
    /// When the last answer to a share reached that share's sender.
    pub last_answered: Option<Time>,
}

/// The purpose of a public frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// READY and START.
    Gathering,
    /// Logs, their announcements, and asking for them.
    Logs,
    /// Votes and lists of both stages, and calls that somebody is gone.
    Votes,
    /// Reports of the keepers of slices.
    Reports,
    /// Finals, or entries where finals are averaged; their announcements, and asking for them.
    Finals,
    /// Rounds of averaging, and notices about it.
    Averaging,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 6] = [
        Purpose::Gathering,
        Purpose::Logs,
        Purpose::Votes,
        Purpose::Reports,
        Purpose::Finals,
        Purpose::Averaging,
    ];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Gathering => "gathering",
            Purpose::Logs => "logs",
            Purpose::Votes => "votes",
            Purpose::Reports => "reports",
            Purpose::Finals => "finals",
            Purpose::Averaging => "averaging",
        }
    }

    /// Returns the purpose of a public frame; `None` for bytes that are no frame.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let notice = match wire::read_public(frame).ok()? {
            PublicFrame::Body {
                stage: Stage::Settling,
                ..
            } => return Some(Purpose::Logs),
            PublicFrame::Body {
                stage: Stage::Keeping,
                ..
            } => return Some(Purpose::Reports),
            PublicFrame::Body { .. } => return Some(Purpose::Finals),
            PublicFrame::Slice { .. } => return Some(Purpose::Finals),
            PublicFrame::Item { signed, .. } => signed.notice,
            PublicFrame::Round { .. } => return Some(Purpose::Averaging),
            PublicFrame::Set(Set::Seats(_)) => return Some(Purpose::Gathering),
            PublicFrame::Set(Set::Items(_)) => return Some(Purpose::Votes),
            PublicFrame::Notice(signed) => signed.notice,
        };
        Some(match (&notice, notice.phase()) {
            (Notice::List { .. } | Notice::Vote { .. } | Notice::Unreachable { .. }, _) => Purpose::Votes,
            (
                Notice::Item {
                    stage: Stage::Keeping,
                    ..
                },
                _,
            ) => Purpose::Reports,
            (
                Notice::Item {
                    stage: Stage::Slice(_),
                    ..
                },
                _,
            ) => Purpose::Finals,
            (Notice::Missed | Notice::Averaged | Notice::Waiting, _) => Purpose::Averaging,
            (_, Phase::Gathering) => Purpose::Gathering,
            (_, Phase::Settling) => Purpose::Logs,
            _ => Purpose::Finals,
        })
    }
}

/// The report of a simulated run.
pub struct Report {
    /// Each party's outcome, `None` if it never finished (crashed, silent).
    pub outcomes: Vec<Option<Outcome>>,
    /// The moment when each party finished.
    pub finished_at: Vec<Option<Time>>,
    /// Each party's x̃.
    pub noised: Vec<LatticeVector>,
    /// Whether any byte of a share left each party.
    pub shares_left: Vec<bool>,
    /// When shares were on their way; nothing in a [direct](super::direct) run, which has no clock.
    pub private: PrivatePhase,
    /// The events that each party reported, in order.
    pub events: Vec<(Time, Party, Event)>,
    /// The trace of everything that happened.
    pub trace: Trace,
    /// Invariants that did not hold.
    pub violations: Vec<Violation>,
    /// Bytes of frames sent on the private and on the public graph, by party.
    pub bytes: Vec<(u64, u64)>,
    /// The public ones of all parties, by what they are for.
    pub purposes: BTreeMap<Purpose, u64>,
}

impl Report {
    /// The exact sum of x̃ over some parties; `None` for no party.
    pub fn sum_over(&self, parties: &BTreeSet<Party>) -> Option<LatticeVector> {
        let vectors = parties.iter().map(|&party| self.noised[party].clone());
        vectors.reduce(|mut sum, vector| {
            sum.add(&vector);
            sum
        })
    }
}

/// A seeded mix of faults for a soak test: every kind, at moments up to `until_ms`, for up to 20
/// times that.
pub fn random_faults(seed: u64, plan: &Plan, count: usize, until_ms: u64) -> Vec<Fault> {
    let mut rng = stream(seed, "faults", 0);
    let parties = plan.parties();
    let edges = plan.draft().private_graph.edges();
    let mut fault = || {
        let at = Time::from_nanos(rng.random_range(0..=until_ms * 1_000_000));
        let party = rng.random_range(0..parties);
        let for_ms = rng.random_range(1..=20 * until_ms.max(1));
        match rng.random_range(0..5) {
            0 => Fault::Crash { party, at },
            1 => Fault::Silence { party, at },
            2 => Fault::Suspend { party, at, for_ms },
            3 => {
                let ends = edges[rng.random_range(0..edges.len())];
                let network = if rng.random_bool(0.5) {
                    Network::Private
                } else {
                    Network::Public
                };
                Fault::Cut {
                    network,
                    ends,
                    at,
                    for_ms,
                }
            }
            _ => Fault::Partition {
                group: (0..parties).filter(|_| rng.random_bool(0.4)).collect(),
                at,
                for_ms,
            },
        }
    };
    (0..count).map(|_| fault()).collect()
}
