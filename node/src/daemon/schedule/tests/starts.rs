//! STARTs that came to nothing: the next attempt of the occurrence is another chance, unless a
//! number was revealed for a draw.

use serde_json::json;

use super::group::{DUE, Group, RUN};
use super::{alone, bytes, plan_of, said};
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::runs::Run;
use crate::daemon::status::{OfferState, RunState};

async fn offer(group: &Group, me: usize, attempt: u32) -> Result<OfferState, Refusal> {
    let plan = bytes(&plan_of(&group.due(me, DUE, attempt), &group.ids));
    let from = group.ids[group.turn(DUE, attempt)];
    group.service(me).receive_offer(from, plan).await
}

/// The run of attempt 0, whose START this node has signed.
async fn signed(group: &Group, me: usize) -> std::sync::Arc<Run> {
    offer(group, me, 0).await.unwrap();
    let run = group.service(me).known(&group.runs(DUE)[0][0].digest).unwrap();
    run.listener().emit("lab", "signed", json!({ "ready": 5 }));
    group.set(DUE + 90);
    assert!(said(offer(group, me, 1).await).contains("has signed START of attempt 0"));
    run
}

#[tokio::test]
async fn after_a_start_that_came_to_nothing_the_run_can_be_left_for_the_next_attempt() {
    let (group, me) = alone(RUN, "").await;
    let run = signed(&group, me).await;
    // The network failed before anybody began: it waits for its members again.
    run.wait_again();
    assert_eq!(run.status().state, RunState::Accepted);
    let due = group.due(me, DUE, 1);
    let turn = group.ids[group.turn(DUE, 1)];
    group.service(me).attend(turn, due.scheduled).await.unwrap();
    assert_eq!(offer(&group, me, 1).await, Ok(OfferState::Accepted));
    assert_eq!(run.status().state, RunState::Withdrawn);
}

#[tokio::test]
async fn a_run_that_is_over_without_a_charge_does_not_close_the_occurrence() {
    let (group, me) = alone(RUN, "").await;
    let run = signed(&group, me).await;
    run.end(None, |status| status.state = RunState::Ended);
    let due = group.due(me, DUE, 1);
    let turn = group.ids[group.turn(DUE, 1)];
    group.service(me).attend(turn, due.scheduled).await.unwrap();
    assert_eq!(offer(&group, me, 1).await, Ok(OfferState::Accepted));
}

/// A member that ends STARTs would have as many draws of each attempt as a plan lets be tried.
#[tokio::test]
async fn who_has_revealed_a_number_for_a_draw_takes_no_other_attempt_also_after_a_restart() {
    let (mut group, me) = alone(RUN, "").await;
    let run = signed(&group, me).await;
    let digest = run.status().digest;
    group.service(me).shared.ledger().reveal(&digest).unwrap();
    // The START that revealed it came to nothing, and the run gathered anew.
    run.listener()
        .emit("lab", "phase", json!({ "phase": "gathering" }));
    let reason = "has revealed a number for the draw of attempt 0";
    assert!(said(offer(&group, me, 1).await).contains(reason));
    run.end(None, |status| status.state = RunState::Ended);
    for _ in 0..2 {
        let (service, due) = (group.service(me), group.due(me, DUE, 1));
        let turn = group.ids[group.turn(DUE, 1)];
        let refused = service.attend(turn, due.scheduled).await.unwrap_err();
        assert!(refused.message.contains(reason), "{refused}");
        assert!(said(offer(&group, me, 1).await).contains(reason));
        group.stop(me).await;
        group.start_silent(me).await;
    }
}

