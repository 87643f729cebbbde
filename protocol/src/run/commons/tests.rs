use super::*;
use crate::averaging::sketch;
use crate::messages::notice::{ItemSet, Seat, Sketch, Unreached};
use crate::messages::signature::Signature;
use crate::run::backlog::Backlog;
use crate::run::machine::Run;
use crate::run::machine::tests::run_of;
use crate::simulator::cluster::tests::plan;

/// A run at its very end in which everything happened that may: everybody signed a list and a vote
/// of all in either stage; as many as the plan tolerates departed or lied, so that all others
/// called them gone and cut them off, and they all others.
fn all_notices(author: Party, parties: usize, suspects: usize) -> Vec<Notice> {
    let set = || -> ItemSet { (0..parties).map(|party| (party, [7; 32])).collect() };
    let seats = (0..parties)
        .map(|party| Seat {
            party,
            incarnation: [party as u8; 16],
        })
        .collect();
    let sketch = Sketch {
        seed: sketch::Seed::default(),
        sums: [i64::MAX; sketch::SUMS],
    };
    let sums = |number: u8| Notice::Sums {
        number,
        unheard: (0..parties).collect(),
        sketch: Box::new(sketch),
    };
    let unreached = |party| Unreached {
        party,
        ready: Some([5; 16]),
        silent: true,
    };
    let mut notices = vec![
        Notice::Commit {
            incarnation: [1; 16],
            commitment: [2; 32],
        },
        Notice::Reveal {
            seats,
            commitments: [3; 32],
            nonce: [4; 32],
        },
        Notice::Unreached {
            parties: (0..parties).map(unreached).collect(),
        },
        Notice::Missed,
        Notice::Averaged { whole: true },
    ];
    notices.extend((0..sketch::MOST_SKETCHES).map(sums));
    let about = 0..if author < suspects { parties } else { suspects };
    notices.extend(about.clone().map(|party| Notice::Severed { party, held: true }));
    for stage in Stage::ALL {
        notices.push(Notice::Item {
            stage,
            hash: [7; 32],
            bytes: 1,
        });
        notices.push(Notice::List { stage, set: set() });
        notices.push(Notice::Vote {
            stage,
            early: true,
            set: set(),
        });
        notices.extend(about.clone().map(|party| Notice::Gone { stage, party }));
    }
    notices
}

/// What a new connection gets of these authors' notices, with every item's body, which is more:
/// bodies of others have to be asked for.
fn pushed(plan: &Arc<Plan>, authors: impl Iterator<Item = Party>) -> Backlog {
    let (parties, privacy) = (plan.parties(), &plan.draft().privacy);
    let mut run = run_of(plan, 0);
    let commons = &mut run.commons;
    for author in authors {
        for notice in all_notices(author, parties, privacy.dropouts + privacy.colluding) {
            let (recipient, signature) = (Recipient::All, Signature([9; 64]));
            let signed = SignedNotice {
                author,
                digest: *plan.digest(),
                sequence: u64::MAX,
                recipient,
                notice,
                signature,
            };
            commons.flood.publish(signed);
        }
        for stage in Stage::ALL {
            let length = if stage == Stage::Settling {
                commons.rules.log_limit()
            } else {
                commons.rules.way.item_limit()
            };
            let frame = wire::body_frame(plan.digest(), stage, author, &vec![0; length]);
            commons.items_mut(stage).keep_own(author, frame.clone(), length);
        }
    }
    commons.outbox.clear();
    let peer = plan.draft().public_graph.neighbours(0)[0];
    commons.connected(peer);
    let bodies = Stage::ALL
        .into_iter()
        .flat_map(|stage| (0..parties).flat_map(move |author| [(stage, author)]));
    let bodies: Vec<_> = bodies
        .flat_map(|(stage, author)| commons.items_mut(stage).serve(author, peer))
        .collect();
    bodies.into_iter().for_each(|body| commons.send(peer, body));
    let frames: Vec<usize> = commons
        .outbox
        .iter()
        .map(|output| match output {
            Output::Public { to, frame } if *to == peer => frame.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    Backlog {
        frames: frames.len(),
        bytes: frames.iter().sum(),
    }
}

fn many(parties: usize) -> Arc<Plan> {
    let regular = "{ kind = \"random-regular\", degree = 8 }";
    plan(
        parties,
        &format!("[privacy]\ndropouts = 3\n[topology]\nprivate = {regular}\npublic = {regular}\n"),
        2,
    )
}

#[test]
fn what_a_new_connection_gets_fits_the_queue_towards_it() {
    let plan = many(300);
    let (pushed, owed) = (pushed(&plan, 0..300), Run::most_owed(&plan));
    assert!(
        pushed.frames > 15 * 300 && pushed.frames <= owed.frames,
        "{pushed:?}, {owed:?}"
    );
    assert!(
        pushed.bytes > 215 * 300 * 300 && pushed.bytes <= owed.bytes,
        "{pushed:?}, {owed:?}"
    );
    // Not without limits either.
    assert!(
        owed.frames < 20 * pushed.frames && owed.bytes < 4 * pushed.bytes,
        "{pushed:?}, {owed:?}"
    );
}

/// In the largest plan there is each party that is beyond suspicion adds the same, so that a few of
/// them stand for all.
#[test]
fn what_a_new_connection_gets_fits_the_queue_in_the_largest_plan() {
    let parties = crate::plan::run_file::limits::MOST_PARTIES;
    let plan = many(parties);
    let privacy = &plan.draft().privacy;
    let suspects = privacy.dropouts + privacy.colluding;
    let (lying, few) = (pushed(&plan, 0..suspects), pushed(&plan, suspects..suspects + 16));
    let rest = parties - suspects;
    let all = Backlog {
        frames: lying.frames + few.frames * rest / 16,
        bytes: lying.bytes + few.bytes * rest / 16,
    };
    let owed = Run::most_owed(&plan);
    assert!(
        all.frames > 15 * parties && all.frames <= owed.frames,
        "{all:?}, {owed:?}"
    );
    assert!(
        all.bytes > 215 * parties * parties && all.bytes <= owed.bytes,
        "{all:?}, {owed:?}"
    );
}
