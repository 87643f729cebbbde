//! What programs hand over, and what becomes of it (`task = "rounds"`).

use serde::{Deserialize, Serialize};

/// What a release comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseKind {
    /// The weighted mean of what was handed over.
    #[default]
    Mean,
    /// Its weighted sum.
    Sum,
}

impl ReleaseKind {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            ReleaseKind::Mean => "mean",
            ReleaseKind::Sum => "sum",
        }
    }

    /// Whether it is what all plans of earlier versions release.
    pub(in crate::plan) fn is_mean(&self) -> bool {
        *self == ReleaseKind::Mean
    }

    /// What a sum of this weight is divided by.
    pub fn divisor(self, weight: f64) -> f64 {
        match self {
            ReleaseKind::Mean => weight,
            ReleaseKind::Sum => 1.0,
        }
    }
}

/// Who clips rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClippedBy {
    /// The node, row by row.
    #[default]
    ByNode,
    /// The program, which hands over their sum.
    ByProgram,
}

impl ClippedBy {
    /// Whether no program is relied on.
    pub(in crate::plan) fn is_node(&self) -> bool {
        *self == ClippedBy::ByNode
    }
}
