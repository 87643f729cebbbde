//! Offers of schedules' plans by peers that lie, stall and repeat themselves, at one daemon.

mod group;
mod meeting;
mod offers;
mod records;
mod starts;

use std::sync::Arc;

use futures::future::join_all;
use libp2p::PeerId;
use undertone_protocol::plan::checked::Plan;

use self::group::{DAY, DUE, Group, RUN};
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::schedule::attending::Due;
use crate::daemon::status::{OfferState, RunState};
use crate::planning::scheduled::Attendee;

/// The plan that the members `who` make of an attempt.
fn plan_of(due: &Due, who: &[PeerId]) -> Plan {
    let attendees: Vec<Attendee> = who
        .iter()
        .map(|id| Attendee {
            id: *id,
            records: None,
        })
        .collect();
    due.schedule()
        .terms(&due.config.peers)
        .plan(&attendees, due.scheduled)
        .unwrap()
}

fn bytes(plan: &Plan) -> Vec<u8> {
    plan.to_json().as_bytes().to_vec()
}

/// A daemon of a group of five, whose turn the first two attempts at `DUE` are not; the others'
/// addresses answer nothing. At the moment that it is due.
async fn alone(run: &str, more: &str) -> (Group, usize) {
    let mut group = Group::new(5, run, more);
    let me = (0..5)
        .find(|party| (0..3).all(|attempt| group.turn(DUE, attempt) != *party))
        .unwrap();
    group.start_silent(me).await;
    group.set(DUE);
    (group, me)
}

fn said(answer: Result<OfferState, Refusal>) -> String {
    answer.expect_err("refused").message
}

#[tokio::test]
async fn the_plan_that_a_node_makes_itself_is_accepted_unasked_and_one_of_another_proposer_is_not() {
    let (group, me) = alone(RUN, "").await;
    let (service, due) = (group.service(me), group.due(me, DUE, 0));
    let plan = bytes(&plan_of(&due, &group.ids));
    for other in (0..5).filter(|other| ![me, group.turn(DUE, 0)].contains(other)) {
        let answer = service.receive_offer(group.ids[other], plan.clone()).await;
        assert!(said(answer).contains("attempt 0 has another proposer"));
    }
    let proposer = group.ids[group.turn(DUE, 0)];
    assert_eq!(
        service.receive_offer(proposer, plan.clone()).await,
        Ok(OfferState::Accepted)
    );
    assert_eq!(
        service.receive_offer(proposer, plan).await,
        Ok(OfferState::Accepted),
        "again"
    );
    let run = &group.runs(DUE)[0][0];
    assert_eq!(
        (run.state, run.attempt, run.data_set.as_deref()),
        (RunState::Accepted, Some(0), Some("ward"))
    );
    assert!(run.reserved.is_some());
}

/// A proposer that sends two plans to one node, at once or one after the other.
#[tokio::test]
async fn of_two_plans_of_an_attempt_the_first_counts() {
    let (group, me) = alone(RUN, "").await;
    let (service, due) = (group.service(me), group.due(me, DUE, 0));
    let proposer = group.turn(DUE, 0);
    let without = (0..5).find(|other| ![me, proposer].contains(other)).unwrap();
    let four: Vec<PeerId> = group
        .ids
        .iter()
        .filter(|id| **id != group.ids[without])
        .copied()
        .collect();
    let plans = [plan_of(&due, &group.ids), plan_of(&due, &four)];
    let offers = plans
        .iter()
        .map(|plan| service.receive_offer(group.ids[proposer], bytes(plan)));
    let answers = join_all(offers).await;
    let taken = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(taken, 1, "{answers:?}");
    let refused = answers.into_iter().find_map(Result::err).unwrap();
    assert!(refused.message.contains("second offer of attempt 0"), "{refused}");
    assert_eq!(service.runs().len(), 1);
}

