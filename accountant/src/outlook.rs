//! What else a quote says: errors with more parties gone, errors at other ε, and what would help where a target cannot be met.

use std::fmt;

use serde::Serialize;
use undertone_protocol::mixing::Party;
use undertone_protocol::plan::{Adversary, Draft, Established, Faults, Plan};

use crate::coalitions;
use crate::execution::{Execution, ExecutionError};
use crate::gaussian::{self, GaussianError};
use crate::loss::Noise;
use crate::setting::Setting;
use crate::utility::summed;

/// Shares of the parties that a quote assumes gone for good, in percent.
const GONE_PERCENT: [usize; 5] = [0, 1, 5, 10, 20];

/// Without roll-back: choices of who goes and when that the error is averaged over, and unknowns of a run up to which it is computed.
const CHOICES: usize = 12;
const MOST_UNKNOWNS: usize = 2_000;

/// The error if so many parties are gone for good.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gone {
    /// Of the parties.
    pub percent: usize,
    /// How many these are, rounded up.
    pub parties: usize,
    /// Standard error of the result, per coordinate and in the data's unit, noise only; with uneven weights, for the heaviest gone. Null where it
    /// was not computed.
    pub standard_error: Option<f64>,
    /// Whether the plan tolerates as many. If not, the gate may withhold, and fewer than `min_parties` withhold always.
    pub tolerated: bool,
}

/// Errors with 0, 1, 5, 10 and 20 % of the parties gone for good.
///
/// With roll-back the result is the exact mean over the rest: σ*√|L|/W_L. Without, noise is left behind: the root of the mean variance
/// over a fixed choice of parties and rounds.
pub fn gone(plan: &Plan) -> Result<Vec<Gone>, ExecutionError> {
    let (parties, dropouts) = (plan.parties(), plan.draft().privacy.dropouts);
    let scale = plan.scales().root_mean_square();
    let each = |percent: usize| {
        let count = (parties * percent).div_ceil(100);
        let error = if plan.draft().mechanism.rollback { Some(rolled_back(plan, count)) } else { left_behind(plan, count)? };
        let standard_error = error.map(|error| error * scale).filter(|error| error.is_finite());
        Ok(Gone { percent, parties: count, standard_error, tolerated: count <= dropouts })
    };
    GONE_PERCENT.into_iter().map(each).collect()
}

fn rolled_back(plan: &Plan, gone: usize) -> f64 {
    let mut weights: Vec<f64> = (0..plan.parties()).map(|party| plan.draft().weight(party)).collect();
    weights.sort_by(f64::total_cmp);
    let rest = &weights[..weights.len() - gone];
    plan.calibration().independent_std * (rest.len() as f64).sqrt() / rest.iter().sum::<f64>()
}

fn left_behind(plan: &Plan, gone: usize) -> Result<Option<f64>, ExecutionError> {
    let (parties, rounds) = (plan.parties(), plan.rounds() as usize);
    if parties * (rounds + 1) > MOST_UNKNOWNS {
        return Ok(None);
    }
    let setting = Setting::of_plan(plan)
        .map_err(|error| ExecutionError::Invalid { place: "injection".into(), problem: error.to_string() })?;
    let base = setting.fault_free()?;
    let calibration = plan.calibration();
    let noise = Noise { independent_std: calibration.independent_std, correlated_std: calibration.correlated_std };
    let choices = if gone == 0 { 1 } else { CHOICES };
    let mut variance = 0.0;
    for choice in 0..choices {
        // Spread over parties and rounds; two of one choice are different parties.
        let leaves =
            |index: usize| ((index * parties / gone.max(1) + choice * 5) % parties, 1 + (choice * 7 + index * 3) % rounds);
        let leaving: Vec<(Party, usize)> = (0..gone).map(leaves).collect();
        variance += crashed(&setting, &base, &leaving, noise)? / choices as f64;
    }
    Ok(Some(variance.sqrt()))
}

