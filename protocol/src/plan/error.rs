//! Errors of a draft that cannot be planned, and of a plan that cannot be believed.

use thiserror::Error;

use crate::averaging::terms::TermsError;
use crate::lattice::grid::LatticeError;
use crate::plan::peers::entry::PeerProblem;
use crate::plan::run_file::problem::Problem;
use crate::sealing::holders::ThresholdError;
use crate::topology::graph::GraphError;

/// A reason why a run file does not go with a peer list (exit 2), or a plan's members with its
/// graphs (exit 3).
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DraftError {
    /// A setting that makes no sense for these members.
    #[error("{field} {problem}; {}", problem.fix())]
    Setting {
        /// The dotted key, such as "data.clip".
        field: String,
        /// The problem of the value.
        problem: Problem,
    },
    /// A name that no peer has.
    #[error("{field} names {name:?}, which is not in the peer list; correct the name or add the peer")]
    UnknownName {
        /// The dotted key, such as "data.clip".
        field: String,
        /// The name that was not found.
        name: String,
    },
    /// A graph that cannot be had.
    #[error("{field}: {error}")]
    Graph {
        /// The dotted key, such as "data.clip".
        field: String,
        /// The error in the graph.
        error: GraphError,
    },
    /// A graph in more than one piece.
    #[error(
        "{field} does not reach {name:?} from the first party; add edges until every party can be reached from every other"
    )]
    Disconnected {
        /// The dotted key, such as "data.clip".
        field: String,
        /// A party that is not reached.
        name: String,
    },
    /// Neighbours that cannot reach each other.
    #[error(
        "peers: neither {one:?} nor {other:?} has an address, so that nobody can dial the other, and no relay is listed; write relay = true at a peer that has an address, add a [[relay]], or give one of the two an address"
    )]
    NoWay {
        /// A party without an address.
        one: String,
        /// Its neighbour, which has none either.
        other: String,
    },
    /// A party without private neighbours.
    #[error(
        "{field} gives {name:?} no neighbour: its value would be published as it is; add a private edge at {name:?}"
    )]
    Alone {
        /// The dotted key, such as "data.clip".
        field: String,
        /// A party without a neighbour.
        name: String,
    },
    /// A fan-out of as many parties as somebody has neighbours, or of more.
    #[error(
        "mechanism.fanout is {fanout}, but {name:?} has only {degree} private neighbours; lower fanout below that, or add private edges"
    )]
    Fanout {
        /// The fan-out k: to how many parties each sends in a round.
        fanout: u32,
        /// A party with too few neighbours.
        name: String,
        /// The number of its neighbours.
        degree: usize,
    },
    /// No number of records, where a record is protected.
    #[error(
        "data.records is missing: with unit = \"record\" the plan says how many rows each party brings; write records = {{ aarhus = 843, … }} under [data], or records = {{ at_most = 1000 }} if each party says its number when it joins"
    )]
    NoRecords,
    /// Numbers of records that leave a party out.
    #[error("data.records says nothing of {name:?}; add {name} = and how many rows it brings")]
    Records {
        /// The party that they do not name.
        name: String,
    },
}

impl DraftError {
    /// The dotted key that it is about.
    pub fn field(&self) -> &str {
        match self {
            DraftError::Setting { field, .. }
            | DraftError::UnknownName { field, .. }
            | DraftError::Graph { field, .. }
            | DraftError::Disconnected { field, .. }
            | DraftError::Alone { field, .. } => field,
            DraftError::Fanout { .. } => "mechanism.fanout",
            DraftError::NoWay { .. } => "peers",
            DraftError::NoRecords | DraftError::Records { .. } => "data.records",
        }
    }
}

