//! `independent_noise = "none"`: the paper's mode. The exact sum of each honest component is
//! public, so that one changed value is seen with certainty; what is claimed holds for changes that
//! keep every sum which is seen, of at most Δ together (Euclidean, over all that change).
//!
//! The loss is Δ S/σ_γ, σ_γ the deviation of the noise of an exchange, S the supremum of ‖D⁺Cv‖
//! ([`SameSum`]), computed in every system of the class. Before publishing no sum is seen, and the
//! bound of [`crate::bounds::before_publishing`] holds for joint changes as for single ones: given
//! all that a party i hands out, kᵢ times, what leaves different parties has different noises, so
//! that their squared losses Δᵢ² kᵢ/σ_γ² add up, at most to Δ² max kᵢ/σ_γ².

use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::claim::{Changes, Claim, Established, Faults};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::Rounds;
use undertone_protocol::topology::party::Party;

use crate::bounds::before_publishing::bound;
use crate::calibration::claims::{Stated, theorem};
use crate::calibration::error::CalibrateError;
use crate::calibration::limits::MARGIN;
use crate::class::claim_error::ClaimError;
use crate::class::setting::Setting;
use crate::class::{coalitions, faults};
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::trace::Trace;
use crate::guarantee::gaussian::{Search, no_noise, protects_everybody};
use crate::guarantee::mixed::mixed;
use crate::losses::gaussian::SLACK;
use crate::losses::loss::Noise;
use crate::losses::releases;
use crate::losses::same_sum::SameSum;
use crate::losses::view::View;
use crate::mechanism::chosen::Mechanism;
use crate::parallel::in_parallel;

/// Systems that are computed at most. Our choice: some seconds; each takes a singular value
/// decomposition.
const MOST_SYSTEMS: usize = 30_000;

/// The largest supremum over executions and coalitions, and where it is reached.
pub(crate) struct Steepest {
    /// The supremum S: the loss is sensitivity times S over the noise of an exchange.
    pub(crate) supremum: f64,
    /// The execution, with its coalition as `corrupted`.
    pub(crate) execution: Execution,
}

/// How many systems a class has.
fn systems(setting: &Setting) -> Option<usize> {
    let size = setting.coalition_size();
    let coalitions = coalitions::count(setting.parties(), size).filter(|_| size < setting.parties())?;
    coalitions
        .checked_mul(1 + faults::single_shares(setting).len())
        .filter(|&systems| systems <= MOST_SYSTEMS)
}

/// The steepest system of the tolerated class; none if it has too many systems.
fn of_class(setting: &Setting) -> Result<Option<Steepest>, ExecutionError> {
    if systems(setting).is_none() {
        return Ok(None);
    }
    let base = setting.fault_free()?;
    // Parties that depart are in the coalitions already, so only shares that go astray need
    // executions of their own.
    let faulted = faults::single_shares(setting)
        .into_iter()
        .map(|fault| base.clone().with_shares(vec![fault]));
    let executions = std::iter::once(Ok(base.clone()))
        .chain(faulted)
        .collect::<Result<Vec<Execution>, ExecutionError>>()?;
    steepest(
        setting,
        &executions,
        &coalitions::all(setting.parties(), setting.coalition_size()),
    )
    .map(Some)
}

/// The steepest of these executions and coalitions; there is at least one of each.
pub(crate) fn steepest(
    setting: &Setting,
    executions: &[Execution],
    coalitions: &[Vec<Party>],
) -> Result<Steepest, ExecutionError> {
    let of_execution = |index: usize| {
        // Who colludes changes what is seen and not what happens: one trace serves all coalitions.
        let trace = Trace::of(&executions[index], &setting.weights);
        let largest = coalitions.iter().map(|coalition| {
            let against = executions[index]
                .clone()
                .with_corrupted(coalition.iter().copied())?;
            let supremum = SameSum::of(&View::of_trace(&trace, &against)).largest;
            // Doubt counts as seen.
            let supremum = if supremum.is_nan() {
                f64::INFINITY
            } else {
                supremum
            };
            Ok(Steepest {
                supremum,
                execution: against,
            })
        });
        Some(largest.reduce(|a, b| Ok(steeper(a?, b?))))
    };
    let found = in_parallel(executions.len(), of_execution).into_iter().flatten();
    found
        .reduce(|a, b| Ok(steeper(a?, b?)))
        .expect("there is at least one execution and one coalition")
}

fn steeper(a: Steepest, b: Steepest) -> Steepest {
    if b.supremum > a.supremum { b } else { a }
}

/// The size of a joint change: the largest sensitivity of any party.
fn sensitivity(setting: &Setting) -> f64 {
    setting.largest_sensitivity()
}

