mod circles;
mod correcting;
mod deadlines;
mod ends;
mod frames;
mod leaving;
mod reaching;
mod slices;
mod starting;
mod waking;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::agreement::agreeing::Clock;
use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::lattice::packed::PackedVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::held_kind::{HeldKind, Kind};
use crate::messages::log::{ShareId, Verdict};
use crate::messages::notice::{Network, Notice, Recipient};
use crate::messages::row::Row;
use crate::messages::signing::Signer;
use crate::messages::stage::Stage;
use crate::messages::testing::run_key;
use crate::messages::wire::{self, Bytes};
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::NoiseSource;
use crate::mixing::ticket::Recalled;
use crate::plan::peers::simulated_keypair;
use crate::run::outcome::{Ending, GateVerdict};
use crate::simulator::cluster::tests::{inputs, plan};
use crate::task::tests::ensemble::Travelling;

struct Quiet(Lattice);

impl NoiseSource<LatticeVector> for Quiet {
    fn draw(&mut self, _: usize, _: u32) -> PackedVector {
        self.0.zeros(2).pack()
    }
}

/// The kinds of plans: readable finals, sealed ones of noise that is mixed, and of masks of pairs.
const READABLE: &str = "[run]\nsealed = false";
const SEALED: &str = "[run]\nsealed = true\n[mechanism]\ncorrelated = \"uniform\"";
const PAIRWISE: &str = "[run]\nsealed = true\n[mechanism]\nkind = \"pairwise\"";

/// A plan of so many parties: of three rounds, or with masks of everybody with everybody.
fn among(parties: usize, lines: &str) -> Arc<Plan> {
    let pairs = lines.contains("pairwise");
    plan(parties, lines, if pairs { parties as u32 / 2 } else { 3 })
}

/// A stream of secure sums of six parties over complete neighbourhoods.
fn circles_plan(run: &str) -> Arc<Plan> {
    let lines = format!(
        "releases = 3\n[mechanism]\nsums = \"neighbours\"\n\
         [topology]\nprivate = \"complete\"\n[run]\nsettle_ms = 2000\n{run}"
    );
    plan(6, &lines, 3)
}

fn refuse(reason: &str) -> GateVerdict {
    GateVerdict {
        publish: None,
        reason: reason.to_owned(),
    }
}

/// The notice that a public frame carries, of whichever run.
fn notice_of(sent: &Travelling<'_>) -> Option<Notice> {
    let (_, inner) = wire::of_iteration(sent.frame).ok()?;
    match wire::read_public(&inner).ok()? {
        wire::PublicFrame::Notice(signed) | wire::PublicFrame::Item { signed, .. } => Some(signed.notice),
        _ => None,
    }
}

fn tells_a_secret(sent: &Travelling<'_>) -> bool {
    let notice = notice_of(sent);
    notice.is_some_and(|notice| matches!(notice, Notice::Key { .. } | Notice::Share { .. }))
}

fn announces(sent: &Travelling<'_>, is: impl Fn(Stage) -> bool) -> bool {
    notice_of(sent).is_some_and(|notice| matches!(notice, Notice::Item { stage, .. } if is(stage)))
}

fn is_log(sent: &Travelling<'_>) -> bool {
    announces(sent, |stage| stage == Stage::Settling)
}

fn is_correction(sent: &Travelling<'_>) -> bool {
    announces(sent, |stage| matches!(stage, Stage::Correction(_)))
}

fn stage_of(run: &Run) -> &'static str {
    match run.phase {
        RunPhase::Gathering(_) => "gathering",
        RunPhase::Awaiting(_) => "awaiting",
        RunPhase::Spending(_) => "spending",
        RunPhase::Mixing(_) => "mixing",
        RunPhase::Settling(_) => "settling",
        RunPhase::Auditing(_) => "auditing",
        RunPhase::Publishing(_) => "publishing",
        RunPhase::Correcting(_) => "correcting",
        RunPhase::Opening(_) => "opening",
        RunPhase::Mixed(_) => "mixed",
        RunPhase::HandedOver | RunPhase::Over => "over",
    }
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

