//! What is known of the losses of a whole tolerated class: the one place where it is decided what a
//! plan's noise, claims and gate, and an attack on it, rest on.
//!
//! There is a ladder, and whoever asks stands on its highest rung that holds: every coalition and
//! every fault computed ([`Class`], with up to 16 parties); a theorem about all coalitions of that
//! size ([`ConnectedClass`]); and, always, local noise, Δ/σ* (sensitivity over a party's own
//! noise).
//!
//! Squared losses are stated at σ* = 1 with r = σ_Δ²/σ*² (σ* the deviation of a party's own noise,
//! σ_Δ that of the noise that cancels): all losses scale, μ² = F(r)/σ*².

use std::collections::BTreeSet;

use undertone_protocol::plan::claim::{ConnectivityBasis, Established};
use undertone_protocol::topology::party::Party;

use crate::bounds::closed_form::ConnectedClass;
use crate::class::setting::Setting;
use crate::class::worst::Class;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::losses::gaussian::SLACK;
use crate::losses::loss::Noise;

/// What every coalition of a size learns at most.
pub struct Bound<'a> {
    setting: &'a Setting,
    rung: Rung<'a>,
}

/// How much is known, from most to least.
enum Rung<'a> {
    /// Each system of the class is computed.
    Computed(Box<Class<'a>>),
    /// A theorem about all coalitions at once, by the connectivity of the schedule.
    Connected(ConnectedClass),
    /// Nothing but a party's own noise: any coalition, any faults.
    Local,
}

impl<'a> Bound<'a> {
    /// The most that is known of the tolerated class.
    pub fn of(setting: &'a Setting) -> Result<Self, ExecutionError> {
        let rung = match Class::of(setting)? {
            Some(class) => Rung::Computed(Box::new(class)),
            None => ConnectedClass::of(setting).map_or(Rung::Local, Rung::Connected),
        };
        Ok(Bound { setting, rung })
    }

    /// Whether nothing less than the loss of local noise is known.
    pub fn is_local(&self) -> bool {
        matches!(self.rung, Rung::Local)
    }

    /// How a claim says that this was found out.
    pub fn established(&self) -> Established {
        match self.rung {
            Rung::Computed(_) => Established::Exhaustive,
            Rung::Connected(_) | Rung::Local => Established::Theorem,
        }
    }

    /// How many cases a claim says that this was found out from: a theorem is one.
    pub fn cases(&self) -> usize {
        match &self.rung {
            Rung::Computed(class) => class.cases(),
            Rung::Connected(_) | Rung::Local => 1,
        }
    }

    /// What a claim says that this rests on, where that is the connectivity.
    pub fn basis(&self) -> Option<ConnectivityBasis> {
        match &self.rung {
            Rung::Connected(class) => Some(class.basis()),
            Rung::Computed(_) | Rung::Local => None,
        }
    }

    /// The largest squared loss F(r), sensitivity included, at r = `ratio` and σ* = 1, never below
    /// the true one; and the party whose loss that is, or the first where all are bounded alike.
    pub fn worst(&self, ratio: f64) -> Result<(f64, Party), ExecutionError> {
        let largest = self.setting.largest_sensitivity().powi(2);
        match &self.rung {
            Rung::Computed(class) => class.worst(ratio).map(|case| (case.square, case.party)),
            Rung::Connected(class) => Ok((class.square(self.setting, ratio) * largest, 0)),
            Rung::Local => Ok((largest, 0)),
        }
    }

    /// An execution to attack, its coalition as `corrupted`, and the victim. Where coalitions are
    /// computed it is the one that loses most; else one whose loss is not above the bound.
    pub fn worst_execution(&self, ratio: f64) -> Result<(Execution, Party), ExecutionError> {
        let setting = self.setting;
        match &self.rung {
            Rung::Computed(class) => {
                let worst = class.worst(ratio)?;
                Ok((class.execution(&worst)?, worst.party))
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

/// What any coalition learns at most, whatever goes wrong: sensitivity over a party's own noise,
/// rounded up.
pub fn local_loss(setting: &Setting, noise: Noise) -> f64 {
    setting.largest_sensitivity() / noise.independent_std * (1.0 + SLACK)
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

/// So many parties as a coalition has: those with whom `victim` exchanges first.
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
