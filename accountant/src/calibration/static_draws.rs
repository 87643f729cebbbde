//! Rounds and noise for coalitions that were chosen before the schedule is drawn, and the sample
//! that the claim rests on.
//!
//! Three lots of draws that share no seed: a few for T and r, more for σ*, and fresh ones for the
//! claim, once all parameters are fixed. The seed of the fresh ones is a hash of the parameters:
//! everybody can draw them again. Whoever plans could still try parameters until their draws look
//! well, so that whoever verifies the plan draws some of its own ([`crate::verify()`]).

use sha2::{Digest, Sha256};
use undertone_protocol::plan::calibration::Calibration;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::Rounds;
use undertone_protocol::topology::party::Party;
use undertone_protocol::topology::schedule::Schedule;

use crate::bounds::before_publishing::theorem;
use crate::bounds::draws::Draws;
use crate::bounds::draws::search::{Effort, Found, searched};
use crate::calibration::error::CalibrateError;
use crate::calibration::limits::{CLOSE_ENOUGH, FEWEST_ROUNDS, MARGIN, MOST_ROUNDS};
use crate::calibration::optimum::{Optimum, minimise};
use crate::calibration::utility::ErrorModel;
use crate::class::claim_error::LARGEST_RATIO;
use crate::class::setting::{EXAMPLE_SEED, Setting};
use crate::execution::error::ExecutionError;
use crate::losses::loss::Noise;

/// First seeds of the draws for T and r, and of those for σ*. Fresh seeds are below 2⁵³.
const FOR_ROUNDS: u64 = 1 << 61;
const FOR_NOISE: u64 = 1 << 62;

/// Multiplications spent on each evaluation of r, on σ*, on the fresh draws and on verifying a part
/// of them: our choice. Measured on two cores, for 200 parties and 10 rounds: a tenth of a second,
/// 10 s, 100 s and 1 s.
const PRODUCTS_FOR_ROUNDS: f64 = 3e9;
const PRODUCTS_FOR_NOISE: f64 = 3e11;
const PRODUCTS_FOR_CLAIM: f64 = 3.2e12;
const PRODUCTS_FOR_CHECK: f64 = 3e10;
/// And on a search for coalitions that know the schedule: a few seconds.
const PRODUCTS_FOR_SEARCH: f64 = 3e10;

/// Fresh draws that no run file asks for more of.
pub const DRAWS: u64 = 10_000;

/// Draws between two lines of progress.
const AT_ONCE: u64 = 200;

/// σ* is chosen so that about this many of the fresh draws are expected to fail. Our choice: a
/// failure makes p a third larger.
const EXPECTED_FAILURES: f64 = 0.02;

/// How close F(r) must come to its floor: σ* within 2.5 % of the least that any σ_Δ allows.
const CLOSE_TO_FLOOR: f64 = 1.05;

/// How many draws so many multiplications are enough for, within bounds.
fn affordable(draws: &Draws, products: f64, least: u64, most: u64) -> u64 {
    ((products / draws.products()) as u64).clamp(least, most)
}

impl Draws {
    /// The draws that a draft with so many rounds is about.
    pub fn of_draft(draft: &Draft, rounds: usize) -> Self {
        Draws {
            graph: draft.private_graph.clone(),
            fanout: draft.mechanism.fanout as usize,
            rounds,
            colluding: draft.privacy.colluding,
            dropouts: draft.privacy.dropouts,
        }
    }

    /// How many fresh draws a claim rests on, if the run file does not say: fewer where they take
    /// minutes.
    pub fn usual(&self) -> u64 {
        affordable(self, PRODUCTS_FOR_CLAIM, 100, DRAWS)
    }

    /// How many draws of its own every party makes that verifies the plan.
    pub fn checked(&self, of: u64) -> u64 {
        affordable(self, PRODUCTS_FOR_CHECK, 10, 1_000).min(of)
    }
}