pub(in crate::run) fn run_of(plan: &Arc<Plan>, me: Party) -> Run {
    let value = Noisy::with_noise_in(inputs(plan).swap_remove(me));
    let noise = Box::new(Quiet(*plan.lattice()));
    let identity = Identity {
        party: me,
        key: simulated_keypair(me),
        run_key: run_key(me as u8),
        pair_key: PairKey::from_secret([me as u8 + 100; 32]),
        seal_seed: [me as u8; 32],
        nonce_secret: [me as u8; 32],
        epoch: 0,
    };
    Run::new(plan.clone(), identity, value, noise, Time::ZERO)
}

fn drain(run: &mut Run) -> Vec<Output> {
    let mut outputs = Vec::new();
    loop {
        match run.poll_output() {
            Output::Wait { .. } => return outputs,
            output => outputs.push(output),
        }
    }
}

fn public_frames(outputs: &[Output]) -> Vec<Arc<[u8]>> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Public { frame, .. } => Some(frame.clone()),
            _ => None,
        })
        .collect()
}

fn offences(outputs: &[Output]) -> Vec<String> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Event(Event::Offence { peer, text }) => Some(format!("{peer}: {text}")),
            _ => None,
        })
        .collect()
}

/// Party 0 of three, up to having held every START; the others are played by real machines.
fn up_to_start(plan: &Arc<Plan>) -> (Run, Vec<Output>) {
    let mut runs: Vec<Run> = (0..3).map(|me| run_of(plan, me)).collect();
    for (me, run) in runs.iter_mut().enumerate() {
        for peer in (0..3).filter(|&peer| peer != me) {
            for network in [Network::Private, Network::Public] {
                run.handle(at(1), Input::Connected { network, peer })
                    .expect("in the plan");
            }
        }
    }
    let mut first = Vec::new();
    for _ in 0..4 {
        for me in 0..3 {
            for output in drain(&mut runs[me]) {
                match output {
                    Output::Public { to, frame } => runs[to]
                        .handle(
                            at(2),
                            Input::Public {
                                from: me,
                                frame: Bytes::from_owner(frame),
                            },
                        )
                        .expect("in the plan"),
                    other if me == 0 => first.push(other),
                    _ => {}
                }
            }
        }
    }
    (runs.swap_remove(0), first)
}

#[test]
fn nothing_private_leaves_before_the_plan_is_spent() {
    let plan = plan(3, "", 2);
    let (mut run, outputs) = up_to_start(&plan);
    assert!(outputs.iter().any(|output| matches!(output, Output::Spend)));
    assert!(
        !outputs
            .iter()
            .any(|output| matches!(output, Output::Private { .. }))
    );
    run.handle(at(3), Input::Spent(Ok(()))).expect("asked");
    assert!(
        drain(&mut run)
            .iter()
            .any(|output| matches!(output, Output::Private { share: Some(_), .. }))
    );
    let (mut run, _) = up_to_start(&plan);
    run.handle(at(3), Input::Spent(Err("spent before".into())))
        .expect("asked");
    let outputs = drain(&mut run);
    let ending = outputs.iter().find_map(|output| match output {
        Output::Finished(outcome) => Some(outcome.ending.clone()),
        _ => None,
    });
    assert_eq!(
        ending,
        Some(Ending::Spent {
            reason: "spent before".into()
        })
    );
    assert!(
        !outputs
            .iter()
            .any(|output| matches!(output, Output::Private { .. }))
    );
}

#[test]
fn our_callers_mistakes_are_errors_and_change_nothing() {
    let mut run = run_of(&plan(3, "", 2), 0);
    let before = run.progress();
    assert_eq!(
        run.handle(at(1), Input::Spent(Ok(()))),
        Err(InputError::NotAsked("Spent"))
    );
    let verdict = GateVerdict {
        publish: None,
        reason: String::new(),
    };
    assert_eq!(
        run.handle(at(1), Input::Verdict(verdict)),
        Err(InputError::NotAsked("Verdict"))
    );
    assert_eq!(
        run.handle(at(1), Input::Unreachable { peer: 3 }),
        Err(InputError::Peer(3))
    );
    assert_eq!(
        run.handle(
            at(1),
            Input::Private {
                from: usize::MAX,
                frame: Bytes::new()
            }
        ),
        Err(InputError::Peer(usize::MAX))
    );
    assert_eq!(run.progress(), before);
}

