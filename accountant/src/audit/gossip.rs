//! The attack on gossip: what a coalition reads of the whole run, weighed by the optimal test, with
//! the averaging, the lattice and the noise of a node.

use std::collections::{BTreeMap, BTreeSet};

use faer::Mat;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::mixing::gossip::averaging::{CarriedWeight, RoundSum};
use undertone_protocol::mixing::gossip::weights::RoundWeights;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Claim, Faults};
use undertone_protocol::plan::computation::stream::Protect;
use undertone_protocol::topology::party::Party;

use crate::audit::batch::BATCH;
use crate::audit::solved::solved;
use crate::calibration::gossip::weights;
use crate::class::gossip::{GossipClass, SeenRow};
use crate::execution::gossip::GossipView;
use crate::guarantee::circles::worst_readers;
use crate::losses::row_space::RowSpace;

/// The messages that an attacker reads in gossip.
pub(super) struct GossipSeen {
    coalition: BTreeSet<Party>,
    view: GossipView,
    /// The change of the victim's release in each round, as a multiple of the sensitivity.
    change: Vec<f64>,
    /// The weight of what is read, by round from 0 and party, per unit of data.
    weights: BTreeMap<(usize, Party), f64>,
}

/// Returns the party that speaks in most rounds that have a release.
fn most_heard(plan: &Plan) -> Party {
    let spoken = |party: &Party| {
        let rounds = 1..=plan.draft().releases() as u32;
        let spoken = rounds.filter(|&round| !plan.schedule().sends_to(round, *party).is_empty());
        (spoken.count(), std::cmp::Reverse(*party))
    };
    (0..plan.parties()).max_by_key(spoken).unwrap_or(0)
}

impl GossipSeen {
    /// Returns the view of the coalition that learns most by a claim, and the party whose value it
    /// is after. It is `None` for a claim that is not about messages, and where the view is too
    /// nearly dependent.
    pub(super) fn of(plan: &Plan, claim: &Claim) -> Option<(Self, Party)> {
        let class = GossipClass::of_schedule(plan.schedule()).first(plan.draft().releases() as usize);
        let protect = plan.draft().computation.protect();
        let (coalition, victim): (Vec<Party>, Party) = match (claim.adversary, claim.faults) {
            (Adversary::Apart, _) => class.apart(claim.size, protect)?.case?,
            (Adversary::Coalition, Faults::Class) => {
                let worst = worst_readers(plan)?;
                (worst.readers, worst.party)
            }
            (Adversary::Coalition, Faults::Any) => {
                let victim = most_heard(plan);
                let others = (0..plan.parties()).filter(|&party| party != victim);
                (others.collect(), victim)
            }
            _ => return None,
        };
        let view = match claim.faults {
            Faults::Class => GossipView::Sum,
            _ => GossipView::Messages,
        };
        Some((
            GossipSeen::against(plan, &class, (view, &coalition), victim)?,
            victim,
        ))
    }

    /// Returns such a coalition's view, weighed for the change that shows most in the victim's
    /// releases. It is `None` if the view is too nearly dependent.
    fn against(
        plan: &Plan,
        class: &GossipClass,
        (view, coalition): (GossipView, &[Party]),
        victim: Party,
    ) -> Option<Self> {
        let rows = class.rows(view, coalition, None);
        let change = change(
            &rows,
            (class.parties(), class.releases()),
            victim,
            plan.draft().computation.protect(),
        )?;
        let column = |round: usize| round * class.parties() + victim;
        let root = Mat::from_fn(class.parties() * class.releases(), rows.len(), |at, row| {
            rows[row].over_noises[at]
        });
        let changes = |row: usize| {
            let parts = change.iter().enumerate();
            parts
                .map(|(round, change)| change * rows[row].over_noises[column(round)])
                .sum()
        };
        let scale = plan.draft().sensitivity(victim) / plan.calibration().independent_std.powi(2);
        let weights = solved(root, changes).into_iter().map(|weight| weight * scale);
        let places = rows.iter().map(|row| (row.round, row.party));
        Some(GossipSeen {
            coalition: coalition.iter().copied().collect(),
            view,
            weights: places.zip(weights).collect(),
            change,
        })
    }