/// The loss of a joint change at this noise of an exchange.
pub(crate) fn loss(setting: &Setting, steepest: &Steepest, pairwise_std: f64) -> f64 {
    sensitivity(setting) * steepest.supremum / pairwise_std * (1.0 + SLACK)
}

/// The noise of an exchange with which no joint change of the class, and nothing before publishing
/// whoever reads it, loses more than `mu`; none if the class has too many systems. The theorem is
/// kept, too: this noise costs the mean nothing, and the gate then need not look into what a
/// departed party did.
fn pairwise_std_needed(setting: &Setting, mu: f64) -> Result<Option<f64>, ExecutionError> {
    let Some(steepest) = of_class(setting)? else {
        return Ok(None);
    };
    let unit = Noise {
        independent_std: 0.0,
        correlated_std: 1.0,
    };
    Ok(Some(
        (sensitivity(setting) * steepest.supremum).max(largest_bound(setting, unit)?) / mu,
    ))
}

/// Returns the largest loss to any coalition before publishing.
fn largest_bound(setting: &Setting, noise: Noise) -> Result<f64, ExecutionError> {
    let bounds = (0..setting.parties()).map(|party| bound(setting, party, noise));
    bounds
        .into_iter()
        .try_fold(0.0f64, |largest, mu| Ok(largest.max(mu?)))
}

/// The least noise of an exchange over the schedules that are tried: PPSC as the paper has it,
/// without a party's own noise.
pub(super) fn calibrate(
    draft: &Draft,
    progress: &mut dyn FnMut(&str),
) -> Result<Calibration, CalibrateError> {
    let mechanism = Mechanism::with_default_injection(&draft.exchange).ok_or(CalibrateError::Kind)?;
    let rules = mechanism.rules();
    protects_everybody(draft, rules)?;
    let budget = releases::budget(draft)?;
    let search = Search {
        draft,
        rules,
        progress,
    };
    let rounds = match draft.exchange.rounds() {
        Rounds::Fixed(rounds) => {
            search.suffices(rounds as usize)?;
            rounds as usize
        }
        // More rounds would win nothing: the noise of an exchange cancels in the mean, however
        // large it is.
        Rounds::Auto => search.fewest_rounds()?.ok_or(CalibrateError::Kind)?,
    };
    let mut best: Option<(f64, SeededSchedule)> = None;
    for seed in 0..search.seeds(rounds)? {
        if !search.covers(rounds, seed)? {
            continue;
        }
        let schedule = search.schedule(rounds, seed)?;
        let setting = Setting::of_draft(draft, &schedule)?;
        let needed = pairwise_std_needed(&setting, budget * MARGIN.sqrt())?.ok_or(CalibrateError::TooMany)?;
        (search.progress)(&format!(
            "{rounds} rounds: schedule {seed} needs {needed:.3} an exchange"
        ));
        if best.as_ref().is_none_or(|(least, _)| needed < *least) {
            best = Some((needed, SeededSchedule { seed, schedule }));
        }
    }
    let (correlated_std, drawn) = best.expect("rounds are those of a schedule that was tried");
    if !correlated_std.is_normal() {
        return Err(no_noise(draft, 0));
    }
    let noise = Noise {
        independent_std: 0.0,
        correlated_std,
    };
    let setting = Setting::of_draft(draft, &drawn.schedule)?;
    mixed(draft, &setting, Some(drawn), noise, claims)
}

/// All claims at these standard deviations.
pub(super) fn claims(setting: &Setting, stated: Stated) -> Result<Vec<Claim>, ClaimError> {
    let (noise, delta) = (stated.noise, stated.delta);
    let is_usable = noise.correlated_std > 0.0 && noise.correlated_std.is_finite();
    // With noise of their own parties hide the sums, too, and other claims hold.
    if !(is_usable && setting.reveals_sums(noise)) {
        return Err(stated.refused());
    }
    let steepest = of_class(setting)?.ok_or(ClaimError::TooMany)?;
    let of_class = Claim {
        established: Established::Exhaustive,
        cases: systems(setting).unwrap_or(0) as u64,
        ..theorem(
            setting.colluding,
            Faults::Class,
            loss(setting, &steepest, noise.correlated_std) * (1.0 + SLACK),
            delta,
        )?
    };
    let before = largest_bound(setting, noise)? * (1.0 + SLACK);
    let before = theorem(setting.parties() - 1, Faults::BeforePublishing, before, delta)?;
    // Sums are exact here: a change of one value alone is seen with certainty, so no claim is about
    // it.
    let for_same_sums = |claim: Claim| Claim {
        changes: Some(Changes::SameSum),
        ..claim
    };
    Ok([of_class, before].map(for_same_sums).into())
}
