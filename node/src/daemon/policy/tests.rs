use undertone_accountant::calibrate;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;

use super::*;
use crate::daemon::config::NodeArgs;
use crate::party::identity::Identity;

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
        &Peers::simulated(parties).unwrap(),
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
    let twenty = plan(20, "");
    assert!(loss(&twenty, &[1]) < 0.5 * theorem(&twenty, 0));
    let large = plan(120, "dropouts = 3");
    assert_eq!(
        loss(&large, &[1]),
        theorem(&large, 0),
        "any three of so many are too many to compute"
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

/// The configuration of a node whose peer list has the plan's members, at these places.
fn knowing(plan: &Plan, places: impl Fn(usize, &str) -> (String, String)) -> (tempfile::TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    let me = Identity::generate(
        "zoe".into(),
        Some("/ip4/127.0.0.1/tcp/1".into()),
        Some("/ip4/127.0.0.1/tcp/2".into()),
    );
    me.create(&folder.path().join("zoe.key")).unwrap();
    let mut peers = format!("version = 1\n{}", me.peer_lines());
    for (party, member) in plan.draft().members.iter().enumerate() {
        let (private, public) = places(party, member.contact.at[0].as_str());
        peers += &format!(
            "[[peer]]\nname = {:?}\nid = \"{}\"\nprivate = {private:?}\npublic = {public:?}\n",
            member.name, member.id
        );
    }
    std::fs::write(folder.path().join("peers.toml"), peers).unwrap();
    std::fs::write(folder.path().join("node.toml"), "identity = \"zoe.key\"\n").unwrap();
    let arguments = NodeArgs {
        config: Some(folder.path().join("node.toml")),
        ..NodeArgs::default()
    };
    let config = Config::from_parts(&arguments, std::iter::empty()).unwrap();
    (folder, config)
}

#[test]
fn a_loss_is_within_the_policy_up_to_the_very_epsilon_that_it_allows() {
    let plan = plan(5, "");
    let (_folder, mut config) = knowing(&plan, |party, _| {
        let member = &plan.draft().members[party];
        let public = member.contact.public.as_ref().expect("one");
        (member.contact.at[0].to_string(), public.to_string())
    });
    let mu = 0.2;
    let epsilon = gaussian::epsilon(plan.draft().privacy.delta, mu).unwrap();
    let mut allowed = |most: Option<f64>| {
        config.policy.max_epsilon = most;
        within(&config, &plan, mu, "now", "policy.vouched").map_err(|refusal| refusal.kind)
    };
    assert_eq!(allowed(None), Err(Kind::Policy), "nothing is allowed");
    assert_eq!(allowed(Some(epsilon)), Ok(()));
    assert_eq!(allowed(Some(epsilon.next_up())), Ok(()));
    assert_eq!(allowed(Some(epsilon.next_down())), Err(Kind::Policy));
    config.policy.max_epsilon = Some(1e9);
    assert!(
        within(&config, &plan, f64::INFINITY, "now", "policy.vouched").is_err(),
        "without a bound"
    );
}

/// Without a list of who is vouched for only Δ/σ* counts; with one, what those not on it learn.
#[test]
fn who_is_vouched_for_decides_what_a_plan_costs() {
    let plan = plan(6, "");
    let places = |party: usize, _: &str| {
        let member = &plan.draft().members[party];
        let public = member.contact.public.as_ref().expect("one");
        (member.contact.at[0].to_string(), public.to_string())
    };
    let (_folder, mut config) = knowing(&plan, places);
    let of = |parties: &[Party]| {
        let members = &plan.draft().members;
        parties
            .iter()
            .map(|&party| members[party].id)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(not_vouched_for(&plan, 0, &of(&[1, 2, 3])), BTreeSet::from([4, 5]));
    assert_eq!(
        not_vouched_for(&plan, 2, &of(&[2])),
        BTreeSet::from([0, 1, 3, 4, 5]),
        "never oneself"
    );
    // Between what one colluder learns and what all others do.
    let (one, all) = (loss(&plan, &[1]), theorem(&plan, 0));
    let epsilon = |mu: f64| gaussian::epsilon(plan.draft().privacy.delta, mu).unwrap();
    config.policy.max_epsilon = Some((epsilon(one) + epsilon(all)) / 2.0);
    assert!(check(&config, &plan, 0).is_ok(), "its claims are within");
    assert!(
        check_unasked(&config, &plan, 0).is_err(),
        "unasked, all others collude"
    );
    config.vouched = Some(of(&[2, 3, 4, 5]));
    assert!(check(&config, &plan, 0).is_ok() && check_unasked(&config, &plan, 0).is_ok());
    config.vouched = Some(BTreeSet::new());
    let refusal = check(&config, &plan, 0).expect_err("all others are strangers");
    assert_eq!(refusal.field.as_deref(), Some("policy.vouched"));
    assert!(
        check_unasked(&config, &plan, 0).is_ok(),
        "`check` has looked at them"
    );
}

/// Checks that a loss that was only searched for is no guarantee. Without another headline the loss
/// of local noise is charged.
#[test]
fn what_was_only_searched_for_is_not_charged() {
    let honest = plan(6, "");
    let (claimed, bound) = (charged_mu(&honest, 0), theorem(&honest, 0));
    assert!(claimed < 0.6 * bound, "{claimed} {bound}");
    for searched in [Faults::Class, Faults::BeforePublishing] {
        let mut calibration = honest.calibration().clone();
        let claims = calibration.claims.iter_mut();
        let mut of_it = claims.filter(|claim| claim.holds_as_headline && claim.faults == searched);
        of_it.next().expect("a headline").established = Established::Searched;
        let plan = Plan::assemble(honest.draft().clone(), calibration, [7; 16]).expect("a plan");
        assert_eq!(charged_mu(&plan, 0), theorem(&plan, 0), "{searched:?}");
        assert!((charge(&plan, 0).mu() / bound - 1.0).abs() < 1e-9);
    }
}

/// The draw counts as often as it may be tried; sampling by the distance that each claim's part of
/// δ stands for.
#[test]
fn a_charge_has_the_draws_and_the_sampling_of_its_plan() {
    let drawn = plan_with(8, "coalitions = \"static\"", "correlated = \"uniform\"");
    let gaussian = plan(6, "");
    for (plan, tries) in [(&drawn, 3.0), (&gaussian, 0.0)] {
        let found = charge(plan, 0);
        let claims = &plan.calibration().claims;
        let chance = claims[0].draw.map_or(0.0, |draw| draw.chance);
        assert!(found.draw >= tries * chance && found.draw <= tries * chance * (1.0 + 1e-12));
        assert!(
            tries == 0.0 || found.draw > 1e-12 && found.draw <= 1e-9,
            "{found:?}"
        );
        for claim in claims {
            let stated = claim.sampling_delta / (1.0 + claim.epsilon.exp());
            assert!(
                stated > 0.0 && (found.distance / stated - 1.0).abs() < 1e-12,
                "{claim:?}"
            );
        }
    }
}