/// A peer list or run file that changes within the window gives another occurrence.
#[tokio::test]
async fn a_due_time_is_charged_once_also_where_the_run_file_changes_within_the_window() {
    let (mut group, me) = alone(RUN, "").await;
    let run = signed(&group, me).await;
    let before = run.status().occurrence.unwrap();
    group
        .service(me)
        .shared
        .ledger()
        .spend_occurrence(&before)
        .unwrap();
    group.stop(me).await;
    std::fs::write(group.path("weekly.toml"), RUN.replace("0.1", "0.2")).unwrap();
    group.start_silent(me).await;
    let due = group.due(me, DUE, 1);
    assert_ne!(due.scheduled.occurrence.to_string(), before);
    let turn = group.ids[group.turn(DUE, 1)];
    let refused = group.service(me).attend(turn, due.scheduled).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Spent, "{refused}");
    assert!(
        refused.message.contains("by another peer list or run file"),
        "{refused}"
    );
    assert!(said(offer(&group, me, 1).await).contains("by another peer list or run file"));
}

/// A plan of attempt `attempt` that this node does not make itself.
async fn worthless(group: &Group, me: usize, attempt: u32) -> String {
    let due = group.due(me, DUE, attempt);
    let text = RUN.replace("0.1", "0.2");
    let terms = crate::planning::scheduled::Terms {
        text: &text,
        path: "theirs.toml".as_ref(),
        list: &due.config.peers,
    };
    let own = crate::planning::scheduled::attendees(&plan_of(&due, &group.ids));
    let plan = bytes(&terms.plan(&own, due.scheduled).unwrap());
    let from = group.ids[group.turn(DUE, attempt)];
    said(group.service(me).receive_offer(from, plan).await)
}

#[tokio::test]
async fn a_worthless_offer_of_the_next_attempt_leaves_the_one_that_was_taken() {
    let (group, me) = alone(RUN, "").await;
    let occasion = || group.service(me).shared.timetable.occasions("weekly").remove(0);
    offer(&group, me, 0).await.unwrap();
    let before = occasion();
    group.set(DUE + 75);
    assert!(
        worthless(&group, me, 1)
            .await
            .contains("own run file and peer list give")
    );
    let after = occasion();
    assert_eq!((after.attempt, &after.digest), (Some(0), &before.digest));
    assert_eq!(group.runs(DUE)[0][0].state, RunState::Accepted);
    assert!(said(offer(&group, me, 1).await).contains("second offer of attempt 1"));
    // Where attempt 0 has signed START meanwhile, it is still known, and stayed in.
    let run = group.service(me).known(&before.digest.unwrap()).unwrap();
    run.listener().emit("lab", "signed", json!({ "ready": 5 }));
    group.set(DUE + 180);
    assert!(said(offer(&group, me, 2).await).contains("has signed START of attempt 0"));
}

#[tokio::test]
async fn an_attempt_has_its_time_before_the_next_one_is_taken() {
    let (group, me) = alone(RUN, "").await;
    let (service, next) = (group.service(me), group.due(me, DUE, 1).scheduled);
    group.set(DUE + 20);
    offer(&group, me, 0).await.unwrap();
    group.set(DUE + 64);
    assert!(service.is_early(next).is_some(), "its proposer asks again");
    assert!(said(offer(&group, me, 1).await).contains("attempt 0 may start until 2026-11-27 03:01 UTC"));
    group.set(DUE + 65);
    assert_eq!(service.is_early(next), None);
    assert_eq!(offer(&group, me, 1).await, Ok(OfferState::Accepted));
}

#[tokio::test]
async fn an_attempt_whose_offer_was_refused_or_is_over_keeps_no_other_out() {
    let (group, me) = alone(RUN, "").await;
    worthless(&group, me, 0).await;
    group.set(DUE + 31);
    let next = group.due(me, DUE, 1).scheduled;
    assert_eq!(group.service(me).is_early(next), None);
    assert_eq!(offer(&group, me, 1).await, Ok(OfferState::Accepted));
    let run = group.service(me).known(&group.runs(DUE)[0][0].digest).unwrap();
    run.end(None, |status| status.state = RunState::Ended);
    group.set(DUE + 121);
    assert_eq!(offer(&group, me, 2).await, Ok(OfferState::Accepted));
}
