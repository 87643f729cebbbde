//! The gate (DESIGN section 3): no final leaves unless the loss of what really happened is within the budget.
//!
//! It is a function of the plan and the agreed logs alone, so that all who hold them decide alike. With roll-back the departed
//! count as online in every round and as known to the coalition (Theorem R); shares between members are as the logs have
//! them. Numerical doubt and logs that contradict the schedule count as exceeded.
//!
//! Where the plan is for coalitions that were chosen before START drew the schedule, what happened must lie in the tolerated class: of that the
//! draws were; and who departed must not have learned too much by themselves, as departures that somebody chose by the schedule would. What is
//! stated of the run is then the theorem's, for any coalition.

mod bounded;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use undertone_protocol::log::AgreedLogs;
use undertone_protocol::mixing::Party;
use undertone_protocol::plan::Plan;

use crate::account::{largest_mu, scaled};
use crate::before_publishing::bound;
use crate::class::in_parallel;
use crate::coalitions::{self, MOST_SETTLED};
use crate::execution::{Execution, Family, Fate, ShareFault};
use crate::gaussian::{self, SLACK};
use crate::loss::{Noise, squared_losses};
use crate::ppsc::exact_sum;
use crate::rows::{Rows, SCREENED};
use crate::screen::largest;
use crate::setting::Setting;
use crate::settled::{LogsError, Readings, check, exceptions};
use crate::static_coalitions::worst_with_a_share_fault;
use crate::view::{Trace, View};

/// Sets that the gate looks at where each takes a while: with 200 parties PPSC's bound takes a good second, and one draw a thirtieth of one.
const MOST_BOUNDED: usize = 4;

/// Why a member was left out.
const EXCEEDS: &str = "the loss would exceed the budget";

/// What a receipt says of a run that a sampled claim covers.
const IN_CLASS: &str = "what happened lies in the tolerated class, which the sampled claim covers if nobody chose by the schedule who departs; epsilon is the theorem's, for any coalition";

/// What is stated about a run as it turned out.
#[derive(Debug, Clone)]
pub struct Audit {
    /// The largest loss of any party, departed ones included: the smallest of the valid statements.
    pub mu: f64,
    /// ε at the plan's δ.
    pub epsilon: f64,
    /// The plan's δ.
    pub delta: f64,
    /// The execution of the largest loss, with its coalition as `corrupted` and the sensitivities: `account inca` on it with the plan's standard
    /// deviations gives μ, or less where `basis` is a bound.
    pub execution: Execution,
    /// What the statement rests on.
    pub basis: Basis,
    /// With exact sums revealed (`mu` is then infinite once finals are out): the loss of changes that keep these sums.
    pub same_sum_mu: Option<f64>,
    /// Who departed (everybody who may not publish).
    pub departed: BTreeSet<Party>,
    /// What went wrong, in sentences, with the parties' names.
    pub faults: Vec<String>,
}

/// What an audit's μ rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Every coalition was computed; the execution has that loss.
    Computed,
    /// The bound on what leaves before publishing, any coalition; the execution's loss is not above it.
    BeforePublishing,
    /// The bound of [`crate::ppsc::spreading`], any coalition of `colluding` parties; the execution's loss is not above it.
    Spreading,
    /// Δ/σ*, any coalition and any faults; the execution's loss is not above it.
    Theorem,
}

/// What the gate says.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Who may publish; none: everybody withholds.
    pub publish: Option<BTreeSet<Party>>,
    /// Why somebody withholds; empty if nobody of the logs does.
    pub reason: String,
    /// What the run lost: with the finals of `publish`, or with what left before.
    pub audit: Audit,
}

/// Decides who may publish. Never panics, whatever the logs say.
pub fn gate(plan: &Plan, logs: &AgreedLogs) -> Verdict {
    match Gate::of(plan).and_then(|gate| gate.judge(logs)) {
        Ok(verdict) => verdict,
        Err(error) => Verdict {
            publish: None,
            reason: error.to_string(),
            audit: withheld(plan, &error.to_string()),
        },
    }
}

/// The audit of a run in which nobody publishes: what its shares alone can have lost, never 0.
pub fn withheld(plan: &Plan, reason: &str) -> Audit {
    // A checked plan has an injection, a schedule and a δ; what is left is arithmetic on them.
    let gate = Gate::of(plan).expect("a checked plan is a run without faults");
    gate.before_publishing((0..plan.parties()).collect(), vec![reason.to_string()])
}

