//! Whole plans of PPSC: calibrated, verified, gated.

use std::collections::BTreeSet;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use undertone_protocol::messages::log::{AgreedLogs, ReceivedEntry};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Changes, Claim, Established, Faults};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::multi_gossip::MultiGossip;
use undertone_protocol::topology::party::Party;

use crate::account::ppsc::{PpscAccount, account};
use crate::audit::Attack;
use crate::bounds::before_publishing::{BeforePublishing, bound};
use crate::bounds::coverage::{self, Shortfall};
use crate::calibration::calibrate::calibrate;
use crate::calibration::error::CalibrateError;
use crate::calibration::outlook::is_local;
use crate::calibration::utility::realised;
use crate::class::setting::Setting;
use crate::class::worst::Class;
use crate::class::{coalitions, faults};
use crate::execution::share::{Fate, ShareFault};
use crate::gate::decision::{gate, withheld};
use crate::gate::verdict::{Audit, Basis};
use crate::losses::gaussian;
use crate::losses::loss::{Noise, squared_losses};
use crate::losses::view::View;
use crate::mechanism::chosen::Mechanism;
use crate::testing::{OWN_DRAWS, draft, logs, plan};
use crate::verify::check::verify;
use crate::verify::error::VerifyError;

/// ERRATA's components of four, three and three parties, as dense as they can be.
const COMPONENTS: &str = r#"edges = [["party-0","party-1"],["party-0","party-2"],["party-0","party-3"],["party-1","party-2"],
["party-1","party-3"],["party-2","party-3"],["party-4","party-5"],["party-5","party-6"],["party-4","party-6"],["party-7","party-8"],
["party-8","party-9"],["party-7","party-9"]]"#;

fn in_components(privacy: &str, mechanism: &str) -> String {
    format!(
        "[privacy]\n{privacy}\n[mechanism]\nkind = \"ppsc\"\n{mechanism}\n[topology]\nprivate = {{ kind = \"edges\", {} }}",
        COMPONENTS.replace('\n', " ")
    )
}

const COMPLETE: &str = "[mechanism]\nkind = \"ppsc\"";

fn noise(plan: &Plan) -> Noise {
    let calibration = plan.calibration();
    Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    }
}

fn claim(plan: &Plan, faults: Faults, established: Established, adversary: Adversary) -> &Claim {
    let found = |claim: &&Claim| {
        (claim.faults, claim.established, claim.adversary) == (faults, established, adversary)
    };
    plan.calibration()
        .claims
        .iter()
        .find(found)
        .expect("there is such a claim")
}

/// `account ppsc` on an audit's execution, written to JSON and read again, as anyone can.
fn accounted(plan: &Plan, audit: &Audit) -> PpscAccount {
    let json = serde_json::to_string(&audit.execution).expect("serialises");
    let Noise {
        independent_std,
        correlated_std,
    } = noise(plan);
    account(&json, correlated_std, independent_std, 1.0, audit.delta)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn assert_audit(plan: &Plan, audit: &Audit) {
    let mu = accounted(plan, audit).mu;
    match audit.basis {
        Basis::Computed => assert!((mu / audit.mu - 1.0).abs() < 1e-12, "{mu} {}", audit.mu),
        _ => assert!(mu <= audit.mu * (1.0 + 1e-12), "{mu} {}", audit.mu),
    }
    assert!(audit.mu > 0.0 && audit.epsilon > 0.0);
}

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
    assert_eq!(
        coverage::smallest_component(&plan.draft().private_graph, 1),
        Some(2)
    );
    assert_eq!(
        coverage::smallest_component(&plan.draft().private_graph, 0),
        Some(3)
    );
    // Who forgets the colluder inside and takes m = 3 promises ε = 0.1 and gives 0.124.
    let setting = Setting::of_plan(&plan).expect("a plan");
    let class = Class::of(&setting).expect("executions").expect("few");
    let square = class.worst(1e6).expect("a run").square;
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
    assert_eq!(verify(&plan, OWN_DRAWS), Ok(()));
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
    assert!(
        matches!(&refused, CalibrateError::Local { party, neighbours, .. } if party == "party-0" && neighbours[0] == "party-1")
    );
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
        Established::Exact,
        Adversary::Coalition,
    );
    assert!(before.holds_as_headline && before.epsilon <= 1.0);
    assert_eq!(
        coverage::check(&plan.draft().private_graph, plan.schedule(), 2),
        Ok(())
    );
    assert_eq!(verify(&plan, OWN_DRAWS), Ok(()));
}

