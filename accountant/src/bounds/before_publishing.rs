//! The loss through all that leaves a party before anything can be withheld
//! (accountant/docs/guarantees.md): the gate cannot call shares back. The mechanism's [`theorem`]
//! holds for any coalition and any faults.

use undertone_protocol::topology::party::Party;

use crate::class::setting::Setting;
use crate::execution::error::ExecutionError;
use crate::losses::loss::{Noise, scaled};

/// The mechanism's theorem for one party, any coalition and any faults: its squared loss before
/// publishing, at own noise σ* = 1, r = σ_Δ²/σ*² = `ratio` and unit sensitivity.
pub fn theorem(setting: &Setting, party: Party, ratio: f64) -> Result<f64, ExecutionError> {
    let hand_outs = setting.hand_outs(party);
    Ok(setting
        .mechanism
        .rules()
        .square_before_publishing(setting.rounds(), hand_outs, ratio)?)
}

/// The bound of [`theorem`] on the loss μ of one party, sensitivity included, at this noise; with
/// PPSC a party's own noise may be 0.
pub fn bound(setting: &Setting, party: Party, noise: Noise) -> Result<f64, ExecutionError> {
    let sensitivity = setting.sensitivity[party];
    if sensitivity == 0.0 {
        return Ok(0.0);
    }
    let hand_outs = setting.hand_outs(party);
    Ok(setting
        .mechanism
        .rules()
        .loss_before_publishing(setting.rounds(), hand_outs, sensitivity, noise)?)
}

/// The largest bound of [`theorem`] over all parties, squared sensitivity included, at own noise
/// σ* = 1.
pub fn largest_theorem(setting: &Setting, ratio: f64) -> Result<f64, ExecutionError> {
    let of_party = |party: Party| {
        Ok(scaled(
            setting.sensitivity[party],
            theorem(setting, party, ratio)?,
        ))
    };
    (0..setting.parties())
        .map(of_party)
        .try_fold(0.0, |largest: f64, square: Result<f64, ExecutionError>| {
            Ok(largest.max(square?))
        })
}