/// What fresh draws showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// The seed of the first draw; the others follow.
    pub seed: u64,
    /// How many there were.
    pub draws: u64,
    /// In how many somebody lost more than the budget.
    pub failures: u64,
}

/// Rounds, noise, and the sample that was drawn for them.
pub(crate) struct SampledNoise {
    pub(crate) rounds: usize,
    pub(crate) noise: Noise,
    pub(crate) sample: Sample,
}

/// Some schedule for what does not depend on which: sizes, weights, errors. And the one that a
/// search knows.
pub(crate) fn example(draft: &Draft, rounds: usize) -> Result<Schedule, CalibrateError> {
    let fanout = draft.mechanism.fanout;
    Calibration::draw_schedule(draft, rounds as u32, EXAMPLE_SEED).ok_or(CalibrateError::Fanout { fanout })
}

/// Calibrates for `budget`, the μ of the draft's (ε, δ).
pub(crate) fn chosen(
    draft: &Draft,
    budget: f64,
    progress: &mut dyn FnMut(&str),
) -> Result<SampledNoise, CalibrateError> {
    let (rounds, ratio) = rounds_and_ratio(draft, progress)?;
    let draws = Draws::of_draft(draft, rounds);
    let wanted = draft.privacy.draws.unwrap_or_else(|| draws.usual());
    let count = affordable(&draws, PRODUCTS_FOR_NOISE, 64, 2_000);
    progress(&format!(
        "{rounds} rounds: noise for the worst of {count} draws of schedule, coalition and departures"
    ));
    let seen = draws.all(FOR_NOISE..FOR_NOISE + count, ratio);
    let setting = Setting::of_draft(draft, &example(draft, rounds)?)?;
    let square = beyond(seen, EXPECTED_FAILURES / wanted as f64)
        .max(before(&setting, ratio)?)
        .min(1.0);
    let independent_std = (square / MARGIN).sqrt() * setting.largest_sensitivity() / budget;
    let correlated_std = independent_std * ratio.sqrt();
    if !(independent_std.is_normal() && correlated_std.is_normal()) {
        let party = draft.members[0].name.clone();
        return Err(CalibrateError::Budget {
            epsilon: draft.privacy.epsilon,
            delta: draft.privacy.delta,
            party,
        });
    }
    let noise = Noise {
        independent_std,
        correlated_std,
    };
    let seed = fresh_seed(draft, rounds, noise);
    let allowed = Allowed::of(draft, noise, budget);
    let failures = failures(&draws, seed..seed + wanted, allowed, progress);
    Ok(SampledNoise {
        rounds,
        noise,
        sample: Sample {
            seed,
            draws: wanted,
            failures,
        },
    })
}

/// What a draw may lose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed {
    /// σ_Δ²/σ*².
    ratio: f64,
    /// The squared loss at σ* = 1 and unit sensitivity.
    square: f64,
}

impl Allowed {
    /// At this noise, a loss of `mu`.
    pub(crate) fn of(draft: &Draft, noise: Noise, mu: f64) -> Self {
        Allowed {
            ratio: (noise.correlated_std / noise.independent_std).powi(2),
            square: (mu * noise.independent_std / draft.largest_sensitivity()).powi(2),
        }
    }
}

/// How many of these draws lose more than is allowed.
pub(crate) fn failures(
    draws: &Draws,
    seeds: std::ops::Range<u64>,
    allowed: Allowed,
    progress: &mut dyn FnMut(&str),
) -> u64 {
    let (all, mut failures) = (seeds.end - seeds.start, 0);
    for first in seeds.clone().step_by(AT_ONCE as usize) {
        progress(&format!(
            "{} of {all} fresh draws, {failures} above the budget",
            first - seeds.start
        ));
        let some = first..(first + AT_ONCE).min(seeds.end);
        failures += draws.failures(some, allowed.ratio, allowed.square);
    }
    failures
}

