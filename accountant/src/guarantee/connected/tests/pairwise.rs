//! Plans with masks of pairs: as good as mixing with uniform noise, with nothing sent.

use super::*;
use crate::execution::usable::revealed;

const PAIRWISE: &str = "kind = \"pairwise\"";

#[test]
fn errors_are_those_of_mixing_and_few_masks_are_enough() {
    for (parties, masks, expected) in [
        (8, 7, [1.080, 1.155, 1.080, 1.155]),
        (16, 15, [1.035, 1.069, 1.035, 1.069]),
        (200, 3, [1.0025, 1.005, 1.0025, 1.005]),
        (1000, 3, [1.001, 1.001, 1.001, 1.001]),
    ] {
        let plan = plan(parties, &one_and_one(PAIRWISE));
        for (found, expected) in over_floor(&plan).into_iter().zip(expected) {
            assert!((found - expected).abs() < 0.002, "{parties}: {found} {expected}");
        }
        let graph = plan.mask_graph().expect("masks");
        assert!((0..parties).all(|party| graph.neighbours(party).len() == masks));
        let basis = plan.calibration().claims[0].connectivity.expect("its basis");
        assert_eq!((basis.kappa, basis.share_faults), (masks, 0), "{parties}");
        assert_eq!(verify(&plan), Ok(()), "{parties}");
        let read = Plan::parse(plan.to_json().as_bytes()).expect("a plan");
        assert_eq!(read.mask_graph(), Some(graph));
    }
}

/// Nothing travels on the private graph, which may fall apart where mixing would.
#[test]
fn any_private_graph_will_do() {
    let lines = lines("colluding = 1\ndropouts = 1", PAIRWISE, "private = \"ring\"");
    let plan = plan(8, &lines);
    assert_eq!(verify(&plan), Ok(()));
    assert_eq!(plan.exchanges().rounds(), 0);
}

#[test]
fn a_sparser_mask_graph_than_the_claim_needs_is_no_plan() {
    let lines = |mechanism: &str| lines("colluding = 20\ndropouts = 20", mechanism, "");
    let honest = plan(200, &lines(PAIRWISE));
    assert_eq!(honest.rounds(), 21);
    let basis = honest.calibration().claims[0].connectivity.expect("its basis");
    assert_eq!((basis.kappa, basis.removed, basis.among), (41, 40, 160));
    let mut calibration = honest.calibration().clone();
    (calibration.rounds, calibration.drawn) = (3, None);
    assert!(Plan::assemble(honest.draft().clone(), calibration, [7; 16]).is_err());
}

/// Checks that the gate states what the view of the masks reveals. That is the sum over each piece
/// of the opened parties, whoever colludes.
#[test]
fn the_gate_states_the_pieces_of_the_mask_graph() {
    let plan = plan(40, &lines("colluding = 2\ndropouts = 1", PAIRWISE, ""));
    let everybody: Vec<Party> = (0..40).collect();
    let (publish, whole) = judged(&plan, &logs(&plan, &everybody));
    assert_eq!(publish.map(|set| set.len()), Some(40));
    let (publish, fewer) = judged(&plan, &logs(&plan, &everybody[1..]));
    assert_eq!(publish.map(|set| set.len()), Some(39));
    let claimed = plan.epsilon_claimed().expect("a headline");
    assert!(whole < fewer && fewer <= claimed, "{whole} {fewer} {claimed}");
    let (none, _) = judged(&plan, &logs(&plan, &everybody[2..]));
    assert_eq!(none, None, "two departed, one is tolerated");

    let run = gate(&plan, &logs(&plan, &everybody[1..])).audit.execution;
    let found = revealed(&run);
    assert_eq!(
        found.len(),
        1,
        "one piece: all but the departed and two who collude"
    );
    assert_eq!(found[0].len(), 37);
    let written = serde_json::to_value(&run).expect("a file");
    assert_eq!(written["kind"], "pairwise");
    assert_eq!(written["masks"].as_array().map(Vec::len), Some(80));
}

/// Errors and losses of the secure sum of everybody, from an independent program.
#[test]
fn sums_of_everybody_are_the_reference() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../../tests/vectors/gossip_execution.json"))
            .expect("vectors parse");
    let mut planned = 0;
    for vector in vectors["whole_circle"].as_array().expect("a list") {
        let whole = |key: &str| vector[key].as_u64().expect("a whole number") as usize;
        let (parties, colluding, dropouts) = (whole("parties"), whole("colluding"), whole("dropouts"));
        if 2 * (parties - dropouts) <= parties + colluding {
            // Too few would be left: no plan.
            continue;
        }
        let privacy = format!("colluding = {colluding}\ndropouts = {dropouts}");
        let calibration = plan(parties, &lines(&privacy, PAIRWISE, ""))
            .calibration()
            .clone();
        let close = |found: f64, key: &str| {
            let expected = vector[key].as_f64().expect("a number");
            assert!((found / expected - 1.0).abs() < 1e-6, "{vector}: {key} {found}");
        };
        close(calibration.independent_std, "independent_std");
        close(calibration.predicted.standard_error, "standard_error");
        if dropouts > 0 {
            let one = calibration
                .predicted
                .standard_error_one_dropout
                .expect("tolerated");
            close(one, "standard_error_one_dropout");
        }
        let any = calibration
            .claims
            .iter()
            .find(|claim| claim.faults == Faults::Any);
        close(any.expect("the theorem").epsilon, "epsilon_theorem");
        planned += 1;
    }
    assert!(planned >= 10, "{planned}");
}
