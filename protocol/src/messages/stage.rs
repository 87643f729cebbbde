//! What items belong to, and what parties agree on one after another.

use serde::{Deserialize, Serialize};

/// The phases of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Finding out who takes part.
    Gathering,
    /// Rounds in which shares are exchanged.
    Mixing,
    /// Agreeing on the logs of these rounds.
    Settling,
    /// Agreeing on the final states.
    Publishing,
    /// The run is over for this node.
    Done,
}

impl Phase {
    /// The phase's name in events and receipts.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Gathering => "gathering",
            Phase::Mixing => "mixing",
            Phase::Settling => "settling",
            Phase::Publishing => "publishing",
            Phase::Done => "done",
        }
    }
}

/// What items belong to. All stages but one are agreements: on logs, then on finals (or what stands
/// for them), or where finals are sealed on the corrections of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// The items are logs.
    Settling,
    /// The items are finals, or where finals are averaged the entries of these.
    Publishing,
    /// The items are sealed finals: each is agreed on with the log that names it.
    Sealed,
    /// The items are corrections of sealed finals, the first ones or later ones, from 1.
    Correction(u32),
    /// The items are finals of which the entries were agreed on, to be averaged, until a message
    /// was missed.
    Finals,
}

impl Stage {
    /// The phase that the stage happens in.
    pub const fn phase(self) -> Phase {
        match self {
            Stage::Settling | Stage::Sealed => Phase::Settling,
            Stage::Publishing | Stage::Correction(_) | Stage::Finals => Phase::Publishing,
        }
    }
}

/// The stages that the runs of a plan may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages(Finals);

/// What parties say of their states once they have agreed on logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finals {
    /// Nothing.
    Kept,
    /// All of them, to be read at once.
    Readable,
    /// Entries of them; and themselves where a message of averaging is missed.
    Averaged,
    /// All of them, sealed, with so many stages of corrections at most.
    Sealed {
        /// The most stages of corrections.
        corrections: u32,
    },
}

impl Stages {
    /// Where finals are readable as soon as they leave: logs, then finals.
    pub const READABLE: Stages = Stages(Finals::Readable);

    /// Where finals are averaged: logs, then entries, then perhaps finals.
    pub const AVERAGED: Stages = Stages(Finals::Averaged);

    /// Where no state leaves its party: logs alone.
    pub const KEPT: Stages = Stages(Finals::Kept);

    /// Where finals are sealed and so many parties may depart. Corrections are given at first, and
    /// again only where one of those who remained has departed since.
    pub fn sealed(dropouts: usize) -> Self {
        let departures = u32::try_from(dropouts).unwrap_or(u32::MAX);
        Stages(Finals::Sealed {
            corrections: departures.saturating_add(1),
        })
    }

    /// Whether finals are sealed.
    pub fn are_sealed(self) -> bool {
        matches!(self.0, Finals::Sealed { .. })
    }

    /// All of them, in order.
    pub fn all(self) -> Vec<Stage> {
        match self.0 {
            Finals::Kept => vec![Stage::Settling],
            Finals::Readable => vec![Stage::Settling, Stage::Publishing],
            Finals::Averaged => vec![Stage::Settling, Stage::Publishing, Stage::Finals],
            Finals::Sealed { corrections } => {
                let corrections = (1..=corrections).map(Stage::Correction);
                [Stage::Settling, Stage::Sealed]
                    .into_iter()
                    .chain(corrections)
                    .collect()
            }
        }
    }

    /// Whether this is one of them.
    pub fn has(self, stage: Stage) -> bool {
        match (stage, self.0) {
            (Stage::Settling, _)
            | (Stage::Publishing, Finals::Readable | Finals::Averaged)
            | (Stage::Finals, Finals::Averaged)
            | (Stage::Sealed, Finals::Sealed { .. }) => true,
            (Stage::Correction(number), Finals::Sealed { corrections }) => {
                (1..=corrections).contains(&number)
            }
            (Stage::Publishing | Stage::Sealed | Stage::Correction(_) | Stage::Finals, _) => false,
        }
    }

    /// Whether this is one of them, and one in which parties agree on a set.
    pub fn agree_in(self, stage: Stage) -> bool {
        self.has(stage) && stage != Stage::Sealed
    }
}
