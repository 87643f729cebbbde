//! The phases of a run: `Gathering`, or `Awaiting` in a later release; `Spending`; `Mixing`;
//! `Settling`; `Auditing`. Then `Publishing` where finals are readable; `Correcting`, `Auditing`
//! again and `Opening` where they are sealed; `Mixed` where noise of later releases was mixed.
//!
//! Each owns its data, and its methods are its own: a step takes the phase and gives the next one.
//! What it may touch besides is in [`StepContext`](crate::run::context::StepContext).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::agreement::agreeing::Agreement;
use crate::agreement::gathering::Gathering;
use crate::agreement::items::Body;
use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::AgreedLogs;
use crate::messages::notice::{ItemHash, ItemSet};
use crate::messages::stage::Stage;
use crate::mixing::exchange::ShareExchange;
use crate::mixing::gossip::circles::CircleRound;
use crate::mixing::machine::Mixing;
use crate::mixing::parameters::MixingStart;
use crate::mixing::precomputed::{NoiseBlock, PrecomputedNoise};
use crate::publishing::averaging::early::EarlyRounds;
use crate::publishing::opening::SetOpening;
use crate::publishing::publication::Publication;
use crate::run::early::EarlyShares;
use crate::run::seals::Seals;
use crate::time::Time;
use crate::topology::party::Party;

/// The phase that a run is in.
pub(super) enum RunPhase {
    Gathering(Box<GatheringPhase>),
    Awaiting(Box<AwaitingPhase>),
    Spending(Box<SpendingPhase>),
    /// The plan is spent, and its task does the rest.
    HandedOver,
    Mixing(Box<MixingPhase>),
    Settling(Box<SettlingPhase>),
    Auditing(Box<AuditingPhase>),
    Publishing(Box<PublishingPhase>),
    Correcting(Box<CorrectingPhase>),
    Opening(Box<OpeningPhase>),
    Mixed(Box<MixedPhase>),
    Over,
}

/// READYs and STARTs are gathered.
pub(super) struct GatheringPhase {
    pub(super) gathering: Gathering,
    pub(super) mixing_start: MixingStart,
    /// Seeds the randomness of what this node seals with.
    pub(super) seal_seed: Zeroizing<[u8; 32]>,
    pub(super) early: EarlyShares,
}

/// A later release of a plan: this node's value is waited for.
pub(super) struct AwaitingPhase {
    pub(super) seals: Box<Seals>,
    /// This release's noise, where it was precomputed; else it is masks of pairs.
    pub(super) block: Option<NoiseBlock>,
    pub(super) early: EarlyShares,
}

/// The plan is about to be marked as spent; no share leaves before.
pub(super) struct SpendingPhase {
    pub(super) mixing: Mixing<LatticeVector, LatticeWeight>,
    /// `None` where nothing is sealed.
    pub(super) seals: Option<Box<Seals>>,
    pub(super) early: EarlyShares,
    /// Whether the plan is marked, but this node was woken, and waits to know that others still
    /// wait for it.
    pub(super) marked: bool,
}

/// A node's side of the exchange: its state, and what it seals that with.
pub(super) struct Transfers {
    pub(super) shares: ShareExchange,
    /// The vectors that this node has sealed for its readers, and they for it; `None` without
    /// circles.
    pub(super) circle: Option<Box<CircleRound>>,
    /// `None` where nothing is sealed, or once it is wiped.
    pub(super) seals: Option<Box<Seals>>,
    /// The reason why this node leaves the run, while it waits to hear which of its shares are out.
    pub(super) leaving: Option<String>,
}

/// Shares are exchanged, or vectors of circles.
pub(super) struct MixingPhase {
    pub(super) transfers: Transfers,
}

/// The logs are being agreed on.
pub(super) struct SettlingPhase {
    pub(super) transfers: Transfers,
    pub(super) agreement: Agreement,
    /// The log that this node's sealed final left with, until others are seen to hold it.
    pub(super) left_with: Option<ItemHash>,
    /// Rounds of averaging from parties that published earlier than this node.
    pub(super) early_rounds: EarlyRounds,
}

