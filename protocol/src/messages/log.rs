//! Value-free logs of what happened to shares: the items of the first agreement, and all that
//! execution, gate and receipt are computed from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::messages::notice::ItemHash;
use crate::messages::signature::Signature;
use crate::sealing::deal::{CheckedDeal, Deal, DealError};
use crate::sealing::holders::Threshold;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// A share's name within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShareId {
    /// The round that it belongs to, 1…T.
    pub round: u32,
    /// The party that hands the share out.
    pub from: Party,
    /// The party that is due to get the share.
    pub to: Party,
}

/// A receiver's verdict on a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The share's mass joined the receiver's state at the end of this round.
    Accepted {
        /// The number of that round, from the share's own to the last.
        applied: u32,
    },
    /// The share's mass did not join the receiver's state and never will.
    Refused,
}

/// A receiver's answer with its signature over (`undertone/answer/1`, digest, share, verdict).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the share was accepted or refused.
    pub verdict: Verdict,
    /// The signature by the receiver's key.
    pub signature: Signature,
}

/// A share that the log's party was due to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentEntry {
    /// The round in which the share is due.
    pub round: u32,
    /// The party that the share is for.
    pub to: Party,
    /// Whether any byte of it was handed to the transport by the end of its round. If not, it is
    /// back in the sender's state since then and was never sent.
    pub left: bool,
    /// The receiver's answer, if one came.
    pub answer: Option<Answer>,
}

/// A share that the log's party accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedEntry {
    /// The round in which the share is due.
    pub round: u32,
    /// The party that sends the share.
    pub from: Party,
    /// The round at whose end its mass joined the state.
    pub applied: u32,
}

/// The commitment to a party's sealed state: its state as its log has it, under its own mask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// SHA-256 of the sealed vector's bytes, which travel apart; where they travel in slices the
    /// root of the [tree](crate::sealing::slice_tree) over these.
    pub hash: ItemHash,
    /// The number of the sealed bytes.
    pub bytes: u64,
    /// The secret that the mask follows from, dealt out.
    pub deal: Deal,
}

/// The plan's terms for everything that is sealed in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealTerms {
    /// The number of shares that make a secret known, and the number of holders.
    pub threshold: Threshold,
    /// The bytes of a sealed vector.
    pub bytes: u64,
}

/// One party's log. Value-free: it may be read by anyone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// The party whose log it is.
    pub party: Party,
    /// Every share that it was due to send, by (round, to).
    pub sent: Vec<SentEntry>,
    /// Every share that it accepted, by (round, from).
    pub received: Vec<ReceivedEntry>,
    /// Members of START that it found gone and whose log it did not hold, ascending.
    pub unreachable: Vec<Party>,
    /// The sealed state, where the plan seals.
    pub sealed: Option<Sealed>,
}

/// The logs of an agreed set, by party.
pub type AgreedLogs = BTreeMap<Party, Log>;

/// An error in a log: it is not taken, whoever signed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// A log of somebody else than its author.
    #[error("the log is of party {found}, not of its author {expected}")]
    Party {
        /// The party that the log names.
        found: Party,
        /// The party that signed the log.
        expected: Party,
    },
    /// Not exactly the shares that the schedule gives, in order.
    #[error("the log's sent shares are not those of the schedule")]
    Sent,
    /// An answer to a share of which no byte left, or one that names an impossible round.
    #[error("the log has an impossible answer to its share of round {round} to {to}")]
    Answer {
        /// The round in which the share is due.
        round: u32,
        /// The party that the share is for.
        to: Party,
    },
    /// A share that was not due, twice the same, or an impossible round.
    #[error("the log lists a share of round {round} from {from}, applied in {applied}, that cannot be")]
    Received {
        /// The round in which the share is due.
        round: u32,
        /// The party that sends the share.
        from: Party,
        /// The round in which it is said to have joined.
        applied: u32,
    },
    /// Not ascending, itself, or no party.
    #[error("the log's list of gone parties is not one")]
    Unreachable,
    /// Something is sealed in a plan that seals nothing, or nothing in one that does.
    #[error("the log seals something although the plan does not, or nothing although it does")]
    Sealed,
    /// A sealed vector of another length than the plan's.
    #[error("the log seals a vector of {found} bytes, not {expected}")]
    SealedBytes {
        /// The bytes that the log names.
        found: u64,
        /// The bytes that the plan gives.
        expected: u64,
    },
    /// A deal that is none.
    #[error("the log's deal: {0}")]
    Deal(#[from] DealError),
}

