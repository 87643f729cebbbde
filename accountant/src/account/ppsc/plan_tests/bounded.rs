//! PPSC with so many coalitions that a theorem about all of them stands in.

use std::collections::BTreeSet;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Established, Faults};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::topology::party::Party;

use super::{assert_audit, changed, claim, noise};
use crate::audit::Attack;
use crate::calibration::calibrate::calibrate;
use crate::calibration::error::CalibrateError;
use crate::calibration::outlook::is_local;
use crate::class::setting::Setting;
use crate::class::{coalitions, faults};
use crate::execution::share::ShareFault;
use crate::gate::decision::{gate, withheld};
use crate::gate::verdict::Basis;
use crate::losses::gaussian;
use crate::testing::{OWN_DRAWS, draft, logs, with_fault};
use crate::verify::check::verify;
use crate::verify::error::VerifyError;

/// Coalitions of three of sixty-four: too many to compute them all.
fn beyond_computing(more: &str) -> Draft {
    draft(
        64,
        &format!("[privacy]\ncolluding = 2\ndropouts = 1\n[mechanism]\nkind = \"ppsc\"\n{more}"),
    )
}

/// Coalitions of four of forty: too many to compute them all, but for the one execution that has
/// settled.
fn beyond_computing_but_for_what_settled() -> Draft {
    draft(
        40,
        "[privacy]\ncolluding = 1\ndropouts = 3\n[mechanism]\nkind = \"ppsc\"",
    )
}

