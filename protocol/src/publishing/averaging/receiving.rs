//! What a node takes of what its neighbours say in rounds of averaging.

use crate::averaging::integers;
use crate::messages::notice::{Form, Round};
use crate::messages::wire::Bytes;
use crate::publishing::averaging::machine::{Averaging, Mode};
use crate::topology::party::Party;

impl Averaging {
    /// A signed round of a neighbour. What came before, or is of no use any more, is ignored; a
    /// neighbour cannot be two rounds ahead.
    pub fn round(&mut self, round: Round, values: Bytes) {
        let Round {
            author,
            form,
            round: number,
            ..
        } = round;
        let opens = (form, number) == (Form::Fast, 0);
        let other_opening = opens
            && self
                .openings
                .get(&author)
                .is_some_and(|opening| *opening != values);
        if other_opening || self.inbox.is_second(&round) {
            return self.offence(
                author,
                format!("two different messages of round {number} of averaging"),
            );
        }
        if !self.is_heard(author, opens) || (opens && self.openings.contains_key(&author)) {
            return;
        }
        let (oldest, newest) = match (&self.stage, form) {
            (Mode::Waiting, Form::Fast) => (0, 1),
            (Mode::Fast(fast), Form::Fast) => (
                fast.wants().unwrap_or(u32::MAX),
                fast.wants().map_or(0, |wanted| wanted + 1),
            ),
            // Its round 1 takes this node's round 0.
            (Mode::Waiting | Mode::Fast(_), Form::Ratio) => (0, 0),
            // Openings still matter: whoever holds one can enter it. A neighbour that has not heard
            // of the fall-back yet goes on for a while.
            (Mode::Fallback { .. }, Form::Fast) if !opens => return,
            (Mode::Fallback { .. }, Form::Fast) => (0, 0),
            (Mode::Fallback { fallback, .. }, Form::Ratio) => (fallback.round(), fallback.round() + 1),
        };
        if number < oldest {
            return;
        }
        if number > newest {
            return self.offence(
                author,
                format!("round {number} of averaging, which it cannot have reached"),
            );
        }
        if let Err(reason) = self.check_length(author, form, number, values.len()) {
            return self.offence(author, reason);
        }
        self.inbox.put(&round, values);
        if opens && self.electorate.is_some() {
            self.check_opening(author);
        }
    }

    /// Whether what a neighbour says can be of use: it is in E, its edge is not cut (an opening is
    /// good all the same), and it has not broken its word.
    fn is_heard(&self, author: Party, opens: bool) -> bool {
        let member = self
            .electorate
            .as_ref()
            .is_none_or(|electorate| electorate.members.contains(&author));
        let live = match &self.stage {
            Mode::Fallback { fallback, .. } => opens || fallback.roles().live.contains(&author),
            _ => true,
        };
        member && live && !self.broken.contains(&author)
    }

    fn check_length(&self, author: Party, form: Form, round: u32, found: usize) -> Result<(), String> {
        let coordinates = self.own.len();
        let expected = match (form, &self.electorate, &self.stage) {
            (Form::Fast, _, _) if round == 0 => Some(coordinates * self.terms.opening_bytes),
            (Form::Fast, _, Mode::Fast(fast)) => fast.length(round),
            (Form::Ratio, Some(electorate), _) => Some((coordinates + 1) * electorate.ratio_width),
            // Its length follows from E, and is looked at again then.
            _ => (found <= (coordinates + 1) * 16).then_some(found),
        };
        match expected {
            Some(expected) if expected == found => Ok(()),
            Some(expected) => Err(format!(
                "round {round} of averaging has {found} bytes, expected {expected}"
            )),
            None => Err(format!(
                "party {author} sent round {round} of averaging, which the schedule does not have"
            )),
        }
    }

    /// Takes an opening out of the inbox and keeps it if it is what its author committed to.
    pub(super) fn check_opening(&mut self, author: Party) {
        let Some(arrival) = self.inbox.take(author, Form::Fast, 0) else {
            return;
        };
        let Some(&entry) = self
            .electorate
            .as_ref()
            .and_then(|electorate| electorate.entries.get(&author))
        else {
            return;
        };
        let values = arrival.values;
        let range = || {
            integers::read_narrow(&values, self.terms.opening_bytes)
                .map(i64::unsigned_abs)
                .max()
                .unwrap_or(0)
        };
        if !entry.is_of(&values) {
            self.breaks(author, "an opening that is not the one that it announced");
        } else if range() != entry.range {
            // The rounds and the bound of everybody's result rest on it.
            self.breaks(author, "an opening that has not the range that it announced");
        } else {
            self.openings.insert(author, values);
        }
    }

    /// Messages that came before it could be told whether they are of use, and how long they are.
    pub(super) fn recheck(&mut self) {
        for (key, length) in self.inbox.lengths() {
            let (author, form, round) = key;
            let heard = self.is_heard(author, (form, round) == (Form::Fast, 0));
            let checked = self.check_length(author, form, round, length);
            if !heard || checked.is_err() {
                self.inbox
                    .retain(|author, form, round| (author, form, round) != key);
            }
            if let Err(reason) = checked
                && heard
            {
                self.offence(author, reason);
            }
        }
    }
}