impl Log {
    /// Checks a log of `author` against the schedule. A function of the log alone: everybody takes
    /// it or nobody does.
    pub fn check(&self, author: Party, parties: usize, schedule: &Schedule) -> Result<(), LogError> {
        if self.party != author {
            return Err(LogError::Party {
                found: self.party,
                expected: author,
            });
        }
        let rounds = schedule.rounds() as u32;
        let due = (1..=rounds).flat_map(|round| {
            schedule
                .sends_to(round, author)
                .iter()
                .map(move |&to| (round, to))
        });
        if !due.eq(self.sent.iter().map(|entry| (entry.round, entry.to))) {
            return Err(LogError::Sent);
        }
        for entry in &self.sent {
            let possible = match entry.answer.as_ref().map(|answer| answer.verdict) {
                None => true,
                Some(Verdict::Refused) => entry.left,
                Some(Verdict::Accepted { applied }) => {
                    entry.left && (entry.round..=rounds).contains(&applied)
                }
            };
            if !possible {
                return Err(LogError::Answer {
                    round: entry.round,
                    to: entry.to,
                });
            }
        }
        let mut before = None;
        for &ReceivedEntry { round, from, applied } in &self.received {
            let due = from < parties && schedule.sends_to(round, from).contains(&author);
            if !due || !(round..=rounds).contains(&applied) || before >= Some((round, from)) {
                return Err(LogError::Received { round, from, applied });
            }
            before = Some((round, from));
        }
        let ascending = self.unreachable.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending
            || self
                .unreachable
                .iter()
                .any(|&party| party == author || party >= parties)
        {
            return Err(LogError::Unreachable);
        }
        Ok(())
    }

    /// Checks what the log says of sealing against the plan, `terms` being none where it seals
    /// nothing; the deal, where there is one. A function of log and terms alone, as
    /// [`check`](Log::check) is.
    ///
    /// # Errors
    /// The log is not taken.
    pub fn check_sealed(&self, terms: Option<&SealTerms>) -> Result<Option<CheckedDeal>, LogError> {
        let (sealed, terms) = match (&self.sealed, terms) {
            (None, None) => return Ok(None),
            (Some(sealed), Some(terms)) => (sealed, terms),
            _ => return Err(LogError::Sealed),
        };
        let (found, expected) = (sealed.bytes, terms.bytes);
        if found != expected {
            return Err(LogError::SealedBytes { found, expected });
        }
        let threshold = terms.threshold;
        Ok(Some(sealed.deal.check(threshold.needed(), threshold.holders())?))
    }

    /// The round in which this party says that it took the share in.
    pub fn applied(&self, round: u32, from: Party) -> Option<u32> {
        let place = self
            .received
            .binary_search_by_key(&(round, from), |entry| (entry.round, entry.from))
            .ok()?;
        Some(self.received[place].applied)
    }
}

/// The fate of a share's mass between two members of an agreed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The share joined its receiver at the end of this round.
    Accepted {
        /// The round R at whose end it joined.
        applied: u32,
    },
    /// The share joined its sender again at the end of this round.
    Returned {
        /// The round R at whose end it joined.
        applied: u32,
        /// Whether the receiver may have read it.
        seen: bool,
    },
}

/// The fate of every share between members of the agreed set, from their logs alone: one of which
/// no byte left has been back since the end of its round, whatever the receiver lists; of those
/// that left, what the receiver lists is accepted in the round that it lists; all others, refused
/// ones included, go back in the last round.
pub fn fates(logs: &AgreedLogs, rounds: u32) -> BTreeMap<ShareId, Fate> {
    let between = |(&from, log): (&Party, &Log)| {
        let entries = log.sent.iter().filter(|entry| logs.contains_key(&entry.to));
        let fate = |entry: &SentEntry| {
            let id = ShareId {
                round: entry.round,
                from,
                to: entry.to,
            };
            let fate = if !entry.left {
                Fate::Returned {
                    applied: entry.round,
                    seen: false,
                }
            } else if let Some(applied) = logs[&entry.to].applied(entry.round, from) {
                Fate::Accepted { applied }
            } else {
                Fate::Returned {
                    applied: rounds,
                    seen: true,
                }
            };
            (id, fate)
        };
        entries.map(fate).collect::<Vec<_>>()
    };
    logs.iter().flat_map(between).collect()
}

