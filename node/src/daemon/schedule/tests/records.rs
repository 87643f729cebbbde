//! Numbers of records that members say, and that no plan can have or none should.

use super::group::{DUE, Group};
use super::{alone, bytes, said};
use crate::daemon::schedule::attending::Due;
use crate::daemon::schedule::file_stamp::FileStamp;
use crate::daemon::status::OfferState;
use crate::planning::scheduled::Attendee;

const ROWS: &str = "name = \"weekly\"\n[data]\nnoise_ok = true\nshape = [1]\nunit = \"record\"\n\
                    clip = { kind = \"l2\", radius = 1.0 }\n[privacy]\nepsilon = 0.1\ndropouts = 1\n";

/// Below the schedule's keys: the file's rows, with a budget of their own.
const SET: &str =
    "[[data_set]]\nname = \"ward\"\nunit = \"record\"\nfile = \"ward.csv\"\nepsilon = 5.0\ndelta = 1e-5\n";

/// The plan of the five at an attempt, each with so many rows.
fn plan_with(due: &Due, group: &Group, records: [u32; 5]) -> Vec<u8> {
    let attendees = group.ids.iter().zip(records);
    let attendees: Vec<Attendee> = attendees
        .map(|(id, records)| Attendee {
            id: *id,
            records: Some(records),
        })
        .collect();
    let terms = due.schedule().terms(&due.config.peers);
    bytes(&terms.plan(&attendees, due.scheduled).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_says_a_number_that_no_plan_can_have_does_not_attend() {
    let mut group = Group::new(5, ROWS, SET);
    for party in 0..5 {
        group.start_silent(party).await;
    }
    for (day, lie) in [0, u32::MAX].into_iter().enumerate() {
        let due_s = DUE + super::DAY * day as u64;
        let (turn, liar) = (group.turn(due_s, 0), (group.turn(due_s, 0) + 1) % 5);
        // The number that it has counted, as it says.
        let file = FileStamp::of(&group.due(liar, due_s, 0).file()).unwrap();
        let schedules = &group.service(liar).shared.schedules;
        schedules.count("weekly", (file, lie));
        // Enough attend, and are not waited for any longer.
        group.set(due_s + 21);
        let due = group.due(turn, due_s, 0);
        let service = group.service(turn);
        service.propose_attempt(due).await;
        let occasion = service.shared.timetable.occasions("weekly").remove(0);
        assert_eq!(occasion.absent, [format!("lab-{liar}")], "{occasion:?}");
        assert_eq!(occasion.members.len(), 4, "{occasion:?}");
        for party in 0..5 {
            group.stop(party).await;
            group.start_silent(party).await;
        }
    }
}

#[tokio::test]
async fn a_plan_in_which_a_member_has_more_rows_than_the_bound_is_refused() {
    let (group, me) = alone(ROWS, &format!("records_at_most = 5000\n{SET}")).await;
    let (service, due) = (group.service(me), group.due(me, DUE, 0));
    let from = group.ids[group.turn(DUE, 0)];
    let mut records = [5000; 5];
    records[me] = 2;
    for (count, reason) in [
        (
            Some(5001),
            "brings 5001 records, and schedule.records_at_most allows 1 to 5000",
        ),
        (Some(0), "brings 0 records"),
        (None, "did not say"),
    ] {
        let refused = due.admit(count).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
    let large = (me + 1) % 5;
    records[large] = 5001;
    let answer = service
        .receive_offer(from, plan_with(&due, &group, records))
        .await;
    let refused = answer.unwrap_err();
    assert_eq!(refused.field.as_deref(), Some("data.records"), "{refused}");
    assert!(
        refused.message.starts_with(&format!("lab-{large}: ")),
        "{refused}"
    );
    // The next attempt's plan is within it.
    let (next, from) = (group.due(me, DUE, 1), group.ids[group.turn(DUE, 1)]);
    group.set(DUE + 90);
    records[large] = 5000;
    let plan = plan_with(&next, &group, records);
    assert_eq!(service.receive_offer(from, plan).await, Ok(OfferState::Accepted));
}

#[tokio::test]
async fn who_has_no_rows_or_more_than_the_bound_sits_out() {
    let (group, me) = alone(ROWS, &format!("records_at_most = 1\n{SET}")).await;
    let due = group.due(me, DUE, 0);
    let from = group.ids[group.turn(DUE, 0)];
    let answer = group.service(me).attend(from, due.scheduled).await;
    let refused = said(answer.map(|_| OfferState::Open));
    assert!(
        refused.contains("this node's own file: it brings 2 records"),
        "{refused}"
    );
}
