use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::messages::log::{Answer, ReceivedEntry, Verdict as Answered};
use undertone_protocol::messages::signature::Signature;

use super::*;
use crate::account::inca;
use crate::class::faults;
use crate::class::setting::Setting;
use crate::execution::share::Fate;
use crate::losses::loss::Noise;
use crate::testing::{logs, plan, training, with_fault};

const FIVE: &str = "[mechanism]\nrounds = 4";

/// `account inca` on the audit's execution, written to JSON and read again, as anyone can.
fn accounted(plan: &Plan, audit: &Audit) -> f64 {
    let json = serde_json::to_string(&audit.execution).expect("serialises");
    let calibration = plan.calibration();
    let noise = Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    };
    inca::inca(&json, noise, 1.0, audit.delta)
        .unwrap_or_else(|error| panic!("{error}"))
        .mu
}

fn assert_audit(plan: &Plan, audit: &Audit) {
    let mu = accounted(plan, audit);
    match audit.basis {
        // A share that came back carries a little still, which is not counted.
        Basis::Computed => assert!(
            (0.95..1.0 + 1e-12).contains(&(mu / audit.mu)),
            "{mu} {}",
            audit.mu
        ),
        _ => assert!(mu <= audit.mu * (1.0 + 1e-12), "{mu} {}", audit.mu),
    }
    assert!(audit.mu > 0.0 && audit.epsilon > 0.0);
}

#[test]
fn who_knows_no_verdict_states_no_less_than_the_others_may_have_published_at() {
    let of_mechanism = [FIVE, "[mechanism]\nkind = \"ppsc\""];
    for lines in of_mechanism {
        let plan = plan(5, lines);
        let (unknown, own) = (without_verdict(&plan, "late"), withheld(&plan, "late"));
        let published = gate(&plan, &logs(&plan, &[0, 1, 2, 3, 4]));
        assert!(published.publish.is_some());
        assert!(
            unknown.mu >= published.audit.mu && unknown.mu >= own.mu,
            "{lines}"
        );
    }
    let drawn_at_start = "[privacy]\ncoalitions = \"static\"\n[mechanism]\ncorrelated = \"uniform\"";
    for lines in of_mechanism.into_iter().chain([drawn_at_start]) {
        let plan = plan(5, lines);
        let unknown = without_verdict(&plan, "late");
        assert!(
            unknown.epsilon >= plan.epsilon_claimed().expect("claimed"),
            "{lines}"
        );
        // A gate lets through what the target allows, whatever less the plan claims.
        let target = plan.draft().privacy.epsilon;
        assert!(unknown.epsilon >= target * (1.0 - 1e-9), "{lines}");
        assert_eq!(
            unknown.execution.published(),
            withheld(&plan, "late").execution.published()
        );
    }
}

/// The share that `from` sends in `round` goes back in T, unanswered.
fn unanswered(plan: &Plan, logs: &mut AgreedLogs, round: u32, from: Party) {
    let to = plan.schedule().sends_to(round, from)[0];
    if let Some(log) = logs.get_mut(&to) {
        log.received
            .retain(|entry| (entry.round, entry.from) != (round, from));
    }
}

#[test]
fn without_faults_everybody_publishes_at_less_than_the_claim() {
    let plan = plan(5, FIVE);
    let verdict = gate(&plan, &logs(&plan, &[0, 1, 2, 3, 4]));
    assert_eq!(verdict.publish, Some((0..5).collect()));
    assert!(
        verdict.reason.is_empty() && verdict.audit.faults.is_empty() && verdict.audit.departed.is_empty()
    );
    assert!(verdict.audit.epsilon <= plan.epsilon_claimed().expect("claimed"));
    assert_eq!(verdict.audit.basis, Basis::Computed);
    assert_audit(&plan, &verdict.audit);
}

#[test]
fn whatever_happens_within_the_class_the_rest_publishes() {
    let plan = plan(5, FIVE);
    let setting = Setting::of_plan(&plan).expect("a plan");
    for departed in 0..5 {
        let members: Vec<Party> = (0..5).filter(|&party| party != departed).collect();
        let whole = logs(&plan, &members);
        for fault in faults::single_shares(&setting)
            .into_iter()
            .filter(|fault| fault.from != departed && fault.to != departed)
        {
            let verdict = gate(&plan, &with_fault(&whole, &fault));
            assert_eq!(
                verdict.publish,
                Some(members.iter().copied().collect()),
                "{departed} {fault:?} {}",
                verdict.reason
            );
            assert!(verdict.audit.epsilon <= plan.epsilon_claimed().expect("claimed"));
            assert_eq!(verdict.audit.departed, BTreeSet::from([departed]));
        }
        assert_audit(&plan, &gate(&plan, &whole).audit);
    }
}

