use std::collections::BTreeMap;

use undertone_accountant::gate::sealed::closed;

use super::*;
use crate::testing::plan_of;

fn plan(text: &str) -> Plan {
    plan_of(text, 4, text.contains("regression").then_some(2))
}

const ROUNDS: &str = "task = \"rounds\"\n[data]\nshape = [2]\nreleases = 16\n";

/// A training that ran to its end.
fn whole(plan: &Plan) -> TrainingOutcome {
    let releases = plan.draft().releases();
    TrainingOutcome {
        iterations: releases,
        mixings: 0,
        spent: releases,
        corrected: vec![],
        rejected: vec![],
        unopened: Default::default(),
        departed: BTreeMap::new(),
        stopped: None,
        result: Some(vec![0.5; 2]),
    }
}

/// Returns the account of a training, and the loss of all of it, where one iteration's is 0.1.
fn trained(plan: &Plan, training: &TrainingOutcome) -> (Trained, f64) {
    let mut audit = Some(Audit {
        mu: 0.1,
        ..closed(plan, None, "made up")
    });
    let trained = Trained::of(plan, training, &mut audit);
    (trained, audit.expect("it stays").mu)
}

#[test]
fn a_loss_grows_with_the_root_of_what_was_spent() {
    let plan = plan(ROUNDS);
    for (spent, expected) in [(16, 0.4), (4, 0.2), (1, 0.1), (0, 0.0)] {
        let (trained, mu) = trained(
            &plan,
            &TrainingOutcome {
                spent,
                ..whole(&plan)
            },
        );
        assert!((mu - expected).abs() < 1e-6 && mu >= expected, "{spent}: {mu}");
        assert_eq!(trained.mu_iteration, Some(0.1));
        assert_eq!(trained.iterations["spent"], spent);
    }
    // Others may have opened the last one, which may have cost the whole share of a release.
    let stopped = TrainingOutcome {
        spent: 4,
        stopped: Some("it was told to leave".into()),
        ..whole(&plan)
    };
    let most = releases::budget(plan.draft()).expect("in range").max(0.1);
    let (_, mu) = trained(&plan, &stopped);
    assert!(
        (mu / (2.0 * most) - 1.0).abs() < 1e-6 && mu >= 2.0 * most,
        "{mu}, {most}"
    );
}

#[test]
fn a_result_says_who_left_what_was_rejected_and_why_it_ended() {
    let plan = plan(ROUNDS);
    let reason = |training: TrainingOutcome| trained(&plan, &training).0.reason;
    assert_eq!(reason(whole(&plan)), None);
    let departed = BTreeMap::from([(2, 5)]);
    let left = reason(TrainingOutcome {
        departed,
        ..whole(&plan)
    })
    .expect("degraded");
    assert_eq!(left, "the last mean is without party-2 since round 5");
    let passed_over = TrainingOutcome {
        departed: BTreeMap::from([(2, 5)]),
        unopened: BTreeMap::from([(5, vec![2])]),
        ..whole(&plan)
    };
    let (account, _) = trained(&plan, &passed_over);
    assert_eq!(account.iterations["unopened"], json!({ "5": ["party-2"] }));
    assert_eq!(
        account.reason.as_deref(),
        Some("the last mean is without party-2 since round 5, whose secret could not be opened")
    );
    let rejected = vec![3, 4];
    let odd = reason(TrainingOutcome {
        rejected,
        ..whole(&plan)
    })
    .expect("degraded");
    assert!(odd.starts_with("2 of 16 sums were further out"), "{odd}");
    let stopped = |iterations| TrainingOutcome {
        iterations,
        stopped: Some("too few are left".into()),
        ..whole(&plan)
    };
    assert_eq!(reason(stopped(0)).as_deref(), Some("too few are left"));
    let later = reason(stopped(7)).expect("degraded");
    assert_eq!(later, "the training ended after 7 of 16 rounds: too few are left");
}

#[test]
fn a_receipt_has_what_the_task_has() {
    let receipt = |text: &str| {
        let plan = plan(text);
        let (trained, _) = trained(&plan, &whole(&plan));
        let mut receipt = json!({});
        trained.add_to(&mut receipt);
        (receipt, trained)
    };
    let (rounds, trained) = receipt(&format!("{ROUNDS}result = \"sum\"\n"));
    assert_eq!(
        (&rounds["result"], &rounds["mu_iteration"]),
        (&json!("sum"), &json!(0.1))
    );
    assert_eq!(rounds["iterations"]["planned"], 16);
    assert!(!trained.fits_model() && trained.has_model && trained.stream.is_none());
    let (model, trained) = receipt(
        "task = \"regression\"\n[data]\nshape = [3]\n[model]\nloss = \"logistic\"\niterations = 4\nstep = 1.0\n",
    );
    assert!(model.get("result").is_none() && trained.fits_model());
    let (stream, trained) =
        receipt("task = \"stream\"\n[data]\nshape = [2]\nreleases = 16\n[mechanism]\nsums = \"everybody\"\n");
    assert!(stream["protect"].is_string(), "{stream}");
    assert!(trained.stream.is_some());
}

/// Each round's error is of who was there, and that of means that are added up grows with their
/// number.
#[test]
fn the_error_of_a_stream_is_of_who_was_there() {
    let plan =
        plan("task = \"stream\"\n[data]\nshape = [2]\nreleases = 16\n[mechanism]\nsums = \"everybody\"\n");
    let error = |training: TrainingOutcome| {
        let stream = SummedStream::of(&plan, &training).expect("a stream");
        (stream.standard_error / plan.calibration().independent_std).powi(2)
    };
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}, {expected}");
    near(error(whole(&plan)), 16.0 / 4.0);
    let departed = BTreeMap::from([(2, 5)]);
    near(
        error(TrainingOutcome {
            departed,
            ..whole(&plan)
        }),
        4.0 / 4.0 + 12.0 / 3.0,
    );
    let rejected = vec![1, 2];
    near(
        error(TrainingOutcome {
            rejected,
            ..whole(&plan)
        }),
        14.0 / 4.0,
    );
}
