//! Frames: the only module that knows bincode, with its children.
//!
//! A frame is a version byte, a kind byte, a header in bincode (fixed-width integers,
//! little-endian) and, where the kind has one, a raw tail: a vector's fixed-width bytes never go
//! through bincode. The transport prefixes it with its length (u32, big-endian) and checks that
//! against [`public_frame_limit`] or [`private_frame_limit`] before it allocates anything.
//! Everything is checked to have been used up. Pinned hex examples at the end hold the bytes still,
//! so that a byte-compatible successor of bincode can take its place.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::lattice::grid::LatticeWeight;
use crate::messages::held_kind::HeldKind;
use crate::messages::log::{Answer, Log, ShareId};
use crate::messages::notice::{Notice, Recipient, Round, SetHash, SignedNotice, item_hash};
use crate::messages::placed_log::PlacedLog;
use crate::messages::set::Set;
use crate::messages::signature::{Digest, Signature};
use crate::messages::stage::Stage;
use crate::sealing::holders::Threshold;
use crate::sealing::letter::LETTER_BYTES;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

pub use bytes::Bytes;

pub mod asks;
mod frames;
mod framing;
pub mod lobbies;

pub use frames::{PrivateFrame, PublicFrame};
use framing::{PREFIX, compact, decode, decode_all, encode, expand, expand_all, frame, frame_with, kind};
pub use framing::{VERSION, WireError};

const NOTICE: u8 = 1;
const BODY: u8 = 2;
const SHARE: u8 = 3;
const ANSWER: u8 = 4;
// 5 and 6 are questions and replies, of `asks`.
const ROUND: u8 = 7;
const SET: u8 = 8;
const ITEM: u8 = 9;
const ITERATION: u8 = 10;
const SLICE: u8 = 11;
// On the private graph only.
const MESSAGE: u8 = 8;
const SEALED: u8 = 9;

/// An item of up to this many bytes travels with its announcement. Our guess: about what fits into
/// a few segments.
pub const SHORT_ITEM_BYTES: usize = 16 << 10;

#[derive(Serialize, Deserialize)]
struct NoticeHeader {
    author: u32,
    sequence: u64,
    recipient: Option<u32>,
    signature: Signature,
}

#[derive(Serialize, Deserialize)]
struct BodyHeader {
    stage: Stage,
    author: u32,
}

/// The announcement of a short item, whose hash and length follow from the bytes behind it.
#[derive(Serialize, Deserialize)]
struct ItemHeader {
    author: u32,
    stage: Stage,
    signature: Signature,
}

#[derive(Serialize, Deserialize)]
struct ShareHeader {
    digest: Digest,
    round: u32,
    from: u32,
    to: u32,
    weight: i128,
}

#[derive(Serialize, Deserialize)]
struct AnswerHeader {
    digest: Digest,
    round: u32,
    from: u32,
    to: u32,
    answer: Answer,
}

#[derive(Serialize, Deserialize)]
struct RoundHeader {
    digest: Digest,
    author: u32,
    round: u32,
    signature: Signature,
}

fn index(party: Party) -> u32 {
    u32::try_from(party).expect("a plan has far fewer than 2^32 parties")
}

/// A notice's bytes: what its signature covers by hash.
pub fn notice_to_bytes(notice: &Notice) -> Vec<u8> {
    compact(notice)
}

/// Returns the hash of a set's bytes, by which notices name it and ties between sets are broken.
pub fn set_hash(set: &Set) -> SetHash {
    Sha256::digest(compact(set)).into()
}

/// The frame of a set.
pub fn set_frame(set: &Set) -> Arc<[u8]> {
    frame(SET, &compact(set), &[])
}

/// The frame of a signed notice.
pub fn notice_frame(signed: &SignedNotice) -> Arc<[u8]> {
    let header = NoticeHeader {
        author: index(signed.author),
        sequence: signed.sequence,
        recipient: match signed.recipient {
            Recipient::All => None,
            Recipient::Party(party) => Some(index(party)),
        },
        signature: signed.signature,
    };
    frame(NOTICE, &compact(&header), &notice_to_bytes(&signed.notice))
}