#[test]
fn too_few_logs_withhold_and_still_state_a_loss() {
    let plan = plan(5, FIVE);
    let verdict = gate(&plan, &logs(&plan, &[0, 1, 2]));
    assert_eq!(verdict.publish, None);
    assert!(verdict.reason.contains("only 3 logs"), "{}", verdict.reason);
    assert_eq!(verdict.audit.basis, Basis::BeforePublishing);
    assert_audit(&plan, &verdict.audit);
    assert_eq!(verdict.audit.faults.len(), 2);
    assert!(verdict.audit.execution.published().is_empty());
}

#[test]
fn a_member_that_was_cut_off_is_left_out() {
    let plan = plan(6, "[mechanism]\nrounds = 6");
    let mut logs = logs(&plan, &[0, 1, 2, 3, 4, 5]);
    for round in 1..=plan.rounds() {
        unanswered(&plan, &mut logs, round, 2);
        logs.get_mut(&2).expect("a member").received.clear();
    }
    let verdict = gate(&plan, &logs);
    let publish = verdict.publish.expect("the others can");
    assert_eq!(publish, BTreeSet::from([0, 1, 3, 4, 5]), "{}", verdict.reason);
    assert!(verdict.reason.contains("party-2"), "{}", verdict.reason);
    assert_eq!(verdict.audit.departed, BTreeSet::from([2]));
    assert_audit(&plan, &verdict.audit);
}

#[test]
fn more_than_the_class_within_the_logs_withholds_or_stays_within_the_budget() {
    let plan = plan(5, FIVE);
    let mut withheld = 0;
    for pattern in 1u32..64 {
        let mut logs = logs(&plan, &[0, 1, 2, 3, 4]);
        for index in 0..20 {
            if (pattern.wrapping_mul(2_654_435_761) >> index) & 1 == 1 {
                unanswered(&plan, &mut logs, 1 + index / 5, (index % 5) as usize);
            }
        }
        let verdict = gate(&plan, &logs);
        match verdict.publish {
            Some(_) => assert!(verdict.audit.epsilon <= plan.draft().privacy.epsilon),
            None => withheld += 1,
        }
        assert_audit(&plan, &verdict.audit);
    }
    assert!(withheld > 0, "half of all shares lost must sometimes be too much");
}

/// The gate judges one release; what it says of ε is of all of them, as the plan's is.
#[test]
fn a_refusal_names_the_loss_of_all_releases() {
    for (plan, of_all) in [
        (plan(5, FIVE), ""),
        (training("[mechanism]\nrounds = 4"), " in all 3 releases"),
    ] {
        let mut logs = logs(&plan, &[0, 1, 2, 3, 4]);
        logs.values_mut().for_each(|log| log.received.clear());
        let verdict = gate(&plan, &logs);
        assert_eq!(verdict.publish, None);
        let above = format!(", above {}", plan.draft().privacy.epsilon);
        let said = verdict.reason.strip_suffix(&above).expect("a refusal");
        let (what, epsilon) = said.rsplit_once(' ').expect("words");
        assert_eq!(what, format!("publishing{of_all} would cost epsilon"));
        let epsilon: f64 = epsilon.parse().expect("a number");
        assert!(epsilon > plan.draft().privacy.epsilon, "{}", verdict.reason);
    }
}

#[test]
fn hostile_logs_withhold_with_a_reason() {
    let plan = plan(4, "[mechanism]\nrounds = 3");
    let good = logs(&plan, &[0, 1, 2, 3]);
    let mut cases: Vec<AgreedLogs> = vec![AgreedLogs::new()];
    let mut change = |change: &dyn Fn(&mut AgreedLogs)| {
        let mut logs = good.clone();
        change(&mut logs);
        cases.push(logs);
    };
    change(&|logs| drop(logs.insert(9, logs[&0].clone())));
    change(&|logs| drop(logs.insert(usize::MAX, logs[&0].clone())));
    change(&|logs| logs.get_mut(&1).expect("there").party = 2);
    change(&|logs| logs.get_mut(&1).expect("there").sent.clear());
    change(&|logs| logs.get_mut(&1).expect("there").sent[0].to = 77);
    change(&|logs| logs.get_mut(&1).expect("there").received[0].applied = u32::MAX);
    change(&|logs| logs.get_mut(&1).expect("there").received[0].round = 0);
    change(&|logs| {
        let received = &mut logs.get_mut(&1).expect("there").received;
        received.push(received[0]);
    });
    for logs in cases {
        let verdict = gate(&plan, &logs);
        assert_eq!(verdict.publish, None);
        assert!(!verdict.reason.is_empty());
        assert!(verdict.audit.mu > 0.0);
    }
}

