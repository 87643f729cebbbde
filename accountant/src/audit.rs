//! An attack on what a plan would really send, against the claim that its headline rests on.
//!
//! Executions that the claim covers, its own worst one and some that are drawn by chance, are run
//! again and again, by the very machines, lattice and
//! noise of a node, with the victim's value at either end of what may change. An attacker who knows
//! everything but honest values and noise sums up what it saw with the weights of the optimal test
//! (the log-likelihood ratio of a linear-Gaussian view is linear), and says "x′" above a threshold.
//! If the mechanism is (ε, δ)-private, P(says x′ | x′) ≤ e^ε P(says x′ | x) + δ (Kairouz, Oh and
//! Viswanath 2015): counts of both bound ε from below with confidence, whatever the accountant
//! believes. The threshold comes from other runs than those that count.
//!
//! In a training the view is that of all releases, and the victim's contribution to each is as far
//! off as it can be.
//!
//! One coordinate is enough: noise is the same in every direction, so that a change of length Δ in
//! many coordinates is seen as well as one of length Δ in one. The coordinates of the vectors that
//! are mixed here are separate runs.

pub mod aims;
mod batch;
mod gossip;
mod revealed;
mod solved;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use undertone_protocol::lattice::grid::LatticeWeight;
use undertone_protocol::lattice::injection::InjectionError;
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::mixing::machine::Mixing;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::Claim;
use undertone_protocol::topology::party::Party;

use crate::audit::aims::{Aim, SharesSeen, Sight, aims, corrupted, gossip_aims};
use crate::audit::batch::BATCH;
use crate::bounds::confidence;
use crate::class::setting::{EXAMPLE_SEED, Setting};
use crate::execution::error::ExecutionError;
use crate::execution::trace::rerun;
use crate::losses::loss::Noise;
use crate::parallel::in_parallel;

/// The confidence with which both counts bound their chances, together.
pub const CONFIDENCE: f64 = 0.999;

/// The largest noise scale: plans leave head-room for noise of 12 standard deviations, none in 10¹⁵
/// draws exceeds 8.
pub const LARGEST_SCALE: f64 = 1.5;

/// The reasons why a plan cannot be attacked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AuditError {
    /// The plan claims nothing.
    #[error("the plan has no headline claim to attack")]
    NoClaim,
    /// The schedule or the injection is refused.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// The injection is refused.
    #[error(transparent)]
    Injection(#[from] InjectionError),
    /// No runs at all.
    #[error("--pairs must be at least 1")]
    Pairs,
    /// No noise, or more than the plan's lattice has room for.
    #[error("--noise-scale must be above 0 and at most {LARGEST_SCALE}, found {found}")]
    Scale {
        /// The scale that was given.
        found: f64,
    },
}

/// The parts that an attack shares with the code that computes claims, and so cannot find fault
/// with, and those that it does not.
pub const SHARED: &str = "shared with the claims, so that a mistake there may hide from both: which \
     states an execution shows, and the matrices by which executions are chosen and observations are \
     weighed. Not shared: the runs, by a node's own machines, lattice and noise, and the counts";

/// An attack on one plan, ready to be run.
pub struct Attack {
    /// With the schedule that the aims are for, where START draws one.
    plan: Plan,
    aims: Vec<Aim>,
}

/// Pairs of runs, in batches that share no noise with others of the same seed.
#[derive(Debug, Clone, Copy)]
struct Batches {
    /// Runs with the victim's value x, and as many with the changed value x′.
    pairs: u64,
    /// The number of the first batch.
    first: u64,
    /// The factor on every standard deviation.
    noise_scale: f64,
    /// The seed of the noise.
    seed: u64,
}

