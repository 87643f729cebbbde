//! What a hostile member of a run with `dissemination = "consensus"` says in rounds of averaging,
//! at the level of the machines: what cannot be is told and ignored, or leads to the flood, and
//! the others end within what they claim of the exact mean. Nobody publishes anything of its own
//! twice (the table checks that of every frame), and nothing piles up.

use std::collections::BTreeMap;
use std::sync::Arc;

use libp2p_identity::Keypair;
use undertone_protocol::messages::notice::{Network, Notice, Recipient, Round};
use undertone_protocol::messages::signature::Signature;
use undertone_protocol::messages::signing::Signer;
use undertone_protocol::messages::wire::{self, PublicFrame};
use undertone_protocol::plan::peers::simulated_keypair;
use undertone_protocol::publishing::averaging::machine::{AVERAGING_STAGES, MOST_STAGES};
use undertone_protocol::run::interface::Output;
use undertone_protocol::run::outcome::{Ending, Event};
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;
use undertone_tests::simulated::others;
use undertone_tests::table::hostile::{
    self, DIMENSION, FAR, Moment, OTHER, PARTIES, VICTIM, flooded, kept, last_round, lies, once, path, ring,
    round, says, sends, signer_of, to, victim_averages, victim_publishes, victim_settles,
};
use undertone_tests::table::{HOSTILE, Slip, Table, Turn};

/// The run with these is as it would be without: everybody's mean, agreed, and nobody has fallen
/// back. What the victim tells of others.
#[track_caller]
fn offences_of(at: Moment, slips: Vec<Slip>) -> Vec<(Party, String)> {
    let mut table = Table::new(&ring());
    let mut came = false;
    let mut slip = once(at, slips);
    let mut fell_back = false;
    table.play(|party, output| {
        came |= at(party, output);
        fell_back |= says(output).is_some_and(|(_, notice)| notice == Notice::Missed);
        slip(party, output)
    });
    assert!(
        came && !fell_back,
        "came: {came}, fell back: {fell_back}: {:?}",
        table.offences
    );
    let (included, agreed) = table.assert_averaged();
    assert_eq!((included, agreed), (others(&ring(), &[]), PARTIES - 1));
    assert!(table.honest().all(|(_, outcome)| outcome.ending == Ending::Done));
    assert_eq!(table.faults, []);
    table
        .offences_reported_by(VICTIM)
        .into_iter()
        .map(|(of, text)| (of, text.to_owned()))
        .collect()
}

