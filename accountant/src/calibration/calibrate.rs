//! Rounds, schedule and noise for a draft.
//!
//! For given rounds T and schedule the best noise is a minimum over one number, r = σ_Δ²/σ*²
//! ([`crate::calibration::optimum`]), where every coalition is computed. Of all T the smallest
//! within 5 % of the best is taken; schedules of a few seeds are tried, since some mix better than
//! others. With PPSC T is the number of network rounds that the exchanges take, and a schedule is
//! only tried if those who meet in it stay joined as their private graph joins them, whoever is
//! against them. Where coalitions are not computed a theorem about all of them decides
//! (`by_theorem`), and where that says nothing noise is local.

use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::{Coalitions, CorrelatedNoise, Rounds};
use undertone_protocol::topology::schedule::Schedule;

use crate::bounds::bound::Bound;
use crate::bounds::exact_sum;
use crate::calibration::by_circles;
use crate::calibration::by_connectivity::{self, removed, stays_joined};
use crate::calibration::by_draw;
use crate::calibration::by_own_noise;
use crate::calibration::by_theorem::{self, ChosenSchedule};
use crate::calibration::claims::{claims, predicted};
use crate::calibration::error::CalibrateError;
use crate::calibration::limits::{CLOSE_ENOUGH, FEWEST_ROUNDS, MARGIN, MOST_ROUNDS};
use crate::calibration::optimum::{Optimum, Problem, before_publishing};
use crate::calibration::printed;
use crate::calibration::remedy::against_exposure;
use crate::class::coalitions::{self, MOST_PARTIES};
use crate::class::setting::Setting;
use crate::losses::gaussian;
use crate::losses::loss::Noise;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::rules::Rules;

/// With PPSC, rounds more than the fewest that are tried.
const MORE_ROUNDS: usize = 12;

/// What other seeds can win over the first, at most, in our measurements: numbers of rounds that
/// are further off are not tried again.
const SEEDS_CAN_WIN: f64 = 1.05;

/// Finds rounds, schedule and noise (σ*, each party's own, and σ_Δ, that which cancels) that meet
/// the draft's (ε, δ) over its tolerated class and before publishing, with the least expected
/// error. Deterministic. `progress` is told what is being tried, in words.
pub fn calibrate(draft: &Draft, progress: &mut dyn FnMut(&str)) -> Result<Calibration, CalibrateError> {
    if let Some(outer) = draft.computation.recursion() {
        return printed::calibrate(draft, outer);
    }
    if draft.averages() {
        return match draft.sums_neighbours() {
            true => by_circles::calibrate(draft),
            false => by_own_noise::calibrate(draft),
        };
    }
    let mechanism = Mechanism::with_default_injection(&draft.exchange).ok_or(CalibrateError::Kind)?;
    if !draft.exchange.rolls_back() && draft.privacy.dropouts > 1 {
        return Err(CalibrateError::Dropouts {
            found: draft.privacy.dropouts,
        });
    }
    if draft.exchange.correlated() == CorrelatedNoise::Uniform {
        return match draft.privacy.coalitions {
            Coalitions::Any => by_connectivity::calibrate(draft, progress),
            Coalitions::Static => by_draw::calibrate(draft, progress),
        };
    }
    protects_everybody(draft, mechanism.rules())?;
    let budget = gaussian::mu(draft.privacy.epsilon, draft.privacy.delta)?;
    if !draft.exchange.adds_own_noise() {
        return without_independent_noise(draft, mechanism.rules(), budget, progress);
    }
    let mut search = Search {
        draft,
        rules: mechanism.rules(),
        progress,
        floor: 0.0,
    };
    search.floor = search.floor();
    // By all coalitions, by a theorem about them, or for none.
    let mut chosen = search.choose()?;
    if chosen.is_none() {
        chosen = by_theorem::choose(draft, search.progress)?;
    }
    let chosen = chosen.map_or_else(|| search.local_noise(), Ok)?;
    let setting = Setting::of_draft(draft, &chosen.schedule)?;
    let noise = noise(draft, &setting, &chosen, budget)?;
    Ok(Calibration {
        rounds: setting.rounds() as u32,
        claims: claims(&setting, noise, draft.privacy.delta)?,
        predicted: predicted(&setting, noise, budget)?.times(draft.data.scales().root_mean_square()),
        drawn: Some(SeededSchedule {
            seed: chosen.seed,
            schedule: chosen.schedule,
        }),
        independent_std: noise.independent_std,
        correlated_std: noise.correlated_std,
    })
}

