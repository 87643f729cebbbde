//! The gate's verdict on the agreed logs, and what follows.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::messages::log::AgreedLogs;
use crate::messages::stage::Phase;
use crate::publishing::interface::Published;
use crate::run::context::StepContext;
use crate::run::interface::Output;
use crate::run::outcome::{Ending, Event, GateVerdict};
use crate::run::phase::{
    Audited, AuditingPhase, CorrectingPhase, MixedPhase, PublishingPhase, RunPhase, Transfers, Unsealing,
};
use crate::topology::party::Party;

/// The wait for the gate's verdict, in `settle_ms`. The gate has a budget of some ten seconds of
/// one core; our guess for the slowest machine that many parties share.
const AUDITING_STAGES: u64 = 30;

impl StepContext<'_> {
    /// The logs that say what those who are left have exchanged: where their noise was precomputed
    /// those of that mixing.
    pub(super) fn to_be_judged(&self, logs: &Arc<AgreedLogs>) -> Arc<AgreedLogs> {
        let Some(mixed) = &self.config.mixed else {
            return logs.clone();
        };
        let left = mixed.iter().filter(|(party, _)| logs.contains_key(party));
        Arc::new(left.map(|(party, log)| (*party, log.clone())).collect())
    }
}

impl AuditingPhase {
    /// Asks for the gate's verdict on these logs.
    pub(super) fn begin(
        transfers: Transfers,
        logs: Arc<AgreedLogs>,
        audited: Audited,
        cx: &mut StepContext<'_>,
    ) -> RunPhase {
        // A round of circles needs no gate: each node computes its set from the agreed logs alone.
        let closed = cx.close_circle(&logs);
        if closed.is_none() {
            let judged = cx.to_be_judged(&logs);
            cx.output(Output::Audit(judged));
        }
        let patience = cx.config.settle_ms.saturating_mul(AUDITING_STAGES);
        let phase = Box::new(AuditingPhase {
            transfers,
            logs,
            until: cx.now.plus_millis(patience),
            audited,
        });
        let Some(verdict) = closed else {
            return RunPhase::Auditing(phase);
        };
        if let Some(set) = &verdict.publish {
            let (round, set) = (cx.config.number, set.iter().copied().collect());
            cx.public_state.event(Event::Closed { round, set });
        }
        phase.judged(verdict, cx)
    }

    /// Withholds where the gate has not answered in time: by now nobody waits for this node's
    /// final.
    pub(super) fn step(self: Box<Self>, cx: &mut StepContext<'_>) -> (RunPhase, bool) {
        if cx.now < self.until {
            return (RunPhase::Auditing(self), false);
        }
        cx.record.tally = self.transfers.shares.tally();
        cx.finish_withheld("no verdict on what happened came in time");
        (RunPhase::Over, true)
    }

    pub(super) fn judged(self: Box<Self>, verdict: GateVerdict, cx: &mut StepContext<'_>) -> RunPhase {
        let AuditingPhase {
            transfers,
            logs,
            audited,
            ..
        } = *self;
        let shares = &transfers.shares;
        (cx.record.tally, cx.record.received) = (shares.tally(), shares.received.len());
        cx.record.verdict = Some(verdict.clone());
        let precomputed = cx.config.mixing.precomputed;
        let publishers = match verdict.publish {
            Some(publishers)
                if !publishers.is_empty() && publishers.iter().all(|party| logs.contains_key(party)) =>
            {
                publishers
            }
            _ => {
                cx.stays_closed();
                cx.finish_withheld(verdict.reason);
                // After a mixing in vain these may mix again, with the keys that START has fixed.
                return match precomputed {
                    true => RunPhase::Mixed(Box::new(MixedPhase {
                        members: logs.keys().copied().collect(),
                        seals: transfers.seals,
                        noise: None,
                    })),
                    false => RunPhase::Over,
                };
            }
        };
        if matches!(audited, Audited::All(_)) && !precomputed {
            cx.public_state.event(Event::Phase(Phase::Publishing));
        }
        // A node that is left out goes on: the others may need its shares of their secrets.
        if !publishers.contains(&cx.config.mixing.me) {
            cx.stays_closed();
            cx.withhold(verdict.reason);
        }
        match audited {
            _ if precomputed => MixedPhase::begin(transfers, &logs, publishers, cx),
            Audited::Fewer(unsealing) => CorrectingPhase::begin(transfers, publishers, unsealing, cx),
            Audited::All(_) if cx.public_state.rules.stages.are_sealed() => {
                CorrectingPhase::begin(transfers, publishers, Unsealing::of(logs), cx)
            }
            Audited::All(early_rounds) => {
                PublishingPhase::begin(transfers.shares, (&logs, publishers), early_rounds, cx)
            }
        }
    }
}

impl MixedPhase {
    /// The noise of all releases to come is mixed, among these.
    fn begin(
        transfers: Transfers,
        logs: &Arc<AgreedLogs>,
        members: BTreeSet<Party>,
        cx: &mut StepContext<'_>,
    ) -> RunPhase {
        let noise = match cx.record.withheld.clone() {
            Some(reason) => Err(reason),
            None => {
                let dimension = cx.config.plan.draft().dimension();
                let noise = transfers.shares.into_precomputed(logs, &members, dimension);
                noise.map_err(|denier| cx.denied(denier))
            }
        };
        match noise {
            Err(reason) => {
                cx.finish_withheld(reason);
                RunPhase::Over
            }
            Ok(noise) => {
                cx.finish(Ending::Done, Published::without_sum(members.clone(), true));
                RunPhase::Mixed(Box::new(MixedPhase {
                    members,
                    seals: transfers.seals,
                    noise: Some(noise),
                }))
            }
        }
    }
}
