use undertone_protocol::plan::claim::{Established, Faults};

use super::*;
use crate::losses::gaussian;
use crate::testing::{draft, plan};

fn calibrated(parties: usize, lines: &str) -> Calibration {
    calibrate(&draft(parties, lines), &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn epsilon(calibration: &Calibration, faults: Faults, established: Established) -> f64 {
    let found = calibration
        .claims
        .iter()
        .find(|claim| claim.faults == faults && claim.established == established);
    found.expect("there is such a claim").epsilon
}

#[test]
fn eight_parties_reach_the_reference() {
    let calibration = calibrated(8, "[privacy]\nepsilon = 1.0\ndelta = 1e-6");
    let predicted = &calibration.predicted;
    let times_floor = |error: f64| error / predicted.error_floor;
    assert!(
        times_floor(predicted.standard_error) <= 1.16,
        "{}",
        times_floor(predicted.standard_error)
    );
    assert!(times_floor(predicted.standard_error_one_dropout.expect("tolerated")) <= 1.24);
    assert!(times_floor(predicted.standard_error_late_dropout.expect("computed")) <= 2.4);
    assert!((predicted.local / predicted.error_floor - 7f64.sqrt()).abs() < 1e-12);
    let worst = epsilon(&calibration, Faults::Class, Established::Exhaustive);
    assert!((0.999..=1.0).contains(&worst), "{worst}");
    assert!(epsilon(&calibration, Faults::BeforePublishing, Established::Theorem) <= 1.0);
    assert!(epsilon(&calibration, Faults::Any, Established::Theorem) > 1.0);
}

#[test]
fn the_papers_protocol_is_calibrated_for_its_own_class() {
    let calibration = calibrated(8, "[mechanism]\nrollback = false\nrounds = 6");
    let predicted = &calibration.predicted;
    assert!(
        predicted.standard_error / predicted.error_floor <= 1.30,
        "{}",
        predicted.standard_error / predicted.error_floor
    );
    assert!(predicted.standard_error_one_dropout.expect("tolerated") / predicted.error_floor <= 1.7);
    assert!((0.999..=1.0).contains(&epsilon(&calibration, Faults::Class, Established::Exhaustive)));
}

#[test]
fn local_noise_is_each_partys_for_its_own_weight() {
    for adjacency in ["replace-one", "zero-out"] {
        let lines = format!(
            "adjacency = \"{adjacency}\"\nweights = {{ party-0 = 30.0, party-3 = 2.0 }}\n[mechanism]\nrounds = 3"
        );
        let predicted = calibrated(5, &lines).predicted;
        // Whoever adds N(0, (Δ₁/μ)²) to its vector within the ball, with Δ₁ the ball's diameter or
        // radius, has (ε, δ) by itself; the mean is Σ aᵢ(xᵢ + ηᵢ)/W, of variance (Δ₁/μ)² Σ aᵢ²/W².
        let (weights, mu) = (
            [30.0f64, 1.0, 1.0, 2.0, 1.0],
            gaussian::mu(1.0, 1e-6).expect("in range"),
        );
        let unweighted = if adjacency == "replace-one" { 2.0 } else { 1.0 };
        let (squares, total) = (
            weights.iter().map(|a| a * a).sum::<f64>(),
            weights.iter().sum::<f64>(),
        );
        let expected = unweighted / mu * squares.sqrt() / total;
        assert!(
            (predicted.local / expected - 1.0).abs() < 1e-9,
            "{} {expected}",
            predicted.local
        );
        // One σ* for everybody, for the largest weight: with weights as uneven as these that is
        // more.
        assert!(predicted.standard_error > predicted.local && predicted.local > predicted.central);
    }
}

#[test]
fn three_parties_tolerate_nobody() {
    let calibration = calibrated(3, "");
    assert_eq!(calibration.predicted.standard_error_one_dropout, None);
    assert!(calibration.predicted.standard_error / calibration.predicted.error_floor < 1.3);
}

/// One objective at every number of parties: a final that is missing costs little, and so does the
/// noise that is there without a fault.
#[test]
fn a_late_departure_costs_no_more_among_seventeen_than_among_sixteen() {
    for parties in [16, 17, 20] {
        let calibration = calibrated(parties, "");
        let predicted = &calibration.predicted;
        let times_floor = |error: f64| error / predicted.error_floor;
        let plain = times_floor(predicted.standard_error);
        let late = times_floor(predicted.standard_error_late_dropout.expect("computed"));
        println!("{parties} parties: {plain:.3} times the floor, {late:.3} with a missing final");
        assert!(plain <= 1.2 && late <= 2.6, "{parties}: {plain} {late}");
        let worst = epsilon(&calibration, Faults::Class, Established::Exhaustive);
        assert!((0.999..=1.0).contains(&worst), "{worst}");
    }
    let calibration = calibrated(16, "[mechanism]\nrounds = 4");
    let claim = calibration
        .claims
        .iter()
        .find(|claim| claim.faults == Faults::Class);
    // 120 coalitions of a colluding and a departed party; each of 64 shares astray, or none.
    assert_eq!(claim.expect("a claim").cases, 120 * 65);
    assert!(calibration.predicted.standard_error < 0.4 * calibration.predicted.local);
}

#[test]
fn a_graph_that_cannot_protect_somebody_is_refused_with_the_party_named() {
    let ring = "[topology]\nprivate = { kind = \"ring\" }\n[mechanism]\nrounds = 4";
    let refused =
        calibrate(&draft(6, ring), &mut |_| {}).expect_err("both neighbours of everybody may be against it");
    assert!(
        matches!(&refused, CalibrateError::Exposed { party, degree: 2, size: 2, .. } if party == "party-0"),
        "{refused}"
    );
    let reported = refused.to_string();
    assert!(
        reported.contains("party-0")
            && reported.contains("add private edges")
            && reported.contains("privacy.dropouts"),
        "{reported}"
    );
    // One party hangs on by two edges in a graph where all others have four or more.
    let tail: Vec<String> = (0..6)
        .flat_map(|i| (i + 1..6).map(move |j| (i, j)))
        .chain([(6, 0), (6, 1)])
        .map(|(i, j)| format!("[\"party-{i}\", \"party-{j}\"]"))
        .collect();
    let tail = format!(
        "[topology]\nprivate = {{ kind = \"edges\", edges = [{}] }}\n[mechanism]\nrounds = 3",
        tail.join(", ")
    );
    let refused = calibrate(&draft(7, &tail), &mut |_| {});
    assert!(
        matches!(&refused, Err(CalibrateError::Exposed { party, .. }) if party == "party-6"),
        "{refused:?}"
    );
    // Large graphs are no exception.
    let large = draft(
        20,
        "[topology]\nprivate = { kind = \"random-regular\", degree = 2 }",
    );
    assert!(matches!(
        calibrate(&large, &mut |_| {}),
        Err(CalibrateError::Exposed { degree: 2, .. })
    ));
}

#[test]
fn whoever_fears_fewer_gets_a_plan() {
    let ring = "[privacy]\ndropouts = 0\n[topology]\nprivate = { kind = \"ring\" }\n[mechanism]\nrounds = 4";
    assert!(calibrated(6, ring).predicted.standard_error > 0.0);
    let paper = "[privacy]\ndropouts = 0\n[topology]\nprivate = { kind = \"ring\" }\n[mechanism]\nrollback = false\nrounds = 3";
    assert!(calibrated(5, paper).predicted.standard_error > 0.0);
    let regular = calibrated(
        20,
        "[topology]\nprivate = { kind = \"random-regular\", degree = 4 }\n[mechanism]\nrounds = 4",
    );
    assert!(
        regular
            .claims
            .iter()
            .any(|claim| claim.holds_as_headline && claim.faults == Faults::Class)
    );
}

#[test]
fn weights_and_records_count() {
    let weighted = calibrated(
        5,
        "weights = { party-0 = 2.0, party-1 = 1.0, party-2 = 1.0, party-3 = 1.0, party-4 = 0.5 }\n[mechanism]\nrounds = 5",
    );
    let epsilon = epsilon(&weighted, Faults::Class, Established::Exhaustive);
    assert!((0.999..=1.0).contains(&epsilon), "{epsilon}");
    assert!(
        (weighted.predicted.standard_error / (weighted.independent_std * 5f64.sqrt() / 5.5) - 1.0).abs()
            < 1e-12
    );
    let equal = calibrated(5, "[mechanism]\nrounds = 5");
    assert!(
        weighted.independent_std > 1.5 * equal.independent_std,
        "the heaviest party needs twice the noise"
    );
}

#[test]
fn a_calibration_is_accepted_as_a_plan_and_deterministic() {
    let (one, two) = (
        plan(4, "[mechanism]\nrounds = 4"),
        plan(4, "[mechanism]\nrounds = 4"),
    );
    assert_eq!(one.to_json(), two.to_json());
    assert_eq!(one.epsilon_claimed().map(|epsilon| epsilon <= 1.0), Some(true));
}

#[test]
fn what_cannot_be_calibrated_says_why() {}
