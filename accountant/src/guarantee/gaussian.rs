//! Rounds, schedule and noise where the noise that cancels is Gaussian.
//!
//! For given rounds T and schedule the best noise is a minimum over one number, r = σ_Δ²/σ*²
//! ([`crate::calibration::optimum`]): the same one at every number of parties. Of all T the
//! smallest within 3 % of the best is taken; schedules of a few seeds are tried, since some mix
//! better than others. With PPSC T is the number of network rounds that the exchanges take, and a
//! schedule is only tried if noise cancels in it for everybody. Where no theorem says less, noise
//! is local.

use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::claim::{Adversary, Basis, Claim, Faults};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::Rounds;
use undertone_protocol::topology::connectivity::at_least;
use undertone_protocol::topology::schedule::Schedule;

use crate::bounds::before_publishing::largest_theorem;
use crate::bounds::bound::Bound;
use crate::bounds::flows;
use crate::bounds::uniform::{Piece, among_members, meetings};
use crate::calibration::claims::{Stated, mark_headline};
use crate::calibration::error::CalibrateError;
use crate::calibration::limits::{CLOSE_ENOUGH, FEWEST_ROUNDS, MARGIN, MOST_ROUNDS};
use crate::calibration::optimum::{Optimum, Problem, before_publishing, largest_ratio};
use crate::calibration::remedy::against_exposure;
use crate::class::claim_error::{ClaimError, MOST_RATIO};
use crate::class::setting::Setting;
use crate::guarantee::connected::{falls_apart, removed, too_thin};
use crate::guarantee::mixed::mixed;
use crate::losses::loss::Noise;
use crate::losses::releases;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::rules::Rules;

/// The largest factor on the error that other seeds win over the first, in our measurements.
/// Numbers of rounds that are further off are not tried again.
const SEEDS_CAN_WIN: f64 = 1.05;

/// The most seeds that are tried.
const MOST_SEEDS: u64 = 12;

/// Multiplications of all seeds' passes over their coalitions: half a second of one core.
const SEED_PRODUCTS: f64 = 1e8;

/// The fraction of the least error so far that a number of rounds must stay below. After two in a
/// row that do not, no more are tried.
const WORTH_A_ROUND: f64 = 0.995;

/// Noise that meets the draft's budget, whoever colludes.
pub(super) fn calibrate(
    draft: &Draft,
    progress: &mut dyn FnMut(&str),
) -> Result<Calibration, CalibrateError> {
    let mechanism = Mechanism::with_default_injection(&draft.exchange).ok_or(CalibrateError::Kind)?;
    let rules = mechanism.rules();
    protects_everybody(draft, rules)?;
    let mut search = Search {
        draft,
        rules,
        progress,
    };
    let chosen = search.choose()?;
    // Losses scale with one over the noise, so rounds, schedule and r are chosen without the
    // budget.
    let noise = search.noise(&chosen, releases::budget(draft)?)?;
    let setting = Setting::of_draft(draft, &chosen.drawn.schedule)?;
    mixed(draft, &setting, Some(chosen.drawn), noise, claims)
}

/// All claims at these standard deviations: the headline's first. Never states a loss below the
/// true one of its class.
pub(super) fn claims(setting: &Setting, stated: Stated) -> Result<Vec<Claim>, ClaimError> {
    let noise = stated.noise;
    let is_usable = |std: f64| std > 0.0 && std.is_finite();
    let are_usable = is_usable(noise.independent_std) && is_usable(noise.correlated_std);
    if !are_usable || stated.ratio() > MOST_RATIO {
        return Err(stated.refused());
    }
    let anybody = setting.parties().saturating_sub(1);
    let before = largest_theorem(setting, stated.ratio())?;
    let local = setting.largest_sensitivity().powi(2);
    let mut claims: Vec<Claim> = of_class(setting, stated)?.into_iter().collect();
    claims.push(stated.theorem(anybody, Faults::BeforePublishing, before)?);
    // Verification refuses a plan without this one, which holds whatever goes wrong.
    claims.push(stated.theorem(anybody, Faults::Any, local)?);
    if setting.mechanism.rules().claims_against_readers() && setting.colluding > 0 {
        // What the paper claims, beside what a coalition inside the private graph learns.
        let outsiders = Setting {
            colluding: 0,
            ..setting.clone()
        };
        claims.extend(of_class(&outsiders, stated)?.map(|readers| Claim {
            adversary: Adversary::Public,
            ..readers
        }));
    }
    mark_headline(&mut claims);
    Ok(claims)
}

