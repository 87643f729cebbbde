//! What a hostile member sends to another one, at the level of the machines: each is ignored and
//! told, and the run goes on to the exact result.

use std::sync::Arc;

use libp2p_identity::Keypair;
use undertone_protocol::lattice::grid::LatticeWeight;
use undertone_protocol::messages::log::ShareId;
use undertone_protocol::messages::notice::{Disclosed, Network, Notice, Recipient, SignedNotice, item_hash};
use undertone_protocol::messages::row::Row;
use undertone_protocol::messages::signing::Signer;
use undertone_protocol::messages::stage::{Phase, Stage};
use undertone_protocol::messages::wire;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::simulated_keypair;
use undertone_protocol::run::interface::Output;
use undertone_protocol::run::outcome::Event;
use undertone_protocol::sealing::run_key::RunKey;
use undertone_protocol::topology::party::Party;
use undertone_tests::simulated::plan;
use undertone_tests::table::{HOSTILE, Slip, Table, Turn};

const PARTIES: usize = 4;
const VICTIM: Party = 0;

fn four() -> Arc<Plan> {
    plan(PARTIES, 3, "[mechanism]\nrounds = 4\ncorrelated = \"gaussian\"")
}

/// With masks of pairs, which each two of the parties have in common.
fn four_masked() -> Arc<Plan> {
    plan(PARTIES, 3, "[mechanism]\nkind = \"pairwise\"")
}

/// With masks of pairs, and finals that travel in slices.
fn four_sliced() -> Arc<Plan> {
    let lines =
        "[privacy]\ndropouts = 0\n[run]\ndissemination = \"slices\"\n[mechanism]\nkind = \"pairwise\"";
    plan(PARTIES, 3, lines)
}

/// With uniform noise and sealed finals.
fn four_sealed() -> Arc<Plan> {
    plan(PARTIES, 3, "[run]\nsealed = true")
}

/// What is slipped in to the victim when it begins to mix, or would.
fn slip(frames: Vec<(Network, Arc<[u8]>)>) -> impl FnMut(Party, &Output) -> Turn {
    let mut frames = Some(frames);
    move |party, output| {
        if party != VICTIM || !matches!(output, Output::Event(Event::Phase(Phase::Mixing))) {
            return Turn::none();
        }
        let slips = frames.take().into_iter().flatten();
        Turn::slip(
            slips
                .map(|(network, frame)| Slip {
                    network,
                    from: HOSTILE,
                    to: VICTIM,
                    frame,
                })
                .collect(),
        )
    }
}

/// How many frames the victim sent.
fn sent(table: &Table) -> usize {
    table
        .sent
        .iter()
        .filter(|((from, ..), _)| *from == VICTIM)
        .map(|(_, count)| count)
        .sum()
}

/// What comes of these frames: the run is undisturbed; the offences that the victim tells of the
/// hostile member, and nobody else does.
#[track_caller]
fn offences_of(plan: &Arc<Plan>, frames: Vec<(Network, Arc<[u8]>)>) -> Vec<String> {
    let said = offences_reported(plan, frames);
    assert!(said.iter().all(|(by, _)| *by == VICTIM), "{said:?}");
    said.into_iter().map(|(_, text)| text).collect()
}

/// What comes of these frames: the run is undisturbed; who tells which offences of the hostile
/// member.
#[track_caller]
fn offences_reported(plan: &Arc<Plan>, frames: Vec<(Network, Arc<[u8]>)>) -> Vec<(Party, String)> {
    let mut table = Table::new(plan);
    let count = frames.len();
    let mut slips = slip(frames);
    let mut slipped = 0;
    table.play(|party, output| {
        let turn = slips(party, output);
        slipped += turn.slips.len();
        turn
    });
    assert_eq!(slipped, count, "they were slipped in");
    table.assert_undisturbed();
    // Its own machine may wonder about the answers to what it never sent.
    table.offences.retain(|(by, ..)| *by != HOSTILE);
    assert!(
        table.offences.iter().all(|(_, of, _)| *of == HOSTILE),
        "{:?}",
        table.offences
    );
    let said = table.offences.into_iter();
    said.map(|(by, _, text)| (by, text)).collect()
}

fn call_gone() -> Notice {
    Notice::Unreachable {
        stage: Stage::Settling,
        party: 1,
    }
}

fn sign(party: Party, digest: [u8; 32], key: Keypair, notice: Notice) -> SignedNotice {
    Signer::new(party, digest, key, 1 << 40)
        .sign(Recipient::All, notice)
        .expect("signs")
}