#[test]
fn a_schedule_that_falls_short_is_extended_or_refused() {
    let fixed = |rounds: usize| draft(6, &format!("{COMPLETE}\nrounds = {rounds}"));
    let refused = calibrate(&fixed(2), &mut |_| {}).expect_err("six parties do not meet in two rounds");
    let CalibrateError::Short {
        rounds: 2,
        enough: Some(enough),
        ..
    } = refused
    else {
        panic!("{refused}")
    };
    assert!(
        refused.to_string().contains(&format!("at least {enough}")),
        "{refused}"
    );
    assert!(matches!(
        calibrate(&fixed(enough - 1), &mut |_| {}),
        Err(CalibrateError::Short { .. })
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
fn coverage_is_that_of_the_exchanges() {
    let path = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)]).expect("a graph");
    let long = |iterations| {
        MultiGossip::draw(&path, iterations, 1)
            .expect("neighbours")
            .schedule()
    };
    let apart = coverage::check(&path, &long(1), 0);
    assert!(matches!(apart, Err(Shortfall::Apart { .. })), "{apart:?}");
    // All edges once: joined, unless an exchange comes back.
    let enough = (1..200)
        .find(|&iterations| coverage::check(&path, &long(iterations), 0).is_ok())
        .expect("some day");
    let joined = (1..200).find(|&iterations| {
        !matches!(
            coverage::check(&path, &long(iterations), 0),
            Err(Shortfall::Apart { .. })
        )
    });
    assert!(joined.expect("some day") < enough);
    let once = coverage::check(&path, &long(joined.expect("some day")), 0);
    assert!(
        matches!(&once, Err(Shortfall::Exposed { fault: true, coalition, .. }) if coalition.is_empty()),
        "{once:?}"
    );
    // Without party 1 the rest of a path is two parts, in the graph as in the exchanges.
    assert_eq!(coverage::check(&path, &long(enough), 1), Ok(()));
    assert_eq!(coverage::smallest_component(&path, 1), Some(1));
    assert_eq!(coverage::smallest_component(&Graph::complete(7), 2), Some(5));
    assert_eq!(coverage::smallest_component(&Graph::complete(7), 7), None);
}

#[test]
fn whatever_happens_within_the_class_the_rest_publishes() {
    let plan = plan(6, COMPLETE);
    let setting = Setting::of_plan(&plan).expect("a plan");
    let claimed = plan.epsilon_claimed().expect("claimed");
    for departed in 0..6 {
        let members: Vec<Party> = (0..6).filter(|&party| party != departed).collect();
        let whole = logs(&plan, &members);
        for fault in faults::single_shares(&setting)
            .into_iter()
            .filter(|fault| fault.from != departed && fault.to != departed)
        {
            let logs = with_fault(&whole, &fault);
            let verdict = gate(&plan, &logs);
            assert_eq!(
                verdict.publish,
                Some(members.iter().copied().collect()),
                "{departed} {fault:?} {}",
                verdict.reason
            );
            assert!(verdict.audit.epsilon <= claimed && verdict.audit.same_sum_mu.is_none());
            assert_eq!(verdict.audit.departed, BTreeSet::from([departed]));
        }
        let verdict = gate(&plan, &whole);
        assert_audit(&plan, &verdict.audit);
        let publish = verdict.publish.expect("within the class");
        let result = realised(&plan, &whole, &publish, &publish).expect("logs of the schedule");
        assert!(
            result.usable && (result.total_weight - 5.0).abs() < 1e-12 && result.lost_weight.abs() < 1e-12
        );
        assert!(
            (result.standard_error / (plan.calibration().independent_std / 5f64.sqrt()) - 1.0).abs() < 1e-12
        );
    }
    assert_audit(&plan, &gate(&plan, &logs(&plan, &[0, 1, 2, 3, 4, 5])).audit);
    assert_audit(&plan, &withheld(&plan, "no agreed set"));
}

