//! The settings of a complete run file. The same shapes serve `run.toml` and the plan's JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::plan::quorum::Quorum;
use crate::plan::run_file::accept_by::AcceptBy;
use crate::plan::run_file::fraction::Fraction;
use crate::plan::run_file::records::RecordCounts;

/// The tasks of run files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskName {
    /// The weighted mean of the parties' vectors.
    #[default]
    Mean,
    /// Statistics of the columns of a table.
    Describe,
    /// A model that the parties fit together.
    Regression,
    /// Means in sequence of vectors that programs hand over, each of which has seen the means
    /// before.
    Rounds,
    /// Gossip: of one vector of each party, or of a row of each in every round.
    Stream,
    /// PPSC's Algorithm 3: the common solution of everybody's linear equations.
    LinearEquations,
    /// PPSC's Algorithm 4: the least sum of everybody's convex losses.
    Optimise,
}

impl TaskName {
    /// All of them, in the order of the documents.
    pub const ALL: [TaskName; 7] = [
        TaskName::Mean,
        TaskName::Describe,
        TaskName::Regression,
        TaskName::Rounds,
        TaskName::Stream,
        TaskName::LinearEquations,
        TaskName::Optimise,
    ];

    /// The name as a run file writes it.
    pub const fn name(self) -> &'static str {
        match self {
            TaskName::Mean => "mean",
            TaskName::Describe => "describe",
            TaskName::Regression => "regression",
            TaskName::Rounds => "rounds",
            TaskName::Stream => "stream",
            TaskName::LinearEquations => "linear-equations",
            TaskName::Optimise => "optimise",
        }
    }
}

/// The unit whose change is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A party's whole vector.
    Party,
    /// One row of a party's matrix.
    Record,
}

/// The permitted change of the protected unit.
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
        /// The radii of the tensors by name, in the data's unit.
        radius: BTreeMap<String, f64>,
    },
    /// Vectors that the node makes of a table's rows, by a description: no two are further apart
    /// than it says. Only a plan of statistics has them.
    Described {
        /// Δ where a row may become another one.
        replace_one: f64,
        /// Δ where a row may become none: no row's vector is longer.
        zero_out: f64,
        /// The largest absolute coordinate.
        largest: f64,
        /// The coarsest cell of a lattice with which that holds.
        cell: f64,
    },
    /// An interval per coordinate.
    Box {
        /// Least values, below `high`.
        low: Bound,
        /// Greatest values, above `low`.
        high: Bound,
    },
}

/// The data that each party contributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The extents of one party's vector, or of one record; their product is the dimension d.
    pub shape: Vec<usize>,
    /// The unit whose change is hidden.
    pub unit: Unit,
    /// The permitted change of the unit.
    pub adjacency: Adjacency,
    /// The range that inputs are clipped to.
    pub clip: Clip,
    /// Public weights by party name, where any were given (absent parties: 1). Multiples of 2⁻²⁰
    /// from 0.01 to 10⁶, so that the lattice carries exactly these; others are rounded to the
    /// nearest when the file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<BTreeMap<String, f64>>,
    /// The number of records of each party, where a record is what is protected; `None` where a
    /// party is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordCounts>,
    /// The names of the coordinates along the last axis, if they have names: a table with other
    /// names, or in another order, is unusable input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// The tensors that a vector consists of by name, with their extents; in the order of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensors: Option<BTreeMap<String, Vec<usize>>>,
    /// The transformation of a party's vectors, or of its rows, before they are added up.
    #[serde(default, skip_serializing_if = "Contributed::is_as_they_are")]
    pub contributed: Contributed,
    /// Whether a result is meant whose noise is larger than any mean can be. Nothing else depends
    /// on it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub noise_ok: bool,
}

fn is_false(said: &bool) -> bool {
    !said
}

