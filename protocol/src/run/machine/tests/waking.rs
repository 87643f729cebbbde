//! A node that arrives late, and whose words it goes on with.

use super::*;
use crate::messages::notice::LateArrivals;
use crate::messages::signing::Signer;

/// Long after every deadline.
const LATE: u64 = 600_000;

/// Party 0 of three, which has marked its plan and then not run until every deadline was over. All
/// three make a quorum.
fn woken(lines: &str) -> (Arc<Plan>, Run) {
    let plan = plan(3, lines, 2);
    let (mut run, _) = up_to_start(&plan);
    run.handle(at(3), Input::Spent(Ok(()))).expect("asked");
    drain(&mut run);
    assert_eq!(stage_of(&run), "mixing");
    assert_eq!(plan.draft().run.quorum, 3);
    assert!(!run.oversleeps(1, at(4)), "a moment is nothing");
    assert!(run.oversleeps(LATE, at(LATE)));
    run.handle(at(4), Input::Tick).expect("time");
    (plan, run)
}

fn arrivals(entries: &[(Party, u8)]) -> Notice {
    let entry = |&(party, count): &(Party, u8)| LateArrivals { party, count };
    Notice::Awake {
        arrivals: entries.iter().map(entry).collect(),
    }
}

/// Returns party 0's notices of late arrivals since.
fn said(outputs: &[Output]) -> Vec<Notice> {
    let frames = public_frames(outputs).into_iter();
    let notices = frames.filter_map(|frame| match wire::read_public(&Bytes::from_owner(frame)).ok()? {
        wire::PublicFrame::Notice(signed) if signed.author == 0 => Some(signed.notice),
        _ => None,
    });
    let mut notices: Vec<Notice> = notices
        .filter(|notice| matches!(notice, Notice::Awake { .. }))
        .collect();
    notices.dedup();
    notices
}

/// Another party says how often it has heard of late arrivals.
fn says(run: &mut Run, plan: &Plan, party: Party, (sequence, now): (u64, u64), entries: &[(Party, u8)]) {
    let mut signer = Signer::new(party, *plan.digest(), simulated_keypair(party), sequence);
    let signed = signer.sign(Recipient::All, arrivals(entries)).expect("a key");
    let frame = Bytes::from_owner(wire::notice_frame(&signed));
    run.handle(at(now), Input::Public { from: party, frame })
        .expect("in the plan");
}

fn ending(outputs: &[Output]) -> Option<Box<crate::run::outcome::Outcome>> {
    outputs.iter().find_map(|output| match output {
        Output::Finished(outcome) => Some(outcome.clone()),
        _ => None,
    })
}

#[test]
fn late_node_goes_on_once_a_quorum_names_its_arrival() {
    let (plan, mut run) = woken("");
    assert_eq!(said(&drain(&mut run)), [arrivals(&[(0, 1)])]);
    says(&mut run, &plan, 1, (1 << 40, 5), &[(0, 1)]);
    assert!(run.waits_for_words(), "two are no quorum");
    says(&mut run, &plan, 2, (1 << 40, 6), &[(0, 1), (2, 3)]);
    assert!(!run.waits_for_words());
    assert_eq!(stage_of(&run), "mixing", "it goes on by its clock");
    let late = plan.draft().run.settle_ms / 32;
    run.handle(at(6 + late), Input::Tick).expect("time");
    assert_eq!(
        said(&drain(&mut run)),
        [arrivals(&[(0, 1), (2, 3)])],
        "it still waits for logs itself"
    );
}

