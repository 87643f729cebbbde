//! Bounds on the losses of a whole tolerated class. A plan's noise, its claims, its gate and an
//! attack on it all take them from this one place.
//!
//! There is a ladder, and whoever asks stands on its highest rung that holds: Theorem C computed
//! for every coalition, with any one share astray ([`Flows`], up to some fifty parties); its closed
//! form for all coalitions of that size ([`ConnectedClass`]); and, always, local noise, Δ/σ*
//! (sensitivity over a party's own noise).
//!
//! Squared losses are stated at σ* = 1 with r = σ_Δ²/σ*² (σ* the deviation of a party's own noise,
//! σ_Δ that of the noise that cancels): all losses scale, μ² = F(r)/σ*².

use std::collections::BTreeSet;

use undertone_protocol::plan::claim::{ConnectivityBasis, Established};
use undertone_protocol::topology::party::Party;

use crate::bounds::before_publishing;
use crate::bounds::closed_form::ConnectedClass;
use crate::bounds::flows::{CoalitionSet, Flows, MOST_PRODUCTS, products_of};
use crate::class::coalitions;
use crate::class::setting::Setting;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::share::{Fate, ShareFault};
use crate::losses::gaussian::SLACK;
use crate::losses::loss::Noise;
use crate::mechanism::flow::Sending;

/// r = σ_Δ²/σ*² at which it is seen whether noise cancels: with more of it a late departure costs
/// tens of times the floor.
const ENOUGH_TO_CANCEL: f64 = 1e3;

/// The part of local noise's squared loss below which noise counts as cancelling: an error of 0.87
/// times that of local noise.
const MOST_OF_LOCAL: f64 = 0.75;

/// How many coalitions a pass of the search for r adds to those that it looks at.
const ACTIVE: usize = 6;

/// The largest loss to any coalition of a size.
pub struct Bound<'a> {
    setting: &'a Setting,
    rung: Rung,
}

/// How much is known, from most to least.
enum Rung {
    /// Each coalition is computed.
    Computed(Box<Flows>, CoalitionSet),
    /// A theorem about all coalitions at once, by the connectivity of the schedule.
    Connected(ConnectedClass),
    /// Nothing but a party's own noise: any coalition, any faults.
    Local,
}

impl<'a> Bound<'a> {
    /// The most that is known of the tolerated class.
    pub fn of(setting: &'a Setting) -> Self {
        let rung = match Flows::of(setting) {
            Some(flows) => Rung::Computed(Box::new(flows), CoalitionSet::of_class(setting)),
            None => ConnectedClass::of(setting).map_or(Rung::Local, Rung::Connected),
        };
        Bound { setting, rung }
    }

    /// Whether nothing less than the loss of local noise is known.
    pub fn is_local(&self) -> bool {
        matches!(self.rung, Rung::Local)
    }

    /// How a claim says that this was found out.
    pub fn established(&self) -> Established {
        match self.rung {
            Rung::Computed(..) => Established::Exhaustive,
            Rung::Connected(_) | Rung::Local => Established::Theorem,
        }
    }

    /// How many cases a claim says that this was found out from: a theorem is one.
    pub fn cases(&self) -> usize {
        match &self.rung {
            Rung::Computed(flows, class) => (1 + flows.sendings().len()) * class.coalitions.len(),
            Rung::Connected(_) | Rung::Local => 1,
        }
    }

    /// Returns the connectivity basis that a claim states, if the bound rests on connectivity.
    pub fn basis(&self) -> Option<ConnectivityBasis> {
        match &self.rung {
            Rung::Connected(class) => Some(class.basis()),
            Rung::Computed(..) | Rung::Local => None,
        }
    }

    /// The largest squared loss F(r), sensitivity included, at r = `ratio` and σ* = 1, never below
    /// the true one; and the party whose loss that is, or the first where all are bounded alike.
    pub fn worst(&self, ratio: f64) -> (f64, Party) {
        let largest = self.setting.largest_sensitivity().powi(2);
        match &self.rung {
            Rung::Computed(flows, class) => {
                let worst = flows.worst(ratio, class);
                (worst.square, worst.party)
            }
            Rung::Connected(class) => (class.square(self.setting, ratio) * largest, 0),
            Rung::Local => (largest, 0),
        }
    }

    /// Whether a good part of the noise cancels: nobody is left with little but its own, whoever
    /// colludes or departs, and whichever share goes astray.
    pub fn lets_noise_cancel(&self) -> bool {
        let local = self.setting.largest_sensitivity().powi(2);
        self.worst(ENOUGH_TO_CANCEL).0 < MOST_OF_LOCAL * local
    }

