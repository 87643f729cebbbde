//! The largest loss over a tolerated class, as a function of r = σ_Δ²/σ*² at σ* = 1 (σ* the
//! deviation of a party's own noise, σ_Δ that of the noise that cancels).
//!
//! All losses scale: μ²(σ*, σ_Δ) = F(r)/σ*². A single share fault changes each row by a multiple
//! of *one* row, so that its covariance is a rank-two change of the fault-free one (module
//! `screen`): thousands of systems cost one factorisation a coalition. With roll-back departures
//! are coalitions, by Theorem R. Without, each crash is an execution of its own (module `rows`).
//! What a claim states is then computed again, for the worst systems, from the machine's own run
//! and with the careful factorisation ([`crate::losses::loss`]); what is not counts as larger than
//! it was found by all that the fast paths may be off.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::atomic::{self, AtomicBool};

use undertone_protocol::topology::party::Party;

use crate::class::screen::{Screen, Worst};
use crate::class::setting::Setting;
use crate::class::{coalitions, faults};
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::rows::{At, Rows, SCREENED};
use crate::execution::share::ShareFault;
use crate::execution::trace::Trace;
use crate::losses::loss::{Noise, largest, scaled, squared_losses};
use crate::losses::view::View;
use crate::parallel::in_parallel;

/// How many of the worst systems are computed again with care at most.
const AGAIN: usize = 12;

/// How many groups of systems a pass of the optimisation adds to those that it solves.
const ACTIVE: usize = 6;

/// Multiplications below which a screening stays on one core: starting threads takes longer, much
/// longer where others use the cores, too.
const FEW_PRODUCTS: f64 = 2e7;

/// Bytes of prepared executions that are kept between passes; above, each pass prepares them again.
/// Our choice.
const MOST_KEPT_BYTES: usize = 256 << 20;

/// One system: an execution against a coalition, and its largest loss.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The squared loss of `party`, sensitivity included, at σ* = 1; ∞ if a value is seen without
    /// noise.
    pub square: f64,
    /// The party that loses most.
    pub party: Party,
    /// The number of the coalition among those of the class.
    pub coalition: usize,
    /// The number of the execution among those of the class; 0 is the fault-free one.
    pub execution: usize,
    /// The largest loss of the other systems of its group.
    next: f64,
}

/// What groups were seen to lose at some ratios, and so can lose at most at others.
///
/// More noise between the parties never costs anybody more: a loss at r bounds those at larger
/// ratios. And the view's covariance Σ(r′) ⪰ (r′/r) Σ(r) for r′ < r: at smaller ones it is at most
/// r/r′ times as large.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// For each group, ratios and what it lost there.
    of_group: Vec<Vec<(f64, f64)>>,
}

impl Seen {
    /// The most that a group can lose at `ratio`, with what the fast paths may be off.
    fn bound(&self, group: usize, ratio: f64) -> f64 {
        let bounds = self
            .of_group
            .get(group)
            .into_iter()
            .flatten()
            .map(|&(at, square)| square * f64::max(at / ratio, 1.0));
        bounds.fold(f64::INFINITY, f64::min) * (1.0 + SCREENED)
    }

    fn add(&mut self, group: usize, ratio: f64, square: f64) {
        if self.of_group.len() <= group {
            self.of_group.resize(group + 1, vec![]);
        }
        self.of_group[group].push((ratio, square));
    }
}

/// A tolerated class, ready to be evaluated at any ratio of noises.
pub struct Class<'a> {
    setting: &'a Setting,
    coalitions: Vec<Vec<Party>>,
    base: Execution,
    screen: Screen,
    /// Executions from 1 on: the fault-free one with one of these.
    faults: Vec<ShareFault>,
    /// Executions after those with a fault of a share; none with roll-back.
    crashes: Vec<Execution>,
    /// Rows of the crashes, unless that is too much.
    kept: Vec<Rows>,
}

