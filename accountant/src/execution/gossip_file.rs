//! A run of gossip averaging as a file, and what it is checked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use undertone_protocol::topology::graph::{Graph, GraphError};
use undertone_protocol::topology::party::Party;

use crate::execution::error::{ExecutionError, check_some, invalid, party_set};
use crate::execution::gossip::{GossipRun, GossipView};

/// Rounds times parties may be at most this: unknown noises, each a column of what is seen.
pub const MOST_NOISES: usize = 1 << 13;

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGossip {
    parties: usize,
    rounds: usize,
    edges: Vec<Vec<(Party, Party)>>,
    contributions: Option<usize>,
    std: Option<Vec<f64>>,
    view: RawView,
    corrupted: Vec<Party>,
    online: Option<Vec<Vec<bool>>>,
    #[serde(default)]
    published: Vec<Party>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawView {
    Messages,
    Sum,
}

impl GossipRun {
    /// Reads a run: `{"parties", "rounds", "edges": [per round [[i, j], …]], "contributions"?,
    /// "std"?, "view": "messages" | "sum", "corrupted", "online"?, "published"?}`. Without them,
    /// contributions enter in every round, noise has the standard deviation 1, everybody takes part
    /// in every round, and nobody shows a state. Unknown keys are refused.
    pub fn parse(text: &str) -> Result<Self, ExecutionError> {
        let raw: RawGossip = serde_json::from_str(text).map_err(|error| ExecutionError::syntax(&error))?;
        raw.check_sizes()?;
        Ok(GossipRun {
            parties: raw.parties,
            edges: raw.graphs()?,
            contributions: raw.contributions()?,
            std: raw.std()?,
            view: match raw.view {
                RawView::Messages => GossipView::Messages,
                RawView::Sum => GossipView::Sum,
            },
            corrupted: raw.set("corrupted", &raw.corrupted)?,
            online: raw.online()?,
            published: raw.set("published", &raw.published)?,
        })
    }
}

impl RawGossip {
    fn check_sizes(&self) -> Result<(), ExecutionError> {
        check_some(self.parties)?;
        if self.rounds == 0 {
            return Err(invalid("rounds", "must be at least 1"));
        }
        match self.parties.checked_mul(self.rounds) {
            Some(noises) if noises <= MOST_NOISES => Ok(()),
            _ => Err(invalid(
                "rounds",
                format!(
                    "{} rounds of {} parties are too many to account exactly: at most {MOST_NOISES} together",
                    self.rounds, self.parties
                ),
            )),
        }
    }

    fn set(&self, place: &str, list: &[Party]) -> Result<BTreeSet<Party>, ExecutionError> {
        party_set(self.parties, place, list)
    }

    /// One entry a round.
    fn check_rounds(&self, place: &str, found: usize) -> Result<(), ExecutionError> {
        if found == self.rounds {
            return Ok(());
        }
        let problem = format!("has {found} rounds, expected {}", self.rounds);
        Err(invalid(place, problem))
    }

    /// Rounds with the same edges share a graph.
    fn graphs(&self) -> Result<Vec<Arc<Graph>>, ExecutionError> {
        self.check_rounds("edges", self.edges.len())?;
        let mut graphs: Vec<Arc<Graph>> = Vec::with_capacity(self.rounds);
        for (round, edges) in self.edges.iter().enumerate() {
            if round > 0 && self.edges[round - 1] == *edges {
                graphs.push(graphs[round - 1].clone());
                continue;
            }
            let refused = |error: GraphError| invalid(format!("edges[{round}]"), error.to_string());
            graphs.push(Arc::new(Graph::from_edges(self.parties, edges).map_err(refused)?));
        }
        Ok(graphs)
    }

    fn contributions(&self) -> Result<usize, ExecutionError> {
        let contributions = self.contributions.unwrap_or(self.rounds);
        if (1..=self.rounds).contains(&contributions) {
            return Ok(contributions);
        }
        let problem = format!(
            "is {contributions}: expected 1 to {}, at most one a round",
            self.rounds
        );
        Err(invalid("contributions", problem))
    }

    fn std(&self) -> Result<Vec<f64>, ExecutionError> {
        let Some(std) = &self.std else {
            return Ok(vec![1.0; self.rounds]);
        };
        self.check_rounds("std", std.len())?;
        match std.iter().position(|&std| !(std > 0.0 && std.is_finite())) {
            Some(round) => Err(invalid(
                format!("std[{round}]"),
                "must be a positive number: noise is in every round",
            )),
            None => Ok(std.clone()),
        }
    }

    fn online(&self) -> Result<Vec<Vec<bool>>, ExecutionError> {
        let Some(online) = &self.online else {
            return Ok(vec![vec![true; self.parties]; self.rounds]);
        };
        self.check_rounds("online", online.len())?;
        match online.iter().position(|row| row.len() != self.parties) {
            Some(round) => {
                let (found, expected) = (online[round].len(), self.parties);
                let problem = format!("has {found} entries, expected one for each of {expected} parties");
                Err(invalid(format!("online[{round}]"), problem))
            }
            None => Ok(online.clone()),
        }
    }
}