/// Returns the claim over the tolerated class, where its bound is below the loss of local noise.
fn of_class(setting: &Setting, stated: Stated) -> Result<Option<Claim>, ClaimError> {
    let bound = Bound::of(setting);
    if bound.is_local() {
        return Ok(None);
    }
    Ok(Some(Claim {
        established: bound.established(),
        cases: bound.cases() as u64,
        basis: bound.basis().map(|_| Basis::Connectivity),
        connectivity: bound.basis(),
        ..stated.theorem(setting.colluding, Faults::Class, bound.worst(stated.ratio()).0)?
    }))
}

/// Refuses a private graph in which some party's neighbours may all be in the coalition: it would
/// get local noise and believe itself hidden. A party that has everybody else for a neighbour asked
/// for no less, as more edges there cannot be; with PPSC, where a party without a partner outside
/// of the coalition has local noise however complete the graph is, the run file has to accept it.
pub(super) fn protects_everybody(draft: &Draft, rules: &dyn Rules) -> Result<(), CalibrateError> {
    let size = removed(draft);
    let neighbours = |party: usize| draft.private_graph.neighbours(party);
    let everybody = draft.parties() - 1;
    let must_accept = rules.local_noise_must_be_accepted();
    let is_exposed = |&party: &usize| {
        let degree = neighbours(party).len();
        degree <= size && (must_accept || degree < everybody)
    };
    let exposed = (0..draft.parties()).find(is_exposed);
    let Some(party) = exposed.filter(|_| !(must_accept && draft.exchange.accepts_local_noise())) else {
        return Ok(());
    };
    let name = |party: usize| draft.members[party].name.clone();
    let remedies = against_exposure(draft, draft.private_graph.least_degree());
    let degree = neighbours(party).len();
    let (colluding, dropouts) = (draft.privacy.colluding, draft.privacy.dropouts);
    Err(match must_accept {
        true => CalibrateError::Local {
            party: name(party),
            degree,
            neighbours: neighbours(party).iter().map(|&party| name(party)).collect(),
            colluding,
            dropouts,
            size,
            remedies,
        },
        false => CalibrateError::Exposed {
            party: name(party),
            degree,
            colluding,
            dropouts,
            size,
            remedies,
        },
    })
}

/// That no number as small or as large as the noise would have to be is one.
pub(super) fn no_noise(draft: &Draft, party: usize) -> CalibrateError {
    CalibrateError::Budget {
        epsilon: draft.privacy.epsilon,
        delta: draft.privacy.delta,
        party: draft.members[party].name.clone(),
    }
}

/// A schedule, and r = σ_Δ²/σ*².
struct Chosen {
    drawn: SeededSchedule,
    ratio: f64,
}

/// A search for rounds, schedule and r.
pub(super) struct Search<'a> {
    pub(super) draft: &'a Draft,
    pub(super) rules: &'a dyn Rules,
    pub(super) progress: &'a mut dyn FnMut(&str),
}

