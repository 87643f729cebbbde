//! A node that is told to leave before the run is over, and one whose run is over.
//!
//! Who has its result may be the only one that a neighbour can still get from what it lacks: a
//! secret, whose owner has told it and left, travelled over an edge on which it vanished. So it
//! stays until each public neighbour has said that it has ended as well
//! ([`Notice::Finished`](crate::messages::notice::Notice::Finished)), or is found gone; one
//! `settle_ms` at most, however many keep silent. Meanwhile it answers their summaries: who lacks
//! nothing asks for nothing, so that no run without faults pays for what others might lack. Each
//! has everything from somebody who has it, however far it came: whoever lacks it has a neighbour
//! that has it and is still there, or one that lacks it, too, and waits for it.

use std::collections::BTreeSet;

use crate::agreement::agreeing::Step;
use crate::mixing::ticket::Recalled;
use crate::publishing::interface::Published;
use crate::run::context::StepContext;
use crate::run::machine::Run;
use crate::run::outcome::{Ending, Event, SealedFinal};
use crate::run::phase::{PublishingPhase, RunPhase, Transfers};
use crate::time::Time;
use crate::topology::party::Party;

impl Run {
    /// A neighbour takes no part. Nobody waits for more than those who are left: with too few of
    /// them the run ends at once.
    pub(super) fn declined(&mut self, peer: Party) {
        let RunPhase::Gathering(phase) = &mut self.phase else {
            return;
        };
        let has_signed = phase.gathering.has_signed();
        let declined = phase.gathering.presence.declined(peer);
        let draft = self.config.plan.draft();
        let (left, least) = (
            draft.members.len().saturating_sub(declined.len()),
            draft.run.min_parties,
        );
        // A START that this node has signed may be joined by others, who decide by it who begins.
        if has_signed || left >= least {
            return;
        }
        let why = format!(
            "{} declined: {left} of {} parties are left, min_parties is {least}; propose a plan without \
             them, or ask why",
            self.config.names(declined),
            draft.members.len()
        );
        self.leave(why);
    }

    /// Ends the run for this node before its time. No share that is still here leaves any more; if
    /// one has left, the final is withheld. Who has published its final already has that in its
    /// result, with what is here of the others'.
    pub(super) fn leave(&mut self, why: String) {
        self.transition(|mut phase, cx| {
            phase.leave(why, cx);
            phase
        });
    }

    /// Whether it waits to know what has left it, and leaves then.
    pub(super) fn is_leaving(&self) -> bool {
        let transfers = self.phase.transfers();
        transfers.is_some_and(|transfers| transfers.leaving.is_some())
    }

    /// Tells the neighbours that this node needs nothing more of this run, and waits until they say
    /// so themselves. Only once; not if it has never begun.
    pub(crate) fn tell_finished(&mut self) {
        self.parts().1.tell_finished();
        self.check_complete();
    }

    /// Tells once that nobody needs this node any more: each of its neighbours has ended or is
    /// gone, or was waited for long enough.
    pub(super) fn check_complete(&mut self) {
        let Some(until) = self.record.stays_until.filter(|_| !self.record.complete) else {
            return;
        };
        let ended = |party: &Party| {
            let is_in = self.record.started.contains(party);
            !is_in
                || self.public_state.finished().contains(party)
                || self.peers.unreachable.contains_key(party)
        };
        let mut neighbours = self
            .config
            .electorate
            .public
            .neighbours(self.config.mixing.me)
            .iter();
        if self.now >= until || (neighbours.all(ended) && self.is_published()) {
            self.record.complete = true;
            self.public_state.event(Event::Complete);
        }
    }

    /// Whether no neighbour needs this node any more, or was waited for long enough.
    pub(crate) fn is_complete(&self) -> bool {
        self.record.complete
    }

    /// A neighbour has gone on to the run after this one.
    pub(crate) fn has_gone_on(&mut self, peer: Party) {
        self.public_state.has_finished(peer);
        self.check_complete();
    }

    /// Returns the moment when it waits no longer for its neighbours.
    pub(super) fn stays_until(&self) -> Time {
        let waits = self.record.stays_until.filter(|_| !self.record.complete);
        waits.unwrap_or(Time::FAR)
    }

