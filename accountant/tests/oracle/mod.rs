//! The tolerated class by definition: every execution against every coalition, each view computed
//! with care. For the tests of few parties that bounds are held against.

use undertone_protocol::topology::party::Party;

use crate::class::coalitions;
use crate::class::faults::{self, Crash};
use crate::class::setting::Setting;
use crate::execution::checked::Execution;
use crate::execution::share::{Fate, ShareFault};
use crate::losses::loss::{Noise, scaled, squared_losses};
use crate::losses::view::View;
use crate::parallel::in_parallel;

/// Each share returned, or accepted late, in any round that it can be; without roll-back lost, too.
pub(crate) fn share_faults(setting: &Setting) -> Vec<ShareFault> {
    let rounds = setting.rounds() as u32;
    let mut list = Vec::new();
    for (round, from, to) in faults::shares(setting) {
        let fault = |fate, applied| ShareFault {
            round,
            from,
            to,
            fate,
            applied,
            seen: true,
        };
        list.extend((round..=rounds).map(|applied| fault(Fate::Returned, Some(applied))));
        list.extend((round + 1..=rounds).map(|applied| fault(Fate::Accepted, Some(applied))));
        list.extend((!setting.rollback).then(|| fault(Fate::Lost, None)));
    }
    list
}

/// Any party sending nothing from any round on, as without roll-back one may.
fn crashes(setting: &Setting) -> Vec<Execution> {
    if setting.rollback || setting.dropouts == 0 {
        return vec![];
    }
    let base = setting.fault_free().expect("a schedule");
    let rounds = setting.rounds() as u32;
    let mut list = Vec::new();
    for party in 0..setting.parties() {
        for round in 1..=rounds {
            for (lost_at_once, lost_later) in [(false, false), (false, true), (true, false), (true, true)] {
                let crash = Crash {
                    party,
                    round,
                    lost_at_once,
                    lost_later,
                };
                list.push(faults::crashed(setting, &base, crash).expect("an execution"));
            }
        }
    }
    list
}

/// Every execution of the class of a setting: without a fault, with one share astray, and, without
/// roll-back, with one crash.
pub(crate) fn executions(setting: &Setting) -> Vec<Execution> {
    let base = setting.fault_free().expect("a schedule");
    let faulted = share_faults(setting).into_iter();
    let faulted = faulted.map(|fault| base.clone().with_shares(vec![fault]).expect("a fault"));
    std::iter::once(base.clone())
        .chain(faulted)
        .chain(crashes(setting))
        .collect()
}

/// Returns every coalition of the class: as many as collude and, with roll-back, by Theorem R, as
/// many as depart.
pub(crate) fn coalitions(setting: &Setting) -> Vec<Vec<Party>> {
    let departed = if setting.rollback { setting.dropouts } else { 0 };
    coalitions::all(setting.parties(), setting.colluding + departed)
}

/// The squared losses, sensitivity included, of everybody outside of a coalition, at own noise of
/// variance 1 and noise that cancels of variance `ratio`.
pub(crate) fn losses(
    setting: &Setting,
    execution: &Execution,
    coalition: &[Party],
    ratio: f64,
) -> Vec<(Party, f64)> {
    let against = execution.clone().with_corrupted(coalition.iter().copied());
    let view = View::of(&against.expect("parties"));
    let noise = Noise {
        independent_std: 1.0,
        correlated_std: ratio.sqrt(),
    };
    let squares = squared_losses(&view, noise);
    let loss = |(&party, square)| (party, scaled(setting.sensitivity[party], square));
    view.honest.iter().zip(squares).map(loss).collect()
}

/// The largest squared loss of the class.
pub(crate) fn worst(setting: &Setting, ratio: f64) -> f64 {
    let executions = executions(setting);
    let coalitions = coalitions(setting);
    let of_execution = |index: usize| {
        let each = coalitions
            .iter()
            .flat_map(|coalition| losses(setting, &executions[index], coalition, ratio));
        Some(each.map(|(_, square)| square).fold(0.0, f64::max))
    };
    in_parallel(executions.len(), of_execution)
        .into_iter()
        .fold(0.0, f64::max)
}
