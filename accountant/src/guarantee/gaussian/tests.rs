use std::collections::BTreeSet;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Basis as Ground, Claim, Established, Faults};
use undertone_protocol::topology::party::Party;

use crate::account::{inca, ppsc};
use crate::audit::Attack;
use crate::bounds::before_publishing::largest_theorem;
use crate::bounds::closed_form::{ConnectedClass, mean_depth};
use crate::calibration::error::CalibrateError;
use crate::class::faults;
use crate::class::setting::Setting;
use crate::gate::decision::{gate, withheld};
use crate::gate::verdict::{Audit, Basis};
use crate::guarantee::choice::calibrate;
use crate::guarantee::forecast::is_local;
use crate::losses::gaussian;
use crate::losses::loss::Noise;
use crate::testing::{draft, logs, plan, with_fault};
use crate::verify::check::verify;
use crate::verify::error::VerifyError;

/// Parties of which each coalition takes too long to compute.
const MANY: usize = 120;

const INCA: &str = "[mechanism]\nrounds = \"auto\"\n";
const PPSC: &str = "[mechanism]\nkind = \"ppsc\"\n";

fn noise(plan: &Plan) -> Noise {
    let calibration = plan.calibration();
    Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    }
}

fn headline(plan: &Plan) -> &Claim {
    let of_class = |claim: &&Claim| claim.faults == Faults::Class && claim.holds_as_headline;
    plan.calibration()
        .claims
        .iter()
        .find(of_class)
        .expect("a headline")
}

/// `account inca` or `ppsc` on an audit's execution is not above what the audit states.
fn assert_audit(plan: &Plan, audit: &Audit) {
    let json = serde_json::to_string(&audit.execution).expect("serialises");
    let Noise {
        independent_std,
        correlated_std,
    } = noise(plan);
    let mu = if plan.iterations().is_some() {
        let account = ppsc::account(&json, correlated_std, independent_std, 1.0, audit.delta);
        account.unwrap_or_else(|error| panic!("{error}")).mu
    } else {
        let account = inca::inca(&json, noise(plan), 1.0, audit.delta);
        account.unwrap_or_else(|error| panic!("{error}")).mu
    };
    assert!(mu <= audit.mu * (1.0 + 1e-12), "{mu} {}", audit.mu);
    assert!(audit.mu > 0.0 && audit.epsilon > 0.0);
}