/// The frame of a signed announcement of an item, with the item if it is short.
pub fn announcement_frame(signed: &SignedNotice, bytes: &[u8]) -> Arc<[u8]> {
    match signed.notice {
        Notice::Item {
            stage, bytes: length, ..
        } if length == bytes.len() as u64 && bytes.len() <= SHORT_ITEM_BYTES => {
            let header = ItemHeader {
                author: index(signed.author),
                stage,
                signature: signed.signature,
            };
            frame(ITEM, &compact(&header), bytes)
        }
        _ => notice_frame(signed),
    }
}

/// The frame of a slice on its way to its keepers, with its signed announcement, which follows from
/// the bytes but for the signature.
pub fn slice_frame(author: Party, stage: Stage, signature: Signature, bytes: &[u8]) -> Arc<[u8]> {
    let header = ItemHeader {
        author: index(author),
        stage,
        signature,
    };
    frame(SLICE, &compact(&header), bytes)
}

/// The frame of an item's bytes.
pub fn body_frame(stage: Stage, author: Party, bytes: &[u8]) -> Arc<[u8]> {
    frame(BODY, &body_header(stage, author), bytes)
}

fn body_header(stage: Stage, author: Party) -> Vec<u8> {
    compact(&BodyHeader {
        stage,
        author: index(author),
    })
}

/// The frame of an item's bytes, `length` of them, which `write` writes; and what it says of them.
pub fn body_frame_with<R>(
    stage: Stage,
    author: Party,
    length: usize,
    write: impl FnOnce(&mut [u8]) -> R,
) -> (Arc<[u8]>, R) {
    frame_with(BODY, &body_header(stage, author), length, write)
}

/// The frame of a round of averaging; `values` are fixed-width integers.
pub fn round_frame(round: &Round, values: &[u8]) -> Arc<[u8]> {
    let header = RoundHeader {
        digest: round.digest,
        author: index(round.author),
        round: round.round,
        signature: round.signature,
    };
    frame(ROUND, &encode(&header), values)
}

/// The frame of a share; `values` as the lattice encodes them.
pub fn share_frame(digest: &Digest, id: ShareId, weight: LatticeWeight, values: &[u8]) -> Arc<[u8]> {
    share_frame_with(digest, id, weight, values.len(), |bytes| {
        bytes.copy_from_slice(values)
    })
    .0
}

/// The frame of a share, whose values are the `length` bytes that `write` writes; and what it says
/// of them.
pub fn share_frame_with<R>(
    digest: &Digest,
    id: ShareId,
    weight: LatticeWeight,
    length: usize,
    write: impl FnOnce(&mut [u8]) -> R,
) -> (Arc<[u8]>, R) {
    frame_with(SHARE, &encode(&share_header(digest, id, weight)), length, write)
}

/// Builds the frame of a gossip message, with `values` in the lattice's encoding. A sender puts the
/// same values into all its messages of a round, and into any that it sends again.
pub fn message_frame(digest: &Digest, id: ShareId, weight: LatticeWeight, values: &[u8]) -> Arc<[u8]> {
    frame(MESSAGE, &encode(&share_header(digest, id, weight)), values)
}

/// The frame of a vector that is sealed for the circle of a reader; `values`: residues of the
/// circle's ring. One that is sent again is the same, bit for bit.
pub fn sealed_frame(digest: &Digest, id: ShareId, values: &[u8]) -> Arc<[u8]> {
    frame(
        SEALED,
        &encode(&share_header(digest, id, LatticeWeight(0))),
        values,
    )
}

fn share_header(digest: &Digest, id: ShareId, weight: LatticeWeight) -> ShareHeader {
    ShareHeader {
        digest: *digest,
        round: id.round,
        from: index(id.from),
        to: index(id.to),
        weight: weight.0,
    }
}

/// The frame of an answer.
pub fn answer_frame(digest: &Digest, id: ShareId, answer: &Answer) -> Arc<[u8]> {
    let header = AnswerHeader {
        digest: *digest,
        round: id.round,
        from: index(id.from),
        to: index(id.to),
        answer: answer.clone(),
    };
    frame(ANSWER, &encode(&header), &[])
}

