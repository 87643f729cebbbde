//! Rounds, schedule and the ratio of noises where a closed form bounds all coalitions at once: with
//! Gaussian noise and more parties than are computed.
//!
//! Noise that cancels costs the mean nothing as long as nobody's final is missing, and then the
//! more the more of it there is. So the least is taken that keeps the error within 5 % of the
//! least that any could lead to, or, where up to a thousand times σ* is not enough for that, of
//! what there is.

use undertone_protocol::plan::calibration::SeededSchedule;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::{Dissemination, Rounds};
use undertone_protocol::topology::schedule::Schedule;

use crate::bounds::closed_form::{ConnectedClass, speaks_of};
use crate::calibration::by_connectivity::{falls_apart, fewest, removed, schedule, too_thin};
use crate::calibration::error::CalibrateError;
use crate::calibration::limits::{CLOSE_ENOUGH, MOST_ROUNDS};
use crate::calibration::utility::ErrorModel;
use crate::class::claim_error::LARGEST_RATIO;
use crate::class::setting::Setting;
use crate::mechanism::chosen::Mechanism;

/// With INCA, rounds beyond which no schedule is tried when their number is `auto`: each makes
/// every share a bit wider, and a word has 128 bits.
const WIDEST_ROUNDS: u32 = 64;

/// The largest r where finals are averaged in public: the further out they are, the fewer bits are
/// left for the accuracy of their average. Our choice: the default accuracy fits with 200 parties.
const LARGEST_AVERAGED_RATIO: f64 = 100.0;

/// What is taken: the schedule of a seed, and r = σ_Δ²/σ*².
pub(super) struct ChosenSchedule {
    pub(super) seed: u64,
    pub(super) schedule: Schedule,
    pub(super) ratio: f64,
}

/// The fewest rounds, and the least r = σ_Δ²/σ*², whose error is close to the least; none if no
/// theorem says less than that noise is local.
pub(super) fn choose(
    draft: &Draft,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<ChosenSchedule>, CalibrateError> {
    let found = match draft.exchange.rounds() {
        Rounds::Fixed(rounds) => proved(draft, schedule(draft, rounds)?)?,
        Rounds::Auto => best(draft, progress)?,
    };
    let Some(found) = found else { return Ok(None) };
    let schedule = found.drawn.schedule;
    let (parties, rounds) = (draft.parties(), schedule.rounds());
    // So much noise cancels that a plan has to say what a missing final leaves of it.
    if !ErrorModel::of(&Setting::of_draft(draft, &schedule)?)?.knows_late() {
        return Err(CalibrateError::Late { parties, rounds });
    }
    progress(&format!(
        "{rounds} rounds: error at most {:.3} times the least, by a theorem",
        found.excess
    ));
    Ok(Some(ChosenSchedule {
        seed: found.drawn.seed,
        schedule,
        ratio: found.ratio,
    }))
}

/// A schedule of which a theorem speaks.
struct Proved {
    drawn: SeededSchedule,
    ratio: f64,
    /// The error over that with any amount of noise which cancels.
    excess: f64,
}

/// The fewest rounds with an error close to the least, or to the least of a few more rounds.
fn best(draft: &Draft, progress: &mut dyn FnMut(&str)) -> Result<Option<Proved>, CalibrateError> {
    // Nothing is drawn for a setting that no theorem speaks of.
    let example = schedule(draft, 1)?;
    if !Setting::of_draft(draft, &example.schedule).is_ok_and(|setting| speaks_of(&setting)) {
        return Ok(None);
    }
    // One more than may be taken away, and another for a share, where there is room.
    let least = removed(draft) + 1;
    let room = |wanted: &usize| falls_apart(&draft.private_graph, *wanted).is_none();
    let Some(wanted) = [least + 1, least].into_iter().find(room) else {
        return match falls_apart(&draft.private_graph, least) {
            Some(cut) if must_accept(draft) => Err(too_thin(draft, &cut)),
            _ => Ok(None),
        };
    };
    let first = match fewest(draft, wanted, progress) {
        Err(CalibrateError::Separated { .. }) if !must_accept(draft) => return Ok(None),
        found => found?.0,
    };
    let rules = draft.exchange.rules();
    let most = if rules.rounds_widen_states() {
        (first + MOST_ROUNDS as u32).min(WIDEST_ROUNDS)
    } else {
        2 * first
    };
    let mut tried: Vec<Proved> = Vec::new();
    let mut rounds = first;
    while rounds <= most.min(rules.most_rounds()) && tried.last().is_none_or(|it| it.excess > CLOSE_ENOUGH) {
        tried.extend(proved(draft, schedule(draft, rounds)?)?);
        rounds += (rounds / 8).max(1);
    }
    let least = tried.iter().map(|it| it.excess).fold(f64::INFINITY, f64::min);
    let enough = if least <= CLOSE_ENOUGH {
        CLOSE_ENOUGH
    } else {
        least * CLOSE_ENOUGH
    };
    Ok(tried.into_iter().find(|it| it.excess <= enough))
}

/// Whether local noise is only for those who accept it, and the draft does not.
fn must_accept(draft: &Draft) -> bool {
    Mechanism::with_default_injection(&draft.exchange)
        .is_some_and(|mechanism| mechanism.rules().local_noise_must_be_accepted())
        && !draft.exchange.accepts_local_noise()
}

/// What a theorem makes of a schedule.
fn proved(draft: &Draft, drawn: SeededSchedule) -> Result<Option<Proved>, CalibrateError> {
    let setting = Setting::of_draft(draft, &drawn.schedule)?;
    let Some(class) = ConnectedClass::of(&setting) else {
        return Ok(None);
    };
    let largest = setting.largest_sensitivity().powi(2);
    // What leaves before publishing never decides. With u = r/h, h the hand-outs of a party (with
    // INCA Σ (t/(T + 1))²), it loses 1/(1 + u) then; by the closed form, E or K being at least h,
    // at least 1/m + (m − 1)/(m + u(m − 1)). That is more: u(m − 1) + u²(m − 1) + mu ≥ 0.
    let square = |ratio: f64| class.square(&setting, ratio) * largest;
    let least = class.floor() * largest;
    let most = match draft.run.dissemination {
        Dissemination::Consensus => LARGEST_AVERAGED_RATIO,
        Dissemination::Flood | Dissemination::Auto => LARGEST_RATIO,
    };
    let enough = (least * CLOSE_ENOUGH * CLOSE_ENOUGH).max(square(most));
    let ratio = smallest(|ratio| square(ratio) <= enough);
    Ok(Some(Proved {
        excess: (square(ratio) / least).sqrt(),
        drawn,
        ratio,
    }))
}

/// The smallest r up to [`LARGEST_RATIO`], to 5 %, from which on something holds.
fn smallest(holds: impl Fn(f64) -> bool) -> f64 {
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

#[cfg(test)]
mod tests;
