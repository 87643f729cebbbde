mod iterations;
mod notices;
mod sealing;

use proptest::prelude::*;

use self::notices::{give_up, notices};
use super::asks::*;
use super::*;
use crate::messages::log::{ReceivedEntry, SentEntry, Verdict};
use crate::messages::notice::{Disclosed, Found, LateArrivals, Unreached};
use crate::messages::question::{Question, Reply};
use crate::messages::row::Row;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A final's bytes: its weight, then its coordinates as the lattice encodes them.
fn final_to_bytes(weight: LatticeWeight, values: &[u8]) -> Vec<u8> {
    [&weight.0.to_le_bytes(), values].concat()
}

fn signed(notice: Notice, recipient: Recipient) -> SignedNotice {
    SignedNotice {
        author: 3,
        sequence: 258,
        recipient,
        notice,
        signature: Signature([0xcc; 64]),
    }
}

/// In round 1 party 1 sends to 2 and 2 to it; in round 2 it sends to 0, and 3 to it.
fn schedule() -> Schedule {
    let first = vec![vec![3], vec![2], vec![1], vec![0]];
    let second = vec![vec![2], vec![0], vec![3], vec![1]];
    Schedule::from_out(vec![first, second])
}

fn ready() -> Notice {
    Notice::Ready {
        key: [5; 32],
        pair: None,
        records: None,
    }
}

fn log() -> Log {
    let answer = Answer {
        verdict: Verdict::Accepted { applied: 2 },
        signature: Signature([0xee; 64]),
    };
    Log {
        party: 1,
        sent: vec![
            SentEntry {
                round: 1,
                to: 2,
                left: true,
                answer: Some(answer),
            },
            SentEntry {
                round: 2,
                to: 0,
                left: false,
                answer: None,
            },
        ],
        received: vec![ReceivedEntry {
            round: 1,
            from: 2,
            applied: 2,
        }],
        unreachable: vec![3],
        sealed: None,
    }
}

#[test]
fn the_bytes_of_questions_are_pinned() {
    let (nonce, cc, dd) = ("0b".repeat(16), "cc".repeat(64), "dd".repeat(32));
    let signature = Signature([0xcc; 64]);
    let question = |question, payload: &[u8]| hex(&question_frame([0x0b; 16], signature, &question, payload));
    let text = |text: String| text.replace(' ', "");
    assert_eq!(
        question(
            Question::Check {
                digest: Some([0xdd; 32])
            },
            &[]
        ),
        text(format!("0105 {nonce} {cc} 00000000 01 {dd}"))
    );
    assert_eq!(
        question(Question::Check { digest: None }, &[]),
        text(format!("0105 {nonce} {cc} 00000000 00"))
    );
    assert_eq!(
        question(Question::Echo, b"xyz"),
        text(format!("0105 {nonce} {cc} 01000000 78797a"))
    );
    assert_eq!(
        question(Question::Offer, b"{}"),
        text(format!("0105 {nonce} {cc} 02000000 7b7d"))
    );
    let attend = Question::Attend {
        occurrence: [0xdd; 32],
        attempt: 258,
    };
    assert_eq!(
        question(attend, &[]),
        text(format!("0105 {nonce} {cc} 03000000 {dd} 02010000"))
    );
    let outcome = Question::Outcome {
        digest: [0xdd; 32],
        from: 258,
    };
    assert_eq!(
        question(outcome, &[]),
        text(format!("0105 {nonce} {cc} 04000000 {dd} 0201000000000000"))
    );
    let keys = Question::Keys { held: [0xdd; 32] };
    assert_eq!(
        question(keys, b"x"),
        text(format!("0105 {nonce} {cc} 05000000 {dd} 78"))
    );
    // A question is no reply, and half of one is nothing.
    let frame = question_frame([0x0b; 16], signature, &Question::Echo, b"xyz");
    assert_eq!(
        read_question(&frame),
        Ok(([0x0b; 16], signature, Question::Echo, &b"xyz"[..]))
    );
    assert_eq!(read_reply(&frame), Err(WireError::Kind(5)));
    assert_eq!(read_question(&frame[..40]), Err(WireError::Malformed("question")));
}