/// How an attack went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attacked {
    /// The index of the aim in [`Attack::aims`] that the counts are of.
    pub aim: usize,
    /// A lower bound on ε, with confidence [`CONFIDENCE`]; 0 if the counts show nothing.
    pub epsilon_lower: f64,
    /// The δ of the claim.
    pub delta: f64,
    /// Runs with the victim's value x, and as many with the changed value x′.
    pub pairs: u64,
    /// The log-likelihood ratio, by the plan's own noise, above which the attacker says x′; nats.
    pub threshold: f64,
    /// Runs with x′ of which the attacker said so.
    pub found: u64,
    /// Runs with x of which the attacker said x′, too.
    pub mistaken: u64,
}

impl Attack {
    /// Prepares an attack on each claim that the headline rests on; executions are drawn from
    /// `seed` on.
    pub fn of(plan: &Plan, seed: u64) -> Result<Self, AuditError> {
        let calibration = plan.calibration();
        if plan.draft().averages() {
            let aims = gossip_aims(plan);
            let plan = plan.clone();
            return match aims.is_empty() {
                true => Err(AuditError::NoClaim),
                false => Ok(Attack { plan, aims }),
            };
        }
        let claims = calibration.claims.iter();
        let headline: Vec<&Claim> = claims.filter(|claim| claim.holds_as_headline).collect();
        let noise = Noise {
            independent_std: calibration.independent_std,
            correlated_std: calibration.correlated_std,
        };
        let aims = aims(&Setting::of_plan(plan)?, &headline, noise, seed)?;
        if aims.is_empty() {
            return Err(AuditError::NoClaim);
        }
        let plan = plan.with_draw(EXAMPLE_SEED);
        Ok(Attack { plan, aims })
    }

    /// Claims, and where each is attacked.
    pub fn aims(&self) -> &[Aim] {
        &self.aims
    }

