//! Plans of PPSC that are few enough to compute: rounds, noise, claims, and what they refuse.

use serde_json::json;
use undertone_protocol::plan::claim::{Adversary, Established, Faults};

use super::{COMPLETE, changed, claim, in_components};
use crate::audit::Attack;
use crate::bounds::bound::Bound;
use crate::calibration::error::CalibrateError;
use crate::class::setting::Setting;
use crate::guarantee::choice::calibrate;
use crate::losses::gaussian;
use crate::testing::{draft, plan};
use crate::verify::check::verify;
use crate::verify::error::VerifyError;

#[test]
fn components_count_without_the_colluder_inside() {
    let plan = plan(
        10,
        &in_components("epsilon = 0.1\ndelta = 1e-6\ncolluding = 1\ndropouts = 0", ""),
    );
    let budget = gaussian::mu(0.1, 1e-6).expect("in range");
    let worst = claim(
        &plan,
        Faults::Class,
        Established::Exhaustive,
        Adversary::Coalition,
    );
    assert!(
        worst.holds_as_headline && (0.0999..=0.1).contains(&worst.epsilon),
        "{}",
        worst.epsilon
    );
    // A colluder in a component of three leaves two: σ*² = Δ²/(2 μ²), and a little more while σ_γ
    // is finite.
    let times = plan.calibration().independent_std * budget * 2f64.sqrt() / 2.0;
    assert!((1.0..1.1).contains(&times), "{times}");
    // Who forgets the colluder inside and takes m = 3 promises ε = 0.1 and gives 0.124.
    let setting = Setting::of_plan(&plan).expect("a plan");
    let square = Bound::of(&setting).worst(1e6).0;
    let forgetful = (square * 3.0).sqrt() * budget / 2.0;
    let epsilon = gaussian::epsilon(1e-6, forgetful).expect("in range");
    assert!((epsilon - 0.124).abs() < 0.001, "{epsilon}");
    // Readers of the public graph alone learn what the paper accounts for: three values share their
    // noise.
    let readers = claim(&plan, Faults::Class, Established::Exhaustive, Adversary::Public);
    assert!(
        readers.mu < worst.mu * 0.95 && !readers.holds_as_headline,
        "{} {}",
        readers.mu,
        worst.mu
    );
    assert_eq!(verify(&plan), Ok(()));
}