#[tokio::test]
async fn a_node_leaves_an_attempt_for_a_later_one_and_never_goes_back() {
    let (group, me) = alone(RUN, "").await;
    let service = group.service(me);
    let offer = |attempt| {
        let plan = bytes(&plan_of(&group.due(me, DUE, attempt), &group.ids));
        service.receive_offer(group.ids[group.turn(DUE, attempt)], plan)
    };
    offer(0).await.unwrap();
    group.set(DUE + 90);
    offer(1).await.unwrap();
    let mut runs = group.runs(DUE).remove(0);
    runs.sort_by_key(|run| run.attempt);
    assert_eq!(
        [runs[0].state, runs[1].state],
        [RunState::Withdrawn, RunState::Accepted]
    );
    // Its first offer was refused, and a late copy of it comes again.
    let late = plan_of(&group.due(me, DUE, 0), &group.ids[..]);
    let four: Vec<PeerId> = group
        .ids
        .iter()
        .filter(|id| **id != group.ids[group.turn(DUE, 2)])
        .copied()
        .collect();
    let other = plan_of(&group.due(me, DUE, 0), &four);
    assert_ne!(late.digest(), other.digest());
    let answer = service
        .receive_offer(group.ids[group.turn(DUE, 0)], bytes(&other))
        .await;
    assert!(said(answer).contains("is in attempt 1"));
    // A node that has signed START stays.
    let run = service.known(&runs[1].digest).unwrap();
    run.listener()
        .emit("lab", "signed", serde_json::json!({ "ready": 5 }));
    group.set(DUE + 180);
    assert!(said(offer(2).await).contains("has signed START of attempt 1"));
    assert_eq!(service.run(&runs[1].digest).unwrap().state, RunState::Accepted);
    run.listener()
        .emit("lab", "phase", serde_json::json!({ "phase": "gathering" }));
    assert_eq!(offer(2).await, Ok(OfferState::Accepted), "START came to nothing");
}

/// Its own graph, its own noise, its own time-outs: nothing but who is in it is the proposer's.
#[tokio::test]
async fn a_plan_of_which_the_proposer_chose_something_is_refused_by_the_field() {
    let run = format!("{RUN}[topology]\nprivate = {{ kind = \"random-regular\", degree = 4 }}\n");
    let mut group = Group::new(7, &run, "");
    let me = (0..7)
        .find(|party| group.turn(DUE, 0) != *party && group.turn(DUE + DAY, 0) != *party)
        .unwrap();
    group.start_silent(me).await;
    let chosen: [(&str, &str, &str); 6] = [
        ("epsilon = 0.1", "epsilon = 0.2", "claims.0.epsilon"),
        (
            "dropouts = 1",
            "dropouts = 1\ncolluding = 2",
            "claims.0.coalition",
        ),
        (
            "shape = [2]",
            "shape = [2]\nclip = { kind = \"l2\", radius = 2.0 }",
            "data.clip.radius",
        ),
        ("name = \"weekly\"", "name = \"other\"", "name"),
        ("[topology]", "[run]\nround_ms = 7777\n[topology]", "run.round_ms"),
        ("degree = 4", "degree = 6", "claims"),
    ];
    for (day, (ours, theirs, field)) in chosen.into_iter().enumerate() {
        let due_s = DUE + DAY * day as u64;
        group.set(due_s);
        let turn = group.turn(due_s, 0);
        if turn == me {
            continue;
        }
        let due = group.due(me, due_s, 0);
        // The run file that the proposer would like, for the occurrence of everybody's.
        assert!(run.contains(ours));
        let terms = crate::planning::scheduled::Terms {
            text: &run.replace(ours, theirs),
            path: "theirs.toml".as_ref(),
            list: &due.config.peers,
        };
        let all: Vec<Attendee> = group
            .ids
            .iter()
            .map(|id| Attendee {
                id: *id,
                records: None,
            })
            .collect();
        let plan = terms.plan(&all, due.scheduled).unwrap();
        let answer = group
            .service(me)
            .receive_offer(group.ids[turn], bytes(&plan))
            .await;
        let refused = answer.expect_err(field);
        let names = refused.field.clone().unwrap_or_default();
        assert!(
            names.starts_with(field.split('.').next().unwrap()),
            "{field}: {names}: {refused}"
        );
        assert!(
            refused
                .message
                .contains("this node's own run file and peer list give"),
            "{refused}"
        );
    }
}

