//! One party's arithmetic through the mixing phase: split, hand out, take in, inject, cancel; and
//! roll-back. For INCA (Algorithm 2) and for PPSC (Algorithm 1), which differ in what a share is
//! and in when noise comes in ([`Mechanism`]).
//!
//! The machine is generic over its payload and its noise source. The node runs it on lattice
//! vectors; the accountant runs it on unit impulses, and then every state that it holds or hands
//! out is a row of the adversary's matrices (B, A).
//!
//! # Roll-back for PPSC
//! Theorem R (accountant, `theorem_r`) needs of a mechanism only this: a share leaves its sender
//! with all that it adds to its receiver, so that a state is what its party contributed (its x̃; a
//! γ is kept and deducted by the same party, so it contributes nothing) plus what came in minus
//! what went out; and what a survivor hands out is a linear function, with public coefficients, of
//! its state and of noise of its own. Compare a run in which D depart with the one in which they
//! stay and accept everything: by induction over rounds a survivor's state differs by a linear
//! function of what it sent to D and got from D, in either run, since γ is the same in both and ω =
//! β − γ hands the difference on to its receiver, who is a survivor (its difference is of the same
//! kind) or in D (who then knows it). So does its final, rolled back or not. And the finals of a
//! set L, each with what it sent outside of L added again and what it got from there subtracted,
//! with every share between members in exactly one place, add up to Σ x̃ over L: a survivor whose
//! value was handed to a party that vanished has it back, a survivor that got the vanished party's
//! has it no more. So do their weights, some of which are 0 or negative.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::lattice::grid::LatticeWeight;
use crate::lattice::payload::{Coefficient, Payload, Ratio};
use crate::lattice::vector::LatticeVector;
use crate::messages::log::AgreedLogs;
use crate::mixing::injector::Injector;
use crate::mixing::portion::{NoiseSource, Portion, Resting, Share};
use crate::mixing::precomputed::{NoiseBlock, PrecomputedNoise};
use crate::mixing::state::{Multiples, State, borrowed};
use crate::plan::exchange::injector::Mechanism;
use crate::topology::party::Party;

/// The mass deducted for one neighbour minus the mass added from it.
struct Account<P: Payload, W> {
    weight: W,
    /// Shares with their signs. They are there anyway while they are new, so that keeping them
    /// costs no work.
    kept: Multiples<P>,
    /// The sum of all that is not kept.
    sum: Option<P>,
}

/// Number of shares of one neighbour that are kept before they are summed up: two of them take
/// about as much memory as their sum.
const KEPT: usize = 2;

impl<P: Payload, W: Payload<Coefficient = P::Coefficient, Packed = W>> Account<P, W> {
    fn new(weight: &W) -> Self {
        Account {
            weight: W::zero_like(weight),
            kept: Vec::new(),
            sum: None,
        }
    }

    fn enter(&mut self, sign: P::Coefficient, Share(share): &Share<P, W>) {
        self.weight.add_multiples(&[(sign, &share.weight)]);
        match &mut self.sum {
            Some(sum) => sum.add_multiples(&[(sign, &share.value)]),
            None => self.kept.push((sign, share.value.clone())),
        }
        if self.kept.len() > KEPT {
            let mut sum = P::zero_like(&share.value);
            sum.add_multiples(&borrowed(&self.kept));
            (self.sum, self.kept) = (Some(sum), Vec::new());
        }
    }
}

/// The state of one party in the mixing phase. It knows no rounds that it was offline in: each call
/// of [`Mixing::inject`] or [`Mixing::cancel`] is one online round, and with INCA uses the next
/// unused row of (c, Z) (the distribution D^O of INCA, section 3.2).
pub struct Mixing<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    state: State<P, W>,
    injector: Box<dyn Injector<P, W>>,
    /// By neighbour; `None` if roll-back is off.
    record: Option<BTreeMap<Party, Account<P, W>>>,
}