impl Search<'_> {
    /// An error at loss μ = 1, as a multiple of the least standard error that hides each value
    /// among those of all honest.
    fn of_floor(&self, error: f64) -> f64 {
        let parties = self.draft.parties() as f64;
        let honest = self.draft.honest().max(1) as f64;
        error * self.draft.total_weight() / (self.draft.largest_sensitivity() * (parties / honest).sqrt())
    }

    /// The schedule of a seed.
    pub(super) fn schedule(&self, rounds: usize, seed: u64) -> Result<Schedule, CalibrateError> {
        let fanout = self.draft.exchange.fanout();
        Calibration::draw_schedule(self.draft, rounds as u32, seed).ok_or(CalibrateError::Fanout { fanout })
    }

    /// How many seeds are tried for so many rounds.
    pub(super) fn seeds(&self, rounds: usize) -> Result<u64, CalibrateError> {
        let setting = Setting::of_draft(self.draft, &self.schedule(rounds, 0)?)?;
        Ok(((SEED_PRODUCTS / flows::products(&setting)) as u64).clamp(1, MOST_SEEDS))
    }

    /// Whether the schedule of a seed may be used. With PPSC, unless a run file accepts that noise
    /// is local, only if noise cancels for everybody.
    pub(super) fn covers(&self, rounds: usize, seed: u64) -> Result<bool, CalibrateError> {
        if !self.rules.must_cover() || self.draft.exchange.accepts_local_noise() {
            return Ok(true);
        }
        let schedule = self.schedule(rounds, seed)?;
        let setting = Setting::of_draft(self.draft, &schedule)?;
        // Connectivity is looked at first: it is quick, and a bound takes a pass over all
        // coalitions.
        Ok(self.are_joined(&schedule) && Bound::of(&setting).lets_noise_cancel())
    }

    /// Whether no coalition and no share that goes astray separate those who meet in a schedule, or
    /// whom they separate the private graph does not join otherwise: quick to see, and else most of
    /// the noise would not cancel.
    fn are_joined(&self, schedule: &Schedule) -> bool {
        let (graph, met) = (
            &self.draft.private_graph,
            meetings(schedule.out(), self.draft.parties()),
        );
        graph.components().into_iter().all(|piece| {
            let kappa = Piece::of(&among_members(graph, &piece)).kappa;
            at_least(&among_members(&met, &piece), kappa.min(removed(self.draft) + 2)).is_ok()
        })
    }

    /// The first seed whose schedule may be used.
    fn seed(&self, rounds: usize) -> Result<Option<u64>, CalibrateError> {
        for seed in 0..self.seeds(rounds)? {
            if self.covers(rounds, seed)? {
                return Ok(Some(seed));
            }
        }
        Ok(None)
    }

    /// The fewest rounds with a schedule that may be used.
    pub(super) fn fewest_rounds(&self) -> Result<Option<usize>, CalibrateError> {
        for rounds in 1..=self.draft.exchange.rules().most_rounds() as usize {
            if self.seed(rounds)?.is_some() {
                return Ok(Some(rounds));
            }
        }
        Ok(None)
    }

    /// Refuses rounds of which no schedule may be used.
    pub(super) fn suffices(&self, rounds: usize) -> Result<(), CalibrateError> {
        match self.seed(rounds)? {
            Some(_) => Ok(()),
            None => Err(self.separated(rounds)?),
        }
    }

    /// That in so many rounds too few pairs meet.
    fn separated(&self, rounds: usize) -> Result<CalibrateError, CalibrateError> {
        // No number of rounds joins parties that the private graph leaves apart: its edges are the
        // problem then.
        if let Some(cut) = falls_apart(&self.draft.private_graph, removed(self.draft) + 1) {
            return Ok(too_thin(self.draft, &cut));
        }
        Ok(CalibrateError::Separated {
            rounds: rounds as u32,
            colluding: self.draft.privacy.colluding,
            dropouts: self.draft.privacy.dropouts,
            least: self.fewest_rounds()?.filter(|&least| least > rounds),
        })
    }

    /// The rounds that are tried when their number is `auto`: from the fewest that leave nobody
    /// alone, in steps of an eighth.
    fn range(&self) -> Result<Vec<usize>, CalibrateError> {
        let rules = self.draft.exchange.rules();
        let fits = |rounds: usize| self.draft.exchange.takes_rounds(rounds as u32);
        let first = self.joined(FEWEST_ROUNDS)?;
        // Where rounds do not widen states there is room for more, so twice as many are tried.
        let most = if rules.rounds_widen_states() {
            first.max(MOST_ROUNDS)
        } else {
            2 * first.max(MOST_ROUNDS)
        };
        let mut range = Vec::new();
        let mut rounds = first;
        while rounds <= most.min(rules.most_rounds() as usize) {
            range.push(rounds);
            rounds += (rounds / 8).max(1);
        }
        range.retain(|&rounds| fits(rounds));
        if range.is_empty() {
            // A custom (c, Z) has its own number of rounds.
            range.extend((1..=rules.most_rounds() as usize).find(|&rounds| fits(rounds)));
        }
        Ok(range)
    }

    /// The fewest rounds, `least` or more, in which those who meet are joined
    /// ([`are_joined`](Self::are_joined)).
    fn joined(&self, least: usize) -> Result<usize, CalibrateError> {
        for rounds in least..=self.draft.exchange.rules().most_rounds() as usize {
            if self.are_joined(&self.schedule(rounds, 0)?) {
                return Ok(rounds);
            }
        }
        Ok(least)
    }

    /// The smallest number of rounds close to the best, with its schedule; or local noise.
    fn choose(&mut self) -> Result<Chosen, CalibrateError> {
        let range = match self.draft.exchange.rounds() {
            Rounds::Fixed(rounds) => {
                self.suffices(rounds as usize)?;
                vec![rounds as usize]
            }
            Rounds::Auto => self.range()?,
        };
        // The first seed's error for each, until more rounds win nothing twice.
        let mut tried: Vec<(usize, Optimum)> = Vec::new();
        let mut in_vain = 0;
        for rounds in range {
            if self.seed(rounds)?.is_none() {
                continue;
            }
            // The best r changes little from one number of rounds to the next, and a search near it
            // is short.
            let near = tried.last().map(|(_, last)| last.ratio);
            let Some(first) = self.first(rounds, near)? else {
                continue;
            };
            let best = tried
                .iter()
                .map(|(_, it)| it.objective)
                .fold(f64::INFINITY, f64::min);
            tried.push((rounds, first));
            in_vain = match first.objective < best * WORTH_A_ROUND {
                true => 0,
                false => in_vain + 1,
            };
            if in_vain == 2 {
                break;
            }
        }
        let best = tried
            .iter()
            .map(|(_, it)| it.objective)
            .fold(f64::INFINITY, f64::min);
        // Other seeds, for those that these may bring close to the best: fewest rounds first.
        for (rounds, first) in tried {
            if first.objective <= best * CLOSE_ENOUGH * SEEDS_CAN_WIN {
                let (chosen, objective) = self.try_seeds(rounds, first)?;
                if objective <= best * CLOSE_ENOUGH {
                    return Ok(chosen);
                }
            }
        }
        self.local_noise()
    }

    /// The best r with the first seed's schedule that may be used; none if nothing is known of it.
    fn first(&mut self, rounds: usize, near: Option<f64>) -> Result<Option<Optimum>, CalibrateError> {
        let seed = self.seed(rounds)?.unwrap_or(0);
        let setting = Setting::of_draft(self.draft, &self.schedule(rounds, seed)?)?;
        let Some(problem) = Problem::of(&setting, largest_ratio(self.draft))? else {
            return Ok(None);
        };
        // So much noise cancels that a plan has to say what a missing final leaves of it.
        if !problem.knows_late() {
            let parties = setting.parties();
            return Err(CalibrateError::Late { parties, rounds });
        }
        let optimum = problem.solve(near);
        let error = self.of_floor(optimum.objective);
        (self.progress)(&format!(
            "{rounds} rounds: expected error {error:.3} times the floor"
        ));
        Ok(Some(optimum))
    }

    /// The best of a few seeds at the first one's r, solved for its own.
    fn try_seeds(&mut self, rounds: usize, first: Optimum) -> Result<(Chosen, f64), CalibrateError> {
        let largest = largest_ratio(self.draft);
        let start = self.seed(rounds)?.unwrap_or(0);
        let (mut seed, mut least) = (start, first.objective);
        for other in start + 1..self.seeds(rounds)? {
            if !self.covers(rounds, other)? {
                continue;
            }
            let setting = Setting::of_draft(self.draft, &self.schedule(rounds, other)?)?;
            // One r is enough to compare schedules; only the best of them is worth a search for its
            // own.
            let found = Problem::of(&setting, largest)?.map(|problem| problem.at(first.ratio).objective);
            if let Some(found) = found.filter(|found| *found < least) {
                (seed, least) = (other, found);
            }
        }
        let schedule = self.schedule(rounds, seed)?;
        let setting = Setting::of_draft(self.draft, &schedule)?;
        let optimum = match Problem::of(&setting, largest)? {
            Some(problem) if seed > start => problem.solve(Some(first.ratio)),
            _ => first,
        };
        let error = self.of_floor(optimum.objective);
        (self.progress)(&format!(
            "{rounds} rounds: expected error {error:.3} times the floor with schedule {seed}"
        ));
        let drawn = SeededSchedule { seed, schedule };
        let ratio = optimum.ratio;
        Ok((Chosen { drawn, ratio }, optimum.objective))
    }

    /// Local noise, where nothing is known of coalitions: σ* = Δ/μ by the theorem (sensitivity over
    /// budget), whatever the rest is. σ_Δ = σ* then costs little if somebody departs late, and
    /// still hides single states. With PPSC for those alone who said that local noise will do.
    fn local_noise(&mut self) -> Result<Chosen, CalibrateError> {
        let rounds = match self.draft.exchange.rounds() {
            Rounds::Fixed(rounds) => rounds as usize,
            Rounds::Auto => self.default_rounds()?,
        };
        if self.rules.local_noise_must_be_accepted() && !self.draft.exchange.accepts_local_noise() {
            return Err(self.separated(rounds)?);
        }
        (self.progress)("nothing is known of all coalitions: noise as for local privacy");
        let seed = self.seed(rounds)?.unwrap_or(0);
        let schedule = self.schedule(rounds, seed)?;
        let drawn = SeededSchedule { seed, schedule };
        Ok(Chosen { drawn, ratio: 1.0 })
    }

    /// Rounds enough for everybody's value to spread, log₂ of the parties, and two more.
    fn default_rounds(&self) -> Result<usize, CalibrateError> {
        if self.rules.must_cover() {
            return self.fewest_rounds()?.ok_or(CalibrateError::Kind);
        }
        let spread = (usize::BITS - self.draft.parties().leading_zeros()) as usize + 2;
        let fits = |&rounds: &usize| self.draft.exchange.takes_rounds(rounds as u32);
        let most = self.draft.exchange.rules().most_rounds() as usize;
        let mut nearest = (spread.max(FEWEST_ROUNDS)..=most).chain(1..FEWEST_ROUNDS);
        nearest.find(fits).ok_or(CalibrateError::Kind)
    }

    /// The noise, σ* and σ_Δ, for the chosen r: what is lost is computed once more, with care.
    fn noise(&self, chosen: &Chosen, budget: f64) -> Result<Noise, CalibrateError> {
        let setting = Setting::of_draft(self.draft, &chosen.drawn.schedule)?;
        // That of local noise is there for any coalition and any faults: never more noise than it
        // has.
        let (worst, party) = Bound::of(&setting).worst(chosen.ratio);
        let before = before_publishing(&setting, chosen.ratio);
        let square = worst.max(before).min(setting.largest_sensitivity().powi(2));
        let independent_std = (square / MARGIN).sqrt() / budget;
        let correlated_std = independent_std * chosen.ratio.sqrt();
        match independent_std.is_normal() && correlated_std.is_normal() {
            true => Ok(Noise {
                independent_std,
                correlated_std,
            }),
            false => Err(no_noise(self.draft, party)),
        }
    }
}

#[cfg(test)]
mod tests;
