//! Executions from the agreed logs alone (protocol/docs/phases.md).

use std::collections::{BTreeMap, BTreeSet};

use undertone_protocol::messages::log::{self, AgreedLogs, LogError, SentEntry, ShareId, Verdict};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::share::{Fate, ShareFault};

/// The reasons why logs say nothing that a gate could rest on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LogsError {
    /// A log of somebody who is no party.
    #[error("there is a log of party {party}, but the plan has {parties} parties")]
    Unknown {
        /// The author of the log.
        party: Party,
        /// How many parties the plan has.
        parties: usize,
    },
    /// A log that contradicts the schedule.
    #[error("the log of {name}: {error}")]
    Log {
        /// The name of the log's author.
        name: String,
        /// The fault in the log.
        error: LogError,
    },
    /// The logs imply events that are no execution.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

/// Checks every log against the schedule, whoever checked them before: they may be hostile.
pub(crate) fn check(plan: &Plan, logs: &AgreedLogs) -> Result<(), LogsError> {
    for (&party, log) in logs {
        let Some(member) = plan.draft().members.get(party) else {
            return Err(LogsError::Unknown {
                party,
                parties: plan.parties(),
            });
        };
        log.check(party, plan.parties(), plan.exchanges())
            .map_err(|error| LogsError::Log {
                name: member.name.clone(),
                error,
            })?;
    }
    Ok(())
}

/// Shares between members of the agreed set that did not simply arrive in their round.
pub(crate) fn exceptions(plan: &Plan, logs: &AgreedLogs) -> Vec<ShareFault> {
    let fates = log::fates(logs, plan.rounds());
    let fault = |(id, fate): (ShareId, log::Fate)| {
        let ShareId { round, from, to } = id;
        match fate {
            log::Fate::Accepted { applied } if applied == round => None,
            log::Fate::Accepted { applied } => Some(ShareFault {
                round,
                from,
                to,
                fate: Fate::Accepted,
                applied: Some(applied),
                seen: true,
            }),
            log::Fate::Returned { applied, seen } => Some(ShareFault {
                round,
                from,
                to,
                fate: Fate::Returned,
                applied: Some(applied),
                seen,
            }),
        }
    };
    fates.into_iter().filter_map(fault).collect()
}

/// The fates of departed parties' shares by the logs; a share that these leave open counts as lost.
struct Reading {
    /// The last round in which each departed party shows a sign of life; it counts as online up to
    /// then.
    online_until: BTreeMap<Party, u32>,
    /// Exceptions of shares.
    faults: Vec<ShareFault>,
}

impl Reading {
    /// Reads the logs of the agreed set; everybody else has departed.
    ///
    /// A departed party is online up to the last round of which somebody of the set accepted a
    /// share of it. Of its own shares those that nobody of the set lists are lost. Of shares to it:
    /// no byte left: back in their round; refused: back in the last round; answered: accepted;
    /// unanswered: lost.
    fn of(plan: &Plan, logs: &AgreedLogs) -> Self {
        let rounds = plan.rounds();
        // How long the departed were there.
        let online_until = (0..plan.parties())
            .filter(|party| !logs.contains_key(party))
            .map(|party| {
                let received = logs.values().flat_map(|log| &log.received);
                let last = received
                    .filter(|entry| entry.from == party)
                    .map(|entry| entry.round)
                    .max();
                (party, last.unwrap_or(0))
            })
            .collect();
        let mut reading = Reading {
            online_until,
            faults: exceptions(plan, logs),
        };
        // What became of shares to them, and of their own.
        for (&from, log) in logs {
            for entry in log.sent.iter().filter(|entry| !logs.contains_key(&entry.to)) {
                reading.sent_to_departed(from, entry, rounds);
            }
        }
        for (&party, &until) in &reading.online_until.clone() {
            for round in 1..=until {
                for &to in plan.exchanges().sends_to(round, party) {
                    reading.sent_by_departed(
                        ShareId {
                            round,
                            from: party,
                            to,
                        },
                        logs,
                    );
                }
            }
        }
        reading
    }

    fn online(&self, party: Party, round: u32) -> bool {
        self.online_until.get(&party).is_none_or(|&until| round <= until)
    }

    fn sent_to_departed(&mut self, from: Party, entry: &SentEntry, rounds: u32) {
        let &SentEntry {
            round,
            to,
            left,
            ref answer,
        } = entry;
        let fault = |fate, applied, seen| ShareFault {
            round,
            from,
            to,
            fate,
            applied,
            seen,
        };
        match answer.as_ref().map(|answer| answer.verdict) {
            _ if !left => self.faults.push(fault(Fate::Returned, Some(round), false)),
            Some(Verdict::Refused) => self.faults.push(fault(Fate::Returned, Some(rounds), true)),
            Some(Verdict::Accepted { applied }) if self.online(to, applied) => {
                self.faults.push(fault(Fate::Accepted, Some(applied), true));
            }
            // Accepted, and never handed on.
            Some(Verdict::Accepted { .. }) => self.faults.push(fault(Fate::Lost, None, true)),
            None => self.faults.push(fault(Fate::Lost, None, true)),
        }
    }