/// The transformation of a party's vectors, or of its rows, before they are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contributed {
    /// The vectors are clipped by the node, and added up as they are.
    #[default]
    AsTheyAre,
    /// A program clips its rows, and hands over their sum.
    ByProgram,
    /// The second moments of each row, of which no two are as far apart as two vectors of the ball
    /// can be. Only a model's plan has them: nobody else knows that they are.
    SecondMoments,
}

impl Contributed {
    fn is_as_they_are(&self) -> bool {
        *self == Contributed::AsTheyAre
    }
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

/// The moment when the coalition is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coalitions {
    /// The coalition is chosen with the schedule known.
    Any,
    /// The coalition is chosen before the schedule is drawn.
    Static,
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
    /// The moment when the coalition is chosen.
    pub coalitions: Coalitions,
    /// Departures that the claims tolerate.
    pub dropouts: usize,
    /// `correlated = "uniform"` only: how many shares between survivors may go astray without cost;
    /// none: one, where the private graph has room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_faults: Option<usize>,
}

impl Privacy {
    /// Returns the number of these members that have to sign a set.
    pub fn quorum(&self, parties: usize) -> Quorum {
        Quorum::of(parties, self.colluding, self.dropouts)
    }
}

/// The exchanges, as a run file and a plan name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeName {
    /// INCA (Algorithm 2): noise that cancels between neighbours, round by round.
    Inca,
    /// PPSC (Algorithm 1), privacy-preserving summation-consistent gossip.
    Ppsc,
    /// Gossip averaging of noisy values (KK's DP-GossipAvg).
    Gossip,
    /// Masks of pairs, which follow from keys: nothing is mixed, and nothing travels in private.
    Pairwise,
}

/// The injection by which a party feeds its value and noise into its state.
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

/// The number of rounds of mixing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// The number of rounds that the calibration finds best.
    Auto,
    /// A fixed number, from 1 to the mechanism's limit
    /// ([`Rules::most_rounds`](crate::plan::exchange::rules::Rules::most_rounds)).
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
    /// Drawn uniformly from residues; all states, shares and finals are residues.
    Uniform,
}

/// The choice of a graph. Accepts `{ kind = "ring" }` and, where nothing else is needed, just
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

/// The graphs of the parties that may talk to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Pairs that exchange over encrypted channels.
    pub private: GraphChoice,
    /// In the clear, signed.
    pub public: GraphChoice,
}

/// The spreading of final states among the parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dissemination {
    /// Every final to everybody.
    Flood,
    /// Averaged over the public graph, by consensus.
    Consensus,
    /// Sealed, in slices, to a few keepers each, who add them up.
    Slices,
    /// By slices where clearly fewer bytes travel, else to everybody; a plan says which.
    Auto,
}

impl Dissemination {
    /// The way that a plan says: where the file leaves the choice slices, if they pay.
    pub(in crate::plan) fn decided(self, slices_pay: impl FnOnce() -> bool) -> Self {
        match self {
            Self::Auto if slices_pay() => Self::Slices,
            Self::Auto => Self::Flood,
            chosen => chosen,
        }
    }

    /// Whether sealed finals travel in slices.
    pub(crate) fn is_in_slices(self) -> bool {
        self == Self::Slices
    }

    /// Whether readable finals are averaged.
    pub(crate) fn is_by_consensus(self) -> bool {
        self == Self::Consensus
    }
}

/// Time-outs and sizes of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// The least number of parties, parties − dropouts to parties.
    pub min_parties: usize,
    /// The fewest members whose signatures make a set agreed: nobody's choice, it follows from the
    /// number of parties and from how many collude and depart
    /// ([`Quorum`]).
    pub quorum: usize,
    /// The spreading of final states among the parties.
    pub dissemination: Dissemination,
    /// Whether finals leave sealed, with the logs, and are opened for one agreed set or for none.
    /// Plans of earlier versions do not say: theirs are not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// The time to wait for the others before START, and again for their STARTs.
    pub join_ms: u64,
    /// The time to wait for unreachable parties once all others are ready.
    pub grace_ms: u64,
    /// The time for members to accept the plan, where a daemon proposes it: START follows when
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
}