#[test]
fn a_new_public_connection_gets_what_its_tree_brings_and_all_else_if_it_asks() {
    let plan = plan(3, "", 2);
    let (mut run, _) = up_to_start(&plan);
    run.handle(
        at(5),
        Input::Disconnected {
            network: Network::Public,
            peer: 2,
        },
    )
    .expect("in the plan");
    run.handle(
        at(6),
        Input::Connected {
            network: Network::Public,
            peer: 2,
        },
    )
    .expect("in the plan");
    let own = public_frames(&drain(&mut run)).len();
    assert_eq!(own, 2, "a READY and a START of this node");
    let mut signer = Signer::new(2, *plan.digest(), simulated_keypair(2), 1 << 40);
    let mut asks = |gathered, holdings| {
        let notice = Notice::Summary { gathered, holdings };
        let signed = signer.sign(Recipient::Party(0), notice).expect("signs");
        let frame = Bytes::from_owner(wire::notice_frame(&signed));
        run.handle(at(7), Input::Public { from: 2, frame })
            .expect("in the plan");
        public_frames(&drain(&mut run)).len()
    };
    // Each answer ends with the word that it is one.
    assert_eq!(asks(false, Vec::new()), 7, "three READYs, three STARTs");
    let readies = HeldKind {
        kind: Kind::Ready,
        held: Row::of(3, [1]),
        marks: vec![[0; 4]],
    };
    assert_eq!(asks(false, vec![readies]), 7, "another READY of 1 than that one");
    assert_eq!(asks(true, Vec::new()), 1, "nothing else is said yet");
    // Nobody gets everything over and over.
    let answers: usize = (0..20).map(|_| asks(false, Vec::new())).sum();
    assert!(answers < 20 + 6 * 4, "{answers}");
}

/// A flood brings everything more than once. One such frame at the very end of a round once hid
/// that end: nobody woke the machine before the next deadline.
#[test]
fn a_public_message_that_brings_nothing_new_does_not_hide_a_deadline() {
    let plan = plan(3, "", 2);
    let (mut run, _) = up_to_start(&plan);
    run.handle(at(3), Input::Spent(Ok(()))).expect("asked");
    run.handle(
        at(4),
        Input::Disconnected {
            network: Network::Public,
            peer: 2,
        },
    )
    .expect("in the plan");
    run.handle(
        at(4),
        Input::Connected {
            network: Network::Public,
            peer: 2,
        },
    )
    .expect("in the plan");
    let known = public_frames(&drain(&mut run)).swap_remove(0);
    assert_eq!(run.progress().round, 1);
    let Output::Wait { until } = run.poll_output() else {
        panic!("all outputs were taken")
    };
    run.handle(
        until.plus_millis(plan.draft().run.round_ms),
        Input::Public {
            from: 1,
            frame: Bytes::from_owner(known),
        },
    )
    .expect("in the plan");
    let asked = drain(&mut run).into_iter().find_map(|output| match output {
        Output::Recall(back) => Some(back),
        _ => None,
    });
    let back = asked.expect("its shares are given out");
    let recalled = Recalled { left: vec![], back };
    run.handle(at(4), Input::Recalled(recalled)).expect("asked");
    assert!(run.progress().round > 1, "the deadline has passed");
}