fn assembled(draft: Draft) -> Plan {
    let calibration = calibrate(&draft, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    Plan::assemble(draft, calibration, [7; 16]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn with_too_many_coalitions_a_theorem_says_that_the_noise_is_shared() {
    let plan = assembled(beyond_computing(""));
    let setting = Setting::of_plan(&plan).expect("a plan");
    assert!(!coalitions::feasible(&setting));
    let theorem = claim(&plan, Faults::Class, Established::Theorem, Adversary::Coalition);
    assert!(
        theorem.holds_as_headline && theorem.size == 2 && (0.999..=1.0).contains(&theorem.epsilon),
        "{}",
        theorem.epsilon
    );
    assert!(!is_local(&plan));
    // m = 61 of 64 are left: a fourth of local noise, and not below the least there can be.
    let least = 2.0 / (gaussian::mu(1.0, 1e-6).expect("in range") * 61f64.sqrt());
    let times = plan.calibration().independent_std / least;
    println!(
        "T = {}, σ* is {times:.3} times the least, σ_γ = {:.1} σ*",
        plan.rounds(),
        noise(&plan).correlated_std / noise(&plan).independent_std
    );
    assert!((1.0..2.0).contains(&times), "{times}");
    assert!(plan.calibration().predicted.standard_error < plan.calibration().predicted.local * 0.25);
    assert_eq!(verify(&plan, OWN_DRAWS), Ok(()));
    for key in ["independent_std", "pairwise_std"] {
        let less = changed(&plan, |value| {
            let std = &mut value["mechanism"][key];
            *std = json!(std.as_f64().expect("a number") * 0.99);
        });
        assert!(matches!(less, Err(VerifyError::Loss { .. })), "{key}: {less:?}");
    }
    // Who claims that it was computed is refused: nobody can.
    let other = changed(&plan, |value| {
        value["claims"][0]["established"] = json!("exhaustive")
    });
    assert!(
        matches!(other, Err(VerifyError::Unknown { index: 0, .. })),
        "{other:?}"
    );
}

#[test]
fn what_happens_within_a_bounded_class_publishes() {
    for (draft, basis) in [
        (beyond_computing_but_for_what_settled(), Basis::Computed),
        (beyond_computing(""), Basis::Spreading),
    ] {
        let plan = assembled(draft);
        let parties = plan.parties();
        let setting = Setting::of_plan(&plan).expect("a plan");
        let claimed = plan.epsilon_claimed().expect("claimed");
        let faults = faults::single_shares(&setting);
        let mut random = ChaCha8Rng::seed_from_u64(9);
        for departed in [None, Some(0), Some(29)] {
            let members: Vec<Party> = (0..parties).filter(|&party| Some(party) != departed).collect();
            let whole = logs(&plan, &members);
            let among: Vec<&ShareFault> = faults
                .iter()
                .filter(|fault| departed != Some(fault.from) && departed != Some(fault.to))
                .collect();
            for fault in (0..2).map(|_| among[random.random_range(0..among.len())]) {
                let verdict = gate(&plan, &with_fault(&whole, fault));
                assert_eq!(
                    verdict.publish,
                    Some(members.iter().copied().collect()),
                    "{departed:?} {fault:?} {}",
                    verdict.reason
                );
                assert!(
                    verdict.audit.epsilon <= claimed,
                    "{} {claimed}",
                    verdict.audit.epsilon
                );
                assert!(
                    verdict.audit.basis == basis || departed.is_some(),
                    "{:?}",
                    verdict.audit.basis
                );
            }
            let verdict = gate(&plan, &whole);
            // Fewer are against everybody than the plan allows for, but a departed party's own loss
            // is what is bounded before publishing.
            assert!(
                verdict.audit.epsilon < claimed * 0.99 || departed.is_some(),
                "{} {claimed}",
                verdict.audit.epsilon
            );
            assert_audit(&plan, &verdict.audit);
        }
        assert_audit(&plan, &withheld(&plan, "no agreed set"));
    }
}

#[test]
fn beyond_the_class_a_bounded_run_is_judged_by_what_happened() {
    let plan = assembled(beyond_computing(""));
    let everybody: Vec<Party> = (0..64).collect();
    // Nobody has got anything from party 3 or given it anything: alone, its noise is local.
    let mut logs = logs(&plan, &everybody);
    for log in logs.values_mut() {
        log.received.retain(|entry| entry.from != 3);
    }
    logs.get_mut(&3).expect("a member").received.clear();
    let verdict = gate(&plan, &logs);
    assert_eq!(
        verdict.publish,
        Some((0..64).filter(|&party| party != 3).collect()),
        "{}",
        verdict.reason
    );
    assert!(verdict.reason.contains("party-3"), "{}", verdict.reason);
    assert_audit(&plan, &verdict.audit);
    assert_eq!(verdict.audit.departed, BTreeSet::from([3]));
    // Two faults of shares among the others are none that the plan speaks of; what happened is
    // bounded by itself.
    let setting = Setting::of_plan(&plan).expect("a plan");
    let faults = faults::single_shares(&setting);
    let twice = with_fault(
        &with_fault(&self::logs(&plan, &everybody), &faults[0]),
        &faults[faults.len() / 2],
    );
    let verdict = gate(&plan, &twice);
    assert_eq!(verdict.publish, Some((0..64).collect()), "{}", verdict.reason);
    assert_eq!(verdict.audit.basis, Basis::Spreading);
    assert_audit(&plan, &verdict.audit);
}

#[test]
fn local_noise_is_for_those_who_say_so_however_many_coalitions_there_are() {
    let short = |more: &str| calibrate(&beyond_computing(&format!("rounds = 22\n{more}")), &mut |_| {});
    let refused = short("").expect_err("in so few rounds somebody meets no more than three");
    let CalibrateError::Alone {
        rounds: 22,
        size: 3,
        enough: Some(enough),
        ..
    } = refused
    else {
        panic!("{refused}")
    };
    assert!(
        refused
            .to_string()
            .contains(&format!("rounds = \"auto\" or {enough}")),
        "{refused}"
    );
    assert!(refused.to_string().contains("local_noise_ok = true"), "{refused}");
    assert!(
        calibrate(&beyond_computing(&format!("rounds = {enough}")), &mut |_| {}).is_ok(),
        "{enough}"
    );
    let local = assembled(beyond_computing("rounds = 22\nlocal_noise_ok = true"));
    assert!(is_local(&local));
    assert_eq!(verify(&local, OWN_DRAWS), Ok(()));
    let verdict = gate(&local, &logs(&local, &(0..64).collect::<Vec<_>>()));
    assert_eq!(verdict.publish, Some((0..64).collect()), "{}", verdict.reason);
}

#[test]
fn an_attack_of_a_bounded_class_stays_below_the_claim() {
    let plan = assembled(beyond_computing(""));
    let attack = Attack::of(&plan, 1).unwrap_or_else(|error| panic!("{error}"));
    let attacked = attack
        .run(20_000, 1.0, 1, &mut |_, _| {})
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(
        attacked.epsilon_lower > 0.05 && attacked.epsilon_lower <= plan.epsilon_claimed().expect("claimed"),
        "{attacked:?}"
    );
    let quiet = attack
        .run(20_000, 0.3, 1, &mut |_, _| {})
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(
        quiet.epsilon_lower > plan.epsilon_claimed().expect("claimed"),
        "{quiet:?}"
    );
}
