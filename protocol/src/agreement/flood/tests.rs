use libp2p_identity::Keypair;

use super::*;
use crate::agreement::flood::named_sets::SPARE_SETS;
use crate::agreement::flood::named_sets::SetPurpose;
use crate::messages::notice::Recipient;
use crate::messages::row::Row;
use crate::messages::set::Set;
use crate::messages::signing::Signer;
use crate::messages::testing::{ready, run_key, started};

fn key(party: Party) -> Keypair {
    Keypair::ed25519_from_bytes([party as u8 + 1; 32]).expect("32 bytes")
}

fn flood() -> Flood {
    flood_of(3)
}

fn flood_of(parties: usize) -> Flood {
    let keys = (0..parties).map(|party| key(party).public()).collect();
    Flood::new(0, Members::new([1; 32], keys))
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
            set: [0; 32],
        },
    );
    let slot = Slot::Vote(stage, 1);
    assert_eq!(flood.receive(&frame, vote.clone(), false), Ok(Receipt::New(slot)));
    assert_eq!(
        flood.receive(&frame, vote.clone(), false),
        Ok(Receipt::Known(slot))
    );
    // Its signature is not checked again: that of one that is held is not even looked at.
    let mut again = vote;
    again.signature.0[0] ^= 1;
    assert_eq!(flood.receive(&frame, again, false), Ok(Receipt::Known(slot)));
    let (frame, other) = signed(
        &mut signer,
        Notice::Vote {
            stage,
            early: true,
            set: [1; 32],
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
    let (old_frame, old) = signed(&mut signer, ready(1));
    let (frame, new) = signed(&mut signer, ready(2));
    assert_eq!(
        flood.receive(&frame, new, false),
        Ok(Receipt::New(Slot::Ready(2)))
    );
    assert_eq!(flood.receive(&old_frame, old, false), Ok(Receipt::Stale));
    let (frame, newest) = signed(&mut signer, ready(3));
    assert_eq!(flood.receive(&frame, newest.clone(), true), Ok(Receipt::Stale));
    assert_eq!(flood.ready(2), Some(started(2)));
    assert_eq!(
        flood.receive(&frame, newest, false),
        Ok(Receipt::New(Slot::Ready(2)))
    );
}

/// Counts that are kept are those of everything that is held, however READYs and STARTs of
/// restarted nodes replace each other.
#[test]
fn what_is_counted_is_what_is_held() {
    let (mut flood, mut replaced) = (flood_of(4), 0);
    let mut signers: Vec<_> = (0..4)
        .map(|party| Signer::new(party, [1; 32], key(party), 0))
        .collect();
    for turn in 0..120u8 {
        let author = 1 + turn as usize % 3;
        let set = [turn / 3 % 5; 32];
        let incarnation = [turn / 7; 16];
        let notice = match turn % 4 {
            0 => ready(turn / 8),
            1 => Notice::Withdraw { incarnation },
            2 => Notice::Vote {
                stage: Stage::Settling,
                early: turn % 8 == 2,
                set,
            },
            _ => Notice::Start {
                number: 0,
                incarnation,
                seats: set,
            },
        };
        let (frame, notice) = signed(&mut signers[author], notice);
        let before = flood.held.len();
        let new = matches!(flood.receive(&frame, notice, false), Ok(Receipt::New(_)));
        replaced += usize::from(new && flood.held.len() == before);
        let mut named: BTreeMap<_, BTreeSet<Party>> = BTreeMap::new();
        for (slot, held) in flood.held() {
            let set = match held.notice {
                Notice::Start { number, seats, .. } => (SetPurpose::Start(number), seats),
                Notice::Vote { stage, set, .. } => (SetPurpose::Stage(stage), set),
                _ => continue,
            };
            named.entry(set).or_default().insert(slot.kind().1);
        }
        assert_eq!(flood.sets.signers, named, "turn {turn}");
        assert_eq!(flood.ready_parties(), flood.readies().len(), "turn {turn}");
        let voted: usize = flood.voted(Stage::Settling).map(|(_, count)| count).sum();
        assert_eq!(voted, flood.votes(Stage::Settling).count());
        let starters = (0..4).filter(|&party| flood.start(0, party).is_some());
        assert!(flood.starters(0).eq(starters));
    }
    assert!(replaced > 20, "{replaced} of 120 were replaced");
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
            ready(turn),
            Notice::Start {
                number: 0,
                incarnation: [turn; 16],
                seats: hash,
            },
        ];
        for stage in Stages::READABLE.all() {
            notices.push(Notice::Item {
                stage,
                hash,
                bytes: 9,
            });
            notices.push(Notice::List {
                stage,
                held: Row::of(3, []),
                versions: vec![(0, hash)],
            });
            notices.push(Notice::Vote {
                stage,
                early: true,
                set: hash,
            });
            notices.extend((0..3).map(|party| Notice::Unreachable { stage, party }));
        }
        notices.extend([Notice::Missed, Notice::Averaged]);
        for notice in notices {
            let (frame, notice) = signed(&mut signer, notice);
            passed_on += u32::from(matches!(
                flood.receive(&frame, notice, false),
                Ok(Receipt::New(_))
            ));
        }
    }
    // In each stage an item, a list, a vote and three calls; beside them two of averaging.
    let once = 2 * (3 + 3) + 2;
    assert_eq!(flood.held().count(), 2 + once, "one slot each");
    assert_eq!(passed_on as usize, 2 * (1 + REPLACEMENTS as usize) + once);
    let (frame, latest) = signed(&mut signer, ready(255));
    assert_eq!(flood.receive(&frame, latest, false), Ok(Receipt::Stale));
}

