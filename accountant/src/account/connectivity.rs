//! How many parties it takes to separate a graph's others, which, and among how many values each
//! party's own is then hidden.

use serde::Serialize;
use thiserror::Error;
use undertone_protocol::topology::connectivity;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;
use undertone_protocol::topology::schedule::Schedule;

use crate::account::gossip::edges::{self, EdgesError};
use crate::bounds::connectivity::among;

/// The most parties that are looked at: five times what a plan may have.
pub const MOST_PARTIES: usize = 5000;

/// The most rounds of a schedule, as in a plan.
pub const MOST_ROUNDS: usize = 63;

/// The answer of `account connectivity`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Separation {
    /// κ: the least number of parties whose removal leaves the others in several pieces; one less
    /// than there are parties if every pair is joined.
    pub kappa: usize,
    /// As few such parties, ascending; `None` if every pair is joined.
    pub cut: Option<Vec<Party>>,
    /// The gate's m of each party: among how many values its own is hidden, whoever colludes.
    pub among: Vec<usize>,
}

/// The answer of `account connectivity --at-least`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AtLeast {
    /// Whether κ is at least what was asked.
    pub at_least: bool,
    /// If not: fewer parties than asked, ascending, whose removal leaves the others in several
    /// pieces; `None` if every pair is joined.
    pub cut: Option<Vec<Party>>,
}

/// The reasons why a question about connectivity is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unanswerable {
    /// The edge list.
    #[error(transparent)]
    Edges(#[from] EdgesError),
    /// A number that is out of its range.
    #[error("{what} is {found}: expected {least} to {most}")]
    Range {
        /// The name of the count that is out of range.
        what: &'static str,
        /// The value that was given.
        found: usize,
        /// The least that makes sense.
        least: usize,
        /// The most that makes sense, or that is looked at.
        most: usize,
        /// The flag at fault.
        flag: &'static str,
    },
}

fn in_range(
    (what, flag): (&'static str, &'static str),
    found: usize,
    (least, most): (usize, usize),
) -> Result<(), Unanswerable> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Unanswerable::Range {
        what,
        found,
        least,
        most,
        flag,
    })
}

const PARTIES: (&str, &str) = ("the number of parties", "--parties");

/// The graph of an edge list (EDGES.txt), of `parties` parties or as many as it names.
pub fn listed(edges: &str, parties: Option<usize>) -> Result<Graph, Unanswerable> {
    if let Some(parties) = parties {
        in_range(PARTIES, parties, (1, MOST_PARTIES))?;
    }
    Ok(edges::any(edges, parties, MOST_PARTIES)?)
}

/// Returns the graph of meetings in a schedule of all parties in which no pair meets twice
/// ([`Schedule::apart`]).
pub fn scheduled(parties: usize, rounds: usize, seed: u64) -> Result<Graph, Unanswerable> {
    in_range(PARTIES, parties, (2, MOST_PARTIES))?;
    in_range(("the number of rounds", "--schedule"), rounds, (1, MOST_ROUNDS))?;
    let schedule =
        Schedule::apart(&Graph::complete(parties), rounds, seed).expect("everybody has a neighbour");
    Ok(schedule.meetings())
}

/// Whether it takes at least so many parties to separate the others; nothing else is computed.
pub fn at_least(graph: &Graph, wanted: usize) -> AtLeast {
    let found = connectivity::at_least(graph, wanted);
    AtLeast {
        at_least: found.is_ok(),
        cut: found.err().and_then(|shortfall| shortfall.cut),
    }
}

/// κ, who separates, and the gate's m of each party with `colluding` parties in a coalition.
pub fn account(graph: &Graph, colluding: usize) -> Result<Separation, Unanswerable> {
    let most = graph.parties().saturating_sub(1);
    in_range(
        ("the number of those who collude", "--colluding"),
        colluding,
        (0, most),
    )?;
    let found = connectivity::connectivity(graph);
    Ok(Separation {
        kappa: found.kappa,
        cut: found.cut,
        among: among(graph, colluding),
    })
}
