use libp2p_identity::Keypair;

use super::*;
use crate::messages::notice::Recipient;
use crate::messages::signing::Signer;

fn key(party: Party) -> Keypair {
    Keypair::ed25519_from_bytes([party as u8 + 1; 32]).expect("32 bytes")
}

fn flood() -> Flood {
    Flood::new(
        0,
        Members::new([1; 32], (0..3).map(|party| key(party).public()).collect()),
    )
}

fn signed(signer: &mut Signer, notice: Notice) -> (Arc<[u8]>, SignedNotice) {
    let signed = signer.sign(Recipient::All, notice).expect("signs");
    (wire::notice_frame(&signed), signed)
}

#[test]
fn each_notice_is_new_once_and_a_second_one_is_an_offence() {
    let (mut flood, mut signer) = (flood(), Signer::new(1, [1; 32], key(1), 0));
    let stage = Stage::Settling;
    let (frame, vote) = signed(
        &mut signer,
        Notice::Vote {
            stage,
            early: true,
            set: vec![(0, [0; 32])],
        },
    );
    let slot = Slot::Vote(stage, 1);
    assert_eq!(flood.receive(&frame, vote.clone(), false), Ok(Receipt::New(slot)));
    assert_eq!(flood.receive(&frame, vote, false), Ok(Receipt::Known(slot)));
    let (frame, other) = signed(
        &mut signer,
        Notice::Vote {
            stage,
            early: true,
            set: vec![(1, [0; 32])],
        },
    );
    let mut forged = other.clone();
    forged.signature.0[0] ^= 1;
    assert_eq!(
        flood.receive(&frame, forged, false),
        Err(MessageError::Signature(1).into()),
        "no false accusation"
    );
    assert_eq!(
        flood.receive(&frame, other, false),
        Err(FloodError::Two { author: 1, slot })
    );
    assert_eq!(flood.votes(stage).count(), 1);
    assert_eq!(flood.held().count(), 1);
}

#[test]
fn a_newer_ready_replaces_until_a_start_is_signed() {
    let (mut flood, mut signer) = (flood(), Signer::new(2, [1; 32], key(2), 7));
    let ready = |incarnation| Notice::Ready {
        incarnation: [incarnation; 16],
    };
    let (old_frame, old) = signed(&mut signer, ready(1));
    let (frame, new) = signed(&mut signer, ready(2));
    assert_eq!(
        flood.receive(&frame, new, false),
        Ok(Receipt::New(Slot::Ready(2)))
    );
    assert_eq!(flood.receive(&old_frame, old, false), Ok(Receipt::Stale));
    let (frame, newest) = signed(&mut signer, ready(3));
    assert_eq!(flood.receive(&frame, newest.clone(), true), Ok(Receipt::Stale));
    assert_eq!(flood.ready(2), Some([2; 16]));
    assert_eq!(
        flood.receive(&frame, newest, false),
        Ok(Receipt::New(Slot::Ready(2)))
    );
}

fn sums(number: u8, unheard: Vec<Party>, sum: i64) -> Notice {
    let sketch = Sketch {
        seed: [1; 16],
        sums: [sum; crate::averaging::sketch::SUMS],
    };
    Notice::Sums {
        number,
        unheard,
        sketch: Box::new(sketch),
    }
}

/// A member of three that signs whatever it can, many times over.
#[test]
fn a_members_flood_fills_its_slots_and_no_more() {
    let (mut flood, mut signer) = (flood(), Signer::new(2, [1; 32], key(2), 0));
    let mut passed_on = 0;
    for turn in 0..200u8 {
        let hash = [turn; 32];
        // One of each kind, different in each turn.
        let mut notices = vec![
            Notice::Ready {
                incarnation: [turn; 16],
            },
            Notice::Start {
                seats: vec![Seat {
                    party: 2,
                    incarnation: [turn; 16],
                }],
            },
        ];
        for stage in Stage::ALL {
            notices.push(Notice::Item {
                stage,
                hash,
                bytes: 9,
            });
            notices.push(Notice::List {
                stage,
                set: vec![(0, hash)],
            });
            notices.push(Notice::Vote {
                stage,
                early: true,
                set: vec![(1, hash)],
            });
            notices.extend((0..3).map(|party| Notice::Gone { stage, party }));
        }
        notices.push(Notice::Averaged { whole: turn % 2 == 0 });
        notices.extend(
            (0..=u8::MAX)
                .step_by(1 + 50 * usize::from(turn > 0))
                .map(|number| sums(number, vec![], turn.into())),
        );
        for notice in notices {
            let (frame, notice) = signed(&mut signer, notice);
            passed_on += u32::from(matches!(
                flood.receive(&frame, notice, false),
                Ok(Receipt::New(_))
            ));
        }
    }
    // Of each stage an item, a list, a vote and three calls; the end of averaging, and its sums.
    let once = 2 * (3 + 3) + 1 + usize::from(MOST_SKETCHES);
    assert_eq!(flood.held().count(), 2 + once, "one slot each");
    assert_eq!(passed_on as usize, 2 * (1 + REPLACEMENTS as usize) + once);
    let (frame, latest) = signed(
        &mut signer,
        Notice::Ready {
            incarnation: [255; 16],
        },
    );
    assert_eq!(flood.receive(&frame, latest, false), Ok(Receipt::Stale));
}

#[test]
fn strangers_and_disorder_are_refused() {
    let mut flood = flood();
    let mut stranger = Signer::new(9, [1; 32], key(1), 0);
    let (frame, notice) = signed(
        &mut stranger,
        Notice::Gone {
            stage: Stage::Settling,
            party: 0,
        },
    );
    assert_eq!(
        flood.receive(&frame, notice, false),
        Err(MessageError::Author(9).into())
    );
    let mut signer = Signer::new(1, [1; 32], key(1), 0);
    for notice in [
        Notice::Gone {
            stage: Stage::Settling,
            party: 3,
        },
        Notice::List {
            stage: Stage::Settling,
            set: vec![(1, [0; 32]), (1, [0; 32])],
        },
        Notice::Start {
            seats: vec![Seat {
                party: 3,
                incarnation: [0; 16],
            }],
        },
        sums(MOST_SKETCHES, vec![], 0),
        sums(0, vec![2, 0], 0),
        sums(0, vec![3], 0),
    ] {
        let (frame, notice) = signed(&mut signer, notice);
        assert_eq!(
            flood.receive(&frame, notice, false),
            Err(FloodError::Malformed(1))
        );
    }
    let mut elsewhere = Signer::new(1, [2; 32], key(1), 0);
    let (frame, notice) = signed(&mut elsewhere, Notice::Ready { incarnation: [0; 16] });
    assert!(matches!(
        flood.receive(&frame, notice, false),
        Err(FloodError::Message(MessageError::Digest { .. }))
    ));
}