    fn sent_by_departed(&mut self, id: ShareId, logs: &AgreedLogs) {
        let ShareId { round, from, to } = id;
        let fault = |fate, applied, seen| ShareFault {
            round,
            from,
            to,
            fate,
            applied,
            seen,
        };
        match logs.get(&to).map(|log| log.applied(round, from)) {
            Some(Some(applied)) if applied == round => {}
            Some(Some(applied)) => self.faults.push(fault(Fate::Accepted, Some(applied), true)),
            Some(None) => self.faults.push(fault(Fate::Lost, None, true)),
            // Between two departed parties: accepted if both were there; else it stays.
            None => {}
        }
    }

    fn execution(self, base: &Execution) -> Result<Execution, ExecutionError> {
        let parties = base.parties();
        let online = (0..=base.rounds() as u32)
            .map(|t| {
                (0..parties)
                    .map(|party| t == 0 || self.online(party, t))
                    .collect()
            })
            .collect();
        base.clone()
            .with_shares(vec![])?
            .with_online(online)?
            .with_shares(self.faults)
    }
}

/// The most likely execution (what nobody lists is lost), with the finals of `publishers` and, with
/// roll-back, everybody else rolled back: for the error of the result.
pub(crate) fn likely(
    plan: &Plan,
    base: &Execution,
    logs: &AgreedLogs,
    publishers: &BTreeSet<Party>,
) -> Result<Execution, LogsError> {
    check(plan, logs)?;
    let execution = Reading::of(plan, logs).execution(base)?;
    if !plan.draft().exchange.rolls_back() {
        return Ok(execution.with_published(publishers.iter().copied())?);
    }
    let departed = (0..plan.parties()).filter(|party| !publishers.contains(party));
    Ok(execution
        .with_published([])?
        .with_rolled_back(departed)?
        .with_published(publishers.iter().copied())?)
}

#[cfg(test)]
mod tests {
    use undertone_protocol::messages::log::{Answer, ReceivedEntry};
    use undertone_protocol::messages::signature::Signature;

    use super::*;
    use crate::class::setting::Setting;
    use crate::execution::share::ShareOutcome;
    use crate::testing::{logs, plan};

    fn answer(verdict: Verdict) -> Option<Answer> {
        Some(Answer {
            verdict,
            signature: Signature([0; 64]),
        })
    }

    fn outcome(fate: Fate, applied: u32, seen: bool) -> ShareOutcome {
        ShareOutcome { fate, applied, seen }
    }

    #[test]
    fn what_was_sent_to_a_silent_party_is_read_as_the_logs_allow() {
        let plan = plan(5, "[mechanism]\nrounds = 4");
        let base = Setting::of_plan(&plan)
            .expect("a plan")
            .fault_free()
            .expect("a schedule");
        let mut logs = logs(&plan, &[0, 1, 2, 3]);
        // Party 4 lived for three rounds: somebody has its share of round 3; that of round 2 is in
        // nobody's log.
        let to = plan.schedule().sends_to(3, 4)[0];
        let received = &mut logs.get_mut(&to).expect("a member").received;
        received.push(ReceivedEntry {
            round: 3,
            from: 4,
            applied: 4,
        });
        received.sort_by_key(|entry| (entry.round, entry.from));
        let senders: Vec<Party> = (1..=4)
            .map(|round| plan.schedule().receives_from(round, 4)[0])
            .collect();
        let mut sent = |round: usize, left: bool, answer: Option<Answer>| {
            let entry = &mut logs.get_mut(&senders[round - 1]).expect("a member").sent[round - 1];
            (entry.left, entry.answer) = (left, answer);
        };
        sent(1, false, None);
        sent(2, true, answer(Verdict::Refused));
        sent(3, true, None);
        sent(4, true, answer(Verdict::Accepted { applied: 4 }));
        let execution = Reading::of(&plan, &logs).execution(&base).expect("an execution");
        assert!(execution.online(3, 4) && !execution.online(4, 4));
        let fared = |round: u32| execution.outcome(round, senders[round as usize - 1], 4);
        assert_eq!(fared(1), outcome(Fate::Returned, 1, false));
        assert_eq!(fared(2), outcome(Fate::Returned, 4, true));
        assert_eq!(fared(3), outcome(Fate::Lost, 3, true));
        assert_eq!(
            fared(4),
            outcome(Fate::Lost, 4, true),
            "accepted, and never handed on"
        );
        assert_eq!(execution.outcome(3, 4, to), outcome(Fate::Accepted, 4, true));
    }
}
