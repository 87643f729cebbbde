//! Changes to a run file that would help where a draft cannot be calibrated, or its noise is that
//! of local privacy.

use std::fmt;

use serde::Serialize;
use undertone_protocol::plan::draft::Draft;

/// A key of the run file, and the number that suffices, the closest one to what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The key of the run file.
    pub setting: &'static str,
    /// The number that suffices.
    pub value: usize,
}

/// A change that suffices by itself or, where none does, two together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The change to make.
    #[serde(flatten)]
    pub change: Change,
    /// The change to make with it; `None` if one change is enough.
    #[serde(rename = "and", skip_serializing_if = "Option::is_none")]
    pub with: Option<Change>,
}

impl Remedy {
    pub(crate) fn one(setting: &'static str, value: usize) -> Self {
        Remedy {
            change: Change { setting, value },
            with: None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.setting {
            "topology.private" => write!(f, "at least {} private neighbours for everybody", self.value),
            setting => write!(f, "{setting} = {}", self.value),
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.with {
            None => self.change.fmt(f),
            Some(with) => write!(f, "{} together with {with}", self.change),
        }
    }
}

/// Changes that each protect everybody, where some party has no more than `degree` neighbours. More
/// rounds or a larger ε do not: all that such a party exchanges is known to its neighbours.
pub fn against_exposure(draft: &Draft, degree: usize) -> Vec<Remedy> {
    let colluding = draft.privacy.colluding;
    let dropouts = if draft.exchange.rolls_back() {
        draft.privacy.dropouts
    } else {
        0
    };
    let mut remedies = Vec::new();
    let mut needed = (colluding + dropouts + 1).min(draft.parties() - 1);
    // A regular graph has an even number of edge ends.
    needed += needed * draft.parties() % 2;
    remedies.push(Remedy::one("topology.private", needed));
    if let Some(fewer) = degree
        .checked_sub(1 + dropouts)
        .filter(|fewer| (1..colluding).contains(fewer))
    {
        remedies.push(Remedy::one("privacy.colluding", fewer));
    }
    if let Some(fewer) = degree
        .checked_sub(1 + colluding)
        .filter(|fewer| *fewer < dropouts)
    {
        remedies.push(Remedy::one("privacy.dropouts", fewer));
    }
    remedies
}
