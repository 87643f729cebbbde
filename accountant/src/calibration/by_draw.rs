//! Rounds and noise where coalitions and departures are fixed before START draws the schedule: as
//! many rounds as make it unlikely enough that a draw leaves the others in several pieces.

use undertone_protocol::plan::calibration::Calibration;
use undertone_protocol::plan::claim::Predicted;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::{ExchangeName, Rounds};

use crate::bounds::static_draw::{DrawnRound, StaticDraw, delta_of_noise, most_chance, tries};
use crate::calibration::claims::{claims, predicted};
use crate::calibration::error::CalibrateError;
use crate::calibration::limits::MARGIN;
use crate::calibration::sealed::{claims_when_sealed, predicted_when_sealed};
use crate::class::setting::{EXAMPLE_SEED, Setting, drawn_share_faults};
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
    let budget = gaussian::mu(privacy.epsilon, delta_of_noise(privacy.delta))?;
    let most = draft.exchange.rules().most_rounds();
    progress("how many rounds keep a draw from leaving anybody apart");
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
    Ok(Calibration {
        rounds,
        drawn: None,
        claims: claims_when_sealed(draft, claims(&setting, noise, privacy.delta)?),
        predicted: expected(draft, &setting, noise)?.times(draft.data.scales().root_mean_square()),
        independent_std,
        correlated_std: 0.0,
    })
}

/// What is expected of the result, in a state's units.
fn expected(draft: &Draft, setting: &Setting, noise: Noise) -> Result<Predicted, CalibrateError> {
    let privacy = &draft.privacy;
    let budget = gaussian::mu(privacy.epsilon, privacy.delta)?;
    Ok(predicted_when_sealed(draft, predicted(setting, noise, budget)?))
}

#[cfg(test)]
mod tests;
