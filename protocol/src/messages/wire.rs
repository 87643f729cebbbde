//! Frames: the only module that knows bincode.
//!
//! A frame is a version byte, a kind byte, a header in bincode (fixed-width integers,
//! little-endian) and, where the kind has one, a raw tail: a vector's fixed-width bytes never go
//! through bincode. The transport prefixes it with its length (u32, big-endian) and checks that
//! against [`public_frame_limit`] or [`private_frame_limit`] before it allocates anything.
//! Everything is checked to have been used up. Pinned hex examples at the end hold the bytes still,
//! so that a byte-compatible successor of bincode can take its place.

use std::ops::Range;
use std::sync::Arc;

use bincode::config::{Config, Configuration, Fixint, Limit, LittleEndian, Varint};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::lattice::grid::LatticeWeight;
use crate::messages::held_kind::HeldKind;
use crate::messages::log::{Answer, Log, ShareId};
use crate::messages::notice::{Form, Notice, Recipient, Round, SetHash, SignedNotice};
use crate::messages::placed_log::PlacedLog;
use crate::messages::question::{Question, Reply};
use crate::messages::set::Set;
use crate::messages::signature::{Digest, Signature};
use crate::messages::stage::Stage;
use crate::sealing::holders::Threshold;
use crate::sealing::letter::LETTER_BYTES;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

pub use bytes::Bytes;

/// The first byte of every frame.
pub const VERSION: u8 = 1;

/// A frame's first bytes: version and kind.
const PREFIX: usize = 2;
const NOTICE: u8 = 1;
const BODY: u8 = 2;
const SHARE: u8 = 3;
const ANSWER: u8 = 4;
const QUESTION: u8 = 5;
const REPLY: u8 = 6;
const ROUND: u8 = 7;
const SET: u8 = 8;

/// No bincode part is larger: a log or a set of 1,000 parties is well below. (Without a limit, a
/// 72-byte message aborts the process.)
const BINCODE_LIMIT: usize = 16 << 20;
const CONFIG: Configuration<LittleEndian, Fixint, Limit<BINCODE_LIMIT>> =
    bincode::config::legacy().with_limit::<BINCODE_LIMIT>();
/// What is public anyway, and sent to everybody, takes as few bytes as it can. (Of a private number
/// a varint would tell the magnitude.)
const COMPACT: Configuration<LittleEndian, Varint, Limit<BINCODE_LIMIT>> =
    bincode::config::standard().with_limit::<BINCODE_LIMIT>();

/// What is wrong with bytes from the wire.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Too short to have a version and a kind.
    #[error("a frame of {0} bytes is too short")]
    Short(usize),
    /// A frame of another version.
    #[error("frame version {found}, this node speaks {VERSION}")]
    Version {
        /// The version that the frame names.
        found: u8,
    },
    /// No such kind on this graph.
    #[error("frame kind {0} does not belong here")]
    Kind(u8),
    /// The header cannot be read.
    #[error("the {0} does not decode")]
    Malformed(&'static str),
    /// Bytes are left after the end.
    #[error("{left} bytes are left after the {what}")]
    Leftover {
        /// The part of the frame that was read.
        what: &'static str,
        /// How many bytes are left.
        left: usize,
    },
}

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
    form: Form,
    round: u32,
    view: u64,
    /// The bits of an f64.
    spread: u64,
    signature: Signature,
}

/// What a public frame holds.
#[derive(Debug)]
pub enum PublicFrame {
    /// A notice in its signed envelope.
    Notice(SignedNotice),
    /// An item's bytes; a signed notice of its author has their hash.
    Body {
        /// The stage that the item belongs to.
        stage: Stage,
        /// The party whose item it is.
        author: Party,
        /// Where in the frame the bytes are.
        bytes: Range<usize>,
    },
    /// A set; notices name it by its hash.
    Set(Set),
    /// A round of averaging. Its signature is not checked yet.
    Round {
        /// What is said in the round.
        round: Round,
        /// Where in the frame its coordinates are.
        values: Range<usize>,
    },
}