struct Gate<'a> {
    plan: &'a Plan,
    setting: Setting,
    noise: Noise,
    base: Execution,
    /// μ that the plan's (ε, δ) allows.
    budget: f64,
    /// What the plan's class loses, where that is bounded and not computed.
    of_class: OnceLock<Option<f64>>,
}

/// A set's largest loss.
struct Found {
    /// With exact sums revealed: of changes that keep them.
    mu: f64,
    execution: Execution,
    basis: Basis,
}

impl<'a> Gate<'a> {
    fn of(plan: &'a Plan) -> Result<Self, LogsError> {
        let privacy = &plan.draft().privacy;
        let calibration = plan.calibration();
        let setting = Setting::of_plan(plan).map_err(|error| crate::execution::ExecutionError::Invalid {
            place: "injection".into(),
            problem: error.to_string(),
        })?;
        let base = setting
            .fault_free()?
            .with_sensitivity(setting.sensitivity.clone())?;
        let noise = Noise {
            independent_std: calibration.independent_std,
            correlated_std: calibration.correlated_std,
        };
        // A δ out of range leaves nothing to spend.
        let budget = gaussian::mu(privacy.epsilon, privacy.delta).unwrap_or(0.0);
        Ok(Gate {
            plan,
            setting,
            noise,
            base,
            budget,
            of_class: OnceLock::new(),
        })
    }

    fn judge(&self, logs: &AgreedLogs) -> Result<Verdict, LogsError> {
        check(self.plan, logs)?;
        let least = self.plan.draft().run.min_parties;
        if logs.len() < least {
            let reason = format!(
                "only {} logs are agreed, at least {least} parties are needed",
                logs.len()
            );
            let audit = self.before_publishing(
                self.departed(&BTreeSet::new()),
                self.sentences(logs, &BTreeSet::new()),
            );
            return Ok(Verdict {
                publish: None,
                reason,
                audit,
            });
        }
        if self.plan.draws_at_start() {
            return self.judge_by_class(logs, least);
        }
        let mut smallest = f64::INFINITY;
        for publish in self.candidates(logs, least) {
            let found = self.largest(logs, &publish)?;
            if found.mu <= self.budget {
                let reason = self.left_out(logs, &publish, EXCEEDS);
                let audit = self.audit(found, self.departed(&publish), self.sentences(logs, &publish));
                return Ok(Verdict {
                    publish: Some(publish),
                    reason,
                    audit,
                });
            }
            smallest = smallest.min(found.mu);
        }
        let epsilon = self.epsilon(smallest);
        let reason = format!(
            "publishing would cost epsilon {epsilon:.4}, above {}",
            self.plan.draft().privacy.epsilon
        );
        let audit = self.before_publishing(
            self.departed(&BTreeSet::new()),
            self.sentences(logs, &BTreeSet::new()),
        );
        Ok(Verdict {
            publish: None,
            reason,
            audit,
        })
    }

    /// The tolerated class: so many departures, and at most one share between survivors that did not simply arrive.
    fn judge_by_class(&self, logs: &AgreedLogs, least: usize) -> Result<Verdict, LogsError> {
        let faults = exceptions(self.plan, logs);
        let among = |publish: &BTreeSet<Party>| {
            faults
                .iter()
                .filter(|fault| publish.contains(&fault.from) && publish.contains(&fault.to))
                .count()
        };
        let (parties, dropouts) = (self.plan.parties(), self.setting.dropouts);
        let in_class = |publish: &BTreeSet<Party>| parties - publish.len() <= dropouts && among(publish) <= 1;
        let mut tolerated = false;
        for publish in self.sets(logs, least).filter(in_class).take(MOST_BOUNDED) {
            tolerated = true;
            if self.departed_learn_little(&publish) {
                let reason = self.left_out(
                    logs,
                    &publish,
                    "more would have gone wrong than the plan tolerates",
                );
                let found = Found {
                    mu: self.theorem(),
                    execution: self.some_execution(&publish)?,
                    basis: Basis::Theorem,
                };
                let mut sentences = self.sentences(logs, &publish);
                sentences.push(IN_CLASS.to_string());
                let audit = self.audit(found, self.departed(&publish), sentences);
                return Ok(Verdict {
                    publish: Some(publish),
                    reason,
                    audit,
                });
            }
        }
        let whole = logs.keys().copied().collect();
        let reason = match tolerated {
            true => "of one party the departed know so much that its final would tell them more than the plan allows".to_string(),
            false => format!(
                "{} departed and {} shares between the others did not simply arrive: the plan tolerates {dropouts} and one",
                parties - logs.len(),
                among(&whole)
            ),
        };
        let audit = self.before_publishing(
            self.departed(&BTreeSet::new()),
            self.sentences(logs, &BTreeSet::new()),
        );
        Ok(Verdict {
            publish: None,
            reason,
            audit,
        })
    }