/// Calibrates PPSC as the paper has it, without a party's own noise: the least noise of an exchange
/// over the schedules that are tried.
fn without_independent_noise(
    draft: &Draft,
    rules: &dyn Rules,
    budget: f64,
    progress: &mut dyn FnMut(&str),
) -> Result<Calibration, CalibrateError> {
    let search = Search {
        draft,
        rules,
        progress,
        floor: 0.0,
    };
    let rounds = match draft.exchange.rounds() {
        Rounds::Fixed(rounds) => {
            search.suffices(rounds)?;
            rounds as usize
        }
        Rounds::Auto => search.fewest_rounds()?.ok_or(CalibrateError::Kind)?,
    };
    // The seed whose schedule needs least.
    let mut best: Option<(f64, u64)> = None;
    for seed in 0..search.seeds() {
        if search.covers(rounds, seed)? {
            let setting = Setting::of_draft(draft, &search.schedule(rounds, seed)?)?;
            let needed = exact_sum::pairwise_std_needed(&setting, budget * MARGIN.sqrt())?
                .ok_or(CalibrateError::TooMany)?;
            (search.progress)(&format!(
                "{rounds} rounds: schedule {seed} needs {needed:.3} an exchange"
            ));
            if best.is_none_or(|(least, _)| needed < least) {
                best = Some((needed, seed));
            }
        }
    }
    let (correlated_std, seed) = best.expect("rounds are those of a schedule that was tried");
    let schedule = search.schedule(rounds, seed)?;
    let setting = Setting::of_draft(draft, &schedule)?;
    let noise = Noise {
        independent_std: 0.0,
        correlated_std,
    };
    if !correlated_std.is_normal() {
        let party = draft.members[0].name.clone();
        return Err(CalibrateError::Budget {
            epsilon: draft.privacy.epsilon,
            delta: draft.privacy.delta,
            party,
        });
    }
    Ok(Calibration {
        rounds: rounds as u32,
        claims: claims(&setting, noise, draft.privacy.delta)?,
        predicted: predicted(&setting, noise, budget)?.times(draft.data.scales().root_mean_square()),
        drawn: Some(SeededSchedule { seed, schedule }),
        independent_std: 0.0,
        correlated_std,
    })
}

/// Refuses a private graph in which some party's neighbours may all be in the coalition of Theorem
/// R: it would get local noise and believe itself hidden. A party that has everybody else for a
/// neighbour asked for no less: more edges there cannot be.
fn protects_everybody(draft: &Draft, rules: &dyn Rules) -> Result<(), CalibrateError> {
    let colluding = draft.privacy.colluding;
    let dropouts = if draft.exchange.rolls_back() {
        draft.privacy.dropouts
    } else {
        0
    };
    let size = colluding + dropouts;
    let degree = |party: usize| draft.private_graph.neighbours(party).len();
    if rules.local_noise_must_be_accepted() {
        return hides_everybody(draft, size);
    }
    match (0..draft.parties()).find(|&party| degree(party) <= size && degree(party) + 1 < draft.parties()) {
        Some(party) => {
            let name = draft.members[party].name.clone();
            let least = (0..draft.parties()).map(degree).min().unwrap_or(0);
            let remedies = against_exposure(draft, least);
            Err(CalibrateError::Exposed {
                party: name,
                degree: degree(party),
                colluding,
                dropouts,
                size,
                remedies,
            })
        }
        None => Ok(()),
    }
}

