use undertone_accountant::calibration::calibrate::calibrate;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;

use super::*;

fn plan(parties: usize, privacy: &str) -> Plan {
    plan_with(parties, privacy, "correlated = \"gaussian\"")
}

fn plan_with(parties: usize, privacy: &str, mechanism: &str) -> Plan {
    let rounds = if privacy.contains("static") {
        "\"auto\""
    } else {
        "4"
    };
    let text = format!(
        "name = \"t\"\n[data]\nshape = [3]\n[privacy]\n{privacy}\n[mechanism]\nrounds = {rounds}\n{mechanism}\n"
    );
    let draft = Draft::new(
        RunFile::parse(&text, parties).unwrap(),
        &Peers::simulated(parties, None).unwrap(),
        1,
    )
    .unwrap();
    let calibration = calibrate(&draft, &mut |_| {}).unwrap();
    Plan::assemble(draft, calibration, [7; 16]).unwrap()
}

fn loss(plan: &Plan, coalition: &[Party]) -> f64 {
    loss_against(plan, 0, &coalition.iter().copied().collect()).unwrap()
}

#[test]
fn a_larger_coalition_learns_no_less_and_all_others_learn_what_the_theorem_says() {
    let plan = plan(6, "");
    let claim = |faults: Faults, size: usize| {
        plan.calibration()
            .claims
            .iter()
            .find(|claim| claim.faults == faults && claim.size == size)
            .unwrap()
            .mu
    };
    // Any one colluder is within the plan's claims.
    let most = claim(Faults::Class, 1).max(claim(Faults::BeforePublishing, 5));
    for other in 1..6 {
        assert!(loss(&plan, &[other]) <= most * (1.0 + 1e-9));
    }
    let grown: Vec<f64> = (0..=5)
        .map(|size| loss(&plan, &(1..=size).collect::<Vec<_>>()))
        .collect();
    assert!(
        grown.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-9)),
        "{grown:?}"
    );
    let theorem = claim(Faults::Any, 5);
    assert!(
        grown[5] <= theorem * (1.0 + 1e-9) && grown[5] >= theorem * (1.0 - 1e-9),
        "{grown:?} {theorem}"
    );
    // What five seats of six may learn is far beyond a claim about one colluder: that is what the
    // list is for.
    assert!(grown[4] > 1.2 * claim(Faults::Class, 1), "{grown:?}");
}

#[test]
fn without_roll_back_and_beyond_what_is_feasible_it_is_never_below() {
    let small = plan(5, "dropouts = 0");
    assert!(loss(&small, &[1]) > 0.0 && loss(&small, &[1]) <= loss(&small, &[1, 2, 3, 4]));
    let large = plan(20, "");
    assert_eq!(
        loss(&large, &[1]),
        theorem(&large, 0),
        "twenty parties are too many to compute"
    );
}

#[test]
fn a_run_is_charged_with_the_larger_of_its_headline_claims() {
    let plan = plan(6, "");
    let headline = plan
        .calibration()
        .claims
        .iter()
        .filter(|claim| claim.holds_as_headline);
    let largest = headline.map(|claim| claim.mu).fold(0.0, f64::max);
    assert_eq!(charged_mu(&plan, 0), largest);
    let budget = gaussian::mu(1.0, 1e-6).unwrap();
    assert!(largest <= budget && largest > 0.9 * budget, "{largest} {budget}");
}

#[test]
fn where_start_draws_the_schedule_budgets_are_charged_by_what_the_draw_hides() {
    let plan = plan_with(8, "coalitions = \"static\"", "correlated = \"uniform\"");
    let budget = gaussian::mu(1.0, 1e-6).unwrap();
    let charged = charged_mu(&plan, 0);
    assert!(charged <= budget && charged > 0.99 * budget, "{charged} {budget}");
    assert_eq!(loss(&plan, &[1]), charged, "as many as may collude");
    assert_eq!(
        loss(&plan, &[1, 2]),
        theorem(&plan, 0),
        "more may part this party from the others"
    );
}

/// Sealed finals are no help against so many that these open them.
#[test]
fn a_coalition_that_may_open_what_is_sealed_learns_what_the_theorem_says() {
    let sealed = plan_with(8, "", "correlated = \"uniform\"");
    let open = plan_with(8, "", "correlated = \"uniform\"\n[run]\nsealed = false");
    for (plan, most) in [(&sealed, 2), (&open, 4)] {
        assert_eq!(loss(plan, &[1]), charged_mu(plan, 0));
        let bound = theorem(plan, 0);
        for size in 2..8 {
            let found = loss(plan, &(1..=size).collect::<Vec<_>>());
            assert_eq!(found < 0.9 * bound, size <= most, "{size}: {found} {bound}");
            assert!(
                found >= charged_mu(plan, 0) && found <= bound * (1.0 + 1e-9),
                "{found} {bound}"
            );
        }
    }
}