    /// Whether the departed, if they knew each other's shares, would learn no more than the budget: a necessary part of what the plan says, that departures
    /// chosen by the schedule (all that exchanged with one party, say) fail.
    fn departed_learn_little(&self, publish: &BTreeSet<Party>) -> bool {
        let departed: Vec<Party> = self.departed(publish).into_iter().collect();
        let ratio = (self.noise.correlated_std / self.noise.independent_std).powi(2);
        let most = (self.budget * self.noise.independent_std / self.setting.largest_sensitivity()).powi(2);
        departed.is_empty()
            || worst_with_a_share_fault(&self.setting.out, &departed, ratio)
                .is_some_and(|square| square <= most)
    }

    /// L; then without one member, then without two: most faulted shares first, ties by plan order; not below `least`.
    fn candidates(&self, logs: &AgreedLogs, least: usize) -> impl Iterator<Item = BTreeSet<Party>> {
        // Where only the theorem speaks, it says the same of every set.
        let affordable =
            || (MOST_SETTLED / coalitions::settled_products(&self.setting, logs.len())).max(1.0) as usize;
        let most = match self.feasible(logs.len(), 1) {
            true => affordable(),
            false if self.setting.family == Family::Ppsc => MOST_BOUNDED,
            false => 1,
        };
        self.sets(logs, least).take(most)
    }

    fn sets(&self, logs: &AgreedLogs, least: usize) -> impl Iterator<Item = BTreeSet<Party>> {
        let faults = exceptions(self.plan, logs);
        let faulted = |party: &Party| {
            faults
                .iter()
                .filter(|fault| fault.from == *party || fault.to == *party)
                .count()
        };
        let mut order: Vec<Party> = logs.keys().copied().collect();
        order.sort_by_cached_key(|party| (std::cmp::Reverse(faulted(party)), *party));
        let whole: BTreeSet<Party> = logs.keys().copied().collect();
        let (one, two) = (
            usize::from(whole.len() > least),
            usize::from(whole.len() > least + 1),
        );
        let count = order.len();
        let ones = (0..one * count).map(|index| (index, None));
        let twos =
            (0..two * count).flat_map(move |one| (one + 1..count).map(move |other| (one, Some(other))));
        let (none, leaving) = (std::iter::once(whole.clone()), ones.chain(twos));
        none.chain(leaving.map(move |(one, other)| {
            let mut set = whole.clone();
            std::iter::once(one).chain(other).for_each(|index| {
                set.remove(&order[index]);
            });
            set
        }))
    }

    /// Whether so many readings of what happened are computed; else the theorem stands in. For one reading a plan that was exhausted is.
    fn feasible(&self, members: usize, readings: usize) -> bool {
        let few = coalitions::count(members, self.coalition_size(members))
            .is_some_and(|count| count <= coalitions::MOST_COALITIONS);
        few && coalitions::settled_products(&self.setting, members) * readings as f64 <= MOST_SETTLED
    }

    fn coalition_size(&self, members: usize) -> usize {
        self.setting.colluding.min(members.saturating_sub(1))
    }

    /// The largest loss if `publish` publishes: the smallest of the valid statements.
    fn largest(&self, logs: &AgreedLogs, publish: &BTreeSet<Party>) -> Result<Found, LogsError> {
        if self.setting.reveals_sums(self.noise) {
            return self.same_sum(logs, publish);
        }
        let computed = if self.setting.rollback {
            self.with_roll_back(logs, publish)?
        } else {
            self.as_it_was(logs, publish)?
        };
        let computed = if computed.is_none() {
            self.bounded(logs, publish)?
        } else {
            computed
        };
        let theorem = self.theorem();
        Ok(match computed {
            Some(found) if found.mu <= theorem => found,
            _ => Found {
                mu: theorem,
                execution: self.some_execution(publish)?,
                basis: Basis::Theorem,
            },
        })
    }