/// A graph or a nonce of the proposer's own seed.
#[tokio::test]
async fn a_plan_with_another_seed_or_nonce_is_refused() {
    let run = format!("{RUN}[topology]\nprivate = {{ kind = \"random-regular\", degree = 4 }}\n");
    let mut group = Group::new(7, &run, "");
    let me = (0..7)
        .find(|party| (0..3).all(|attempt| group.turn(DUE, attempt) != *party))
        .unwrap();
    group.start_silent(me).await;
    group.set(DUE);
    let (due, service) = (group.due(me, DUE, 0), group.service(me));
    let read = |plan: &Plan| serde_json::from_str::<serde_json::Value>(plan.to_json()).unwrap();
    let (own, later) = (
        plan_of(&due, &group.ids),
        plan_of(&group.due(me, DUE, 1), &group.ids),
    );
    let mut nonce = read(&own);
    nonce["nonce"] = read(&later)["nonce"].clone();
    let mut graph = read(&later);
    for key in ["nonce", "attempt"] {
        graph[key] = read(&own)[key].clone();
    }
    assert_ne!(graph["private_graph"], read(&own)["private_graph"]);
    for (plan, field) in [(nonce, "nonce"), (graph, "")] {
        let text = serde_json::to_vec(&plan).unwrap();
        let answer = service.receive_offer(group.ids[group.turn(DUE, 0)], text).await;
        let refused = answer.expect_err("chosen");
        let names = refused.field.clone().unwrap_or_default();
        assert!(names.starts_with(field), "{names}: {refused}");
        assert!([Kind::Plan, Kind::Policy].contains(&refused.kind), "{refused}");
    }
}

#[tokio::test]
async fn a_plan_that_leaves_out_more_than_may_be_absent_is_refused() {
    let (group, me) = alone(RUN, "").await;
    let (service, due) = (group.service(me), group.due(me, DUE, 0));
    let turn = group.turn(DUE, 0);
    let three: Vec<PeerId> = [me, turn, group.turn(DUE, 1)]
        .map(|party| group.ids[party])
        .to_vec();
    // By a run file that has two of five absent.
    let terms = crate::planning::scheduled::Terms {
        text: &RUN.replace("dropouts = 1", "dropouts = 2"),
        path: "theirs.toml".as_ref(),
        list: &due.config.peers,
    };
    let attendees: Vec<Attendee> = three
        .iter()
        .map(|id| Attendee {
            id: *id,
            records: None,
        })
        .collect();
    let refused = due
        .schedule()
        .terms(&due.config.peers)
        .plan(&attendees, due.scheduled)
        .unwrap_err();
    assert!(
        refused
            .message
            .contains("3 of 5 members take part, and 4 are needed"),
        "{refused}"
    );
    if let Ok(plan) = terms.plan(&attendees, due.scheduled) {
        let answer = service.receive_offer(group.ids[turn], bytes(&plan)).await;
        assert!(said(answer).contains("4 are needed"));
    }
}

#[tokio::test]
async fn an_attempt_is_accepted_while_it_lasts_by_clocks_that_are_a_minute_apart() {
    let (group, me) = alone(RUN, "").await;
    let (service, due) = (group.service(me), group.due(me, DUE, 0));
    let turn = group.ids[group.turn(DUE, 0)];
    for early_or_late in [DUE - 61, DUE + 151, DUE + DAY, DUE - 3600] {
        group.set(early_or_late);
        let refused = service.attend(turn, due.scheduled).await.unwrap_err();
        assert!(refused.message.contains("this node's clock shows"), "{refused}");
        let answer = service
            .receive_offer(turn, bytes(&plan_of(&due, &group.ids)))
            .await;
        assert!(said(answer).contains("attempt 0 of weekly begins at 2026-11-27 03:00 UTC"));
    }
    for just in [DUE - 60, DUE + 150] {
        group.set(just);
        service.attend(turn, due.scheduled).await.unwrap();
    }
    // After the window nobody proposes.
    let attempts = due.schedule().attempts();
    assert_eq!(attempts, 20);
    group.set(DUE + 1800);
    let late = group.due(me, DUE, attempts);
    let refused = service
        .attend(late.proposer().unwrap(), late.scheduled)
        .await
        .unwrap_err();
    assert!(
        refused.message.contains("after the window of 1800 s"),
        "{refused}"
    );
    let answer = service
        .receive_offer(turn, bytes(&plan_of(&due, &group.ids)))
        .await;
    assert!(said(answer).contains("this node's clock shows"));
}

