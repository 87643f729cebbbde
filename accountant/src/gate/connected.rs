//! The gate where correlated noise is uniform: by the connectivity of what happened, in integers.

use std::collections::BTreeSet;

use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::topology::connectivity::connectivity;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::bounds::connectivity::among;
use crate::bounds::uniform::joined;
use crate::execution::checked::Execution;
use crate::execution::settled::LogsError;
use crate::execution::share::Fate;
use crate::gate::plan_facts::{Gate, LargestLoss};
use crate::gate::verdict::{Audit, Basis};
use crate::losses::gaussian::SLACK;

/// κ of the parties that were let through: the least number of them whose removal leaves the others
/// in several pieces, joined where a share between two of them was accepted, in whichever round.
/// None where the statement rests on something else.
pub fn kappa(audit: &Audit) -> Option<usize> {
    audit.among?;
    let happened = &audit.execution;
    let members: Vec<Party> = happened.published().iter().copied().collect();
    Some(connectivity(&usable(happened, &members)).kappa)
}

/// The graph of `members`, ascending, who are numbered in that order: joined where a share between
/// two of them was accepted.
fn usable(happened: &Execution, members: &[Party]) -> Graph {
    let place = |party: Party| members.binary_search(&party).ok();
    let mut edges = Vec::new();
    for round in 1..=happened.rounds() as u32 {
        for (at, &from) in members.iter().enumerate() {
            for &to in happened.out(round, from) {
                let accepted = happened.outcome(round, from, to).fate == Fate::Accepted;
                edges.extend(place(to).filter(|_| accepted).map(|to| (at.min(to), at.max(to))));
            }
        }
    }
    joined(members.len(), edges)
}

impl Gate<'_> {
    /// The largest loss of the members: each is hidden among those from whom no `colluding` others
    /// can separate it by what happened to the shares between members. The departed lose nothing:
    /// no share tells anything, and their finals are not seen.
    ///
    /// The loss is Δ over the deviation of so many parties' own noise: that many is an integer, and
    /// what is made of it takes a product, a root and a division of IEEE doubles, alike everywhere.
    pub(super) fn by_connectivity(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<LargestLoss, LogsError> {
        let happened = self.among_members(logs, publish)?;
        let members: Vec<Party> = publish.iter().copied().collect();
        let colluding = self.coalition_size(members.len());
        let hidden = among(&usable(&happened, &members), colluding);
        let loss = |(&party, among): (&Party, usize)| {
            let deviation = self.noise.independent_std * (among as f64).sqrt();
            self.setting.sensitivity[party] / deviation * (1.0 + SLACK)
        };
        let fewest = hidden.iter().copied().min();
        let mu = members.iter().zip(hidden).map(loss).fold(0.0, f64::max);
        let departed = self.departed(publish);
        let corrupted = departed
            .into_iter()
            .chain(members.iter().copied().take(colluding));
        Ok(LargestLoss {
            mu,
            execution: happened.with_corrupted(corrupted)?,
            basis: Basis::Connectivity,
            among: fewest,
        })
    }
}
