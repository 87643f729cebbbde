//! A node that has not run for a while: suspended, stopped, or its clock has jumped.
//!
//! *Before START* others may have given up and gone on. Its clock stands still for the time that it
//! missed, and it asks its neighbours for what they hold; it neither signs nor begins before more
//! than `colluding` of them, or all that it reaches, have sent that.
//!
//! *When its log was due, and it has sealed nothing:* after half of settling others list and sign
//! sets without it. Its clock stands still for the time that it missed, and it floods
//! [`Notice::Awake`]. Each member that still waits for logs (it has signed no set of them, and by
//! its own clock it is not at half of settling) answers by naming that arrival in a word of its
//! own; so do those that arrived late themselves. It goes on once a quorum, itself counted, has
//! said so within `settle_ms`: then most of the others have slept as long, or its clock alone is
//! wrong. Else it leaves. It has sealed nothing then: no log and no final of it is anywhere, and
//! where finals are sealed its run has cost it nothing.
//!
//! *Once it has sealed,* nothing more is told by waiting longer. Where it wakes after half of a
//! stage its clock stands still for the time that it missed: what others have agreed on meanwhile
//! counts as ever, and if they have slept as well the stage goes on. Nobody signs twice in a stage,
//! so that sets stay unique whatever clocks show. If the others have gone, it ends without a
//! result, and its run is charged: it does not know what became of what it has sealed.
//!
//! **Why no node seals that arrives after a set was agreed without it.** Let a quorum q of the n
//! members have signed a set before node i arrives. Node i has signed none: nobody signs a set
//! before its own log is out. Let i be confirmed: q members have said that they have signed no set,
//! in words that name this very arrival. A word of a follower of the protocol that names it was
//! signed after i said it, so after it arrived: numbers of arrivals are signed by i alone, and only
//! grow. The signers and those who confirm are q members each, so they have 2q − n > `colluding` in
//! common ([`crate::plan::quorum`]), and one of these follows the protocol. It is not i, and it has
//! signed a set and said afterwards that it has signed none: a contradiction. So what liars say
//! falsely, or repeat from earlier, has no node seal that arrives after the others have settled. A
//! set that is agreed without it after that, while its log is on the way, is one that it sees: what
//! it has sealed stays closed, and has cost it nothing, as that of anybody who is left out.
//!
//! Liars may say that they arrive late: each honest member then names it once more, at most
//! [`LateArrivals::MOST`] times for each of them, and never more than once in a 32nd of
//! `settle_ms`.

use crate::agreement::presence::silent_ms;
use crate::messages::notice::{LateArrivals, Notice};
use crate::run::machine::Run;
use crate::run::outcome::Event;
use crate::run::phase::RunPhase;
use crate::time::Time;

/// The divisor of `settle_ms` after which, once START is past, a node that is woken late has missed
/// something. Our choice: a busy machine holds up a process for less.
const MISSED: u64 = 8;

impl Run {
    /// This node was to run `missed_ms` ago, and would go on at `now`. True: its clock is to stand
    /// still for that long.
    pub(crate) fn oversleeps(&mut self, missed_ms: u64, now: Time) -> bool {
        if !self.has_missed(missed_ms) || self.record.finished {
            return false;
        }
        let missed = match &mut self.phase {
            RunPhase::Gathering(phase) => {
                phase.gathering.hold_back(self.now);
                self.public_state.ask_everybody();
                return true;
            }
            // Nothing of it settles.
            RunPhase::Spending(_) if self.config.plan.goes_on_by_task() => return true,
            // Before half of settling the others still wait for this node's log.
            RunPhase::Awaiting(_) | RunPhase::Spending(_) | RunPhase::Mixing(_) => {
                now >= self.settling_half()
            }
            RunPhase::Settling(phase) => now >= phase.agreement.half(),
            RunPhase::Correcting(phase) => now >= phase.agreement.half(),
            RunPhase::Publishing(phase) => {
                let publication = phase.publication.as_ref();
                publication.is_some_and(|it| it.is_under_way()) || now >= phase.agreement.half()
            }
            RunPhase::Opening(phase) => {
                let confirming = phase.confirmation.agreement();
                now >= confirming.map_or(phase.opening.clock().half, |it| it.half())
            }
            // Else the time for the gate's verdict would run out while nobody could compute it.
            RunPhase::Auditing(_) => true,
            RunPhase::HandedOver | RunPhase::Mixed(_) | RunPhase::Over => false,
        };
        if missed && self.has_sealed_nothing() {
            self.arrive_late(missed_ms);
        }
        missed
    }

