//! Corrections of what was sealed, while all of it is: from the gate's verdict to the set that is
//! opened.
//!
//! Who owes a correction follows from the agreed logs. If nobody does, all who may publish are
//! opened. Else they agree on a set of corrections; if that lacks somebody, the gate looks at who
//! remains, and of these some may owe another correction, and so on, until nobody owes one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agreement::agreeing::{Agreement, Clock, Step};
use crate::messages::log::AgreedLogs;
use crate::messages::stage::Stage;
use crate::mixing::exchange::ShareExchange;
use crate::publishing::corrections::{first_corrections, masks_owed, next_corrections};
use crate::publishing::interface::Published;
use crate::publishing::sealed::Correction;
use crate::publishing::way::Way;
use crate::run::item_rules::Owing;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::{Ending, Event, SealedFinal};
use crate::run::unsealing::Unsealing;
use crate::time::Time;
use crate::topology::party::Party;

impl Run {
    /// The gate has let `publishers` through: they are opened, or give corrections first.
    pub(super) fn unseal(
        &mut self,
        mut exchange: ShareExchange,
        publishers: BTreeSet<Party>,
        mut unsealing: Unsealing,
    ) {
        let owing = self.owing(&unsealing, &publishers);
        unsealing.members = publishers;
        if owing.is_empty() {
            return self.begin_opening(unsealing);
        }
        let stage = unsealing.stage();
        if !self.commons.rules.stages.has(stage) {
            // The gate leaves so few to nobody: this is no plan's way.
            return self.remain_closed("more parties departed than the plan tolerates");
        }
        if let Owing::Keys(masks) = &owing {
            unsealing.masks.push(masks.clone());
        }
        self.give_correction(&mut exchange, &unsealing, &owing);
        self.commons.begin_corrections(self.now, unsealing.next(), owing);
        let agreement = Agreement::new(
            self.electorate.clone(),
            stage,
            unsealing.members.clone(),
            Clock::new(self.stage_begins(&unsealing), self.settle_ms),
            BTreeSet::new(),
        );
        self.machine = Machine::Correcting {
            exchange,
            agreement,
            unsealing,
        };
    }

    /// Who owes a correction, now that of all who might be opened only `publishers` remain.
    fn owing(&self, unsealing: &Unsealing, publishers: &BTreeSet<Party>) -> Owing {
        let (logs, before) = (&unsealing.logs, &unsealing.members);
        let is_first = unsealing.corrections.is_empty();
        if let Some(graph) = &self.mask_graph() {
            let before = if is_first { &self.record.started } else { before };
            let departed = |party: Party| before.contains(&party) && !publishers.contains(&party);
            return Owing::Keys(masks_owed(graph, publishers, departed));
        }
        if let Some(ahead) = &self.ahead {
            // What the logs of the mixing send back came back when it was settled.
            let before = if is_first { &self.record.started } else { before };
            let owing = next_corrections(ahead.logs(), before, publishers);
            return Owing::Vectors(owing.into_keys().collect());
        }
        let owing = match is_first {
            true => first_corrections(logs, publishers),
            false => next_corrections(logs, before, publishers),
        };
        Owing::Vectors(owing.into_keys().collect())
    }

    /// When the next stage begins: by the plan's clock, so that all nodes' halves and quarters fall
    /// together, or from now if that is later.
    pub(super) fn stage_begins(&self, unsealing: &Unsealing) -> Time {
        let stages = unsealing.corrections.len() as u64;
        let by_plan = self
            .settling_ends()
            .plus_millis(stages.saturating_mul(self.settle_ms));
        self.now.max(by_plan)
    }

    /// Gives this node's correction, if it owes one and nothing is opened yet: with a correction
    /// that comes after a secret somebody could read what was sealed as it was, and as it is.
    fn give_correction(&mut self, exchange: &mut ShareExchange, unsealing: &Unsealing, owing: &Owing) {
        let me = self.course.me;
        if self.record.withheld.is_some() {
            return;
        }
        let correction = match self.correction(exchange, unsealing, owing) {
            Ok(correction) => correction,
            Err(denier) => {
                let name = &self.plan.draft().members[denier].name;
                return self.withhold(format!("{name} signed for a share that its log denies"));
            }
        };
        if owing.of(me).is_none() {
            return;
        }
        let (flood, round) = (&self.commons.flood, self.plan.sealed_round());
        if flood.disclosed(round).next().is_some() {
            let reason = "others have begun to open what this node would have to correct first";
            self.commons.event(Event::Fault(reason.to_string()));
            return self.withhold(reason.to_string());
        }
        if let (Way::Sealed(finals), Some(correction)) = (&self.commons.rules.way, correction) {
            let item = finals.correction(unsealing.next(), me, &correction);
            self.commons.give_body(unsealing.stage(), item);
        }
    }

    /// This node's correction: what it exchanged with those who are left out, or the keys of its
    /// masks with them.
    ///
    /// # Errors
    /// A member's log denies a share that it has signed for.
    fn correction(
        &self,
        exchange: &mut ShareExchange,
        unsealing: &Unsealing,
        owing: &Owing,
    ) -> Result<Option<Correction>, Party> {
        match owing {
            Owing::Vectors(_) => {
                let vector = exchange.correct(&unsealing.logs, &unsealing.members)?;
                Ok(Some(Correction::Vector(vector)))
            }
            Owing::Keys(masks) => {
                let masks_of = self.seals.as_ref().and_then(|seals| seals.masks.as_ref());
                let with = masks.get(&self.course.me);
                let keys = masks_of.zip(with).and_then(|(masks, with)| masks.reveal(with));
                Ok(keys.map(Correction::Keys))
            }
        }
    }

    /// A step of the agreement on corrections.
    pub(super) fn correct(&mut self, stage: Stage, step: Step) {
        let set = match step {
            Step::Say(notice) => return self.commons.say(notice),
            Step::Vote { early, set } => return self.commons.vote(stage, early, set),
            Step::Over => {
                let reason =
                    "no set of corrections was agreed on in time; if all were up, raise run.settle_ms"
                        .to_string();
                self.withhold(reason.clone());
                let reason = self.record.withheld.clone().unwrap_or(reason);
                return self.finish(Ending::Withheld { reason }, Published::default());
            }
            Step::Agreed(set) => set,
        };
        let Machine::Correcting {
            exchange,
            mut unsealing,
            ..
        } = std::mem::replace(&mut self.machine, Machine::Over)
        else {
            return;
        };
        let remaining: BTreeSet<Party> = set.iter().map(|(party, _)| *party).collect();
        unsealing.corrections.push(set);
        if remaining == unsealing.members {
            return self.begin_opening(unsealing);
        }
        if !remaining.contains(&self.course.me) {
            self.stays_closed();
            self.withhold("the agreed set of corrections does not hold this node's".to_string());
        }
        let logs = unsealing.logs.iter();
        let logs: AgreedLogs = logs
            .filter(|(party, _)| remaining.contains(party))
            .map(|(party, log)| (*party, log.clone()))
            .collect();
        self.audit(exchange, Arc::new(logs), Some(unsealing));
    }

    /// Nothing is opened.
    pub(super) fn remain_closed(&mut self, reason: &str) {
        self.stays_closed();
        self.withhold(reason.to_string());
        let reason = self.record.withheld.clone().unwrap_or_default();
        self.finish(Ending::Withheld { reason }, Published::default());
    }

    /// Whether nobody opens this node's final, as far as it knows.
    pub(super) fn is_closed(&self) -> bool {
        self.record.sealed == Some(SealedFinal::Closed)
    }
}