/// A reason why a plan is refused (exit 3).
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    /// A file that is longer than any plan.
    #[error("plan: the file has {found} bytes, more than {most}; this is no plan")]
    TooLong {
        /// The number of bytes found.
        found: usize,
        /// The largest number of bytes of a plan.
        most: usize,
    },
    /// Fewer parties than slices can be placed with.
    #[error(
        "run.dissemination = \"slices\" takes {fewest} parties with so many that collude and depart (colluding + 2 dropouts + 2), and there are {found}; write dissemination = \"flood\""
    )]
    TooFewForSlices {
        /// The number of parties.
        found: usize,
        /// The fewest that it takes.
        fewest: usize,
    },
    /// A file that is not JSON, or has an unknown or missing key, or a value of another type.
    #[error("plan, line {line}: {message}")]
    Json {
        /// The file's line, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// Another version of the format.
    #[error(
        "plan: version is {found}, which this program does not read; have it planned again with this version"
    )]
    Version {
        /// The version that it names.
        found: u32,
    },
    /// A value that makes no sense.
    #[error("plan: {field} {problem}; {}", problem.fix())]
    Settings {
        /// The dotted key, such as "data.clip".
        field: String,
        /// The problem of the value.
        problem: Problem,
    },
    /// A member that makes no sense.
    #[error("plan: members.{index}.{key} {problem}")]
    Member {
        /// The member's place, from 0.
        index: usize,
        /// The key within the member.
        key: &'static str,
        /// The problem of the peer's entry.
        problem: PeerProblem,
    },
    /// A relay that makes no sense.
    #[error("plan: relays.{index}.{key} {problem}")]
    Relay {
        /// The relay's place, from 0.
        index: usize,
        /// The key within the relay.
        key: &'static str,
        /// The problem of its entry.
        problem: PeerProblem,
    },
    /// The members are too few or too many.
    #[error(
        "plan: it has {found} members; a run needs from 3 to {}",
        crate::plan::run_file::limits::MOST_PARTIES
    )]
    MemberCount {
        /// The number that was found.
        found: usize,
    },
    /// Not a graph over the members.
    #[error("plan: {field}: {error}")]
    Graph {
        /// The dotted key, such as "data.clip".
        field: &'static str,
        /// The error in the graph.
        error: GraphError,
    },
    /// Members, graphs and settings do not go together.
    #[error("plan: {0}")]
    Draft(#[from] DraftError),
    /// A text that should be hexadecimal.
    #[error("plan: {field} is not {digits} lower-case hex digits")]
    Hex {
        /// The dotted key, such as "data.clip".
        field: &'static str,
        /// The number of digits that there should be.
        digits: usize,
    },
    /// A value that follows from others, and does not.
    #[error("plan: {field} is not what the rest of the plan gives; do not edit plans, make a new one")]
    Derived {
        /// The dotted key, such as "data.clip".
        field: String,
    },
    /// A claim that rests on sealed finals, in a plan that seals none.
    #[error(
        "plan: claims.{index}.sealed is true, but finals are not sealed here (run.sealed = false): no threshold of shares keeps anything closed; do not edit plans, make a new one"
    )]
    NothingSealed {
        /// The claim's place, from 0.
        index: usize,
    },
    /// No lattice carries the states.
    #[error("plan: {0}")]
    Lattice(#[from] LatticeError),
    /// The members are too few to hold the shares of a sealed final's secret.
    #[error(
        "plan: {0}; add parties, lower privacy.colluding or privacy.dropouts, or write run.sealed = false"
    )]
    Threshold(#[from] ThresholdError),
    /// Finals cannot be averaged as the run file asks.
    #[error("plan: {0}")]
    Averaging(TermsError),
    /// More precomputed noise than a node may hold.
    #[error(
        "plan: precomputed noise takes {found} bytes on a node, more than run.precomputed_bytes = {most}; {releases} releases fit: ask for fewer, raise it, or write kind = \"pairwise\" under [mechanism]"
    )]
    PrecomputedNoise {
        /// The bytes that it takes.
        found: u64,
        /// `run.precomputed_bytes`.
        most: u64,
        /// The number of releases that fit.
        releases: u64,
    },
    /// A box that the lattice cannot resolve.
    #[error(
        "plan: data.clip lies so far from zero, compared with its width, that its values cannot be told apart; subtract a constant from the data"
    )]
    FarBox,
    /// Values would be rounded to cells that their Δ is not for.
    #[error("plan: the noise is so large that values would be rounded more coarsely than their Δ allows")]
    CoarseCells,
}

impl PlanError {
    /// The dotted key that it is about.
    pub fn field(&self) -> Option<&str> {
        match self {
            PlanError::TooLong { .. } | PlanError::Json { .. } => None,
            PlanError::Version { .. } => Some("version"),
            PlanError::Settings { field, .. } | PlanError::Derived { field } => Some(field),
            PlanError::Member { key, .. } | PlanError::Relay { key, .. } => Some(key),
            PlanError::MemberCount { .. } => Some("members"),
            PlanError::Graph { field, .. } | PlanError::Hex { field, .. } => Some(field),
            PlanError::Draft(error) => Some(error.field()),
            PlanError::NothingSealed { .. } => Some("claims"),
            PlanError::Lattice(_) => Some("mechanism"),
            PlanError::Threshold(_) => Some("run.sealed"),
            PlanError::Averaging(TermsError::Accuracy { .. }) => Some("run.accuracy"),
            PlanError::Averaging(TermsError::Rounds) => Some("topology.public"),
            PlanError::TooFewForSlices { .. } => Some("run.dissemination"),
            PlanError::PrecomputedNoise { .. } => Some("run.precomputed_bytes"),
            PlanError::FarBox => Some("data.clip"),
            PlanError::CoarseCells => Some("privacy.epsilon"),
        }
    }
}