/// The gate's verdict is waited for.
pub(super) struct AuditingPhase {
    pub(super) transfers: Transfers,
    pub(super) logs: Arc<AgreedLogs>,
    /// The moment when no verdict is waited for any more.
    pub(super) until: Time,
    pub(super) audited: Audited,
}

/// The subject of a verdict.
pub(super) enum Audited {
    /// All who have agreed on logs. Rounds of averaging may come before it.
    All(EarlyRounds),
    /// Fewer than before: finals are sealed, and some of those who owed a correction gave none.
    Fewer(Unsealing),
}

/// Readable finals are agreed on, or what stands for them.
pub(super) struct PublishingPhase {
    pub(super) agreement: Agreement,
    /// `None`: this node withholds its final, and only hears what the others agree on.
    pub(super) publication: Option<Box<dyn Publication>>,
}

/// Sealed finals, of which some are corrected.
pub(super) struct CorrectingPhase {
    pub(super) transfers: Transfers,
    pub(super) agreement: Agreement,
    pub(super) unsealing: Unsealing,
}

/// Sealed finals, of which nothing is corrected any more.
pub(super) struct OpeningPhase {
    pub(super) opening: SetOpening,
    pub(super) unsealing: Unsealing,
    pub(super) confirmation: Confirmation,
    /// The sums of slices, once every secret is here; `None` where finals went to everybody.
    pub(super) summing: Option<Summing>,
    pub(super) circle: Option<Box<CircleRound>>,
    /// `None` once it is wiped, or the next release has it.
    pub(super) seals: Option<Box<Seals>>,
}

/// Noise of releases to come is mixed, among these members; or it is not, though their logs are
/// agreed on: then it may be mixed again.
pub(super) struct MixedPhase {
    pub(super) members: BTreeSet<Party>,
    /// `None` once the next run has it.
    pub(super) seals: Option<Box<Seals>>,
    /// `None`: mixing was in vain, or the task has it.
    pub(super) noise: Option<PrecomputedNoise>,
}

impl RunPhase {
    /// Returns the shares from parties that began earlier than this node, while it has not begun.
    pub(super) fn early(&mut self) -> Option<&mut EarlyShares> {
        match self {
            RunPhase::Gathering(phase) => Some(&mut phase.early),
            RunPhase::Awaiting(phase) => Some(&mut phase.early),
            RunPhase::Spending(phase) => Some(&mut phase.early),
            _ => None,
        }
    }

    /// The exchange, until it is judged.
    pub(super) fn transfers(&self) -> Option<&Transfers> {
        match self {
            RunPhase::Mixing(phase) => Some(&phase.transfers),
            RunPhase::Settling(phase) => Some(&phase.transfers),
            RunPhase::Auditing(phase) => Some(&phase.transfers),
            _ => None,
        }
    }

    /// The exchange, until it is judged.
    pub(super) fn transfers_mut(&mut self) -> Option<&mut Transfers> {
        match self {
            RunPhase::Mixing(phase) => Some(&mut phase.transfers),
            RunPhase::Settling(phase) => Some(&mut phase.transfers),
            RunPhase::Auditing(phase) => Some(&mut phase.transfers),
            _ => None,
        }
    }

    /// Returns the exchange of vectors in circles, from the first vector to the opening.
    pub(super) fn circle(&mut self) -> Option<&mut CircleRound> {
        match self {
            RunPhase::Correcting(phase) => phase.transfers.circle.as_deref_mut(),
            RunPhase::Opening(phase) => phase.circle.as_deref_mut(),
            phase => phase.transfers_mut()?.circle.as_deref_mut(),
        }
    }

    /// The agreement that is under way, but for that on what was opened.
    pub(super) fn agreement(&self) -> Option<&Agreement> {
        match self {
            RunPhase::Settling(phase) => Some(&phase.agreement),
            RunPhase::Publishing(phase) => Some(&phase.agreement),
            RunPhase::Correcting(phase) => Some(&phase.agreement),
            _ => None,
        }
    }

