//! What a run file can say, once it is complete. The same shapes serve `run.toml` and the plan's
//! JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::plan::quorum::Quorum;
use crate::plan::run_file::accept_by::AcceptBy;
use crate::plan::run_file::fraction::Fraction;
use crate::plan::run_file::gossip::GossipSettings;
use crate::plan::run_file::handed_over::{ClippedBy, ReleaseKind};

/// What the parties compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// The weighted mean of their vectors.
    Mean,
    /// A model that they fit together, each row of whom is protected.
    Regression,
    /// Means in sequence of whatever programs hand over, each of which has seen the means before.
    Rounds,
    /// PPSC's Algorithm 3: the common solution of everybody's linear equations.
    LinearEquations,
    /// PPSC's Algorithm 4: the least sum of everybody's convex losses.
    Optimise,
}

impl TaskKind {
    /// Whether it is a training: sums in sequence, each of which depends on the ones before.
    pub fn is_training(self) -> bool {
        matches!(self, TaskKind::Regression | TaskKind::Rounds)
    }

    /// Whether it is one of PPSC's outer recursions.
    pub fn is_outer(self) -> bool {
        matches!(self, TaskKind::LinearEquations | TaskKind::Optimise)
    }

    /// Whether parties bring rows of features, each with a target.
    pub fn takes_rows(self) -> bool {
        self == TaskKind::Regression || self.is_outer()
    }
}

/// Whose change is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A party's whole vector.
    Party,
    /// One row of a party's matrix.
    Record,
}

/// How the protected unit may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adjacency {
    /// Into any other value within the clipping range.
    ReplaceOne,
    /// The party's value may become zero.
    ZeroOut,
}

/// One bound of a box: the same for every coordinate, or one for each (as many as the shape has
/// coordinates).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Bound {
    /// One bound for all coordinates.
    All(f64),
    /// One for each coordinate, in the vector's (row-major) order.
    Each(Vec<f64>),
}

impl Bound {
    /// The bound of a coordinate; the last one's beyond the list (a checked list has the vector's
    /// length).
    pub fn at(&self, coordinate: usize) -> f64 {
        match self {
            Bound::All(bound) => *bound,
            Bound::Each(bounds) => bounds.get(coordinate).or(bounds.last()).copied().unwrap_or(0.0),
        }
    }
}

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoundVisitor;
        impl<'de> Visitor<'de> for BoundVisitor {
            type Value = Bound;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a list of one number per coordinate")
            }
            fn visit_f64<E: de::Error>(self, bound: f64) -> Result<Bound, E> {
                Ok(Bound::All(bound))
            }
            fn visit_i64<E: de::Error>(self, bound: i64) -> Result<Bound, E> {
                Ok(Bound::All(bound as f64))
            }
            fn visit_u64<E: de::Error>(self, bound: u64) -> Result<Bound, E> {
                Ok(Bound::All(bound as f64))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Bound, A::Error> {
                // Grows with what is really there: a size hint is not trusted.
                let mut bounds = Vec::new();
                while let Some(bound) = seq.next_element()? {
                    bounds.push(bound);
                }
                Ok(Bound::Each(bounds))
            }
        }
        deserializer.deserialize_any(BoundVisitor)
    }
}

/// The range that inputs are clipped to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Clip {
    /// The Euclidean ball around 0.
    L2 {
        /// The radius C > 0 of the ball, in the data's unit.
        radius: f64,
    },
    /// A ball for each tensor of a model.
    Tensors {
        /// Their radii by name, in the data's unit.
        radius: BTreeMap<String, f64>,
    },
    /// An interval per coordinate.
    Box {
        /// Least values, below `high`.
        low: Bound,
        /// Greatest values, above `low`.
        high: Bound,
    },
}