/// A proposer's plan of today comes again tomorrow, and one of another run file.
#[tokio::test]
async fn an_occurrence_is_of_one_list_one_run_file_and_one_time() {
    let (group, me) = alone(RUN, "").await;
    let service = group.service(me);
    let mut due = group.due(me, DUE, 0);
    let turn = group.ids[group.turn(DUE, 0)];
    let other = Group::new(5, &RUN.replace("0.1", "0.2"), "");
    let elsewhere = other.due(0, DUE, 0);
    due.scheduled = elsewhere.scheduled;
    let answer = service
        .receive_offer(turn, bytes(&plan_of(&due, &group.ids)))
        .await;
    assert!(said(answer).contains("no schedule of this node is due"));
    let refused = service.attend(turn, elsewhere.scheduled).await.unwrap_err();
    assert!(
        refused.message.contains("no schedule of this node is due"),
        "{refused}"
    );
}

/// The mark of an occurrence lasts, whichever attempt's plan was spent.
#[tokio::test]
async fn a_spent_occurrence_is_attended_and_accepted_no_more_also_after_a_restart() {
    let (mut group, me) = alone(RUN, "").await;
    let due = group.due(me, DUE, 0);
    let occurrence = due.scheduled.occurrence.to_string();
    let plan = Arc::new(plan_of(&due, &group.ids));
    group
        .service(me)
        .shared
        .ledger()
        .spend_occurrence(&occurrence)
        .unwrap();
    for _ in 0..2 {
        let (service, turn) = (group.service(me), group.ids[group.turn(DUE, 0)]);
        let refused = service.attend(turn, due.scheduled).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Spent);
        let answer = service.receive_offer(turn, bytes(&plan)).await.unwrap_err();
        assert_eq!(answer.kind, Kind::Spent, "{answer}");
        let twice = service.shared.ledger().spend_occurrence(&occurrence).unwrap_err();
        assert_eq!(twice.kind, Kind::Spent);
        group.stop(me).await;
        group.start_silent(me).await;
    }
}

#[tokio::test]
async fn who_has_an_old_file_none_or_no_budget_sits_out() {
    let (group, me) = alone(RUN, "fresh = \"20h\"\n").await;
    let (service, due) = (group.service(me), group.due(me, DUE, 0));
    let turn = group.ids[group.turn(DUE, 0)];
    let path = due.file();
    let write = |text: &str, age_s: i64| {
        std::fs::write(&path, text).unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(DUE.saturating_add_signed(-age_s));
        file.set_modified(at).unwrap();
    };
    write("0.25\n0.5\n", 20 * 3600 + 1);
    let refused = service.attend(turn, due.scheduled).await.unwrap_err();
    assert!(refused.message.contains("fresh is 72000 s"), "{refused}");
    let reason = service.shared.timetable.occasions("weekly")[0]
        .reason
        .clone()
        .unwrap();
    assert!(reason.contains("sits it out"), "{reason}");
    write("0.25\n0.5\n", -61);
    let refused = service.attend(turn, due.scheduled).await.unwrap_err();
    assert!(
        refused.message.contains("61 s ahead of this node's clock"),
        "{refused}"
    );
    for age_s in [-60, 3600] {
        write("0.25\n0.5\n", age_s);
        service.attend(turn, due.scheduled).await.unwrap();
    }
    // Written between the answer and the run.
    let scheduled = Some(due.scheduled);
    service.shared.timetable.check_file(scheduled, &path).unwrap();
    write("0.25\n0.75\n", 3599);
    let failure = service.shared.timetable.check_file(scheduled, &path).unwrap_err();
    assert!(failure.message.contains("is another than"), "{failure}");
    // The budget of five at ε = 5 pays for some, and then for none.
    service.look_ahead().await;
    let schedule = due.schedule();
    let paid = service.runs_paid_for(&due.config, schedule, None).unwrap();
    assert!((100..1000).contains(&paid), "{paid}");
    let forecast = service.shared.schedules.forecast(&due.config, schedule).unwrap();
    let totals = crate::daemon::contribution::totals(&due.config, &forecast.protected);
    for run in 0..paid {
        let (digest, of) = (format!("{run:064x}"), forecast.protected.clone());
        let mut ledger = service.shared.ledger();
        ledger
            .reserve(&digest, of, forecast.charge, totals.clone())
            .unwrap();
    }
    let refused = service.attend(turn, due.scheduled).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Budget, "{refused}");
    std::fs::remove_file(&path).unwrap();
    let refused = service.attend(turn, due.scheduled).await.unwrap_err();
    assert!(refused.message.contains("no file that can be read"), "{refused}");
}
