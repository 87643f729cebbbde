//! What is known of the losses of a whole tolerated class: the one place where it is decided what a
//! plan's noise, claims and gate, and an attack on it, rest on.
//!
//! There is a ladder, and whoever asks stands on its highest rung that holds: every coalition and
//! every fault computed ([`Class`]); where these are too many, a theorem about all coalitions of
//! that size ([`Spreading`]); and, always, local noise, Δ/σ* (sensitivity over a party's own
//! noise).
//!
//! Squared losses are stated at σ* = 1 with r = σ_Δ²/σ*² (σ* the deviation of a party's own noise,
//! σ_Δ that of the noise that cancels): all losses scale, μ² = F(r)/σ*².

use std::collections::BTreeSet;

use undertone_protocol::plan::claim::Established;
use undertone_protocol::topology::party::Party;

use crate::bounds::spreading::Spreading;
use crate::class::coalitions;
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
    /// A theorem about how far a change of one value can be spread over these parties.
    Spread(Spreading, BTreeSet<Party>),
    /// Nothing but a party's own noise: any coalition, any faults.
    Local,
}

impl<'a> Bound<'a> {
    /// The most that is known of the tolerated class.
    pub fn of(setting: &'a Setting) -> Result<Self, ExecutionError> {
        match Class::of(setting)? {
            Some(class) => Ok(Self::computed_by(setting, class)),
            None => Self::proved(setting),
        }
    }

    /// What [`Bound::of`] knows, but over a [sample](Class::sampled) of the coalitions where these
    /// are exhausted: a lower bound then, to choose by and never to claim by.
    pub fn sampled(setting: &'a Setting) -> Result<Self, ExecutionError> {
        match Class::sampled(setting)? {
            Some(class) => Ok(Self::computed_by(setting, class)),
            None => Self::proved(setting),
        }
    }

    /// What is known of the tolerated class without computing its coalitions.
    pub fn proved(setting: &'a Setting) -> Result<Self, ExecutionError> {
        let rung = match Spreading::of_class(setting)? {
            Some(spreading) => Rung::Spread(spreading, (0..setting.parties()).collect()),
            None => Rung::Local,
        };
        Ok(Bound { setting, rung })
    }

    /// What is known without computing coalitions of one run, as it turned out: of any `size` of
    /// the `members`, joined by everybody else.
    pub fn of_execution(
        setting: &'a Setting,
        execution: &Execution,
        members: &BTreeSet<Party>,
        size: usize,
    ) -> Self {
        let rung = if Spreading::speaks_of(setting) {
            let spreading = Spreading::of(execution, |party| members.contains(&party), size, 0);
            Rung::Spread(spreading, members.clone())
        } else {
            Rung::Local
        };
        Bound { setting, rung }
    }

    /// Whether [`Bound::of`] would know more than local noise, without the work of preparing it.
    pub fn beats_local(setting: &Setting) -> Result<bool, ExecutionError> {
        Ok(coalitions::feasible(setting) || Spreading::of_class(setting)?.is_some())
    }

    /// The first party of which no theorem knows more than that its noise is local; 0 if there is
    /// none such.
    pub fn alone(setting: &Setting) -> Result<Party, ExecutionError> {
        let spreading = Spreading::of(&setting.fault_free()?, |_| true, setting.coalition_size(), 1);
        Ok(spreading.alone().unwrap_or(0))
    }

    fn computed_by(setting: &'a Setting, class: Class<'a>) -> Self {
        Bound {
            setting,
            rung: Rung::Computed(Box::new(class)),
        }
    }

    /// Whether nothing less than the loss of local noise is known.
    pub fn is_local(&self) -> bool {
        matches!(self.rung, Rung::Local)
    }

    /// The class, where each of its systems is computed.
    pub fn computed(&self) -> Option<&Class<'a>> {
        match &self.rung {
            Rung::Computed(class) => Some(class),
            Rung::Spread(..) | Rung::Local => None,
        }
    }

    /// How a claim says that this was found out.
    pub fn established(&self) -> Established {
        match self.rung {
            Rung::Computed(_) => Established::Exhaustive,
            Rung::Spread(..) | Rung::Local => Established::Theorem,
        }
    }

    /// How many cases a claim says that this was found out from: a theorem is one.
    pub fn cases(&self) -> usize {
        self.computed().map_or(1, Class::cases)
    }

    /// What this rests on, in words.
    pub fn over(&self) -> String {
        match &self.rung {
            Rung::Computed(class) => format!("over {} cases", class.cases()),
            Rung::Spread(..) | Rung::Local => "for any coalition, by a theorem".to_owned(),
        }
    }

    /// The largest squared loss F(r), sensitivity included, at r = `ratio` and σ* = 1, by the
    /// fastest way: to choose by, not to claim by.
    pub fn quick(&self, ratio: f64) -> f64 {
        match &self.rung {
            Rung::Computed(class) => class.screen(ratio).first().map_or(0.0, |case| case.square),
            Rung::Spread(..) | Rung::Local => self.without_computing(ratio).0,
        }
    }

    /// The largest squared loss F(r), sensitivity included, at r = `ratio` and σ* = 1, never below
    /// the true one; and the party whose loss that is.
    pub fn worst(&self, ratio: f64) -> Result<(f64, Party), ExecutionError> {
        match &self.rung {
            Rung::Computed(class) => class.worst(ratio).map(|case| (case.square, case.party)),
            Rung::Spread(..) | Rung::Local => Ok(self.without_computing(ratio)),
        }
    }

    fn without_computing(&self, ratio: f64) -> (f64, Party) {
        match &self.rung {
            Rung::Spread(spreading, members) => {
                spreading.worst(&self.setting.sensitivity, ratio, |party| members.contains(&party))
            }
            Rung::Computed(_) | Rung::Local => (self.setting.largest_sensitivity().powi(2), 0),
        }
    }

    /// The largest loss μ at this noise, rounded up.
    pub fn loss(&self, noise: Noise) -> Result<f64, ExecutionError> {
        if self.is_local() {
            return Ok(local_loss(self.setting, noise));
        }
        let ratio = (noise.correlated_std / noise.independent_std).powi(2);
        let (square, _) = self.worst(ratio)?;
        Ok(square.sqrt() / noise.independent_std * (1.0 + SLACK))
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
            Rung::Spread(..) => {
                // For the party that may lose most, those that it meets first: all that it meets
                // while its change is still its own.
                let (_, victim) = self.without_computing(ratio);
                let against = setting.fault_free()?.with_corrupted(first_met(setting, victim))?;
                Ok((against, victim))
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
