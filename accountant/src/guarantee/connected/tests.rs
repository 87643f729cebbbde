mod pairwise;

use std::collections::BTreeSet;

use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::Faults;

use super::*;
use crate::calibration::utility::realised;
use crate::gate::decision::gate;
use crate::guarantee::choice::calibrate;
use crate::losses::gaussian;
use crate::testing::{draft, draft_of, logs, plan, plan_of};
use crate::verify::check::verify;

fn lines(privacy: &str, mechanism: &str, topology: &str) -> String {
    format!(
        "[privacy]\n{privacy}\n[mechanism]\ncorrelated = \"uniform\"\n{mechanism}\n[topology]\n{topology}\n"
    )
}

fn one_and_one(mechanism: &str) -> String {
    lines("colluding = 1\ndropouts = 1", mechanism, "")
}

/// Returns the expected errors, in multiples of the floor. They are those without a departure, with
/// one in mixing, with one right after its log, and with one while corrections are out.
fn over_floor(plan: &Plan) -> [f64; 4] {
    let predicted = &plan.calibration().predicted;
    [
        Some(predicted.standard_error),
        predicted.standard_error_one_dropout,
        predicted.standard_error_late_dropout,
        predicted.standard_error_correcting,
    ]
    .map(|error| error.expect("one is tolerated") / predicted.error_floor)
}

#[test]
fn errors_come_to_the_floor_at_any_number_of_parties() {
    for (parties, expected) in [
        (8, [1.080, 1.155, 1.080, 1.155]),
        (16, [1.035, 1.069, 1.035, 1.069]),
        (200, [1.0025, 1.005, 1.0025, 1.005]),
        (1000, [1.001, 1.001, 1.001, 1.001]),
    ] {
        let plan = plan(parties, &one_and_one(""));
        for (found, expected) in over_floor(&plan).into_iter().zip(expected) {
            assert!((found - expected).abs() < 0.002, "{parties}: {found} {expected}");
        }
        assert_eq!(plan.rounds(), 3, "{parties}");
        assert_eq!(verify(&plan), Ok(()), "{parties}");
    }
    // Rounds × bytes of a coordinate.
    let eight = plan_of(draft_of(1000, 8, &one_and_one("")));
    assert_eq!(eight.rounds() * eight.lattice().wire_bytes, 9);
}

#[test]
fn twenty_who_collude_and_twenty_who_depart_cost_little() {
    let plan = plan_of(draft_of(
        1000,
        200,
        &lines("colluding = 20\ndropouts = 20", "", ""),
    ));
    let [calm, departed, ..] = over_floor(&plan);
    assert!(calm <= 1.07 && departed <= 1.07, "{calm} {departed}");
    assert_eq!((plan.rounds(), plan.lattice().wire_bytes), (21, 3));
    assert_eq!(verify(&plan), Ok(()));
}

/// Each share more that may go astray takes half a round more.
#[test]
fn shares_that_may_go_astray_take_rounds() {
    for (share_faults, rounds) in [(0, 3), (3, 3), (4, 4), (5, 4), (20, 12)] {
        let privacy = format!("colluding = 1\ndropouts = 1\nshare_faults = {share_faults}");
        let plan = plan(40, &lines(&privacy, "", ""));
        let basis = plan.calibration().claims[0].connectivity.expect("its basis");
        assert!(basis.share_faults >= share_faults, "{basis:?}");
        assert_eq!(plan.rounds(), rounds, "{share_faults}");
    }
}

#[test]
fn the_headline_rests_on_connectivity_and_nothing_is_lost_before_publishing() {
    for mechanism in ["", "kind = \"ppsc\""] {
        let plan = plan(8, &one_and_one(mechanism));
        let claims = &plan.calibration().claims;
        let of = |faults| {
            claims
                .iter()
                .find(|claim| claim.faults == faults)
                .expect("claimed")
        };
        let found = of(Faults::Class).connectivity.expect("its basis");
        assert_eq!((found.removed, found.among), (2, 6));
        assert!(
            found.kappa >= 4 && found.share_faults == found.kappa - 3,
            "{found:?}"
        );
        assert_eq!(of(Faults::BeforePublishing).mu, 0.0);
        assert!(of(Faults::Class).epsilon <= 1.0 && of(Faults::Any).epsilon > 2.0);
        assert!(claims.iter().filter(|claim| claim.holds_as_headline).count() == 2);
        assert_eq!(verify(&plan), Ok(()));
    }
}