/// What each party brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The extents of one party's vector, or of one record; their product is the dimension d.
    pub shape: Vec<usize>,
    /// Whose change is hidden.
    pub unit: Unit,
    /// How it may change.
    pub adjacency: Adjacency,
    /// The range that inputs are clipped to.
    pub clip: Clip,
    /// Public weights by party name, where any were given (absent parties: 1). Multiples of 2⁻²⁰
    /// from 0.01 to 10⁶, so that the lattice carries exactly these; others are rounded to the
    /// nearest when the file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<BTreeMap<String, f64>>,
    /// What the coordinates along the last axis are called, if they have names: a table with other
    /// names, or in another order, is unusable input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// The tensors that a vector consists of by name, with their extents; in the order of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensors: Option<BTreeMap<String, Vec<usize>>>,
    /// SHA-256 of the model that the last result of rounds is written as, in hex: its types, and
    /// its tensors of whole numbers. Nothing else depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// How many sums are released, each of which costs: 1, but in a training; of gossip how many
    /// vectors a party brings, one a round.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub releases: u64,
    /// What each of them comes to.
    #[serde(default, skip_serializing_if = "ReleaseKind::is_mean")]
    pub result: ReleaseKind,
    /// Who clips a program's rows.
    #[serde(default, skip_serializing_if = "ClippedBy::is_node")]
    pub clipped: ClippedBy,
    /// Whether each vector is the second moments of a row, of which no two are as far apart as two
    /// vectors of the ball can be. Only a model's plan has them: nobody else knows that they are.
    #[serde(default, skip_serializing_if = "is_false")]
    pub moments: bool,
    /// Whether a result is meant whose noise is larger than any mean can be. Nothing else depends
    /// on it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub noise_ok: bool,
    /// Whether releases of a stream may depend on estimates of the run (gradients at them, say):
    /// then nothing is claimed that rests on rows that do not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub adaptive: bool,
}

fn once() -> u64 {
    1
}

fn is_once(releases: &u64) -> bool {
    *releases == 1
}

fn is_false(said: &bool) -> bool {
    !said
}

impl Data {
    /// The number of coordinates d: the product of the shape (checked to be from 1 to 2³¹;
    /// saturates before that).
    pub fn dimension(&self) -> usize {
        self.shape
            .iter()
            .fold(1usize, |product, &extent| product.saturating_mul(extent))
    }
}

/// When the coalition is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coalitions {
    /// With the schedule known.
    Any,
    /// Before the schedule is drawn.
    Static,
}

/// Which changes of what a party brings are hidden, where it brings many releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protect {
    /// All of a party's releases may change, together.
    #[default]
    All,
    /// One of them may.
    One,
}

impl Protect {
    /// Whether it is what all other plans protect.
    pub(in crate::plan) fn is_all(&self) -> bool {
        *self == Protect::All
    }
}

/// The privacy that is asked for, and against whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Privacy {
    /// The budget ε, above 0.
    pub epsilon: f64,
    /// δ in (0, 1).
    pub delta: f64,
    /// The largest coalition, 0 (outsiders only) to parties − 2.
    pub colluding: usize,
    /// When it is chosen.
    pub coalitions: Coalitions,
    /// Departures that the claims tolerate.
    pub dropouts: usize,
    /// Read and ignored: earlier versions drew so many schedules where a theorem stands now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws: Option<u64>,
    /// `correlated = "uniform"` only: how many shares between survivors may go astray without cost;
    /// none: one, where the private graph has room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_faults: Option<usize>,
    /// `kind = "gossip"` only: which changes are hidden.
    #[serde(default, skip_serializing_if = "Protect::is_all")]
    pub protect: Protect,
}

impl Privacy {
    /// How many of so many members have to sign a set.
    pub fn quorum(&self, parties: usize) -> Quorum {
        Quorum::of(parties, self.colluding, self.dropouts)
    }
}

/// The mechanism's family, as a run file and a plan name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MechanismKind {
    /// INCA (Algorithm 2): noise that cancels between neighbours, round by round.
    Inca,
    /// PPSC (Algorithm 1), privacy-preserving summation-consistent gossip.
    Ppsc,
    /// Gossip averaging of noisy values (KK's DP-GossipAvg).
    Gossip,
    /// Masks of pairs, which follow from keys: nothing is mixed, and nothing travels in private.
    Pairwise,
}