#[test]
fn a_public_message_that_its_author_did_not_sign_is_reported_and_ignored() {
    let plan = four();
    let digest = *plan.digest();
    let mut forged = sign(HOSTILE, digest, simulated_keypair(HOSTILE), call_gone());
    forged.signature.0[7] ^= 1;
    let stranger = Keypair::ed25519_from_bytes([99; 32]).expect("32 bytes");
    let cases = [
        ("its signature", forged),
        // In the name of party 1, with a key that is in no plan.
        ("its signature", sign(1, digest, stranger.clone(), call_gone())),
        // In the name of a party that the plan does not have.
        ("author 9", sign(9, digest, stranger, call_gone())),
        (
            "its signature",
            sign(HOSTILE, [0xee; 32], simulated_keypair(HOSTILE), call_gone()),
        ),
    ];
    for (word, notice) in cases {
        let said = offences_of(&plan, vec![(Network::Public, wire::notice_frame(&notice))]);
        assert!(said.len() == 1 && said[0].contains(word), "{word}: {said:?}");
    }
    assert_eq!(
        offences_of(
            &plan,
            vec![
                (Network::Public, [1, 77, 0].into()),
                (Network::Private, [9].into())
            ]
        )
        .len(),
        2,
        "no frame at all"
    );
}

#[test]
fn a_replayed_public_message_changes_nothing() {
    let plan = four();
    // The hostile member's own READY of an earlier start, and a newer one, after everybody has
    // signed START; a thousand times.
    let newer = wire::notice_frame(&sign(
        HOSTILE,
        *plan.digest(),
        simulated_keypair(HOSTILE),
        ready(8, None),
    ));
    let same = wire::notice_frame(
        &Signer::new(HOSTILE, *plan.digest(), simulated_keypair(HOSTILE), 0)
            .sign(Recipient::All, ready(HOSTILE as u8, None))
            .expect("signs"),
    );
    let mut table = Table::new(&plan);
    table.play(|_, _| Turn::none());
    let usual = sent(&table);
    let mut table = Table::new(&plan);
    let many = (0..1000).map(|i| {
        (
            Network::Public,
            if i % 2 == 0 { newer.clone() } else { same.clone() },
        )
    });
    table.play(slip(many.collect()));
    table.assert_undisturbed();
    assert_eq!(sent(&table), usual, "nobody is told twice");
    assert_eq!(table.offences, [], "a replay may be anybody's, and costs a look");
}

/// The hostile member's share of a round to the victim, with the coordinates that it should have,
/// or others.
fn share(
    plan: &Plan,
    digest: &[u8; 32],
    round: u32,
    weight: i128,
    change: impl Fn(&mut Vec<u8>),
) -> Arc<[u8]> {
    let lattice = plan.lattice();
    let mut values = vec![0; plan.draft().dimension() * lattice.wire_bytes as usize];
    change(&mut values);
    wire::share_frame(
        digest,
        ShareId {
            round,
            from: HOSTILE,
            to: VICTIM,
        },
        LatticeWeight(weight),
        &values,
    )
}

/// Rounds in which the hostile member sends to the victim, and in which it does not.
fn rounds(plan: &Plan) -> (u32, u32) {
    let due = |round: &u32| plan.schedule().sends_to(*round, HOSTILE).contains(&VICTIM);
    let all = 1..=plan.rounds();
    (
        all.clone().find(due).expect("once in four rounds"),
        all.clone().find(|round| !due(round)).expect("not always"),
    )
}

#[test]
fn a_share_of_another_run_or_out_of_schedule_is_reported_and_ignored() {
    let plan = four();
    let (due, not_due) = rounds(&plan);
    let cases = [
        ("belongs to plan", share(&plan, &[0xee; 32], due, 0, |_| {})),
        ("not due", share(&plan, plan.digest(), not_due, 0, |_| {})),
        ("not due", share(&plan, plan.digest(), 77, 0, |_| {})),
        (
            "not due",
            wire::share_frame(
                plan.digest(),
                ShareId {
                    round: due,
                    from: 1,
                    to: VICTIM,
                },
                LatticeWeight(0),
                &[0; 9],
            ),
        ),
    ];
    for (word, frame) in cases {
        let said = offences_of(&plan, vec![(Network::Private, frame)]);
        assert!(said.len() == 1 && said[0].contains(word), "{word}: {said:?}");
    }
}

