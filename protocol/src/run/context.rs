//! The context of a step: all that a step of any phase may touch besides the phase's own data.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agreement::agreeing::{Agreement, Clock};
use crate::messages::log::{AgreedLogs, Log};
use crate::messages::stage::{Phase, Stage};
use crate::mixing::exchange::Tally;
use crate::plan::checked::RecordsAtStart;
use crate::publishing::interface::Published;
use crate::publishing::opening::Unopened;
use crate::publishing::way::Way;
use crate::run::config::{Connectivity, RunConfig};
use crate::run::interface::Output;
use crate::run::outcome::{Ending, Event, GateVerdict, Outcome, SealedFinal};
use crate::run::public_state::PublicState;
use crate::time::Time;
use crate::topology::party::Party;

/// The context of a step: all that a step of any phase may touch besides the phase's own data.
pub(super) struct StepContext<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) peers: &'a Connectivity,
    pub(super) public_state: &'a mut PublicState,
    pub(super) record: &'a mut Record,
    pub(super) now: Time,
}

/// The known parts of the outcome so far.
#[derive(Default)]
pub(super) struct Record {
    pub(super) started: BTreeSet<Party>,
    pub(super) started_at: Option<Time>,
    /// The number of the START that this node has begun with.
    pub(super) start_number: u8,
    pub(super) logs: Option<Arc<AgreedLogs>>,
    pub(super) own_log: Option<Log>,
    pub(super) verdict: Option<GateVerdict>,
    pub(super) withheld: Option<String>,
    pub(super) tally: Tally,
    pub(super) received: usize,
    pub(super) sealed: Option<SealedFinal>,
    pub(super) opened_for: Vec<Party>,
    pub(super) unopened: Vec<Unopened>,
    pub(super) out_of_range: bool,
    pub(super) finished: bool,
    /// The moment until which it waits for its neighbours to end, once it has itself.
    pub(super) stays_until: Option<Time>,
    pub(super) complete: bool,
}

impl StepContext<'_> {
    pub(super) fn output(&mut self, output: Output) {
        self.public_state.outbox.push_back(output);
    }

    pub(super) fn fault(&mut self, text: impl ToString) {
        self.public_state.event(Event::Fault(text.to_string()));
    }

    /// This node may not publish, or tell its secret. The first reason stays.
    pub(super) fn withhold(&mut self, reason: impl Into<String>) {
        // Later reasons are mostly consequences of the first, which a person needs.
        self.record.withheld.get_or_insert(reason.into());
    }

    /// Withholds, and ends the run for this node with nothing known.
    pub(super) fn finish_withheld(&mut self, reason: impl Into<String>) {
        self.withhold(reason);
        let reason = self.record.withheld.clone().unwrap_or_default();
        self.finish(Ending::Withheld { reason }, Published::default());
    }

    pub(super) fn abort(&mut self, reason: impl ToString) {
        let reason = reason.to_string();
        self.finish(Ending::Aborted { reason }, Published::default());
    }

    /// The run is over for this node; only the first ending counts.
    pub(super) fn finish(&mut self, ending: Ending, published: Published) {
        if std::mem::replace(&mut self.record.finished, true) {
            return;
        }
        let record = &self.record;
        let outcome = Outcome {
            ending,
            started: record.started.clone(),
            started_at: record.started_at,
            schedule_seed: self.config.plan.seed_at_start(),
            records: match record.started.is_empty() {
                true => RecordsAtStart::new(),
                false => self.config.plan.records_at_start().clone(),
            },
            logs: record.logs.clone(),
            own_log: record.own_log.clone(),
            verdict: record.verdict.clone(),
            included: published.included,
            agreed: published.agreed,
            sum: published.sum,
            accuracy: published.accuracy,
            sealed: record.sealed,
            opened_for: record.opened_for.clone(),
            unopened: record.unopened.clone(),
            out_of_range: record.out_of_range,
            training: None,
            gossip: None,
            tally: record.tally,
        };
        self.public_state.event(Event::Phase(Phase::Done));
        self.output(Output::Finished(Box::new(outcome)));
        // Where a release follows this node stays anyway, and its next messages show that it has
        // gone on.
        if !self.config.may_go_on() {
            self.tell_finished();
        }
    }

    /// Tells the neighbours that this node needs nothing more of this run, and waits until they say
    /// so themselves. Only once; not if it has never begun.
    pub(super) fn tell_finished(&mut self) {
        if self.record.stays_until.is_some() || self.record.started.is_empty() {
            return;
        }
        let stages = match &self.public_state.rules.way {
            Way::Readable(finals) => finals.most_stages(),
            Way::Sealed(_) | Way::Kept => 1,
        };
        // A neighbour may be as late as a whole publishing takes, and lack what only this node has.
        let stays_ms = self.config.settle_ms.saturating_mul(stages);
        self.record.stays_until = Some(self.now.plus_millis(stays_ms));
        self.public_state.tell_finished();
    }

    /// Records that nobody opens this node's final: an agreed set is without it, or may not be
    /// opened.
    pub(super) fn stays_closed(&mut self) {
        if let Some(sealed) = &mut self.record.sealed {
            *sealed = SealedFinal::Closed;
        }
    }

    /// Returns the moment when this node held every START; before that, the present one.
    pub(super) fn begun_at(&self) -> Time {
        self.record.started_at.unwrap_or(self.now)
    }

    /// Whether finals are sealed.
    pub(super) fn is_sealed(&self) -> bool {
        self.public_state.rules.stages.are_sealed()
    }

    /// Returns the moment when settling ends at the latest: nodes that began together place it
    /// alike.
    pub(super) fn settling_ends(&self) -> Time {
        let mixing_ends = self.config.mixing_ends(self.begun_at());
        mixing_ends.plus_millis(self.config.settling_ms(self.is_sealed()))
    }

    /// Returns the moment when the next stage begins. It is that of the plan's clock, so that all
    /// nodes' halves and quarters fall together, or the present one if that is later. So many
    /// stages of corrections are over.
    pub(super) fn stage_begins(&self, corrections: usize) -> Time {
        let stages = corrections as u64;
        let by_plan = self
            .settling_ends()
            .plus_millis(stages.saturating_mul(self.config.settle_ms));
        self.now.max(by_plan)
    }

    /// Begins to agree on the items of these members in a stage.
    pub(super) fn agree_on(&self, stage: Stage, members: BTreeSet<Party>, clock: Clock) -> Agreement {
        Agreement::new(
            self.config.electorate.clone(),
            stage,
            members,
            clock,
            BTreeSet::new(),
        )
    }

    /// Returns the reason why this node cannot make its final, or its correction.
    pub(super) fn denied(&self, denier: Party) -> String {
        let name = self.config.name(denier);
        format!("{name} signed for a share that its log denies")
    }

    pub(super) fn sentences(&self, lacking: &[Unopened]) -> String {
        let sentences: Vec<String> = lacking
            .iter()
            .map(|lacking| lacking.sentence(self.config.name(lacking.party)))
            .collect();
        sentences.join("; ")
    }
}
