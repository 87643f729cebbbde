//! Accounts of made-up ends of a run with sealed finals: what each says that it has cost.

use std::sync::Arc;
use undertone_accountant::gate::decision::gate;
use undertone_accountant::gate::verdict::Verdict;
use undertone_protocol::lattice::grid::LatticeWeight;
use undertone_protocol::messages::log::{AgreedLogs, Log, ReceivedEntry, SentEntry};
use undertone_protocol::publishing::opening::{OwnWord, Unopened};
use undertone_protocol::publishing::result::Sum;
use undertone_protocol::run::outcome::GateVerdict;
use undertone_protocol::time::Time;

use super::*;
use crate::testing::plan_of;

const ME: Party = 0;

fn plan(lines: &str) -> Plan {
    plan_of(&format!("[data]\nshape = [4]\n{lines}"), 8, None)
}

/// The log of a member: every share between members arrived in its round.
fn log(plan: &Plan, members: &[Party], party: Party) -> Log {
    let (schedule, rounds) = (plan.schedule(), 1..=plan.rounds());
    let is_member = |other: &Party| members.contains(other);
    let sent = rounds.clone().flat_map(|round| {
        let to = schedule.sends_to(round, party).iter();
        to.map(move |&to| SentEntry {
            round,
            to,
            left: members.contains(&to),
            answer: None,
        })
    });
    let received = rounds.flat_map(|round| {
        let from = schedule.receives_from(round, party).into_iter().filter(is_member);
        from.map(move |from| ReceivedEntry {
            round,
            from,
            applied: round,
        })
    });
    Log {
        party,
        sent: sent.collect(),
        received: received.collect(),
        unreachable: (0..plan.parties()).filter(|other| !is_member(other)).collect(),
        sealed: None,
    }
}

fn logs(plan: &Plan, members: &[Party]) -> AgreedLogs {
    let each = members.iter();
    each.map(|&party| (party, log(plan, members, party))).collect()
}

/// A run of which `members` signed the logs, before it is known how it ended.
fn run_of(plan: &Plan, members: &[Party]) -> Finish {
    let logs = logs(plan, members);
    let judged = gate(plan, &logs);
    finish(plan, Some(logs), Some(judged))
}

fn finish(plan: &Plan, logs: Option<AgreedLogs>, gate: Option<Verdict>) -> Finish {
    let reported = gate.as_ref().map(|gate| GateVerdict {
        publish: gate.publish.clone(),
        reason: gate.reason.clone(),
    });
    let outcome = Outcome {
        out_of_range: false,
        training: None,
        gossip: None,
        ending: Ending::Done,
        started: (0..plan.parties()).collect(),
        started_at: Some(Time::ZERO),
        schedule_seed: None,
        records: Default::default(),
        logs: logs.map(Arc::new),
        own_log: None,
        verdict: reported,
        included: BTreeSet::new(),
        agreed: false,
        sum: None,
        accuracy: None,
        sealed: Some(SealedFinal::Unknown),
        opened_for: vec![],
        unopened: vec![],
        tally: Default::default(),
    };
    Finish {
        outcome,
        gate,
        draws: 0,
        left_out: false,
        wall_s: 0.1,
        iteration_ms: Value::Null,
        links: serde_json::Value::Null,
        silence: Default::default(),
        private_bytes: 0,
        public_bytes: 0,
    }
}

/// The set that the gate let through is opened.
fn opened(plan: &Plan, mut finish: Finish) -> Finish {
    let publish = finish.gate.as_ref().and_then(|gate| gate.publish.clone());
    let included = publish.expect("within the budget");
    let units = included.iter();
    let units = units.map(|&party| i128::from(plan.draft().weight_units(party)));
    finish.outcome.sum = Some(Sum {
        value: plan.lattice().zeros(plan.draft().dimension()),
        weight: LatticeWeight(units.sum()),
    });
    if included.len() < plan.parties() {
        finish.outcome.ending = Ending::Degraded;
    }
    (finish.outcome.included, finish.outcome.agreed) = (included, true);
    finish.outcome.sealed = Some(SealedFinal::Opened);
    finish
}

fn withheld(mut finish: Finish, sealed: Option<SealedFinal>) -> Finish {
    let reason = "a reason".to_owned();
    (finish.outcome.ending, finish.outcome.sealed) = (Ending::Withheld { reason }, sealed);
    finish
}

fn account(plan: &Plan, finish: &Finish) -> Account {
    Account::of(plan, ME, finish).expect("an account")
}

