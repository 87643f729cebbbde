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
        share_faults: usize,
    ) -> Result<LargestLoss, LogsError> {
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

    /// The largest loss by the closed form of what happened ([`closed_form`]), of the members and
    /// of the departed; none where no theorem speaks of the plan. Within the tolerated class never
    /// more than the plan's: it is the same form of at least as many parties, at least as
    /// connected.
    pub(super) fn by_closed_form(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<Option<LargestLoss>, LogsError> {
        if !closed_form::speaks_of(&self.setting) {
            return Ok(None);
        }
        let happened = self.among_members(logs, publish)?;
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
        self.or_departed(found, logs, publish).map(Some)
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

    /// What happened, for a statement about every coalition: against the departed and the first
    /// members.
    fn against_first(&self, happened: Execution, publish: &BTreeSet<Party>) -> Result<Execution, LogsError> {
        let first = publish.iter().copied().take(self.coalition_size(publish.len()));
        Ok(happened.with_corrupted(self.departed(publish).into_iter().chain(first))?)
    }
}

/// Which members a share between them joined, numbered in their order.
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
