//! The phase from the last round to the agreed logs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agreement::agreeing::{Agreement, Clock, Step};
use crate::messages::log::{AgreedLogs, Sealed};
use crate::messages::notice::{ItemSet, item_hash};
use crate::messages::stage::Phase;
use crate::messages::stage::Stage;
use crate::publishing::averaging::early::EarlyRounds;
use crate::publishing::way::Way;
use crate::run::context::StepContext;
use crate::run::outcome::Event;
use crate::run::phase::{Audited, AuditingPhase, MixingPhase, RunPhase, SettlingPhase, Transfers};
use crate::time::Time;
use crate::topology::party::Party;

impl Transfers {
    /// Returns the parties that the log calls unreachable: they are so here, and their logs are
    /// neither here nor on the way. A log cannot be on the way if its author still owes this node a
    /// share (nobody signs a log before all shares are answered), or has been unreachable for a
    /// while.
    pub(super) fn calls(&self, clock: &Clock, cx: &StepContext<'_>) -> BTreeSet<Party> {
        let circle = self.circle.as_ref();
        let owed = |party| {
            let vector = circle.is_some_and(|circle| circle.is_owed_by(party));
            self.shares.is_owed_by(party) || vector
        };
        let certain = |party: Party, since: Time| owed(party) || cx.now >= clock.call_at(since);
        let held = |party: Party| cx.public_state.holding(Stage::Settling).get(party).is_some();
        let unreachable = cx
            .peers
            .unreachable
            .iter()
            .filter(|(party, since)| cx.record.started.contains(party) && certain(**party, **since));
        unreachable
            .map(|(party, _)| *party)
            .filter(|&party| !held(party))
            .collect()
    }
}

impl MixingPhase {
    /// Goes on with the exchange; its log is given once it is quiet. `false`: nothing more now.
    pub(super) fn step(mut self: Box<Self>, cx: &mut StepContext<'_>) -> (RunPhase, bool) {
        let Transfers { shares, circle, .. } = &mut self.transfers;
        shares.advance(cx.now);
        let unreachable = |party: Party| cx.peers.unreachable.contains_key(&party);
        let circle = circle.as_ref();
        if shares.is_quiet(cx.now) && circle.is_none_or(|circle| circle.is_quiet(cx.now, unreachable)) {
            (self.settle(cx), true)
        } else {
            (RunPhase::Mixing(self), false)
        }
    }

    /// Returns the moment to step again although nothing happened.
    pub(super) fn wake(&self, now: Time) -> Time {
        let circle = self.transfers.circle.as_ref();
        let circle = circle.map_or(Time::FAR, |circle| circle.wake());
        self.transfers.shares.wake(now).min(circle)
    }

    fn settle(self: Box<Self>, cx: &mut StepContext<'_>) -> RunPhase {
        let mut transfers = self.transfers;
        cx.public_state.event(Event::Phase(Phase::Settling));
        let clock = cx.config.settling_clock(cx.begun_at(), cx.is_sealed());
        // The log names them, so that the others can go on without their logs.
        let called = transfers.calls(&clock, cx);
        let mut log = transfers.shares.close(called.iter().copied().collect());
        // The exchange is closed by now: what is sealed is the very state that the log tells of.
        let seals = transfers.seals.as_deref_mut();
        let mut slices = Vec::new();
        log.sealed = match &mut transfers.circle {
            Some(circle) => {
                circle.close(&mut log);
                // Vectors went to their readers alone: this item has no body, and deals the secret
                // only.
                circle.take_deal().map(|deal| Sealed {
                    hash: item_hash(&[]),
                    bytes: 0,
                    deal,
                })
            }
            None => {
                let sealed = seals.and_then(|seals| seals.seal(&transfers.shares, cx));
                sealed.map(|(sealed, of_it)| {
                    slices = of_it;
                    sealed
                })
            }
        };
        cx.record.own_log = Some(log.clone());
        let hash = cx.public_state.give_log(log);
        // After the log: what fixes them is heard before they are.
        cx.public_state.place(slices);
        let agreement = Agreement::new(
            cx.config.electorate.clone(),
            Stage::Settling,
            cx.record.started.clone(),
            clock,
            called,
        );
        RunPhase::Settling(Box::new(SettlingPhase {
            left_with: transfers.seals.is_some().then_some(hash),
            transfers,
            agreement,
            early_rounds: EarlyRounds::default(),
        }))
    }
}

