//! From the last round to the agreed logs and what the gate says about them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agreement::agreeing::{Agreement, Clock, Step};
use crate::messages::log::AgreedLogs;
use crate::messages::notice::ItemSet;
use crate::messages::stage::Phase;
use crate::messages::stage::Stage;
use crate::mixing::exchange::ShareExchange;
use crate::publishing::interface::Published;
use crate::run::interface::Output;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::{Ending, Event, GateVerdict};
use crate::run::unsealing::Unsealing;
use crate::time::Time;
use crate::topology::party::Party;

/// How many times `settle_ms` the gate's verdict is waited for. The gate has a budget of some ten
/// seconds of one core; our guess for the slowest machine that many parties share.
const AUDITING_STAGES: u64 = 30;

impl Run {
    /// When settling ends at the latest: nodes that began together place it alike.
    pub(super) fn settling_ends(&self) -> Time {
        let mixing_ms = u64::from(self.course.rounds).saturating_mul(self.course.round_ms);
        let start = self.record.started_at.unwrap_or(self.now);
        start.plus_millis(mixing_ms.saturating_add(self.settling_ms()))
    }

    /// How long settling takes: with sealed finals, which leave with the logs, also what publishing
    /// would take.
    fn settling_ms(&self) -> u64 {
        // A later release begins in the middle of its iteration.
        let stages = if self.commons.rules.stages.are_sealed() && !self.succeeds {
            2
        } else {
            1
        };
        self.settle_ms.saturating_mul(stages)
    }

    /// The deadlines of settling, which begins when mixing ends at the latest. Where vectors of
    /// circles are waited for that takes the first half: lists are due half-way through the second,
    /// so that they have the logs of those who waited for a vector that does not come.
    fn settling_clock(&self, begin: Time) -> Clock {
        match self.circle.is_some() && !self.succeeds {
            true => Clock::new(begin.plus_millis(self.settle_ms), self.settle_ms),
            false => Clock::new(begin, self.settling_ms()),
        }
    }

    /// When lists of logs are due, as far as this node knows before it settles.
    pub(super) fn settling_half(&self) -> Time {
        if let Machine::Settling { agreement, .. } = &self.machine {
            return agreement.half();
        }
        let mixing_ms = u64::from(self.course.rounds).saturating_mul(self.course.round_ms);
        let start = self.record.started_at.unwrap_or(self.now);
        self.settling_clock(start.plus_millis(mixing_ms)).half
    }

    pub(super) fn begin_settling(&mut self) {
        let Machine::Mixing { mut exchange } = std::mem::replace(&mut self.machine, Machine::Over) else {
            return;
        };
        self.commons.event(Event::Phase(Phase::Settling));
        let clock = self.settling_clock(exchange.deadline(self.course.rounds));
        let called = self.log_calls(&exchange, &clock);
        let mut log = exchange.close(called.iter().copied().collect());
        if !self.log_circle(&mut log) {
            log.sealed = self.seal(&exchange);
        }
        self.record.own_log = Some(log.clone());
        let log = self.commons.give_log(log);
        self.left_with_log(Some(log));
        let agreement = Agreement::new(
            self.electorate.clone(),
            Stage::Settling,
            self.record.started.clone(),
            clock,
            called,
        );
        self.machine = Machine::Settling { exchange, agreement };
    }

    /// Whom the log calls gone: found gone, its log not here, and its log cannot be on the way: it
    /// still owes this node a share (nobody signs a log before all shares are answered), or it has
    /// been gone for a while.
    pub(super) fn log_calls(&self, exchange: &ShareExchange, clock: &Clock) -> BTreeSet<Party> {
        let owed = |party| {
            let vector = self
                .circle
                .as_ref()
                .is_some_and(|circle| circle.is_owed_by(party));
            exchange.is_owed_by(party) || vector
        };
        let certain = |party: Party, since: Time| owed(party) || self.now >= clock.call_at(since);
        let held = |party: Party| self.commons.holding(Stage::Settling).get(party).is_some();
        let gone = self
            .gone
            .iter()
            .filter(|(party, since)| self.record.started.contains(party) && certain(**party, **since));
        gone.map(|(party, _)| *party)
            .filter(|&party| !held(party))
            .collect()
    }

    pub(super) fn settle(&mut self, step: Step) {
        match step {
            Step::Say(notice) => self.commons.say(notice),
            Step::Vote { early, set } => self.commons.vote(Stage::Settling, early, set),
            Step::Over => {
                let reason =
                    "no set of logs was agreed on in time; if all were up, raise run.settle_ms".to_string();
                self.withhold(reason.clone());
                self.finish(Ending::Withheld { reason }, Published::default());
            }
            Step::Agreed(set) => {
                let Machine::Settling { exchange, .. } = std::mem::replace(&mut self.machine, Machine::Over)
                else {
                    return;
                };
                let logs = set
                    .iter()
                    .filter_map(|(party, hash)| Some((*party, self.commons.log_named(*party, hash)?)));
                let logs: AgreedLogs = logs.collect();
                let logs = Arc::new(logs);
                if !logs.contains_key(&self.course.me) {
                    let reason = self.voted_out(&set);
                    self.withhold(reason);
                    self.stays_closed();
                }
                self.record.logs = Some(self.to_be_judged(&logs));
                self.audit(exchange, logs, None);
            }
        }
    }

