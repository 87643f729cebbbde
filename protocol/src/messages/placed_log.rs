//! A log as it travels: of each share that the schedule gives, in its order, what became of it.

use serde::{Deserialize, Serialize};

use crate::messages::log::{Answer, Log, ReceivedEntry, Sealed, SentEntry, Verdict};
use crate::messages::signature::Signature;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// The fate of a share that was due to be sent.
#[derive(Serialize, Deserialize)]
enum PlacedShare {
    /// No byte of it left.
    Kept,
    /// The share left, and was not answered.
    Unanswered,
    /// The receiver refused it, and signed that.
    Refused(Signature),
    /// The share joined the receiver's state so many rounds after its own, which signed that.
    Accepted(u32, Signature),
}

/// A log without the names of shares.
#[derive(Serialize, Deserialize)]
pub(super) struct PlacedLog {
    /// The shares sent by (round, receiver), as the schedule has them.
    sent: Vec<PlacedShare>,
    /// The shares received by (round, sender), as the schedule has them. Each is the number of
    /// rounds after its own in which it joined, and one; 0 if it did not.
    received: Vec<u32>,
    unreachable: Vec<Party>,
    sealed: Option<Sealed>,
}

/// The shares that a party is due to send, (round, receiver).
fn due_from(schedule: &Schedule, party: Party) -> impl Iterator<Item = (u32, Party)> {
    let rounds = 1..=schedule.rounds() as u32;
    rounds.flat_map(move |round| schedule.sends_to(round, party).iter().map(move |&to| (round, to)))
}

/// The shares that a party is due to receive, (round, sender).
fn due_to(schedule: &Schedule, party: Party) -> impl Iterator<Item = (u32, Party)> {
    let rounds = 1..=schedule.rounds() as u32;
    rounds.flat_map(move |round| {
        let senders = schedule.receives_from(round, party).into_iter();
        senders.map(move |from| (round, from))
    })
}

impl PlacedLog {
    /// Returns the statements of a log about the shares of the schedule.
    pub(super) fn of(log: &Log, schedule: &Schedule) -> Self {
        let sent = |(round, to)| {
            let entry = log
                .sent
                .iter()
                .find(|entry| (entry.round, entry.to) == (round, to));
            match entry.map(|entry| (entry.left, &entry.answer)) {
                Some((true, Some(Answer { verdict, signature }))) => match *verdict {
                    Verdict::Refused => PlacedShare::Refused(*signature),
                    Verdict::Accepted { applied } => {
                        PlacedShare::Accepted(applied.saturating_sub(round), *signature)
                    }
                },
                Some((true, None)) => PlacedShare::Unanswered,
                _ => PlacedShare::Kept,
            }
        };
        let received = |(round, from)| {
            let applied = log.applied(round, from);
            applied.map_or(0, |applied| applied.saturating_sub(round) + 1)
        };
        PlacedLog {
            sent: due_from(schedule, log.party).map(sent).collect(),
            received: due_to(schedule, log.party).map(received).collect(),
            unreachable: log.unreachable.clone(),
            sealed: log.sealed.clone(),
        }
    }

    /// The log of this party; `None` if it is not of all shares of the schedule.
    pub(super) fn log(self, party: Party, schedule: &Schedule) -> Option<Log> {
        let (due_from, due_to): (Vec<_>, Vec<_>) = (
            due_from(schedule, party).collect(),
            due_to(schedule, party).collect(),
        );
        if (due_from.len(), due_to.len()) != (self.sent.len(), self.received.len()) {
            return None;
        }
        let sent = due_from.into_iter().zip(self.sent).map(|((round, to), sent)| {
            let answered = |verdict, signature| Some(Answer { verdict, signature });
            let (left, answer) = match sent {
                PlacedShare::Kept => (false, None),
                PlacedShare::Unanswered => (true, None),
                PlacedShare::Refused(signature) => (true, answered(Verdict::Refused, signature)),
                PlacedShare::Accepted(late, signature) => {
                    let applied = round.checked_add(late)?;
                    (true, answered(Verdict::Accepted { applied }, signature))
                }
            };
            Some(SentEntry {
                round,
                to,
                left,
                answer,
            })
        });
        let received = due_to
            .into_iter()
            .zip(self.received)
            .filter(|(_, late)| *late > 0);
        let received = received.map(|((round, from), late)| {
            let applied = round.checked_add(late - 1)?;
            Some(ReceivedEntry { round, from, applied })
        });
        Some(Log {
            party,
            sent: sent.collect::<Option<_>>()?,
            received: received.collect::<Option<_>>()?,
            unreachable: self.unreachable,
            sealed: self.sealed,
        })
    }
}
