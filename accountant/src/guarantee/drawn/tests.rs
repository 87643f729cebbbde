use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Basis, Faults};

use super::*;
use crate::guarantee::choice::calibrate;
use crate::testing::{draft, plan};
use crate::verify::check::verify;

fn lines(privacy: &str, mechanism: &str) -> String {
    format!(
        "[privacy]\ncoalitions = \"static\"\n{privacy}\n[mechanism]\ncorrelated = \"uniform\"\n{mechanism}\n\
         [run]\nsealed = true\n"
    )
}

/// The 200 parties of node/guide/performance.md: rounds and noise are those of an independent
/// program.
const MANY: &str = "epsilon = 0.2\ndelta = 1e-5\ncolluding = 20\ndropouts = 20";

#[test]
fn two_hundred_of_whom_forty_are_against_the_others_come_close_to_a_trusted_server() {
    for (mechanism, rounds) in [("", 10), ("kind = \"pairwise\"", 8), ("kind = \"ppsc\"", 19)] {
        let plan = plan(200, &lines(MANY, mechanism));
        assert_eq!(plan.rounds(), rounds, "{mechanism}");
        let predicted = &plan.calibration().predicted;
        // The table's plan has 200 coordinates of unit range, as the paper's.
        let over = |error: f64| error / predicted.central;
        assert!(over(predicted.standard_error) < 1.13, "{predicted:?}");
        let claim = &plan.calibration().claims[0];
        let found = claim.draw.expect("its draw");
        assert_eq!(
            (claim.basis, found.removed, found.among),
            (Some(Basis::Draw), 40, 160)
        );
        assert!(
            found.tries == 3 && 3.0 * found.chance <= 1e-8 && claim.delta == 1e-5,
            "{found:?}"
        );
        assert!(
            claim.holds_as_headline && claim.sealed && claim.epsilon <= 0.2,
            "{claim:?}"
        );
        assert_eq!(verify(&plan), Ok(()));
        assert!(plan.calibration().drawn.is_none() && plan.schedule().rounds() == 0);
        let read = Plan::parse(plan.to_json().as_bytes()).expect("a plan");
        assert_eq!(read.calibration(), plan.calibration());
    }
}

/// (ε, δ) is for the noise and the draw together: the noise alone has to do with less of δ.
#[test]
fn the_chance_of_a_bad_draw_is_taken_out_of_delta() {
    let plan = plan(40, &lines("colluding = 3\ndropouts = 2", ""));
    let calibration = plan.calibration();
    let found = calibration.claims[0].draw.expect("its draw");
    let mu = plan.draft().largest_sensitivity() / (calibration.independent_std * 35f64.sqrt());
    let of_noise = gaussian::delta(calibration.claims[0].epsilon, mu).expect("in range");
    assert!(
        of_noise + 3.0 * found.chance <= 1e-6 && of_noise > 0.998e-6,
        "{of_noise} {found:?}"
    );
}

#[test]
fn a_plan_that_says_more_than_its_draw_does_is_refused() {
    let honest = plan(40, &lines("colluding = 3\ndropouts = 2", ""));
    for lie in 0..8 {
        let mut calibration = honest.calibration().clone();
        let claim = &mut calibration.claims[0];
        let found = claim.draw.as_mut().expect("its draw");
        match lie {
            0 => found.chance /= 2.0,
            1 => found.among += 1,
            2 => found.removed += 1,
            3 => found.share_faults += 1,
            4 => claim.epsilon *= 0.99,
            5 => found.tries -= 1,
            // More than what δ has room for beside its noise: then δ is not what is claimed.
            6 => found.chance = 1e-9,
            _ => calibration.independent_std *= 0.99,
        }
        let plan = Plan::assemble(honest.draft().clone(), calibration, [7; 16]).expect("it is a plan");
        assert!(verify(&plan).is_err(), "{lie}");
    }
    // A larger chance than the true one is no lie, as long as δ has room for it.
    let mut calibration = honest.calibration().clone();
    calibration.claims[0].draw.as_mut().expect("its draw").chance *= 1.0 + 1e-6;
    let plan = Plan::assemble(honest.draft().clone(), calibration, [7; 16]).expect("it is a plan");
    assert_eq!(verify(&plan), Ok(()));
}