    /// Runs `pairs` pairs, and a quarter as many before to choose where the attack shows most of a
    /// claim, and the threshold, with every standard deviation times `noise_scale`. The same
    /// arguments give the same counts, on any number of cores; `progress` hears how many of the
    /// batches are done.
    pub fn run(
        &self,
        pairs: u64,
        noise_scale: f64,
        seed: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Attacked, AuditError> {
        if pairs == 0 {
            return Err(AuditError::Pairs);
        }
        if !(noise_scale > 0.0 && noise_scale <= LARGEST_SCALE) {
            return Err(AuditError::Scale { found: noise_scale });
        }
        let before = pairs.div_ceil(4 * self.aims.len() as u64);
        let all = self.aims.len() as u64 * before.div_ceil(BATCH) + pairs.div_ceil(BATCH);
        let mut done = 0;
        let mut progress = |batches: u64| {
            done += batches;
            progress(done, all);
        };
        // Runs that choose where to count, and the threshold …
        let to_choose = Batches {
            pairs: before,
            first: 0,
            noise_scale,
            seed,
        };
        let mut chosen = Vec::with_capacity(self.aims.len());
        for (index, aim) in self.aims.iter().enumerate() {
            let sums = self.sums(aim, to_choose, &mut progress, moments);
            let (expected, threshold) = aim.threshold(&sums, pairs);
            chosen.push((self.rank(aim, expected), expected, index, threshold));
        }
        let best = chosen
            .into_iter()
            .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (.., index, threshold) = best.expect("there is an aim");
        let aim = &self.aims[index];
        // … and others that count.
        let to_count = Batches {
            pairs,
            first: before.div_ceil(BATCH),
            noise_scale,
            seed,
        };
        let counts = self.sums(aim, to_count, &mut progress, |x, changed| {
            let above = |values: &[f64]| values.iter().filter(|&&v| v > threshold).count() as f64;
            [x.len() as f64, above(x), above(changed), 0.0, 0.0]
        });
        let [_, mistaken, found, ..] = counts.map(|count| count as u64);
        let delta = aim.claim.delta;
        Ok(Attacked {
            aim: index,
            epsilon_lower: lower_bound(found, mistaken, pairs, delta),
            delta,
            pairs,
            threshold,
            found,
            mistaken,
        })
    }

    /// Ranks an aim for counting. Aims at which a claim is expected to break come first, then those
    /// at the claim of the largest ε.
    fn rank(&self, aim: &Aim, expected: f64) -> (bool, bool) {
        let largest = self.aims.iter().map(|aim| aim.claim.epsilon).fold(0.0, f64::max);
        (expected > aim.claim.epsilon, aim.claim.epsilon >= largest)
    }

    /// Sums over pairs of runs of what `of` makes of the log-likelihood ratios with x and with x′.
    fn sums(
        &self,
        aim: &Aim,
        runs: Batches,
        progress: &mut dyn FnMut(u64),
        of: impl Fn(&[f64], &[f64]) -> [f64; 5] + Sync,
    ) -> [f64; 5] {
        /// Batches between two words about the progress.
        const AT_ONCE: u64 = 32;
        let Batches {
            pairs,
            first,
            noise_scale,
            seed,
        } = runs;
        let mut sums = [0.0; 5];
        let batches = pairs.div_ceil(BATCH);
        for from in (0..batches).step_by(AT_ONCE as usize) {
            let count = AT_ONCE.min(batches - from);
            let each = in_parallel(count as usize, |index| {
                let batch = from + index as u64;
                let used = BATCH.min(pairs - batch * BATCH) as usize;
                let ratios = |changed| self.ratios(aim, changed, (noise_scale, seed), first + batch);
                Some(of(&ratios(false)[..used], &ratios(true)[..used]))
            });
            each.iter()
                .for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x));
            progress(count);
        }
        sums
    }

    /// The log-likelihood ratios of a batch of runs with x or with x′: of a training the sums of
    /// those of its releases, in each of which the victim's contribution is that far off, whatever
    /// the model. Each release has noise of its own.
    fn ratios(&self, aim: &Aim, changed: bool, noise: (f64, u64), batch: u64) -> Vec<f64> {
        let seen = match &aim.sight {
            Sight::Shares(seen) => seen,
            Sight::Gossip(seen) => return seen.ratios(&self.plan, (aim.victim, changed), noise, batch),
        };
        let releases = self.plan.draft().releases();
        let each = (0..releases).map(|release| {
            let batch = batch.wrapping_mul(releases).wrapping_add(release);
            self.release_ratios(seen, (aim.victim, changed), noise, batch)
        });
        let together = each.reduce(|mut sums, ratios| {
            sums.iter_mut().zip(ratios).for_each(|(sum, ratio)| *sum += ratio);
            sums
        });
        together.unwrap_or_default()
    }

    /// The log-likelihood ratios of a batch of releases in which the victim's value is half its
    /// sensitivity below or above the middle.
    ///
    /// All other honest values are in the middle, and what corrupted parties inject, which the
    /// attacker knows, is nothing.
    fn release_ratios(
        &self,
        aim: &SharesSeen,
        (victim, changed): (Party, bool),
        (noise_scale, seed): (f64, u64),
        batch: u64,
    ) -> Vec<f64> {
        let (plan, calibration) = (&self.plan, self.plan.calibration());
        let corrupted = corrupted(&aim.execution);
        let size = BATCH as usize;
        let half = plan.draft().sensitivity(victim) / 2.0;
        // A node's noise and machine for each party, as START would make them.
        let mut noises: Vec<LatticeNoise<ChaCha8Rng>> = (0..plan.parties())
            .map(|party| {
                let scale = if corrupted.contains(&party) {
                    0.0
                } else {
                    noise_scale
                };
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream((batch * 2 + u64::from(changed)) * plan.parties() as u64 + party as u64);
                LatticeNoise::new(rng, *plan.lattice(), size, calibration.correlated_std * scale)
            })
            .collect();
        let machines: Vec<Mixing<LatticeVector, LatticeWeight>> = noises
            .iter_mut()
            .enumerate()
            .map(|(party, noise)| {
                let centre = match (party == victim, changed) {
                    (true, true) => half,
                    (true, false) => -half,
                    (false, _) => 0.0,
                };
                let mut value = plan.lattice().encode(std::iter::repeat_n(centre, size));
                if !corrupted.contains(&party) {
                    noise.add_independent(calibration.independent_std * noise_scale, &mut value);
                }
                Mixing::new(
                    plan.mechanism_as_drawn(party),
                    value.pack(),
                    LatticeWeight(0),
                    false,
                    noise,
                )
            })
            .collect();
        // What the attacker sees, in the order of its weights.
        let mut ratios = vec![0.0; size];
        let mut add = |weight: f64, state: &LatticeVector| {
            let each = state.to_f64(weight * plan.lattice().step());
            ratios
                .iter_mut()
                .zip(each)
                .for_each(|(ratio, part)| *ratio += part);
        };
        let mut weights = aim.weights.iter();
        let mut seen: Vec<((Party, u32), LatticeVector)> = Vec::new();
        let keep = |party, round| aim.states.contains(&(party, round));
        let finals = rerun(
            &aim.execution,
            machines,
            &mut noises,
            keep,
            |party, round, state| seen.push(((party, round), state)),
        );
        if let Some(revealed) = &aim.revealed {
            let mut sum = plan.lattice().zeros(size);
            seen.iter()
                .for_each(|(place, state)| revealed.add(*place, state, &mut sum));
            aim.finals.iter().for_each(|&party| sum.add(&finals[party].value));
            return sum.to_f64(aim.weights[0] * plan.lattice().step());
        }
        seen.sort_by_key(|&(place, _)| place);
        seen.iter()
            .for_each(|(_, state)| add(*weights.next().expect("one a row"), state));
        aim.finals
            .iter()
            .for_each(|&party| add(*weights.next().expect("one a row"), &finals[party].value));
        ratios
    }
}

