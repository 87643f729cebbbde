//! PPSC without independent noise: the sum stands open, and what is claimed keeps it.

use serde_json::json;
use undertone_protocol::plan::claim::{Adversary, Changes, Established, Faults};
use undertone_protocol::topology::party::Party;

use super::{accounted, changed, claim, in_components};
use crate::gate::decision::{gate, withheld, without_verdict};
use crate::gate::verdict::Basis;
use crate::testing::{logs, plan};
use crate::verify::check::verify;
use crate::verify::error::VerifyError;

#[test]
fn without_independent_noise_there_is_no_headline() {
    let lines = in_components(
        "epsilon = 1.0\ncolluding = 1\ndropouts = 0",
        "independent_noise = \"none\"\naccept_exact_sum = true",
    );
    let plan = plan(10, &lines);
    assert_eq!(plan.epsilon_claimed(), None);
    assert!(
        plan.calibration()
            .claims
            .iter()
            .all(|claim| claim.changes == Some(Changes::SameSum))
    );
    let worst = claim(
        &plan,
        Faults::Class,
        Established::Exhaustive,
        Adversary::Coalition,
    );
    let most = plan
        .calibration()
        .claims
        .iter()
        .map(|claim| claim.epsilon)
        .fold(0.0, f64::max);
    assert!(worst.epsilon <= 1.0 && most >= 0.999, "{} {most}", worst.epsilon);
    assert_eq!(
        plan.calibration().predicted.standard_error,
        0.0,
        "the mean is exact"
    );
    assert_eq!(verify(&plan), Ok(()));
    let less = changed(&plan, |value| {
        let std = &mut value["mechanism"]["pairwise_std"];
        *std = json!(std.as_f64().expect("a number") * 0.99);
    });
    assert!(matches!(less, Err(VerifyError::Loss { .. })), "{less:?}");
    let headline = changed(&plan, |value| {
        value["claims"][0]["holds_as_headline"] = json!(true)
    });
    assert!(
        matches!(headline, Err(VerifyError::Unknown { index: 0, .. })),
        "{headline:?}"
    );
    let none = changed(&plan, |value| {
        value["claims"].as_array_mut().expect("a list").clear()
    });
    assert!(matches!(none, Err(VerifyError::Missing { .. })), "{none:?}");
    let verdict = gate(&plan, &logs(&plan, &(0..10).collect::<Vec<_>>()));
    assert_eq!(verdict.publish, Some((0..10).collect()), "{}", verdict.reason);
    let audit = &verdict.audit;
    assert!(audit.mu.is_infinite() && audit.epsilon.is_infinite());
    // Who does not know whether they published cannot say less.
    let unknown = without_verdict(&plan, "late");
    assert!(unknown.mu.is_infinite() && unknown.epsilon.is_infinite());
    assert!(unknown.same_sum_mu >= audit.same_sum_mu);
    let found = accounted(&plan, audit);
    let same_sum_mu = audit.same_sum_mu.expect("stated");
    assert!(
        found.mu.is_infinite() && (found.same_sum_mu / same_sum_mu - 1.0).abs() < 1e-9,
        "{found:?} {same_sum_mu}"
    );
    assert!(same_sum_mu <= worst.mu);
    let audit = withheld(&plan, "no agreed set");
    assert!(
        audit.mu.is_finite() && accounted(&plan, &audit).mu <= audit.mu * (1.0 + 1e-12),
        "no sum is out"
    );
}

#[test]
fn without_independent_noise_the_departed_are_bounded_too() {
    let lines = "[privacy]\ncolluding = 1\ndropouts = 1\n[mechanism]\nkind = \"ppsc\"\nindependent_noise = \"none\"\naccept_exact_sum = true";
    let plan = plan(6, lines);
    for departed in [0, 3] {
        let members: Vec<Party> = (0..6).filter(|&party| party != departed).collect();
        let verdict = gate(&plan, &logs(&plan, &members));
        assert_eq!(
            verdict.publish,
            Some(members.into_iter().collect()),
            "{}",
            verdict.reason
        );
        let same_sum_mu = verdict.audit.same_sum_mu.expect("stated");
        let found = accounted(&plan, &verdict.audit);
        assert!(
            found.same_sum_mu <= same_sum_mu * (1.0 + 1e-9) || verdict.audit.basis == Basis::Computed,
            "{found:?}"
        );
    }
}