    /// Returns the keys with which this node seals and reads letters.
    pub(super) fn seals(&self) -> Option<&Seals> {
        match self {
            RunPhase::Awaiting(phase) => Some(&phase.seals),
            RunPhase::Spending(phase) => phase.seals.as_deref(),
            RunPhase::Correcting(phase) => phase.transfers.seals.as_deref(),
            RunPhase::Opening(phase) => phase.seals.as_deref(),
            RunPhase::Mixed(phase) => phase.seals.as_deref(),
            phase => phase.transfers()?.seals.as_deref(),
        }
    }

    /// Wipes the keys of masks and letters, and noise of releases to come: no release follows.
    pub(super) fn wipe(&mut self) {
        match self {
            RunPhase::Opening(phase) => phase.seals = None,
            RunPhase::Mixing(_) | RunPhase::Settling(_) | RunPhase::Auditing(_) => {
                self.transfers_mut().into_iter().for_each(|it| it.seals = None);
            }
            RunPhase::Publishing(_) => {}
            phase => *phase = RunPhase::Over,
        }
    }
}

/// The adding up of slices once their set is open here.
pub(super) struct Summing {
    /// The roots of those who are opened.
    pub(super) roots: BTreeMap<Party, ItemHash>,
    /// The sums that this node uses, by slice.
    pub(super) sums: BTreeMap<u32, Body>,
    /// The slices of which no sum is signed by more than may lie.
    pub(super) unsigned: BTreeSet<u32>,
    /// The moment when slices go to everybody whose sums are lacking; `None` once they have.
    pub(super) flood_at: Option<Time>,
    /// The moment when sums are waited for no more.
    pub(super) end: Time,
}

/// The progress of a run since its logs were agreed.
pub(super) struct Unsealing {
    /// The agreed logs: they name what is sealed.
    pub(super) logs: Arc<AgreedLogs>,
    /// The parties that may be opened, as far as it is known.
    pub(super) members: BTreeSet<Party>,
    /// The agreed items of each stage of corrections that is over.
    pub(super) corrections: Vec<ItemSet>,
    /// The parties that owe keys of masks, and with whom, for each stage of corrections that has
    /// begun, where the plan has masks of pairs.
    pub(super) masks: Vec<BTreeMap<Party, Vec<Party>>>,
}

impl Unsealing {
    /// The logs were agreed just now.
    pub(super) fn of(logs: Arc<AgreedLogs>) -> Self {
        Unsealing {
            logs,
            members: BTreeSet::new(),
            corrections: Vec::new(),
            masks: Vec::new(),
        }
    }

    /// The number of the next correction, from 1.
    pub(super) fn next(&self) -> u32 {
        // As many as parties may depart, and one.
        self.corrections.len() as u32 + 1
    }

    /// The stage of the corrections that are not agreed yet.
    pub(super) fn stage(&self) -> Stage {
        Stage::Correction(self.next())
    }
}

/// The progress of the members of a run in agreeing on whether a set was opened at all. It matters
/// where a release follows and some secret came late, or not at all.
pub(super) enum Confirmation {
    /// Every secret came in time, or is still waited for; this node was asked nothing.
    Unasked,
    /// Every secret came in time, and this node has told others, who asked, that it has them all.
    Answered,
    /// Some secret did not come in the first half of opening: parties agree on whose are known.
    Under(Box<Agreement>),
    /// The agreed set lacks secrets of members: nobody uses the sum, and the next release is of
    /// these.
    Without(BTreeSet<Party>),
    /// The set is opened, or nothing follows.
    Over,
}

impl Confirmation {
    /// Returns the parties of the next release, if the agreed set was not opened.
    pub(super) fn remaining(&self) -> Option<&BTreeSet<Party>> {
        match self {
            Confirmation::Without(remaining) => Some(remaining),
            _ => None,
        }
    }

    /// The agreement that is under way.
    pub(super) fn agreement(&self) -> Option<&Agreement> {
        match self {
            Confirmation::Under(agreement) => Some(agreement),
            _ => None,
        }
    }
}