/// Rounds of another plan, key, author or content: whom they come from, what is told, the frame.
fn strange_rounds() -> [(Party, &'static str, std::sync::Arc<[u8]>); 9] {
    let values = [0; DIMENSION];
    let good = signer_of(HOSTILE).round(1, &values).expect("signs");
    let stranger = Keypair::ed25519_from_bytes([99; 32]).expect("32 bytes");
    let by = |party, digest, key| {
        Signer::new(party, digest, key, 0)
            .round(1, &values)
            .expect("signs")
    };
    let Signature(mut bits) = good.signature;
    bits[9] ^= 1;
    let elsewhere = by(HOSTILE, [0xee; 32], simulated_keypair(HOSTILE));
    let far = wire::round_frame(&signer_of(FAR).round(1, &values).expect("signs"), &values);
    let frame = |round: Round| wire::round_frame(&round, &values);
    [
        (HOSTILE, "belongs to plan", frame(elsewhere)),
        (
            HOSTILE,
            "its signature",
            frame(Round {
                signature: Signature(bits),
                ..good
            }),
        ),
        (
            HOSTILE,
            "its signature",
            frame(by(HOSTILE, *ring().digest(), stranger)),
        ),
        (HOSTILE, "its signature", frame(Round { round: 2, ..good })),
        (
            HOSTILE,
            "its signature",
            wire::round_frame(&good, &[1; DIMENSION]),
        ),
        (
            HOSTILE,
            "not its own",
            frame(by(1, *ring().digest(), simulated_keypair(1))),
        ),
        (
            HOSTILE,
            "not its own",
            frame(by(9, *ring().digest(), simulated_keypair(9))),
        ),
        (FAR, "no neighbour", far),
        (HOSTILE, "does not decode", [1, 7, 0, 0].into()),
    ]
}

#[test]
fn a_round_that_is_forged_or_from_no_neighbour_is_reported_and_ignored() {
    for (from, word, frame) in strange_rounds() {
        let reported = offences_of(
            victim_averages,
            vec![Slip {
                network: Network::Public,
                from,
                to: VICTIM,
                frame,
            }],
        );
        assert!(
            reported.len() == 1 && reported[0].0 == from && reported[0].1.contains(word),
            "{word}: {reported:?}"
        );
    }
}

#[test]
fn a_round_of_a_wrong_number_or_length_is_reported_and_the_right_one_still_counts() {
    let long = vec![1; 1 << 20];
    let cases = [
        ("cannot have reached", round(3, &[0; DIMENSION])),
        ("cannot have reached", round(u32::MAX, &[0; DIMENSION])),
        ("bytes, expected", round(1, &[])),
        ("bytes, expected", round(1, &[0; DIMENSION - 1])),
        ("bytes, expected", round(1, &long)),
        ("bytes, expected", round(2, &long)),
    ];
    for (word, frame) in cases {
        let reported = offences_of(victim_averages, vec![to(VICTIM, frame)]);
        assert!(
            reported.len() == 1 && reported[0].0 == HOSTILE && reported[0].1.contains(word),
            "{word}: {reported:?}"
        );
    }
    // Before this node has a final of its own.
    for values in [&[][..], &[7; DIMENSION], &long] {
        let reported = offences_of(victim_settles, vec![to(VICTIM, round(0, values))]);
        assert!(
            reported.len() == 1 && reported[0].1.contains("bytes, expected"),
            "{reported:?}"
        );
    }
}

#[test]
fn what_was_said_before_is_ignored_however_often_it_comes() {
    let calm = {
        let mut table = Table::new(&ring());
        table.play(|_, _| Turn::none());
        table.sent
    };
    let mut table = Table::new(&ring());
    let mut heard: Vec<Arc<[u8]>> = vec![];
    table.play(|party, output| {
        if let (HOSTILE, Output::Public { to: VICTIM, frame }) = (party, output) {
            heard.push(frame.clone());
        }
        let again = party == VICTIM && matches!(output, Output::Public { .. });
        let frames = heard.iter().filter(|_| again);
        Turn::slip(
            frames
                .flat_map(|frame| [to(VICTIM, frame.clone()), to(VICTIM, frame.clone())])
                .collect(),
        )
    });
    assert_eq!(table.assert_averaged(), (others(&ring(), &[]), PARTIES - 1));
    assert_eq!((table.offences, table.faults), (vec![], vec![]));
    assert_eq!(table.sent, calm, "nobody says a word more");
}

/// Right after the first, or once that was used.
#[test]
fn a_second_message_of_a_round_is_reported_and_the_first_one_counts() {
    let width = |values: &[u8]| values.len() / DIMENSION;
    for number in [0, 1, 2] {
        let mut table = Table::new(&ring());
        table.play(|party, output| match sends(output) {
            Some((VICTIM, round, values)) if party == HOSTILE && round.round == number => {
                let mut other = values.clone();
                other[width(&values) - 1] ^= 1;
                Turn::instead(vec![
                    to(VICTIM, wire::round_frame(&round, &values)),
                    to(VICTIM, hostile::round(number, &other)),
                ])
            }
            _ => Turn::none(),
        });
        assert_eq!(
            table.assert_averaged(),
            (others(&ring(), &[]), PARTIES - 1),
            "round {number}"
        );
        let reported = table.offences_reported_by(VICTIM);
        assert!(
            reported.len() == 1
                && reported[0].0 == HOSTILE
                && reported[0].1.contains("two different messages"),
            "round {number}: {reported:?}"
        );
    }
    let mut table = Table::new(&ring());
    table.play(|party, output| match sends(output) {
        Some((VICTIM, round, values)) if party == HOSTILE && round.round == 2 => Turn::instead(vec![
            to(VICTIM, hostile::round(1, &[0; DIMENSION])),
            to(VICTIM, wire::round_frame(&round, &values)),
        ]),
        _ => Turn::none(),
    });
    let later: Vec<(Party, String)> = table
        .offences_reported_by(VICTIM)
        .into_iter()
        .map(|(of, text)| (of, text.to_owned()))
        .collect();
    let opened = to(VICTIM, round(0, &[0; DIMENSION]));
    for reported in [later, offences_of(victim_averages, vec![opened])] {
        assert!(
            reported.len() == 1 && reported[0].1.contains("two different messages"),
            "{reported:?}"
        );
    }
}

#[test]
fn an_opening_that_is_not_the_one_of_its_entry_costs_its_author_and_nobody_else() {
    type Lie = fn(Vec<u8>) -> Vec<u8>;
    let other: Lie = |mut values| {
        values[0] ^= 1;
        values
    };
    for lie in [
        other,
        |values| vec![0; values.len()],
        |values| vec![0x7f; values.len()],
    ] {
        let mut table = Table::new(&ring());
        lies(&mut table, 0, |_, _, values| lie(values));
        assert!(flooded(&table));
        // Its final is the one that it announced, all the same.
        assert_eq!(table.assert_averaged(), (others(&ring(), &[]), PARTIES - 1));
        for party in [VICTIM, OTHER] {
            let reported = table.offences_reported_by(party);
            assert!(
                reported.len() == 1 && reported[0].1.contains("not the one that it announced"),
                "{reported:?}"
            );
        }
    }
    // To one neighbour only.
    let mut table = Table::new(&ring());
    lies(
        &mut table,
        0,
        |peer, _, values| {
            if peer == VICTIM { other(values) } else { values }
        },
    );
    assert_eq!(table.assert_averaged(), (others(&ring(), &[]), PARTIES - 1));
    assert!(
        table
            .offences_reported_by(VICTIM)
            .iter()
            .any(|(_, text)| text.contains("not the one that it announced"))
    );
}

#[test]
fn a_change_beyond_what_the_entries_allow_leads_to_the_flood() {
    for number in [1, 2] {
        let mut table = Table::new(&ring());
        lies(&mut table, number, |peer, _, values| match peer {
            VICTIM => values
                .chunks(values.len() / DIMENSION)
                .flat_map(|x| [&vec![0xff; x.len() - 1][..], &[0x7f]].concat())
                .collect(),
            _ => values,
        });
        assert!(flooded(&table), "round {number}");
        assert_eq!(
            table.assert_averaged(),
            (others(&ring(), &[]), PARTIES - 1),
            "round {number}"
        );
        let reported = table.offences_reported_by(VICTIM);
        assert!(
            reported.len() == 1
                && reported[0].0 == HOSTILE
                && reported[0].1.contains("the entries do not allow"),
            "{reported:?}"
        );
    }
}

/// It answers every sign of life with one of its own, and says nothing else: for each neighbour's
/// patience there is an end.
#[test]
fn who_only_says_that_it_waits_is_not_waited_for_for_ever() {
    let settle_ms = ring().draft().run.settle_ms;
    for from in [1, 2] {
        let (mut table, mut signer) = (Table::new(&ring()), signer_of(HOSTILE));
        table.play(|party, output| {
            let mute = party == HOSTILE && sends(output).is_some_and(|(_, round, _)| round.round >= from);
            let mut slips = vec![];
            if let (VICTIM | OTHER, Output::Public { to: HOSTILE, frame }) = (party, output)
                && let Ok(PublicFrame::Notice(signed)) = wire::read_public(frame)
                && signed.notice == Notice::Waiting
            {
                let alive = signer
                    .sign(Recipient::Party(party), Notice::Waiting)
                    .expect("signs");
                slips.push(to(party, wire::notice_frame(&alive)));
            }
            Turn { passes: !mute, slips }
        });
        assert!(flooded(&table));
        assert_eq!(table.assert_averaged(), (others(&ring(), &[]), PARTIES - 1));
        assert!(
            table.now <= Time::from_millis(settle_ms * (MOST_STAGES + 1)),
            "{:?}",
            table.now
        );
    }
}

/// It keeps each round until just before its neighbours' patience ends.
#[test]
fn who_says_each_round_just_in_time_does_not_hold_up_all_of_them() {
    let (plan, mut table) = (path(), Table::new(&path()));
    let settle_ms = plan.draft().run.settle_ms;
    // A neighbour says that it waits four times a stage.
    let late = 7;
    assert!(
        u64::from(last_round(&plan)) * late > 4 * AVERAGING_STAGES,
        "else it could be in time with all of them"
    );
    let (mut kept, mut waited) = (BTreeMap::<u32, Vec<Slip>>::new(), 0);
    table.play(|party, output| {
        if let Some((peer, round, _)) = sends(output).filter(|_| party == HOSTILE)
            && round.round > 0
            && let Output::Public { frame, .. } = output
        {
            kept.entry(round.round).or_default().push(to(peer, frame.clone()));
            return Turn::instead(vec![]);
        }
        let waits = matches!(output, Output::Public { to: HOSTILE, .. })
            && says(output) == Some((VICTIM, Notice::Waiting));
        waited += u64::from(waits);
        let next = if waits && waited % late == 0 {
            kept.pop_first()
        } else {
            None
        };
        Turn::slip(next.map(|(_, slips)| slips).unwrap_or_default())
    });
    assert!(flooded(&table), "{:?}", table.now);
    assert_eq!(table.assert_averaged(), (others(&plan, &[]), PARTIES - 1));
    assert!(
        table.now <= Time::from_millis(settle_ms * (AVERAGING_STAGES + 1)),
        "{:?}",
        table.now
    );
}

/// Openings and rounds in any number, long before anybody can use them, and rounds of every number
/// while others go on: two are kept.
#[test]
fn early_messages_in_any_number_are_kept_two_at_a_time() {
    let width = ring().terms().expect("it averages").opening_bytes;
    let mut frames = vec![];
    for turn in 0..700u32 {
        let values = vec![turn as u8; DIMENSION * width];
        frames.extend([round(turn % 3, &values)]);
        frames.push(round(turn, &[turn as u8; 16 * DIMENSION]));
    }
    let mixes: Moment = |party, output| party == VICTIM && matches!(output, Output::Event(Event::Round(2)));
    for at in [mixes, victim_settles, victim_publishes, victim_averages] {
        let mut table = Table::new(&ring());
        let mut slip = once(at, frames.iter().map(|frame| to(VICTIM, frame.clone())).collect());
        let (mut came, mut most) = (false, 0);
        table.play(|party, output| {
            if came {
                most = most.max(kept(&frames));
            }
            came |= at(party, output);
            slip(party, output)
        });
        table.assert_averaged();
        assert!(came && most <= 4, "{most} of {} were kept", frames.len());
    }
}
