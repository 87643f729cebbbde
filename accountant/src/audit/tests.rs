mod counting;

use undertone_protocol::plan::claim::{Adversary, Established, Faults};

use super::*;
use crate::audit::aims::worst_execution;
use crate::guarantee::choice::Guarantee;
use crate::guarantee::choice::calibrate;
use crate::losses::gaussian;
use crate::losses::loss::squared_losses;
use crate::losses::view::View;
use crate::testing::{draft, plan, training};

const SMALL: &str = "[privacy]\nepsilon = 1.0\ndelta = 1e-5\ncolluding = 1\ndropouts = 1\n";

fn attack(plan: &Plan, pairs: u64, scale: f64) -> Attacked {
    Attack::of(plan, 1)
        .expect("a headline")
        .run(pairs, scale, 1, &mut |_, _| {})
        .expect("in range")
}

const UNIFORM: [&str; 3] = ["", "kind = \"ppsc\"\n", "kind = \"pairwise\"\n"];

fn uniform(mechanism: &str) -> Plan {
    plan(
        5,
        &format!("{SMALL}[mechanism]\ncorrelated = \"uniform\"\n{mechanism}"),
    )
}

#[test]
fn it_stays_below_a_true_claim_and_catches_noise_that_is_too_small() {
    stays_below_and_catches(&plan(5, SMALL));
    UNIFORM
        .iter()
        .for_each(|mechanism| stays_below_and_catches(&uniform(mechanism)));
}

/// A training releases many sums, each with noise for a share of the budget.
#[test]
fn all_releases_of_a_training_are_attacked_together() {
    let plan = training(SMALL);
    let claimed = plan.epsilon_claimed().expect("a headline");
    assert!(plan.draft().releases() == 3 && claimed > 0.99, "{claimed}");
    let honest = attack(&plan, 300_000, 1.0);
    assert!(
        honest.epsilon_lower < claimed && honest.epsilon_lower > 0.5 * claimed,
        "{honest:?} against {claimed}"
    );
    let short = attack(&plan, 300_000, 0.6);
    assert!(short.epsilon_lower > claimed, "{short:?} against {claimed}");
    has_the_loss_that_is_claimed(&plan);
}

const GOSSIPED: [&str; 4] = [
    "releases = 6\n[privacy]\ndelta = 1e-5\n[mechanism]\nsums = \"open\"\n[topology]\nprivate = \"ring\"\n",
    "releases = 6\n[privacy]\ndelta = 1e-5\nprotect = \"one\"\n[mechanism]\nsums = \"open\"\nedges = \"matching\"\n",
    "releases = 6\nadaptive = true\n[privacy]\ndelta = 1e-5\n[mechanism]\nsums = \"open\"\n",
    "[privacy]\ndelta = 1e-5\n[mechanism]\nsums = \"open\"\n[topology]\nprivate = \"ring\"\n",
];

/// Streams and one value, over rings, matchings and all edges.
#[test]
fn gossip_is_attacked_by_all_others() {
    for lines in GOSSIPED {
        let plan = plan(6, lines);
        stays_below_and_catches(&plan);
        has_the_loss_that_is_claimed(&plan);
    }
}

/// The claim that is no headline is attacked as well; and is what shows it if a plan claims too
/// little of strangers.
#[test]
fn what_is_claimed_of_strangers_is_attacked() {
    let honest = plan(8, GOSSIPED[0]);
    let mut calibration = honest.calibration().clone();
    let strangers = &mut calibration.claims[1];
    assert_eq!(strangers.adversary, Adversary::Apart);
    (strangers.mu, strangers.epsilon) = (strangers.mu * 0.4, strangers.epsilon * 0.3);
    let lying = Plan::assemble(honest.draft().clone(), calibration, [7; 16]).expect("a plan");
    let [honest, lying] = [honest, lying].map(|plan| {
        let attack = Attack::of(&plan, 1).expect("claims");
        let attacked = attack.run(300_000, 1.0, 1, &mut |_, _| {}).expect("in range");
        let claim = attack.aims()[attacked.aim].claim();
        (claim.adversary, attacked.epsilon_lower / claim.epsilon)
    });
    assert!(honest.1 < 1.0 && honest.1 > 0.5, "{honest:?}");
    assert!(lying.0 == Adversary::Apart && lying.1 > 1.0, "{lying:?}");
}