/// A share that no honest party sends takes the place of the true one: it is refused, and its
/// sender keeps the mass.
#[test]
fn a_gossip_message_in_another_run_is_reported_and_ignored() {
    let plan = four();
    let id = ShareId {
        round: 1,
        from: HOSTILE,
        to: VICTIM,
    };
    let message = wire::message_frame(plan.digest(), id, LatticeWeight(1 << 64), &[0; 9]);
    for frame in [message, wire::sealed_frame(plan.digest(), id, &[0; 9])] {
        assert_eq!(offences_of(&plan, vec![(Network::Private, frame)]).len(), 1);
    }
}

#[test]
fn a_share_off_its_grid_too_large_or_too_long_is_refused() {
    let plan = four();
    let (due, _) = rounds(&plan);
    let width = plan.lattice().wire_bytes as usize;
    let grid = plan.lattice().round_grid(due);
    assert!(
        due < plan.rounds() && grid > 1,
        "the last round's grid is 1: nothing is off it"
    );
    let off_grid = share(&plan, plan.digest(), due, 0, |values| values[0] = 1);
    let too_large = share(&plan, plan.digest(), due, 0, |values| values[width - 1] = 0x7f);
    let too_long = share(&plan, plan.digest(), due, 0, |values| values.push(0));
    let heavy = share(&plan, plan.digest(), due, i128::MAX - (i128::MAX % grid), |_| {});
    for frame in [off_grid, too_large, too_long, heavy] {
        let said = offences_of(&plan, vec![(Network::Private, frame)]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("share of round"), "{said:?}");
    }
}

#[test]
fn a_share_that_comes_twice_counts_once() {
    let plan = four();
    let (due, _) = rounds(&plan);
    // The victim counts this one of nothing, and the true one that follows is a second share under
    // one id.
    let first = share(&plan, plan.digest(), due, 0, |_| {});
    let mut table = Table::new(&plan);
    table.play(slip(vec![
        (Network::Private, first.clone()),
        (Network::Private, first),
    ]));
    // Its sender's machine deducted more weight than the victim added: what is lost to the sum
    // shows in its weight, and everybody says so.
    let ended: Vec<_> = table.outcomes.iter().flatten().collect();
    assert_eq!(ended.len(), plan.parties());
    assert!(
        ended
            .iter()
            .all(|outcome| outcome.sum.is_none() && !outcome.agreed)
    );
    let said = table
        .faults
        .iter()
        .filter(|(_, text)| text.contains("do not add up"));
    let said: Vec<Party> = said.map(|(party, _)| *party).collect();
    assert_eq!(said.len(), plan.parties(), "{said:?}");
}

/// The READY of a start whose run key has this secret, as the table's parties have.
fn ready(start: u8, pair: Option<[u8; 32]>) -> Notice {
    let (key, records) = (*RunKey::from_secret([start; 32]).public(), None);
    Notice::Ready { key, pair, records }
}

/// Everything that a member can sign, again and again, and replays at full speed.
#[test]
fn a_flood_of_valid_frames_is_survived_and_not_amplified() {
    for plan in [four(), four_sealed(), four_masked(), four_sliced()] {
        flood_with_valid_frames(&plan);
    }
}

fn flood_with_valid_frames(plan: &Arc<Plan>) {
    let mut signer = Signer::new(HOSTILE, *plan.digest(), simulated_keypair(HOSTILE), 1 << 40);
    let mut frames = vec![];
    for turn in 0..400u64 {
        let hash = [turn as u8; 32];
        // Sets that nobody can supply, and another one with every start.
        let start = Notice::Start {
            number: turn as u8 % 3,
            incarnation: [turn as u8; 16],
            seats: hash,
        };
        let mut all = vec![ready(turn as u8, None), start];
        let of_slices = [Stage::Keeping, Stage::Slice(0), Stage::Sum(0)];
        let others = [Stage::Publishing, Stage::Sealed, Stage::Correction(1)];
        for stage in [Stage::Settling].into_iter().chain(others).chain(of_slices) {
            all.extend([
                Notice::List {
                    stage,
                    held: Row::of(PARTIES, [1]),
                    versions: vec![(1, hash)],
                },
                Notice::Vote {
                    stage,
                    early: true,
                    set: hash,
                },
                Notice::Unreachable {
                    stage,
                    party: turn as usize % PARTIES,
                },
            ]);
        }
        frames.extend(
            all.into_iter()
                .map(|notice| signer.sign(Recipient::All, notice).expect("signs")),
        );
        let to_victim = Recipient::Party(VICTIM);
        let everything = Notice::Summary {
            gathered: false,
            holdings: Vec::new(),
        };
        for asked in [everything, Notice::WantSet { set: hash }] {
            frames.push(signer.sign(to_victim, asked).expect("signs"));
        }
    }
    let frames: Vec<_> = frames
        .iter()
        .map(|signed| (Network::Public, wire::notice_frame(signed)))
        .collect();
    let count = 2 * frames.len();
    let mut calm = Table::new(plan);
    calm.play(|_, _| Turn::none());
    let mut table = Table::new(plan);
    table.play(slip([frames.clone(), frames].concat()));
    table.assert_undisturbed();
    assert!(
        table
            .offences
            .iter()
            .any(|(_, peer, text)| *peer == HOSTILE && text.contains("two different")),
        "{:?}",
        table.offences.first()
    );
    // Calls are answered 64 times with what is held (8 notices) and a word that this was all, one
    // of each slot is passed on to two others, four of what opens.
    let extra = sent(&table).saturating_sub(sent(&calm));
    println!(
        "{count} hostile frames made the victim send {extra} more than the usual {}",
        sent(&calm)
    );
    assert!(extra <= 64 * (2 * PARTIES + 1) + 3 * 40, "{extra}");
}