/// Reads a frame from the public graph. The signature of a notice is not checked yet.
pub fn read_public(frame: &[u8]) -> Result<PublicFrame, WireError> {
    match kind(frame)? {
        (NOTICE, rest) => read_notice(rest),
        (BODY, rest) => {
            let (header, used): (BodyHeader, usize) = expand("item's header", rest)?;
            // An item is all that is left of the frame.
            let bytes = PREFIX + used..frame.len();
            Ok(PublicFrame::Body {
                stage: header.stage,
                author: header.author as Party,
                bytes,
            })
        }
        (ITEM, rest) => {
            let (signed, bytes) = read_item(frame, rest)?;
            if bytes.len() > SHORT_ITEM_BYTES {
                return Err(WireError::Malformed("short item"));
            }
            Ok(PublicFrame::Item { signed, bytes })
        }
        (SLICE, rest) => {
            let (signed, bytes) = read_item(frame, rest)?;
            Ok(PublicFrame::Slice { signed, bytes })
        }
        (SET, rest) => Ok(PublicFrame::Set(expand_all("set", rest)?)),
        (ROUND, rest) => {
            let (header, used): (RoundHeader, usize) = decode("round's header", rest)?;
            let RoundHeader {
                digest,
                author,
                round,
                signature,
            } = header;
            let round = Round {
                author: author as Party,
                digest,
                round,
                signature,
            };
            Ok(PublicFrame::Round {
                round,
                values: PREFIX + used..frame.len(),
            })
        }
        (kind, _) => Err(WireError::Kind(kind)),
    }
}

/// Reads what follows the kind in the frame of a notice.
fn read_notice(rest: &[u8]) -> Result<PublicFrame, WireError> {
    let (header, used): (NoticeHeader, usize) = expand("envelope", rest)?;
    let notice: Notice = expand_all("notice", &rest[used..])?;
    let recipient = header
        .recipient
        .map_or(Recipient::All, |party| Recipient::Party(party as Party));
    if notice.is_direct() != (recipient != Recipient::All) {
        return Err(WireError::Malformed("envelope"));
    }
    Ok(PublicFrame::Notice(SignedNotice {
        author: header.author as Party,
        sequence: header.sequence,
        recipient,
        notice,
        signature: header.signature,
    }))
}

/// Reads the frame of an item with its announcement, which follows from its bytes.
fn read_item(frame: &[u8], rest: &[u8]) -> Result<(SignedNotice, Range<usize>), WireError> {
    let (header, used): (ItemHeader, usize) = expand("announcement", rest)?;
    let bytes = PREFIX + used..frame.len();
    let notice = Notice::Item {
        stage: header.stage,
        hash: item_hash(&frame[bytes.clone()]),
        bytes: bytes.len() as u64,
    };
    let signed = SignedNotice {
        author: header.author as Party,
        sequence: 0,
        recipient: Recipient::All,
        notice,
        signature: header.signature,
    };
    Ok((signed, bytes))
}

/// Reads a frame from the private graph. Neither values nor signatures are checked yet.
pub fn read_private(frame: &[u8]) -> Result<PrivateFrame, WireError> {
    let id = |round, from: u32, to: u32| ShareId {
        round,
        from: from as Party,
        to: to as Party,
    };
    match kind(frame)? {
        (SHARE, rest) => {
            let (header, used): (ShareHeader, usize) = decode("share's header", rest)?;
            Ok(PrivateFrame::Share {
                digest: header.digest,
                id: id(header.round, header.from, header.to),
                weight: LatticeWeight(header.weight),
                values: PREFIX + used..frame.len(),
            })
        }
        (MESSAGE, rest) => {
            let (header, used): (ShareHeader, usize) = decode("message's header", rest)?;
            Ok(PrivateFrame::Message {
                digest: header.digest,
                id: id(header.round, header.from, header.to),
                weight: LatticeWeight(header.weight),
                values: PREFIX + used..frame.len(),
            })
        }
        (SEALED, rest) => {
            let (header, used): (ShareHeader, usize) = decode("sealed vector's header", rest)?;
            Ok(PrivateFrame::Sealed {
                digest: header.digest,
                id: id(header.round, header.from, header.to),
                weight: LatticeWeight(header.weight),
                values: PREFIX + used..frame.len(),
            })
        }
        (ANSWER, rest) => {
            let header: AnswerHeader = decode_all("answer", rest)?;
            let id = id(header.round, header.from, header.to);
            Ok(PrivateFrame::Answer {
                digest: header.digest,
                id,
                answer: header.answer,
            })
        }
        (kind, _) => Err(WireError::Kind(kind)),
    }
}