/// What a private frame holds.
#[derive(Debug)]
pub enum PrivateFrame {
    /// A share on its way.
    Share {
        /// The digest of the plan that it belongs to.
        digest: Digest,
        /// Which share it is.
        id: ShareId,
        /// The weight that it carries.
        weight: LatticeWeight,
        /// Where in the frame its coordinates are.
        values: Range<usize>,
    },
    /// An answer to a share.
    Answer {
        /// The digest of the plan that it belongs to.
        digest: Digest,
        /// The share that is answered.
        id: ShareId,
        /// What the receiver says.
        answer: Answer,
    },
}

fn index(party: Party) -> u32 {
    u32::try_from(party).expect("a plan has far fewer than 2^32 parties")
}

fn encode_as(value: &impl Serialize, config: impl Config) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, config)
        .expect("our own messages are far smaller than the limit and have no failing serialiser")
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    encode_as(value, CONFIG)
}

fn compact(value: &impl Serialize) -> Vec<u8> {
    encode_as(value, COMPACT)
}

/// A frame whose tail of `length` bytes is written where it stays: a long one is never copied.
fn frame_with<R>(
    kind: u8,
    header: &[u8],
    length: usize,
    write: impl FnOnce(&mut [u8]) -> R,
) -> (Arc<[u8]>, R) {
    let mut frame: Arc<[u8]> = (0..PREFIX + header.len() + length).map(|_| 0).collect();
    let bytes = Arc::get_mut(&mut frame).expect("nobody else has it yet");
    let (start, tail) = bytes.split_at_mut(PREFIX + header.len());
    start[..PREFIX].copy_from_slice(&[VERSION, kind]);
    start[PREFIX..].copy_from_slice(header);
    let written = write(tail);
    (frame, written)
}

fn frame(kind: u8, header: &[u8], tail: &[u8]) -> Arc<[u8]> {
    frame_with(kind, header, tail.len(), |bytes| bytes.copy_from_slice(tail)).0
}

fn decode_as<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
    config: impl Config,
) -> Result<(T, usize), WireError> {
    bincode::serde::decode_from_slice(bytes, config).map_err(|_| WireError::Malformed(what))
}

fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<(T, usize), WireError> {
    decode_as(what, bytes, CONFIG)
}

fn whole<T>(what: &'static str, bytes: &[u8], (value, used): (T, usize)) -> Result<T, WireError> {
    let left = bytes.len() - used;
    if left == 0 {
        Ok(value)
    } else {
        Err(WireError::Leftover { what, left })
    }
}

fn decode_all<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, WireError> {
    whole(what, bytes, decode(what, bytes)?)
}

fn expand<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<(T, usize), WireError> {
    decode_as(what, bytes, COMPACT)
}

fn expand_all<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, WireError> {
    whole(what, bytes, expand(what, bytes)?)
}

fn kind(frame: &[u8]) -> Result<(u8, &[u8]), WireError> {
    match frame {
        [VERSION, kind, rest @ ..] => Ok((*kind, rest)),
        [found, _, ..] => Err(WireError::Version { found: *found }),
        _ => Err(WireError::Short(frame.len())),
    }
}

/// A notice's bytes: what its signature covers by hash.
pub fn notice_to_bytes(notice: &Notice) -> Vec<u8> {
    compact(notice)
}