#[test]
fn the_bytes_of_replies_are_pinned() {
    let (nonce, cc, dd) = ("0b".repeat(16), "cc".repeat(64), "dd".repeat(32));
    let signature = Signature([0xcc; 64]);
    let text = |text: String| text.replace(' ', "");
    // Replies have a kind of their own.
    let reply = |reply, payload: &[u8]| hex(&reply_frame([0x0b; 16], signature, &reply, payload));
    let (software, plan, seen) = ("v".into(), Some("on".into()), "/".into());
    let checked = Reply::Checked {
        messages: 1,
        software,
        time_ms: 258,
        plan,
        other: None,
        seen,
        list: Some([0x1d; 32]),
    };
    let list = "1d".repeat(32);
    let strings = format!(
        "0100000000000000 76 0201000000000000 01 0200000000000000 6f6e 00 0100000000000000 2f 01 {list}"
    );
    assert_eq!(
        reply(checked, &[]),
        text(format!("0106 {nonce} {cc} 00000000 01000000 {strings}"))
    );
    assert_eq!(
        reply(Reply::Echoed, b"x"),
        text(format!("0106 {nonce} {cc} 01000000 78"))
    );
    assert_eq!(
        reply(Reply::Taken, &[]),
        text(format!("0106 {nonce} {cc} 02000000"))
    );
    let refused = Reply::Refused { reason: "no".into() };
    assert_eq!(
        reply(refused, &[]),
        text(format!("0106 {nonce} {cc} 03000000 0200000000000000 6e6f"))
    );
    assert_eq!(
        reply(Reply::Attends { records: Some(258) }, &[]),
        text(format!("0106 {nonce} {cc} 04000000 01 02010000"))
    );
    assert_eq!(
        reply(Reply::Early { time_ms: 258 }, &[]),
        text(format!("0106 {nonce} {cc} 05000000 0201000000000000"))
    );
    let outcome = Reply::Outcome {
        record: [0xdd; 32],
        mean: [0xee; 32],
        record_bytes: 1,
        mean_bytes: 258,
    };
    let hashes = format!("{dd} {}", "ee".repeat(32));
    assert_eq!(
        reply(outcome, b"x"),
        text(format!(
            "0106 {nonce} {cc} 06000000 {hashes} 0100000000000000 0201000000000000 78"
        ))
    );
    assert_eq!(
        reply(Reply::NoOutcome { running: true }, &[]),
        text(format!("0106 {nonce} {cc} 07000000 01"))
    );
    assert_eq!(
        reply(Reply::Keys { held: [0xdd; 32] }, b"x"),
        text(format!("0106 {nonce} {cc} 08000000 {dd} 78"))
    );
}

fn share_id() -> ShareId {
    ShareId {
        round: 2,
        from: 1,
        to: 3,
    }
}

#[test]
fn the_bytes_of_gatherings_notices_are_pinned() {
    // From party 3, number 258, to all.
    let envelope = format!("0101 03 fb0201 00 {}", "cc".repeat(64));
    let ready = notice_frame(&signed(ready(), Recipient::All));
    let keys = format!("{} 00 00", "05".repeat(32));
    // A static plan's kinds came later: the numbers of the others, and so their frames, stayed.
    let commit = notice_frame(&signed(
        Notice::Commit {
            key: [5; 32],
            pair: None,
            records: None,
            commitment: [7; 32],
        },
        Recipient::All,
    ));
    let seven = "07".repeat(32);
    let commit_hex = format!("{envelope} 0c {keys} {seven}");
    assert_eq!(hex(&commit), commit_hex.replace(' ', ""));
    let reveal = Notice::Reveal {
        number: 2,
        incarnation: [6; 16],
        seats: [7; 32],
        commitments: [8; 32],
        nonce: [9; 32],
    };
    let (six, eight, nine) = ("06".repeat(16), "08".repeat(32), "09".repeat(32));
    let reveal_hex = format!("{envelope} 0d 02 {six} {seven} {eight} {nine}");
    assert_eq!(
        hex(&notice_frame(&signed(reveal, Recipient::All))),
        reveal_hex.replace(' ', "")
    );
    assert_eq!(hex(&ready), format!("{envelope} 00 {keys}").replace(' ', ""));
    let given_up = notice_frame(&signed(give_up(), Recipient::All));
    let given_up_hex = format!("{envelope} 15 01 {six} 01 {seven}");
    assert_eq!(hex(&given_up), given_up_hex.replace(' ', ""));
}