/// Rounds last a while, so that something can come twice within one.
fn pairs() -> Arc<Plan> {
    let lines = "[mechanism]\nkind = \"ppsc\"\ncorrelated = \"gaussian\"\n[run]\npace_ms = 10";
    plan(PARTIES, 3, lines)
}

/// With PPSC the hostile member has few edges in the schedule. A share of another run, of a round
/// or an edge that it does not have, somebody else's, or of another length: told, not taken, and
/// where the true one follows it counts.
#[test]
fn a_share_of_ppsc_that_is_not_due_or_malformed_is_reported_and_ignored() {
    let plan = pairs();
    let (due, not_due) = rounds(&plan);
    let id = |round, from, to| ShareId { round, from, to };
    let zeros = vec![0; 3 * plan.lattice().wire_bytes as usize];
    let frame = |id: ShareId| wire::share_frame(plan.digest(), id, LatticeWeight(0), &zeros);
    // An edge that the schedule has, of two others.
    let (one, other) = (1..=plan.rounds())
        .find_map(|round| {
            (1..PARTIES)
                .find_map(|from| Some((round, (from, *plan.schedule().sends_to(round, from).first()?))))
        })
        .expect("somebody hands out");
    let cases = [
        ("belongs to plan", share(&plan, &[0xee; 32], due, 0, |_| {})),
        ("not due", share(&plan, plan.digest(), not_due, 0, |_| {})),
        (
            "not due",
            share(&plan, plan.digest(), plan.rounds() + 1, 0, |_| {}),
        ),
        ("not due", share(&plan, plan.digest(), u32::MAX, 0, |_| {})),
        ("not due", share(&plan, plan.digest(), 0, 0, |_| {})),
        ("not due", frame(id(one, other.0, other.1))),
        ("not due", frame(id(due, HOSTILE, 1))),
        ("not due", frame(id(due, VICTIM, HOSTILE))),
        ("not due", frame(id(due, 9, VICTIM))),
    ];
    for (word, frame) in cases {
        let said = offences_of(&plan, vec![(Network::Private, frame)]);
        assert!(said.len() == 1 && said[0].contains(word), "{word}: {said:?}");
    }
    for change in [
        |values: &mut Vec<u8>| values.push(0),
        |values: &mut Vec<u8>| values.clear(),
        |values: &mut Vec<u8>| values.resize(1 << 20, 7),
    ] {
        let said = offences_of(
            &plan,
            vec![(Network::Private, share(&plan, plan.digest(), due, 0, change))],
        );
        assert!(said.len() == 1 && said[0].contains("share of round"), "{said:?}");
    }
    let heavy = share(&plan, plan.digest(), due, i128::MAX, |_| {});
    assert_eq!(offences_of(&plan, vec![(Network::Private, heavy)]).len(), 1);
}

