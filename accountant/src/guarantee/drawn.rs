//! Rounds and noise where coalitions and departures are fixed before START draws the schedule: as
//! many rounds as make it unlikely enough that a draw leaves the others in several pieces.

use undertone_protocol::plan::calibration::Calibration;
use undertone_protocol::plan::claim::{Basis, Claim, Faults};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::{ExchangeName, Rounds};

use crate::bounds::static_draw::{DrawnRound, StaticDraw, delta_of_noise, drawn, most_chance, tries};
use crate::calibration::claims::Stated;
use crate::calibration::error::CalibrateError;
use crate::calibration::limits::MARGIN;
use crate::class::claim_error::ClaimError;
use crate::class::setting::{EXAMPLE_SEED, Setting, drawn_share_faults};
use crate::guarantee::connected::with_uniform_noise;
use crate::guarantee::mixed::mixed;
use crate::losses::gaussian;
use crate::losses::loss::Noise;

/// The draft's fewest rounds, and the noise σ* = Δ/(μ√(n − s)) that hides each value among all who
/// are not against it.
pub(super) fn calibrate(
    draft: &Draft,
    progress: &mut dyn FnMut(&str),
) -> Result<Calibration, CalibrateError> {
    let privacy = &draft.privacy;
    let draw = StaticDraw {
        round: match draft.exchange.name() {
            ExchangeName::Ppsc => DrawnRound::Pairing,
            _ => DrawnRound::Permutation,
        },
        parties: draft.parties(),
        removed: privacy.colluding + privacy.dropouts,
        share_faults: drawn_share_faults(draft).unwrap_or(0),
    };
    // A bad draw may hide nothing, so its chance is taken out of δ, and the noise has the rest.
    let budget = gaussian::mu(privacy.epsilon, delta_of_noise(privacy.delta))?;
    let most = draft.exchange.rules().most_rounds();
    progress("how many rounds keep a draw from leaving anybody apart");
    // Whoever reveals last knows the draw and may stop that START, so a coalition can choose among
    // several draws.
    let tries = tries(draw.parties, privacy.colluding, privacy.dropouts);
    let fewest = draw.fewest_rounds(&[most_chance(privacy.delta, tries)], most)[0];
    let rounds = match (draft.exchange.rounds(), fewest) {
        (Rounds::Auto, Some(fewest)) => fewest,
        (Rounds::Fixed(rounds), Some(fewest)) if rounds >= fewest => rounds,
        (given, fewest) => {
            return Err(CalibrateError::Drawn {
                rounds: match given {
                    Rounds::Fixed(rounds) => rounds,
                    Rounds::Auto => most,
                },
                removed: draw.removed,
                fewest,
            });
        }
    };
    let fanout = draft.exchange.fanout();
    // Claims and errors depend on the number of rounds, not on the draw: one example stands for
    // all.
    let example = Calibration::draw_schedule(draft, rounds, EXAMPLE_SEED);
    let example = example.ok_or(CalibrateError::Fanout { fanout })?;
    let setting = Setting::of_draft(draft, &example)?;
    let among = (draw.parties - draw.removed) as f64;
    let independent_std = setting.largest_sensitivity() / (budget * (among * MARGIN).sqrt());
    if !independent_std.is_normal() {
        return Err(CalibrateError::Budget {
            epsilon: privacy.epsilon,
            delta: privacy.delta,
            party: draft.members[0].name.clone(),
        });
    }
    let noise = Noise {
        independent_std,
        correlated_std: 0.0,
    };
    // The plan has no schedule: START draws it when coalitions are fixed.
    mixed(draft, &setting, None, noise, claims)
}

/// All claims at these standard deviations: of what a draw of the schedule hides from a coalition,
/// and departures, that were fixed before it. The δ of that claim is that of the noise and the
/// chance of a draw that hides nothing.
pub(super) fn claims(setting: &Setting, stated: Stated) -> Result<Vec<Claim>, ClaimError> {
    let of_noise = Stated {
        delta: delta_of_noise(stated.delta),
        ..stated
    };
    let class = match drawn(setting, stated.delta) {
        None => None,
        Some(found) => {
            let square = setting.largest_sensitivity().powi(2) / found.among as f64;
            Some(Claim {
                delta: stated.delta,
                basis: Some(Basis::Draw),
                draw: Some(found),
                ..of_noise.theorem(setting.colluding, Faults::Class, square)?
            })
        }
    };
    with_uniform_noise(setting, stated, class)
}

#[cfg(test)]
mod tests;