impl<P, W> Mixing<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// Begins with what is in the state before round 1. `value` is x̃ = x + η*, `weight` the
    /// party's own weight, `record` whether departed parties can be rolled back at the end (for
    /// each neighbour one or two shares, or a vector).
    pub fn new(
        mechanism: impl Into<Mechanism<P::Coefficient>>,
        value: P::Packed,
        weight: W,
        record: bool,
        noise: &mut impl NoiseSource<P>,
    ) -> Self {
        let (injector, state) = mechanism.into().rule().begin(Portion { value, weight });
        let mut mixing = Mixing {
            state,
            injector,
            record: record.then(BTreeMap::new),
        };
        mixing.inject(noise, 0);
        mixing.state.add_due(1);
        mixing
    }

    /// Returns the share for each of `to`. With INCA it is a part of the state equal to what stays;
    /// with PPSC, to one party, the whole state less the fresh noise that stays. Its values are as
    /// `pack` puts them.
    pub fn split(&mut self, to: &[Party], pack: impl FnOnce(&Portion<P, W>) -> P::Packed) -> Share<P, W> {
        let share = self.injector.split(&mut self.state, to.len(), Box::new(pack));
        to.iter()
            .for_each(|&neighbour| self.enter(neighbour, P::Coefficient::one(), &share));
        share
    }

    /// A share that this party had deducted for `to` comes back: its fate is `returned`.
    pub fn take_back(&mut self, to: Party, share: &Share<P, W>) {
        self.join(to, share);
    }

    /// A share of `from` joins the state: its fate is `accepted`.
    pub fn accept(&mut self, from: Party, share: &Share<P, W>) {
        self.join(from, share);
    }

    fn join(&mut self, neighbour: Party, share: &Share<P, W>) {
        self.state.join(&share.0);
        self.enter(neighbour, P::Coefficient::one().negated(), share);
    }

    fn enter(&mut self, neighbour: Party, sign: P::Coefficient, share: &Share<P, W>) {
        if let Some(record) = &mut self.record {
            record
                .entry(neighbour)
                .or_insert_with(|| Account::new(&share.0.weight))
                .enter(sign, share);
        }
    }

    /// Draws all noise that later rounds need, for a party that is online in every round: with INCA
    /// one vector a round is then left to add while others wait for it. Costs a vector at rest for
    /// each round, with PPSC for each hand-out.
    pub fn prepare(&mut self, source: &mut impl NoiseSource<P>) {
        self.injector.prepare(source);
    }

    /// The end of an online round before the last: INCA's injection.
    pub fn inject(&mut self, source: &mut impl NoiseSource<P>, round: u32) {
        self.injector.inject(source, round, &mut self.state);
    }

    /// The end of the last online round: INCA injects the next part of x̃ minus all correlated
    /// noise that is still out. PPSC's noises cancel by themselves.
    pub fn cancel(&mut self) {
        self.injector.cancel(&mut self.state);
    }

    /// The present state and its weight.
    pub fn state(&self) -> Portion<P, W> {
        self.state.present()
    }

    /// Adds again the mass deducted for departed parties, and subtracts the mass added from them
    /// (accountant/docs/roll_back.md). It needs only this party's own record; without one nothing
    /// changes (`record = false`). Who was rolled back before is not again.
    pub fn roll_back(&mut self, departed: &BTreeSet<Party>) {
        let Some(record) = &mut self.record else { return };
        for account in departed.iter().filter_map(|party| record.remove(party)) {
            self.state.sum.weight.add(&account.weight);
            self.state.due.extend(account.kept);
            if let Some(sum) = account.sum {
                self.state.sum.value.add(&sum);
            }
        }
    }

    /// The final state, with departed parties rolled back.
    pub fn finish(mut self, departed: &BTreeSet<Party>) -> Portion<P, W> {
        self.roll_back(departed);
        self.state.add_due(1);
        self.state.sum
    }
}

impl Mixing<LatticeVector, LatticeWeight> {
    /// Goes on from precomputed noise and is settled: a value comes in, and no shares.
    pub(crate) fn of_block(own: Resting<LatticeVector, LatticeWeight>, block: NoiseBlock) -> Self {
        let none = LatticeWeight(0);
        let (injector, mut state) = Mechanism::<Ratio>::Masks { masks: 0 }.rule().begin(own);
        state.join(&Portion {
            value: block.state,
            weight: none,
        });
        state.add_due(1);
        let account = |(party, kept)| {
            let account = Account {
                weight: none,
                kept: vec![(Ratio::one(), kept)],
                sum: None,
            };
            (party, account)
        };
        Mixing {
            state,
            injector,
            record: Some(block.record.into_iter().map(account).collect()),
        }
    }

    /// The state, and for each neighbour who was not rolled back what was deducted for it minus
    /// what was added from it, cut into blocks of `dimension` coordinates.
    pub(crate) fn into_precomputed(mut self, dimension: usize, logs: Arc<AgreedLogs>) -> PrecomputedNoise {
        self.state.add_due(1);
        let state = self.state.sum.value.pack();
        let summed = |account: Account<LatticeVector, LatticeWeight>| {
            let mut sum = LatticeVector::zero_like(&state);
            sum.add_multiples(&borrowed(&account.kept));
            account.sum.iter().for_each(|rest| sum.add(rest));
            sum.pack()
        };
        let record = self.record.into_iter().flatten();
        let record = record.map(|(party, account)| (party, summed(account))).collect();
        PrecomputedNoise::cut(&state, &record, dimension, logs)
    }
}

#[cfg(test)]
mod tests;