#[test]
fn the_bytes_of_later_notices_are_pinned() {
    let cc = "cc".repeat(64);
    let envelope = format!("0101 03 fb0201 00 {cc}");
    let want = notice_frame(&signed(
        Notice::Want {
            stage: Stage::Publishing,
            item: 4,
        },
        Recipient::Party(7),
    ));
    assert_eq!(
        hex(&want),
        format!("0101 03 fb0201 01 07 {cc} 06 01 04").replace(' ', "")
    );
    let body = body_frame(Stage::Settling, 5, b"xyz");
    assert_eq!(hex(&body), "010200057879 7a".replace(' ', ""));
    // Hash and length follow from the bytes, and an item is said once.
    let item = signed(announcement(b"xyz"), Recipient::All);
    assert_eq!(
        hex(&announcement_frame(&item, b"xyz")),
        format!("0109 03 00 {cc} 78797a").replace(' ', "")
    );
    let averaged = notice_frame(&signed(Notice::Averaged, Recipient::All));
    assert_eq!(hex(&averaged), format!("{envelope} 0a").replace(' ', ""));
}

#[test]
fn the_bytes_of_rounds_are_pinned() {
    let (aa, cc) = ("aa".repeat(32), "cc".repeat(64));
    let round = Round {
        author: 5,
        digest: [0xaa; 32],
        round: 2,
        signature: Signature([0xcc; 64]),
    };
    let frame = round_frame(&round, &[1, 2, 3]);
    let numbers = "05000000 02000000";
    assert_eq!(
        hex(&frame),
        format!("0107 {aa} {numbers} {cc} 010203").replace(' ', "")
    );
    match read_public(&frame) {
        Ok(PublicFrame::Round { round: read, values }) => {
            assert_eq!((read, &frame[values]), (round, &[1u8, 2, 3][..]))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_bytes_of_shares_answers_finals_and_logs_are_pinned() {
    let (aa, cc) = ("aa".repeat(32), "cc".repeat(64));
    let share = share_frame(&[0xaa; 32], share_id(), LatticeWeight(-2), &[1, 2, 3]);
    let weight = format!("fe{}", "ff".repeat(15));
    assert_eq!(
        hex(&share),
        format!("0103 {aa} 02000000 01000000 03000000 {weight} 010203").replace(' ', "")
    );
    let answer = Answer {
        verdict: Verdict::Accepted { applied: 4 },
        signature: Signature([0xcc; 64]),
    };
    let answer = answer_frame(&[0xaa; 32], share_id(), &answer);
    assert_eq!(
        hex(&answer),
        format!("0104 {aa} 02000000 01000000 03000000 00000000 04000000 {cc}").replace(' ', "")
    );
    assert_eq!(
        hex(&final_to_bytes(LatticeWeight(3), &[9])),
        format!("03{}09", "00".repeat(15))
    );
    let ee = "ee".repeat(64);
    // One accepted a round late, one kept; one joined a round late, one did not; 3 is gone; nothing
    // is sealed.
    assert_eq!(
        hex(&log_to_bytes(&log(), &schedule())),
        format!("02 03 01 {ee} 00  02 02 00  01 03  00").replace(' ', "")
    );
}

fn announcement(item: &[u8]) -> Notice {
    Notice::Item {
        stage: Stage::Settling,
        hash: item_hash(item),
        bytes: item.len() as u64,
    }
}

#[test]
fn a_short_item_travels_with_its_announcement_and_a_long_one_does_not() {
    for length in [0, 3, SHORT_ITEM_BYTES] {
        let item = vec![7; length];
        let said = SignedNotice {
            sequence: 0,
            ..signed(announcement(&item), Recipient::All)
        };
        let frame = announcement_frame(&said, &item);
        match read_public(&frame) {
            Ok(PublicFrame::Item { signed, bytes }) => {
                assert_eq!((signed, &frame[bytes]), (said, &item[..]));
            }
            other => panic!("{other:?}"),
        }
    }
    let long = vec![7; SHORT_ITEM_BYTES + 1];
    let said = signed(announcement(&long), Recipient::All);
    assert_eq!(announcement_frame(&said, &long), notice_frame(&said));
    let said = signed(announcement(b"xyz"), Recipient::All);
    assert_eq!(
        announcement_frame(&said, &[]),
        notice_frame(&said),
        "without its bytes"
    );
    let mut hostile = announcement_frame(&said, b"xyz").to_vec();
    hostile.resize(hostile.len() + SHORT_ITEM_BYTES, 7);
    assert_eq!(
        read_public(&hostile).unwrap_err(),
        WireError::Malformed("short item")
    );
}

#[test]
fn what_is_written_is_read() {
    for notice in notices() {
        let recipient = if notice.is_direct() {
            Recipient::Party(7)
        } else {
            Recipient::All
        };
        let signed = signed(notice, recipient);
        match read_public(&notice_frame(&signed)) {
            Ok(PublicFrame::Notice(read)) => assert_eq!(read, signed),
            other => panic!("{other:?}"),
        }
    }
    let frame = body_frame(Stage::Publishing, 5, b"xyz");
    match read_public(&frame) {
        Ok(PublicFrame::Body {
            stage: Stage::Publishing,
            author: 5,
            bytes,
        }) => {
            assert_eq!(&frame[bytes], b"xyz");
        }
        other => panic!("{other:?}"),
    }
    let frame = share_frame(&[2; 32], share_id(), LatticeWeight(i128::MIN), &[1, 2]);
    match read_private(&frame) {
        Ok(PrivateFrame::Share {
            id,
            weight: LatticeWeight(i128::MIN),
            values,
            ..
        }) => {
            assert_eq!((id, &frame[values]), (share_id(), &[1u8, 2][..]));
        }
        other => panic!("{other:?}"),
    }
    let schedule = schedule();
    let bytes = log_to_bytes(&log(), &schedule);
    assert_eq!(log_from_bytes(&bytes, 1, &schedule), Ok(log()));
    // Of another party's shares, or of another schedule's, it says nothing.
    for other in [Schedule::none(), Schedule::from_out(schedule.out()[..1].to_vec())] {
        assert!(log_from_bytes(&bytes, 1, &other).is_err());
    }
    assert_eq!(
        final_from_bytes(&final_to_bytes(LatticeWeight(-4), &[8])),
        Ok((LatticeWeight(-4), &[8u8][..]))
    );
    assert!(final_from_bytes(&[0; 15]).is_err());
}

#[test]
fn what_is_no_frame_is_refused() {
    assert_eq!(read_public(&[]).err(), Some(WireError::Short(0)));
    assert_eq!(read_private(&[1]).err(), Some(WireError::Short(1)));
    assert_eq!(
        read_public(&[2, 1, 0]).err(),
        Some(WireError::Version { found: 2 })
    );
    assert_eq!(
        read_public(&[1, 3, 0]).err(),
        Some(WireError::Kind(3)),
        "shares never on the public graph"
    );
    assert_eq!(read_private(&[1, 1, 0]).err(), Some(WireError::Kind(1)));
    let mut long = notice_frame(&signed(ready(), Recipient::All)).to_vec();
    long.push(0);
    assert_eq!(
        read_public(&long).err(),
        Some(WireError::Leftover {
            what: "notice",
            left: 1
        })
    );
    let misdirected = notice_frame(&signed(
        Notice::Summary {
            gathered: true,
            holdings: Vec::new(),
        },
        Recipient::All,
    ));
    assert_eq!(
        read_public(&misdirected).err(),
        Some(WireError::Malformed("envelope"))
    );
}

#[test]
fn hostile_lengths_allocate_nothing() {
    let notice = Notice::Unreached { parties: Vec::new() };
    let unreached = notice_frame(&signed(notice, Recipient::All)).to_vec();
    let set = set_frame(&Set::Seats(Vec::new())).to_vec();
    for (frame, what) in [(unreached, "notice"), (set, "set")] {
        // The last byte is the length, 0; a marker makes it eight bytes.
        for hostile in [1u64 << 40, u64::MAX, 1 << 20] {
            let length = [&[253][..], &hostile.to_le_bytes()].concat();
            let frame = [&frame[..frame.len() - 1], &length].concat();
            assert_eq!(read_public(&frame).err(), Some(WireError::Malformed(what)));
        }
    }
}

#[test]
fn limits_hold_the_largest_messages() {
    let (parties, rounds) = (200, 40);
    let everybody_to_the_next = (0..parties).map(|party| vec![(party + 1) % parties]).collect();
    let schedule = Schedule::from_out(vec![everybody_to_the_next; rounds]);
    let answer = Answer {
        verdict: Verdict::Accepted { applied: 40 },
        signature: Signature([1; 64]),
    };
    let sent = (1..=rounds as u32)
        .map(|round| SentEntry {
            round,
            to: 1,
            left: true,
            answer: Some(answer.clone()),
        })
        .collect();
    let received = (1..=rounds as u32)
        .map(|round| ReceivedEntry {
            round,
            from: parties - 1,
            applied: 40,
        })
        .collect();
    let log = Log {
        party: 0,
        sent,
        received,
        unreachable: (0..parties).collect(),
        sealed: None,
    };
    let bytes = log_to_bytes(&log, &schedule);
    assert_eq!(log_from_bytes(&bytes, 0, &schedule), Ok(log));
    assert!(bytes.len() > 65 * rounds && bytes.len() <= log_limit(parties, rounds, 1, rounds));
    assert!(body_frame(Stage::Settling, 0, &bytes).len() <= public_frame_limit(parties, bytes.len()));
    let items = || (0..parties).map(|party| (party, [0; 32])).collect();
    let list = notice_frame(&signed(
        Notice::List {
            stage: Stage::Settling,
            held: Row::of(parties, 0..parties),
            versions: items(),
        },
        Recipient::All,
    ));
    assert!(list.len() <= public_frame_limit(parties, 0));
    let set = set_frame(&Set::Items(items()));
    assert!(set.len() <= public_frame_limit(parties, 0));
    assert!(share_frame(&[0; 32], share_id(), LatticeWeight(1), &[0; 500]).len() <= private_frame_limit(500));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_public(&bytes);
        let _ = read_private(&bytes);
        let _ = log_from_bytes(&bytes, 1, &schedule());
        let _ = final_from_bytes(&bytes);
    }

    #[test]
    fn no_altered_frame_panics(
        which in 0..notices().len(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let notice = notices().swap_remove(which);
        let recipient = if notice.is_direct() { Recipient::Party(7) } else { Recipient::All };
        let mut frame = notice_frame(&signed(notice, recipient)).to_vec();
        let place = at.index(frame.len());
        frame[place] = byte;
        let _ = read_public(&frame[..cut.index(frame.len() + 1)]);
        for log in [log(), sealing::sealed_log()] {
            let mut log = log_to_bytes(&log, &schedule());
            let place = at.index(log.len());
            log[place] = byte;
            let _ = log_from_bytes(&log, 1, &schedule());
        }
    }
}

#[test]
fn a_text_that_says_it_is_longer_than_its_frame_is_refused_without_room_for_it() {
    let reason = "undertone".to_owned();
    let honest = reply_frame([1; 16], Signature([2; 64]), &Reply::Refused { reason }, b"");
    assert!(read_reply(&honest).is_ok());
    // The length of the first text stands before it.
    let text = honest
        .windows(9)
        .position(|window| window == b"undertone")
        .expect("it is there");
    for length in [1 << 20, u64::MAX / 2, u64::MAX] {
        let mut hostile = honest.clone();
        hostile[text - 8..text].copy_from_slice(&length.to_le_bytes());
        assert!(read_reply(&hostile).is_err(), "{length}");
    }
}
