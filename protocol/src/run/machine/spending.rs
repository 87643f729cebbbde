//! Marking the plan as spent, after a node has its value and before its first share leaves.

use crate::lattice::packed::PackedVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::stage::Phase;
use crate::mixing::exchange::ShareExchange;
use crate::mixing::machine::Mixing;
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::{NoiseSource, Portion};
use crate::publishing::interface::Published;
use crate::run::context::StepContext;
use crate::run::interface::Output;
use crate::run::outcome::{Ending, Event};
use crate::run::phase::{AwaitingPhase, MixingPhase, RunPhase, SpendingPhase, Transfers};

/// Masks of pairs follow from keys, and blocks are mixed by now: nothing is drawn.
struct NoNoise;

impl NoiseSource<LatticeVector> for NoNoise {
    fn draw(&mut self, _: usize, _: u32) -> PackedVector {
        unreachable!("a later release draws no noise that cancels")
    }
}

impl AwaitingPhase {
    /// Takes this node's value, x̃ with its own noise.
    pub(super) fn contribute(self, value: Noisy, cx: &mut StepContext<'_>) -> RunPhase {
        let weight = cx.config.own_weight();
        let mixing = match self.block {
            None => cx.config.mixing.begin(value, weight, Box::new(NoNoise)),
            Some(block) => {
                let value = value.vector().pack();
                let mut mixing = Mixing::of_block(Portion { value, weight }, block);
                let parties = 0..cx.config.electorate.parties;
                // The block holds exchanges with parties that departed later, which would not
                // cancel.
                let departed = parties.filter(|party| !cx.record.started.contains(party));
                mixing.roll_back(&departed.collect());
                mixing
            }
        };
        cx.output(Output::Spend);
        RunPhase::Spending(Box::new(SpendingPhase {
            mixing,
            seals: Some(self.seals),
            early: self.early,
            marked: false,
        }))
    }
}

impl SpendingPhase {
    /// The plan is marked as spent, or why not.
    pub(super) fn spent(self, result: Result<(), String>, cx: &mut StepContext<'_>) -> RunPhase {
        if let Err(reason) = result {
            cx.finish(Ending::Spent { reason }, Published::default());
            return RunPhase::Over;
        }
        cx.public_state.event(Event::Phase(Phase::Mixing));
        // Outer iterations have their own exchange, in the task: this run has only gathered for it.
        if cx.config.plan.goes_on_by_task() {
            return RunPhase::HandedOver;
        }
        let SpendingPhase {
            mixing,
            mut seals,
            early,
            ..
        } = self;
        let circle = match cx.begin_circle(&mixing.state().value, seals.as_deref_mut()) {
            Ok(circle) => circle.map(Box::new),
            Err(reason) => {
                cx.abort(reason);
                return RunPhase::Over;
            }
        };
        let start = cx
            .peers
            .exchange_start(&cx.record.started, cx.config, (cx.begun_at(), cx.now));
        let mut transfers = Transfers {
            shares: ShareExchange::new(cx.config.mixing.clone(), mixing, start),
            circle,
            seals,
            leaving: None,
        };
        for (id, arrival) in early {
            // It may have begun with a START that the others gave up.
            if !cx.record.started.contains(&id.from) {
                continue;
            }
            match &mut transfers.circle {
                Some(circle) => cx.receive_of_circle(circle, id.from, id, arrival),
                None => transfers.shares.share(id.from, id, arrival),
            }
        }
        RunPhase::Mixing(Box::new(MixingPhase { transfers }))
    }
}