/// Any residue may be an honest party's, so the largest is taken; twice it counts once. The result
/// is corrupted, one for all, and nobody overflows.
#[test]
fn a_share_of_ppsc_of_the_largest_residues_counts_once() {
    let plan = pairs();
    let (due, _) = rounds(&plan);
    let width = plan.lattice().wire_bytes as usize;
    let largest = |values: &mut Vec<u8>| values.chunks_mut(width).for_each(|x| x[width - 1] = 0x7f);
    let first = share(&plan, plan.digest(), due, 0, largest);
    let sum = |again: bool| {
        let mut table = Table::new(&plan);
        table.play(|party, output| match output {
            Output::Event(Event::Round(round)) if party == VICTIM && (*round == 1 || again) => {
                Turn::slip(vec![Slip {
                    network: Network::Private,
                    from: HOSTILE,
                    to: VICTIM,
                    frame: first.clone(),
                }])
            }
            _ => Turn::none(),
        });
        let sums: Vec<_> = table
            .outcomes
            .iter()
            .flatten()
            .map(|outcome| outcome.sum.as_ref().map(|sum| sum.value.clone()))
            .collect();
        assert!(
            sums.len() == PARTIES && sums[0].is_some() && sums.iter().all(|sum| *sum == sums[0]),
            "one result"
        );
        assert_ne!(sums[0].as_ref(), Some(&table.exact()));
        sums[0].clone()
    };
    assert_eq!(sum(false), sum(true), "taken once, in whichever round it comes");
}

/// What would open something, before anything is sealed: in another encoding, of another secret, of
/// its author itself, of nobody, of a round that there is not. None of it is believed, and a later
/// true one of the same author counts.
#[test]
fn a_secret_that_opens_nothing_is_reported_and_the_right_one_still_counts() {
    for plan in [four_sealed(), four_masked()] {
        opens_nothing(&plan);
    }
}

fn opens_nothing(plan: &Arc<Plan>) {
    let mut signer = Signer::new(HOSTILE, *plan.digest(), simulated_keypair(HOSTILE), 1 << 40);
    let (one, none) = (Disclosed([1; 32]), Disclosed([0xff; 32]));
    let (round, others) = (plan.sealed_round(), [1, 2].map(|of| (of, one)));
    let mut sign = |notice| {
        let signed = signer.sign(Recipient::All, notice).expect("signs");
        (Network::Public, wire::notice_frame(&signed))
    };
    let mut frames: Vec<_> = [one, none]
        .map(|secret| sign(Notice::Key { round, secret }))
        .to_vec();
    frames.extend(others.map(|(of, share)| sign(Notice::Share { round, of, share })));
    let malformed = [
        Notice::Key {
            round: 1 - round,
            secret: one,
        },
        Notice::Share {
            round: 7,
            of: 1,
            share: one,
        },
        Notice::Share {
            round,
            of: HOSTILE as u32,
            share: one,
        },
        Notice::Share {
            round,
            of: u32::MAX,
            share: one,
        },
    ];
    frames.extend(malformed.map(&mut sign));
    let said = offences_reported(plan, frames);
    let count = |word: &str| {
        let by_victim = said
            .iter()
            .filter(|(by, text)| *by == VICTIM && text.contains(word));
        by_victim.count()
    };
    assert_eq!(count("malformed"), 4, "{said:?}");
    assert_eq!((count("not the secret"), count("no scalar")), (1, 1), "{said:?}");
}

/// Where masks are made of pair keys a READY has one, and no share is due to anybody.
#[test]
fn a_ready_without_a_pair_key_and_an_unexpected_share_are_reported() {
    let plan = four_masked();
    let signed_ready = |pair| {
        let notice = ready(8, pair);
        let signed = sign(HOSTILE, *plan.digest(), simulated_keypair(HOSTILE), notice);
        (Network::Public, wire::notice_frame(&signed))
    };
    for (word, frame) in [
        ("malformed", signed_ready(None)),
        (
            "not due",
            (Network::Private, share(&plan, plan.digest(), 1, 0, |_| {})),
        ),
    ] {
        let said = offences_of(&plan, vec![frame]);
        assert!(said.len() == 1 && said[0].contains(word), "{word}: {said:?}");
    }
}

/// Another sealed final than the one that its author's log names, or bytes that are none: what the
/// log names is asked for all the same, and counts.
#[test]
fn a_sealed_final_that_no_log_names_is_reported_and_the_right_one_still_counts() {
    let plan = four_sealed();
    let length = 3 * plan.lattice().final_bytes as usize;
    for body in [vec![7; length], vec![0xff; length], vec![7; length - 1], vec![]] {
        let (stage, hash, bytes) = (Stage::Sealed, item_hash(&body), body.len() as u64);
        let item = Notice::Item { stage, hash, bytes };
        let item = sign(HOSTILE, *plan.digest(), simulated_keypair(HOSTILE), item);
        let frames = vec![
            (Network::Public, wire::notice_frame(&item)),
            (Network::Public, wire::body_frame(stage, HOSTILE, &body)),
        ];
        let said = offences_reported(&plan, frames);
        assert!(
            said.iter().any(|(_, text)| text.contains("more than one item")),
            "{said:?}"
        );
    }
}