    /// Theorem R: the departed collude and stay; then the departed's own.
    fn with_roll_back(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<Option<Found>, LogsError> {
        if !self.feasible(publish.len(), 1) {
            return Ok(None);
        }
        let departed = self.departed(publish);
        let execution = self.among_members(logs, publish)?;
        let worst = self.worst(&[execution], &self.coalitions(publish, &departed), |_| true)?;
        Ok(Some(self.or_departed(worst, logs, publish)?))
    }

    /// What happened to shares among the members; the departed are there to the end.
    fn among_members(&self, logs: &AgreedLogs, publish: &BTreeSet<Party>) -> Result<Execution, LogsError> {
        let among = |fault: &ShareFault| publish.contains(&fault.from) && publish.contains(&fault.to);
        let shares = exceptions(self.plan, logs).into_iter().filter(among).collect();
        Ok(self
            .base
            .clone()
            .with_shares(shares)?
            .with_published(publish.iter().copied())?)
    }

    /// The members' worst loss, or a departed party's own if that is larger.
    fn or_departed(
        &self,
        mut worst: Found,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<Found, LogsError> {
        let departed = self.departed(publish);
        for &party in &departed {
            let own = self.departed_own(logs, publish, &departed, party)?;
            if own.mu > worst.mu {
                // The bound needs an execution that is not above it: that of the survivors is one.
                let execution = if own.basis == Basis::Computed {
                    own.execution
                } else {
                    worst.execution
                };
                worst = Found { execution, ..own };
            }
        }
        Ok(worst)
    }

    /// `independent_noise = "none"`: what changes that keep every revealed sum lose, by Theorem R as above; then the departed's own, of whose
    /// values no sum is revealed.
    fn same_sum(&self, logs: &AgreedLogs, publish: &BTreeSet<Party>) -> Result<Found, LogsError> {
        let departed = self.departed(publish);
        let execution = self.among_members(logs, publish)?;
        let coalitions: Vec<Vec<Party>> = self
            .coalitions(publish, &departed)
            .into_iter()
            .map(|coalition| coalition.into_iter().collect())
            .collect();
        let steepest = exact_sum::steepest(&self.setting, &[execution], &coalitions)?;
        let mu = exact_sum::loss(&self.setting, &steepest, self.noise.correlated_std);
        self.or_departed(
            Found {
                mu,
                execution: steepest.execution,
                basis: Basis::Computed,
            },
            logs,
            publish,
        )
    }

    /// A departed party's own loss: the theorem before publishing; if that exceeds the budget, the view itself.
    fn departed_own(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
        departed: &BTreeSet<Party>,
        party: Party,
    ) -> Result<Found, LogsError> {
        let bound = self.bound_before_publishing(party)?;
        let bounded = Found {
            mu: bound,
            execution: self.base.clone(),
            basis: Basis::BeforePublishing,
        };
        if bound <= self.budget {
            return Ok(bounded);
        }
        let others: BTreeSet<Party> = departed.iter().copied().filter(|&other| other != party).collect();
        // All that it was due to send up to T counts as sent: it is online to the end. The other departed are known to the coalition.
        let known: AgreedLogs = logs
            .iter()
            .filter(|(author, _)| publish.contains(author))
            .map(|(&author, log)| (author, log.clone()))
            .collect();
        let readings = Readings::of(self.plan, &known, self.plan.rounds());
        let Some(count) = readings
            .count()
            .filter(|&count| self.feasible(publish.len(), count))
        else {
            return Ok(bounded);
        };
        let mut executions = Vec::with_capacity(count);
        for reading in 0..count {
            let execution = readings.execution(&self.base, reading)?;
            executions.push(
                all_seen(execution, party)?
                    .with_published([])?
                    .with_rolled_back([party])?
                    .with_published(publish.iter().copied())?,
            );
        }
        let exact = self.worst(&executions, &self.coalitions(publish, &others), |who| {
            who == party
        })?;
        Ok(if exact.mu <= bound { exact } else { bounded })
    }

    /// The paper's protocol: what the logs say, every reading of what silent parties did, coalitions of any parties.
    fn as_it_was(&self, logs: &AgreedLogs, publish: &BTreeSet<Party>) -> Result<Option<Found>, LogsError> {
        let readings = Readings::of(self.plan, logs, 0);
        let everybody: BTreeSet<Party> = (0..self.plan.parties()).collect();
        let Some(count) = readings
            .count()
            .filter(|&count| self.feasible(everybody.len(), count))
        else {
            return Ok(None);
        };
        let mut executions = Vec::with_capacity(count);
        for reading in 0..count {
            executions.push(
                readings
                    .execution(&self.base, reading)?
                    .with_published(publish.iter().copied())?,
            );
        }
        Ok(Some(self.worst(
            &executions,
            &self.coalitions(&everybody, &BTreeSet::new()),
            |_| true,
        )?))
    }

    /// Every coalition of `colluding` of the members, joined by the departed.
    fn coalitions(&self, members: &BTreeSet<Party>, departed: &BTreeSet<Party>) -> Vec<BTreeSet<Party>> {
        let members: Vec<Party> = members.iter().copied().collect();
        let join = |chosen: Vec<usize>| {
            chosen
                .into_iter()
                .map(|index| members[index])
                .chain(departed.iter().copied())
                .collect()
        };
        coalitions::all(members.len(), self.coalition_size(members.len()))
            .into_iter()
            .map(join)
            .collect()
    }

    /// The largest loss, over executions and coalitions, of parties that count.
    fn worst(
        &self,
        executions: &[Execution],
        coalitions: &[BTreeSet<Party>],
        counts: impl Fn(Party) -> bool + Sync,
    ) -> Result<Found, LogsError> {
        let mut worst: Option<Found> = None;
        for execution in executions {
            let trace = Trace::of(execution, &self.setting.weights);
            for (screened, coalition) in self.screen(&trace, execution, coalitions, &counts) {
                if worst
                    .as_ref()
                    .is_some_and(|worst| screened * (1.0 + SCREENED) < worst.mu.powi(2))
                {
                    break;
                }
                let against = execution
                    .clone()
                    .with_corrupted(coalitions[coalition].iter().copied())?;
                let view = View::of_trace(&trace, &against);
                let squares = squared_losses(&view, self.noise);
                let losses = view
                    .honest
                    .iter()
                    .zip(squares)
                    .filter(|(party, _)| counts(**party));
                let losses = losses
                    .map(|(&party, square)| (party, scaled(self.setting.sensitivity[party], square)))
                    .collect();
                let mu = largest_mu(&losses);
                if worst.as_ref().is_none_or(|worst| mu > worst.mu) {
                    worst = Some(Found {
                        mu,
                        execution: against,
                        basis: Basis::Computed,
                    });
                }
            }
        }
        Ok(worst.expect("there is at least one execution and one coalition"))
    }

    /// The largest squared loss against each coalition by the fast path, worst first; ∞ where that is in doubt.
    fn screen(
        &self,
        trace: &Trace,
        execution: &Execution,
        coalitions: &[BTreeSet<Party>],
        counts: &(impl Fn(Party) -> bool + Sync),
    ) -> Vec<(f64, usize)> {
        if self.setting.reveals_sums(self.noise) {
            // Losses of rolled back parties, over a few coalitions: each is computed with care.
            return (0..coalitions.len())
                .map(|index| (f64::INFINITY, index))
                .collect();
        }
        let rows = Rows::of(trace, execution);
        let ratio = (self.noise.correlated_std / self.noise.independent_std).powi(2);
        let at = rows.at(
            ratio,
            coalitions.len(),
            coalitions.first().map_or(0, BTreeSet::len),
        );
        let scale = self.noise.independent_std.powi(2);
        let mut screened = in_parallel(coalitions.len(), |index| {
            let coalition: Vec<Party> = coalitions[index].iter().copied().collect();
            let Some(squares) = at.squared_losses(&coalition) else {
                return Some((f64::INFINITY, index));
            };
            let honest = rows
                .honest(&coalition)
                .into_iter()
                .zip(squares)
                .filter(|&(party, _)| counts(party));
            let (parties, squares): (Vec<Party>, Vec<f64>) = honest.unzip();
            Some((
                largest(&parties, &squares, &self.setting.sensitivity).0.max(0.0) / scale,
                index,
            ))
        });
        screened.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        screened
    }

    fn theorem(&self) -> f64 {
        self.setting.largest_sensitivity() / self.noise.independent_std * (1.0 + SLACK)
    }

    fn bound_before_publishing(&self, party: Party) -> Result<f64, LogsError> {
        Ok(bound(&self.setting, party, self.noise)? * (1.0 + SLACK))
    }

    /// Nobody publishes: the theorem before publishing, for the execution in which the first `colluding` parties saw their shares.
    fn before_publishing(&self, departed: BTreeSet<Party>, faults: Vec<String>) -> Audit {
        let bounds = (0..self.plan.parties())
            .map(|party| self.bound_before_publishing(party).unwrap_or(f64::INFINITY));
        let mu = bounds.fold(0.0, f64::max).min(self.theorem());
        let corrupted = 0..self.coalition_size(self.plan.parties());
        let execution = self
            .base
            .clone()
            .with_published([])
            .and_then(|execution| execution.with_corrupted(corrupted));
        let execution = execution.expect("the first parties are parties");
        self.audit(
            Found {
                mu,
                execution,
                basis: Basis::BeforePublishing,
            },
            departed,
            faults,
        )
    }

    /// An execution of this set for a statement that rests on none.
    fn some_execution(&self, publish: &BTreeSet<Party>) -> Result<Execution, LogsError> {
        let departed = self.departed(publish);
        let colluding = publish.iter().copied().take(self.coalition_size(publish.len()));
        let corrupted: Vec<Party> = departed.iter().copied().chain(colluding).collect();
        Ok(self
            .base
            .clone()
            .with_corrupted(corrupted)?
            .with_published(publish.iter().copied())?)
    }

    fn audit(&self, found: Found, departed: BTreeSet<Party>, faults: Vec<String>) -> Audit {
        let Found { mu, execution, basis } = found;
        let same_sum_mu = self.setting.reveals_sums(self.noise).then_some(mu);
        // Once finals are out the sums are public.
        let mu = if same_sum_mu.is_some() && !execution.published().is_empty() {
            f64::INFINITY
        } else {
            mu
        };
        Audit {
            same_sum_mu,
            mu,
            epsilon: self.epsilon(mu),
            delta: self.plan.draft().privacy.delta,
            execution,
            basis,
            departed,
            faults,
        }
    }

    /// Never below the true ε; ∞ where there is none.
    fn epsilon(&self, mu: f64) -> f64 {
        gaussian::epsilon(self.plan.draft().privacy.delta, mu).unwrap_or(f64::INFINITY)
    }

    fn departed(&self, publish: &BTreeSet<Party>) -> BTreeSet<Party> {
        (0..self.plan.parties())
            .filter(|party| !publish.contains(party))
            .collect()
    }

    fn name(&self, party: Party) -> &str {
        &self.plan.draft().members[party].name
    }

    fn left_out(&self, logs: &AgreedLogs, publish: &BTreeSet<Party>, why: &str) -> String {
        let names: Vec<&str> = logs
            .keys()
            .filter(|party| !publish.contains(party))
            .map(|&party| self.name(party))
            .collect();
        if names.is_empty() {
            String::new()
        } else {
            format!("with {} {why}", names.join(" and "))
        }
    }

    /// What the logs say went wrong.
    fn sentences(&self, logs: &AgreedLogs, publish: &BTreeSet<Party>) -> Vec<String> {
        let mut sentences = Vec::new();
        for party in 0..self.plan.parties() {
            if !logs.contains_key(&party) {
                sentences.push(format!(
                    "{} departed before the logs were agreed",
                    self.name(party)
                ));
            } else if !publish.is_empty() && !publish.contains(&party) {
                sentences.push(format!(
                    "{} was left out: with it the loss would exceed the budget",
                    self.name(party)
                ));
            }
        }
        for fault in exceptions(self.plan, logs) {
            let ShareFault {
                round,
                from,
                to,
                fate,
                applied,
                seen,
            } = fault;
            let (from, to, applied) = (self.name(from), self.name(to), applied.unwrap_or(round));
            sentences.push(match (fate, seen) {
                (Fate::Accepted, _) => {
                    format!("the share of round {round} from {from} to {to} was late: it counts in round {applied}")
                }
                (_, true) => {
                    format!("the share of round {round} from {from} went back unanswered from {to}, which may have read it")
                }
                (_, false) => format!("the share of round {round} from {from} never left for {to}"),
            });
        }
        sentences
    }
}

/// The same execution with every share that `party` sent counted as seen.
fn all_seen(execution: Execution, party: Party) -> Result<Execution, LogsError> {
    let seen = |fault: &ShareFault| ShareFault {
        seen: fault.seen || fault.from == party,
        ..*fault
    };
    let shares = execution.shares().iter().map(seen).collect();
    Ok(execution.with_shares(shares)?)
}

#[cfg(test)]
mod tests;
