//! The faults of a run, drawn by seed.

use std::collections::BTreeSet;
use std::ops::Range;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::stage::{Phase, Stage};
use undertone_protocol::run::outcome::Event;
use undertone_protocol::simulator::equivocator::{Equivocation, OtherVersion, OtherWord, Revealing};
use undertone_protocol::simulator::scenario::{Conditions, Fault, Report};
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;

use crate::soak::mechanism::{Mechanism, PARTIES, QUORUM};

/// A kind of fault, or of liar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A process is killed: its connections close.
    Kill,
    /// SIGSTOP for ever.
    StopForEver,
    /// SIGSTOP for half a second to a second.
    StopBriefly,
    /// SIGSTOP for up to a minute.
    StopLong,
    /// A process runs one second of ten.
    DutyCycle,
    /// All processes stop at once, for half a second to ten minutes, and go on at about one moment.
    StopAll,
    /// A node's clock goes forward by up to ten minutes.
    ClockJump,
    /// All clocks go forward at once by as much.
    AllClocksJump,
    /// A connection on one of the graphs breaks, and comes back.
    Cut,
    /// Nothing reaches a node, and nothing that it sends reaches anybody.
    HoleNode,
    /// Nothing reaches a node.
    HoleIn,
    /// Nothing that a node sends reaches anybody.
    HoleOut,
    /// Nothing passes between two nodes, on either graph.
    HoleEdge,
    /// Nothing passes between two nodes on the private graph.
    HolePrivate,
    /// Nothing passes between two nodes on the public graph.
    HolePublic,
    /// Nothing that one node sends to another arrives, on either graph.
    HoleDirection,
    /// Segments to one node are lost, 10 % of them.
    Loss10,
    /// Segments to one node are lost, 25 % of them.
    Loss25,
    /// Segments to one node are lost, 40 % of them.
    Loss40,
    /// A liar shows no START to some, or to nobody.
    NoStart,
    /// A liar shows some another START.
    OtherStart,
    /// A liar shows some another log.
    TwoLogs,
    /// A liar says its secret late.
    LateKey,
    /// A liar deals letters that nobody can read.
    BadLetters,
    /// A liar seals what is no body, and signs that.
    GarbageSealed,
}

/// All of them, with their names in tables.
pub const FAULTS: [(FaultKind, &str); 25] = [
    (FaultKind::Kill, "kill"),
    (FaultKind::StopForEver, "stop for ever"),
    (FaultKind::StopBriefly, "stop <= 1 s"),
    (FaultKind::StopLong, "stop <= 60 s"),
    (FaultKind::DutyCycle, "runs 1 s of 10"),
    (FaultKind::StopAll, "stop all"),
    (FaultKind::ClockJump, "clock jumps"),
    (FaultKind::AllClocksJump, "all clocks jump"),
    (FaultKind::Cut, "edge breaks"),
    (FaultKind::HoleNode, "hole: node"),
    (FaultKind::HoleIn, "hole: node, in"),
    (FaultKind::HoleOut, "hole: node, out"),
    (FaultKind::HoleEdge, "hole: edge"),
    (FaultKind::HolePrivate, "hole: private"),
    (FaultKind::HolePublic, "hole: public"),
    (FaultKind::HoleDirection, "hole: one way"),
    (FaultKind::Loss10, "loss of 10 %"),
    (FaultKind::Loss25, "loss of 25 %"),
    (FaultKind::Loss40, "loss of 40 %"),
    (FaultKind::NoStart, "no START"),
    (FaultKind::OtherStart, "other START"),
    (FaultKind::TwoLogs, "two logs"),
    (FaultKind::LateKey, "late key"),
    (FaultKind::BadLetters, "bad letters"),
    (FaultKind::GarbageSealed, "garbage sealed"),
];

impl FaultKind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        let named = FAULTS.iter().find(|(kind, _)| *kind == self);
        named.map_or("", |(_, name)| name)
    }

    /// Whether it leaves everybody connected and honest, so that nobody need depart.
    fn spares_everybody(self) -> bool {
        matches!(
            self,
            FaultKind::StopBriefly
                | FaultKind::StopAll
                | FaultKind::AllClocksJump
                | FaultKind::Cut
                | FaultKind::HoleEdge
                | FaultKind::HolePrivate
                | FaultKind::HolePublic
                | FaultKind::HoleDirection
                | FaultKind::Loss10
                | FaultKind::Loss25
                | FaultKind::Loss40
        )
    }

    fn is_hole(self) -> bool {
        self.name().starts_with("hole")
    }

    /// Whether it can go wrong in runs of a mechanism, within its `dropouts`.
    pub fn applies_to(self, mechanism: &Mechanism) -> bool {
        let of_sealed = matches!(
            self,
            FaultKind::LateKey | FaultKind::BadLetters | FaultKind::GarbageSealed
        );
        (mechanism.spares_a_party || self.spares_everybody()) && (mechanism.sealed || !of_sealed)
    }
}