/// Many sign a set of their own each, and supply it: those are held that most have signed, and no
/// more of them than could be of use.
#[test]
fn of_many_distinct_sets_a_few_are_held_and_the_common_one_is_among_them() {
    let (parties, colluding, stage) = (40, 2, Stage::Settling);
    let mut flood = flood_of(parties).with_colluding(colluding);
    let set = |mark: u8| Set::Items((0..30).map(|party| (party, [mark; 32])).collect());
    // Parties from 25 on sign the same set, the others each another one.
    let of = |author: Party| set(author.min(25) as u8);
    let say = |flood: &mut Flood, author: Party| {
        let (early, named) = (true, wire::set_hash(&of(author)));
        let mut signer = Signer::new(author, [1; 32], key(author), 0);
        let vote = Notice::Vote {
            stage,
            early,
            set: named,
        };
        let (frame, vote) = signed(&mut signer, vote);
        flood.receive(&frame, vote, false).expect("a vote");
    };
    (1..parties).for_each(|author| say(&mut flood, author));
    assert_eq!(flood.take_set(set(99)), Ok(false), "nobody has signed that");
    let most = colluding + SPARE_SETS;
    let wanted = flood.unknown_sets();
    assert_eq!((wanted.len(), wanted[0].signers.len()), (most, 15));
    let taken = (1..=25).filter(|author| flood.take_set(of(*author)) == Ok(true));
    let taken: Vec<Party> = taken.collect();
    assert_eq!(taken.len(), most, "{taken:?}");
    assert!(taken.contains(&25), "what most have signed: {taken:?}");
    assert!(flood.unknown_sets().is_empty(), "there is no room for another");
    // What is no set of items is none, however often it was signed.
    let mut flood = flood_of(parties);
    let seats = Set::Seats(vec![]);
    let (early, named) = (true, wire::set_hash(&seats));
    let vote = Notice::Vote {
        stage,
        early,
        set: named,
    };
    let (frame, vote) = signed(&mut Signer::new(1, [1; 32], key(1), 0), vote);
    flood.receive(&frame, vote, false).expect("a vote");
    assert_eq!(flood.take_set(seats), Err(FloodError::MalformedSet));
}