#[test]
fn no_logs_whatever_make_the_gate_panic() {
    let plans = [
        plan(4, "[mechanism]\nrounds = 3"),
        plan(4, "[mechanism]\nrounds = 3\nrollback = false"),
    ];
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let (mut published, mut refused) = (0, 0);
    for _ in 0..400 {
        let plan = &plans[random.random_range(0..2)];
        let mut logs = logs(plan, &[0, 1, 2, 3]);
        for _ in 0..random.random_range(1..6) {
            corrupt(&mut logs, &mut random);
        }
        match gate(plan, &logs).publish {
            Some(set) => {
                published += 1;
                assert!(set.iter().all(|party| logs.contains_key(party)));
            }
            None => refused += 1,
        }
    }
    assert!(published > 20 && refused > 20, "{published} {refused}");
}

fn corrupt(logs: &mut AgreedLogs, random: &mut ChaCha8Rng) {
    let party = random.random_range(0..4);
    let number = [0, 1, 2, 3, 4, u32::MAX][random.random_range(0..6)];
    let kind = random.random_range(0..7);
    let Some(log) = logs.get_mut(&party) else { return };
    let place = random.random_range(0..3);
    match kind {
        0 => drop(logs.remove(&party)),
        1 => {
            if let Some(entry) = log.sent.get_mut(place) {
                entry.left = !entry.left;
            }
        }
        2 => {
            if let Some(entry) = log.received.get_mut(place) {
                entry.applied = number;
            }
        }
        3 if place < log.received.len() => drop(log.received.remove(place)),
        4 => {
            if let Some(entry) = log.sent.get_mut(place) {
                let verdict = if number > 3 {
                    Answered::Refused
                } else {
                    Answered::Accepted { applied: number }
                };
                entry.answer = Some(Answer {
                    verdict,
                    signature: Signature([0; 64]),
                });
            }
        }
        5 if number > 2 => log.sent.truncate(place),
        6 if number > 3 => log.unreachable = vec![number as Party],
        _ => {}
    }
}

#[test]
fn a_share_that_never_left_is_back_whatever_the_receiver_lists() {
    let plan = plan(4, "[mechanism]\nrounds = 3");
    let mut logs = logs(&plan, &[0, 1, 2, 3]);
    logs.get_mut(&0).expect("there").sent[1].left = false;
    let verdict = gate(&plan, &logs);
    let shares = verdict.audit.execution.shares();
    assert_eq!(shares.len(), 1);
    assert_eq!(
        (shares[0].fate, shares[0].applied, shares[0].seen),
        (Fate::Returned, Some(2), false)
    );
}

#[test]
fn without_roll_back_the_silent_are_in_every_coalition() {
    let plan = plan(4, "[mechanism]\nrounds = 4\nrollback = false");
    let whole = gate(&plan, &logs(&plan, &[0, 1, 2, 3]));
    assert_eq!(whole.publish, Some((0..4).collect()));
    assert_audit(&plan, &whole.audit);
    // Party 3 sent in rounds 1 and 2 and fell silent; what was sent to it left and was never
    // answered, but once.
    let mut logs = logs(&plan, &[0, 1, 2]);
    for round in 1..=4 {
        for from in plan.schedule().receives_from(round, 3) {
            let sent = &mut logs.get_mut(&from).expect("a member").sent[round as usize - 1];
            sent.left = round < 4;
            if round == 1 {
                sent.answer = Some(Answer {
                    verdict: Answered::Accepted { applied: 1 },
                    signature: Signature([0; 64]),
                });
            }
        }
        if round <= 2 {
            let to = plan.schedule().sends_to(round, 3)[0];
            let received = &mut logs.get_mut(&to).expect("a member").received;
            received.push(ReceivedEntry {
                round,
                from: 3,
                applied: round,
            });
            received.sort_by_key(|entry| (entry.round, entry.from));
        }
    }
    let verdict = gate(&plan, &logs);
    assert_audit(&plan, &verdict.audit);
    assert_eq!(verdict.audit.basis, Basis::Computed);
}

