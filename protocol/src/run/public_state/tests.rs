use super::*;
use crate::messages::log::{SentEntry, ShareId, Verdict};
use crate::messages::notice::{Disclosed, Found, LateArrivals, Unreached};
use crate::messages::row::Row;
use crate::messages::signature::Signature;
use crate::messages::signing::Members;
use crate::messages::stage::Stages;
use crate::mixing::parameters::MixingParameters;
use crate::plan::checked::Plan;
use crate::plan::peers::simulated_keypair;
use crate::run::backlog::Backlog;
use crate::run::interface::Input;
use crate::run::item_rules::stages;
use crate::run::machine::Run;
use crate::run::machine::tests::run_of;
use crate::simulator::cluster::tests::plan;

/// A run at its very end in which everything happened that may: everybody signed a list and a vote
/// of all in each stage; as many as the plan tolerates departed or lied, so that all others called
/// them gone, and they all others.
fn all_notices(plan: &Plan, author: Party) -> Vec<Notice> {
    let (parties, privacy) = (plan.parties(), &plan.draft().privacy);
    let suspects = privacy.dropouts + privacy.colluding;
    let versions = || (0..parties).map(|party| (party, [7; 32])).collect();
    let unreached = |party| Unreached {
        party,
        ready: Some([5; 16]),
        found: Found::Silent,
    };
    let mut notices = vec![
        Notice::Commit {
            key: [1; 32],
            pair: None,
            records: None,
            commitment: [2; 32],
        },
        Notice::Reveal {
            number: 0,
            incarnation: [author as u8; 16],
            seats: [6; 32],
            commitments: [3; 32],
            nonce: [4; 32],
        },
        Notice::Unreached {
            parties: (0..parties).map(unreached).collect(),
        },
        Notice::Awake {
            arrivals: (0..parties)
                .map(|party| LateArrivals { party, count: 1 })
                .collect(),
        },
        Notice::Missed,
        Notice::Averaged,
    ];
    let about = 0..if author < suspects { parties } else { suspects };
    let of_plan = stages(plan, &MixingParameters::of(plan, 0));
    for stage in of_plan.all() {
        notices.push(Notice::Item {
            stage,
            hash: [7; 32],
            bytes: 1,
        });
        if of_plan.agree_in(stage) {
            notices.push(Notice::List {
                stage,
                held: Row::of(parties, 0..parties),
                versions: versions(),
            });
            notices.push(Notice::Vote {
                stage,
                early: true,
                set: [7; 32],
            });
        }
        notices.extend(about.clone().map(|party| Notice::Unreachable { stage, party }));
    }
    notices.extend(all_disclosures(plan, author));
    notices
}

/// Returns all secrets and shares of a party that open sealed finals: its own secret, and its
/// shares of others'.
fn all_disclosures(plan: &Plan, author: Party) -> Vec<Notice> {
    let parties = plan.parties();
    let Some(threshold) = plan.threshold(parties).expect("enough parties") else {
        return Vec::new();
    };
    let (round, secret) = (0, Disclosed([1; 32]));
    let of = (1..=threshold.holders()).map(|next| (author + next) % parties);
    let shares = of.map(|of| Notice::Share {
        round,
        of: of as u32,
        share: secret,
    });
    shares.chain([Notice::Key { round, secret }]).collect()
}

