//! Well-formed notices: those that a party of the plan may sign at all.

use crate::agreement::flood::Flood;
use crate::messages::notice::{LateArrivals, Notice};
use crate::messages::set::ascending;
use crate::plan::run_file::records::Records;
use crate::topology::party::Party;

impl Flood {
    /// Whether a READY of a party may say this of its records.
    fn admits_records(&self, author: Party, announced: Option<u32>) -> bool {
        let records = self.records.get(author).copied().flatten();
        Records::admit_announced(records, announced)
    }

    /// Whether a party of this plan may say this, whatever else it has said.
    pub(super) fn well_formed(&self, author: Party, notice: &Notice) -> bool {
        let parties = self.members.len();
        match notice {
            Notice::Ready { pair, records, .. } => {
                let counted = self.admits_records(author, *records);
                !self.commits && pair.is_some() == self.pairs && counted
            }
            Notice::Start { number, .. } => !self.commits && *number < self.numbers,
            Notice::Commit { pair, records, .. } => {
                let counted = self.admits_records(author, *records);
                self.commits && pair.is_some() == self.pairs && counted
            }
            Notice::Reveal { number, .. } => self.commits && *number < self.numbers,
            // The last one is never given up: the run ends with it.
            Notice::GiveUp { number, next, .. } => {
                *number < self.numbers.saturating_sub(1) && next.is_some() == self.commits
            }
            Notice::Unreached { parties: unreached } => ascending(unreached, parties, |entry| entry.party),
            Notice::Awake { arrivals } => LateArrivals::are_sound(arrivals, parties),
            Notice::Item { stage, .. } => self.stages.has(*stage),
            Notice::List {
                stage,
                held,
                versions,
            } => {
                let of_plan = held.is_of(parties) && ascending(versions, parties, |entry| entry.0);
                of_plan && self.stages.agree_in(*stage)
            }
            Notice::Vote { stage, .. } => self.stages.agree_in(*stage),
            Notice::Unreachable { stage, party } => self.stages.call_in(*stage) && *party < parties,
            Notice::Key { round, .. } => self.stages.are_sealed() && *round == self.round(),
            // Nobody holds a share of its own secret.
            Notice::Share { round, of, .. } => {
                let of = *of as Party;
                self.stages.are_sealed() && *round == self.round() && of < parties && of != author
            }
            _ => true,
        }
    }
}
