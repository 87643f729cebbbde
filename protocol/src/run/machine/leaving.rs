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
use crate::publishing::way::Way;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::{Ending, Event, SealedFinal};
use crate::time::Time;
use crate::topology::party::Party;

impl Run {
    /// A neighbour takes no part. Nobody waits for more than those who are left: with too few of
    /// them the run ends at once.
    pub(super) fn declined(&mut self, peer: Party) {
        let Machine::Gathering { gathering, .. } = &mut self.machine else {
            return;
        };
        let has_signed = gathering.has_signed();
        let declined = gathering.presence.declined(peer);
        let draft = self.plan.draft();
        let (left, least) = (
            draft.members.len().saturating_sub(declined.len()),
            draft.run.min_parties,
        );
        if has_signed || left >= least {
            return;
        }
        let names: Vec<&str> = declined
            .iter()
            .map(|&party| draft.members[party].name.as_str())
            .collect();
        self.leave(format!(
            "{} declined: {left} of {} parties are left, min_parties is {least}; propose a plan without \
             them, or ask why",
            names.join(", "),
            draft.members.len()
        ));
    }

    /// Ends the run for this node before its time. No share that is still here leaves any more; if
    /// one has left, the final is withheld. Who has published its final already has that in its
    /// result, with what is here of the others'.
    pub(super) fn leave(&mut self, why: String) {
        let reason = self.reason_to_leave(&why);
        match &mut self.machine {
            Machine::Mixed { .. } | Machine::Over => {}
            Machine::Publishing { .. } if self.record.finished => {}
            Machine::Publishing {
                publication: Some(publication),
                ..
            } if publication.is_under_way() => {
                publication.leave();
                self.carry_out_publication();
            }
            Machine::Publishing { agreement, .. } => {
                let stage = agreement.stage();
                self.publish(stage, Step::Over);
            }
            Machine::Correcting { .. } | Machine::Opening { .. } if self.record.finished => {}
            Machine::Correcting { .. } | Machine::Opening { .. } => {
                self.finish(Ending::Withheld { reason }, Published::default());
            }
            Machine::Gathering { .. } | Machine::Awaiting | Machine::Spending { .. } => {
                self.withdraw();
                self.finish(Ending::Aborted { reason }, Published::default());
            }
            Machine::Mixing { exchange }
            | Machine::Settling { exchange, .. }
            | Machine::Auditing { exchange, .. } => {
                if exchange.recall_all() {
                    // How it ends is known with the answer.
                    self.leaving = Some(why);
                    return;
                }
                // A sealed final that has left may be opened, whether a share ever left or not;
                // shares of noise alone tell nothing.
                let shares_left = exchange.anything_left() && !self.course.ahead;
                let ending = if shares_left || self.record.sealed.is_some() {
                    Ending::Withheld { reason }
                } else {
                    Ending::Aborted { reason }
                };
                self.finish(ending, Published::default());
            }
        }
        self.machine = Machine::Over;
    }

    /// Tells the neighbours that this node needs nothing more of this run, and waits until they say
    /// so themselves. Only once; not if it has never begun.
    pub(crate) fn tell_finished(&mut self) {
        if self.stays_until.is_some() || self.record.started.is_empty() {
            return;
        }
        let stages = match &self.commons.rules.way {
            Way::Readable(finals) => finals.most_stages(),
            Way::Sealed(_) | Way::Kept => 1,
        };
        self.stays_until = Some(self.now.plus_millis(self.settle_ms.saturating_mul(stages)));
        self.commons.tell_finished();
        self.check_complete();
    }

    /// Tells once that nobody needs this node any more: each of its neighbours has ended or is
    /// gone, or was waited for long enough.
    pub(super) fn check_complete(&mut self) {
        let Some(until) = self.stays_until.filter(|_| !self.record.complete) else {
            return;
        };
        let ended = |party: &Party| {
            let is_in = self.record.started.contains(party);
            !is_in || self.commons.finished().contains(party) || self.gone.contains_key(party)
        };
        let mut neighbours = self.electorate.public.neighbours(self.course.me).iter();
        if self.now >= until || (neighbours.all(ended) && self.is_published()) {
            self.record.complete = true;
            self.commons.event(Event::Complete);
        }
    }

    /// Whether no neighbour needs this node any more, or was waited for long enough.
    pub(crate) fn is_complete(&self) -> bool {
        self.record.complete
    }

    /// A neighbour has gone on to the run after this one.
    pub(crate) fn has_gone_on(&mut self, peer: Party) {
        self.commons.has_finished(peer);
        self.check_complete();
    }

    /// When it waits no longer for its neighbours.
    pub(super) fn stays_until(&self) -> Time {
        let waits = self.stays_until.filter(|_| !self.record.complete);
        waits.unwrap_or(Time::FAR)
    }

    fn reason_to_leave(&self, why: &str) -> String {
        let mut reason = why.to_string();
        if self.record.sealed == Some(SealedFinal::Unknown) {
            reason += "; its sealed final has left, and the others may open it";
        }
        reason
    }

    /// What became of shares that were called back: the round ends, or this node leaves.
    pub(super) fn recalled(&mut self, recalled: &Recalled) {
        if let Some(exchange) = self.exchange() {
            exchange.recalled(recalled);
        }
        if let Some(why) = self.leaving.take() {
            self.leave(why);
        }
    }

    /// Leaves a run whose START others have given up, before it seals anything. Two things say that
    /// the run comes to nothing: a START of a higher number of more parties than may lie, of whom
    /// an honest one never begins with this one; or give-ups of more members than may lie and
    /// depart, so that fewer than `min_parties` remain. What is sealed already stays closed, and is
    /// charged.
    pub(super) fn leave_given_up_start(&mut self) -> bool {
        let is_open = matches!(self.machine, Machine::Mixing { .. } | Machine::Settling { .. });
        if !is_open || self.leaving.is_some() || self.record.sealed.is_some() {
            return false;
        }
        let (flood, number) = (&self.commons.flood, self.record.start_number);
        let later = flood.starters_after(number);
        let gave_up = self.record.started.iter().copied();
        let gave_up: BTreeSet<Party> = gave_up
            .filter(|&party| flood.given_up(number, party).is_some())
            .collect();
        let draft = self.plan.draft();
        let colluding = self.electorate.colluding;
        if later.len() <= colluding && gave_up.len() <= colluding + draft.privacy.dropouts {
            return false;
        }
        let names = later
            .union(&gave_up)
            .map(|&party| draft.members[party].name.as_str());
        let names: Vec<&str> = names.collect();
        self.leave(format!(
            "others have given up the START that this node began with, and go on without it: {}",
            names.join(", ")
        ));
        true
    }
}
