use super::*;
use crate::losses::loss::squared_losses;
use crate::testing::plan;

const SMALL: &str = "[privacy]\nepsilon = 1.0\ndelta = 1e-5\ncolluding = 1\ndropouts = 1\n";

fn attack(plan: &Plan, pairs: u64, scale: f64) -> Attacked {
    Attack::of(plan)
        .expect("a headline")
        .run(pairs, scale, 1, &mut |_, _| {})
        .expect("in range")
}

#[test]
fn it_stays_below_a_true_claim_and_catches_noise_that_is_too_small() {
    let plan = plan(5, SMALL);
    let claimed = plan.epsilon_claimed().expect("a headline");
    let honest = attack(&plan, 300_000, 1.0);
    assert!(
        honest.epsilon_lower < claimed && honest.epsilon_lower > 0.5 * claimed,
        "{honest:?} against {claimed}"
    );
    assert!(honest.pairs == 300_000 && honest.found > honest.mistaken);
    let short = attack(&plan, 300_000, 0.6);
    assert!(short.epsilon_lower > claimed, "{short:?} against {claimed}");
}

#[test]
fn the_statistic_has_the_loss_that_is_claimed() {
    let plan = plan(5, SMALL);
    let attack = Attack::of(&plan).expect("a headline");
    let runs = 40.0 * BATCH as f64;
    let (mut difference, mut squares) = (0.0, 0.0);
    for batch in 0..40 {
        let (x, changed) = (
            attack.ratios(false, 1.0, 3, batch),
            attack.ratios(true, 1.0, 3, batch),
        );
        difference += changed.iter().sum::<f64>() - x.iter().sum::<f64>();
        let centred = |values: &[f64], centre: f64| values.iter().map(|v| (v - centre).powi(2)).sum::<f64>();
        let square = attack.claim().mu.powi(2);
        squares += (centred(&x, -square / 2.0) + centred(&changed, square / 2.0)) / 2.0;
    }
    let square = attack.claim().mu.powi(2);
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
    let other = Attack::of(&plan)
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
    let attack = Attack::of(&plan).expect("a headline");
    assert_eq!(attack.claim().established, Established::Theorem);
    let ratios = |changed| attack.ratios(changed, 1.0, 5, 0);
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let (difference, square) = (
        mean(ratios(true)) - mean(ratios(false)),
        attack.claim().mu.powi(2),
    );
    assert!(
        (difference - square).abs() < 5.0 * (2.0 * square / BATCH as f64).sqrt(),
        "{difference} {square}"
    );
}

#[test]
fn nonsense_is_refused() {
    let plan = plan(4, SMALL);
    let attack = Attack::of(&plan).expect("a headline");
    let run = |pairs, scale| attack.run(pairs, scale, 0, &mut |_, _| {});
    assert_eq!(run(0, 1.0), Err(AuditError::Pairs));
    for scale in [0.0, -1.0, 2.0, f64::NAN] {
        assert!(matches!(run(1, scale), Err(AuditError::Scale { .. })));
    }
    assert_eq!(run(1, 1.0).map(|attacked| attacked.pairs), Ok(1));
}

#[test]
fn a_party_that_is_cut_off_is_attacked_as_it_is_cut_off() {
    let plan = plan(5, SMALL);
    let setting = Setting::of_plan(&plan).expect("a plan");
    let calibration = plan.calibration();
    let noise = Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    };
    let claims = &calibration.claims;
    let exhaustive = |claim: &&Claim| {
        claim.faults == Faults::BeforePublishing && claim.established == Established::Exhaustive
    };
    let claim = claims
        .iter()
        .find(exhaustive)
        .expect("five parties are exhausted");
    let (execution, victim) = worst_execution(&setting, claim, noise).expect("an execution");
    let view = View::of(&execution);
    let place = view
        .honest
        .iter()
        .position(|&party| party == victim)
        .expect("the victim is honest");
    let square =
        crate::losses::loss::squared_losses(&view, noise)[place] * setting.sensitivity[victim].powi(2);
    assert!(
        (square.sqrt() / claim.mu - 1.0).abs() < 1e-9,
        "{} {}",
        square.sqrt(),
        claim.mu
    );
}

#[test]
fn each_headline_claim_of_ppsc_is_attacked_in_its_own_worst_case() {
    let plan = plan(5, "[mechanism]\nkind = \"ppsc\"");
    let setting = Setting::of_plan(&plan).expect("a plan");
    let calibration = plan.calibration();
    let noise = Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    };
    let headline: Vec<&Claim> = calibration
        .claims
        .iter()
        .filter(|claim| claim.holds_as_headline)
        .collect();
    assert_eq!(headline.len(), 2);
    for claim in headline {
        let (execution, victim) = worst_execution(&setting, claim, noise).expect("an execution");
        let view = View::of(&execution);
        let place = view
            .honest
            .iter()
            .position(|&party| party == victim)
            .expect("the victim is honest");
        let mu = squared_losses(&view, noise)[place].sqrt() * setting.sensitivity[victim];
        assert!((mu / claim.mu - 1.0).abs() < 1e-6, "{claim:?}: {mu}");
    }
}