fn changed(plan: &Plan, change: impl Fn(&mut Value)) -> Result<(), VerifyError> {
    let mut value: Value = serde_json::from_str(plan.to_json()).expect("a plan is JSON");
    change(&mut value);
    let changed = Plan::parse(value.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    verify(&changed)
}

/// Checks the claims of plans with too many coalitions to compute each: the closed form bounds
/// them.
#[test]
fn many_parties_have_the_claim_of_the_closed_form() {
    for (parties, lines) in [(MANY, INCA), (MANY, PPSC), (200, INCA)] {
        let plan = plan(parties, lines);
        let claim = headline(&plan);
        let basis = claim.connectivity.expect("its basis");
        assert_eq!(
            (claim.established, claim.basis),
            (Established::Theorem, Some(Ground::Connectivity))
        );
        assert_eq!(
            (basis.removed, basis.share_faults, basis.among),
            (2, 1, parties - 2)
        );
        assert!(
            basis.kappa >= 4 && (0.999..=1.0).contains(&claim.epsilon),
            "{claim:?}"
        );
        let predicted = &plan.calibration().predicted;
        let [plain, late, local] = [
            predicted.standard_error,
            predicted.standard_error_late_dropout.unwrap_or(f64::NAN),
            predicted.local,
        ]
        .map(|error| error / predicted.error_floor);
        println!(
            "{parties} {lines:?}: T = {}, {plain:.3} times the floor, {late:.3} late, {local:.3} local",
            plan.rounds(),
        );
        assert!(plain < 0.5 * local, "{parties} {lines:?}: {plain}");
        assert_eq!(verify(&plan), Ok(()), "{parties} {lines:?}");
    }
}

#[test]
fn what_a_theorem_does_not_say_is_refused() {
    for lines in [INCA, PPSC] {
        let plan = plan(MANY, lines);
        let own = if lines == PPSC {
            "pairwise_std"
        } else {
            "correlated_std"
        };
        for key in ["independent_std", own] {
            let less = changed(&plan, |value| {
                let std = &mut value["mechanism"][key];
                *std = json!(std.as_f64().expect("a number") * 0.99);
            });
            assert!(matches!(less, Err(VerifyError::Loss { .. })), "{key}: {less:?}");
        }
        // Who claims that it was computed, or that it withstands more, is refused.
        for (key, lie) in [
            ("established", json!("exhaustive")),
            (
                "connectivity",
                json!({"kappa": MANY - 1, "removed": 2, "share_faults": 1, "among": MANY - 2}),
            ),
            (
                "connectivity",
                json!({"kappa": 6, "removed": 2, "share_faults": 3, "among": MANY - 2}),
            ),
        ] {
            let reported = changed(&plan, |value| value["claims"][0][key] = lie.clone());
            assert!(
                matches!(reported, Err(VerifyError::Unknown { index: 0, .. })),
                "{key}: {reported:?}"
            );
        }
    }
}

#[test]
fn whatever_happens_within_a_connected_class_publishes() {
    for lines in [INCA, PPSC] {
        let plan = plan(MANY, &format!("[privacy]\ncolluding = 2\ndropouts = 2\n{lines}"));
        let setting = Setting::of_plan(&plan).expect("a plan");
        let claimed = headline(&plan).epsilon;
        let faults = faults::single_shares(&setting);
        let random = &mut ChaCha8Rng::seed_from_u64(9);
        for departed in [vec![], vec![0], vec![3, 17]] {
            let members: Vec<Party> = (0..MANY).filter(|party| !departed.contains(party)).collect();
            let whole = logs(&plan, &members);
            let gone = |party: &Party| departed.contains(party);
            let among: Vec<_> = faults
                .iter()
                .filter(|fault| !gone(&fault.from) && !gone(&fault.to))
                .collect();
            for _ in 0..20 {
                let verdict = gate(
                    &plan,
                    &with_fault(&whole, among[random.random_range(0..among.len())]),
                );
                assert_eq!(
                    verdict.publish,
                    Some(members.iter().copied().collect()),
                    "{}",
                    verdict.reason
                );
                assert!(
                    verdict.audit.epsilon <= claimed,
                    "{} {claimed}",
                    verdict.audit.epsilon
                );
            }
            let verdict = gate(&plan, &whole);
            assert_eq!(verdict.audit.basis, Basis::Connectivity);
            // Fewer are against everybody than the plan allows for.
            assert!(verdict.audit.epsilon < claimed);
            assert_audit(&plan, &verdict.audit);
        }
        assert_audit(&plan, &withheld(&plan, "no agreed set"));
    }
}

#[test]
fn beyond_the_class_what_happened_decides() {
    for lines in [INCA, PPSC] {
        let plan = plan(20, lines);
        // Nobody has got anything from party 3 or given it anything: alone, its noise is local.
        let everybody: Vec<Party> = (0..20).collect();
        let mut logs = logs(&plan, &everybody);
        for log in logs.values_mut() {
            log.received.retain(|entry| entry.from != 3);
        }
        logs.get_mut(&3).expect("a member").received.clear();
        let verdict = gate(&plan, &logs);
        let others: BTreeSet<Party> = (0..20).filter(|&party| party != 3).collect();
        assert_eq!(verdict.publish, Some(others), "{}", verdict.reason);
        assert!(verdict.reason.contains("party-3"), "{}", verdict.reason);
        assert_eq!(verdict.audit.departed, BTreeSet::from([3]));
        assert_audit(&plan, &verdict.audit);
        // Without most shares of the schedule nobody's value is hidden.
        for log in logs.values_mut() {
            log.received.retain(|entry| entry.round == 1);
        }
        let verdict = gate(&plan, &logs);
        assert_eq!(verdict.publish, None, "{:?}", verdict.audit.basis);
    }
}

#[test]
fn too_thin_graphs_and_too_few_rounds_have_local_noise_or_say_what_would_do() {
    // 2 rounds are 4 exchanges with others at most: not enough against 3 and 1.
    let few = "[privacy]\ncolluding = 3\n[mechanism]\nrounds = 2\n";
    assert!(is_local(&plan(20, few)));
    let few = few.replace("rounds = 2", "rounds = 3\nkind = \"ppsc\"");
    let refused = calibrate(&draft(20, &few), &mut |_| {}).expect_err("too few exchanges");
    let CalibrateError::Separated {
        least: Some(least), ..
    } = refused
    else {
        panic!("{refused}")
    };
    assert!(refused.to_string().contains("local_noise_ok = true"), "{refused}");
    let enough = few.replace("rounds = 3", &format!("rounds = {least}"));
    assert!(!is_local(&plan(20, &enough)), "{least}");
    let local = plan(
        20,
        &few.replace("rounds = 3", "rounds = 3\nlocal_noise_ok = true"),
    );
    assert!(is_local(&local));
    assert_eq!(verify(&local), Ok(()));
    let verdict = gate(&local, &logs(&local, &(0..20).collect::<Vec<_>>()));
    assert_eq!(verdict.publish, Some((0..20).collect()), "{}", verdict.reason);
}

#[test]
fn an_attack_on_a_connected_class_stays_below_the_claim() {
    let plan = plan(MANY, PPSC);
    let attack = Attack::of(&plan, 1).unwrap_or_else(|error| panic!("{error}"));
    let reported = |scale: f64| {
        let attacked = attack.run(20_000, scale, 1, &mut |_, _| {});
        attacked.unwrap_or_else(|error| panic!("{error}")).epsilon_lower
    };
    let claimed = plan.epsilon_claimed().expect("claimed");
    let (lower, quiet) = (reported(1.0), reported(0.3));
    assert!(
        lower > 0.05 && lower <= claimed && quiet > claimed,
        "{lower} {quiet} {claimed}"
    );
}

/// The claim of a plan, by hand from κ of its schedule: Theorem C and the closed form of costs.
#[test]
fn the_claim_is_theorem_c_by_hand() {
    let weighted = "weights = { party-0 = 2.0 }\n[privacy]\ncolluding = 2\ndropouts = 1\n";
    for (lines, sensitivity) in [
        (INCA.to_owned(), 2.0),
        (PPSC.to_owned(), 2.0),
        (format!("{weighted}{INCA}"), 4.0),
    ] {
        let plan = plan(MANY, &lines);
        let claim = headline(&plan);
        let basis = claim.connectivity.expect("its basis");
        let noise = noise(&plan);
        let ratio = (noise.correlated_std / noise.independent_std).powi(2);
        let rounds = f64::from(plan.rounds());
        let setting = Setting::of_plan(&plan).expect("a plan");
        let most = (0..MANY)
            .map(|party| setting.hand_outs(party))
            .max()
            .expect("parties") as f64;
        // Of all coalitions that large the one that is bounded best: a larger one learns no less.
        let against = |removed: usize| {
            let (m, ways) = (
                (MANY - removed) as f64,
                basis.kappa - basis.share_faults - removed,
            );
            // Layers of `ways` parties around one, the last with what is left.
            let depth = (1..MANY - removed).map(|it| it.div_ceil(ways)).sum::<usize>() as f64 / m;
            assert!((depth - mean_depth(MANY - removed, ways)).abs() < 1e-12);
            let cost = match lines == PPSC {
                true => most * (1.0 + depth),
                false => 3.0 * (4.0 * depth + rounds * (depth + 1.0) + rounds),
            };
            1.0 / m + 1.0 / (m / (m - 1.0) + ratio / cost)
        };
        let square = (basis.removed..basis.kappa - basis.share_faults)
            .map(against)
            .fold(1.0, f64::min);
        let mu = sensitivity / noise.independent_std * square.sqrt();
        assert!((claim.mu / mu - 1.0).abs() < 1e-11, "{lines}: {} {mu}", claim.mu);
        assert!(claim.mu >= mu);
        // All of the budget but what calibration leaves.
        let budget = gaussian::mu(1.0, 1e-6).expect("in range");
        assert!(
            (claim.mu / (budget * (1.0 - 1e-6f64).sqrt()) - 1.0).abs() < 1e-9,
            "{lines}"
        );
    }
}

/// Checks that the ratio of noises can be found without the bound before publishing: at no ratio it
/// decides.
#[test]
fn what_leaves_before_publishing_costs_less_than_the_closed_form_says() {
    for lines in [
        INCA,
        PPSC,
        "weights = { party-3 = 5.0 }\n[mechanism]\nrounds = 3\n",
    ] {
        let plan = plan(MANY, lines);
        let setting = Setting::of_plan(&plan).expect("a plan");
        let class = ConnectedClass::of(&setting).expect("a theorem speaks of it");
        let largest = setting.largest_sensitivity().powi(2);
        for exponent in -12..=24 {
            let ratio = libm::pow(10.0, f64::from(exponent) / 2.0);
            let (before, of_class) = (
                largest_theorem(&setting, ratio),
                class.square(&setting, ratio) * largest,
            );
            let before = before.expect("in range");
            assert!(
                before <= of_class && before > 0.0,
                "{lines} {ratio}: {before} {of_class}"
            );
        }
    }
}

/// Above a number of parties the error that a missing final leaves is not computed: such a plan is
/// refused.
#[test]
fn noise_whose_late_error_is_not_computed_is_refused() {
    let refused = calibrate(&draft(600, INCA), &mut |_| {}).map(|it| it.rounds);
    let Err(refused @ CalibrateError::Late { parties: 600, .. }) = refused else {
        panic!("nobody knows what is left: {refused:?}")
    };
    assert!(
        refused.to_string().contains("leave out mechanism.correlated"),
        "{refused}"
    );
}
