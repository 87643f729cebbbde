//! Whole plans of PPSC: calibrated, verified, gated.

mod exact_sums;
mod publishing;
mod small_plans;

use serde_json::Value;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Claim, Established, Faults};

use crate::account::ppsc::{PpscAccount, account};
use crate::gate::verdict::{Audit, Basis};
use crate::losses::loss::Noise;
use crate::verify::check::verify;
use crate::verify::error::VerifyError;

/// Components of four, three and three parties (accountant/docs/papers.md), as dense as they can
/// be.
const COMPONENTS: &str = r#"edges = [["party-0","party-1"],["party-0","party-2"],["party-0","party-3"],["party-1","party-2"],
["party-1","party-3"],["party-2","party-3"],["party-4","party-5"],["party-5","party-6"],["party-4","party-6"],["party-7","party-8"],
["party-8","party-9"],["party-7","party-9"]]"#;

fn in_components(privacy: &str, mechanism: &str) -> String {
    format!(
        "[privacy]\n{privacy}\n[mechanism]\nkind = \"ppsc\"\n{mechanism}\n[topology]\nprivate = {{ kind = \"edges\", {} }}",
        COMPONENTS.replace('\n', " ")
    )
}

const COMPLETE: &str = "[mechanism]\nkind = \"ppsc\"";

fn noise(plan: &Plan) -> Noise {
    let calibration = plan.calibration();
    Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    }
}

fn claim(plan: &Plan, faults: Faults, established: Established, adversary: Adversary) -> &Claim {
    let found = |claim: &&Claim| {
        (claim.faults, claim.established, claim.adversary) == (faults, established, adversary)
    };
    plan.calibration()
        .claims
        .iter()
        .find(found)
        .expect("there is such a claim")
}

/// `account ppsc` on an audit's execution, written to JSON and read again, as anyone can.
fn accounted(plan: &Plan, audit: &Audit) -> PpscAccount {
    let json = serde_json::to_string(&audit.execution).expect("serialises");
    let Noise {
        independent_std,
        correlated_std,
    } = noise(plan);
    account(&json, correlated_std, independent_std, 1.0, audit.delta)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn assert_audit(plan: &Plan, audit: &Audit) {
    let mu = accounted(plan, audit).mu;
    match audit.basis {
        // A share that came back carries a little still, which is not counted.
        Basis::Computed => assert!(
            (0.95..1.0 + 1e-12).contains(&(mu / audit.mu)),
            "{mu} {}",
            audit.mu
        ),
        _ => assert!(mu <= audit.mu * (1.0 + 1e-12), "{mu} {}", audit.mu),
    }
    assert!(audit.mu > 0.0 && audit.epsilon > 0.0);
}

fn changed(plan: &Plan, change: impl Fn(&mut Value)) -> Result<(), VerifyError> {
    let mut value: Value = serde_json::from_str(plan.to_json()).expect("a plan is JSON");
    change(&mut value);
    verify(&Plan::parse(value.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}")))
}
