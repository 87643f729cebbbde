//! Gossip matrices, sparse.

use undertone_protocol::topology::graph::Graph;

/// How far a row or column may be from summing to 1: rounding of a thousand entries.
const ROUNDING: f64 = 1e-12;

/// How weights follow from a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// An edge between nodes of degrees dᵢ and dⱼ weighs 1/(1 + max(dᵢ, dⱼ)): symmetric and doubly
    /// stochastic.
    Metropolis,
    /// An edge between nodes of degrees dᵢ and dⱼ weighs 1/max(dᵢ, dⱼ): symmetric and doubly
    /// stochastic, not primitive on even cycles.
    MaxDegree,
    /// A node of degree dᵢ weighs itself and each neighbour 1/(1 + dᵢ): row-stochastic only.
    ClosedNeighbourhood,
}

/// The sums of weights that must be 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stochastic {
    /// Those of rows: consensus is reached, on some weighted mean.
    Rows,
    /// Those of rows and columns: the mean is kept.
    Both,
}

/// The reasons why entries are no gossip matrix. Nodes count from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WeightsError {
    /// An entry beyond the matrix.
    #[error("weight ({row}, {column}) is out of range: nodes count from 0 to {}", nodes.saturating_sub(1))]
    Range {
        /// The row of the entry.
        row: usize,
        /// The column of the entry.
        column: usize,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A weight that is negative or not a number.
    #[error("weight ({row}, {column}) must be zero or a positive number, found {found}")]
    Negative {
        /// The row of the weight.
        row: usize,
        /// The column of the weight.
        column: usize,
        /// The weight that was given.
        found: f64,
    },
    /// An entry that is given twice.
    #[error("weight ({row}, {column}) is given twice")]
    Repeated {
        /// The row of the entry.
        row: usize,
        /// The column of the entry.
        column: usize,
    },
    /// A row that does not sum to 1.
    #[error("the weights of row {row} sum to {sum}, not to 1")]
    Row {
        /// The row, from 0.
        row: usize,
        /// The sum of that row's weights.
        sum: f64,
    },
    /// A column that does not sum to 1 where it must.
    #[error("the weights of column {column} sum to {sum}, not to 1: the mean would drift")]
    Column {
        /// The column, from 0.
        column: usize,
        /// The sum of that column's weights.
        sum: f64,
    },
}

/// A gossip matrix W, row-stochastic and sparse, by rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// Entries of row i are those from starts\[i\] to starts\[i + 1\].
    starts: Vec<usize>,
    columns: Vec<usize>,
    values: Vec<f64>,
    symmetric: bool,
}

impl Weights {
    /// The weights of a graph under a scheme.
    pub fn of(graph: &Graph, scheme: Scheme) -> Self {
        let degree = |node: usize| graph.neighbours(node).len() as f64;
        let mut weights = Weights {
            starts: vec![0],
            columns: Vec::new(),
            values: Vec::new(),
            symmetric: scheme != Scheme::ClosedNeighbourhood,
        };
        for node in 0..graph.parties() {
            let neighbours = graph.neighbours(node);
            let weight = |&other: &usize| match scheme {
                Scheme::Metropolis => 1.0 / (1.0 + degree(node).max(degree(other))),
                Scheme::MaxDegree => 1.0 / degree(node).max(degree(other)),
                Scheme::ClosedNeighbourhood => 1.0 / (1.0 + degree(node)),
            };
            let own = match scheme {
                Scheme::ClosedNeighbourhood => 1.0 / (1.0 + degree(node)),
                _ => Some(1.0 - neighbours.iter().map(weight).sum::<f64>())
                    .filter(|&own| own > ROUNDING)
                    .unwrap_or(0.0),
            };
            let before = neighbours.partition_point(|&other| other < node);
            weights.columns.extend(&neighbours[..before]);
            weights.values.extend(neighbours[..before].iter().map(weight));
            weights.columns.push(node);
            weights.values.push(own);
            weights.columns.extend(&neighbours[before..]);
            weights.values.extend(neighbours[before..].iter().map(weight));
            weights.starts.push(weights.columns.len());
        }
        weights
    }

    /// Any weights (row, column, weight), in any order; what is not listed is 0.
    pub fn from_entries(
        nodes: usize,
        entries: &[(usize, usize, f64)],
        required: Stochastic,
    ) -> Result<Self, WeightsError> {
        let mut sorted = entries.to_vec();
        sorted.sort_unstable_by_key(|&(row, column, _)| (row, column));
        let (mut rows, mut columns) = (vec![0.0; nodes], vec![0.0; nodes]);
        for (index, &(row, column, found)) in sorted.iter().enumerate() {
            if row >= nodes || column >= nodes {
                return Err(WeightsError::Range { row, column, nodes });
            }
            if !(found >= 0.0 && found.is_finite()) {
                return Err(WeightsError::Negative { row, column, found });
            }
            if index > 0 && (sorted[index - 1].0, sorted[index - 1].1) == (row, column) {
                return Err(WeightsError::Repeated { row, column });
            }
            rows[row] += found;
            columns[column] += found;
        }
        let off = |sums: &[f64]| sums.iter().position(|sum| (sum - 1.0).abs() > ROUNDING);
        if let Some(row) = off(&rows) {
            return Err(WeightsError::Row { row, sum: rows[row] });
        }
        if let Some(column) = off(&columns).filter(|_| required == Stochastic::Both) {
            return Err(WeightsError::Column {
                column,
                sum: columns[column],
            });
        }
        let starts = (0..=nodes)
            .map(|node| sorted.partition_point(|&(row, ..)| row < node))
            .collect();
        let mut weights = Weights {
            starts,
            columns: sorted.iter().map(|&(_, column, _)| column).collect(),
            values: sorted.iter().map(|&(.., value)| value).collect(),
            symmetric: false,
        };
        weights.symmetric = sorted
            .iter()
            .all(|&(row, column, value)| weights.entry(column, row) == value);
        Ok(weights)
    }

    /// How many nodes the matrix is for.
    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether the matrix is its own transpose, to the bit.
    pub fn symmetric(&self) -> bool {
        self.symmetric
    }

    /// The weight that node `row` gives to node `column`; 0 if there is none.
    pub fn entry(&self, row: usize, column: usize) -> f64 {
        let range = self.starts[row]..self.starts[row + 1];
        self.columns[range.clone()]
            .binary_search(&column)
            .map_or(0.0, |index| self.values[range.start + index])
    }

    /// rᵀ W for a row r of one number a node.
    pub fn after(&self, row: &[f64]) -> Vec<f64> {
        let entries = |node: usize| {
            let range = self.starts[node]..self.starts[node + 1];
            self.columns[range.clone()].iter().zip(&self.values[range])
        };
        if self.symmetric {
            // rᵀW = (W r)ᵀ, which reads in order.
            return (0..self.nodes())
                .map(|node| entries(node).map(|(&other, weight)| weight * row[other]).sum())
                .collect();
        }
        let mut after = vec![0.0; self.nodes()];
        for (node, &value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            for (&other, weight) in entries(node) {
                after[other] += value * weight;
            }
        }
        after
    }
}