impl Aim {
    /// The best bound that two Gaussians like those of the first runs would give from `pairs`
    /// pairs, and the threshold at which they do.
    fn threshold(
        &self,
        &[runs, x, changed, x_squares, changed_squares]: &[f64; 5],
        pairs: u64,
    ) -> (f64, f64) {
        let (low, high) = (x / runs, changed / runs);
        let variance = ((x_squares + changed_squares) / runs - low * low - high * high) / 2.0;
        let std = variance.max(f64::MIN_POSITIVE).sqrt();
        let expected = |centre: f64, threshold: f64| {
            let chance = 0.5 * libm::erfc((threshold - centre) / std / std::f64::consts::SQRT_2);
            (chance * pairs as f64) as u64
        };
        let candidates = (-20..=100).map(|step| low + std * f64::from(step) / 20.0);
        let bound = |&threshold: &f64| {
            lower_bound(
                expected(high, threshold),
                expected(low, threshold),
                pairs,
                self.claim.delta,
            )
        };
        let best = candidates
            .map(|threshold| (bound(&threshold), threshold))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        best.expect("there are candidates")
    }
}

/// How many runs, and sums and sums of squares of the log-likelihood ratios with x and with x′.
fn moments(x: &[f64], changed: &[f64]) -> [f64; 5] {
    let squares = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>();
    [
        x.len() as f64,
        x.iter().sum(),
        changed.iter().sum(),
        squares(x),
        squares(changed),
    ]
}

/// Returns a lower bound on ε. Of `pairs` runs with the changed value, `found` were recognised; of
/// as many without it, `mistaken` were taken for it.
fn lower_bound(found: u64, mistaken: u64, pairs: u64, delta: f64) -> f64 {
    // Each count may miss its chance with half of what is left.
    let alpha = (1.0 - CONFIDENCE) / 2.0;
    let (at_least, at_most) = (
        confidence::at_least(found, pairs, alpha),
        confidence::at_most(mistaken, pairs, alpha),
    );
    if at_least <= delta {
        0.0
    } else {
        libm::log((at_least - delta) / at_most).max(0.0)
    }
}

#[cfg(test)]
mod tests;