/// What the logs say if this share fared so.
fn with_fault(logs: &AgreedLogs, fault: &ShareFault) -> AgreedLogs {
    let mut logs = logs.clone();
    let applied = fault.applied.expect("given");
    let received = &mut logs.get_mut(&fault.to).expect("a member").received;
    let place = received
        .iter()
        .position(|entry| (entry.round, entry.from) == (fault.round, fault.from))
        .expect("due");
    match fault.fate {
        Fate::Accepted => {
            received[place] = ReceivedEntry {
                applied,
                ..received[place]
            }
        }
        _ => drop(received.remove(place)),
    }
    if fault.fate == Fate::Returned && applied == fault.round {
        let sent = &mut logs.get_mut(&fault.from).expect("a member").sent;
        sent.iter_mut()
            .find(|entry| entry.round == fault.round)
            .expect("sent")
            .left = false;
    }
    logs
}

#[test]
fn a_member_that_was_cut_off_is_left_out_or_nobody_publishes() {
    let plan = plan(6, COMPLETE);
    let mut logs = logs(&plan, &[0, 1, 2, 3, 4, 5]);
    for log in logs.values_mut() {
        log.received.retain(|entry| entry.from != 2);
    }
    logs.get_mut(&2).expect("a member").received.clear();
    let verdict = gate(&plan, &logs);
    assert_eq!(
        verdict.publish,
        Some(BTreeSet::from([0, 1, 3, 4, 5])),
        "{}",
        verdict.reason
    );
    assert!(verdict.reason.contains("party-2"), "{}", verdict.reason);
    assert_audit(&plan, &verdict.audit);
}

