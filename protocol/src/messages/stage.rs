//! The stages that items belong to, and that parties agree on one after another.

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

/// The stage that an item belongs to. In most of them parties agree: on logs, then on finals (or
/// what stands for them), or where finals are sealed on the corrections of them.
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
    /// The items are that a party's secret is known to whoever holds them: nobody announces one.
    /// Only where a release follows.
    Opened,
    /// The items are reports of keepers: which slices of sealed finals are here. Only where these
    /// travel in slices, as the two that follow.
    Keeping,
    /// The items are slices of this number, of sealed finals.
    Slice(u32),
    /// The items are sums of the slices of this number, once they are opened.
    Sum(u32),
}

impl Stage {
    /// The phase that the stage happens in.
    pub const fn phase(self) -> Phase {
        match self {
            Stage::Settling | Stage::Sealed | Stage::Keeping | Stage::Slice(_) => Phase::Settling,
            Stage::Publishing | Stage::Correction(_) | Stage::Finals | Stage::Opened | Stage::Sum(_) => {
                Phase::Publishing
            }
        }
    }
}

/// The stages that the runs of a plan may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages(Finals);

/// The items that parties publish of their states once they have agreed on logs.
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
        /// Whether another release may follow: then parties agree on what was opened.
        followed: bool,
        /// The number of slices in which sealed finals travel; 0 where they do not.
        slices: u32,
    },
}

impl Stages {
    /// The stages of a run whose finals leave readable: logs, then finals.
    pub const READABLE: Stages = Stages(Finals::Readable);

    /// The stages of a run that averages finals: logs, then entries, then perhaps finals.
    pub const AVERAGED: Stages = Stages(Finals::Averaged);

    /// The stages of a run in which no state leaves its party: logs alone.
    pub const KEPT: Stages = Stages(Finals::Kept);

    /// Returns the stages of a run with sealed finals in which `dropouts` parties may depart.
    /// Corrections are given at first, and again only where one of those who remained has departed
    /// since.
    pub fn sealed(dropouts: usize) -> Self {
        let departures = u32::try_from(dropouts).unwrap_or(u32::MAX);
        Stages(Finals::Sealed {
            corrections: departures.saturating_add(1),
            followed: false,
            slices: 0,
        })
    }

    /// Returns the stages of a run with sealed finals that another release may follow.
    pub fn followed(self) -> Self {
        match self.0 {
            Finals::Sealed {
                corrections, slices, ..
            } => Stages(Finals::Sealed {
                corrections,
                followed: true,
                slices,
            }),
            finals => Stages(finals),
        }
    }

    /// Returns the stages of a run whose sealed finals travel in so many slices, at least one.
    pub fn in_slices(self, slices: u32) -> Self {
        match self.0 {
            Finals::Sealed {
                corrections,
                followed,
                ..
            } => Stages(Finals::Sealed {
                corrections,
                followed,
                slices,
            }),
            finals => Stages(finals),
        }
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
            Finals::Sealed {
                corrections,
                followed,
                slices,
            } => {
                let corrections = (1..=corrections).map(Stage::Correction);
                let sealed = (slices == 0).then_some(Stage::Sealed);
                let reports = (slices > 0).then_some(Stage::Keeping);
                [Stage::Settling]
                    .into_iter()
                    .chain(sealed)
                    .chain(reports)
                    .chain((0..slices).flat_map(|slice| [Stage::Slice(slice), Stage::Sum(slice)]))
                    .chain(corrections)
                    .chain(followed.then_some(Stage::Opened))
                    .collect()
            }
        }
    }

    /// Whether this is one of them, and one in which parties announce items.
    pub fn has(self, stage: Stage) -> bool {
        match (stage, self.0) {
            (Stage::Settling, _)
            | (Stage::Publishing, Finals::Readable | Finals::Averaged)
            | (Stage::Finals, Finals::Averaged)
            | (Stage::Sealed, Finals::Sealed { slices: 0, .. }) => true,
            (Stage::Slice(slice) | Stage::Sum(slice), Finals::Sealed { slices, .. }) => slice < slices,
            (Stage::Keeping, Finals::Sealed { slices, .. }) => slices > 0,
            (Stage::Correction(number), Finals::Sealed { corrections, .. }) => {
                (1..=corrections).contains(&number)
            }
            _ => false,
        }
    }

    /// Whether parties call others gone in this stage: those of which they have items, and while
    /// sealed finals are opened, however these travel.
    pub fn call_in(self, stage: Stage) -> bool {
        self.has(stage) || (stage == Stage::Sealed && self.are_sealed())
    }

    /// Whether this is one of them, and one in which parties agree on a set.
    pub fn agree_in(self, stage: Stage) -> bool {
        match stage {
            Stage::Sealed | Stage::Keeping | Stage::Slice(_) | Stage::Sum(_) => false,
            Stage::Opened => matches!(self.0, Finals::Sealed { followed: true, .. }),
            _ => self.has(stage),
        }
    }
}
