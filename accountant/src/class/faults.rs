//! The tolerated classes as executions (accountant/docs/guarantees.md).

use undertone_protocol::topology::party::Party;

use crate::class::setting::Setting;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::share::{Fate, ShareFault};

/// The share faults of the class with roll-back, next to the fault-free run: each share of a round
/// returned at the end of that round or of a later one, or accepted at the end of a later one.
/// (With a coalition that holds an end of it such a fault changes nothing that the coalition does
/// not know: the share is then a known vector, and so is what it adds elsewhere.)
///
/// With PPSC a state is only handed out whole: when a share joins it between two hand-outs changes
/// nothing, so that only the last round of each such stretch is listed, and an acceptance before
/// the receiver hands out again is none that is late.
pub fn single_shares(setting: &Setting) -> Vec<ShareFault> {
    let (rounds, rules) = (setting.rounds() as u32, setting.mechanism.rules());
    let mut faults = Vec::new();
    for (round, from, to) in shares(setting) {
        for applied in round..=rounds {
            let fault = |fate| ShareFault {
                round,
                from,
                to,
                fate,
                applied: Some(applied),
                seen: true,
            };
            if rules.tells_apart(&setting.out, from, applied) {
                faults.push(fault(Fate::Returned));
            }
            if applied > round
                && rules.tells_apart(&setting.out, to, applied)
                && !rules.joins_at_once(&setting.out, to, round, applied)
            {
                faults.push(fault(Fate::Accepted));
            }
        }
    }
    faults
}

/// Every share of the schedule, as (round, from, to).
pub fn shares(setting: &Setting) -> impl Iterator<Item = (u32, Party, Party)> {
    let indexed = |(index, parties): (usize, &Vec<Vec<Party>>)| {
        let shares: Vec<_> = parties
            .iter()
            .enumerate()
            .flat_map(|(from, out)| out.iter().map(move |&to| (index as u32 + 1, from, to)))
            .collect();
        shares
    };
    setting.out.iter().enumerate().flat_map(indexed)
}

/// A party that sends nothing from a round on, and publishes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// The party that crashes.
    pub party: Party,
    /// The first round in which it sends nothing.
    pub round: u32,
    /// Whether shares to it of that round are lost; else they stay with their senders, unseen.
    pub lost_at_once: bool,
    /// Whether shares to it of later rounds are lost; else they stay with their senders, unseen.
    pub lost_later: bool,
}

/// The run `base` of the setting with a crash.
pub fn crashed(setting: &Setting, base: &Execution, crash: Crash) -> Result<Execution, ExecutionError> {
    let Crash {
        party,
        round,
        lost_at_once,
        lost_later,
    } = crash;
    let rounds = setting.rounds() as u32;
    let online = (0..=rounds)
        .map(|t| {
            (0..setting.parties())
                .map(|other| other != party || t < round)
                .collect()
        })
        .collect();
    let lost = shares(setting)
        .filter(|&(t, _, to)| to == party && ((t == round && lost_at_once) || (t > round && lost_later)))
        .map(|(round, from, to)| ShareFault {
            round,
            from,
            to,
            fate: Fate::Lost,
            applied: None,
            seen: true,
        })
        .collect();
    base.clone().with_online(online)?.with_shares(lost)
}

/// The costliest faults for `party` before anything is published: it is cut off from all that do
/// not collude (all shares between it and honest parties stay with their senders), and no final is
/// seen.
pub fn cut_off(base: &Execution, party: Party, colluding: &[Party]) -> Result<Execution, ExecutionError> {
    let mut stay = Vec::new();
    for round in 1..=base.rounds() as u32 {
        for from in 0..base.parties() {
            for &to in base.out(round, from) {
                let other = if from == party { to } else { from };
                if (from == party || to == party) && !colluding.contains(&other) {
                    stay.push(ShareFault {
                        round,
                        from,
                        to,
                        fate: Fate::Returned,
                        applied: None,
                        seen: false,
                    });
                }
            }
        }
    }
    base.clone()
        .with_shares(stay)?
        .with_corrupted(colluding.iter().copied())?
        .with_published([])
}