/// Returns the frames that a new connection gets of these authors' notices, with every item's body.
/// That is more than in a run, where bodies of others have to be asked for.
fn pushed(plan: &Arc<Plan>, authors: impl Iterator<Item = Party>) -> Backlog {
    let parties = plan.parties();
    let mut run = run_of(plan, 0);
    let public_state = &mut run.public_state;
    for author in authors {
        for notice in all_notices(plan, author) {
            let (recipient, signature) = (Recipient::All, Signature([9; 64]));
            let signed = SignedNotice {
                author,
                sequence: u64::MAX,
                recipient,
                notice,
                signature,
            };
            public_state.flood.publish(signed);
        }
        for stage in stages(plan, &MixingParameters::of(plan, 0)).all() {
            let length = if stage == Stage::Settling {
                public_state.rules.largest_of(Stage::Settling)
            } else {
                public_state.rules.way.item_limit()
            };
            let frame = wire::body_frame(stage, author, &vec![0; length]);
            public_state
                .items_mut(stage)
                .keep_own(author, frame.clone(), length);
        }
    }
    public_state.outbox.clear();
    let peer = plan.draft().public_graph.neighbours(0)[0];
    public_state.connected(peer);
    // It asks for all that it lacks at the same time.
    public_state.answer(peer, false, &[]);
    let bodies = stages(plan, &MixingParameters::of(plan, 0))
        .all()
        .into_iter()
        .flat_map(|stage| (0..parties).flat_map(move |author| [(stage, author)]));
    let bodies: Vec<_> = bodies
        .flat_map(|(stage, author)| public_state.items_mut(stage).serve(author, peer))
        .collect();
    bodies.into_iter().for_each(|body| public_state.send(peer, body));
    let frames: Vec<usize> = public_state
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

fn many(parties: usize, lines: &str) -> Arc<Plan> {
    let regular = "{ kind = \"random-regular\", degree = 8 }";
    plan(
        parties,
        &format!("[privacy]\ndropouts = 3\n[topology]\nprivate = {regular}\npublic = {regular}\n{lines}"),
        2,
    )
}

#[test]
fn what_a_new_connection_gets_of_sealed_finals_fits_the_queue_towards_it() {
    let sealed = "[run]\nsealed = true\n[mechanism]\ncorrelated = \"uniform\"";
    let plan = many(300, sealed);
    let (pushed, owed) = (pushed(&plan, 0..300), Run::most_owed(&plan));
    // READY, START and all of six stages, a secret and shares of eight others.
    assert!(pushed.frames > 40 * 300 && pushed.frames <= owed.frames);
    assert!(pushed.bytes <= owed.bytes, "{pushed:?}, {owed:?}");
    assert!(
        owed.frames < 20 * pushed.frames && owed.bytes < 5 * pushed.bytes,
        "{pushed:?}, {owed:?}"
    );
}

#[test]
fn what_a_new_connection_gets_fits_the_queue_towards_it() {
    let plan = many(300, "");
    let (pushed, owed) = (pushed(&plan, 0..300), Run::most_owed(&plan));
    assert!(
        pushed.frames > 15 * 300 && pushed.frames <= owed.frames,
        "{pushed:?}, {owed:?}"
    );
    assert!(
        pushed.bytes > 100 * 300 * 300 && pushed.bytes <= owed.bytes,
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
    let plan = many(parties, "");
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
        all.bytes > 100 * parties * parties && all.bytes <= owed.bytes,
        "{all:?}, {owed:?}"
    );
}

#[test]
fn items_of_parties_that_there_are_not_are_asked_for_in_vain() {
    let plan = plan(4, "", 3);
    let parties = plan.parties();
    let mut signer = Signer::new(1, *plan.digest(), simulated_keypair(1), 0);
    for item in [parties, usize::MAX] {
        let mut run = run_of(&plan, 0);
        for stage in Stages::READABLE.all() {
            let notice = Notice::Want { stage, item };
            let signed = signer.sign(Recipient::Party(0), notice).expect("signs");
            run.handle(
                Time::ZERO,
                Input::Public {
                    from: 1,
                    frame: wire::notice_frame(&signed).to_vec().into(),
                },
            )
            .expect("an input");
        }
        let mut offences = 0;
        loop {
            match run.poll_output() {
                Output::Wait { .. } => break,
                Output::Event(Event::Offence { peer: 1, text }) => {
                    assert!(text.contains("does not have"), "{text}");
                    offences += 1;
                }
                _ => {}
            }
        }
        assert_eq!(offences, Stages::READABLE.all().len(), "{item}");
    }
}

/// A peer that asks for an item of a stage that the plan does not have, or sends the body of one,
/// is told of and gets nothing.
#[test]
fn nothing_of_other_stages_is_taken() {
    let sealed = plan(
        8,
        "[run]\nsealed = true\n[mechanism]\ncorrelated = \"uniform\"",
        3,
    );
    let readable = plan(8, "", 3);
    let foreign = [
        (&readable, Stage::Sealed),
        (&readable, Stage::Correction(1)),
        (&sealed, Stage::Publishing),
        (&sealed, Stage::Correction(0)),
        (&sealed, Stage::Correction(3)),
        (&sealed, Stage::Correction(u32::MAX)),
    ];
    for (plan, stage) in foreign {
        assert!(!stages(plan, &MixingParameters::of(plan, 0)).has(stage));
        let mut signer = Signer::new(1, *plan.digest(), simulated_keypair(1), 0);
        let mut sign =
            |recipient, notice| wire::notice_frame(&signer.sign(recipient, notice).expect("signs")).to_vec();
        let (hash, bytes) = ([7; 32], 6);
        let frames = [
            sign(Recipient::Party(0), Notice::Want { stage, item: 1 }),
            sign(Recipient::Party(0), Notice::Lack { stage, item: 1 }),
            sign(Recipient::All, Notice::Item { stage, hash, bytes }),
            sign(
                Recipient::All,
                Notice::List {
                    stage,
                    held: Row::of(8, [1]),
                    versions: Vec::new(),
                },
            ),
            sign(Recipient::All, Notice::Unreachable { stage, party: 2 }),
            wire::body_frame(stage, 1, &[0; 6]).to_vec(),
            announced_with(
                &mut Signer::new(1, *plan.digest(), simulated_keypair(1), 0),
                stage,
                &[0; 6],
            )
            .to_vec(),
        ];
        let mut run = run_of(plan, 0);
        for frame in &frames {
            let (from, frame) = (1, frame.clone().into());
            run.handle(Time::ZERO, Input::Public { from, frame })
                .expect("an input");
        }
        let mut offences = 0;
        loop {
            match run.poll_output() {
                Output::Wait { .. } => break,
                Output::Event(Event::Offence { peer: 1, .. }) => offences += 1,
                _ => {}
            }
        }
        assert_eq!(offences, frames.len(), "{stage:?}");
        assert_eq!(run.public_state.flood.held().count(), 1, "its own READY");
    }
}

/// A short item with its announcement.
fn announced_with(signer: &mut Signer, stage: Stage, item: &[u8]) -> Arc<[u8]> {
    let (hash, bytes) = (item_hash(item), item.len() as u64);
    let notice = Notice::Item { stage, hash, bytes };
    let signed = signer.sign(Recipient::All, notice).expect("signs");
    wire::announcement_frame(&signed, item)
}

fn asks_for_bodies(public_state: &mut PublicState, now: Time) -> bool {
    public_state.pull(now);
    public_state.outbox.drain(..).any(|output| {
        let Output::Public { frame, .. } = output else {
            return false;
        };
        matches!(
            wire::read_public(&frame),
            Ok(PublicFrame::Notice(SignedNotice {
                notice: Notice::Want { .. },
                ..
            }))
        )
    })
}

/// A peer in a later stage sends its items before this node can tell whether they are any.
#[test]
fn an_item_that_came_with_its_announcement_before_its_stage_is_taken_once_that_begins() {
    let plan = plan(8, "[run]\nsealed = true\n", 3);
    let mut run = run_of(&plan, 0);
    let public_state = &mut run.public_state;
    let length = public_state.rules.way.item_limit();
    let peer = plan.draft().public_graph.neighbours(0)[0];
    public_state.connected(peer);
    let mut signer = Signer::new(1, *plan.digest(), simulated_keypair(1), 0);
    let frame = Bytes::from_owner(announced_with(&mut signer, Stage::Sealed, &vec![7; length]));
    public_state.receive(Time::ZERO, peer, &frame, true);
    assert!(public_state.items(Stage::Sealed).get(1).is_none());
    // Nobody is left to ask.
    public_state.disconnected(peer);
    let threshold = plan.threshold(8).expect("a threshold").expect("one that seals");
    let bytes = length as u64;
    public_state.begin(Time::ZERO, SealTerms { threshold, bytes }, None);
    assert!(public_state.items(Stage::Sealed).get(1).is_some());
    assert!(!asks_for_bodies(public_state, Time::from_millis(1)));
}

/// A liar may sign as many items as there are parties: of all but the first its word is kept, and
/// the bytes are asked for only if a set names them.
#[test]
fn the_bytes_of_further_versions_are_not_kept() {
    let plan = plan(8, "[run]\nsealed = false\n", 3);
    let mut run = run_of(&plan, 0);
    let public_state = &mut run.public_state;
    let peer = plan.draft().public_graph.neighbours(0)[0];
    public_state.connected(peer);
    let mut signer = Signer::new(1, *plan.digest(), simulated_keypair(1), 0);
    let length = public_state.rules.way.item_limit();
    for version in 0..7 {
        let item = vec![version; length];
        let frame = Bytes::from_owner(announced_with(&mut signer, Stage::Publishing, &item));
        public_state.receive(Time::ZERO, peer, &frame, true);
    }
    let kept = public_state.flood.versions().map(|(.., held)| held.frame.len());
    let kept: Vec<usize> = kept.collect();
    assert_eq!(kept.len(), 6);
    assert!(kept.iter().all(|&bytes| bytes < 128), "{kept:?}");
    assert_eq!(
        public_state
            .items(Stage::Publishing)
            .get(1)
            .map(|body| body.bytes().expect("in memory")),
        Some(Bytes::from(vec![0; length]))
    );
    assert!(!asks_for_bodies(public_state, Time::from_millis(1)));
}

/// Answers of party `to`, which signs with the key of `key`, for the plan with this digest.
fn log_with_answers(plan: &Plan, digest: [u8; 32], key: impl Fn(Party) -> Party) -> Vec<u8> {
    let schedule = plan.schedule();
    let sent = (1..=plan.rounds()).map(|round| {
        let to = schedule.sends_to(round, 1)[0];
        let id = ShareId { round, from: 1, to };
        let signer = Signer::new(to, digest, simulated_keypair(key(to)), 0);
        let verdict = Verdict::Accepted { applied: round };
        SentEntry {
            round,
            to,
            left: true,
            answer: Some(signer.answer(id, verdict).expect("signs")),
        }
    });
    let log = Log {
        party: 1,
        sent: sent.collect(),
        ..Log::default()
    };
    wire::log_to_bytes(&log, schedule)
}

#[test]
fn a_log_whose_answers_somebody_else_signed_or_for_another_plan_is_none() {
    let plan = plan(4, "", 3);
    let parameters = MixingParameters::of(&plan, 0);
    let rules = ItemRules::of(&plan, &parameters);
    let keys = plan.draft().members.iter().map(|member| member.public_key());
    let members = Members::new(*plan.digest(), keys.collect());
    let taken = |bytes: Vec<u8>| rules.log(1, &members, &bytes).is_ok();
    assert!(taken(log_with_answers(&plan, *plan.digest(), |to| to)));
    assert!(
        !taken(log_with_answers(&plan, [9; 32], |to| to)),
        "another plan's"
    );
    assert!(
        !taken(log_with_answers(&plan, *plan.digest(), |_| 1)),
        "the sender's own"
    );
}

/// A word of a hundred bytes asks for a set of a hundred kilobytes.
#[test]
fn who_asks_for_a_set_again_and_again_gets_it_a_few_times_and_the_others_still_do() {
    let mut run = run_of(&plan(8, "", 5), 0);
    let public_state = &mut run.public_state;
    let set = Set::Items((0..8).map(|party| (party, [7; 32])).collect());
    let named = public_state.flood.keep_set(set);
    public_state.outbox.clear();
    let mut sent = |peer: Party, times: usize| {
        (0..times).for_each(|_| public_state.serve_set(peer, &named));
        public_state.outbox.drain(..).count()
    };
    assert_eq!(sent(1, 3), 3);
    let all = sent(1, 10_000);
    assert!(all < 100, "{all} of 10,000 were answered");
    assert_eq!(sent(2, 1), 1);
}