/// The first seed of the fresh draws: whoever plans has no choice of it but by other parameters.
pub(crate) fn fresh_seed(draft: &Draft, rounds: usize, noise: Noise) -> u64 {
    let mut hash = Sha256::new();
    hash.update(b"undertone/fresh-draws/1\0");
    let privacy = &draft.privacy;
    for number in [
        draft.parties(),
        privacy.colluding,
        privacy.dropouts,
        draft.mechanism.fanout as usize,
        rounds,
    ] {
        hash.update((number as u64).to_le_bytes());
    }
    for number in [
        noise.independent_std,
        noise.correlated_std,
        privacy.epsilon,
        privacy.delta,
    ] {
        hash.update(number.to_le_bytes());
    }
    for &(a, b) in draft.private_graph.edges() {
        hash.update((a as u64).to_le_bytes());
        hash.update((b as u64).to_le_bytes());
    }
    let hash: [u8; 32] = hash.finalize().into();
    // A JSON number is exact below 2⁵³, and the last draw must be, too.
    u64::from_be_bytes(*hash.first_chunk().expect("32 bytes")) >> 12
}

/// The search for a coalition that knows the schedule, as long as is quick. It is the departed's as
/// well: by Theorem R they may join it.
pub(crate) fn search(draws: &Draws, out: &[Vec<Vec<Party>>], ratio: f64) -> Found {
    // A loss without faults takes about a quarter of a draw.
    let cases = (PRODUCTS_FOR_SEARCH / draws.products() * 4.0).clamp(8.0, 2_000.0) as usize;
    let size = draws.colluding + draws.dropouts;
    let contacts = 2 * draws.rounds * draws.fanout;
    let each = if contacts <= size {
        1
    } else {
        contacts * size.max(1)
    };
    let effort = Effort {
        victims: (cases / 2 / each).clamp(1, draws.graph.parties()),
        starts: 2,
        steps: cases / 4,
        choices: cases / 2,
    };
    searched(out, size, ratio, effort)
}

/// μ² at σ* = 1, Δ = 1 of what leaves before publishing, by the theorem.
fn before(setting: &Setting, ratio: f64) -> Result<f64, ExecutionError> {
    theorem(setting, 0, ratio)
}

