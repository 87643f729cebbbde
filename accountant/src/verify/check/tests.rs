use serde_json::{Value, json};

use super::*;
use crate::losses::gaussian;
use crate::testing::plan;

fn changed(plan: &Plan, change: impl Fn(&mut Value)) -> Result<(), VerifyError> {
    let mut value: Value = serde_json::from_str(plan.to_json()).expect("a plan is JSON");
    change(&mut value);
    let text = serde_json::to_string_pretty(&value).expect("serialises");
    verify(&Plan::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn an_honest_plan_is_accepted_and_each_lie_named() {
    let plan = plan(5, "[mechanism]\nrounds = 4");
    assert_eq!(verify(&plan), Ok(()));
    assert_eq!(changed(&plan, |_| {}), Ok(()));
    let less_noise = changed(&plan, |value| {
        let std = &mut value["mechanism"]["independent_std"];
        *std = json!(std.as_f64().expect("a number") * 0.999);
    });
    assert!(
        matches!(less_noise, Err(VerifyError::Loss { index: 0, .. })),
        "{less_noise:?}"
    );
    let smaller = changed(&plan, |value| value["claims"][0]["mu"] = json!(0.01));
    assert!(
        matches!(smaller, Err(VerifyError::Loss { index: 0, .. })),
        "{smaller:?}"
    );
    let smaller = changed(&plan, |value| value["claims"][0]["epsilon"] = json!(0.5));
    assert!(
        matches!(smaller, Err(VerifyError::Epsilon { index: 0, .. })),
        "{smaller:?}"
    );
    let delta = changed(&plan, |value| value["claims"][1]["delta"] = json!(1e-3));
    assert!(
        matches!(delta, Err(VerifyError::Delta { index: 1, .. })),
        "{delta:?}"
    );
    let delta = changed(&plan, |value| value["claims"][1]["delta"] = json!(1e-9));
    assert!(
        matches!(delta, Err(VerifyError::Delta { index: 1, .. })),
        "{delta:?}"
    );
    let larger = changed(&plan, |value| value["claims"][0]["size"] = json!(3));
    assert!(
        matches!(larger, Err(VerifyError::Unknown { index: 0, .. })),
        "{larger:?}"
    );
    let missing = changed(&plan, |value| {
        value["claims"].as_array_mut().expect("a list").clear()
    });
    assert!(matches!(missing, Err(VerifyError::Missing { .. })), "{missing:?}");
    let mut many: Value = serde_json::from_str(plan.to_json()).expect("a plan is JSON");
    many["claims"] = json!(vec![many["claims"][0].clone(); 17]);
    let refused = Plan::parse(many.to_string().as_bytes()).expect_err("each would be computed again");
    assert_eq!(refused.field(), Some("claims"), "{refused}");
    let predicted = changed(&plan, |value| value["predicted"]["standard_error"] = json!(0.1));
    assert!(
        matches!(
            predicted,
            Err(VerifyError::Predicted {
                field: "standard_error",
                ..
            })
        ),
        "{predicted:?}"
    );
    for epsilon in [0.9, 0.999] {
        let promise = changed(&plan, |value| value["privacy"]["epsilon"] = json!(epsilon));
        assert!(matches!(promise, Err(VerifyError::Budget { .. })), "{promise:?}");
    }
}

/// The claims of a plan, each as it is found under a key.
fn claims_with(value: &Value, key: &str, is: &Value) -> Vec<usize> {
    let claims = value["claims"].as_array().expect("a list");
    (0..claims.len()).filter(|&at| claims[at][key] == *is).collect()
}

#[test]
fn a_headline_for_smaller_coalitions_than_the_target_is_refused() {
    let plan = plan(5, "[mechanism]\nrounds = 4");
    assert_eq!(plan.draft().privacy.colluding, 1);
    let value: Value = serde_json::from_str(plan.to_json()).expect("a plan is JSON");
    let headline = claims_with(&value, "holds_as_headline", &json!(true));
    assert!(!headline.is_empty());
    for at in headline {
        // Nothing is untrue of a smaller coalition but that it is the headline.
        let smaller = changed(&plan, |value| value["claims"][at]["size"] = json!(0));
        let named = matches!(smaller, Err(VerifyError::Size { index, colluding: 1, .. }) if index == at);
        assert!(named, "{smaller:?}");
    }
}

#[test]
fn a_claim_that_leaves_out_what_sampling_adds_is_refused() {
    let plan = plan(5, "[mechanism]\nrounds = 4");
    for claim in &plan.calibration().claims {
        assert!(
            claim.sampling_delta > 0.0 && claim.sampling_delta <= claim.delta,
            "{claim:?}"
        );
        assert_eq!(claim.sampling_delta, plan.sampling_delta(claim.epsilon));
    }
    let without = changed(&plan, |value| {
        value["claims"][1]
            .as_object_mut()
            .expect("a claim")
            .remove("sampling_delta");
    });
    assert!(
        matches!(without, Err(VerifyError::Sampling { index: 1, .. })),
        "{without:?}"
    );
    let less = changed(&plan, |value| {
        let said = value["claims"][0]["sampling_delta"].as_f64().expect("a number");
        value["claims"][0]["sampling_delta"] = json!(said * 0.9);
    });
    assert!(
        matches!(less, Err(VerifyError::Sampling { index: 0, .. })),
        "{less:?}"
    );
}

#[test]
fn a_plan_without_a_theorem_on_all_others_is_refused() {
    for lines in ["[mechanism]\nrounds = 4", "[mechanism]\nkind = \"ppsc\""] {
        let plan = plan(5, lines);
        assert_eq!(verify(&plan), Ok(()));
        let value: Value = serde_json::from_str(plan.to_json()).expect("a plan is JSON");
        let theorems = claims_with(&value, "established", &json!("theorem"));
        assert_eq!(theorems.len(), 2);
        for at in theorems {
            let without = changed(&plan, |value| {
                value["claims"].as_array_mut().expect("a list").remove(at);
            });
            // Without the one before publishing the other stands in for it, whose ε is too large.
            let named = |error: &VerifyError| {
                use VerifyError::{Budget, Missing, NoTheorem};
                matches!(error, NoTheorem { .. } | Missing { .. } | Budget { .. })
            };
            assert!(without.as_ref().is_err_and(named), "{without:?}");
            let smaller = changed(&plan, |value| value["claims"][at]["size"] = json!(3));
            assert!(
                matches!(smaller, Err(VerifyError::NoTheorem { .. })),
                "{smaller:?}"
            );
        }
    }
}

#[test]
fn a_claim_that_says_more_than_the_truth_is_no_lie() {
    let plan = plan(4, "[mechanism]\nrounds = 3");
    let careful = changed(&plan, |value| {
        let claim = &mut value["claims"][1];
        claim["mu"] = json!(claim["mu"].as_f64().expect("a number") * 1.0001);
        let follows = gaussian::epsilon(1e-6, claim["mu"].as_f64().expect("a number")).expect("in range");
        claim["epsilon"] = json!(follows);
    });
    assert_eq!(careful, Ok(()));
}

/// A plan whose worst loss, of the class or of any faults, is this part of the budget.
fn with_worst_at(lines: &str, faults: Faults, part: f64) -> Plan {
    let honest = plan(5, lines);
    let (draft, mut calibration) = (honest.draft().clone(), honest.calibration().clone());
    let of = |claim: &&Claim| claim.faults == faults && is_sure(claim);
    let mu = calibration.claims.iter().find(of).expect("such a claim").mu;
    let budget = gaussian::mu(draft.privacy.epsilon, draft.privacy.delta).expect("in range");
    let times = mu / (budget * part);
    calibration.independent_std *= times;
    calibration.correlated_std *= times;
    let scaled = Plan::assemble(draft.clone(), calibration.clone(), [7; 16]).expect("a plan");
    let established = Guarantee::of(&draft).established(&scaled).expect("noise");
    (calibration.claims, calibration.predicted) = (established.of_all, established.predicted);
    Plan::assemble(draft, calibration, [7; 16]).expect("a plan")
}

/// Machines differ in the last bits of a loss that they compute: so near to the budget no loss may
/// be.
#[test]
fn a_loss_that_machines_may_judge_differently_is_refused() {
    let lines = "[mechanism]\nrounds = 4";
    for (faults, part, near) in [
        (Faults::Class, 1.0 - 2e-9, false),
        (Faults::Class, 1.0 - 5e-10, true),
        (Faults::Class, 1.0, true),
        (Faults::Class, 1.0 + 5e-10, true),
        // So much noise that any faults are within the budget, or just not.
        (Faults::Any, 1.0 - 2e-9, false),
        (Faults::Any, 1.0 - 5e-10, true),
        (Faults::Any, 1.0 + 5e-10, true),
        (Faults::Any, 1.0 + 2e-9, false),
        (Faults::BeforePublishing, 1.0 - 5e-10, true),
    ] {
        let found = verify(&with_worst_at(lines, faults, part));
        match near {
            true => assert!(
                matches!(found, Err(VerifyError::Clearance { .. })),
                "{faults:?} {part}: {found:?}"
            ),
            false => assert_eq!(found, Ok(()), "{faults:?} {part}"),
        }
    }
}

/// Whatever is calibrated keeps twice as far away from its budget.
#[test]
fn calibration_leaves_a_part_of_the_budget() {
    let uniform = "[mechanism]\ncorrelated = \"uniform\"\n";
    for (parties, lines) in [
        (5, "[mechanism]\nrounds = 4".to_owned()),
        (5, "[mechanism]\nkind = \"ppsc\"".to_owned()),
        (20, "[mechanism]\nrounds = \"auto\"".to_owned()),
        (20, "[mechanism]\nkind = \"ppsc\"".to_owned()),
        (8, uniform.to_owned()),
        (8, format!("{uniform}kind = \"ppsc\"\n")),
        (8, format!("{uniform}kind = \"pairwise\"\n")),
        (
            8,
            format!("[privacy]\ncoalitions = \"static\"\n{uniform}[run]\nsealed = true\n"),
        ),
        (6, "[mechanism]\nsums = \"open\"\n".to_owned()),
    ] {
        let plan = plan(parties, &lines);
        assert_eq!(verify(&plan), Ok(()), "{lines}");
        let privacy = &plan.draft().privacy;
        let of_class = plan
            .calibration()
            .claims
            .iter()
            .filter(|claim| claim.holds_as_headline);
        for claim in of_class {
            let delta = match claim.draw {
                Some(_) => privacy.delta * 0.999,
                None => privacy.delta,
            };
            let budget = gaussian::mu(privacy.epsilon, delta).expect("in range");
            assert!(
                claim.mu <= budget * (1.0 - 2e-9),
                "{lines}: {} {budget}",
                claim.mu
            );
        }
    }
}

/// Each thing that a claim says is looked at: one changed, to what would be more, is refused.
#[test]
fn each_word_of_a_claim_is_checked() {
    let plan = plan(5, "[mechanism]\nrounds = 4");
    let value: Value = serde_json::from_str(plan.to_json()).expect("a plan is JSON");
    let count = value["claims"].as_array().expect("a list").len();
    for at in 0..count {
        let cases = value["claims"][at]["cases"].as_u64().expect("a number");
        let more = changed(&plan, |value| value["claims"][at]["cases"] = json!(cases + 1));
        assert!(
            matches!(more, Err(VerifyError::Unknown { index, .. }) if index == at),
            "{more:?}"
        );
        if cases > 1 {
            assert_eq!(
                changed(&plan, |value| value["claims"][at]["cases"] = json!(cases - 1)),
                Ok(())
            );
        }
        // A billionth is rounding, two are not.
        let mu = value["claims"][at]["mu"].as_f64().expect("a number");
        let less = |part: f64| {
            changed(&plan, |value| {
                value["claims"][at]["mu"] = json!(mu * (1.0 - part))
            })
        };
        assert_eq!(less(5e-10), Ok(()), "claim {at}");
        let lie = less(2e-9);
        assert!(
            matches!(lie, Err(VerifyError::Loss { index, .. }) if index == at),
            "{lie:?}"
        );
        let epsilon = value["claims"][at]["epsilon"].as_f64().expect("a number");
        let lie = changed(&plan, |value| {
            value["claims"][at]["epsilon"] = json!(epsilon * (1.0 - 1e-8))
        });
        assert!(
            matches!(lie, Err(VerifyError::Epsilon { index, .. }) if index == at),
            "{lie:?}"
        );
        for (key, lie) in [
            ("adversary", json!("apart")),
            ("faults", json!("none")),
            ("established", json!("exact")),
            ("changes", json!("same-sum")),
            ("size", json!(5)),
        ] {
            let mut value = value.clone();
            value["claims"][at][key] = lie;
            let stands = Plan::parse(value.to_string().as_bytes()).is_ok_and(|plan| verify(&plan).is_ok());
            assert!(!stands, "claim {at}, {key}");
        }
    }
}

/// Each prediction is computed again.
#[test]
fn each_predicted_number_is_checked() {
    let plan = plan(5, "[mechanism]\nrounds = 4");
    let value: Value = serde_json::from_str(plan.to_json()).expect("a plan is JSON");
    for key in [
        "standard_error",
        "standard_error_one_dropout",
        "standard_error_late_dropout",
        "central",
        "local",
        "error_floor",
    ] {
        let number = value["predicted"][key].as_f64().expect("a number");
        for (part, fine) in [(1.0 + 5e-7, true), (1.0 - 2e-6, false), (1.0 + 2e-6, false)] {
            let found = changed(&plan, |value| value["predicted"][key] = json!(number * part));
            match fine {
                true => assert_eq!(found, Ok(()), "{key}"),
                false => assert!(
                    matches!(found, Err(VerifyError::Predicted { field, .. }) if field == key),
                    "{key}: {found:?}"
                ),
            }
        }
    }
}

/// A claim that rests on a draw has δ but for the draw's part: an ε for the whole of it is too
/// small.
#[test]
fn an_epsilon_that_counts_the_draws_part_of_delta_as_the_noises_is_refused() {
    let lines =
        "[privacy]\ncoalitions = \"static\"\n[mechanism]\ncorrelated = \"uniform\"\n[run]\nsealed = true\n";
    let plan = plan(8, lines);
    assert_eq!(verify(&plan), Ok(()));
    let claims = plan.calibration().claims.iter().enumerate();
    let drawn: Vec<(usize, &Claim)> = claims.filter(|(_, claim)| claim.draw.is_some()).collect();
    assert!(!drawn.is_empty());
    for (at, claim) in drawn {
        let of_all = gaussian::epsilon(claim.delta, claim.mu).expect("in range");
        assert!(of_all < claim.epsilon);
        let lie = changed(&plan, |value| value["claims"][at]["epsilon"] = json!(of_all));
        let named = matches!(lie, Err(VerifyError::Epsilon { index, .. }) if index == at);
        assert!(named, "{lie:?}");
    }
}