impl<'a> Class<'a> {
    /// The class of `setting`; none if it has too many parties or takes too long to be computed
    /// ([`coalitions::feasible`]).
    pub fn of(setting: &'a Setting) -> Result<Option<Self>, ExecutionError> {
        if !coalitions::feasible(setting) {
            return Ok(None);
        }
        let coalitions = coalitions::all(setting.parties(), setting.coalition_size());
        let parties = setting.parties();
        let base = setting.fault_free()?;
        let crashes = if setting.rollback {
            vec![]
        } else {
            faults::crashes(setting)?
        };
        let keep = crashes.len() * Rows::bytes(parties, setting.rounds()) <= MOST_KEPT_BYTES;
        let mut class = Class {
            setting,
            coalitions,
            screen: Screen::of(&Trace::of(&base, &setting.weights), &base),
            base,
            faults: faults::shares_of_class(setting),
            crashes,
            kept: vec![],
        };
        if keep {
            class.kept = in_parallel(class.crashes.len(), |index| Some(class.prepare(index)));
        }
        Ok(Some(class))
    }

    /// How many systems there are: executions times coalitions.
    pub fn cases(&self) -> usize {
        (1 + self.faults.len() + self.crashes.len()) * self.coalitions.len()
    }

    /// The execution of a case, with its coalition as `corrupted`.
    pub fn execution(&self, case: &Case) -> Result<Execution, ExecutionError> {
        self.system(case.execution, case.coalition)
    }

    /// An execution of the class against one of its coalitions.
    pub fn system(&self, execution: usize, coalition: usize) -> Result<Execution, ExecutionError> {
        let execution = match execution {
            0 => self.base.clone(),
            fault if fault <= self.faults.len() => {
                self.base.clone().with_shares(vec![self.faults[fault - 1]])?
            }
            crash => self.crashes[crash - 1 - self.faults.len()].clone(),
        };
        execution.with_corrupted(self.coalitions[coalition].iter().copied())
    }

    /// The worst system of each group by the fast path, worst first. A group is a coalition with
    /// all share faults, or a crash with all coalitions.
    pub fn screen(&self, ratio: f64) -> Vec<Case> {
        let all: Vec<usize> = (0..self.groups()).collect();
        self.screen_groups(&all, ratio)
    }

    /// The worst systems of those groups alone that may be above `floor` by what was seen of them
    /// at other ratios; worst first.
    pub fn screen_above(&self, ratio: f64, floor: f64, seen: &mut Seen) -> Vec<Case> {
        let open: Vec<usize> = (0..self.groups())
            .filter(|&group| seen.bound(group, ratio) >= floor)
            .collect();
        let cases = self.screen_groups(&open, ratio);
        for case in &cases {
            seen.add(self.group(case), ratio, case.square);
        }
        cases
    }

    /// The largest squared loss by the fast path if it is at most `limit`; found out without all
    /// groups if it is not.
    pub fn screen_below(&self, ratio: f64, limit: f64) -> Option<f64> {
        let at = self
            .screen
            .at(ratio, self.coalitions.len(), self.setting.coalition_size());
        let exceeded = AtomicBool::new(false);
        let worst = |group: usize| {
            if exceeded.load(atomic::Ordering::Relaxed) {
                return None;
            }
            let square = self.worst_of_group(&at, group, ratio)?.square;
            if square > limit {
                exceeded.store(true, atomic::Ordering::Relaxed);
            }
            Some(square)
        };
        let worst = in_parallel(self.groups(), worst).into_iter().fold(0.0, f64::max);
        (worst <= limit).then_some(worst)
    }

    fn groups(&self) -> usize {
        self.coalitions.len() + self.crashes.len()
    }

    /// The number of the group that a case belongs to.
    fn group(&self, case: &Case) -> usize {
        match case.execution.checked_sub(1 + self.faults.len()) {
            None => case.coalition,
            Some(crash) => self.coalitions.len() + crash,
        }
    }

    /// The largest squared loss over some groups only: a lower bound.
    pub fn screen_only(&self, groups: &BTreeSet<usize>, ratio: f64) -> f64 {
        let groups: Vec<usize> = groups.iter().copied().collect();
        self.screen_groups(&groups, ratio)
            .first()
            .map_or(0.0, |case| case.square)
    }

    /// Adds the worst groups of a screening; false if all of these were in already.
    pub fn extend_active(&self, active: &mut BTreeSet<usize>, screened: &[Case]) -> bool {
        let before = active.len();
        active.extend(screened.iter().take(ACTIVE).map(|case| self.group(case)));
        active.len() > before
    }

