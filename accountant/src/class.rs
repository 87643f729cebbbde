//! The largest loss over a tolerated class, as a function of r = σ_Δ²/σ*² at σ* = 1.
//!
//! All losses scale: μ²(σ*, σ_Δ) = F(r)/σ*². With roll-back the class is the fault-free run with at most one share fault, against
//! every coalition; a share fault changes each row by a multiple of *one* row, so that its covariance is a rank-two change of the
//! fault-free one (module `screen`): thousands of systems cost one factorisation a coalition. What a claim states is then
//! computed again, for the worst systems, from the machine's own run and with the careful factorisation ([`crate::loss`]).

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::thread;

use undertone_protocol::mixing::Party;

use crate::account::scaled;
use crate::coalitions;
use crate::execution::{Execution, ExecutionError, ShareFault};
use crate::faults;
use crate::loss::{Noise, squared_losses};
use crate::screen::Screen;
use crate::setting::Setting;
use crate::view::{Trace, View};

/// How many of the worst systems are computed again with care, and how far below the worst of the screening one may lie.
const AGAIN: usize = 12;
const AGAIN_WITHIN: f64 = 1e-6;

/// How many groups of systems a pass of the optimisation adds to those that it solves.
const ACTIVE: usize = 12;

/// One system: an execution against a coalition, and its largest Δ²-scaled loss.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// μ² of the party below, at σ* = 1; ∞ if a value is seen without noise.
    pub square: f64,
    /// The party that loses most.
    pub party: Party,
    /// Index of the coalition.
    pub coalition: usize,
    /// Index of the execution; 0 is the fault-free one.
    pub execution: usize,
}

/// A class, ready to be evaluated at any r.
pub struct Class<'a> {
    setting: &'a Setting,
    coalitions: Vec<Vec<Party>>,
    base: Execution,
    kind: Kind,
}

enum Kind {
    RollBack { screen: Box<Screen>, faults: Vec<ShareFault> },
    Explicit { executions: Vec<Execution> },
}

impl<'a> Class<'a> {
    /// The class of `setting`; none if it has too many parties or systems to be exhausted.
    pub fn of(setting: &'a Setting) -> Result<Option<Self>, ExecutionError> {
        let (parties, size) = (setting.parties(), setting.coalition_size());
        if parties > coalitions::MOST_PARTIES || size >= parties {
            return Ok(None);
        }
        let most = if setting.rollback { coalitions::MOST_CASES } else { coalitions::MOST_EXPLICIT_CASES };
        let count = coalitions::count(parties, size).expect("at most 2^16 coalitions");
        if count.saturating_mul(faults::count(setting)) > most {
            return Ok(None);
        }
        let base = setting.fault_free()?;
        let kind = if setting.rollback {
            let faults = faults::single_shares(setting);
            Kind::RollBack { screen: Box::new(Screen::of(&Trace::of(&base, &setting.weights), &base)), faults }
        } else {
            Kind::Explicit { executions: faults::without_roll_back(setting)? }
        };
        Ok(Some(Class { setting, coalitions: coalitions::all(parties, size), base, kind }))
    }

    /// How many systems there are: executions times coalitions.
    pub fn cases(&self) -> usize {
        let executions = match &self.kind {
            Kind::RollBack { faults, .. } => faults.len() + 1,
            Kind::Explicit { executions } => executions.len(),
        };
        executions * self.coalitions.len()
    }

    /// The coalition of a case.
    pub fn coalition(&self, case: &Case) -> &[Party] {
        &self.coalitions[case.coalition]
    }

    /// The execution of a case, with its coalition as `corrupted`.
    pub fn execution(&self, case: &Case) -> Result<Execution, ExecutionError> {
        let execution = match &self.kind {
            Kind::RollBack { .. } if case.execution == 0 => self.base.clone(),
            Kind::RollBack { faults, .. } => self.base.clone().with_shares(vec![faults[case.execution - 1]])?,
            Kind::Explicit { executions } => executions[case.execution].clone(),
        };
        execution.with_corrupted(self.coalition(case).iter().copied())
    }

    /// F(r) by the fast path: the worst system of each coalition (with roll-back) or execution (without), worst first.
    pub fn screen(&self, ratio: f64) -> Vec<Case> {
        let all: Vec<usize> = (0..self.groups()).collect();
        self.screen_groups(&all, ratio)
    }