    /// F(r) as [`worst`](Self::worst) has it, but for what fast arithmetic may be off, with the
    /// numbers of the coalitions that lose most; over the coalitions of `numbers` alone, if any are
    /// given. Where coalitions are not computed there are no numbers.
    pub(crate) fn screened(&self, ratio: f64, numbers: &[usize]) -> (f64, Vec<usize>) {
        let Rung::Computed(flows, class) = &self.rung else {
            return (self.worst(ratio).0, vec![]);
        };
        let numbers = Some(numbers).filter(|numbers| !numbers.is_empty());
        let cases = flows.screened(ratio, class, numbers);
        let most = cases.first().map_or(0.0, |&(square, _)| square);
        (
            most,
            cases.into_iter().take(ACTIVE).map(|(_, number)| number).collect(),
        )
    }

    /// An execution to attack, its coalition as `corrupted`, and the victim. Where coalitions are
    /// computed it is that of the largest bound; its loss is never above the bound.
    pub fn worst_execution(&self, ratio: f64) -> Result<(Execution, Party), ExecutionError> {
        let setting = self.setting;
        match &self.rung {
            Rung::Computed(flows, class) => {
                let worst = flows.worst(ratio, class);
                let astray = worst.astray.map(|index| returned(&flows.sendings()[index]));
                let execution = setting.fault_free()?.with_shares(astray.into_iter().collect())?;
                Ok((execution.with_corrupted(worst.coalition)?, worst.party))
            }
            Rung::Connected(_) => {
                // Those whom the most sensitive party meets first: all that it meets while its
                // change is still its own.
                let (execution, victim) = everybody_else(setting)?;
                Ok((execution.with_corrupted(first_met(setting, victim))?, victim))
            }
            Rung::Local => everybody_else(setting),
        }
    }
}

/// A share of a hand-over that comes back in its round, unread.
fn returned(sending: &Sending) -> ShareFault {
    ShareFault {
        round: sending.round,
        from: sending.from,
        to: sending.to[0].0,
        fate: Fate::Returned,
        applied: Some(sending.round),
        seen: false,
    }
}

/// Returns the largest loss to any coalition, whatever goes wrong: sensitivity over a party's own
/// noise, rounded up.
pub fn local_loss(setting: &Setting, noise: Noise) -> f64 {
    setting.largest_sensitivity() / noise.independent_std * (1.0 + SLACK)
}

/// The loss of `party` against `coalition` together, joined by as many as may depart, with any one
/// share astray, and before publishing: never below the true one. None where no theorem speaks of
/// the setting, or there are too many of those who may depart.
pub fn loss_against(
    setting: &Setting,
    noise: Noise,
    party: Party,
    coalition: &BTreeSet<Party>,
) -> Result<Option<f64>, ExecutionError> {
    let others = (0..setting.parties()).filter(|other| *other != party && !coalition.contains(other));
    let others: Vec<Party> = others.collect();
    let departing = setting.dropouts.min(others.len());
    let count = coalitions::count(others.len(), departing).unwrap_or(usize::MAX);
    let products = products_of(setting, count, coalition.len() + departing);
    let Some(flows) = (products <= MOST_PRODUCTS)
        .then(|| Flows::after(setting, &[]))
        .flatten()
    else {
        return Ok(None);
    };
    let threat = CoalitionSet {
        one_more: true,
        victim: Some(party),
        ..CoalitionSet::joined(coalition, &others, departing)
    };
    let worst = flows.worst((noise.correlated_std / noise.independent_std).powi(2), &threat);
    let before = before_publishing::bound(setting, party, noise)?;
    let loss = (worst.square.sqrt() / noise.independent_std).max(before);
    Ok(Some(loss * (1.0 + SLACK)))
}

/// The run without faults in which all but the most sensitive party collude, and see all that it
/// lets out.
pub fn everybody_else(setting: &Setting) -> Result<(Execution, Party), ExecutionError> {
    let victim =
        (0..setting.parties()).max_by(|&a, &b| setting.sensitivity[a].total_cmp(&setting.sensitivity[b]));
    let victim = victim.expect("a plan has parties");
    Ok((all_but(setting, victim)?, victim))
}

/// The run without faults in which all but `victim` collude.
pub fn all_but(setting: &Setting, victim: Party) -> Result<Execution, ExecutionError> {
    setting
        .fault_free()?
        .with_corrupted((0..setting.parties()).filter(|&party| party != victim))
}

/// A coalition of the largest size: the parties with whom `victim` exchanges first.
fn first_met(setting: &Setting, victim: Party) -> BTreeSet<Party> {
    let mut met = BTreeSet::new();
    for round in &setting.out {
        let from = (0..setting.parties()).filter(|&from| round[from].contains(&victim));
        for other in round[victim].iter().copied().chain(from) {
            if met.len() < setting.coalition_size() {
                met.insert(other);
            }
        }
    }
    met
}