/// Members whose log denies what they signed for: another's log has their signature that a share
/// was accepted in a round, and their own log has that share not, or in another round. Answers in
/// logs are checked before a log is taken, so that nobody can be made a liar by somebody else.
pub fn deniers(logs: &AgreedLogs) -> BTreeSet<Party> {
    let denied_by = |(&from, log): (&Party, &Log)| {
        let accepted = |entry: &&SentEntry| match entry.answer.as_ref().map(|answer| answer.verdict) {
            Some(Verdict::Accepted { applied }) => logs
                .get(&entry.to)
                .is_some_and(|receiver| receiver.applied(entry.round, from) != Some(applied)),
            _ => false,
        };
        let denied = log.sent.iter().filter(accepted);
        denied.map(|entry| entry.to).collect::<Vec<_>>()
    };
    logs.iter().flat_map(denied_by).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealing::holders::Tolerance;
    use crate::topology::graph::Graph;

    fn schedule() -> Schedule {
        Schedule::draw(&Graph::complete(4), 1, 3, 7).expect("three neighbours each")
    }

    fn log_of(party: Party, schedule: &Schedule) -> Log {
        let sent = (1..=3)
            .map(|round| SentEntry {
                round,
                to: schedule.sends_to(round, party)[0],
                left: true,
                answer: None,
            })
            .collect();
        let received = (1..=3)
            .flat_map(|round| {
                schedule
                    .receives_from(round, party)
                    .into_iter()
                    .map(move |from| (round, from))
            })
            .map(|(round, from)| ReceivedEntry {
                round,
                from,
                applied: round,
            })
            .collect();
        Log {
            party,
            sent,
            received,
            unreachable: Vec::new(),
            sealed: None,
        }
    }

    fn sealed(bytes: u64, commitments: usize, letters: usize) -> Log {
        // The neutral element, which is a point.
        let (commitments, letters) = (vec![[0; 32]; commitments], vec![[7; 80]; letters]);
        let (hash, deal) = ([9; 32], Deal { commitments, letters });
        Log {
            sealed: Some(Sealed { hash, bytes, deal }),
            ..log_of(2, &schedule())
        }
    }

    #[test]
    fn a_log_seals_what_the_plan_says_and_nothing_else() {
        let tolerance = Tolerance {
            members: 8,
            started: 8,
            colluding: 1,
            dropouts: 1,
        };
        let threshold = Threshold::of(tolerance).expect("enough members");
        let terms = Some(&SealTerms { threshold, bytes: 24 });
        let deal = sealed(24, 3, 4).check_sealed(terms).expect("as the plan says");
        assert_eq!(deal.map(|deal| deal.threshold()), Some(3));
        let plain = log_of(2, &schedule());
        assert_eq!(plain.check_sealed(None), Ok(None));
        assert_eq!(plain.check_sealed(terms), Err(LogError::Sealed));
        assert_eq!(sealed(24, 3, 4).check_sealed(None), Err(LogError::Sealed));
        let (found, expected) = (25, 24);
        assert_eq!(
            sealed(25, 3, 4).check_sealed(terms),
            Err(LogError::SealedBytes { found, expected })
        );
        for (commitments, letters) in [(2, 4), (4, 4), (3, 3), (3, 5), (0, 0)] {
            let refused = sealed(24, commitments, letters).check_sealed(terms);
            assert!(
                matches!(refused, Err(LogError::Deal(_))),
                "{commitments} {letters}"
            );
        }
        let mut no_point = sealed(24, 3, 4);
        no_point.sealed.as_mut().expect("it is").deal.commitments[1] = [0xff; 32];
        let refused = no_point.check_sealed(terms);
        assert_eq!(refused, Err(LogError::Deal(DealError::Point { index: 1 })));
    }

    #[test]
    fn a_log_is_taken_only_as_the_schedule_allows() {
        let schedule = schedule();
        let good = log_of(2, &schedule);
        assert_eq!(good.check(2, 4, &schedule), Ok(()));
        assert_eq!(
            good.check(1, 4, &schedule),
            Err(LogError::Party {
                found: 2,
                expected: 1
            })
        );
        let broken = |change: &dyn Fn(&mut Log)| {
            let mut log = good.clone();
            change(&mut log);
            log.check(2, 4, &schedule)
        };
        assert_eq!(broken(&|log| log.sent.truncate(2)), Err(LogError::Sent));
        let from = good.received[1].from;
        assert_eq!(
            broken(&|log| log.received[1].applied = 1),
            Err(LogError::Received {
                round: 2,
                from,
                applied: 1
            })
        );
        assert_eq!(
            broken(&|log| log.received[1].applied = 4),
            Err(LogError::Received {
                round: 2,
                from,
                applied: 4
            })
        );
        assert!(broken(&|log| log.received[1] = log.received[0]).is_err());
        assert!(broken(&|log| log.received[1].from = usize::MAX).is_err());
        assert_eq!(
            broken(&|log| log.unreachable = vec![2]),
            Err(LogError::Unreachable)
        );
        assert_eq!(
            broken(&|log| log.unreachable = vec![3, 1]),
            Err(LogError::Unreachable)
        );
        assert!(
            broken(&|log| {
                log.sent[0].left = false;
                log.sent[0].answer = Some(Answer {
                    verdict: Verdict::Refused,
                    signature: Signature([0; 64]),
                });
            })
            .is_err()
        );
    }

    #[test]
    fn who_denies_its_signature_is_found_and_nobody_else() {
        let schedule = schedule();
        let mut logs: AgreedLogs = (0..4).map(|party| (party, log_of(party, &schedule))).collect();
        // Everybody signed for everything.
        for log in logs.values_mut() {
            for entry in &mut log.sent {
                let applied = entry.round;
                entry.answer = Some(Answer {
                    verdict: Verdict::Accepted { applied },
                    signature: Signature([0; 64]),
                });
            }
        }
        assert_eq!(deniers(&logs), BTreeSet::new());
        let to = schedule.sends_to(2, 0)[0];
        let mut without = logs.clone();
        let received = &mut without.get_mut(&to).expect("there").received;
        received.retain(|entry| (entry.round, entry.from) != (2, 0));
        assert_eq!(deniers(&without), BTreeSet::from([to]));
        let mut later = logs.clone();
        let received = &mut later.get_mut(&to).expect("there").received;
        let entry = received
            .iter_mut()
            .find(|entry| (entry.round, entry.from) == (2, 0));
        entry.expect("due").applied = 3;
        assert_eq!(deniers(&later), BTreeSet::from([to]));
        // A refusal, or no answer, is denied by nobody; nor is a share to somebody outside.
        let sent = &mut without.get_mut(&0).expect("there").sent[1];
        sent.answer = None;
        assert_eq!(deniers(&without), BTreeSet::new());
        logs.remove(&to);
        assert_eq!(deniers(&logs), BTreeSet::new());
    }

    #[test]
    fn fates_follow_sender_then_receiver() {
        let schedule = schedule();
        let mut logs: AgreedLogs = (0..4).map(|party| (party, log_of(party, &schedule))).collect();
        let share = |round, from| ShareId {
            round,
            from,
            to: schedule.sends_to(round, from)[0],
        };
        let (unsent, late, unlisted) = (share(1, 0), share(2, 0), share(1, 1));
        logs.get_mut(&0).expect("there").sent[0].left = false;
        let received = &mut logs.get_mut(&late.to).expect("there").received;
        received
            .iter_mut()
            .find(|entry| (entry.round, entry.from) == (2, 0))
            .expect("due")
            .applied = 3;
        logs.get_mut(&unlisted.to)
            .expect("there")
            .received
            .retain(|entry| (entry.round, entry.from) != (1, 1));
        let fates = fates(&logs, 3);
        assert_eq!(fates.len(), 12);
        assert_eq!(
            fates[&unsent],
            Fate::Returned {
                applied: 1,
                seen: false
            }
        );
        assert_eq!(fates[&late], Fate::Accepted { applied: 3 });
        assert_eq!(
            fates[&unlisted],
            Fate::Returned {
                applied: 3,
                seen: true
            }
        );
        assert_eq!(fates[&share(3, 2)], Fate::Accepted { applied: 3 });
    }
}