/// Words of liars who say nothing new, words about an earlier arrival, and its own alone.
#[test]
fn late_node_leaves_without_sealing_where_no_quorum_names_its_latest_arrival() {
    for lines in ["", READABLE] {
        let (plan, mut run) = woken(lines);
        says(&mut run, &plan, 1, (1 << 40, 5), &[(0, 1)]);
        says(&mut run, &plan, 2, (1 << 40, 5), &[(1, 1)]);
        assert!(run.oversleeps(LATE, at(LATE)), "it sleeps again");
        run.handle(at(7), Input::Tick).expect("time");
        says(&mut run, &plan, 2, (1 << 41, 8), &[(0, 1)]);
        assert!(run.waits_for_words(), "of its first arrival only");
        let end = 7 + plan.draft().run.settle_ms;
        run.handle(at(end), Input::Tick).expect("time");
        let mut outputs = drain(&mut run);
        let asked = outputs.iter().find_map(|output| match output {
            Output::Recall(shares) => Some(shares.clone()),
            _ => None,
        });
        let recalled = Recalled {
            left: asked.clone().unwrap_or_default(),
            back: vec![],
        };
        if asked.is_some() {
            run.handle(at(end), Input::Recalled(recalled)).expect("asked");
            outputs.extend(drain(&mut run));
        }
        let outcome = ending(&outputs).expect("it leaves");
        assert_eq!((outcome.sealed, outcome.own_log), (None, None));
        let Ending::Withheld { reason } = outcome.ending else {
            panic!("shares have left: {:?}", outcome.ending);
        };
        assert!(
            reason.contains("by 1, itself counted, of the ") && reason.contains("sealed nothing"),
            "{reason}"
        );
    }
}

#[test]
fn node_that_arrives_late_too_often_is_heard_no_more() {
    let (_, mut run) = woken("");
    for time in 5..9 {
        assert!(run.oversleeps(LATE, at(LATE)));
        run.handle(at(time), Input::Tick).expect("time");
    }
    assert!(!run.waits_for_words(), "it leaves at once");
}

#[test]
fn malformed_words_of_late_arrivals_are_refused() {
    let (plan, mut run) = woken("");
    drain(&mut run);
    for entries in [
        &[(3, 1)][..],
        &[(1, 0)],
        &[(1, 200)],
        &[(2, 1), (1, 1)],
        &[(1, 1), (1, 2)],
    ] {
        says(&mut run, &plan, 1, (1 << 40, 5), entries);
        assert_eq!(offences(&drain(&mut run)).len(), 1, "{entries:?}");
    }
}

/// Its sealed vector is out, and cannot be taken back: the others' words change nothing.
#[test]
fn late_node_that_has_sealed_waits_for_no_words() {
    let (mut run, _) = up_to_start(&among(3, PAIRWISE));
    run.handle(at(3), Input::Spent(Ok(()))).expect("asked");
    drain(&mut run);
    assert_eq!(stage_of(&run), "settling");
    assert!(run.record.sealed.is_some());
    assert!(run.oversleeps(LATE, at(LATE)), "its clock stands still");
    assert!(!run.waits_for_words());
    run.handle(at(4), Input::Tick).expect("time");
    assert_eq!(said(&drain(&mut run)), []);
}

/// Whichever comes first, the mark or the words: no share leaves before both are here.
#[test]
fn late_node_mixes_once_its_mark_and_the_words_are_here() {
    let plan = plan(3, "", 2);
    for words_first in [true, false] {
        let (mut run, _) = up_to_start(&plan);
        assert!(run.oversleeps(LATE, at(LATE)));
        run.handle(at(4), Input::Tick).expect("time");
        for part in [words_first, !words_first] {
            assert_eq!(stage_of(&run), "spending");
            match part {
                true => (1..3).for_each(|party| says(&mut run, &plan, party, (1 << 40, 5), &[(0, 1)])),
                false => run.handle(at(6), Input::Spent(Ok(()))).expect("asked"),
            }
        }
        assert_eq!(stage_of(&run), "mixing");
        let shares = drain(&mut run);
        let shares = shares
            .iter()
            .filter(|output| matches!(output, Output::Private { .. }));
        assert!(shares.count() > 0);
    }
}

/// From half of settling on lists of logs go out without those who are late: who names an arrival
/// then would have its author seal for nobody.
#[test]
fn an_arrival_is_named_until_lists_of_logs_are_due() {
    let plan = plan(3, "", 2);
    for (after, named) in [(-1, true), (0, false)] {
        let (mut run, _) = up_to_start(&plan);
        run.handle(at(3), Input::Spent(Ok(()))).expect("asked");
        drain(&mut run);
        let now = run.settling_half().as_millis().saturating_add_signed(after);
        says(&mut run, &plan, 1, (1 << 40, now), &[(1, 1)]);
        let expected = named.then(|| arrivals(&[(1, 1)]));
        assert_eq!(
            said(&drain(&mut run)),
            Vec::from_iter(expected),
            "{after} ms after half"
        );
    }
}
