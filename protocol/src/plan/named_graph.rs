//! The conditions on a run's graphs, reported with the key and the names that a person wrote.

use crate::plan::error::DraftError;
use crate::topology::graph::Graph;

/// A graph, the dotted key that it stands under, and its parties' names.
pub struct NamedGraph<'a> {
    /// The dotted key, for messages.
    pub field: &'a str,
    /// The pairs of parties that it joins.
    pub graph: &'a Graph,
    /// The name of a party, by its place in the plan.
    pub name: &'a dyn Fn(usize) -> String,
}

impl NamedGraph<'_> {
    /// Refuses a graph in more than one piece.
    pub fn check_connected(&self) -> Result<(), DraftError> {
        match self.graph.unreached() {
            Some(party) => Err(DraftError::Disconnected {
                field: self.field.into(),
                name: (self.name)(party),
            }),
            None => Ok(()),
        }
    }

    /// Refuses a graph in which a party has no neighbour.
    pub fn check_nobody_alone(&self) -> Result<(), DraftError> {
        let mut parties = 0..self.graph.parties();
        match parties.find(|&party| self.graph.neighbours(party).is_empty()) {
            Some(party) => Err(DraftError::Alone {
                field: self.field.into(),
                name: (self.name)(party),
            }),
            None => Ok(()),
        }
    }
}