    /// Asks for the gate's verdict on these logs.
    pub(super) fn audit(
        &mut self,
        exchange: ShareExchange,
        logs: Arc<AgreedLogs>,
        unsealing: Option<Unsealing>,
    ) {
        let closed = self.close_circle(&logs);
        if closed.is_none() {
            let judged = self.to_be_judged(&logs);
            self.commons.outbox.push_back(Output::Audit(judged));
        }
        let patience = self.settle_ms.saturating_mul(AUDITING_STAGES);
        self.machine = Machine::Auditing {
            exchange,
            logs,
            until: self.now.plus_millis(patience),
            unsealing,
        };
        if let Some(verdict) = closed {
            if let Some(set) = &verdict.publish {
                let (round, set) = (self.number, set.iter().copied().collect());
                self.commons.event(Event::Closed { round, set });
            }
            self.judged(verdict);
        }
    }

    /// The logs that say what those who are left have exchanged: where their noise was mixed ahead
    /// those of that mixing.
    fn to_be_judged(&self, logs: &Arc<AgreedLogs>) -> Arc<AgreedLogs> {
        match &self.ahead {
            Some(ahead) => ahead.logs_of(logs),
            None => logs.clone(),
        }
    }

    /// That the agreed set lacks this node's log, and who signed it: a log that was flooded in time
    /// lacks only where somebody did not want it.
    fn voted_out(&self, set: &ItemSet) -> String {
        let votes = self.commons.flood.votes(Stage::Settling);
        let signers = votes.filter(|vote| vote.set == Some(set)).map(|vote| vote.signer);
        let members = &self.plan.draft().members;
        let names: Vec<&str> = signers.map(|party| members[party].name.as_str()).collect();
        format!(
            "the agreed set of logs does not hold this node's; it was signed by {}",
            names.join(", ")
        )
    }

    /// Withholds: the gate has not answered in time. By now nobody waits for this node's final.
    pub(super) fn unjudged(&mut self) {
        let reason = "no verdict on what happened came in time".to_string();
        self.withhold(reason.clone());
        let reason = self.record.withheld.clone().unwrap_or(reason);
        self.finish(Ending::Withheld { reason }, Published::default());
        self.machine = Machine::Over;
    }

    pub(super) fn judged(&mut self, verdict: GateVerdict) {
        let Machine::Auditing {
            exchange,
            logs,
            unsealing,
            ..
        } = std::mem::replace(&mut self.machine, Machine::Over)
        else {
            return;
        };
        (self.record.tally, self.record.received) = (exchange.tally(), exchange.received.len());
        self.record.verdict = Some(verdict.clone());
        let publishers = match verdict.publish {
            Some(publishers)
                if !publishers.is_empty() && publishers.iter().all(|party| logs.contains_key(party)) =>
            {
                publishers
            }
            _ => {
                self.stays_closed();
                self.withhold(verdict.reason.clone());
                let reason = self.record.withheld.clone().unwrap_or(verdict.reason);
                if self.course.ahead {
                    let members = logs.keys().copied().collect();
                    self.machine = Machine::Mixed { members };
                }
                return self.finish(Ending::Withheld { reason }, Published::default());
            }
        };
        if unsealing.is_none() && !self.course.ahead {
            self.commons.event(Event::Phase(Phase::Publishing));
        }
        if !publishers.contains(&self.course.me) {
            self.stays_closed();
            self.withhold(verdict.reason);
        }
        if self.course.ahead {
            self.mixed(exchange, &logs, publishers);
        } else if self.commons.rules.stages.are_sealed() {
            let unsealing = unsealing.unwrap_or_else(|| Unsealing::of(logs));
            self.unseal(exchange, publishers, unsealing);
        } else {
            self.begin_publishing(exchange, &logs, publishers);
        }
    }

    /// Finals are readable: this node gives its own, if it may, and agrees with the others on
    /// theirs.
    fn begin_publishing(&mut self, exchange: ShareExchange, logs: &AgreedLogs, publishers: BTreeSet<Party>) {
        let mut publication = None;
        if self.record.withheld.is_none() {
            match self.give_final(exchange, logs, &publishers) {
                Ok(begun) => publication = begun,
                Err(reason) => self.withhold(reason.to_string()),
            }
        }
        let clock = Clock::new(self.now.max(self.settling_ends()), self.settle_ms);
        let agreement = Agreement::new(
            self.electorate.clone(),
            Stage::Publishing,
            publishers,
            clock,
            BTreeSet::new(),
        );
        self.machine = Machine::Publishing {
            agreement,
            publication,
        };
    }
}