/// Refuses, for PPSC, a private graph in which some party may be left without a partner outside of
/// the coalition of Theorem R, however complete it is: it would have local noise, unless the run
/// file accepts that.
fn hides_everybody(draft: &Draft, size: usize) -> Result<(), CalibrateError> {
    let neighbours = |party: usize| draft.private_graph.neighbours(party);
    let exposed = (0..draft.parties()).find(|&party| neighbours(party).len() <= size);
    let Some(party) = exposed.filter(|_| !draft.exchange.accepts_local_noise()) else {
        return Ok(());
    };
    let name = |party: usize| draft.members[party].name.clone();
    Err(CalibrateError::Local {
        party: name(party),
        degree: neighbours(party).len(),
        neighbours: neighbours(party).iter().map(|&party| name(party)).collect(),
        colluding: draft.privacy.colluding,
        dropouts: size - draft.privacy.colluding,
        size,
        remedies: against_exposure(draft, draft.private_graph.least_degree()),
    })
}

/// The noise, σ* and σ_Δ, for the chosen r = σ_Δ²/σ*²: what is lost is computed once more, with
/// care.
fn noise(
    draft: &Draft,
    setting: &Setting,
    chosen: &ChosenSchedule,
    budget: f64,
) -> Result<Noise, CalibrateError> {
    // That of local noise is there for any coalition and any faults: never more noise than it has.
    let (worst, party) = Bound::of(setting)?.worst(chosen.ratio)?;
    let before = before_publishing(setting, chosen.ratio);
    let square = worst.max(before).min(setting.largest_sensitivity().powi(2));
    let independent_std = (square / MARGIN).sqrt() / budget;
    let correlated_std = independent_std * chosen.ratio.sqrt();
    if !(independent_std.is_normal() && correlated_std.is_normal()) {
        let party = draft.members[party].name.clone();
        return Err(CalibrateError::Budget {
            epsilon: draft.privacy.epsilon,
            delta: draft.privacy.delta,
            party,
        });
    }
    Ok(Noise {
        independent_std,
        correlated_std,
    })
}

/// A search for rounds, schedule and r, where every coalition is computed.
struct Search<'a> {
    draft: &'a Draft,
    rules: &'a dyn Rules,
    progress: &'a mut dyn FnMut(&str),
    /// The error floor at loss μ = 1, for messages.
    floor: f64,
}

