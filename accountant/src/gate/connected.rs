//! The gate by the connectivity of what happened: where correlated noise is uniform, and, by a
//! closed form, where it is Gaussian and coalitions are not computed.
//!
//! The departed stay and collude, by Theorem R: what counts is which shares between members became
//! part of their receivers' states, in whichever round.

use std::collections::BTreeSet;

use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::topology::connectivity::connectivity;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::bounds::closed_form;
use crate::bounds::connectivity::among;
use crate::bounds::uniform::{Piece, among_members, joined};
use crate::execution::checked::Execution;
use crate::execution::settled::{LogsError, exceptions};
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
    Some(connectivity(&shared(happened, &members)).kappa)
}

impl Gate<'_> {
    /// The largest loss of the members: each is hidden among those from whom no `colluding` others
    /// can separate it by what happened to the shares between members. The departed lose nothing:
    /// no share tells anything, and their finals are not seen.
    ///
    /// The loss is Δ over the deviation of so many parties' own noise. It is stated; what decides
    /// is that number, an integer, against the plan's.
    pub(super) fn by_connectivity(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<LargestLoss, LogsError> {
        let happened = self.among_members(logs, publish)?;
        let members: Vec<Party> = publish.iter().copied().collect();
        let colluding = self.coalition_size(members.len());
        let hidden = among(&shared(&happened, &members), colluding);
        let loss = |(&party, among): (&Party, usize)| {
            // Rounded up, by less than claims are: of as many parties no more is stated than in the
            // plan, whose arithmetic is in another order.
            let deviation = self.noise.independent_std * (among as f64).sqrt();
            self.setting.sensitivity[party] / deviation * (1.0 + SLACK / 2.0)
        };
        let fewest = hidden.iter().copied().min();
        let mu = members.iter().zip(hidden).map(loss).fold(0.0, f64::max);
        Ok(LargestLoss {
            mu,
            execution: self.against_first(happened, publish)?,
            basis: Basis::Connectivity,
            among: fewest,
        })
    }

    /// The largest loss of the members where START has drawn the schedule, for coalitions and
    /// departures that were fixed before: each value is hidden among all members but the colluding
    /// ones, as long as no more departed, and no more shares between members went astray, than the
    /// plan has, and the departed by themselves do not part the members. The δ of the plan includes
    /// the chance of a draw that hides less.
    pub(super) fn by_draw(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<LargestLoss, LogsError> {
        let share_faults = self.setting.drawn_share_faults.unwrap_or(0);
        let happened = self.among_members(logs, publish)?;
        let members: Vec<Party> = publish.iter().copied().collect();
        let astray = exceptions(self.plan, logs);
        let astray = astray.iter().filter(|fault| fault.fate != Fate::Accepted);
        let between = astray.filter(|fault| publish.contains(&fault.from) && publish.contains(&fault.to));
        let departed = self.setting.parties() - members.len();
        let is_covered = departed <= self.setting.dropouts
            && between.count() <= share_faults
            && shared(&happened, &members).components().len() == 1;
        if !is_covered {
            return Ok(LargestLoss {
                mu: self.theorem(),
                execution: self.some_execution(publish)?,
                basis: Basis::Theorem,
                among: None,
            });
        }
        let among = members.len() - self.coalition_size(members.len());
        let deviation = self.noise.independent_std * (among as f64).sqrt();
        let largest = members.iter().map(|&party| self.setting.sensitivity[party]);
        Ok(LargestLoss {
            mu: largest.fold(0.0, f64::max) / deviation * (1.0 + SLACK / 2.0),
            execution: self.against_first(happened, publish)?,
            basis: Basis::Draw,
            among: Some(among),
        })
    }

    /// The largest loss of the members by the closed form of what happened ([`closed_form`]); none
    /// where no theorem speaks of the plan. Within the tolerated class never more than the plan's:
    /// it is the same form of at least as many parties, at least as connected.
    pub(super) fn by_closed_form(
        &self,
        happened: Execution,
        publish: &BTreeSet<Party>,
    ) -> Result<Option<LargestLoss>, LogsError> {
        if !closed_form::speaks_of(&self.setting) {
            return Ok(None);
        }
        let members: Vec<Party> = publish.iter().copied().collect();
        let graph = shared(&happened, &members);
        let mut mu = 0.0f64;
        for piece in graph.components() {
            let squares = self.squares(&among_members(&graph, &piece), self.coalition_size(members.len()));
            let losses = piece.iter().zip(squares).map(|(&place, square)| {
                let sensitivity = self.setting.sensitivity[members[place]];
                sensitivity * square.sqrt() / self.noise.independent_std * (1.0 + SLACK)
            });
            mu = losses.fold(mu, f64::max);
        }
        let found = LargestLoss {
            mu,
            execution: self.against_first(happened, publish)?,
            basis: Basis::Connectivity,
            among: None,
        };
        Ok(Some(found))
    }

    /// The squared loss of each party of a piece, at σ* = 1 and unit sensitivity. Where so few may
    /// separate it each keeps those who stay joined to it, if only one behind the other.
    fn squares(&self, piece: &Graph, colluding: usize) -> Vec<f64> {
        let ratio = (self.noise.correlated_std / self.noise.independent_std).powi(2);
        let whole = Piece::of(piece);
        if whole.kappa > colluding {
            let square = closed_form::of_piece(&self.setting, whole, colluding, ratio);
            return vec![square; whole.parties];
        }
        let chain = |among: usize| closed_form::of_chain(&self.setting, among, ratio);
        among(piece, colluding).into_iter().map(chain).collect()
    }

    /// Returns the execution for a statement about every coalition: against the departed and the
    /// first members.
    fn against_first(&self, happened: Execution, publish: &BTreeSet<Party>) -> Result<Execution, LogsError> {
        let first = publish.iter().copied().take(self.coalition_size(publish.len()));
        Ok(happened.with_corrupted(self.departed(publish).into_iter().chain(first))?)
    }
}

/// Returns the graph of members that a share between them joined, numbered in their order.
pub(super) fn shared(happened: &Execution, members: &[Party]) -> Graph {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{logs, plan};

    /// Two groups of ten who all meet, with one party in both: one is enough to part them. Against
    /// one each keeps its own group but one, and the party in both all others but one.
    #[test]
    fn a_piece_that_as_many_as_collude_part_is_bounded_party_by_party() {
        let plan = plan(20, "[mechanism]\nrounds = 8");
        let gate = Gate::of(&plan).expect("a plan");
        let pairs = |parties: std::ops::Range<Party>| {
            parties
                .clone()
                .flat_map(move |a| (parties.start..a).map(move |b| (b, a)))
        };
        let piece = joined(19, pairs(0..10).chain(pairs(9..19)).collect());
        assert_eq!(connectivity(&piece).kappa, 1);
        let ratio = (gate.noise.correlated_std / gate.noise.independent_std).powi(2);
        // Theorem C along a chain of m parties, whose mean depth is (m − 1)/2, in eight rounds.
        let chain = |m: f64| {
            let depth = (m - 1.0) / 2.0;
            let cost = 3.0 * (4.0 * depth + 8.0 * (depth + 1.0) + 8.0);
            1.0 / m + 1.0 / (m / (m - 1.0) + ratio / cost)
        };
        let found = gate.squares(&piece, 1);
        assert_eq!(found.len(), 19);
        for (party, square) in found.iter().enumerate() {
            let among = if party == 9 { 18.0 } else { 9.0 };
            assert!((square / chain(among) - 1.0).abs() < 1e-12, "{party}: {square}");
            assert!(*square < 1.0, "less than local noise");
        }
        // Against nobody they are one piece of 19, as connected as one party keeps them.
        let whole = gate.squares(&piece, 0);
        let depth = mean_depth_of_chain(19);
        let cost = 3.0 * (4.0 * depth + 8.0 * (depth + 1.0) + 8.0);
        let square = 1.0 / 19.0 + 1.0 / (19.0 / 18.0 + ratio / cost);
        assert!(
            whole.iter().all(|found| (found / square - 1.0).abs() < 1e-12),
            "{whole:?}"
        );
    }

    fn mean_depth_of_chain(parties: usize) -> f64 {
        (0..parties).sum::<usize>() as f64 / parties as f64
    }

    /// κ that a receipt states, of who was let through and of the shares that arrived.
    #[test]
    fn kappa_is_that_of_what_happened_among_those_who_published() {
        let plan = plan(
            8,
            "[privacy]\ncolluding = 1\ndropouts = 1\n[mechanism]\nkind = \"pairwise\"\ncorrelated = \"uniform\"",
        );
        let gate = Gate::of(&plan).expect("a plan");
        let members: Vec<Party> = (0..7).collect();
        let publish: BTreeSet<Party> = members.iter().copied().collect();
        let found = gate
            .by_connectivity(&logs(&plan, &members), &publish)
            .expect("logs");
        assert_eq!(found.among, Some(6));
        let audit = gate.audit(found, BTreeSet::from([7]), vec![]);
        // Seven who all have masks with each other: six must be taken away.
        assert_eq!(kappa(&audit), Some(6));
        let deviation = plan.calibration().independent_std * 6f64.sqrt();
        assert!((audit.mu / (plan.draft().largest_sensitivity() / deviation) - 1.0).abs() < 1e-11);
        assert_eq!(kappa(&Audit { among: None, ..audit }), None);
    }

    /// Where values are hidden among a number of others it is that number which decides, and no
    /// loss: not the last bit of any.
    #[test]
    fn with_uniform_noise_the_plans_number_decides() {
        for lines in [
            "[mechanism]\ncorrelated = \"uniform\"\n",
            "[mechanism]\ncorrelated = \"uniform\"\nkind = \"pairwise\"\n",
            "[privacy]\ncoalitions = \"static\"\n[mechanism]\ncorrelated = \"uniform\"\n[run]\nsealed = true\n",
        ] {
            let plan = plan(8, lines).with_draw(3);
            let mut gate = Gate::of(&plan).expect("a plan");
            assert_eq!(gate.hidden_among, 6, "{lines}");
            let members: Vec<Party> = (0..7).collect();
            let publish: BTreeSet<Party> = members.iter().copied().collect();
            let logs = logs(&plan, &members);
            let found = gate.largest(&logs, &publish).expect("logs");
            assert_eq!(found.among, Some(6), "{lines}");
            assert!(found.mu <= gate.budget * (1.0 - 2e-9));
            // However a machine rounds.
            for budget in [found.mu * (1.0 - 1e-9), f64::NAN, 0.0] {
                gate.budget = budget;
                let verdict = gate.judge(&logs).expect("logs of the schedule");
                assert_eq!(verdict.publish.as_ref(), Some(&publish), "{lines} {budget}");
            }
            gate.budget = f64::INFINITY;
            gate.hidden_among = 7;
            let verdict = gate.judge(&logs).expect("logs of the schedule");
            assert_eq!(verdict.publish, None, "{lines}");
        }
    }
}