#[test]
fn where_only_the_theorem_speaks_it_lets_publish() {
    let plan = plan(
        120,
        "[privacy]\ncolluding = 4\n[mechanism]\nrounds = 4\nfanout = 2",
    );
    let members: Vec<Party> = (1..120).collect();
    let verdict = gate(&plan, &logs(&plan, &members));
    assert_eq!(verdict.publish, Some((1..120).collect()));
    assert_eq!(verdict.audit.basis, Basis::Theorem);
    assert_audit(&plan, &verdict.audit);
}

#[test]
fn sixteen_parties_are_computed() {
    let plan = plan(16, "[mechanism]\nrounds = 4");
    let mut logs = logs(&plan, &(1..16).collect::<Vec<Party>>());
    unanswered(&plan, &mut logs, 2, 5);
    let verdict = gate(&plan, &logs);
    assert_eq!(verdict.publish, Some((1..16).collect()));
    assert_eq!(verdict.audit.basis, Basis::Computed);
    assert_audit(&plan, &verdict.audit);
}

/// Whatever happened: the closed form of it says no less than computing every coalition does.
#[test]
fn the_closed_form_of_what_happened_is_above_what_is_computed() {
    let random = &mut ChaCha8Rng::seed_from_u64(23);
    let (mut compared, mut below_local) = (0, 0);
    for (parties, lines) in [
        (7, "[mechanism]\nrounds = 5"),
        (7, "[mechanism]\nkind = \"ppsc\""),
    ] {
        let plan = plan(parties, lines);
        let mut gate = Gate::of(&plan).expect("a plan");
        let setting = Setting::of_plan(&plan).expect("a plan");
        let single = faults::single_shares(&setting);
        for case in 0..150 {
            *gate.left.lock().expect("unpoisoned") = Some(f64::INFINITY);
            gate.noise.correlated_std = gate.noise.independent_std * [3.0, 30.0, 300.0][case % 3];
            let gone = random.random_range(0..=parties);
            let members: Vec<Party> = (0..parties).filter(|&party| party != gone).collect();
            let mut happened = logs(&plan, &members);
            let mut faulted = BTreeSet::new();
            for _ in 0..random.random_range(0..6) {
                let fault = single[random.random_range(0..single.len())];
                let survives = fault.from != gone && fault.to != gone;
                if survives && faulted.insert((fault.round, fault.from)) {
                    happened = with_fault(&happened, &fault);
                }
            }
            let publish: BTreeSet<Party> = members.into_iter().collect();
            let happened = gate.among_members(&happened, &publish).expect("sane logs");
            let exact = gate
                .computed(happened.clone(), &publish)
                .expect("sane logs")
                .expect("few");
            let bound = gate
                .by_closed_form(happened, &publish)
                .expect("sane logs")
                .expect("a theorem");
            assert!(
                exact.mu <= bound.mu * (1.0 + 1e-9),
                "{lines} {case}: {} {}",
                exact.mu,
                bound.mu
            );
            compared += 1;
            below_local += usize::from(bound.mu < gate.theorem() * 0.9);
        }
    }
    println!("{compared} runs compared, {below_local} of them bounded below local noise");
    assert!(below_local > 150, "{below_local}");
}

#[test]
fn what_there_is_no_time_to_compute_counts_as_unbounded() {
    let plan = plan(6, "[mechanism]\nrounds = 4");
    let logs = logs(&plan, &[0, 1, 2, 3, 4, 5]);
    let judged = |left: f64| {
        let gate = Gate::of(&plan).expect("a plan");
        *gate.left.lock().expect("unpoisoned") = Some(left);
        // Else the theorem of local noise, which needs no time, would let all publish.
        assert!(gate.theorem() > gate.budget, "{} {}", gate.theorem(), gate.budget);
        gate.judge(&logs).expect("logs of the schedule")
    };
    // One set, or the first of its coalitions, or nothing at all.
    let enough = judged(1e7);
    assert_eq!(enough.publish, Some((0..6).collect()), "{}", enough.reason);
    for left in [0.0, 1e3, 2e4] {
        let late = judged(left);
        assert_eq!(late.publish, None, "{left}");
        assert!(late.reason.contains("no time"), "{}", late.reason);
        assert_audit(&plan, &late.audit);
    }
}

mod drawn;
mod planted;