const EVERYBODY: [Party; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Checks that a final that nobody agreed to open costs nothing. This node is missing in the agreed
/// logs or in the set that the gate lets through. Or nobody is in that set, or this node never
/// sealed anything.
#[test]
fn a_final_that_stays_closed_has_cost_nothing() {
    let plan = plan("");
    let passed = run_of(&plan, &EVERYBODY[1..]);
    assert!(passed.gate.as_ref().is_some_and(|gate| gate.audit.epsilon > 0.9));
    let refused = run_of(&plan, &EVERYBODY[..6]);
    let never_sealed = finish(&plan, None, None);
    for closed in [
        withheld(passed, Some(SealedFinal::Closed)),
        withheld(refused, Some(SealedFinal::Closed)),
        withheld(never_sealed, None),
    ] {
        let account = account(&plan, &closed);
        assert_eq!((account.epsilon(), account.mu()), (Some(0.0), Some(0.0)));
        assert_eq!(
            (account.exit(), account.outcome()),
            (Exit::PrivacyRefused, "withheld")
        );
        let reason = account.reason().expect("a reason");
        assert!(
            reason.starts_with("a reason; ") && reason.contains("a new plan costs nothing extra"),
            "{reason}"
        );
        assert!(account.stays_closed() && !account.finished());
        let receipt = &account.receipt;
        assert_eq!(
            (&receipt["epsilon"], &receipt["epsilon_opened"], &receipt["mu"]),
            (&json!(0.0), &json!(0.0), &json!(0.0))
        );
        assert_eq!(receipt["execution"]["published"], json!([]));
        assert_eq!(receipt.get("connectivity"), None);
    }
}

/// Others may have opened what this node could not: it states the plan's ε, whatever the gate said
/// of one set, and never 0.
#[test]
fn who_could_read_no_result_states_the_plans_loss() {
    let plan = plan("");
    let unseen = withheld(finish(&plan, None, None), Some(SealedFinal::Unknown));
    let left = withheld(run_of(&plan, &EVERYBODY), Some(SealedFinal::Unknown));
    let mut lacking = run_of(&plan, &EVERYBODY);
    lacking.outcome.ending = Ending::Degraded;
    lacking.outcome.included = EVERYBODY.into();
    lacking.outcome.unopened = vec![Unopened {
        party: 2,
        shares: 1,
        needed: 3,
        word: OwnWord::None,
    }];
    let tight = lacking.gate.as_ref().expect("judged").audit.epsilon;
    for (end, exit, outcome, about) in [
        (unseen, Exit::PrivacyRefused, "withheld", "a reason"),
        (left, Exit::PrivacyRefused, "withheld", "a reason"),
        (
            lacking,
            Exit::Degraded,
            "degraded",
            "party-2's secret has 1 of 3 shares",
        ),
    ] {
        let account = account(&plan, &end);
        let epsilon = account.epsilon().expect("finite");
        let claimed = plan.epsilon_claimed().expect("a headline");
        assert!(epsilon >= claimed && epsilon < 1.0 + 1e-4, "{epsilon} {claimed}");
        assert!(epsilon > tight + 0.05, "nobody departed: {tight}");
        assert_eq!((account.exit(), account.outcome()), (exit, outcome));
        let reason = account.reason().expect("a reason");
        assert!(
            reason.contains(about) && reason.ends_with("nobody here could read a result; others may have"),
            "{reason}"
        );
        assert!(!account.stays_closed() && !account.finished());
        assert_eq!(account.receipt["epsilon_opened"], Value::Null);
        assert_eq!(account.receipt["epsilon"], json!(epsilon));
        assert_eq!(account.receipt.get("connectivity"), None);
    }
}

#[test]
fn what_is_opened_costs_what_happened() {
    let plan = plan("");
    let all = account(&plan, &opened(&plan, run_of(&plan, &EVERYBODY)));
    assert_eq!((all.exit(), all.reason()), (Exit::Done, None));
    let error = all.standard_error().expect("a mean");
    let predicted = &plan.calibration().predicted;
    assert!((error / predicted.standard_error - 1.0).abs() < 1e-9);
    // One left before the logs, or while it owed a correction: the gate's last word is of the rest.
    let mut rest = opened(&plan, run_of(&plan, &EVERYBODY[..7]));
    rest.outcome.logs = Some(Arc::new(logs(&plan, &EVERYBODY)));
    let rest = account(&plan, &rest);
    assert_eq!((rest.exit(), rest.finished()), (Exit::Degraded, true));
    assert_eq!(
        (rest.included().len(), rest.departed()),
        (7, &["party-7".to_owned()][..])
    );
    let error = rest.standard_error().expect("a mean");
    let correcting = predicted.standard_error_correcting.expect("one is tolerated");
    assert!((error / correcting - 1.0).abs() < 1e-9);
    // Hidden among those who are left without one colluder, to the integer.
    let mut smaller = 0.0;
    for (account, among) in [(all, 7), (rest, 6)] {
        let receipt = &account.receipt;
        let connectivity = &receipt["connectivity"];
        assert_eq!(connectivity["among"], json!(among));
        let kappa = connectivity["kappa"].as_u64().expect("an integer");
        assert!((2..=among).contains(&kappa), "{connectivity}");
        assert_eq!(receipt["epsilon"], receipt["epsilon_opened"]);
        let epsilon = account.epsilon().expect("finite");
        assert!(epsilon > smaller && epsilon <= 1.0, "{epsilon} {smaller}");
        smaller = epsilon;
    }
}

#[test]
fn who_was_opened_by_others_is_named() {
    let plan = plan("");
    let mut end = opened(&plan, run_of(&plan, &EVERYBODY));
    assert_eq!(account(&plan, &end).opened_for(), &[] as &[String]);
    end.outcome.opened_for = vec![5, 3];
    let account = account(&plan, &end);
    assert_eq!(account.opened_for(), ["party-3", "party-5"]);
    assert_eq!(account.receipt["opened_for"], json!(["party-3", "party-5"]));
    let faults = account.receipt["faults"].as_array().expect("sentences");
    assert!(
        faults.iter().any(|reported| {
            reported
                .as_str()
                .is_some_and(|reported| reported.starts_with("opened for party-3, who was gone: "))
        }),
        "{faults:?}"
    );
    assert_eq!((account.exit(), account.finished()), (Exit::Done, true));
}

/// Checks an opened lie, which is no sum of values and noise. There is no mean, and the loss
/// remains.
#[test]
fn an_opened_lie_has_cost_what_was_opened() {
    let plan = plan("");
    let mut end = opened(&plan, run_of(&plan, &EVERYBODY));
    (end.outcome.sum, end.outcome.ending) = (None, Ending::Degraded);
    let account = account(&plan, &end);
    let reason = account.reason().expect("a reason");
    assert!(reason.contains("is a lie"), "{reason}");
    assert_eq!(account.exit(), Exit::Degraded);
    let epsilon = account.epsilon().expect("finite");
    assert!(epsilon > 0.5 && epsilon < 1.0, "{epsilon}");
    assert_eq!(account.receipt["epsilon_opened"], json!(epsilon));
}

#[test]
fn receipts_of_readable_finals_say_nothing_of_sealing() {
    let plan = plan("[mechanism]\nrounds = 4\n[run]\nsealed = false\n");
    let mut end = run_of(&plan, &EVERYBODY[..7]);
    end.outcome.sealed = None;
    let account = account(&plan, &withheld(end, None));
    for key in ["opened_for", "epsilon_opened", "connectivity"] {
        assert_eq!(account.receipt.get(key), None, "{key}");
    }
    assert!(account.epsilon() > Some(0.0) && !account.stays_closed());
    assert_eq!(account.reason().as_deref(), Some("a reason"));
}

/// Somebody may have chosen among all draws that there can be, whatever this node knows of them;
/// the δ of the statement is that of the noise and theirs.
#[test]
fn a_receipt_states_the_chance_of_all_draws_that_may_be_tried() {
    let honest = plan("[privacy]\ncoalitions = \"static\"\n");
    let chance = honest.calibration().claims[0].draw.expect("its draw").chance;
    let stated = |plan: &Plan, draws: u64| {
        let mut end = withheld(finish(plan, None, None), Some(SealedFinal::Unknown));
        end.draws = draws;
        account(plan, &end).receipt["draw"].clone()
    };
    for draws in 0..4 {
        let draw = stated(&honest, draws);
        assert_eq!((&draw["tries"], &draw["most"]), (&json!(draws), &json!(3)));
        let found = draw["chance"].as_f64().expect("a number");
        assert!(
            found >= 3.0 * chance && found < 3.0 * chance * (1.0 + 1e-12),
            "{draw}"
        );
        assert_eq!(draw["delta"], json!(1e-6), "the plan has room for it");
    }
    // A plan that has none, which nobody verified.
    let mut calibration = honest.calibration().clone();
    calibration.claims[0].draw.as_mut().expect("its draw").chance = 2e-7;
    let loose = Plan::assemble(honest.draft().clone(), calibration, [7; 16]).expect("a plan");
    let delta = stated(&loose, 1)["delta"].as_f64().expect("a number");
    assert!((0.999e-6 + 6e-7..1.6e-6).contains(&delta), "{delta}");
}