    fn screen_groups(&self, groups: &[usize], ratio: f64) -> Vec<Case> {
        let at = self.screen.at(ratio, groups.len(), self.setting.coalition_size());
        let worst = |index: usize| self.worst_of_group(&at, groups[index], ratio);
        let few =
            coalitions::products(self.setting) / self.groups() as f64 * (groups.len() as f64) < FEW_PRODUCTS;
        let mut cases: Vec<Case> = if few {
            (0..groups.len()).filter_map(worst).collect()
        } else {
            in_parallel(groups.len(), worst)
        };
        cases.sort_by(|a, b| {
            descending(a.square, b.square).then((a.execution, a.coalition).cmp(&(b.execution, b.coalition)))
        });
        cases
    }

    fn worst_of_group(&self, at: &At<'_>, group: usize, ratio: f64) -> Option<Case> {
        match group.checked_sub(self.coalitions.len()) {
            None => self.worst_of_coalition(at, group),
            Some(crash) => self.worst_of_crash(crash, ratio),
        }
    }

    fn worst_of_coalition(&self, at: &At<'_>, coalition: usize) -> Option<Case> {
        let worst = self.screen.worst(
            at,
            &self.coalitions[coalition],
            &self.faults,
            &self.setting.sensitivity,
        )?;
        let Worst {
            square,
            party,
            index,
            next,
        } = worst;
        Some(Case {
            square,
            party,
            coalition,
            execution: index,
            next,
        })
    }

    /// The worst coalition of one crash.
    fn worst_of_crash(&self, crash: usize, ratio: f64) -> Option<Case> {
        let fresh;
        let rows = match self.kept.get(crash) {
            Some(rows) => rows,
            None => {
                fresh = self.prepare(crash);
                &fresh
            }
        };
        let at = rows.at(ratio, self.coalitions.len(), self.setting.coalition_size());
        let mut worst = None;
        for (index, coalition) in self.coalitions.iter().enumerate() {
            let squares = match at.squared_losses(coalition) {
                Some(squares) => squares,
                // In doubt: with care.
                None => {
                    let against = self.crashes[crash]
                        .clone()
                        .with_corrupted(coalition.iter().copied())
                        .ok()?;
                    squared_losses(
                        &View::of(&against),
                        Noise {
                            independent_std: 1.0,
                            correlated_std: ratio.sqrt(),
                        },
                    )
                }
            };
            let (square, party) = largest(&rows.honest(coalition), &squares, &self.setting.sensitivity);
            Worst::add(&mut worst, index, square, party);
        }
        let Worst {
            square,
            party,
            index,
            next,
        } = worst?;
        Some(Case {
            square,
            party,
            coalition: index,
            execution: 1 + self.faults.len() + crash,
            next,
        })
    }

    fn prepare(&self, crash: usize) -> Rows {
        let execution = &self.crashes[crash];
        Rows::of(&Trace::of(execution, &self.setting.weights), execution)
    }

    /// The worst system with care, its loss never below the true one: the worst of the screening,
    /// computed again from the machine's run of the execution itself; what is not computed again
    /// counts with all that the fast paths may be off, if it could be worse.
    pub fn worst(&self, ratio: f64) -> Result<Case, ExecutionError> {
        let mut worst: Option<Case> = None;
        let mut rest = 0.0f64;
        for (index, case) in self.screen(ratio).into_iter().enumerate() {
            rest = rest.max(case.next);
            // Nothing that follows can be worse, or enough was computed again.
            if index >= AGAIN
                || worst
                    .as_ref()
                    .is_some_and(|worst| case.square * (1.0 + SCREENED) <= worst.square)
            {
                rest = rest.max(case.square);
                break;
            }
            let again = self.again(case, ratio)?;
            if worst.as_ref().is_none_or(|worst| again.square > worst.square) {
                worst = Some(again);
            }
        }
        let worst = worst.expect("a class has the fault-free execution and at least one honest party");
        Ok(Case {
            square: worst.square.max(rest * (1.0 + SCREENED)),
            ..worst
        })
    }

    /// A case computed again, from the machine's own run.
    fn again(&self, case: Case, ratio: f64) -> Result<Case, ExecutionError> {
        let view = View::of(&self.execution(&case)?);
        let squares = squared_losses(
            &view,
            Noise {
                independent_std: 1.0,
                correlated_std: ratio.sqrt(),
            },
        );
        let losses = view
            .honest
            .iter()
            .zip(squares)
            .map(|(&party, square)| (scaled(self.setting.sensitivity[party], square), party));
        let (square, party) = losses
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .expect("somebody is honest");
        Ok(Case {
            square,
            party,
            ..case
        })
    }
}

fn descending(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}

#[cfg(test)]
mod tests;