    /// Whether the others' votes are here and nobody's publishing needs this node any more, as far
    /// as it knows; where nothing is published, always.
    fn is_published(&self) -> bool {
        let withheld = self.record.withheld.is_some();
        match &self.phase {
            RunPhase::Publishing(phase) => phase.is_over(&self.public_state, &self.peers, withheld),
            _ => true,
        }
    }

    /// The fate of shares that were called back: the round ends, or this node leaves.
    pub(super) fn recalled(&mut self, recalled: &Recalled) {
        let Some(transfers) = self.phase.transfers_mut() else {
            return;
        };
        transfers.shares.recalled(recalled);
        // Only now it is known whether a share has left, on which the ending depends.
        if let Some(why) = transfers.leaving.take() {
            self.leave(why);
        }
    }

    /// Leaves a run whose START others have given up, before it seals anything. Two things say that
    /// the run comes to nothing: a START of a higher number of more parties than may lie, of whom
    /// an honest one never begins with this one; or give-ups of more members than may lie and
    /// depart, so that fewer than `min_parties` remain. What is sealed already stays closed, and is
    /// charged.
    pub(super) fn leave_given_up_start(&mut self) -> bool {
        let is_open = matches!(self.phase, RunPhase::Mixing(_) | RunPhase::Settling(_));
        if !is_open || self.is_leaving() || self.record.sealed.is_some() {
            return false;
        }
        let (flood, number) = (&self.public_state.flood, self.record.start_number);
        let later = flood.starters_after(number);
        let gave_up = self.record.started.iter().copied();
        let gave_up: BTreeSet<Party> = gave_up
            .filter(|&party| flood.given_up(number, party).is_some())
            .collect();
        let draft = self.config.plan.draft();
        let colluding = self.config.electorate.colluding;
        if later.len() <= colluding && gave_up.len() <= colluding + draft.privacy.dropouts {
            return false;
        }
        let names = self.config.names(later.union(&gave_up));
        self.leave(format!(
            "others have given up the START that this node began with, and go on without it: {names}"
        ));
        true
    }
}

impl RunPhase {
    /// Ends the run for this node, unless it waits for what has left it.
    fn leave(&mut self, why: String, cx: &mut StepContext<'_>) {
        let mut reason = why.clone();
        if cx.record.sealed == Some(SealedFinal::Unknown) {
            reason += "; its sealed final has left, and the others may open it";
        }
        match self {
            RunPhase::HandedOver | RunPhase::Mixed(_) | RunPhase::Over => return,
            RunPhase::Publishing(_) | RunPhase::Correcting(_) | RunPhase::Opening(_)
                if cx.record.finished => {}
            RunPhase::Publishing(phase) => phase.leave(cx),
            RunPhase::Correcting(_) | RunPhase::Opening(_) => {
                cx.finish(Ending::Withheld { reason }, Published::default());
            }
            RunPhase::Gathering(phase) => {
                phase.withdraw(cx);
                cx.abort(reason);
            }
            // No share leaves before the mark is confirmed: nothing private is out.
            RunPhase::Awaiting(_) | RunPhase::Spending(_) => cx.abort(reason),
            RunPhase::Mixing(_) | RunPhase::Settling(_) | RunPhase::Auditing(_) => {
                let Some(transfers) = self.transfers_mut() else {
                    return;
                };
                if transfers.shares.recall_all() {
                    // How it ends is known with the answer.
                    transfers.leaving = Some(why);
                    return;
                }
                transfers.leave(reason, cx);
            }
        }
        *self = RunPhase::Over;
    }
}

impl Transfers {
    /// A sealed final that has left may be opened, whether a share ever left or not; shares of
    /// noise alone tell nothing.
    fn leave(&self, reason: String, cx: &mut StepContext<'_>) {
        cx.record.tally = self.shares.tally();
        let shares_left = self.shares.anything_left() && !cx.config.mixing.precomputed;
        if shares_left || cx.record.sealed.is_some() {
            cx.finish(Ending::Withheld { reason }, Published::default());
        } else {
            cx.abort(reason);
        }
    }
}

impl PublishingPhase {
    /// This node's result is what is here by now.
    fn leave(&mut self, cx: &mut StepContext<'_>) {
        match &mut self.publication {
            Some(publication) if publication.is_under_way() => {
                publication.leave();
                self.carry_out(cx);
            }
            _ => self.publish(Step::Over, cx),
        }
    }
}