impl Search<'_> {
    /// The least standard error that hides each value among those of all honest, at loss μ = 1.
    fn floor(&self) -> f64 {
        let parties = self.draft.parties() as f64;
        self.draft.largest_sensitivity() * (parties / self.draft.honest().max(1) as f64).sqrt()
            / self.draft.total_weight()
    }

    /// The schedule of a seed.
    fn schedule(&self, rounds: usize, seed: u64) -> Result<Schedule, CalibrateError> {
        let fanout = self.draft.exchange.fanout();
        Calibration::draw_schedule(self.draft, rounds as u32, seed).ok_or(CalibrateError::Fanout { fanout })
    }

    /// Seeds that are tried: as many as cost about as much as the search for the number of rounds
    /// itself (measured: 16 parties take 40 times as long as 8, and the paper's class 30 times as
    /// long as the one with roll-back). The first alone where it has more than a thousand
    /// coalitions: each takes seconds then.
    fn seeds(&self) -> u64 {
        let parties = self.draft.parties();
        if coalitions::count(parties, removed(self.draft)).is_none_or(|count| count > 1_000) {
            return 1;
        }
        match (self.draft.exchange.rolls_back(), parties) {
            (true, ..=10) => 12,
            (true, _) => 6,
            (false, ..=8) => 3,
            (false, _) => 2,
        }
    }

    /// None where the class is not computed.
    fn choose(&mut self) -> Result<Option<ChosenSchedule>, CalibrateError> {
        if self.draft.parties() > MOST_PARTIES {
            return Ok(None);
        }
        match self.draft.exchange.rounds() {
            Rounds::Fixed(rounds) => {
                self.suffices(rounds)?;
                let rounds = rounds as usize;
                match self.first(rounds, None)? {
                    Some(first) => Ok(Some(self.try_seeds(rounds, first)?.0)),
                    None => Ok(None),
                }
            }
            Rounds::Auto => self.choose_rounds(),
        }
    }

    /// Refuses rounds in which those who meet do not stay joined in any schedule that is tried.
    fn suffices(&self, rounds: u32) -> Result<(), CalibrateError> {
        match self.seed(rounds as usize)? {
            Some(_) => Ok(()),
            None => Err(self.separated(rounds as usize)?),
        }
    }

    /// Whether those who meet in the schedule of a seed stay joined ([`stays_joined`]).
    fn covers(&self, rounds: usize, seed: u64) -> Result<bool, CalibrateError> {
        if !self.rules.must_cover() {
            return Ok(true);
        }
        let schedule = self.schedule(rounds, seed)?;
        Ok(stays_joined(self.draft, &schedule))
    }

    /// The first seed whose schedule may be used.
    fn seed(&self, rounds: usize) -> Result<Option<u64>, CalibrateError> {
        for seed in 0..self.seeds() {
            if self.covers(rounds, seed)? {
                return Ok(Some(seed));
            }
        }
        Ok(None)
    }

    /// The fewest rounds with a schedule that may be used. More rounds of the same seed only add
    /// exchanges.
    fn fewest_rounds(&self) -> Result<Option<usize>, CalibrateError> {
        for rounds in 1..=self.draft.exchange.rules().most_rounds() as usize {
            if self.seed(rounds)?.is_some() {
                return Ok(Some(rounds));
            }
        }
        Ok(None)
    }

    /// That in so many rounds too few pairs meet.
    fn separated(&self, rounds: usize) -> Result<CalibrateError, CalibrateError> {
        Ok(CalibrateError::Separated {
            rounds: rounds as u32,
            colluding: self.draft.privacy.colluding,
            dropouts: self.draft.privacy.dropouts,
            least: self.fewest_rounds()?.filter(|&least| least > rounds),
        })
    }

    /// The smallest number of rounds close to the best, with its schedule.
    fn choose_rounds(&mut self) -> Result<Option<ChosenSchedule>, CalibrateError> {
        let mut tried: Vec<(usize, Optimum)> = Vec::new();
        let range = if self.rules.must_cover() {
            let fewest = self.fewest_rounds()?.ok_or(CalibrateError::Kind)?;
            fewest..=fewest + MORE_ROUNDS
        } else {
            self.shortest()..=self.longest()
        };
        // The first seed's error for each, until it has risen twice.
        for rounds in range {
            let Some(first) = self.first(rounds, tried.last().map(|(_, last)| last.ratio))? else {
                break;
            };
            tried.push((rounds, first));
            let rising = tried
                .windows(2)
                .rev()
                .take(2)
                .filter(|pair| pair[1].1.objective >= pair[0].1.objective)
                .count();
            if rising == 2 {
                break;
            }
        }
        let best = tried
            .iter()
            .map(|(_, optimum)| optimum.objective)
            .fold(f64::INFINITY, f64::min);
        // Other seeds, for those that these may bring close to the best: fewest rounds first.
        for &(rounds, first) in &tried {
            if first.objective <= best * CLOSE_ENOUGH * SEEDS_CAN_WIN {
                let (chosen, objective) = self.try_seeds(rounds, first)?;
                if objective <= best * CLOSE_ENOUGH {
                    return Ok(Some(chosen));
                }
            }
        }
        Ok(None)
    }

    /// Whether the injection is one of so many rounds: a custom (c, Z) has its own number.
    fn fits(&self, rounds: usize) -> bool {
        self.draft.exchange.takes_rounds(rounds as u32)
    }

    /// The fewest rounds that are tried.
    fn shortest(&self) -> usize {
        (FEWEST_ROUNDS..=MOST_ROUNDS)
            .find(|&rounds| self.fits(rounds))
            .or_else(|| (1..FEWEST_ROUNDS).find(|&rounds| self.fits(rounds)))
            .unwrap_or(FEWEST_ROUNDS)
    }

    /// The most rounds that are tried.
    fn longest(&self) -> usize {
        let shortest = self.shortest();
        (shortest..=MOST_ROUNDS.max(shortest))
            .take_while(|&rounds| self.fits(rounds))
            .last()
            .unwrap_or(shortest)
    }

    /// Rounds enough for everybody's value to spread, log₂ of the parties, and two more.
    fn default_rounds(&self) -> usize {
        let spread = usize::BITS - self.draft.parties().leading_zeros();
        (spread as usize + 2).clamp(self.shortest(), self.longest())
    }

    /// The best r = σ_Δ²/σ*² with the first seed's schedule that may be used; none if the class is
    /// not computed.
    fn first(&mut self, rounds: usize, near: Option<f64>) -> Result<Option<Optimum>, CalibrateError> {
        let seed = self.seed(rounds)?.unwrap_or(0);
        let setting = Setting::of_draft(self.draft, &self.schedule(rounds, seed)?)?;
        let Some(problem) = Problem::of(&setting)? else {
            return Ok(None);
        };
        let optimum = problem.solve(near);
        let message = format!(
            "{rounds} rounds: expected error {:.3} times the floor over {} cases",
            optimum.objective / self.floor,
            problem.cases()
        );
        (self.progress)(&message);
        Ok(Some(optimum))
    }

    /// The best of a few seeds at the first one's r, solved for its own.
    fn try_seeds(&mut self, rounds: usize, first: Optimum) -> Result<(ChosenSchedule, f64), CalibrateError> {
        let start = self.seed(rounds)?.unwrap_or(0);
        let mut best = (start, first.objective);
        for seed in start + 1..self.seeds() {
            if !self.covers(rounds, seed)? {
                continue;
            }
            let setting = Setting::of_draft(self.draft, &self.schedule(rounds, seed)?)?;
            if let Some(problem) = Problem::of(&setting)? {
                // Most are no better, and it does not take all cases to see that.
                if let Some(found) = problem.below(first.ratio, best.1) {
                    best = (seed, found.objective);
                }
            }
        }
        let schedule = self.schedule(rounds, best.0)?;
        let setting = Setting::of_draft(self.draft, &schedule)?;
        let optimum = match Problem::of(&setting)? {
            Some(problem) if best.0 > start => problem.solve(Some(first.ratio)),
            _ => first,
        };
        (self.progress)(&format!(
            "{rounds} rounds: expected error {:.3} times the floor with schedule {}",
            optimum.objective / self.floor,
            best.0
        ));
        Ok((
            ChosenSchedule {
                seed: best.0,
                schedule,
                ratio: optimum.ratio,
            },
            optimum.objective,
        ))
    }

    /// Local noise, where nothing is known of coalitions: σ* = Δ/μ by the theorem (sensitivity
    /// over budget), whatever the rest is. σ_Δ = σ* then costs little if somebody departs late,
    /// and still hides single states. With PPSC for those alone who said that local noise will do.
    fn local_noise(&mut self) -> Result<ChosenSchedule, CalibrateError> {
        let rounds = match self.draft.exchange.rounds() {
            Rounds::Fixed(rounds) => rounds as usize,
            Rounds::Auto if self.rules.must_cover() => self.fewest_rounds()?.ok_or(CalibrateError::Kind)?,
            Rounds::Auto => self.default_rounds(),
        };
        if self.rules.local_noise_must_be_accepted() && !self.draft.exchange.accepts_local_noise() {
            return Err(self.separated(rounds)?);
        }
        (self.progress)("nothing is known of all coalitions: noise as for local privacy");
        let seed = self.seed(rounds)?.unwrap_or(0);
        Ok(ChosenSchedule {
            seed,
            schedule: self.schedule(rounds, seed)?,
            ratio: 1.0,
        })
    }
}

#[cfg(test)]
mod tests;