/// The frame of a later run of a training: the run's number, from 2, and the frame itself.
pub fn iteration_frame(iteration: u32, inner: &[u8]) -> Arc<[u8]> {
    frame(ITERATION, &iteration.to_le_bytes(), inner)
}

/// The run of a training that a frame belongs to, and the frame itself: what does not say so is of
/// the first.
pub fn of_iteration(outer: &Bytes) -> Result<(u32, Bytes), WireError> {
    match kind(outer)? {
        (ITERATION, rest) => match rest.first_chunk() {
            Some(number) => Ok((u32::from_le_bytes(*number), outer.slice(PREFIX + number.len()..))),
            None => Err(WireError::Malformed("iteration")),
        },
        _ => Ok((1, outer.clone())),
    }
}

/// The bytes that a later run's frame has in addition.
const ITERATION_BYTES: usize = PREFIX + size_of::<u32>();

/// The bytes of a log, as it travels: shares are named by their place in the schedule.
pub fn log_to_bytes(log: &Log, schedule: &Schedule) -> Vec<u8> {
    compact(&PlacedLog::of(log, schedule))
}

/// A party's log from its bytes; check it against the schedule afterwards.
pub fn log_from_bytes(bytes: &[u8], party: Party, schedule: &Schedule) -> Result<Log, WireError> {
    let placed: PlacedLog = expand_all("log", bytes)?;
    placed.log(party, schedule).ok_or(WireError::Malformed("log"))
}

/// Returns the bytes that a log has in addition where the plan seals: a hash, three lengths, t
/// commitments and h letters.
pub fn sealed_bytes(threshold: Threshold) -> usize {
    32 + 3 * 8 + threshold.needed() * 32 + threshold.holders() * LETTER_BYTES
}

/// The largest log of a plan with this many parties, rounds and fan-out that seals nothing.
pub fn log_limit(parties: usize, rounds: usize, fanout: usize, received: usize) -> usize {
    // party, three lengths, whether it seals; an entry with an answer; an entry; a party.
    64 + rounds * fanout * (4 + 8 + 1 + 1 + 8 + 64) + received * (4 + 8 + 4) + parties * 8
}

/// Bytes of a final before its coordinates, which the lattice encodes: those of its weight.
pub const FINAL_HEADER: usize = 16;

/// A final's weight and the bytes of its coordinates.
pub fn final_from_bytes(bytes: &[u8]) -> Result<(LatticeWeight, &[u8]), WireError> {
    let (weight, values) = bytes
        .split_first_chunk::<FINAL_HEADER>()
        .ok_or(WireError::Malformed("final"))?;
    Ok((LatticeWeight(i128::from_le_bytes(*weight)), values))
}

/// No notice is longer, sums of a result included, but for the parties that it names, and no header
/// of a frame.
pub(crate) const NOTICE_BYTES: usize = 512;

/// The longest set, or list: party and hash, so many times, and a row of bits.
pub(crate) const fn set_bytes(parties: usize) -> usize {
    NOTICE_BYTES + parties * (8 + 32) + parties.div_ceil(8)
}

/// Returns the room of a summary in a frame: some bytes for each kind of notice, and for each party
/// marks and bits of rows.
pub(crate) const fn summary_room(parties: usize) -> usize {
    4096 + parties * 40
}

/// Returns the bytes that one kind of notice takes in a summary.
pub(crate) fn held_kind_bytes(holding: &HeldKind) -> usize {
    compact(holding).len()
}

/// The longest word about neighbours that are not reached: party, incarnation and two flags, so
/// many times.
pub(crate) const fn unreached_bytes(parties: usize) -> usize {
    NOTICE_BYTES + parties * (8 + 16 + 2)
}

/// The longest frame of an item of so many bytes.
pub(crate) const fn body_bytes(item: usize) -> usize {
    NOTICE_BYTES + item
}

/// The longest public frame of a run: a set of all parties, a summary, or the largest item.
pub fn public_frame_limit(parties: usize, largest_item: usize) -> usize {
    let summary = NOTICE_BYTES + summary_room(parties);
    ITERATION_BYTES + set_bytes(parties).max(summary).max(body_bytes(largest_item))
}

/// The longest private frame of a run.
pub fn private_frame_limit(share_bytes: usize) -> usize {
    256 + share_bytes
}

#[cfg(test)]
mod tests;