#[test]
fn what_is_said_for_another_plan_is_not_taken() {
    let (ours, theirs) = (plan(3, "", 2), plan(3, "", 3));
    let mut run = run_of(&ours, 0);
    let mut other = run_of(&theirs, 1);
    other
        .handle(
            at(1),
            Input::Connected {
                network: Network::Public,
                peer: 0,
            },
        )
        .expect("in the plan");
    let frame = public_frames(&drain(&mut other)).swap_remove(0);
    drain(&mut run);
    run.handle(
        at(1),
        Input::Public {
            from: 1,
            frame: Bytes::from_owner(frame),
        },
    )
    .expect("in the plan");
    let offences = offences(&drain(&mut run));
    assert_eq!(offences.len(), 1);
    // A stream belongs to one plan, which its hello names: frames do not.
    assert!(
        offences[0].contains("its signature is not party 1's"),
        "{offences:?}"
    );
    assert_eq!(run.progress().ready, 1);
}

#[test]
fn shares_that_come_early_wait_and_are_answered_once_this_node_begins() {
    let plan = plan(3, "", 2);
    let (mut run, _) = up_to_start(&plan);
    let from = plan.schedule().receives_from(1, 0)[0];
    let lattice = plan.lattice();
    let id = ShareId {
        round: 1,
        from,
        to: 0,
    };
    let values = vec![0; 2 * lattice.wire_bytes as usize];
    let frame = wire::share_frame(plan.digest(), id, LatticeWeight(0), &values);
    run.handle(
        at(3),
        Input::Private {
            from,
            frame: Bytes::from_owner(frame.clone()),
        },
    )
    .expect("in the plan");
    assert_eq!(drain(&mut run).len(), 0, "it waits");
    run.handle(at(4), Input::Spent(Ok(()))).expect("asked");
    let outputs = drain(&mut run);
    let answers = outputs
        .iter()
        .filter(|output| matches!(output, Output::Private { to, share: None, .. } if *to == from));
    assert_eq!(answers.count(), 1);
    let stray = wire::share_frame(
        plan.digest(),
        ShareId { round: 7, ..id },
        LatticeWeight(0),
        &values,
    );
    let (mut run, _) = up_to_start(&plan);
    run.handle(
        at(3),
        Input::Private {
            from,
            frame: Bytes::from_owner(stray),
        },
    )
    .expect("in the plan");
    assert_eq!(offences(&drain(&mut run)).len(), 1);
    assert!(run.early().is_empty(), "only what is due is kept");
}

/// A receiver's signed answer is taken in if it is good. Another answer is an offence, and the
/// share's frame is still there to be sent again.
#[test]
fn an_answer_is_checked_when_it_comes() {
    let plan = plan(3, "", 2);
    let other_plan = [7; 32];
    let signed_by = |party: Party, digest| Signer::new(party, digest, simulated_keypair(party), 0);
    for (signer, digest, id_of, good) in [
        (1, *plan.digest(), 1, true),
        (0, *plan.digest(), 1, false),
        (2, *plan.digest(), 1, false),
        (1, other_plan, 1, false),
        (1, *plan.digest(), 2, false),
    ] {
        let (mut run, _) = up_to_start(&plan);
        run.handle(at(3), Input::Spent(Ok(()))).expect("asked");
        drain(&mut run);
        let to = plan.schedule().sends_to(1, 0)[0];
        let share = |round| ShareId { round, from: 0, to };
        run.handle(at(3), Input::Left { share: share(1) })
            .expect("given out");
        // The parties other than 0 are named by what they are here: the receiver, and the third.
        let named = |party: Party| match party {
            0 => 0,
            1 => to,
            _ => 3 - to,
        };
        let accepted = Verdict::Accepted { applied: 2 };
        let answer = signed_by(named(signer), digest)
            .answer(share(id_of), accepted)
            .expect("it signs");
        let frame = Bytes::from_owner(wire::answer_frame(plan.digest(), share(1), &answer));
        run.handle(at(4), Input::Private { from: to, frame })
            .expect("in the plan");
        let offences = offences(&drain(&mut run));
        assert_eq!(offences.is_empty(), good, "{signer} {id_of}: {offences:?}");

        // On a new connection what was not answered is sent again.
        let network = Network::Private;
        run.handle(at(5), Input::Disconnected { network, peer: to })
            .expect("in the plan");
        run.handle(at(6), Input::Connected { network, peer: to })
            .expect("in the plan");
        let again = drain(&mut run);
        let sent = again
            .iter()
            .any(|output| matches!(output, Output::Private { share: Some(id), .. } if *id == share(1)));
        assert_eq!(sent, !good, "{signer} {id_of}");
    }
}