#[test]
fn too_few_rounds_and_what_no_draw_hides_are_refused_with_what_would_do() {
    let refused = |parties: usize, lines: &str| {
        let found = calibrate(&draft(parties, lines), &mut |_| {});
        found.expect_err("too few").to_string()
    };
    let few = refused(40, &lines("colluding = 3\ndropouts = 2", "rounds = 4"));
    assert!(
        few.contains("mechanism.rounds") && few.contains("it takes at least 10"),
        "{few}"
    );
    let three = refused(4, &lines("colluding = 1\ndropouts = 0\ndelta = 1e-200", ""));
    assert!(three.contains("no number of rounds does better"), "{three}");
    let open = plan(40, &lines("colluding = 3\ndropouts = 2", "rounds = 14"));
    assert_eq!(open.rounds(), 14);
    // One too few is refused, whatever it would claim.
    let class = lines("colluding = 3\ndropouts = 2", "");
    let fewest = plan(40, &class).rounds();
    let one_less = refused(
        40,
        &class.replace("[mechanism]", &format!("[mechanism]\nrounds = {}", fewest - 1)),
    );
    assert!(
        one_less.contains(&format!("it takes at least {fewest}")),
        "{one_less}"
    );
}

#[test]
fn what_is_claimed_of_any_coalition_is_what_local_noise_hides() {
    let plan = plan(40, &lines("colluding = 3\ndropouts = 2", ""));
    let any = plan
        .calibration()
        .claims
        .iter()
        .find(|claim| claim.faults == Faults::Any);
    let any = any.expect("the theorem that is always there");
    assert!(
        any.epsilon > 3.0 && any.draw.is_none() && !any.holds_as_headline,
        "{any:?}"
    );
}

/// As few rounds as an independent program's union bound allows, to the round: with one less
/// nothing is planned, however it is asked for.
#[test]
fn one_round_less_than_the_fewest_is_refused() {
    let file = include_str!("../../../tests/vectors/floor.json");
    let file: serde_json::Value = serde_json::from_str(file).expect("JSON");
    let vectors = file["vectors"].as_array().expect("a list").iter();
    let mut compared = 0;
    for vector in vectors.filter(|vector| vector["kind"] == "static") {
        let number = |key: &str| vector["given"][key].as_u64().expect("a number") as usize;
        let (parties, removed, rounds) = (number("parties"), number("removed"), number("rounds") as u32);
        // δ of which a thousandth is a little more than the chance of three tries, or less.
        let chance = libm::exp(vector["expected"]["ln_p"].as_f64().expect("a number"));
        if parties > 200 || number("share_faults") > 0 || chance > 1e-4 {
            continue;
        }
        let with = |delta: f64, rounds: u32| {
            let privacy = format!("delta = {delta:e}\ncolluding = {}\ndropouts = 1", removed - 1);
            let mechanism = format!("kind = \"pairwise\"\nrounds = {rounds}");
            calibrate(&draft(parties, &lines(&privacy, &mechanism)), &mut |_| {})
        };
        let enough = with(3e3 * chance * (1.0 + 1e-5), rounds).expect("as many rounds as it takes");
        assert_eq!(enough.rounds, rounds);
        let claim = &enough.claims[0];
        assert!((claim.draw.expect("its draw").chance / chance - 1.0).abs() < 1e-6);
        for (part, given, needed) in [(1.0 + 1e-5, rounds - 1, rounds), (1.0 - 1e-5, rounds, rounds + 1)] {
            let refused = with(3e3 * chance * part, given);
            let Err(CalibrateError::Drawn { fewest, .. }) = refused else {
                panic!("{parties} {removed}: {given} rounds are too few")
            };
            assert_eq!(fewest, Some(needed), "{parties} {removed}");
        }
        compared += 1;
    }
    assert_eq!(compared, 5);
}