    /// F(r) over some groups (coalitions or executions) only: a lower bound.
    pub fn screen_only(&self, groups: &BTreeSet<usize>, ratio: f64) -> f64 {
        let groups: Vec<usize> = groups.iter().copied().collect();
        self.screen_groups(&groups, ratio).first().map_or(0.0, |case| case.square)
    }

    /// The groups that bind at r.
    pub fn active(&self, ratio: f64) -> BTreeSet<usize> {
        let mut active = BTreeSet::new();
        self.extend_active(&mut active, &self.screen(ratio));
        active
    }

    /// Adds the worst groups of a screening; false if all of these were in already.
    pub fn extend_active(&self, active: &mut BTreeSet<usize>, screened: &[Case]) -> bool {
        let before = active.len();
        active.extend(screened.iter().take(ACTIVE).map(|case| match self.kind {
            Kind::RollBack { .. } => case.coalition,
            Kind::Explicit { .. } => case.execution,
        }));
        active.len() > before
    }

    fn groups(&self) -> usize {
        match &self.kind {
            Kind::RollBack { .. } => self.coalitions.len(),
            Kind::Explicit { executions } => executions.len(),
        }
    }

    fn screen_groups(&self, groups: &[usize], ratio: f64) -> Vec<Case> {
        let mut cases = in_parallel(groups.len(), |index| match &self.kind {
            Kind::RollBack { screen, faults } => {
                let coalition = groups[index];
                let worst = screen.worst(&self.coalitions[coalition], faults, &self.setting.sensitivity, ratio);
                worst.map(|(square, party, execution)| Case { square, party, coalition, execution })
            }
            Kind::Explicit { executions } => self.worst_of_execution(groups[index], &executions[groups[index]], ratio),
        });
        cases.sort_by(|a, b| descending(a.square, b.square).then((a.execution, a.coalition).cmp(&(b.execution, b.coalition))));
        cases
    }

    fn worst_of_execution(&self, index: usize, execution: &Execution, ratio: f64) -> Option<Case> {
        let trace = Trace::of(execution, &self.setting.weights);
        let mut worst: Option<Case> = None;
        for (coalition, parties) in self.coalitions.iter().enumerate() {
            let against = execution.clone().with_corrupted(parties.iter().copied()).ok()?;
            let view = View::of_trace(&trace, &against);
            let squares = crate::screen::squared_losses_by_gram(&view, ratio);
            for (&party, square) in view.honest.iter().zip(squares) {
                let square = scaled(self.setting.sensitivity[party], square);
                if worst.as_ref().is_none_or(|worst| square > worst.square) {
                    worst = Some(Case { square, party, coalition, execution: index });
                }
            }
        }
        worst
    }

    /// F(r) with care: the worst of the screening, computed again from the machine's run of the execution itself.
    pub fn worst(&self, ratio: f64) -> Result<Case, ExecutionError> {
        let screened = self.screen(ratio);
        let bound = screened.first().map_or(0.0, |case| case.square * (1.0 - AGAIN_WITHIN));
        let mut worst: Option<Case> = None;
        for case in screened.into_iter().take(AGAIN).take_while(|case| case.square >= bound) {
            let again = self.again(case, ratio)?;
            if worst.as_ref().is_none_or(|worst| again.square > worst.square) {
                worst = Some(again);
            }
        }
        Ok(worst.expect("a class has the fault-free execution and at least one honest party"))
    }

    fn again(&self, case: Case, ratio: f64) -> Result<Case, ExecutionError> {
        let view = View::of(&self.execution(&case)?);
        let squares = squared_losses(&view, Noise { independent_std: 1.0, correlated_std: ratio.sqrt() });
        let losses =
            view.honest.iter().zip(squares).map(|(&party, square)| (scaled(self.setting.sensitivity[party], square), party));
        let (square, party) = losses.max_by(|a, b| a.0.total_cmp(&b.0)).expect("somebody is honest");
        Ok(Case { square, party, ..case })
    }
}

fn descending(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}

/// `work(0)`, …, `work(count − 1)` on all cores, in order.
pub(crate) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> Option<T> + Sync) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(16).min(count.max(1));
    let part = |core: usize| (core..count).step_by(cores).map(|index| (index, work(index))).collect::<Vec<_>>();
    let mut results: Vec<(usize, Option<T>)> = thread::scope(|scope| {
        let part = &part;
        let others: Vec<_> = (1..cores).map(|core| scope.spawn(move || part(core))).collect();
        let mut results = part(0);
        for other in others {
            // A panic in a worker is a bug of ours: it goes on here.
            results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().filter_map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests;
