//! Losses that nodes without a result state, and that receipts may state, against outside numbers:
//! μ of ε = 1 at δ = 1e-6 is 0.236704 (Balle and Wang's trade-off, in the front page's example),
//! and of eight parties with one colluder and one departure six hide each value.

use undertone_protocol::topology::party::Party;

use super::*;
use crate::gate::decision::gate;
use crate::gate::stated::{StatedError, StatedExecution};
use crate::testing::{logs, plan, training};

const UNIFORM: &str = "[mechanism]\ncorrelated = \"uniform\"";
const EVERYBODY: [Party; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
const MU: f64 = 0.236_704;

fn assert_near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 1e-5,
        "{found}, expected {expected}"
    );
}

/// Others may have opened a smaller set than the one that this node's gate has let through.
#[test]
fn who_read_no_result_states_the_largest_loss_of_any_set() {
    let plan = plan(8, UNIFORM);
    let verdict = gate(&plan, &logs(&plan, &EVERYBODY));
    assert_near(verdict.audit.mu, MU * (6.0f64 / 7.0).sqrt());
    let perhaps = perhaps_opened(&plan, Some(&verdict), "a reason");
    assert_near(perhaps.mu, MU);
    assert!(perhaps.mu >= MU - 1e-6 && (1.0 - 1e-4..=1.0).contains(&perhaps.epsilon));
    assert_eq!((perhaps.among, perhaps.departed.len()), (None, 0));
    assert_near(perhaps_opened(&plan, None, "a reason").mu, MU);
    // A verdict that costs more than any claim stays.
    let mut dear = verdict.clone();
    (dear.audit.mu, dear.audit.epsilon) = (9.0, 99.0);
    assert_eq!(perhaps_opened(&plan, Some(&dear), "a reason").mu, 9.0);
    // What stays closed has revealed nothing, whatever the gate said.
    assert_eq!(closed(&plan, Some(&verdict), "a reason").mu, 0.0);
}

/// Squares add up over releases: one of three costs a claim's root of a third, not its third.
#[test]
fn without_a_verdict_one_release_costs_its_part_of_every_headline() {
    let plan = training("");
    assert_near(without_verdict(&plan, "a reason").mu, MU / 3f64.sqrt());
    let mut calibration = plan.calibration().clone();
    for claim in calibration
        .claims
        .iter_mut()
        .filter(|claim| claim.holds_as_headline)
    {
        claim.mu = 1.5 * MU;
    }
    let dear = Plan::assemble(plan.draft().clone(), calibration, [7; 16]).expect("a plan that claims more");
    assert_near(without_verdict(&dear, "a reason").mu, 1.5 * MU / 3f64.sqrt());
}

#[test]
fn the_least_loss_of_a_stated_execution_is_that_of_those_who_hide_each_other() {
    let plan = plan(8, UNIFORM);
    let verdict = gate(&plan, &logs(&plan, &EVERYBODY));
    let text = serde_json::to_string(&verdict.audit.execution).expect("an execution");
    let stated = StatedExecution::read(&plan, &text).expect("of the plan");
    assert_eq!((stated.published().len(), stated.colluding()), (8, 1));
    let loss = |members: &[Party]| {
        let members = members.iter().copied().collect();
        stated.loss_of(&members).expect("no faults").expect("computed")
    };
    assert_near(loss(&EVERYBODY), MU * (6.0f64 / 7.0).sqrt());
    assert_near(loss(&EVERYBODY[..7]), MU);
    // Two of whom one colludes: local noise.
    assert_near(loss(&EVERYBODY[..2]), MU * 6f64.sqrt());
    assert!(loss(&EVERYBODY) <= verdict.audit.mu);
    // Another schedule, fewer parties, other values, no execution.
    let refused = |text: &str| {
        StatedExecution::read(&plan, text)
            .err()
            .expect("none of the plan")
    };
    let other = crate::testing::plan(7, UNIFORM);
    let of_seven = gate(&other, &logs(&other, &EVERYBODY[..7])).audit.execution;
    for (text, part) in [
        (serde_json::to_string(&of_seven).expect("one"), "parties are"),
        (text.replacen("2.0", "1.0", 1), "sensitivities are"),
        (text.replacen("\"late\"", "\"early\"", 1), "injection is"),
    ] {
        assert_eq!(refused(&text), StatedError::Other { part }, "{text}");
    }
    assert!(matches!(refused("{}"), StatedError::Unreadable(_)));
}

/// With Gaussian noise every coalition is computed again, not the one that a receipt names.
#[test]
fn a_harmless_coalition_does_not_lower_a_gaussian_loss() {
    let plan = plan(5, "[mechanism]\nrounds = 4");
    let audit = gate(&plan, &logs(&plan, &[0, 1, 2, 3, 4])).audit;
    let members = (0..5).collect();
    for colluder in 0..5 {
        let named = audit
            .execution
            .clone()
            .with_corrupted([colluder])
            .expect("a party");
        let text = serde_json::to_string(&named).expect("an execution");
        let stated = StatedExecution::read(&plan, &text).expect("of the plan");
        let loss = stated.loss_of(&members).expect("no faults").expect("computed");
        assert!((loss / audit.mu - 1.0).abs() < 1e-12, "{loss} {}", audit.mu);
    }
}