    /// Whether a node that was to run so long ago has missed something.
    pub(crate) fn has_missed(&self, missed_ms: u64) -> bool {
        let silent_ms = silent_ms(
            self.config
                .electorate
                .public
                .neighbours(self.config.mixing.me)
                .len(),
        );
        missed_ms
            > match self.phase {
                RunPhase::Gathering(_) => silent_ms,
                _ => silent_ms.min(self.config.settle_ms / MISSED),
            }
    }

    /// Whether nothing that may be opened has left this node.
    fn has_sealed_nothing(&self) -> bool {
        let is_early = matches!(
            self.phase,
            RunPhase::Awaiting(_) | RunPhase::Spending(_) | RunPhase::Mixing(_)
        );
        is_early && self.record.sealed.is_none()
    }

    fn arrive_late(&mut self, missed_ms: u64) {
        let until = self.now.plus_millis(self.config.settle_ms);
        self.waking.arrive(missed_ms, self.now, until);
        // The others' words may have been flooded while it slept.
        self.public_state.hurry(self.now);
        self.public_state.event(Event::Fault(format!(
            "this node has not run for {} s, and arrives when its log was due: it seals nothing before \
             it knows that the others still wait for it",
            missed_ms.div_ceil(1000)
        )));
    }

    /// Returns the moment when lists of logs are due, as far as this node knows.
    pub(super) fn settling_half(&self) -> Time {
        match &self.phase {
            RunPhase::Settling(phase) => phase.agreement.half(),
            _ => {
                let begun_at = self.record.started_at.unwrap_or(self.now);
                let sealed = self.public_state.rules.stages.are_sealed();
                self.config.settling_clock(begun_at, sealed).half
            }
        }
    }

    /// Whether this node waits to know that others still wait for it.
    pub(super) fn waits_for_words(&self) -> bool {
        self.waking.waits().is_some()
    }

    /// Whether this node has signed no set of logs, and others may still count on it to wait.
    fn waits_for_logs(&self) -> bool {
        let waits = match &self.phase {
            RunPhase::Awaiting(_) | RunPhase::Spending(_) | RunPhase::Mixing(_) => true,
            RunPhase::Settling(phase) => !phase.agreement.has_voted(),
            _ => false,
        };
        waits && self.now < self.settling_half()
    }

    /// The late arrivals that this node has to say that it heard of, if it may say so and has not.
    fn unsaid_arrivals(&self) -> Option<Vec<LateArrivals>> {
        if !self.public_state.flood.says_of_waking() && !self.waits_for_words() {
            return None;
        }
        let heard = self.public_state.flood.late_arrivals();
        let arrivals = self.waking.with_own(self.config.mixing.me, heard);
        (self.waking.is_news(&arrivals) && self.waits_for_logs()).then_some(arrivals)
    }

    /// A step of waking. False: it wants nothing now.
    pub(super) fn step_waking(&mut self) -> bool {
        if self.now >= self.waking.next_word()
            && let Some(arrivals) = self.unsaid_arrivals()
        {
            // Others that wake at about the same time are answered together.
            let next_word = self.now.plus_millis((self.config.settle_ms / 32).max(1));
            self.waking.say(arrivals.clone(), next_word);
            self.public_state.say(Notice::Awake { arrivals });
            return true;
        }
        let Some((missed_ms, until)) = self.waking.waits() else {
            return false;
        };
        let arrival = self.waking.arrivals();
        let waiting = self
            .public_state
            .flood
            .waiting_after(self.config.mixing.me, arrival);
        let waiting = waiting
            .filter(|party| self.record.started.contains(party))
            .count();
        if waiting >= self.config.electorate.quorum {
            self.waking.end();
            // The mark was confirmed while this node waited for words, and mixing was held back.
            if matches!(&self.phase, RunPhase::Spending(phase) if phase.marked) {
                self.spent(Ok(()));
            }
            return true;
        }
        if self.now < until || self.is_leaving() {
            return false;
        }
        self.waking.end();
        self.leave(format!(
            "this node did not run for {} s, and the others have settled without it: within \
             settle_ms = {} that they still wait for logs was said by {waiting}, itself counted, of the {} \
             parties that it takes; it has sealed nothing",
            missed_ms.div_ceil(1000),
            self.config.settle_ms,
            self.config.electorate.quorum
        ));
        true
    }

    /// Returns the moment to look at it again although nothing happened.
    pub(super) fn waking_wake(&self) -> Time {
        let until = self.waking.waits().map_or(Time::FAR, |(_, until)| until);
        match self.unsaid_arrivals() {
            Some(_) => until.min(self.waking.next_word()),
            None => until,
        }
    }

    /// Lets a node that woke before START sign and begin, once it has heard what it missed.
    pub(super) fn step_informed(&mut self) {
        if let RunPhase::Gathering(phase) = &mut self.phase
            && phase.gathering.is_held_back()
            && self.public_state.is_informed()
        {
            phase.gathering.go_on();
        }
    }
}