/// A party that leaves right after its log is in the mean only where finals are sealed, and where
/// somebody holds a share of its secret.
#[test]
fn what_becomes_of_a_late_departure_depends_on_the_sealing() {
    let errors = |run: &str, privacy: &str| {
        let plan = plan(8, &format!("{}\n[run]\n{run}", lines(privacy, "", "")));
        let predicted = &plan.calibration().predicted;
        let floor = |error: Option<f64>| error.map(|error| error / predicted.standard_error);
        (
            floor(predicted.standard_error_late_dropout),
            floor(predicted.standard_error_correcting).is_some(),
        )
    };
    let one = "colluding = 1\ndropouts = 1";
    assert_eq!(errors("sealed = true", one), (Some(1.0), true));
    assert_eq!(errors("sealed = false", one), (None, false));
    assert_eq!(
        errors("sealed = true", "colluding = 1\ndropouts = 0"),
        (Some(1.0), false)
    );
    assert_eq!(
        errors("sealed = true", "colluding = 0\ndropouts = 0"),
        (None, false)
    );
}

/// Checks that claims that hold because finals stay sealed say so, while Δ/σ* holds whatever
/// becomes of the sealing. A coalition larger than the plan covers may open finals before anybody
/// publishes.
#[test]
fn claims_say_what_rests_on_sealing() {
    let said = |run: &str| {
        let plan = plan(8, &format!("{}\n[run]\n{run}", one_and_one("")));
        assert_eq!(verify(&plan), Ok(()), "{run}");
        let claims = plan.calibration().claims.iter();
        claims
            .map(|claim| (claim.faults, claim.size, claim.sealed))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        said("sealed = true"),
        [
            (Faults::Class, 1, true),
            (Faults::BeforePublishing, 1, true),
            (Faults::Any, 7, false)
        ]
    );
    assert_eq!(
        said("sealed = false"),
        [
            (Faults::Class, 1, false),
            (Faults::BeforePublishing, 7, false),
            (Faults::Any, 7, false)
        ]
    );
}

/// Each lie about sealing is refused by whoever verifies.
#[test]
fn a_plan_that_says_otherwise_of_its_sealing_is_refused() {
    let honest = plan(8, &one_and_one(""));
    let lie = |change: &dyn Fn(&mut Calibration)| {
        let mut calibration = honest.calibration().clone();
        change(&mut calibration);
        let plan = Plan::assemble(honest.draft().clone(), calibration, [7; 16]).expect("it is a plan");
        verify(&plan).expect_err("a lie").to_string()
    };
    for index in 0..3 {
        let said = lie(&|calibration| calibration.claims[index].sealed ^= true);
        assert!(said.contains(&format!("claims[{index}]")), "{said}");
    }
    let larger = lie(&|calibration| calibration.claims[1].size = 2);
    assert!(larger.contains("claims[1]"), "{larger}");
    let late = lie(&|calibration| calibration.predicted.standard_error_late_dropout = None);
    assert!(late.contains("standard_error_late_dropout"), "{late}");
    let correcting = lie(&|calibration| calibration.predicted.standard_error_correcting = Some(0.1));
    assert!(correcting.contains("standard_error_correcting"), "{correcting}");
    // Where nothing is sealed the very file is refused.
    let open = plan(8, &format!("{}\n[run]\nsealed = false", one_and_one("")));
    let mut calibration = open.calibration().clone();
    calibration.claims[0].sealed = true;
    let refused = Plan::assemble(open.draft().clone(), calibration, [7; 16]).expect_err("nothing is sealed");
    assert_eq!(refused.field(), Some("claims"), "{refused}");
}

/// Checks that a plan is refused in which a claim is better than the truth.
#[test]
fn a_plan_that_says_more_than_its_schedule_withstands_is_refused() {
    let honest = plan(8, &one_and_one(""));
    let mut said = Vec::new();
    for lie in 0..3 {
        let mut calibration = honest.calibration().clone();
        let claim = &mut calibration.claims[0];
        let basis = claim.connectivity.as_mut().expect("its basis");
        match lie {
            0 => (basis.kappa, basis.share_faults) = (basis.kappa + 1, basis.share_faults + 1),
            1 => basis.among += 1,
            _ => calibration.independent_std *= 0.99,
        }
        let plan = Plan::assemble(honest.draft().clone(), calibration, [7; 16]).expect("it is a plan");
        said.push(verify(&plan).expect_err("a lie").to_string());
    }
    println!("{said:#?}");
}

