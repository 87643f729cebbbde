//! Losses so near to the budget that two machines may judge them differently.
//!
//! Where noise is uniform, or masks, the gate compares integers. Where it compares a loss, the
//! budget is `libm`'s, the same bits everywhere, and so is what closed forms and eliminations give:
//! they add up in one order on every machine. Where exact sums are revealed singular values decide,
//! which add up in the order of a machine's vector units: two machines' differ by some 10⁻¹³. If
//! the budget lies between them one node publishes and another withholds. Calibration leaves more
//! free than [`CLEARANCE`] ([`MARGIN`](crate::calibration::limits::MARGIN)), so that only a plan
//! that was made for it can come so near.
//!
//! The losses that a plan fixes are looked at: the worst of its class, below which all others of
//! the class lie; of each party what it may lose before publishing; and that of local noise. What
//! happens beyond the class has losses of its own, which no plan knows. If nodes differ there,
//! those who publish have no quorum, or those who do not are missing.

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::Claim;

use crate::bounds::before_publishing::bound;
use crate::calibration::claims::is_sure;
use crate::class::setting::Setting;
use crate::gate::plan_facts::budget_of_release;
use crate::losses::loss::Noise;
use crate::verify::error::VerifyError;

/// How near to the budget, relatively, a loss may not be: ten thousand times what two machines'
/// results differ by, and half of what calibration leaves free at least.
pub(super) const CLEARANCE: f64 = 1e-9;

/// Checks that no loss which a plan's gate may meet is as near to the budget as [`CLEARANCE`];
/// `claims` are what can be established of one release of mixing.
pub(super) fn check_clearance(plan: &Plan, claims: &[Claim]) -> Result<(), VerifyError> {
    if claims.is_empty() {
        return Ok(());
    }
    let setting = Setting::of_plan(plan)?;
    let noise = Noise {
        independent_std: plan.calibration().independent_std,
        correlated_std: plan.calibration().correlated_std,
    };
    let budget = budget_of_release(plan);
    let mut losses: Vec<f64> = claims
        .iter()
        .filter(|claim| is_sure(claim))
        .map(|claim| claim.mu)
        .collect();
    // With uniform noise nothing is lost before publishing.
    if !setting.uniform {
        for party in 0..setting.parties() {
            losses.push(bound(&setting, party, noise)?);
        }
    }
    let near = |loss: &f64| (loss - budget).abs() <= CLEARANCE * budget;
    match losses.into_iter().find(near) {
        None => Ok(()),
        Some(loss) => Err(VerifyError::Clearance { loss, budget }),
    }
}