#[test]
fn strangers_and_disorder_are_refused() {
    let mut flood = flood();
    let mut stranger = Signer::new(9, [1; 32], key(1), 0);
    let (frame, notice) = signed(
        &mut stranger,
        Notice::Unreachable {
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
        Notice::Unreachable {
            stage: Stage::Settling,
            party: 3,
        },
        Notice::List {
            stage: Stage::Settling,
            held: Row::of(3, []),
            versions: vec![(1, [0; 32]), (1, [0; 32])],
        },
        Notice::List {
            stage: Stage::Settling,
            held: Row::of(4, [3]),
            versions: Vec::new(),
        },
    ] {
        let (frame, notice) = signed(&mut signer, notice);
        assert_eq!(
            flood.receive(&frame, notice, false),
            Err(FloodError::Malformed(1))
        );
    }
    let mut elsewhere = Signer::new(1, [2; 32], key(1), 0);
    let (frame, notice) = signed(&mut elsewhere, ready(0));
    assert!(matches!(
        flood.receive(&frame, notice, false),
        Err(FloodError::Message(MessageError::Signature(1)))
    ));
}

#[test]
fn a_ready_with_a_key_of_small_order_counts_as_none() {
    let mut flood = flood();
    let mut signer = Signer::new(1, [1; 32], key(1), 0);
    let (frame, good) = signed(&mut signer, ready(4));
    assert!(flood.receive(&frame, good, false).is_ok());
    let (mut one, pair) = ([0; 32], None);
    one[0] = 1;
    for key in [[0; 32], one] {
        let (frame, notice) = signed(
            &mut signer,
            Notice::Ready {
                key,
                pair,
                records: None,
            },
        );
        assert_eq!(
            flood.receive(&frame, notice.clone(), false),
            Err(FloodError::SmallKey(1))
        );
        let mut forged = notice;
        forged.signature.0[0] ^= 1;
        assert_eq!(
            flood.receive(&frame, forged, false),
            Err(MessageError::Signature(1).into()),
            "no false accusation"
        );
    }
    assert_eq!(flood.ready(1), Some(started(4)), "the one before stays");
}

#[test]
fn a_pair_key_that_nothing_needs_is_refused() {
    let mut signer = Signer::new(1, [1; 32], key(1), 0);
    let (key, pair) = ([7; 32], Some([8; 32]));
    for (commits, notice) in [
        (
            false,
            Notice::Ready {
                key,
                pair,
                records: None,
            },
        ),
        (
            true,
            Notice::Commit {
                key,
                pair,
                records: None,
                commitment: [9; 32],
            },
        ),
    ] {
        let mut flood = flood().committing(commits);
        let (frame, notice) = signed(&mut signer, notice);
        assert_eq!(
            flood.receive(&frame, notice, false),
            Err(FloodError::Malformed(1))
        );
    }
}

#[test]
fn where_masks_of_pairs_are_made_each_ready_has_a_pair_key_and_rounds_count_from_1() {
    let mut signer = Signer::new(1, [1; 32], key(1), 0);
    let stages = Stages::sealed(1);
    let mut flood = flood().pairing(true).with_stages(stages);
    let refused = Err(FloodError::Malformed(1));
    let (key, secret) = ([7; 32], Disclosed([5; 32]));
    for notice in [
        Notice::Ready {
            key,
            pair: None,
            records: None,
        },
        Notice::Key { round: 0, secret },
        Notice::Key { round: 2, secret },
    ] {
        let (frame, notice) = signed(&mut signer, notice);
        assert_eq!(flood.receive(&frame, notice, false), refused);
    }
    let small = Notice::Ready {
        key,
        pair: Some([0; 32]),
        records: None,
    };
    let (frame, notice) = signed(&mut signer, small);
    assert_eq!(flood.receive(&frame, notice, false), Err(FloodError::SmallKey(1)));
    let pair = Some([8; 32]);
    for notice in [
        Notice::Ready {
            key,
            pair,
            records: None,
        },
        Notice::Key { round: 1, secret },
    ] {
        let (frame, notice) = signed(&mut signer, notice);
        assert!(flood.receive(&frame, notice, false).is_ok());
    }
    assert_eq!((flood.run_key(1), flood.pair_key(1)), (Some(&key), pair.as_ref()));
}

#[test]
fn a_ready_is_identified_by_the_hash_of_its_key() {
    let mut flood = flood();
    let mut signer = Signer::new(1, [1; 32], key(1), 0);
    let (frame, notice) = signed(&mut signer, ready(4));
    assert_eq!(flood.run_key(1), None);
    assert!(flood.receive(&frame, notice, false).is_ok());
    assert_eq!(flood.run_key(1), Some(run_key(4).public()));
    assert_eq!(flood.ready(1), Some(started(4)));
    let (incarnation, key) = (started(4), *run_key(4).public());
    assert_eq!(
        incarnation,
        crate::sealing::run_key::incarnation(&key, None, None)
    );
}

fn disclosed(byte: u8) -> Disclosed {
    Disclosed([byte; 32])
}

fn key_notice(byte: u8) -> Notice {
    let (round, secret) = (0, disclosed(byte));
    Notice::Key { round, secret }
}

fn share_notice(of: u32, byte: u8) -> Notice {
    let (round, share) = (0, disclosed(byte));
    Notice::Share { round, of, share }
}

#[test]
fn a_wrong_secret_gives_its_place_back_and_a_later_one_counts() {
    let (mut flood, mut signer) = (
        flood().with_stages(Stages::sealed(1)),
        Signer::new(1, [1; 32], key(1), 0),
    );
    let slot = Slot::Key(0, 1);
    let mut say = |flood: &mut Flood, byte| {
        let (frame, notice) = signed(&mut signer, key_notice(byte));
        flood.receive(&frame, notice, true)
    };
    for byte in 0..disclosures::CANDIDATES as u8 {
        assert_eq!(say(&mut flood, byte), Ok(Receipt::New(slot)));
        assert_eq!(say(&mut flood, byte), Ok(Receipt::Known(slot)));
        assert!(
            flood
                .get(slot)
                .is_some_and(|held| held.notice == key_notice(byte))
        );
    }
    assert_eq!(say(&mut flood, 9), Err(FloodError::Two { author: 1, slot }));
    flood.retract(slot, &disclosed(0));
    assert_eq!(say(&mut flood, 9), Ok(Receipt::New(slot)));
    let revealed: Vec<_> = flood
        .disclosed(0)
        .map(|(slot, revealed)| (slot, revealed.0[0]))
        .collect();
    assert_eq!(revealed, [1, 2, 3, 9].map(|byte| (slot, byte)));
    assert_eq!(flood.revealed(slot).count(), revealed.len());
    // What is passed on for an author ends, whatever it says.
    let passed_on = (10..=u8::MAX).filter(|&byte| {
        let new = say(&mut flood, byte).is_ok();
        flood.retract(slot, &disclosed(byte));
        flood.retract(slot, &disclosed(1));
        new
    });
    assert_eq!(passed_on.count() as u32, disclosures::MOST_TAKEN - 5);
}

/// Others pass a wrong one on until they know that it is: each copy would be one more that is
/// taken.
#[test]
fn a_wrong_secret_that_comes_again_uses_up_no_room_of_the_good_one() {
    let (mut flood, mut signer) = (
        flood().with_stages(Stages::sealed(1)),
        Signer::new(1, [1; 32], key(1), 0),
    );
    let slot = Slot::Key(0, 1);
    let (frame, wrong) = signed(&mut signer, key_notice(1));
    assert_eq!(flood.receive(&frame, wrong.clone(), true), Ok(Receipt::New(slot)));
    flood.retract(slot, &disclosed(1));
    for _ in 0..disclosures::MOST_TAKEN {
        assert_eq!(
            flood.receive(&frame, wrong.clone(), true),
            Ok(Receipt::Known(slot))
        );
    }
    assert_eq!(flood.revealed(slot).count(), 0, "it stays out");
    let (frame, good) = signed(&mut signer, key_notice(2));
    assert_eq!(flood.receive(&frame, good, true), Ok(Receipt::New(slot)));
}

#[test]
fn shares_are_kept_by_whose_they_are() {
    let mut flood = flood().with_stages(Stages::sealed(1));
    let mut signers = [1, 2].map(|party| Signer::new(party, [1; 32], key(party), 0));
    for (at, of) in [(0, 2), (0, 0), (1, 0)] {
        let (frame, notice) = signed(&mut signers[at], share_notice(of, 7));
        let slot = Slot::Share(0, at + 1, of as Party);
        assert_eq!(flood.receive(&frame, notice, true), Ok(Receipt::New(slot)));
    }
    let (frame, notice) = signed(&mut signers[0], key_notice(5));
    assert!(flood.receive(&frame, notice, true).is_ok());
    let key = Slot::Key(0, 1);
    let share = |(holder, of)| Slot::Share(0, holder, of);
    let revealed: Vec<_> = flood.disclosed(0).map(|(slot, _)| slot).collect();
    let [first, second, third] = [(1, 0), (1, 2), (2, 0)].map(share);
    assert_eq!(revealed, [key, first, second, third]);
    assert_eq!((flood.disclosed(1).count(), flood.held().count()), (0, 4));
    // They are counted as they came.
    let came: Vec<_> = (0..5)
        .map_while(|count| flood.slot_revealed_after(count))
        .collect();
    assert_eq!(came, [second, first, third, key]);
}

#[test]
fn what_opens_nothing_is_refused() {
    let mut signer = Signer::new(1, [1; 32], key(1), 0);
    let later = [
        Notice::Key {
            round: 1,
            secret: disclosed(1),
        },
        Notice::Share {
            round: 1,
            of: 0,
            share: disclosed(1),
        },
    ];
    let itself_or_nobody = [share_notice(1, 7), share_notice(3, 7), share_notice(u32::MAX, 7)];
    let refused = later.into_iter().chain(itself_or_nobody);
    // Where nothing is sealed everything that opens is.
    let unsealed = [key_notice(7), share_notice(0, 7)].map(|notice| (Stages::READABLE, notice));
    let sealed = refused.map(|notice| (Stages::sealed(1), notice));
    for (stages, notice) in sealed.chain(unsealed) {
        let mut flood = flood().with_stages(stages);
        let (frame, notice) = signed(&mut signer, notice);
        assert_eq!(flood.receive(&frame, notice, true), Err(FloodError::Malformed(1)));
        assert_eq!(flood.held().count(), 0);
    }
}

#[test]
fn nothing_that_is_printed_has_a_secret() {
    let (mut flood, mut signer) = (
        flood().with_stages(Stages::sealed(1)),
        Signer::new(1, [1; 32], key(1), 0),
    );
    for notice in [key_notice(173), share_notice(0, 173)] {
        let (frame, notice) = signed(&mut signer, notice);
        flood.receive(&frame, notice, true).expect("good");
    }
    let printed = format!("{flood:?}");
    assert!(printed.contains("Disclosed"));
    assert!(!printed.contains("173, 173"));
}
