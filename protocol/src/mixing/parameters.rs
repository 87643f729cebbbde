//! Parameters of the mixing phase of one party, as a plan fixes them.

use std::sync::Arc;

use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::lattice::payload::Ratio;
use crate::lattice::vector::LatticeVector;
use crate::messages::signature::Digest;
use crate::mixing::machine::Mixing;
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::Noise;
use crate::plan::checked::Plan;
use crate::plan::exchange::injector::Mechanism;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// The parameters of the mixing phase of one party, as a plan fixes them.
#[derive(Clone)]
pub struct MixingParameters {
    /// The party that this node acts for.
    pub me: Party,
    /// The number of parties n.
    pub parties: usize,
    /// The digest of the plan.
    pub digest: Digest,
    /// The lattice that states live on.
    pub lattice: Lattice,
    /// Coordinates of a state, d; of precomputed noise those of all releases together.
    pub dimension: usize,
    /// Whether what is mixed is noise of releases to come: no state leaves its party.
    pub precomputed: bool,
    /// The number of rounds T; none where parties do not mix.
    pub rounds: u32,
    /// The receivers of each sender in each round; no rounds yet where START draws them.
    pub schedule: Arc<Schedule>,
    /// The shares that this party is due to get, as (round, from).
    pub due: Arc<[(u32, Party)]>,
    /// The mechanism by which value and noise get into this party's states.
    pub mechanism: Mechanism<Ratio>,
    /// The round of number r ends at the latest r times so many milliseconds after the beginning.
    pub round_ms: u64,
    /// A round lasts at least this long.
    pub pace_ms: u64,
    /// Whether departed parties are rolled back.
    pub rollback: bool,
    /// A share that claims to carry more weight, in absolute value, is refused: all parties' weight
    /// together.
    pub weight_bound: LatticeWeight,
}

impl MixingParameters {
    /// Returns the mixing parameters that a plan fixes for its party `me`.
    pub fn of(plan: &Plan, me: Party) -> Self {
        let draft = plan.draft();
        let none = Schedule::none();
        // What is sealed for circles is no share.
        let exchanges = if plan.reads_circles() {
            &none
        } else {
            plan.exchanges()
        };
        let weights: u64 =
            (0..plan.parties()).fold(0, |sum, party| sum.saturating_add(draft.weight_units(party)));
        MixingParameters {
            me,
            due: due(exchanges, me),
            parties: plan.parties(),
            digest: *plan.digest(),
            lattice: *plan.lattice(),
            dimension: plan.mixed_coordinates(),
            precomputed: plan.precomputes_noise(),
            rounds: if plan.reads_circles() {
                0
            } else {
                plan.mixing_rounds()
            },
            schedule: Arc::new(exchanges.clone()),
            mechanism: plan.mechanism(me),
            round_ms: draft.run.round_ms,
            pace_ms: draft.run.pace_ms,
            rollback: draft.exchange.rolls_back(),
            weight_bound: LatticeWeight(plan.lattice().weight(weights)),
        }
    }

    /// Returns the parameters of a later release, whose messages are signed for `digest`. Nobody
    /// mixes in it.
    pub(crate) fn of_release(&self, plan: &Plan, digest: Digest) -> Self {
        MixingParameters {
            digest,
            dimension: plan.draft().dimension(),
            precomputed: false,
            rounds: 0,
            schedule: Arc::new(Schedule::none()),
            due: Arc::new([]),
            mechanism: Mechanism::Masks { masks: 0 },
            ..self.clone()
        }
    }

    /// Returns the parameters for another of the plan's parties, with the schedule of these
    /// parameters.
    pub fn of_another(&self, plan: &Plan, me: Party) -> Self {
        MixingParameters {
            me,
            due: due(&self.schedule, me),
            mechanism: plan.mechanism(me),
            ..self.clone()
        }
    }

    /// START has drawn the schedule, and with it how value and noise get into this party's states.
    pub(crate) fn draw(&mut self, schedule: Arc<Schedule>, mechanism: Mechanism<Ratio>) {
        (self.due, self.schedule, self.mechanism) = (due(&schedule, self.me), schedule, mechanism);
    }

    /// [`MixingParameters::begin`], at once where it does not depend on the draw at START, so that
    /// nobody waits for the noise; else once START has drawn: a noise for each round would be
    /// several times the memory.
    pub(crate) fn begin_once_drawn(&self, value: Noisy, weight: LatticeWeight, noise: Noise) -> MixingStart {
        let by_draw = matches!(self.mechanism, Mechanism::HandOver { .. });
        match by_draw && self.schedule.rounds() == 0 {
            true => MixingStart::Waiting { value, weight, noise },
            false => MixingStart::Prepared(self.begin(value, weight, noise)),
        }
    }

    /// The mixing machine of this party, with all noise drawn ahead: a node never skips a round.
    /// `value` is x̃, `weight` the party's own.
    pub fn begin(
        &self,
        value: Noisy,
        weight: LatticeWeight,
        mut noise: Noise,
    ) -> Mixing<LatticeVector, LatticeWeight> {
        let mut mixing = Mixing::new(
            self.mechanism.clone(),
            value.vector().pack(),
            weight,
            self.rollback,
            &mut noise,
        );
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
        self.due.iter().copied()
    }

    /// Returns the parties from which this party is due a share in one round.
    pub(super) fn due_in(&self, round: u32) -> impl Iterator<Item = Party> + '_ {
        let first = self.due.partition_point(|&(earlier, _)| earlier < round);
        self.due[first..]
            .iter()
            .take_while(move |due| due.0 == round)
            .map(|due| due.1)
    }

    pub(crate) fn is_due(&self, round: u32, from: Party) -> bool {
        from < self.parties && self.schedule.sends_to(round, from).contains(&self.me)
    }

    /// A missed receiver's share is waited for this much, if it is connected, before its round may
    /// end without it. Our guess: long enough for an idle transport to take it, far below a round.
    pub(super) fn handover_patience_ms(&self) -> u64 {
        self.round_ms / 16
    }
}

/// A party that will mix as soon as there is a START.
pub(crate) enum MixingStart {
    /// All noise is drawn.
    Prepared(Mixing<LatticeVector, LatticeWeight>),
    /// The schedule that START draws says how often this party hands out.
    Waiting {
        /// x̃.
        value: Noisy,
        /// The party's own weight.
        weight: LatticeWeight,
        /// Draws a noise for each hand-out.
        noise: Noise,
    },
}

impl MixingStart {
    /// The mixing machine, with the schedule that the parameters have by now.
    pub(crate) fn mixing(self, parameters: &MixingParameters) -> Mixing<LatticeVector, LatticeWeight> {
        match self {
            MixingStart::Prepared(mixing) => mixing,
            MixingStart::Waiting { value, weight, noise } => parameters.begin(value, weight, noise),
        }
    }
}

/// The shares that a party is due to get, as (round, from).
fn due(schedule: &Schedule, me: Party) -> Arc<[(u32, Party)]> {
    let rounds = 1..=schedule.rounds() as u32;
    rounds
        .flat_map(|round| {
            schedule
                .receives_from(round, me)
                .into_iter()
                .map(move |from| (round, from))
        })
        .collect()
}