    /// The log-likelihood ratios of a batch of runs in which the victim's releases are half of
    /// their change below or above the middle.
    ///
    /// All other values are in the middle, and what the coalition adds, which the attacker knows,
    /// is nothing.
    pub(super) fn ratios(
        &self,
        plan: &Plan,
        (victim, changed): (Party, bool),
        noise: (f64, u64),
        batch: u64,
    ) -> Vec<f64> {
        let half = plan.draft().sensitivity(victim) / if changed { 2.0 } else { -2.0 };
        let mut noises = self.noises(plan, changed, noise.1, batch);
        let mut ratios = vec![0.0; BATCH as usize];
        let mut states = vec![plan.lattice().zeros(BATCH as usize); plan.parties()];
        let std = plan.calibration().independent_std * noise.0;
        for (round, change) in self.change.iter().enumerate() {
            for (party, state) in states.iter_mut().enumerate() {
                let centre = if party == victim { half * change } else { 0.0 };
                let mut value = plan.lattice().encode(std::iter::repeat_n(centre, BATCH as usize));
                if !self.coalition.contains(&party) {
                    noises[party].add_independent(std, &mut value);
                }
                // z = θ + x + u.
                state.add(&value);
            }
            self.read(GossipView::Messages, round, plan, &states, &mut ratios);
            states = averaged(&weights(plan.schedule(), round as u32 + 1), &states);
            self.read(GossipView::Sum, round, plan, &states, &mut ratios);
        }
        ratios
    }

    /// Adds what is read of these vectors, if this is what the attacker reads.
    fn read(
        &self,
        view: GossipView,
        round: usize,
        plan: &Plan,
        vectors: &[LatticeVector],
        ratios: &mut [f64],
    ) {
        let read = self.weights.range((round, 0)..(round + 1, 0));
        for (&(_, party), weight) in read.filter(|_| view == self.view) {
            let each = vectors[party].to_f64(weight * plan.lattice().step());
            let sums = ratios.iter_mut().zip(each);
            sums.for_each(|(ratio, part)| *ratio += part);
        }
    }

    /// Each party's noise, as its node would have it.
    fn noises(&self, plan: &Plan, changed: bool, seed: u64, batch: u64) -> Vec<LatticeNoise<ChaCha8Rng>> {
        let noise = |party: Party| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream((batch * 2 + u64::from(changed)) * plan.parties() as u64 + party as u64);
            LatticeNoise::new(rng, *plan.lattice(), BATCH as usize, 0.0)
        };
        (0..plan.parties()).map(noise).collect()
    }
}

/// The change of a victim's releases that is looked for, of each in its sensitivity: all of them,
/// or the one that is seen best.
fn change(
    rows: &[SeenRow],
    (parties, releases): (usize, usize),
    victim: Party,
    protect: Protect,
) -> Option<Vec<f64>> {
    if protect == Protect::All {
        return Some(vec![1.0; releases]);
    }
    let rows: Vec<Vec<f64>> = rows.iter().map(|row| row.over_noises.clone()).collect();
    let space = RowSpace::of(&rows).ok()?;
    let loss = |round: &usize| space.loss(&[(round * parties + victim, 1.0)]).one;
    let best = (0..releases).max_by(|a, b| loss(a).total_cmp(&loss(b)))?;
    let one = |round: usize| if round == best { 1.0 } else { 0.0 };
    Some((0..releases).map(one).collect())
}

/// Everybody's state after a round with these messages, none of which is missing.
fn averaged(weights: &RoundWeights, messages: &[LatticeVector]) -> Vec<LatticeVector> {
    let average = |own: Party| {
        let mut sum = RoundSum::new(weights, own, messages[own].clone(), CarriedWeight::WHOLE);
        for &(other, _) in weights.row(own).iter().filter(|&&(other, _)| other != own) {
            sum.add(other, &messages[other], CarriedWeight::WHOLE);
        }
        sum.end().0
    };
    (0..messages.len()).map(average).collect()
}