impl SettlingPhase {
    /// A step of the agreement on logs. `false`: it wants nothing more now.
    pub(super) fn step(mut self: Box<Self>, cx: &mut StepContext<'_>) -> (RunPhase, bool) {
        let agreement = &mut self.agreement;
        if cx.public_state.is_sliced() {
            let gone = cx.gone();
            cx.public_state.keep_slices(cx.now, agreement.clock(), &gone);
        }
        match cx
            .public_state
            .step(agreement, Stage::Settling, cx.now, &cx.peers.unreachable)
        {
            None => {
                self.notice_own_final(cx);
                return (RunPhase::Settling(self), false);
            }
            Some(Step::Say(notice)) => cx.public_state.say(notice),
            Some(Step::Vote { early, set }) => cx.public_state.vote(Stage::Settling, early, set),
            Some(Step::Over) => {
                cx.record.tally = self.transfers.shares.tally();
                cx.finish_withheld(
                    "no set of logs was agreed on in time; if all were up, raise run.settle_ms",
                );
            }
            Some(Step::Agreed(set)) => return (self.agreed(&set, cx), true),
        }
        (RunPhase::Settling(self), true)
    }

    /// Returns the moment to step again although nothing happened.
    pub(super) fn wake(&self, now: Time, unreachable: &BTreeMap<Party, Time>, sliced: bool) -> Time {
        let Clock {
            quarter,
            three_eighths,
            ..
        } = self.agreement.clock();
        let reports = [quarter, three_eighths].into_iter();
        let next = reports.filter(|&at| sliced && at > now).min();
        let agreement = self.agreement.wake(now, unreachable);
        next.map_or(agreement, |next| next.min(agreement))
    }

    /// Tells once that this node's sealed final is out of its hands: another party's list or vote
    /// names the log that it left with, and such a log counts as held only with what it seals.
    fn notice_own_final(&mut self, cx: &mut StepContext<'_>) {
        let me = cx.config.mixing.me;
        let (Some(own), Way::Sealed(finals)) = (self.left_with, &cx.public_state.rules.way) else {
            return;
        };
        let (flood, bytes) = (&cx.public_state.flood, finals.bytes() as u64);
        // This node has signed one log only: a list that has it has that one.
        let listed = flood
            .lists(Stage::Settling)
            .any(|list| list.author != me && list.held.has(me));
        let voted = flood.votes(Stage::Settling).any(|vote| {
            let names = |set: &ItemSet| set.binary_search(&(me, own)).is_ok();
            vote.signer != me && vote.set.is_some_and(names)
        });
        if listed || voted {
            self.left_with = None;
            cx.public_state.event(Event::Sealed(bytes));
        }
    }

    fn agreed(self: Box<Self>, set: &ItemSet, cx: &mut StepContext<'_>) -> RunPhase {
        let logs = set
            .iter()
            .filter_map(|(party, hash)| Some((*party, cx.public_state.log_named(*party, hash)?)));
        let logs: Arc<AgreedLogs> = Arc::new(logs.collect());
        // The others treat this node as departed: its final would not add up with theirs.
        if !logs.contains_key(&cx.config.mixing.me) {
            cx.withhold(cx.voted_out(set));
            cx.stays_closed();
        }
        cx.record.logs = Some(cx.to_be_judged(&logs));
        AuditingPhase::begin(self.transfers, logs, Audited::All(self.early_rounds), cx)
    }
}

impl StepContext<'_> {
    /// Returns the parties that this node finds unreachable, or that more than may lie call so.
    fn gone(&self) -> BTreeSet<Party> {
        let mut callers: BTreeMap<Party, BTreeSet<Party>> = BTreeMap::new();
        let said = self.public_state.flood.calls(Stage::Settling);
        for (&caller, called) in said.iter().chain(&self.public_state.in_logs) {
            for &party in called {
                callers.entry(party).or_default().insert(caller);
            }
        }
        let colluding = self.config.electorate.colluding;
        let called = callers
            .into_iter()
            .filter(|(_, callers)| callers.len() > colluding);
        let unreachable = self.peers.unreachable.keys().copied();
        called.map(|(party, _)| party).chain(unreachable).collect()
    }

    /// Returns the message that the agreed set lacks this node's log, and who signed it. A log that
    /// was flooded in time lacks only where somebody did not want it.
    fn voted_out(&self, set: &ItemSet) -> String {
        let votes = self.public_state.flood.votes(Stage::Settling);
        let signers = votes.filter(|vote| vote.set == Some(set)).map(|vote| vote.signer);
        let signers: Vec<Party> = signers.collect();
        format!(
            "the agreed set of logs does not hold this node's; it was signed by {}",
            self.config.names(&signers)
        )
    }
}
