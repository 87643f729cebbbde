//! Who is left out, and by whom, where an audit decides whose finals leave.

use super::*;

#[test]
fn whom_the_gate_leaves_out_withholds_and_is_rolled_back() {
    let plan = plan(8, "", 7);
    let without = |left_out: Party| {
        move |_: &Plan, logs: &AgreedLogs| GateVerdict {
            publish: Some(logs.keys().copied().filter(|&party| party != left_out).collect()),
            reason: format!("{left_out} is left out"),
        }
    };
    let report = Simulation::new(plan.clone(), inputs(&plan), &without(5), Conditions::new(8)).run();
    assert_eq!(report.violations, []);
    let publishers = others(&plan, &[5]);
    for (party, outcome) in report.outcomes.iter().enumerate() {
        let outcome = outcome.as_ref().expect("no violation of liveness");
        assert!(outcome.agreed && outcome.included == publishers);
        if party == 5 {
            assert_eq!(
                outcome.ending,
                Ending::Withheld {
                    reason: "5 is left out".into()
                }
            );
            assert!(outcome.sum.is_none());
        } else {
            assert_eq!(outcome.ending, Ending::Degraded);
            assert_eq!(
                outcome.sum.as_ref().map(|sum| &sum.value),
                report.sum_over(&publishers).as_ref()
            );
        }
    }
}

#[test]
fn when_the_gate_refuses_everybody_withholds_and_no_final_leaves() {
    let plan = plan(8, "", 7);
    let refuse = |_: &Plan, _: &AgreedLogs| GateVerdict {
        publish: None,
        reason: "over budget".into(),
    };
    let report = Simulation::new(plan.clone(), inputs(&plan), &refuse, Conditions::new(9)).run();
    assert_eq!(report.violations, [], "an item of the second stage would be one");
    for outcome in report
        .outcomes
        .iter()
        .map(|outcome| outcome.as_ref().expect("no violation of liveness"))
    {
        assert_eq!(
            outcome.ending,
            Ending::Withheld {
                reason: "over budget".into()
            }
        );
        assert!(outcome.included.is_empty() && outcome.own_log.is_some());
    }
}

#[test]
fn who_gets_no_verdict_withholds_and_the_others_have_their_mean() {
    let plan = plan_of(4, 6, "[privacy]\ncolluding = 1\ndropouts = 1\n", 4);
    let conditions = Conditions {
        no_verdict: Some(2),
        ..Conditions::new(1)
    };
    let report = simulate(&plan, conditions);
    assert_eq!(report.violations, []);
    for (party, outcome) in report.outcomes.iter().enumerate() {
        let outcome = outcome.as_ref().expect("nobody waits for ever");
        if party == 2 {
            let Ending::Withheld { reason } = &outcome.ending else {
                panic!("{:?}", outcome.ending);
            };
            assert!(reason.contains("verdict"), "{reason}");
        } else {
            assert_eq!(outcome.included, others(&plan, &[2]), "{:?}", outcome.ending);
        }
    }
}
