//! The description of a table, complete: its columns, and the statistics that are wanted of each.
//! All of it is public.

use serde::{Deserialize, Serialize};

/// A statistic of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Want {
    /// Mean, standard deviation and sum, and how many cells are missing.
    Mean,
    /// Any quantile, and the cumulative curve.
    Quantiles,
    /// How many rows are in each bin.
    Histogram,
    /// The share that is still without an event after a time, and how many are at risk.
    Survival,
    /// How many rows have which power of two, which needs no bounds.
    Magnitude,
    /// How many rows have each category.
    Counts,
}

impl Want {
    /// The name as a run file writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Want::Mean => "mean",
            Want::Quantiles => "quantiles",
            Want::Histogram => "histogram",
            Want::Survival => "survival",
            Want::Magnitude => "magnitude",
            Want::Counts => "counts",
        }
    }

    /// The number of bins where a run file names neither bins nor edges; 0 where there are none.
    pub const fn default_bins(self) -> usize {
        match self {
            Want::Quantiles => 128,
            Want::Histogram => 32,
            Want::Survival => 60,
            Want::Mean | Want::Magnitude | Want::Counts => 0,
        }
    }
}

/// Whether numbers of rows are known to everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowCount {
    /// Everybody knows how many rows each party contributes.
    #[default]
    Public,
    /// Nobody says; the plan has a capacity for each party.
    Private,
}

/// A table of which statistics are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The column of categories by which all statistics of single columns are grouped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
    /// Whether numbers of rows are known to everybody.
    #[serde(default)]
    pub count: RowCount,
    /// The columns, in the order of the file that describes them.
    #[serde(default)]
    pub column: Vec<DescribedColumn>,
    /// Counts of combinations of categories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub table: Vec<CrossTable>,
    /// Covariances and correlations of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub covariance: Vec<CovarianceOf>,
}

/// One column: numbers between two bounds, or one of a list of categories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribedColumn {
    /// The name by which the column is found in each party's table.
    pub name: String,
    /// The least number; what is below counts as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The greatest number; what is above counts as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Whether bins are whole numbers, one each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// The number of equally wide bins between the bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bins: Option<usize>,
    /// The edges of the bins, rising.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<f64>>,
    /// The categories, where the column has categories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// The texts that mean that a cell is missing.
    pub missing: Vec<String>,
    /// The statistics that are wanted.
    pub want: Vec<Want>,
    /// Survival only: the column that says 1 where the event happened at that time, 0 where the row
    /// was censored then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// How much of the budget each statistic of the column gets, relative to others.
    pub share: f64,
}

/// Counts of combinations of categories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTable {
    /// Columns of categories, the last one varying fastest.
    pub columns: Vec<String>,
    /// How much of the budget it gets, relative to others.
    pub share: f64,
}

/// Covariances of numbers over the rows that have all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CovarianceOf {
    /// Columns of numbers with bounds.
    pub columns: Vec<String>,
    /// How much of the budget it gets, relative to others.
    pub share: f64,
}

impl Description {
    /// Returns the place of the column of this name among the described ones.
    pub fn at(&self, name: &str) -> Option<usize> {
        self.column.iter().position(|column| column.name == name)
    }

    /// Returns the described column of this name.
    pub fn named(&self, name: &str) -> Option<&DescribedColumn> {
        self.column.iter().find(|column| column.name == name)
    }

    /// Returns the names of the columns that a party's table must have: those described, then
    /// columns of events that are not described.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.column.iter().map(|column| column.name.as_str()).collect();
        for event in self.column.iter().filter_map(|column| column.event.as_deref()) {
            if !names.contains(&event) {
                names.push(event);
            }
        }
        names
    }

    /// Returns the labels of the groups: the categories, then `other` and `missing`; `None` where
    /// nothing is grouped.
    pub fn groups(&self) -> Option<Vec<String>> {
        self.group_by
            .as_deref()
            .and_then(|name| self.named(name))
            .map(DescribedColumn::labels)
    }
}

impl DescribedColumn {
    /// Returns the labels of its cells as categories: those declared, then `other` and `missing`.
    pub fn labels(&self) -> Vec<String> {
        let declared = self.categories.iter().flatten().cloned();
        declared
            .chain(["other".to_owned(), "missing".to_owned()])
            .collect()
    }

    /// Returns the least and the greatest number; those of its edges where it has no bounds.
    pub fn bounds(&self) -> Option<(f64, f64)> {
        let edges = self.edges.as_deref().unwrap_or_default();
        Some((
            self.low.or(edges.first().copied())?,
            self.high.or(edges.last().copied())?,
        ))
    }

    /// Returns the number of bins that a statistic has; 0 where it has none.
    pub fn bins_of(&self, want: Want) -> usize {
        let default = want.default_bins();
        if default == 0 {
            return 0;
        }
        if let Some(edges) = &self.edges {
            return edges.len().saturating_sub(1);
        }
        match (self.whole, self.bounds()) {
            (true, Some((low, high))) => (high - low).clamp(0.0, 1e9) as usize + 1,
            _ => self.bins.unwrap_or(default),
        }
    }

    /// Returns the edges of a statistic's bins, one more than there are bins: bin k is
    /// [e_k, e_{k+1}), the last one closed.
    pub fn edges_of(&self, want: Want) -> Vec<f64> {
        if let Some(edges) = &self.edges {
            return edges.clone();
        }
        let (bins, (low, high)) = (self.bins_of(want), self.bounds().unwrap_or((0.0, 1.0)));
        if self.whole {
            return (0..=bins).map(|k| low + k as f64).collect();
        }
        // The last edge is the bound itself, without rounding.
        let edge = |k: usize| match k == bins {
            true => high,
            false => low + (high - low) * k as f64 / bins as f64,
        };
        (0..=bins).map(edge).collect()
    }
}

/// The texts that mean that a cell is missing, where a column names none.
pub const MISSING: [&str; 7] = ["", "NA", "N/A", "NaN", "nan", "null", "None"];