fn stays_below_and_catches(plan: &Plan) {
    let claimed = plan.epsilon_claimed().expect("a headline");
    let honest = attack(plan, 300_000, 1.0);
    assert!(
        honest.epsilon_lower < claimed && honest.epsilon_lower > 0.5 * claimed,
        "{honest:?} against {claimed}"
    );
    assert!(honest.pairs == 300_000 && honest.found > honest.mistaken);
    let short = attack(plan, 300_000, 0.6);
    assert!(short.epsilon_lower > claimed, "{short:?} against {claimed}");
}

#[test]
fn the_statistic_has_the_loss_that_is_claimed() {
    has_the_loss_that_is_claimed(&plan(5, SMALL));
    UNIFORM
        .iter()
        .for_each(|mechanism| has_the_loss_that_is_claimed(&uniform(mechanism)));
}

fn has_the_loss_that_is_claimed(plan: &Plan) {
    let attack = Attack::of(plan, 1).expect("a headline");
    let aim = &attack.aims()[0];
    let runs = 40.0 * BATCH as f64;
    let (mut difference, mut squares) = (0.0, 0.0);
    for batch in 0..40 {
        let (x, changed) = (
            attack.ratios(aim, false, (1.0, 3), batch),
            attack.ratios(aim, true, (1.0, 3), batch),
        );
        difference += changed.iter().sum::<f64>() - x.iter().sum::<f64>();
        let centred = |values: &[f64], centre: f64| values.iter().map(|v| (v - centre).powi(2)).sum::<f64>();
        let square = aim.claim().mu.powi(2);
        squares += (centred(&x, -square / 2.0) + centred(&changed, square / 2.0)) / 2.0;
    }
    let square = aim.claim().mu.powi(2);
    // Mean difference and variance are both μ²: to five standard errors.
    let error = (2.0 / runs).sqrt() * square.sqrt();
    assert!(
        (difference / runs - square).abs() < 5.0 * error,
        "{} {square}",
        difference / runs
    );
    assert!(
        (squares / runs / square - 1.0).abs() < 5.0 * (1.0 / runs).sqrt(),
        "{} {square}",
        squares / runs
    );
}

#[test]
fn the_same_seed_gives_the_same_counts() {
    let plan = plan(4, SMALL);
    let (one, again) = (attack(&plan, 5_000, 1.0), attack(&plan, 5_000, 1.0));
    assert_eq!(one, again);
    let other = Attack::of(&plan, 1)
        .expect("a headline")
        .run(5_000, 1.0, 2, &mut |_, _| {})
        .expect("in range");
    assert_ne!((one.found, one.mistaken), (other.found, other.mistaken));
}

#[test]
fn theorems_are_attacked_in_the_views_that_prove_them_tight() {
    // More coalitions than are ever computed: the headline is Δ/σ*.
    let plan = plan(
        40,
        "[privacy]\nepsilon = 2.0\ndelta = 1e-5\ncolluding = 8\n[mechanism]\nrounds = 3\n",
    );
    let attack = Attack::of(&plan, 1).expect("a headline");
    let aim = &attack.aims()[0];
    assert_eq!(aim.claim().established, Established::Theorem);
    let ratios = |changed| attack.ratios(aim, changed, (1.0, 5), 0);
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let (difference, square) = (mean(ratios(true)) - mean(ratios(false)), aim.claim().mu.powi(2));
    assert!(
        (difference - square).abs() < 5.0 * (2.0 * square / BATCH as f64).sqrt(),
        "{difference} {square}"
    );
}

#[test]
fn nonsense_is_refused() {
    let plan = plan(4, SMALL);
    let attack = Attack::of(&plan, 1).expect("a headline");
    let run = |pairs, scale| attack.run(pairs, scale, 0, &mut |_, _| {});
    assert_eq!(run(0, 1.0), Err(AuditError::Pairs));
    for scale in [0.0, -1.0, 2.0, f64::NAN] {
        assert!(matches!(run(1, scale), Err(AuditError::Scale { .. })));
    }
    assert_eq!(run(1, 1.0).map(|attacked| attacked.pairs), Ok(1));
}

