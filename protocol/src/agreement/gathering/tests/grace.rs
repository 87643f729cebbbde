//! For how long those are waited for who cannot be reached, and what is said of them.

use super::*;

#[test]
fn those_who_refuse_cost_the_grace_and_those_who_are_silent_the_deadline() {
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.ready(party));
    assert_eq!(bench.step(10), None, "party 3 may still come");
    bench.machine.presence.refused(3, None);
    assert_eq!(bench.step(20), None);
    assert_eq!(bench.wake(20), 20 + GRACE_MS);
    assert_eq!(bench.step(19 + GRACE_MS), None);
    assert_eq!(bench.step(20 + GRACE_MS), signs(&[0, 1, 2]));
    // Who is connected again within the grace is waited for.
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.ready(party));
    bench.machine.presence.refused(3, None);
    assert_eq!(bench.step(20), None);
    bench
        .machine
        .presence
        .connected(Network::Public, 3, Time::from_millis(50));
    assert_eq!(bench.step(20 + GRACE_MS), None);
    bench.ready(3);
    assert_eq!(bench.step(21 + GRACE_MS), signs(&[0, 1, 2, 3]));
}

#[test]
fn those_for_whom_nothing_answers_cost_the_grace_too() {
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.ready(party));
    bench.machine.presence.unanswered(3);
    assert_eq!(bench.step(20), None);
    assert_eq!(bench.wake(20), 20 + GRACE_MS);
    assert_eq!(bench.step(20 + GRACE_MS), signs(&[0, 1, 2]));
    assert_eq!(bench.without(20 + GRACE_MS), [(3, Standing::Unanswered)]);
}

/// It joins the START of others that have found out before it.
#[test]
fn a_reason_that_is_found_after_its_own_start_is_the_one_that_is_said() {
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.ready(party));
    bench.hear_start(1, &seats(&[0, 1, 2]));
    bench.hear_start(2, &seats(&[0, 1, 2]));
    assert_eq!(bench.step(5), signs(&[0, 1, 2]));
    assert_eq!(bench.without(5), [(3, Standing::Awaited)]);
    bench.machine.presence.unanswered(3);
    assert_eq!(bench.without(6), [(3, Standing::Unanswered)]);
    // A START is early as long as there is time to be ready.
    let early = |ms| bench.machine.is_within_join(Time::from_millis(ms));
    assert!(early(JOIN_MS - 1) && !early(JOIN_MS));
}

/// The grace is that of the set that is ready: each who comes within it has it begin anew.
#[test]
fn the_grace_begins_anew_when_somebody_else_is_ready() {
    let mut bench = Bench::of(6);
    bench.machine.attendance.min_parties = 3;
    (1..3).for_each(|party| bench.ready(party));
    (3..6).for_each(|party| bench.machine.presence.refused(party, None));
    assert_eq!(bench.step(20), None);
    bench
        .machine
        .presence
        .connected(Network::Public, 3, Time::from_millis(60));
    bench.ready(3);
    assert_eq!(bench.step(60), None);
    assert_eq!(bench.wake(60), 60 + GRACE_MS, "a whole grace from here");
    assert_eq!(bench.step(20 + GRACE_MS), None, "that of the first three");
    assert_eq!(bench.step(59 + GRACE_MS), None);
    assert_eq!(bench.step(60 + GRACE_MS), signs(&[0, 1, 2, 3]));
}
