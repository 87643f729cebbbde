//! Ten occurrences of a group of five whose clocks are two minutes apart, and whose first proposer
//! is dead, stalls, or sends two plans (N14).

use futures::future::join_all;
use libp2p::PeerId;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::Question;
use undertone_protocol::messages::revocation::Revocation;

use crate::party::identity::Identity;
use crate::planning::revoked::to_line;

use super::group::{DAY, DUE, Group, RUN, have_met};
use super::{bytes, plan_of};

/// How the first proposer behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum First {
    Fine,
    Dead,
    /// It attends, and never proposes.
    Stalls,
    /// It offers one plan to some, and another one to others.
    TwoPlans,
}

/// Sends two plans of attempt 0 to the others: each to half of them.
async fn two_plans(group: &Group, due_s: u64, first: usize) {
    let due = group.due(first, due_s, 0);
    let others: Vec<usize> = (0..5).filter(|party| *party != first).collect();
    let but = |absent: usize| -> Vec<PeerId> {
        let present = (0..5).filter(|party| *party != absent);
        present.map(|party| group.ids[party]).collect()
    };
    let plans = [
        bytes(&plan_of(&due, &group.ids)),
        bytes(&plan_of(&due, &but(others[0]))),
    ];
    let hub = group.service(first).hub();
    let offers = others.iter().enumerate().map(|(index, party)| {
        hub.ask(
            Network::Private,
            group.ids[*party],
            &Question::Offer,
            &plans[index % 2],
        )
    });
    for answer in join_all(offers).await {
        answer.expect("an answer, of whatever kind");
    }
}