/// How a party feeds its value and noise into its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InjectionChoice {
    /// The paper's D_Inc: a part of the value in every round.
    Incremental,
    /// The paper's D_EI: all of the value at first.
    Early,
    /// All of the value at first, and the noises one by one as with D_Inc: the injection of uniform
    /// noise, and of no other.
    Late,
    /// Any valid factors (c, Z) of value and noises, exact.
    Custom {
        /// The factors of the value: one more than there are rounds.
        c: Vec<Fraction>,
        /// The factors of the noises: one row more than there are rounds, a noise for each round.
        z: Vec<Vec<Fraction>>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomInjection {
    c: Vec<Fraction>,
    z: Vec<Vec<Fraction>>,
}

impl Serialize for InjectionChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            InjectionChoice::Incremental => serializer.serialize_str("incremental"),
            InjectionChoice::Early => serializer.serialize_str("early"),
            InjectionChoice::Late => serializer.serialize_str("late"),
            InjectionChoice::Custom { c, z } => CustomInjection {
                c: c.clone(),
                z: z.clone(),
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for InjectionChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InjectionVisitor;
        impl<'de> Visitor<'de> for InjectionVisitor {
            type Value = InjectionChoice;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"incremental\", \"early\" or { c = [...], z = [[...], ...] }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<InjectionChoice, E> {
                match text {
                    "incremental" => Ok(InjectionChoice::Incremental),
                    "early" => Ok(InjectionChoice::Early),
                    "late" => Ok(InjectionChoice::Late),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<InjectionChoice, A::Error> {
                let CustomInjection { c, z } =
                    CustomInjection::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(InjectionChoice::Custom { c, z })
            }
        }
        deserializer.deserialize_any(InjectionVisitor)
    }
}

/// How many rounds of mixing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// The number of rounds that the calibration finds best.
    Auto,
    /// So many, from 1 to what the mechanism allows
    /// ([`Rules::most_rounds`](crate::plan::mechanism::rules::Rules::most_rounds)).
    Fixed(u32),
}

impl Serialize for Rounds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Rounds::Auto => serializer.serialize_str("auto"),
            Rounds::Fixed(rounds) => serializer.serialize_u32(*rounds),
        }
    }
}

impl<'de> Deserialize<'de> for Rounds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RoundsVisitor;
        impl Visitor<'_> for RoundsVisitor {
            type Value = Rounds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\" or a number of rounds")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Rounds, E> {
                match text {
                    "auto" => Ok(Rounds::Auto),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_i64<E: de::Error>(self, rounds: i64) -> Result<Rounds, E> {
                u32::try_from(rounds)
                    .map(Rounds::Fixed)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(rounds), &self))
            }
            fn visit_u64<E: de::Error>(self, rounds: u64) -> Result<Rounds, E> {
                u32::try_from(rounds)
                    .map(Rounds::Fixed)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(rounds), &self))
            }
        }
        deserializer.deserialize_any(RoundsVisitor)
    }
}

/// The independent noise of `kind = "ppsc"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndependentNoise {
    /// Independent noise of as much as the target needs.
    Calibrated,
    /// None: the exact sum of every component is revealed.
    None,
}

/// The noise that cancels in the sum of all finals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CorrelatedNoise {
    /// Gaussian: the papers'.
    Gaussian,
    /// Drawn evenly from residues; all states, shares and finals are residues.
    Uniform,
}

/// How noise is shared out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MechanismSettings {
    /// Which family of mechanisms it is of.
    pub kind: MechanismKind,
    /// The noise that cancels.
    pub correlated: CorrelatedNoise,
    /// How value and noise enter a state.
    pub injection: InjectionChoice,
    /// The number of rounds T.
    pub rounds: Rounds,
    /// Out-neighbours a round, the fan-out k ≥ 1.
    pub fanout: u32,
    /// Whether departed parties are taken out again.
    pub rollback: bool,
    /// PPSC only: whether each party adds noise that does not cancel.
    pub independent_noise: IndependentNoise,
    /// PPSC only: the owner knows that `independent_noise = "none"` reveals exact sums.
    pub accept_exact_sum: bool,
    /// PPSC only: components so small that the noise is local are accepted.
    pub local_noise_ok: bool,
    /// Gossip only: who reads what, and over which edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gossip: Option<GossipSettings>,
}

