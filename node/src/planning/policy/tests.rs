//! Policies just below, at and just above what a plan states.

use super::*;
use crate::planning::quote;
use crate::testing::plan_of;

/// A plan of four, each with this many records, or with a vector of its own.
fn plan(delta: f64, records: Option<u64>) -> Plan {
    let unit = match records {
        Some(_) => "unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }\n",
        None => "",
    };
    let text =
        format!("name = \"t\"\n[data]\nshape = [2]\nnoise_ok = true\n{unit}[privacy]\ndelta = {delta:?}\n");
    plan_of(&text, 4, records)
}

fn policy(max_delta: Option<f64>) -> Policy {
    Policy {
        digest: None,
        max_epsilon: None,
        max_delta,
        min_colluders: 1,
        accept_claims: None,
    }
}

fn refusal(plan: &Plan, max_delta: Option<f64>) -> Option<(Exit, Option<String>)> {
    let failure = check_policy(plan, &policy(max_delta)).err()?;
    Some((failure.exit, failure.field))
}

fn refused() -> Option<(Exit, Option<String>)> {
    Some((Exit::PlanRefused, Some("--max-delta".to_owned())))
}

#[test]
fn a_delta_above_the_policys_is_refused_and_one_at_it_is_not() {
    let plan = plan(1e-6, None);
    for (most, expected) in [
        (1e-6f64.next_down(), refused()),
        (1e-6, None),
        (1e-6f64.next_up(), None),
        (1.0, None),
    ] {
        assert_eq!(refusal(&plan, Some(most)), expected, "{most:e}");
    }
    for nonsense in [0.0, -1.0, 1.0f64.next_up(), f64::NAN, f64::INFINITY] {
        let usage = Some((Exit::Usage, Some("--max-delta".to_owned())));
        assert_eq!(refusal(&plan, Some(nonsense)), usage, "{nonsense}");
    }
}

#[test]
fn without_a_policy_delta_is_at_most_a_tenth_of_one_record() {
    // Of few parties 1e-4; of 20,000 records 5e-6.
    for (records, most) in [(None, 1e-4), (Some(250), 1e-4), (Some(5_000), 5e-6)] {
        for (delta, expected) in [
            (most * (1.0 - 1e-9), None),
            (most, None),
            (most * (1.0 + 1e-9), refused()),
        ] {
            let plan = plan(delta, records);
            assert_eq!(refusal(&plan, None), expected, "{delta:e} of {records:?}");
            assert_eq!(refusal(&plan, Some(0.5)), None, "the operator allows more");
        }
    }
}

#[test]
fn a_quote_warns_of_a_delta_above_one_record() {
    // 40 records: 1/40 = 0.025; of four parties 0.25.
    for (delta, records, warns) in [
        (0.025, Some(10), false),
        (0.025f64.next_up(), Some(10), true),
        (0.25, None, false),
        (0.25f64.next_up(), None, true),
    ] {
        let plan = plan(delta, records);
        let (text, json) = (quote::text(&plan), quote::json(&plan));
        assert_eq!(
            text.contains("to show one of them in full"),
            warns,
            "{delta:e}: {text}"
        );
        assert_eq!(json["delta_warning"].is_string(), warns);
    }
}