/// The faults of one run.
#[derive(Debug)]
pub struct FaultScenario {
    /// The kind.
    pub kind: FaultKind,
    /// All that decides the run.
    pub conditions: Conditions,
    /// The parties that are not among the survivors: those that are dead, lie, or are cut off or
    /// stopped for longer than others wait.
    pub impaired: BTreeSet<Party>,
    /// Where the documents say that such a fault may end the run for everybody.
    pub named: Option<&'static str>,
}

/// The guide's threat model, "Not protected".
const SPLIT_VOTE: &str = "threat model: neither side of two logs is a quorum";
const KEPT_SECRET: &str = "threat model: bad shares of a secret, and that is kept";
const POISONED: &str = "threat model: parties that lie about their values";
const AS_IN_PAPER: &str = "task::outer: where somebody departs it ends";
const DARK_CIRCLE: &str = "streams: neighbours between whom nothing passes, one is out";

/// A moment of the run without faults, in a phase by chance. What goes wrong before the first node
/// has begun goes wrong at its start.
fn moment(calm: &Report, rng: &mut ChaCha8Rng) -> Time {
    let begins = |wanted: Phase| {
        let events = calm.events.iter();
        let phases = events.filter(|(_, _, event)| *event == Event::Phase(wanted));
        phases.map(|(at, _, _)| at.as_nanos()).min()
    };
    let end = calm.finished_at.iter().flatten().max();
    let end = end.map_or(1, |at| at.as_nanos());
    let phases = [Phase::Mixing, Phase::Settling, Phase::Publishing];
    let mut bounds: Vec<u64> = phases.into_iter().filter_map(begins).collect();
    bounds.sort_unstable();
    bounds.insert(0, 0);
    bounds.push(end.max(*bounds.last().expect("a bound") + 1));
    let phase = rng.random_range(0..bounds.len() - 1);
    let span = bounds[phase]..bounds[phase + 1].max(bounds[phase] + 1);
    Time::from_nanos(rng.random_range(span))
}

/// A duration, short ones as likely as long ones.
fn duration_ms(rng: &mut ChaCha8Rng, range: Range<u64>) -> u64 {
    let (low, high) = ((range.start as f64).ln(), (range.end as f64).ln());
    rng.random_range(low..high).exp() as u64
}

fn loss(to: Party, at: Time, share: f64) -> Fault {
    Fault::Loss {
        from: None,
        to,
        share,
        at,
        for_ms: u64::MAX,
    }
}

/// The other parties, each by chance, or all of them.
fn some(rng: &mut ChaCha8Rng, except: Party) -> BTreeSet<Party> {
    let all = rng.random_bool(0.5);
    let others = (0..PARTIES).filter(|party| *party != except);
    others.filter(|_| all || rng.random_bool(0.5)).collect()
}