/// The variance of the result if these parties send nothing from these rounds on; what was due to them stays with its senders.
fn crashed(setting: &Setting, base: &Execution, leaving: &[(Party, usize)], noise: Noise) -> Result<f64, ExecutionError> {
    let here = |party: Party, round: usize| leaving.iter().all(|&(who, from)| who != party || round < from);
    let online = (0..=setting.rounds()).map(|t| (0..setting.parties()).map(|party| here(party, t)).collect()).collect();
    let rest = (0..setting.parties()).filter(|&party| here(party, setting.rounds())).collect();
    Ok(summed(&base.clone().with_online(online)?, &setting.weights, &rest).variance(noise))
}

/// Errors at one ε.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtEpsilon {
    /// ε.
    pub epsilon: f64,
    /// Of this plan, calibrated for it: standard error, per coordinate and in the data's unit.
    pub standard_error: f64,
    /// A trusted server's.
    pub central: f64,
    /// Local noise's.
    pub local: f64,
}

/// ε of the curve, at the plan's δ.
const CURVE: [f64; 13] = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0];

/// Error against ε. All losses scale with 1/σ*, so that rounds, schedule and r = σ_Δ²/σ*² are best at every ε alike: errors go like 1/μ(ε, δ).
pub fn curve(plan: &Plan) -> Result<Vec<AtEpsilon>, GaussianError> {
    let privacy = &plan.draft().privacy;
    let predicted = &plan.calibration().predicted;
    let budget = gaussian::mu(privacy.epsilon, privacy.delta)?;
    let at = |epsilon: f64| {
        let factor = budget / gaussian::mu(epsilon, privacy.delta)?;
        let [standard_error, central, local] = [predicted.standard_error, predicted.central, predicted.local].map(|e| e * factor);
        Ok(AtEpsilon { epsilon, standard_error, central, local })
    };
    CURVE.into_iter().map(at).collect()
}

/// One change of the run file that suffices by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// The key.
    pub setting: &'static str,
    /// The number that suffices, the closest one to what was asked for.
    pub value: usize,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.setting {
            "topology.private" => write!(f, "at least {} private neighbours for everybody", self.value),
            setting => write!(f, "{setting} = {}", self.value),
        }
    }
}

/// What protects everybody where some party has no more than `degree` neighbours. More rounds or a larger ε do not: all that such a party
/// exchanges is known to its neighbours.
pub fn against_exposure(draft: &Draft, degree: usize) -> Vec<Remedy> {
    let colluding = draft.privacy.colluding;
    let dropouts = if draft.mechanism.rollback { draft.privacy.dropouts } else { 0 };
    let mut remedies = Vec::new();
    let mut needed = (colluding + dropouts + 1).min(draft.parties() - 1);
    // A regular graph has an even number of edge ends.
    needed += needed * draft.parties() % 2;
    remedies.push(Remedy { setting: "topology.private", value: needed });
    if let Some(fewer) = degree.checked_sub(1 + dropouts).filter(|fewer| (1..colluding).contains(fewer)) {
        remedies.push(Remedy { setting: "privacy.colluding", value: fewer });
    }
    if let Some(fewer) = degree.checked_sub(1 + colluding).filter(|fewer| *fewer < dropouts) {
        remedies.push(Remedy { setting: "privacy.dropouts", value: fewer });
    }
    remedies
}

