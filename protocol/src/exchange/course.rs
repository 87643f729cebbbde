//! What a plan fixes for the mixing phase of one party.

use std::sync::Arc;

use super::Noise;
use crate::injection::Injection;
use crate::lattice::{Lattice, LatticeVector, LatticeWeight};
use crate::message::Digest;
use crate::mixing::{Mixing, Party};
use crate::payload::Ratio;
use crate::plan::Plan;
use crate::schedule::Schedule;

/// What the plan fixes for this phase.
#[derive(Clone)]
pub struct Course {
    /// This node's party.
    pub me: Party,
    /// n.
    pub parties: usize,
    /// Of the plan.
    pub digest: Digest,
    /// The lattice.
    pub lattice: Lattice,
    /// d.
    pub dimension: usize,
    /// T.
    pub rounds: u32,
    /// Who sends to whom; no rounds yet where START draws it.
    pub schedule: Arc<Schedule>,
    /// (c, Z).
    pub injection: Arc<Injection<Ratio>>,
    /// Round r ends at the latest r times this after the beginning.
    pub round_ms: u64,
    /// A round lasts at least this long.
    pub pace_ms: u64,
    /// Whether departed parties are rolled back.
    pub rollback: bool,
    /// A share that claims to carry more weight, in absolute value, is refused: all parties' weight together.
    pub weight_bound: LatticeWeight,
}

impl Course {
    /// What a plan fixes for one of its parties.
    pub fn of(plan: &Plan, me: Party) -> Self {
        let draft = plan.draft();
        let weights: u64 = (0..plan.parties()).fold(0, |sum, party| sum.saturating_add(draft.weight_units(party)));
        Course {
            me,
            parties: plan.parties(),
            digest: *plan.digest(),
            lattice: *plan.lattice(),
            dimension: draft.dimension(),
            rounds: plan.rounds(),
            schedule: Arc::new(plan.schedule().clone()),
            injection: Arc::new(plan.injection().clone()),
            round_ms: draft.run.round_ms,
            pace_ms: draft.run.pace_ms,
            rollback: draft.mechanism.rollback,
            weight_bound: LatticeWeight(plan.lattice().weight(weights)),
        }
    }

    /// The mixing machine of this party, with the injection of before round 1 made and all others prepared: a node never skips a round.
    /// `value` is x̃, `weight` the party's own.
    pub fn begin(&self, value: LatticeVector, weight: LatticeWeight, mut noise: Noise) -> Mixing<LatticeVector, LatticeWeight> {
        let mut mixing = Mixing::new(self.injection.clone(), value.pack(), weight, self.rollback, &mut noise);
        mixing.prepare(&mut noise);
        mixing
    }

    /// Bytes of a share's coordinates.
    pub(crate) fn share_bytes(&self) -> usize {
        self.dimension * self.lattice.wire_bytes as usize
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The shares that this party is due to get.
    pub(super) fn due(&self) -> impl Iterator<Item = (u32, Party)> + '_ {
        (1..=self.rounds())
            .flat_map(|round| self.schedule.receives_from(round, self.me).into_iter().map(move |from| (round, from)))
    }

    pub(crate) fn is_due(&self, round: u32, from: Party) -> bool {
        from < self.parties && self.schedule.sends_to(round, from).contains(&self.me)
    }

    /// A missed receiver's share is waited for this much, if it is connected, before its round may end without it. Our guess: long
    /// enough for an idle transport to take it, far below a round.
    pub(super) fn handover_patience_ms(&self) -> u64 {
        self.round_ms / 16
    }
}