impl FaultScenario {
    /// Draws what goes wrong in the run of a seed; `calm` is that run without faults, under the
    /// conditions `conditions`.
    pub fn draw(kind: FaultKind, mechanism: &Mechanism, calm: &Report, conditions: Conditions) -> Self {
        let parts = kind.is_hole() || matches!(kind, FaultKind::Cut | FaultKind::Loss40);
        let excuse = match mechanism {
            it if parts && !it.spares_a_party => Some(AS_IN_PAPER),
            it if parts && it.reads_circles() => Some(DARK_CIRCLE),
            _ => None,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(conditions.seed ^ 0x005e_ed0f_fa17);
        let party = rng.random_range(0..PARTIES);
        let at = moment(calm, &mut rng);
        let mut scenario = FaultScenario {
            kind,
            conditions,
            impaired: BTreeSet::new(),
            named: None,
        };
        scenario.plant(party, at, &mut rng);
        scenario.named = scenario.named.or(excuse);
        scenario
    }

    fn plant(&mut self, party: Party, at: Time, rng: &mut ChaCha8Rng) {
        let faults = &mut self.conditions.faults;
        let suspend = |party: Party, at: Time, for_ms: u64| Fault::Suspend { party, at, for_ms };
        match self.kind {
            FaultKind::Kill => faults.push(Fault::Crash { party, at }),
            FaultKind::StopForEver => faults.push(Fault::Silence { party, at }),
            FaultKind::StopBriefly => faults.push(suspend(party, at, duration_ms(rng, 500..1001))),
            FaultKind::StopLong => faults.push(suspend(party, at, duration_ms(rng, 1001..60_000))),
            FaultKind::DutyCycle => {
                // Ten minutes are longer than any of these runs.
                let cycles = (0..60).map(|cycle| at.plus_millis(10_000 * cycle));
                faults.extend(cycles.map(|at| suspend(party, at, 9000)));
            }
            FaultKind::StopAll => {
                let for_ms = duration_ms(rng, 500..600_000);
                let wakes = |_| for_ms + rng.random_range(0..500);
                let until: Vec<u64> = (0..PARTIES).map(wakes).collect();
                faults.extend(
                    until
                        .into_iter()
                        .enumerate()
                        .map(|(party, for_ms)| suspend(party, at, for_ms)),
                );
            }
            FaultKind::Cut => {
                let other = (party + rng.random_range(1..PARTIES)) % PARTIES;
                faults.push(Fault::Cut {
                    network: [Network::Private, Network::Public][rng.random_range(0..2)],
                    ends: (party.min(other), party.max(other)),
                    at,
                    for_ms: duration_ms(rng, 100..100_000),
                });
            }
            FaultKind::ClockJump => faults.push(Fault::ClockJump {
                party,
                at,
                by_ms: duration_ms(rng, 500..600_000),
            }),
            FaultKind::AllClocksJump => {
                let by_ms = duration_ms(rng, 500..600_000);
                faults.extend((0..PARTIES).map(|party| Fault::ClockJump { party, at, by_ms }));
            }
            FaultKind::Loss10 => faults.push(loss(party, at, 0.1)),
            FaultKind::Loss25 => faults.push(loss(party, at, 0.25)),
            FaultKind::Loss40 => faults.push(loss(party, at, 0.4)),
            _ if self.kind.is_hole() => self.dig(party, at, rng),
            _ => self.lie(party, rng),
        }
        if !self.kind.spares_everybody() {
            self.impaired.insert(party);
        }
    }

    /// Black holes, mostly for ever.
    fn dig(&mut self, party: Party, at: Time, rng: &mut ChaCha8Rng) {
        let other = (party + rng.random_range(1..PARTIES)) % PARTIES;
        let others: Vec<Party> = match self.kind {
            FaultKind::HoleNode | FaultKind::HoleIn | FaultKind::HoleOut => {
                (0..PARTIES).filter(|it| *it != party).collect()
            }
            _ => vec![other],
        };
        let network = match self.kind {
            FaultKind::HolePrivate => Some(Network::Private),
            FaultKind::HolePublic => Some(Network::Public),
            _ => None,
        };
        let (inwards, outwards) = match self.kind {
            FaultKind::HoleIn => (true, false),
            FaultKind::HoleOut | FaultKind::HoleDirection => (false, true),
            _ => (true, true),
        };
        let for_ms = match rng.random_bool(0.7) {
            true => u64::MAX,
            false => duration_ms(rng, 500..100_000),
        };
        let hole = |from: Party, to: Party| Fault::BlackHole {
            network,
            from,
            to,
            at,
            for_ms,
        };
        let faults = &mut self.conditions.faults;
        for other in others {
            faults.extend(inwards.then(|| hole(other, party)));
            faults.extend(outwards.then(|| hole(party, other)));
        }
    }

    fn lie(&mut self, liar: Party, rng: &mut ChaCha8Rng) {
        let fooled = some(rng, liar);
        let conditions = &mut self.conditions;
        let shows = |stage: Stage, fooled: BTreeSet<Party>, version: OtherVersion| {
            Some(Equivocation {
                party: liar,
                stage,
                fooled,
                version,
            })
        };
        let everybody: BTreeSet<Party> = (0..PARTIES).collect();
        match self.kind {
            FaultKind::NoStart => conditions.other_word = Some((liar, OtherWord::NoStart(fooled))),
            FaultKind::OtherStart => conditions.other_word = Some((liar, OtherWord::Starts(fooled))),
            FaultKind::TwoLogs => {
                // The liar itself votes with those whom it shows its own.
                let others = PARTIES - 1 - fooled.len();
                let splits = fooled.len().max(others + 1) < QUORUM;
                self.named = splits.then_some(SPLIT_VOTE);
                conditions.equivocation = shows(Stage::Settling, fooled, OtherVersion::StepOff);
            }
            FaultKind::LateKey => {
                let late = Revealing::Late(duration_ms(rng, 100..20_000));
                conditions.revealing = Some((liar, late));
            }
            FaultKind::BadLetters => {
                self.named = Some(KEPT_SECRET);
                conditions.equivocation = shows(Stage::Settling, everybody, OtherVersion::Letters);
            }
            FaultKind::GarbageSealed => {
                // In a ring of a whole power of two ones are residues.
                self.named = Some(POISONED);
                conditions.equivocation = shows(Stage::Sealed, everybody, OtherVersion::Garbage);
            }
            _ => {}
        }
    }
}