#[test]
fn both_counts_share_the_confidence_that_is_stated() {
    assert_eq!(CONFIDENCE, 0.999);
    // All were recognised and none mistaken: each chance c is bounded by cⁿ = 0.0005, or (1 − c)ⁿ =
    // 0.0005.
    let (pairs, delta) = (1000, 1e-5);
    let least = libm::pow(0.0005, 1.0 / pairs as f64);
    let expected = libm::log((least - delta) / (1.0 - least));
    // Each chance is rounded away from what it bounds, by some 1e-6 of it.
    let found = lower_bound(pairs, 0, pairs, delta);
    assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
}

/// The loss of an aim's victim by the accountant's own matrices, over what its claim says.
fn share(plan: &Plan, aim: &Aim) -> f64 {
    let calibration = plan.calibration();
    let noise = Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    };
    let Sight::Shares(seen) = &aim.sight else {
        panic!("shares are seen")
    };
    let view = View::of(&seen.execution);
    let place = view
        .honest
        .iter()
        .position(|&party| party == aim.victim())
        .expect("the victim is honest");
    let square = squared_losses(&view, noise)[place];
    square.sqrt() * plan.draft().sensitivity(aim.victim()) / aim.claim().mu
}

#[test]
fn each_headline_claim_is_attacked_where_it_loses_most_and_in_drawn_executions() {
    for lines in [SMALL, "[mechanism]\nkind = \"ppsc\""] {
        let plan = plan(5, lines);
        let attack = Attack::of(&plan, 1).expect("a headline");
        let aims = attack.aims();
        assert_eq!(
            aims.iter().map(|aim| aim.drawn).collect::<Vec<_>>(),
            [false, true, false, true]
        );
        for aim in aims {
            let share = share(&plan, aim);
            assert!(share <= 1.0 + 1e-9, "{:?}: {share}", aim.claim());
            // A share that came back carries a little still, which the claim does not count.
            assert!(aim.drawn || share > 0.98, "{:?}: {share}", aim.claim());
        }
    }
}

/// A plan whose values come in three times too large and go out again, and that claims before
/// publishing what a party loses that is cut off: one that has handed half to others loses more.
fn with_a_claim_from_one_pattern() -> Plan {
    let lines = "[privacy]\nepsilon = 1.0\ndelta = 1e-5\ncolluding = 1\ndropouts = 1\n[mechanism]\n\
                 injection = { c = [\"3\", \"-3\", \"1\", \"0\"], z = [[\"2\", \"0\", \"0\"], \
                 [\"-1\", \"1/8\", \"0\"], [\"0\", \"0\", \"1\"], [\"-1\", \"-1/8\", \"-1\"]] }\n";
    let draft = draft(8, lines);
    let mut calibration = calibrate(&draft, &mut |_| {}).expect("noise");
    let noise = Noise {
        independent_std: 0.6,
        correlated_std: 6.0,
    };
    (calibration.independent_std, calibration.correlated_std) = (noise.independent_std, noise.correlated_std);
    let drawn = calibration.drawn.as_ref().expect("a schedule");
    let setting = Setting::of_draft(&draft, &drawn.schedule).expect("an injection");
    let claims = Guarantee::Gaussian.claims(&setting, noise, 1e-5).expect("noise");
    let before = claims
        .into_iter()
        .find(|claim| claim.faults == Faults::BeforePublishing);
    let before = Claim {
        size: 1,
        ..before.expect("a theorem")
    };
    let headline = worst_execution(&setting, &before, noise).expect("executions");
    let (execution, victim) = headline.expect("somebody is cut off");
    let view = View::of(&execution);
    let place = view
        .honest
        .iter()
        .position(|&party| party == victim)
        .expect("honest");
    let mu = squared_losses(&view, noise)[place].sqrt() * draft.sensitivity(victim);
    calibration.claims = vec![Claim {
        mu,
        epsilon: gaussian::epsilon(1e-5, mu).expect("in range"),
        established: Established::Exhaustive,
        holds_as_headline: true,
        ..before
    }];
    Plan::assemble(draft, calibration, [7; 16]).expect("a plan")
}

#[test]
fn drawn_executions_find_what_no_cut_off_party_loses() {
    let plan = with_a_claim_from_one_pattern();
    let attack = Attack::of(&plan, 1).expect("a headline");
    let found = attack.run(200_000, 1.0, 1, &mut |_, _| {}).expect("in range");
    let aim = &attack.aims()[found.aim];
    assert!(aim.drawn, "the pattern alone shows nothing");
    assert!(
        found.epsilon_lower > aim.claim().epsilon,
        "{found:?} against {}",
        aim.claim().epsilon
    );
}