fn rounds_and_ratio(draft: &Draft, progress: &mut dyn FnMut(&str)) -> Result<(usize, f64), CalibrateError> {
    if let Rounds::Fixed(rounds) = draft.mechanism.rounds {
        return Ok((
            rounds as usize,
            best(draft, rounds as usize, None, progress)?.ratio,
        ));
    }
    let mut tried: Vec<(usize, Optimum)> = Vec::new();
    for rounds in FEWEST_ROUNDS..=MOST_ROUNDS {
        if !tried.is_empty() && Draws::of_draft(draft, rounds).take_too_long() {
            break;
        }
        tried.push((
            rounds,
            best(draft, rounds, tried.last().map(|(_, last)| last.ratio), progress)?,
        ));
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
    let least = tried
        .iter()
        .map(|(_, optimum)| optimum.objective)
        .fold(f64::INFINITY, f64::min);
    let close = tried
        .iter()
        .find(|(_, optimum)| optimum.objective <= least * CLOSE_ENOUGH);
    // If every one of them is in doubt, the noise will say so.
    Ok(close
        .or(tried.last())
        .map_or((MOST_ROUNDS, 1.0), |(rounds, optimum)| (*rounds, optimum.ratio)))
}

/// The r for these rounds, on the worst of a few draws: the smallest that brings F(r) close to its
/// floor 1/h, h the parties that neither collude nor depart. The least expected error of one
/// departure ([`ErrorModel::expected`]) lies at a smaller r: it weighs a final that is missing as
/// if each run had one. Measured for 200 parties, T = 10 and 20 gone in mixing: an MSE of 0.0117
/// there, where 0.0092 is the floor. Where no r comes close: the least expected error.
fn best(
    draft: &Draft,
    rounds: usize,
    near: Option<f64>,
    progress: &mut dyn FnMut(&str),
) -> Result<Optimum, CalibrateError> {
    let setting = Setting::of_draft(draft, &example(draft, rounds)?)?;
    let errors = ErrorModel::of(&setting)?;
    let draws = Draws::of_draft(draft, rounds);
    if draws.take_too_long() {
        return Err(CalibrateError::Draws {
            parties: draft.parties(),
            rounds,
        });
    }
    let count = affordable(&draws, PRODUCTS_FOR_ROUNDS, 4, 32);
    let at = |ratio: f64| {
        let square = draws
            .worst_of(FOR_ROUNDS..FOR_ROUNDS + count, ratio)
            .max(before(&setting, ratio).unwrap_or(1.0))
            .min(1.0);
        Optimum {
            ratio,
            square,
            objective: square.sqrt() * errors.expected(ratio),
        }
    };
    let honest = draft
        .parties()
        .saturating_sub(draws.colluding + draws.dropouts)
        .max(1) as f64;
    let close = |ratio: f64| at(ratio).square <= CLOSE_TO_FLOOR / honest;
    let optimum = if close(LARGEST_RATIO) {
        at(smallest(close))
    } else {
        minimise(near, at)
    };
    progress(&format!(
        "{rounds} rounds: expected error {:.5} at mu = 1 on {count} draws",
        optimum.objective
    ));
    Ok(optimum)
}

/// The smallest r up to [`LARGEST_RATIO`], to 5 %, from which on something holds.
pub(super) fn smallest(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1.0f64, LARGEST_RATIO);
    while high / low > 1.05 {
        let middle = (low * high).sqrt();
        if holds(middle) {
            high = middle
        } else {
            low = middle
        }
    }
    high
}

/// The value that is exceeded with about this chance, if the tail of what is seen falls like an
/// exponential (its largest tenth, by the mean excess). Only a choice of noise rests on it: the
/// claim counts what fresh draws really do.
fn beyond(mut seen: Vec<f64>, chance: f64) -> f64 {
    seen.sort_by(f64::total_cmp);
    let tenth = (seen.len() / 10).max(1);
    let from = seen.len() - tenth;
    let threshold = if from > 0 { seen[from - 1] } else { seen[0] };
    let excess = seen[from..].iter().map(|value| value - threshold).sum::<f64>() / tenth as f64;
    let share = tenth as f64 / seen.len() as f64;
    let worst = seen[seen.len() - 1];
    worst.max(threshold + excess * (share / chance).max(1.0).ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::draft;

    #[test]
    fn an_exponential_tail_is_continued() {
        let values = (0..1000)
            .map(|i| 5.0 - 2.0 * (1.0 - (f64::from(i) + 0.5) / 1000.0).ln())
            .collect();
        let expected = 5.0 - 2.0 * 1e-6f64.ln();
        assert!((beyond(values, 1e-6) / expected - 1.0).abs() < 0.02);
        assert_eq!(beyond(vec![3.0; 20], 1e-9), 3.0);
        assert_eq!(beyond(vec![1.0, f64::INFINITY], 0.1), f64::INFINITY);
    }

    #[test]
    fn fresh_seeds_follow_from_the_parameters() {
        let draft = draft(8, "[privacy]\ncoalitions = \"static\"");
        let noise = Noise {
            independent_std: 2.0,
            correlated_std: 9.0,
        };
        let seed = fresh_seed(&draft, 5, noise);
        assert!(seed < 1 << 52 && seed == fresh_seed(&draft, 5, noise));
        assert_ne!(seed, fresh_seed(&draft, 6, noise));
        assert_ne!(
            seed,
            fresh_seed(
                &draft,
                5,
                Noise {
                    independent_std: 2.0f64.next_up(),
                    ..noise
                }
            )
        );
    }
}