#[test]
fn sparse_graphs_and_pieces_plan_and_what_falls_apart_is_named() {
    let graph = |degree: usize| format!("private = {{ kind = \"random-regular\", degree = {degree} }}");
    for (privacy, topology) in [
        ("colluding = 1\ndropouts = 1", graph(3)),
        ("colluding = 1\ndropouts = 1", graph(4)),
        ("colluding = 1\ndropouts = 0", "private = \"ring\"".into()),
    ] {
        let plan = plan(8, &lines(privacy, "", &topology));
        assert_eq!(verify(&plan), Ok(()), "{privacy} {topology}");
    }
    let refused = |parties: usize, lines: &str| {
        calibrate(&draft(parties, lines), &mut |_| {})
            .expect_err("too thin")
            .to_string()
    };
    let ring = refused(8, &lines("colluding = 1\ndropouts = 1", "", "private = \"ring\""));
    assert!(
        ring.contains("these 2 parties, ") && ring.contains("would separate party-"),
        "{ring}"
    );
    let many = refused(8, &lines("colluding = 1\ndropouts = 1\nshare_faults = 7", "", ""));
    assert!(many.contains("too few parties"), "{many}");
    let short = refused(8, &one_and_one("rounds = 1"));
    assert!(
        short.contains("mechanism.rounds") && short.contains("\"auto\""),
        "{short}"
    );

    // Two pieces of PPSC, each with a sum of its own.
    let half = |first: usize| (first..first + 5).flat_map(move |a| (a + 1..first + 5).map(move |b| (a, b)));
    let edges: Vec<String> = half(0)
        .chain(half(5))
        .map(|(a, b)| format!("[\"party-{a}\", \"party-{b}\"]"))
        .collect();
    let pieces = format!("private = {{ kind = \"edges\", edges = [{}] }}", edges.join(", "));
    let plan = plan(
        10,
        &lines("colluding = 1\ndropouts = 1", "kind = \"ppsc\"", &pieces),
    );
    let basis = plan.calibration().claims[0].connectivity.expect("its basis");
    assert_eq!(basis.among, 3);
    assert_eq!(verify(&plan), Ok(()));
}

fn judged(plan: &Plan, logs: &AgreedLogs) -> (Option<BTreeSet<Party>>, f64) {
    let verdict = gate(plan, logs);
    (verdict.publish, verdict.audit.epsilon)
}

#[test]
fn the_gate_states_what_happened_and_no_more() {
    for mechanism in ["", "kind = \"ppsc\""] {
        let plan = plan(8, &one_and_one(mechanism));
        let everybody: Vec<Party> = (0..8).collect();
        let calm = logs(&plan, &everybody);
        // Nobody departed: hidden among seven, where the plan says six.
        let (publish, epsilon) = judged(&plan, &calm);
        assert_eq!(publish, Some((0..8).collect()));
        let claimed = &plan.calibration().claims[0];
        let expected = gaussian::epsilon(1e-6, claimed.mu * (6.0f64 / 7.0).sqrt()).expect("a loss");
        assert!((epsilon / expected - 1.0).abs() < 1e-6, "{epsilon} {expected}");
        let error = realised(&plan, &calm, &(0..8).collect(), &(0..8).collect()).expect("logs that fit");
        assert!(error.usable && (error.total_weight - 8.0).abs() < 1e-12);
        assert!((error.standard_error / plan.calibration().predicted.standard_error - 1.0).abs() < 1e-9);
        // One is gone.
        let rest: Vec<Party> = (0..7).collect();
        let (publish, epsilon) = judged(&plan, &logs(&plan, &rest));
        assert_eq!(publish, Some((0..7).collect()));
        assert!((epsilon / claimed.epsilon - 1.0).abs() < 1e-4, "{epsilon}");
        // Two are too many.
        assert_eq!(judged(&plan, &logs(&plan, &rest[..6])), (None, 0.0));
        // A final that is missing leaves nothing: what is left of uniform noise is uniform.
        let missing = realised(&plan, &calm, &(0..8).collect(), &(0..7).collect()).expect("logs that fit");
        assert!(!missing.usable);
    }
}

/// All shares between one party and the others but two are taken back: its value is hidden among
/// few, and the run goes on without it, or not at all.
#[test]
fn who_shares_with_too_few_is_left_out() {
    let plan = plan(8, &one_and_one(""));
    let everybody: Vec<Party> = (0..8).collect();
    let mut logs = logs(&plan, &everybody);
    let lonely = 3;
    for (&author, log) in &mut logs {
        let mut kept = 0;
        log.received.retain(|entry| {
            let with = author == lonely || entry.from == lonely;
            kept += usize::from(with && author == lonely);
            !with || (author == lonely && kept == 1)
        });
    }
    let (publish, epsilon) = judged(&plan, &logs);
    let publish = publish.expect("the others do");
    assert!(!publish.contains(&lonely) && publish.len() == 7, "{publish:?}");
    assert!(epsilon > 0.9 && epsilon <= 1.0, "{epsilon}");
}
