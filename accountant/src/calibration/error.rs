//! The reasons why a draft has no calibration, each with a change that would help.

use undertone_protocol::lattice::injection::InjectionError;

use crate::calibration::remedy::Remedy;
use crate::class::claim_error::ClaimError;
use crate::execution::error::ExecutionError;
use crate::losses::gaussian::GaussianError;

/// The reasons why a draft has no calibration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrateError {
    /// Not a mechanism of this accountant yet.
    #[error("mechanism.kind: only \"inca\" and \"ppsc\" can be calibrated by this version")]
    Kind,
    /// With PPSC, a party whose neighbours may all be against it, so that its noise is local.
    #[error(
        "topology.private: {party} has {degree} private neighbour{} ({}), and {size} parties may be against it (colluding {colluding} + dropouts {dropouts}): these would learn its exact value but for its own noise; add private edges at {party}, lower privacy.colluding or privacy.dropouts, or write mechanism.local_noise_ok = true for noise as large as local privacy needs",
        if *degree == 1 { "" } else { "s" }, neighbours.join(", ")
    )]
    Local {
        /// The party whose noise would be local.
        party: String,
        /// How many private neighbours that party has.
        degree: usize,
        /// The names of these neighbours.
        neighbours: Vec<String>,
        /// How many parties may collude, by `privacy.colluding`.
        colluding: usize,
        /// How many departed parties may join them, by Theorem R.
        dropouts: usize,
        /// How many may be against the party: both together.
        size: usize,
        /// Each of these suffices.
        remedies: Vec<Remedy>,
    },
    /// `independent_noise = "none"` over more systems than are computed.
    #[error(
        "mechanism.independent_noise: without independent noise nothing but computing every coalition and fault bounds the loss, and here these are too many; use \"calibrated\", or lower privacy.colluding or privacy.dropouts"
    )]
    TooMany,
    /// Rounds whose draw leaves somebody apart too often.
    #[error(
        "mechanism.rounds: a draw of {rounds} rounds leaves those apart who are not among the {removed} that may collude or depart, with a chance that is, for all the draws that may be tried, above a thousandth of privacy.delta; {}",
        match fewest {
            None => "no number of rounds does better: lower privacy.colluding or privacy.dropouts, or write coalitions = \"any\"".to_string(),
            Some(fewest) => format!("write rounds = \"auto\" (it takes at least {fewest})"),
        }
    )]
    Drawn {
        /// How many rounds there are.
        rounds: u32,
        /// How many may collude or depart, together.
        removed: usize,
        /// The fewest rounds that do, if any number does.
        fewest: Option<u32>,
    },
    /// A party with too few neighbours for the fan-out.
    #[error(
        "mechanism.fanout: {fanout} out-neighbours a round are more than some party has in topology.private"
    )]
    Fanout {
        /// To how many each party is to send in a round.
        fanout: u32,
    },
    /// All neighbours of a party may be against it: what it exchanges hides nothing.
    #[error(
        "topology.private: {party} has {degree} private neighbours, and {size} parties may be against it (colluding{}): nothing that it exchanges would be hidden; add private edges at {party}, or lower privacy.colluding or privacy.dropouts",
        if *dropouts > 0 { format!(" {colluding} + dropouts {dropouts}") } else { String::new() }
    )]
    Exposed {
        /// The party that cannot be protected.
        party: String,
        /// How many private neighbours that party has.
        degree: usize,
        /// How many parties may collude, by `privacy.colluding`.
        colluding: usize,
        /// How many departed parties may join them, by Theorem R; 0 without roll-back.
        dropouts: usize,
        /// How many may be against the party: both together.
        size: usize,
        /// Each of these suffices.
        remedies: Vec<Remedy>,
    },
    /// Parties who, taken away, leave the private graph in pieces: uniform noise would not hide the
    /// values of one piece among those of the others.
    #[error(
        "topology.private: {}, and {colluding} may collude and {dropouts} depart; add private edges at {}, or lower privacy.colluding or privacy.dropouts",
        match cut.len() {
            0 => "there are too few parties for their values to hide each other".to_string(),
            1 => format!("{} alone would separate {} from the others", cut[0], side.join(" and ")),
            count => format!("these {count} parties, {}, would separate {} from the others", cut.join(", "), side.join(" and ")),
        },
        side.join(" or ")
    )]
    Thin {
        /// The names of those who separate.
        cut: Vec<String>,
        /// The names of those who are separated from the others: the smaller side.
        side: Vec<String>,
        /// How many parties may collude.
        colluding: usize,
        /// How many may depart.
        dropouts: usize,
    },
    /// Rounds in which too few pairs meet for values to be hidden among each other.
    #[error(
        "mechanism.rounds: those who meet in {rounds} rounds can be separated by the {colluding} who may collude and the {dropouts} who may depart; write rounds = \"auto\"{}, or mechanism.local_noise_ok = true for noise as large as local privacy needs",
        least.map_or_else(String::new, |least| format!(" (it takes at least {least})"))
    )]
    Separated {
        /// How many rounds there are.
        rounds: u32,
        /// How many parties may collude.
        colluding: usize,
        /// How many may depart.
        dropouts: usize,
        /// The fewest rounds that could do, where these are more.
        least: Option<usize>,
    },
    /// Gaussian noise of so many parties that nobody knows what a late departure would leave of it.
    #[error(
        "mechanism.correlated: \"gaussian\" noise of {parties} parties in {rounds} rounds is too much to compute what one party that vanishes while publishing leaves of it, tens of times the floor; leave out mechanism.correlated and run.sealed, for uniform noise and sealed finals"
    )]
    Late {
        /// The number of parties.
        parties: usize,
        /// How many rounds there are.
        rounds: usize,
    },
    /// Gossip of one value that does not come together in so many rounds.
    #[error(
        "run.accuracy: after {rounds} rounds of gossip nodes still differ by more than {accuracy} standard errors; allow a larger run.accuracy, add private edges, or write mechanism.rounds"
    )]
    Slow {
        /// How many rounds there may be.
        rounds: u32,
        /// The largest difference that was asked for, in standard errors.
        accuracy: f64,
    },
    /// No noise that a number can hold meets the budget.
    #[error(
        "privacy.epsilon: no noise reaches epsilon {epsilon} at delta {delta}; party {party} would need more than a number can hold: allow a larger epsilon or delta"
    )]
    Budget {
        /// The ε that the draft asks for.
        epsilon: f64,
        /// The δ that the draft asks for.
        delta: f64,
        /// The party whose loss binds.
        party: String,
    },
    /// Linear equations that are as good as solved where all begin.
    #[error(
        "recursion.accuracy: all begin as near to a solution of length recursion.solution_norm as this asks for, so that any number of iterations is enough and says nothing of the equations; ask for less, or write outer.contraction"
    )]
    Reached,
    /// The paper's theorems have no number for this.
    #[error(
        "recursion.pairwise_std: \"theorem\" has no finite number above 0 for epsilon {epsilon} over so many iterations; write a number, or allow another privacy.epsilon or privacy.delta"
    )]
    AsInPaper {
        /// The ε that the draft asks for.
        epsilon: f64,
    },
    /// The injection is refused.
    #[error(transparent)]
    Injection(#[from] InjectionError),
    /// ε or δ out of range.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
    /// The schedule is refused.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// The claims cannot be stated.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}