#[test]
fn a_sole_neighbour_learns_everything_and_the_plan_says_whose() {
    let path = |more: &str| {
        let edges = r#"edges = [["party-0","party-1"],["party-1","party-2"],["party-2","party-3"],["party-3","party-4"],["party-4","party-1"]]"#;
        let lines = format!(
            "[privacy]\ncolluding = 1\ndropouts = 0\n[mechanism]\nkind = \"ppsc\"\n{more}\n[topology]\nprivate = {{ kind = \"edges\", {edges} }}"
        );
        draft(5, &lines)
    };
    let refused = calibrate(&path(""), &mut |_| {}).expect_err("party-0 has one neighbour");
    let CalibrateError::Local {
        party, neighbours, ..
    } = &refused
    else {
        panic!("{refused}")
    };
    assert_eq!((party.as_str(), neighbours[0].as_str()), ("party-0", "party-1"));
    let message = refused.to_string();
    assert!(
        message.contains("party-0 has 1 private neighbour (party-1)") && message.contains("local_noise_ok"),
        "{message}"
    );
    let draft = path("local_noise_ok = true");
    let accepted = calibrate(&draft, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let local = draft.largest_sensitivity() / gaussian::mu(1.0, 1e-6).expect("in range");
    assert!(
        (accepted.independent_std / local - 1.0).abs() < 1e-5,
        "{} {local}",
        accepted.independent_std
    );
    // A complete graph does not help either, if all others may be against a party.
    let three = crate::testing::draft(
        3,
        "[privacy]\ncolluding = 1\ndropouts = 0\n[mechanism]\nkind = \"ppsc\"",
    );
    assert!(calibrate(&three, &mut |_| {}).is_ok(), "two are left");
    let four = crate::testing::draft(
        4,
        "[privacy]\ncolluding = 2\ndropouts = 0\n[mechanism]\nkind = \"ppsc\"",
    );
    assert!(calibrate(&four, &mut |_| {}).is_ok(), "two are left");
    let ring = crate::testing::draft(
        6,
        "[privacy]\ncolluding = 2\ndropouts = 0\n[mechanism]\nkind = \"ppsc\"\n[topology]\nprivate = { kind = \"ring\" }",
    );
    assert!(matches!(
        calibrate(&ring, &mut |_| {}),
        Err(CalibrateError::Local { degree: 2, .. })
    ));
}

#[test]
fn eight_parties_on_a_complete_graph() {
    let plan = plan(8, COMPLETE);
    let budget = gaussian::mu(1.0, 1e-6).expect("in range");
    // m = 6 of 8 are left without a colluder and a departed party; Δ = 2.
    let least = 2.0 / (budget * 6f64.sqrt());
    let std = plan.calibration().independent_std;
    assert!((1.0..1.2).contains(&(std / least)), "{}", std / least);
    let predicted = &plan.calibration().predicted;
    assert!((predicted.standard_error - std / 8f64.sqrt()).abs() < 1e-12);
    assert!(predicted.standard_error < predicted.local * 0.5);
    let before = claim(
        &plan,
        Faults::BeforePublishing,
        Established::Theorem,
        Adversary::Coalition,
    );
    assert!(before.holds_as_headline && before.epsilon <= 1.0);
    assert_eq!(verify(&plan), Ok(()));
}

#[test]
fn a_schedule_that_falls_short_is_extended_or_refused() {
    let fixed = |rounds: usize| draft(6, &format!("{COMPLETE}\nrounds = {rounds}"));
    let refused = calibrate(&fixed(2), &mut |_| {}).expect_err("six parties do not meet in two rounds");
    let CalibrateError::Separated {
        rounds: 2,
        least: Some(enough),
        ..
    } = refused
    else {
        panic!("{refused}")
    };
    assert!(
        refused.to_string().contains(&format!("at least {enough})")),
        "{refused}"
    );
    assert!(matches!(
        calibrate(&fixed(enough - 1), &mut |_| {}),
        Err(CalibrateError::Separated { .. })
    ));
    let calibration = calibrate(&fixed(enough), &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(calibration.rounds as usize, enough);
    assert!(
        calibration
            .drawn
            .is_some_and(|drawn| drawn.schedule.rounds() == enough)
    );
    let auto = calibrate(&draft(6, COMPLETE), &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        auto.rounds as usize >= enough,
        "auto takes no schedule that falls short"
    );
}

#[test]
fn each_lie_of_a_plan_is_named() {
    let plan = plan(5, COMPLETE);
    assert_eq!(changed(&plan, |_| {}), Ok(()));
    for key in ["independent_std", "pairwise_std"] {
        let less = changed(&plan, |value| {
            let std = &mut value["mechanism"][key];
            *std = json!(std.as_f64().expect("a number") * 0.99);
        });
        assert!(matches!(less, Err(VerifyError::Loss { .. })), "{key}: {less:?}");
    }
    for index in 0..plan.calibration().claims.len() {
        let smaller = changed(&plan, |value| value["claims"][index]["mu"] = json!(0.001));
        assert!(
            matches!(smaller, Err(VerifyError::Loss { index: found, .. }) if found == index),
            "{smaller:?}"
        );
    }
    let other = changed(&plan, |value| value["claims"][0]["changes"] = json!("same-sum"));
    assert!(
        matches!(other, Err(VerifyError::Unknown { index: 0, .. })),
        "{other:?}"
    );
}

#[test]
fn an_attack_on_what_is_sent_stays_below_the_claim() {
    let plan = plan(4, COMPLETE);
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