/// What would let all coalitions be computed, where the headline is the theorem's because they are too many: then its noise is that of local privacy.
pub fn against_the_theorem(plan: &Plan) -> Vec<Remedy> {
    let computed = plan
        .calibration()
        .claims
        .iter()
        .filter(|claim| claim.adversary == Adversary::Coalition)
        .any(|claim| claim.faults == Faults::Class && claim.established == Established::Exhaustive);
    let Ok(setting) = Setting::of_plan(plan) else { return vec![] };
    if computed {
        return vec![];
    }
    let privacy = &plan.draft().privacy;
    let with = |colluding: usize, dropouts: usize, rounds: usize| {
        let out = setting.out[..rounds].to_vec();
        coalitions::feasible(&Setting { colluding, dropouts, out, ..setting.clone() })
    };
    let rounds = setting.rounds();
    let fewer = |most: usize, least: usize, fits: &dyn Fn(usize) -> bool| (least..most).rev().find(|&value| fits(value));
    [
        ("privacy.colluding", fewer(privacy.colluding, 1, &|value| with(value, privacy.dropouts, rounds))),
        ("privacy.dropouts", fewer(privacy.dropouts, 0, &|value| with(privacy.colluding, value, rounds))),
        ("mechanism.rounds", fewer(rounds, 3, &|value| with(privacy.colluding, privacy.dropouts, value))),
    ]
    .into_iter()
    .filter_map(|(setting, value)| Some(Remedy { setting, value: value? }))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::{CalibrateError, calibrate};
    use crate::testing::{draft, plan};

    #[test]
    fn with_roll_back_the_rest_has_its_exact_mean() {
        let plan = plan(5, "[mechanism]\nrounds = 4");
        let gone = gone(&plan).expect("errors");
        let counts: Vec<usize> = gone.iter().map(|gone| gone.parties).collect();
        assert_eq!(counts, [0, 1, 1, 1, 1]);
        let predicted = &plan.calibration().predicted;
        let same = |a: Option<f64>, b: f64| (a.expect("computed") / b - 1.0).abs() < 1e-12;
        assert!(same(gone[0].standard_error, predicted.standard_error) && gone[0].tolerated);
        assert!(same(gone[4].standard_error, predicted.standard_error_one_dropout.expect("tolerated")));
    }

    #[test]
    fn without_roll_back_noise_is_left_behind() {
        let plan = plan(5, "[mechanism]\nrounds = 4\nrollback = false");
        let gone = gone(&plan).expect("errors");
        let error = |index: usize| gone[index].standard_error.expect("computed");
        assert!((error(0) / plan.calibration().predicted.standard_error - 1.0).abs() < 1e-12);
        // A crash in rounds 1 to 4 by turns: near the mean over all of them.
        let expected = plan.calibration().predicted.standard_error_one_dropout.expect("tolerated");
        assert!((error(4) / expected - 1.0).abs() < 0.2, "{} {expected}", error(4));
    }

    #[test]
    fn the_curve_goes_through_the_plan_and_through_other_plans() {
        let here = plan(4, "[mechanism]\nrounds = 4");
        let there = plan(4, "[privacy]\nepsilon = 3.0\n[mechanism]\nrounds = 4");
        let curve = curve(&here).expect("a budget");
        let at = |epsilon: f64| curve.iter().find(|at| at.epsilon == epsilon).expect("on the curve");
        for (epsilon, plan) in [(1.0, &here), (3.0, &there)] {
            let predicted = &plan.calibration().predicted;
            assert!((at(epsilon).standard_error / predicted.standard_error - 1.0).abs() < 1e-9);
            assert!((at(epsilon).local / predicted.local - 1.0).abs() < 1e-9);
        }
        assert!(curve.windows(2).all(|pair| pair[1].standard_error < pair[0].standard_error));
    }

    #[test]
    fn each_remedy_suffices() {
        let ring = |privacy: &str| {
            draft(7, &format!("[privacy]\n{privacy}\n[topology]\nprivate = {{ kind = \"ring\" }}\n[mechanism]\nrounds = 3"))
        };
        let exposed = ring("colluding = 1\ndropouts = 1");
        assert!(matches!(calibrate(&exposed, &mut |_| {}), Err(CalibrateError::Exposed { .. })));
        let remedies = against_exposure(&exposed, 2);
        assert_eq!(remedies[0], Remedy { setting: "topology.private", value: 4 });
        assert_eq!(remedies[1], Remedy { setting: "privacy.dropouts", value: 0 });
        assert!(calibrate(&ring("colluding = 1\ndropouts = 0"), &mut |_| {}).is_ok());
        let regular = "[privacy]\ncolluding = 1\ndropouts = 1\n[topology]\nprivate = { kind = \"random-regular\", degree = 4 }\n[mechanism]\nrounds = 3";
        assert!(calibrate(&draft(7, regular), &mut |_| {}).is_ok());
    }

    #[test]
    fn fewer_colluders_can_be_exhausted() {
        let plan = plan(30, "[privacy]\ncolluding = 4\n[mechanism]\nrounds = 3");
        assert_eq!(against_the_theorem(&plan), [Remedy { setting: "privacy.colluding", value: 2 }]);
        assert!(against_the_theorem(&crate::testing::plan(4, "[mechanism]\nrounds = 3")).is_empty());
    }
}
