//! Receiving of neighbours' messages in rounds of averaging.

use crate::averaging::integers;
use crate::messages::notice::Round;
use crate::messages::wire::Bytes;
use crate::publishing::averaging::machine::{Averaging, Mode};
use crate::topology::party::Party;

impl Averaging {
    /// A signed round of a neighbour. What came before, or is of no use any more, is ignored; a
    /// neighbour cannot be two rounds ahead.
    pub fn round(&mut self, round: Round, values: Bytes) {
        let (author, number) = (round.author, round.round);
        let opens = number == 0;
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
        if !self.is_heard(author) || (opens && self.openings.contains_key(&author)) {
            return;
        }
        let (oldest, newest) = match &self.stage {
            Mode::Waiting => (0, 1),
            Mode::Rounds(fast) => match fast.wants() {
                Some(wanted) => (wanted, wanted + 1),
                None => return,
            },
            Mode::Holding(_) | Mode::GivenOut | Mode::Flooding(_) | Mode::Over => return,
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
        if let Err(reason) = self.check_length(author, number, values.len()) {
            return self.offence(author, reason);
        }
        self.inbox.put(&round, values);
        if opens && self.electorate.is_some() {
            self.check_opening(author);
        }
    }

    /// Whether what a neighbour says can be of use: it is in E, and it has not broken its word.
    fn is_heard(&self, author: Party) -> bool {
        let is_member = self.members().is_none_or(|members| members.contains(&author));
        is_member && !self.broken.contains(&author)
    }

    fn check_length(&self, author: Party, round: u32, found: usize) -> Result<(), String> {
        let coordinates = self.own.len();
        let expected = match &self.stage {
            _ if round == 0 => Some(coordinates * self.terms.opening_bytes),
            Mode::Rounds(fast) => fast.length(round),
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
        let Some(values) = self.inbox.take(author, 0) else {
            return;
        };
        let Some(&entry) = self
            .electorate
            .as_ref()
            .and_then(|electorate| electorate.entries.get(&author))
        else {
            return;
        };
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

    /// Messages that came before it was known whether they are of use, and how long they are.
    pub(super) fn recheck(&mut self) {
        for (key, length) in self.inbox.lengths() {
            let (author, round) = key;
            let heard = self.is_heard(author);
            let checked = self.check_length(author, round, length);
            if !heard || checked.is_err() {
                self.inbox.drop_of(author, round);
            }
            if let Err(reason) = checked
                && heard
            {
                self.offence(author, reason);
            }
        }
    }
}