#[test]
fn limits_hold_what_runs_send() {
    let plan = plan(3, "", 2);
    let (public, private) = Run::frame_limits(&plan);
    let share = 2 * plan.lattice().wire_bytes as usize;
    assert!(private > share && private < share + 1000);
    assert!(public > 2 * plan.lattice().final_bytes as usize && public < 10_000);
}

/// Draws a frame, one of its bytes, its new value, the sender, and whether it is altered at all.
fn change() -> impl Strategy<Value = (prop::sample::Index, prop::sample::Index, u8, Party, bool)> {
    (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        any::<u8>(),
        0usize..3,
        any::<bool>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Frames of an honest run, altered, repeated and from anyone, never panic, and never make this
    /// node end well by themselves.
    #[test]
    fn hostile_frames_are_survived(
        changes in proptest::collection::vec(change(), 1..60),
    ) {
        let plan = plan(3, "", 2);
        let (mut run, _) = up_to_start(&plan);
        run.handle(at(3), Input::Spent(Ok(()))).expect("asked");
        let mut frames = Vec::new();
        for output in drain(&mut run) {
            if let Output::Private { frame, .. } | Output::Public { frame, .. } = output {
                frames.push(frame);
            }
        }
        run.handle(at(3), Input::Disconnected { network: Network::Public, peer: 1 }).expect("in the plan");
        run.handle(at(3), Input::Connected { network: Network::Public, peer: 1 }).expect("in the plan");
        frames.extend(public_frames(&drain(&mut run)));
        for (count, (which, place, byte, from, private)) in changes.into_iter().enumerate() {
            let mut frame = which.get(&frames).to_vec();
            let place = place.index(frame.len());
            frame[place] = byte;
            let frame = Bytes::from(frame);
            let input = if private { Input::Private { from, frame } } else { Input::Public { from, frame } };
            run.handle(at(3 + count as u64), input).expect("in the plan");
            let outputs = drain(&mut run);
            let finished = outputs.iter().any(|output| matches!(output, Output::Finished(_)));
            prop_assert!(!finished);
        }
    }
}

#[test]
fn a_log_calls_gone_who_owes_a_share_at_once_and_others_after_a_while() {
    let plan = plan(3, "", 4);
    let (mut run, _) = up_to_start(&plan);
    run.handle(run.now, Input::Spent(Ok(()))).expect("asked for");
    let clock = Clock::new(at(10_000), 3200);
    let (since, lost) = (run.now, Input::Unreachable { peer: 1 });
    run.handle(since, lost).expect("a party");
    let called = |run: &mut Run| {
        let (phase, cx) = run.parts();
        phase.transfers().expect("it mixes").calls(&clock, &cx)
    };
    assert_eq!(
        called(&mut run),
        BTreeSet::from([1]),
        "nobody signs a log before all shares are answered: its log cannot be on the way"
    );
    let RunPhase::Mixing(phase) = &mut run.phase else {
        panic!("it mixes")
    };
    let due: Vec<(u32, Party)> = (1..=4)
        .map(|round| (round, 1))
        .filter(|&(round, from)| run.config.mixing.is_due(round, from))
        .collect();
    assert!(!due.is_empty());
    phase.transfers.shares.received.extend(
        due.into_iter()
            .map(|key| (key, crate::messages::log::Verdict::Accepted { applied: key.0 })),
    );
    assert_eq!(
        called(&mut run),
        BTreeSet::new(),
        "its log may be on the way through others"
    );
    run.now = since.plus_millis(99);
    assert_eq!(called(&mut run), BTreeSet::new());
    run.now = since.plus_millis(100);
    assert_eq!(
        called(&mut run),
        BTreeSet::from([1]),
        "1/32 of the stage later it is called"
    );
}