#[test]
fn a_missing_final_is_in_the_result_as_it_was_predicted() {
    let plan = plan(6, COMPLETE);
    let logs = logs(&plan, &[0, 1, 2, 3, 4, 5]);
    let publish: BTreeSet<Party> = (0..6).collect();
    let mut squares = 0.0;
    let mut usable = 0;
    for missing in 0..6 {
        let included: BTreeSet<Party> = (0..6).filter(|&party| party != missing).collect();
        let result = realised(&plan, &logs, &publish, &included).expect("logs of the schedule");
        assert!((result.total_weight + result.lost_weight - 6.0).abs() < 1e-9);
        squares += result.standard_error.powi(2) / 6.0;
        usable += usize::from(result.total_weight >= 2.5);
        if result.total_weight != 0.0 {
            assert!(
                (result.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9,
                "{:?}",
                result.weights
            );
        }
    }
    assert!(usable >= 5, "at most one holds most of the weight");
    match plan.calibration().predicted.standard_error_late_dropout {
        Some(predicted) => assert!((squares.sqrt() / predicted - 1.0).abs() < 1e-9),
        None => assert_eq!(usable, 5),
    }
}

#[test]
fn before_publishing_the_bound_holds_and_is_reached() {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let mut reached = 0.0f64;
    for case in 0..60u64 {
        let parties = random.random_range(3..=6);
        let gossip = MultiGossip::fitting(&Graph::complete(parties), random.random_range(2..=8), case)
            .expect("neighbours");
        let setting = Setting {
            mechanism: Mechanism::Ppsc,
            out: gossip.schedule().out().to_vec(),
            sensitivity: (0..parties).map(|_| random.random_range(0.5..2.0)).collect(),
            weights: vec![1.0; parties],
            colluding: random.random_range(1..parties),
            dropouts: 0,
            rollback: true,
        };
        let base = setting.fault_free().expect("a schedule");
        let noise = Noise {
            independent_std: random.random_range(0.0..2.0),
            correlated_std: random.random_range(0.5..4.0),
        };
        let before = BeforePublishing::of(&setting)
            .expect("executions")
            .expect("a closed form");
        let mut worst = 0.0f64;
        for coalition in coalitions::all(parties, setting.colluding) {
            for party in (0..parties).filter(|party| !coalition.contains(party)) {
                let view = View::of(&faults::cut_off(&base, party, &coalition).expect("an execution"));
                let place = view
                    .honest
                    .iter()
                    .position(|&other| other == party)
                    .expect("honest");
                worst = worst.max(squared_losses(&view, noise)[place].sqrt() * setting.sensitivity[party]);
            }
            // Anything may happen to shares, at any time, as long as no final is out.
            let shares: Vec<ShareFault> = faults::shares(&setting)
                .filter_map(|(round, from, to)| {
                    let applied = Some(random.random_range(round..=setting.rounds() as u32));
                    let fate = [Fate::Accepted, Fate::Returned, Fate::Lost][random.random_range(0..3)];
                    random.random_bool(0.6).then(|| ShareFault {
                        round,
                        from,
                        to,
                        fate,
                        applied,
                        seen: random.random_bool(0.7),
                    })
                })
                .collect();
            let view = base
                .clone()
                .with_shares(shares)
                .and_then(|run| run.with_corrupted(coalition))
                .and_then(|run| run.with_published([]));
            let view = View::of(&view.expect("an execution"));
            for (&party, square) in view.honest.iter().zip(squared_losses(&view, noise)) {
                let most = bound(&setting, party, noise).expect("a closed form");
                let mu = square.sqrt() * setting.sensitivity[party];
                assert!(
                    mu <= most * (1.0 + 1e-9),
                    "case {case}, party {party}: {mu} {most}"
                );
                reached = reached.max(if most > 0.0 { mu / most } else { 0.0 });
            }
        }
        let closed = before.worst_loss(&setting, noise);
        assert!(
            (closed - worst).abs() <= 1e-9 * worst,
            "case {case}: {closed} {worst}"
        );
    }
    assert!(reached > 0.99, "else this tests nothing: {reached}");
}

fn changed(plan: &Plan, change: impl Fn(&mut Value)) -> Result<(), VerifyError> {
    let mut value: Value = serde_json::from_str(plan.to_json()).expect("a plan is JSON");
    change(&mut value);
    verify(
        &Plan::parse(value.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}")),
        OWN_DRAWS,
    )
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
fn without_independent_noise_there_is_no_headline() {
    let lines = in_components(
        "epsilon = 1.0\ncolluding = 1\ndropouts = 0",
        "independent_noise = \"none\"\naccept_exact_sum = true",
    );
    let plan = plan(10, &lines);
    assert_eq!(plan.epsilon_claimed(), None);
    assert!(
        plan.calibration()
            .claims
            .iter()
            .all(|claim| claim.changes == Some(Changes::SameSum))
    );
    let worst = claim(
        &plan,
        Faults::Class,
        Established::Exhaustive,
        Adversary::Coalition,
    );
    let most = plan
        .calibration()
        .claims
        .iter()
        .map(|claim| claim.epsilon)
        .fold(0.0, f64::max);
    assert!(worst.epsilon <= 1.0 && most >= 0.999, "{} {most}", worst.epsilon);
    assert_eq!(
        plan.calibration().predicted.standard_error,
        0.0,
        "the mean is exact"
    );
    assert_eq!(verify(&plan, OWN_DRAWS), Ok(()));
    let less = changed(&plan, |value| {
        let std = &mut value["mechanism"]["pairwise_std"];
        *std = json!(std.as_f64().expect("a number") * 0.99);
    });
    assert!(matches!(less, Err(VerifyError::Loss { .. })), "{less:?}");
    let headline = changed(&plan, |value| {
        value["claims"][0]["holds_as_headline"] = json!(true)
    });
    assert!(
        matches!(headline, Err(VerifyError::Unknown { index: 0, .. })),
        "{headline:?}"
    );
    let none = changed(&plan, |value| {
        value["claims"].as_array_mut().expect("a list").clear()
    });
    assert!(matches!(none, Err(VerifyError::Missing { .. })), "{none:?}");
    let verdict = gate(&plan, &logs(&plan, &(0..10).collect::<Vec<_>>()));
    assert_eq!(verdict.publish, Some((0..10).collect()), "{}", verdict.reason);
    let audit = &verdict.audit;
    assert!(audit.mu.is_infinite() && audit.epsilon.is_infinite());
    let found = accounted(&plan, audit);
    let same_sum_mu = audit.same_sum_mu.expect("stated");
    assert!(
        found.mu.is_infinite() && (found.same_sum_mu / same_sum_mu - 1.0).abs() < 1e-9,
        "{found:?} {same_sum_mu}"
    );
    assert!(same_sum_mu <= worst.mu);
    let audit = withheld(&plan, "no agreed set");
    assert!(
        audit.mu.is_finite() && accounted(&plan, &audit).mu <= audit.mu * (1.0 + 1e-12),
        "no sum is out"
    );
}

#[test]
fn without_independent_noise_the_departed_are_bounded_too() {
    let lines = "[privacy]\ncolluding = 1\ndropouts = 1\n[mechanism]\nkind = \"ppsc\"\nindependent_noise = \"none\"\naccept_exact_sum = true";
    let plan = plan(6, lines);
    for departed in [0, 3] {
        let members: Vec<Party> = (0..6).filter(|&party| party != departed).collect();
        let verdict = gate(&plan, &logs(&plan, &members));
        assert_eq!(
            verdict.publish,
            Some(members.into_iter().collect()),
            "{}",
            verdict.reason
        );
        let same_sum_mu = verdict.audit.same_sum_mu.expect("stated");
        let found = accounted(&plan, &verdict.audit);
        assert!(
            found.same_sum_mu <= same_sum_mu * (1.0 + 1e-9) || verdict.audit.basis == Basis::Computed,
            "{found:?}"
        );
    }
}

#[test]
fn an_attack_on_what_is_sent_stays_below_the_claim() {
    let plan = plan(4, COMPLETE);
    let attack = Attack::of(&plan).unwrap_or_else(|error| panic!("{error}"));
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

/// Coalitions of three of sixty-four, or of four of forty: too many to compute them all.
fn beyond_computing(more: &str) -> Draft {
    draft(
        64,
        &format!("[privacy]\ncolluding = 2\ndropouts = 1\n[mechanism]\nkind = \"ppsc\"\n{more}"),
    )
}

fn beyond_computing_but_for_what_settled() -> Draft {
    draft(
        40,
        "[privacy]\ncolluding = 1\ndropouts = 3\n[mechanism]\nkind = \"ppsc\"",
    )
}

fn assembled(draft: Draft) -> Plan {
    let calibration = calibrate(&draft, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    Plan::assemble(draft, calibration, [7; 16]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn with_too_many_coalitions_a_theorem_says_that_the_noise_is_shared() {
    let plan = assembled(beyond_computing(""));
    let setting = Setting::of_plan(&plan).expect("a plan");
    assert!(!coalitions::feasible(&setting));
    let theorem = claim(&plan, Faults::Class, Established::Theorem, Adversary::Coalition);
    assert!(
        theorem.holds_as_headline && theorem.size == 2 && (0.999..=1.0).contains(&theorem.epsilon),
        "{}",
        theorem.epsilon
    );
    assert!(!is_local(&plan));
    // m = 61 of 64 are left: a fourth of local noise, and not below the least there can be.
    let least = 2.0 / (gaussian::mu(1.0, 1e-6).expect("in range") * 61f64.sqrt());
    let times = plan.calibration().independent_std / least;
    println!(
        "T = {}, σ* is {times:.3} times the least, σ_γ = {:.1} σ*",
        plan.rounds(),
        noise(&plan).correlated_std / noise(&plan).independent_std
    );
    assert!((1.0..2.0).contains(&times), "{times}");
    assert!(plan.calibration().predicted.standard_error < plan.calibration().predicted.local * 0.25);
    assert_eq!(verify(&plan, OWN_DRAWS), Ok(()));
    for key in ["independent_std", "pairwise_std"] {
        let less = changed(&plan, |value| {
            let std = &mut value["mechanism"][key];
            *std = json!(std.as_f64().expect("a number") * 0.99);
        });
        assert!(matches!(less, Err(VerifyError::Loss { .. })), "{key}: {less:?}");
    }
    // Who claims that it was computed is refused: nobody can.
    let other = changed(&plan, |value| {
        value["claims"][0]["established"] = json!("exhaustive")
    });
    assert!(
        matches!(other, Err(VerifyError::Unknown { index: 0, .. })),
        "{other:?}"
    );
}

#[test]
fn what_happens_within_a_bounded_class_publishes() {
    for (draft, basis) in [
        (beyond_computing_but_for_what_settled(), Basis::Computed),
        (beyond_computing(""), Basis::Spreading),
    ] {
        let plan = assembled(draft);
        let parties = plan.parties();
        let setting = Setting::of_plan(&plan).expect("a plan");
        let claimed = plan.epsilon_claimed().expect("claimed");
        let faults = faults::single_shares(&setting);
        let mut random = ChaCha8Rng::seed_from_u64(9);
        for departed in [None, Some(0), Some(29)] {
            let members: Vec<Party> = (0..parties).filter(|&party| Some(party) != departed).collect();
            let whole = logs(&plan, &members);
            let among: Vec<&ShareFault> = faults
                .iter()
                .filter(|fault| departed != Some(fault.from) && departed != Some(fault.to))
                .collect();
            for fault in (0..2).map(|_| among[random.random_range(0..among.len())]) {
                let verdict = gate(&plan, &with_fault(&whole, fault));
                assert_eq!(
                    verdict.publish,
                    Some(members.iter().copied().collect()),
                    "{departed:?} {fault:?} {}",
                    verdict.reason
                );
                assert!(
                    verdict.audit.epsilon <= claimed,
                    "{} {claimed}",
                    verdict.audit.epsilon
                );
                assert!(
                    verdict.audit.basis == basis || departed.is_some(),
                    "{:?}",
                    verdict.audit.basis
                );
            }
            let verdict = gate(&plan, &whole);
            // Fewer are against everybody than the plan allows for, but a departed party's own loss
            // is what is bounded before publishing.
            assert!(
                verdict.audit.epsilon < claimed * 0.99 || departed.is_some(),
                "{} {claimed}",
                verdict.audit.epsilon
            );
            assert_audit(&plan, &verdict.audit);
        }
        assert_audit(&plan, &withheld(&plan, "no agreed set"));
    }
}

#[test]
fn beyond_the_class_a_bounded_run_is_judged_by_what_happened() {
    let plan = assembled(beyond_computing(""));
    let everybody: Vec<Party> = (0..64).collect();
    // Nobody has got anything from party 3 or given it anything: alone, its noise is local.
    let mut logs = logs(&plan, &everybody);
    for log in logs.values_mut() {
        log.received.retain(|entry| entry.from != 3);
    }
    logs.get_mut(&3).expect("a member").received.clear();
    let verdict = gate(&plan, &logs);
    assert_eq!(
        verdict.publish,
        Some((0..64).filter(|&party| party != 3).collect()),
        "{}",
        verdict.reason
    );
    assert!(verdict.reason.contains("party-3"), "{}", verdict.reason);
    assert_audit(&plan, &verdict.audit);
    assert_eq!(verdict.audit.departed, BTreeSet::from([3]));
    // Two faults of shares among the others are none that the plan speaks of; what happened is
    // bounded by itself.
    let setting = Setting::of_plan(&plan).expect("a plan");
    let faults = faults::single_shares(&setting);
    let twice = with_fault(
        &with_fault(&self::logs(&plan, &everybody), &faults[0]),
        &faults[faults.len() / 2],
    );
    let verdict = gate(&plan, &twice);
    assert_eq!(verdict.publish, Some((0..64).collect()), "{}", verdict.reason);
    assert_eq!(verdict.audit.basis, Basis::Spreading);
    assert_audit(&plan, &verdict.audit);
}

#[test]
fn local_noise_is_for_those_who_say_so_however_many_coalitions_there_are() {
    let short = |more: &str| calibrate(&beyond_computing(&format!("rounds = 22\n{more}")), &mut |_| {});
    let refused = short("").expect_err("in so few rounds somebody meets no more than three");
    let CalibrateError::Alone {
        rounds: 22,
        size: 3,
        enough: Some(enough),
        ..
    } = refused
    else {
        panic!("{refused}")
    };
    assert!(
        refused
            .to_string()
            .contains(&format!("rounds = \"auto\" or {enough}")),
        "{refused}"
    );
    assert!(refused.to_string().contains("local_noise_ok = true"), "{refused}");
    assert!(
        calibrate(&beyond_computing(&format!("rounds = {enough}")), &mut |_| {}).is_ok(),
        "{enough}"
    );
    let local = assembled(beyond_computing("rounds = 22\nlocal_noise_ok = true"));
    assert!(is_local(&local));
    assert_eq!(verify(&local, OWN_DRAWS), Ok(()));
    let verdict = gate(&local, &logs(&local, &(0..64).collect::<Vec<_>>()));
    assert_eq!(verdict.publish, Some((0..64).collect()), "{}", verdict.reason);
}

#[test]
fn an_attack_of_a_bounded_class_stays_below_the_claim() {
    let plan = assembled(beyond_computing(""));
    let attack = Attack::of(&plan).unwrap_or_else(|error| panic!("{error}"));
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