async fn meets(group: &mut Group, due_s: u64, first: First) {
    let turn = group.turn(due_s, 0);
    match first {
        First::Fine => {}
        First::Dead => group.stop(turn).await,
        First::Stalls | First::TwoPlans => {
            group.stop(turn).await;
            group.start_silent(turn).await;
        }
    }
    group.set(due_s - 70);
    let case = format!("{first:?} at {due_s}: ");
    if first == First::TwoPlans {
        group.go(due_s, |_| false).await;
        two_plans(group, due_s, turn).await;
    }
    let met = group.go(due_s + 180, have_met(due_s)).await;
    assert!(
        met,
        "{case}not by {}: {:#?}",
        group.now_s() - due_s,
        group.runs(due_s)
    );
    let mut digests = vec![];
    for runs in group.runs(due_s) {
        let spent: Vec<_> = runs.iter().filter(|run| run.charged.is_some()).collect();
        assert_eq!(spent.len(), 1, "{case}one plan: {runs:#?}");
        assert!(
            ["done", "degraded"].contains(&spent[0].outcome.as_deref().unwrap_or("")),
            "{case}{spent:#?}"
        );
        // Of a first proposer whose clock is behind the second may come first.
        assert!(
            spent[0].attempt >= Some(u32::from(first != First::Fine)),
            "{case}"
        );
        assert_eq!(
            spent[0].parties,
            if first == First::Dead { 4 } else { 5 },
            "{case}"
        );
        digests.push(spent[0].digest.clone());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{case}the same plan");
    if first != First::Fine {
        group.stop(turn).await;
        group.start(turn).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_occurrences_have_one_plan_each_whoever_proposes_first_and_however() {
    let mut group = Group::new(5, RUN, "");
    group.off_s = vec![-60, 60, 0, 30, -30];
    for party in 0..5 {
        group.start(party).await;
    }
    use First::{Dead, Fine, Stalls, TwoPlans};
    let firsts = [
        Fine, Dead, Stalls, TwoPlans, Fine, Dead, TwoPlans, Stalls, Dead, Fine,
    ];
    let mut absences = [0; 5];
    for (day, first) in firsts.into_iter().enumerate() {
        let due_s = DUE + DAY * day as u64;
        if first == Dead {
            absences[group.turn(due_s, 0)] += 1;
        }
        meets(&mut group, due_s, first).await;
    }
    // Each run is charged once, and as the forecast said.
    for (party, absent) in absences.into_iter().enumerate() {
        let service = group.service(party);
        service.look_ahead().await;
        let budget = &service.budgets()[0];
        assert_eq!(budget.runs, 10 - absent, "{budget:?}");
        let config = service.config();
        let forecast = service
            .shared
            .schedules
            .forecast(&config, &config.schedules[0])
            .unwrap();
        let predicted = forecast.charge.mu_squared * (10 - absent) as f64;
        let spent = budget.mu_squared.unwrap();
        assert!(
            (0.8..=1.05).contains(&(spent / predicted)),
            "{spent}, predicted {predicted}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_whose_key_was_revoked_neither_proposes_nor_attends() {
    let mut group = Group::new(5, RUN, "");
    for party in 0..5 {
        group.start(party).await;
    }
    let thief = group.turn(DUE, 0);
    let stolen = Identity::load(&group.path(&format!("lab-{thief}.key"))).unwrap();
    let line = to_line(&Revocation::sign(&stolen.keypair, group.ids[thief], 5).unwrap());
    for party in 0..5 {
        group.service(party).revoke(&line).unwrap();
    }
    let scheduled = group.due(thief, DUE, 0).scheduled;
    let other = (thief + 1) % 5;
    let refused = group
        .service(other)
        .attend(group.ids[thief], scheduled)
        .await
        .unwrap_err();
    assert!(refused.message.contains("was revoked by itself"), "{refused}");
    group.stop(thief).await;
    group.set(DUE - 70);
    assert!(group.go(DUE + 270, have_met(DUE)).await, "{:#?}", group.runs(DUE));
    let name = format!("lab-{thief}");
    for run in group
        .runs(DUE)
        .into_iter()
        .flatten()
        .filter(|run| run.charged.is_some())
    {
        assert!(
            run.included.len() == 4 && !run.included.contains(&name),
            "{run:#?}"
        );
        assert!(
            run.attempt > Some(0) && run.proposer.as_ref() != Some(&name),
            "{run:#?}"
        );
    }
}

/// Resident bytes of this process.
fn memory() -> f64 {
    crate::reporting::process::resident_bytes().unwrap_or(0) as f64
}

/// By hand: `cargo test -p undertone --lib -- --ignored a_year --nocapture`; `SCHEDULED_RUNS` says
/// another number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a quarter of an hour"]
async fn a_year_of_scheduled_runs_leaves_memory_and_restarts_as_they_were() {
    let runs = std::env::var("SCHEDULED_RUNS")
        .ok()
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(10_000);
    let mut group = Group::new(3, &RUN.replace("dropouts = 1\n", "").replace("0.1", "0.01"), "");
    for party in 0..3 {
        group.start(party).await;
    }
    let (mut stands, begun) = (vec![], std::time::Instant::now());
    for day in 0..runs {
        let due_s = DUE + DAY * day;
        group.set(due_s);
        assert!(
            group.go(due_s + 180, have_met(due_s)).await,
            "run {day}: {:#?}",
            group.runs(due_s)
        );
        if (day + 1) % 100 == 0 {
            // As `keep_days` has it: by the system's clock all of them are of today.
            for party in 0..3 {
                let shared = &group.service(party).shared;
                shared.runs.delete(u64::MAX, &shared.receipts).unwrap();
            }
            let restart = std::time::Instant::now();
            group.stop(0).await;
            let stopped = restart.elapsed();
            group.start(0).await;
            let restart = restart.elapsed() - stopped;
            stands.push((memory(), restart.as_secs_f64()));
            eprintln!(
                "{} runs, {:.0?}: {:.1} MB, restart {restart:.2?}",
                day + 1,
                begun.elapsed(),
                memory() / 1e6
            );
        }
    }
    // What is there after the first 500 stays: within a megabyte for each of the three. Restarts
    // are as fast, but for what the machine does beside them.
    let (early, late) = stands.split_at(5.min(stands.len()));
    let Some((memory, _)) = early.last().filter(|_| late.len() >= 5) else {
        return;
    };
    let median = |stands: &[(f64, f64)]| {
        let mut restarts: Vec<f64> = stands.iter().map(|(_, restart)| *restart).collect();
        restarts.sort_by(f64::total_cmp);
        restarts[restarts.len() / 2]
    };
    assert!(late.iter().all(|(found, _)| *found <= memory + 3e6), "{stands:?}");
    assert!(
        median(&late[late.len() - 5..]) <= 2.0 * median(early) + 0.05,
        "{stands:?}"
    );
}
