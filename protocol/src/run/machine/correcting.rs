//! Corrections of what was sealed, while all of it is: from the gate's verdict to the set that is
//! opened.
//!
//! Who owes a correction follows from the agreed logs. If nobody does, all who may publish are
//! opened. Else they agree on a set of corrections; if that lacks somebody, the gate looks at who
//! remains, and of these some may owe another correction, and so on, until nobody owes one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agreement::agreeing::{Clock, Step};
use crate::messages::log::AgreedLogs;
use crate::messages::notice::ItemSet;
use crate::publishing::corrections::{first_corrections, masks_owed, next_corrections};
use crate::publishing::sealed::Correction;
use crate::publishing::way::Way;
use crate::run::context::StepContext;
use crate::run::item_rules::Owing;
use crate::run::phase::{
    Audited, AuditingPhase, CorrectingPhase, OpeningPhase, RunPhase, Transfers, Unsealing,
};
use crate::topology::party::Party;

impl StepContext<'_> {
    /// Returns the parties that owe a correction, now that only `publishers` remain of all who
    /// might be opened.
    fn owing(&self, unsealing: &Unsealing, publishers: &BTreeSet<Party>) -> Owing {
        let is_first = unsealing.corrections.is_empty();
        let started = &self.record.started;
        let before = if is_first { started } else { &unsealing.members };
        // A mask of a pair cancels only if both are opened: else the one who remains owes its key.
        if let Some(graph) = &self.config.mask_graph(started) {
            let departed = |party: Party| before.contains(&party) && !publishers.contains(&party);
            return Owing::Keys(masks_owed(graph, publishers, departed));
        }
        let owing = match &self.config.mixed {
            // What the logs of the mixing send back came back when it was settled.
            Some(mixed) => next_corrections(mixed, before, publishers),
            None if is_first => first_corrections(&unsealing.logs, publishers),
            None => next_corrections(&unsealing.logs, before, publishers),
        };
        Owing::Vectors(owing.into_keys().collect())
    }

    /// Ends the run with nothing opened.
    pub(super) fn remain_closed(&mut self, reason: &str) -> RunPhase {
        self.stays_closed();
        self.finish_withheld(reason);
        RunPhase::Over
    }
}

impl CorrectingPhase {
    /// The gate has let `publishers` through: they are opened, or give corrections first.
    pub(super) fn begin(
        mut transfers: Transfers,
        publishers: BTreeSet<Party>,
        mut unsealing: Unsealing,
        cx: &mut StepContext<'_>,
    ) -> RunPhase {
        let owing = cx.owing(&unsealing, &publishers);
        unsealing.members = publishers;
        if owing.is_empty() {
            return OpeningPhase::begin(transfers, unsealing, cx);
        }
        let stage = unsealing.stage();
        if !cx.public_state.rules.stages.has(stage) {
            // The gate leaves so few to nobody: this is no plan's way.
            return cx.remain_closed("more parties departed than the plan tolerates");
        }
        if let Owing::Keys(masks) = &owing {
            unsealing.masks.push(masks.clone());
        }
        transfers.give_correction(&unsealing, &owing, cx);
        cx.public_state.begin_corrections(cx.now, unsealing.next(), owing);
        let clock = Clock::new(cx.stage_begins(unsealing.corrections.len()), cx.config.settle_ms);
        let agreement = cx.agree_on(stage, unsealing.members.clone(), clock);
        RunPhase::Correcting(Box::new(CorrectingPhase {
            transfers,
            agreement,
            unsealing,
        }))
    }

    /// A step of the agreement on corrections. `false`: it wants nothing more now.
    pub(super) fn step(mut self: Box<Self>, cx: &mut StepContext<'_>) -> (RunPhase, bool) {
        let stage = self.unsealing.stage();
        match cx
            .public_state
            .step(&mut self.agreement, stage, cx.now, &cx.peers.unreachable)
        {
            None => return (RunPhase::Correcting(self), false),
            Some(Step::Say(notice)) => cx.public_state.say(notice),
            Some(Step::Vote { early, set }) => cx.public_state.vote(stage, early, set),
            Some(Step::Over) => {
                cx.finish_withheld(
                    "no set of corrections was agreed on in time; if all were up, raise run.settle_ms",
                );
            }
            Some(Step::Agreed(set)) => return (self.agreed(set, cx), true),
        }
        (RunPhase::Correcting(self), true)
    }

    fn agreed(self: Box<Self>, set: ItemSet, cx: &mut StepContext<'_>) -> RunPhase {
        let CorrectingPhase {
            transfers,
            mut unsealing,
            ..
        } = *self;
        let remaining: BTreeSet<Party> = set.iter().map(|(party, _)| *party).collect();
        unsealing.corrections.push(set);
        if remaining == unsealing.members {
            return OpeningPhase::begin(transfers, unsealing, cx);
        }
        // Without its correction this node's final would leave noise in the sum.
        if !remaining.contains(&cx.config.mixing.me) {
            cx.stays_closed();
            cx.withhold("the agreed set of corrections does not hold this node's");
        }
        let logs = unsealing.logs.iter();
        let logs: AgreedLogs = logs
            .filter(|(party, _)| remaining.contains(party))
            .map(|(party, log)| (*party, log.clone()))
            .collect();
        // Fewer parties may hide each other less: the gate looks again.
        AuditingPhase::begin(transfers, Arc::new(logs), Audited::Fewer(unsealing), cx)
    }
}

impl Transfers {
    /// Gives this node's correction, if it owes one and nothing is opened yet: with a correction
    /// that comes after a secret somebody could read what was sealed as it was, and as it is.
    fn give_correction(&mut self, unsealing: &Unsealing, owing: &Owing, cx: &mut StepContext<'_>) {
        let me = cx.config.mixing.me;
        if cx.record.withheld.is_some() {
            return;
        }
        // Made even where none is owed: it shows whether a member's log denies a share that it
        // signed for.
        let correction = match self.correction(me, unsealing, owing) {
            Ok(correction) => correction,
            Err(denier) => return cx.withhold(cx.denied(denier)),
        };
        if owing.of(me).is_none() {
            return;
        }
        let (flood, round) = (&cx.public_state.flood, cx.config.plan.sealed_round());
        if flood.disclosed(round).next().is_some() {
            let reason = "others have begun to open what this node would have to correct first";
            cx.fault(reason);
            return cx.withhold(reason);
        }
        if let (Way::Sealed(finals), Some(correction)) = (&cx.public_state.rules.way, correction) {
            let item = finals.correction(unsealing.next(), me, &correction);
            cx.public_state.give_body(unsealing.stage(), item);
        }
    }

    /// This node's correction: what it exchanged with those who are left out, or the keys of its
    /// masks with them.
    ///
    /// # Errors
    /// A member's log denies a share that it has signed for.
    fn correction(
        &mut self,
        me: Party,
        unsealing: &Unsealing,
        owing: &Owing,
    ) -> Result<Option<Correction>, Party> {
        match owing {
            Owing::Vectors(_) => {
                let vector = self.shares.correct(&unsealing.logs, &unsealing.members)?;
                Ok(Some(Correction::Vector(vector)))
            }
            Owing::Keys(masks) => {
                let masks_of = self.seals.as_ref().and_then(|seals| seals.masks.as_ref());
                let with = masks.get(&me);
                let keys = masks_of.zip(with).and_then(|(masks, with)| masks.reveal(with));
                Ok(keys.map(Correction::Keys))
            }
        }
    }
}