/// How a graph is chosen. Accepts `{ kind = "ring" }` and, where nothing else is needed, just
/// `"ring"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphChoice {
    /// Every pair of parties.
    Complete,
    /// Neighbours in plan order, closed to a ring.
    Ring,
    /// Random, everybody with this many neighbours.
    RandomRegular {
        /// Neighbours of each party.
        degree: usize,
    },
    /// The edges are listed, as pairs of names.
    Edges {
        /// Unordered pairs of names.
        edges: Vec<(String, String)>,
    },
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum TaggedGraph {
    Complete {},
    Ring {},
    RandomRegular { degree: usize },
    Edges { edges: Vec<(String, String)> },
}

impl<'de> Deserialize<'de> for GraphChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GraphVisitor;
        impl<'de> Visitor<'de> for GraphVisitor {
            type Value = GraphChoice;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a graph, such as { kind = \"complete\" } or { kind = \"random-regular\", degree = 4 }",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<GraphChoice, E> {
                match text {
                    "complete" => Ok(GraphChoice::Complete),
                    "ring" => Ok(GraphChoice::Ring),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<GraphChoice, A::Error> {
                Ok(
                    match TaggedGraph::deserialize(de::value::MapAccessDeserializer::new(map))? {
                        TaggedGraph::Complete {} => GraphChoice::Complete,
                        TaggedGraph::Ring {} => GraphChoice::Ring,
                        TaggedGraph::RandomRegular { degree } => GraphChoice::RandomRegular { degree },
                        TaggedGraph::Edges { edges } => GraphChoice::Edges { edges },
                    },
                )
            }
        }
        deserializer.deserialize_any(GraphVisitor)
    }
}

/// Who may talk to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Pairs that exchange over encrypted channels.
    pub private: GraphChoice,
    /// In the clear, signed.
    pub public: GraphChoice,
}

/// How final states spread among the parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dissemination {
    /// Every final to everybody.
    Flood,
    /// Averaged over the public graph, by consensus.
    Consensus,
    /// Whichever sends fewer bytes; a plan says which.
    Auto,
}

/// Time-outs and sizes of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// The least number of parties, parties − dropouts to parties.
    pub min_parties: usize,
    /// The fewest members whose signatures make a set agreed: nobody's choice, it follows from the
    /// number of parties and from how many collude and depart
    /// ([`Quorum`](crate::plan::quorum::Quorum)).
    pub quorum: usize,
    /// How final states spread among the parties.
    pub dissemination: Dissemination,
    /// Whether finals leave sealed, with the logs, and are opened for one agreed set or for none.
    /// Plans of earlier versions do not say: theirs are not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// How long to wait for the others before START, and again for their STARTs.
    pub join_ms: u64,
    /// How long those who cannot be reached are waited for once all others are ready.
    pub grace_ms: u64,
    /// How long members may take to accept the plan, where a daemon proposes it: START follows when
    /// `min_parties` have accepted and are up. Nobody waits by it who joins a plan by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_by: Option<AcceptBy>,
    /// The round of number r ends at the latest r times so many milliseconds after START.
    pub round_ms: u64,
    /// For settling after the last round's deadline, and again for publishing.
    pub settle_ms: u64,
    /// Consensus only: ν, the largest difference between nodes, in standard errors.
    pub accuracy: f64,
    /// A round lasts at least this long; at most `round_ms`.
    pub pace_ms: u64,
    /// A training's: gradient, flood and vote of one iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration_ms: Option<u64>,
    /// A training's that mixes noise ahead: the most bytes that a node may hold of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead_bytes: Option<u64>,
    /// A training's that mixes noise ahead: how often noise is mixed, each time afresh, before it
    /// gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixing_attempts: Option<u64>,
}
