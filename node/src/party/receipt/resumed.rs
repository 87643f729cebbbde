//! The receipt of a party that restarted in the middle of a run and read its result from others.

use serde_json::{Map, Value, json};
use undertone_accountant::bounds::static_draw::delta_of_noise;
use undertone_accountant::gate::plan_facts::delta_of;
use undertone_accountant::losses::charge::Charge;
use undertone_accountant::losses::gaussian;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::party::agreed_outcome::OutcomeRecord;
use crate::party::trained;
use crate::planning::mechanism;

/// The reason for a result of lower quality.
pub const REASON: &str = "this node ended in the middle of the run and says nothing in it any more; the result is what \
                          the other members give alike";

/// The cost for this party: the charge that was on its disk when it restarted.
#[derive(Clone, Copy, Debug)]
pub struct ChargedAtRestart {
    /// The run's charge in the ledger.
    pub charge: Charge,
    /// Iterations of a training that it pays for; 0 of any other task.
    pub iterations: u64,
}

/// The receipt. Its loss is what the ledger had charged before the restart: others' word never
/// lowers it. There is no execution, since this node holds no log.
pub fn receipt(
    plan: &Plan,
    me: Party,
    record: &OutcomeRecord,
    charged: ChargedAtRestart,
    result_sha256: &str,
) -> Value {
    let delta = plan.draft().privacy.delta;
    let mu = charged.charge.mu();
    let epsilon = gaussian::epsilon(delta_of(plan), mu).unwrap_or(f64::INFINITY);
    let members = plan.draft().members.iter();
    let departed: Vec<&str> = members
        .map(|member| member.name.as_str())
        .filter(|name| record.departed.contains_key(*name))
        .collect();
    let mut receipt = json!({
        "version": 1,
        "digest": plan.digest_hex(),
        "party": plan.draft().members[me].name,
        "resumed": true,
        "outcome": "degraded",
        "reason": REASON,
        "included": record.included,
        "agreed": true,
        "epsilon": epsilon.is_finite().then_some(epsilon),
        "epsilon_claimed": plan.epsilon_claimed(),
        "epsilon_searched": plan.epsilon_searched(),
        "delta": delta,
        "sampling_delta": epsilon.is_finite().then(|| plan.sampling_delta(epsilon)),
        "unit": plan.draft().data.unit,
        "adjacency": plan.draft().data.adjacency,
        "mu": mu.is_finite().then_some(mu),
        "standard_error": Value::Null,
        "utility": Value::Null,
        "independent_std": mechanism::independent_std(plan),
        "correlated_std": mechanism::correlated_std(plan),
        "pairwise_std": mechanism::pairwise_std(plan),
        "revealed": mechanism::revealed(plan),
        "total_weight": Value::Null,
        "lost_weight": Value::Null,
        "weights": Map::new(),
        "claims": plan.calibration().claims,
        "result_sha256": result_sha256,
        "faults": [],
        "departed": departed,
        "execution": Value::Null,
    });
    add_known(&mut receipt, plan, record, charged);
    receipt
}

/// Adds the entries that only some runs have.
fn add_known(receipt: &mut Value, plan: &Plan, record: &OutcomeRecord, charged: ChargedAtRestart) {
    let delta = plan.draft().privacy.delta;
    if receipt["epsilon"].is_null() {
        receipt["unbounded"] = true.into();
    }
    if !record.records.is_empty() {
        receipt["records"] = json!(record.records);
    }
    let mut claims = plan.calibration().claims.iter();
    if let Some(basis) = claims.find_map(|claim| claim.draw) {
        let chance = basis.chance_of_all();
        receipt["draw"] = json!({
            "tries": Value::Null,
            "most": basis.tries,
            "chance": chance,
            "delta": delta.max((delta_of_noise(delta) + chance).next_up()),
            "seed": record.seed,
        });
    }
    if record.iterations > 0 {
        receipt["iterations"] = json!({
            "planned": trained::planned(plan),
            "run": record.iterations,
            "spent": charged.iterations,
            "corrected": [],
            "rejected": record.rejected,
            "departed": record.departed,
        });
    }
    if let Some(protect) = trained::protect(plan) {
        receipt["protect"] = json!(protect);
    }
}