/// What notices name a set by, and what breaks ties between sets: the hash of its bytes.
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
        form: round.form,
        round: round.round,
        view: round.view,
        spread: round.spread.to_bits(),
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
    let header = ShareHeader {
        digest: *digest,
        round: id.round,
        from: index(id.from),
        to: index(id.to),
        weight: weight.0,
    };
    frame_with(SHARE, &encode(&header), length, write)
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
        (NOTICE, rest) => {
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
        (SET, rest) => Ok(PublicFrame::Set(expand_all("set", rest)?)),
        (ROUND, rest) => {
            let (header, used): (RoundHeader, usize) = decode("round's header", rest)?;
            let RoundHeader {
                digest,
                author,
                form,
                round,
                view,
                spread,
                signature,
            } = header;
            let spread = f64::from_bits(spread);
            let round = Round {
                author: author as Party,
                digest,
                form,
                round,
                view,
                spread,
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

/// The bytes of a log, as it travels: shares are named by their place in the schedule.
pub fn log_to_bytes(log: &Log, schedule: &Schedule) -> Vec<u8> {
    compact(&PlacedLog::of(log, schedule))
}

/// A party's log from its bytes; check it against the schedule afterwards.
pub fn log_from_bytes(bytes: &[u8], party: Party, schedule: &Schedule) -> Result<Log, WireError> {
    let placed: PlacedLog = expand_all("log", bytes)?;
    placed.log(party, schedule).ok_or(WireError::Malformed("log"))
}

/// What a log grows by where the plan seals: a hash, three lengths, t commitments and h letters.
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

#[derive(Serialize, Deserialize)]
struct AskHeader<T> {
    nonce: [u8; 16],
    signature: Signature,
    message: T,
}

/// A question's bytes: what its signature covers by hash.
pub fn question_to_bytes(question: &Question) -> Vec<u8> {
    encode(question)
}

/// A reply's bytes: what its signature covers by hash.
pub fn reply_to_bytes(reply: &Reply) -> Vec<u8> {
    encode(reply)
}

/// The frame of a signed question with the bytes beside it.
pub fn question_frame(nonce: [u8; 16], signature: Signature, question: &Question, payload: &[u8]) -> Vec<u8> {
    let header = AskHeader {
        nonce,
        signature,
        message: question,
    };
    frame(QUESTION, &encode(&header), payload).to_vec()
}

/// The frame of a signed reply with the bytes beside it.
pub fn reply_frame(nonce: [u8; 16], signature: Signature, reply: &Reply, payload: &[u8]) -> Vec<u8> {
    let header = AskHeader {
        nonce,
        signature,
        message: reply,
    };
    frame(REPLY, &encode(&header), payload).to_vec()
}

/// What a frame of the ask protocol holds: nonce, signature (not checked yet), message, payload.
type Letter<'a, T> = ([u8; 16], Signature, T, &'a [u8]);

/// Reads a question from its frame.
pub fn read_question(frame: &[u8]) -> Result<Letter<'_, Question>, WireError> {
    letter(QUESTION, "question", frame)
}

/// Reads a reply from its frame.
pub fn read_reply(frame: &[u8]) -> Result<Letter<'_, Reply>, WireError> {
    letter(REPLY, "reply", frame)
}

fn letter<'a, T: DeserializeOwned>(
    wanted: u8,
    what: &'static str,
    frame: &'a [u8],
) -> Result<Letter<'a, T>, WireError> {
    match kind(frame)? {
        (found, rest) if found == wanted => {
            let (header, used): (AskHeader<T>, usize) = decode(what, rest)?;
            Ok((header.nonce, header.signature, header.message, &rest[used..]))
        }
        (found, _) => Err(WireError::Kind(found)),
    }
}

/// No notice is longer, sums of a result included, but for the parties that it names, and no header
/// of a frame.
pub(crate) const NOTICE_BYTES: usize = 512;

/// The longest set, or list: party and hash, so many times, and a row of bits.
pub(crate) const fn set_bytes(parties: usize) -> usize {
    NOTICE_BYTES + parties * (8 + 32) + parties.div_ceil(8)
}

/// What a summary may take of a frame: some bytes for each kind of notice; and of a party marks of
/// its READY, its START and some items, and bits of rows.
pub(crate) const fn summary_room(parties: usize) -> usize {
    4096 + parties * 40
}

/// What a summary grows by for one kind of notice.
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
    set_bytes(parties).max(summary).max(body_bytes(largest_item))
}

/// The longest private frame of a run.
pub fn private_frame_limit(share_bytes: usize) -> usize {
    256 + share_bytes
}

#[cfg(test)]
mod tests;
