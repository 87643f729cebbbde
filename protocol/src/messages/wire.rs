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

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::lattice::grid::LatticeWeight;
use crate::messages::log::{Answer, Log, ShareId};
use crate::messages::notice::{Form, ItemSet, Notice, Recipient, Round, SignedNotice, Stage};
use crate::messages::question::{Question, Reply};
use crate::messages::signature::{Digest, Signature};
use crate::sealing::holders::Threshold;
use crate::sealing::letter::LETTER_BYTES;
use crate::topology::party::Party;

pub use bytes::Bytes;

/// The first byte of every frame.
pub const VERSION: u8 = 1;

/// A frame's first bytes: version and kind.
pub(super) const PREFIX: usize = 2;
pub(super) const NOTICE: u8 = 1;
const BODY: u8 = 2;
const SHARE: u8 = 3;
const ANSWER: u8 = 4;
const QUESTION: u8 = 5;
const REPLY: u8 = 6;
const ROUND: u8 = 7;

/// No bincode part is larger: a log or a set of 1,000 parties is well below. (Without a limit, a
/// 72-byte message aborts the process.)
const BINCODE_LIMIT: usize = 16 << 20;
const CONFIG: Configuration<LittleEndian, Fixint, Limit<BINCODE_LIMIT>> =
    bincode::config::legacy().with_limit::<BINCODE_LIMIT>();

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
    digest: Digest,
    phase: u8,
    sequence: u64,
    recipient: Option<u32>,
    signature: Signature,
}

#[derive(Serialize, Deserialize)]
struct BodyHeader {
    digest: Digest,
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
        /// The digest of the plan that it belongs to.
        digest: Digest,
        /// The stage that the item belongs to.
        stage: Stage,
        /// The party whose item it is.
        author: Party,
        /// Where in the frame the bytes are.
        bytes: Range<usize>,
    },
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

fn encode(value: &impl Serialize) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, CONFIG)
        .expect("our own messages are far smaller than the limit and have no failing serialiser")
}

/// A frame whose tail of `length` bytes is written where it stays: a long one is never copied.
fn frame_with<R>(
    kind: u8,
    header: &impl Serialize,
    length: usize,
    write: impl FnOnce(&mut [u8]) -> R,
) -> (Arc<[u8]>, R) {
    let header = encode(header);
    let mut frame: Arc<[u8]> = (0..PREFIX + header.len() + length).map(|_| 0).collect();
    let bytes = Arc::get_mut(&mut frame).expect("nobody else has it yet");
    let (start, tail) = bytes.split_at_mut(PREFIX + header.len());
    start[..PREFIX].copy_from_slice(&[VERSION, kind]);
    start[PREFIX..].copy_from_slice(&header);
    let written = write(tail);
    (frame, written)
}

fn frame(kind: u8, header: &impl Serialize, tail: &[u8]) -> Arc<[u8]> {
    frame_with(kind, header, tail.len(), |bytes| bytes.copy_from_slice(tail)).0
}

fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<(T, usize), WireError> {
    bincode::serde::decode_from_slice(bytes, CONFIG).map_err(|_| WireError::Malformed(what))
}

fn decode_all<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, WireError> {
    let (value, used) = decode(what, bytes)?;
    let left = bytes.len() - used;
    if left == 0 {
        Ok(value)
    } else {
        Err(WireError::Leftover { what, left })
    }
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
    encode(notice)
}

/// A set's bytes: their hash breaks ties between sets.
pub fn set_to_bytes(set: &ItemSet) -> Vec<u8> {
    encode(set)
}

/// The frame of a signed notice.
pub fn notice_frame(signed: &SignedNotice) -> Arc<[u8]> {
    let header = NoticeHeader {
        author: index(signed.author),
        digest: signed.digest,
        phase: signed.notice.phase() as u8,
        sequence: signed.sequence,
        recipient: match signed.recipient {
            Recipient::All => None,
            Recipient::Party(party) => Some(index(party)),
        },
        signature: signed.signature,
    };
    frame(NOTICE, &header, &notice_to_bytes(&signed.notice))
}

/// The frame of an item's bytes.
pub fn body_frame(digest: &Digest, stage: Stage, author: Party, bytes: &[u8]) -> Arc<[u8]> {
    frame(
        BODY,
        &BodyHeader {
            digest: *digest,
            stage,
            author: index(author),
        },
        bytes,
    )
}

/// The frame of an item's bytes, `length` of them, which `write` writes; and what it says of them.
pub fn body_frame_with<R>(
    digest: &Digest,
    stage: Stage,
    author: Party,
    length: usize,
    write: impl FnOnce(&mut [u8]) -> R,
) -> (Arc<[u8]>, R) {
    frame_with(
        BODY,
        &BodyHeader {
            digest: *digest,
            stage,
            author: index(author),
        },
        length,
        write,
    )
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
    frame(ROUND, &header, values)
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
    frame_with(SHARE, &header, length, write)
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
    frame(ANSWER, &header, &[])
}

/// Reads a frame from the public graph. The signature of a notice is not checked yet.
pub fn read_public(frame: &[u8]) -> Result<PublicFrame, WireError> {
    match kind(frame)? {
        (NOTICE, rest) => {
            let (header, used): (NoticeHeader, usize) = decode("envelope", rest)?;
            let notice: Notice = decode_all("notice", &rest[used..])?;
            let recipient = header
                .recipient
                .map_or(Recipient::All, |party| Recipient::Party(party as Party));
            // What the envelope says beside the notice must be what follows from it.
            if header.phase != notice.phase() as u8 || notice.is_direct() != (recipient != Recipient::All) {
                return Err(WireError::Malformed("envelope"));
            }
            Ok(PublicFrame::Notice(SignedNotice {
                author: header.author as Party,
                digest: header.digest,
                sequence: header.sequence,
                recipient,
                notice,
                signature: header.signature,
            }))
        }
        (BODY, rest) => {
            let (header, used): (BodyHeader, usize) = decode("item's header", rest)?;
            // An item is all that is left of the frame.
            let bytes = PREFIX + used..frame.len();
            Ok(PublicFrame::Body {
                digest: header.digest,
                stage: header.stage,
                author: header.author as Party,
                bytes,
            })
        }
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

/// The bytes of a log, as it travels.
pub fn log_to_bytes(log: &Log) -> Vec<u8> {
    encode(log)
}

/// A log from its bytes; check it against the schedule afterwards.
pub fn log_from_bytes(bytes: &[u8]) -> Result<Log, WireError> {
    decode_all("log", bytes)
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
    frame(
        QUESTION,
        &AskHeader {
            nonce,
            signature,
            message: question,
        },
        payload,
    )
    .to_vec()
}

/// The frame of a signed reply with the bytes beside it.
pub fn reply_frame(nonce: [u8; 16], signature: Signature, reply: &Reply, payload: &[u8]) -> Vec<u8> {
    frame(
        REPLY,
        &AskHeader {
            nonce,
            signature,
            message: reply,
        },
        payload,
    )
    .to_vec()
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

/// No notice is longer, sums of a result included, but for the set that it names, and no header of
/// a frame.
pub(crate) const NOTICE_BYTES: usize = 512;

/// The longest list or vote of a stage: party and hash, so many times.
pub(crate) const fn set_bytes(parties: usize) -> usize {
    NOTICE_BYTES + parties * (8 + 32)
}

/// The longest START: party and incarnation, so many times.
pub(crate) const fn start_bytes(parties: usize) -> usize {
    NOTICE_BYTES + parties * (8 + 16)
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

/// The longest public frame of a run: a set of all parties, or the largest item.
pub fn public_frame_limit(parties: usize, largest_item: usize) -> usize {
    set_bytes(parties).max(body_bytes(largest_item))
}

/// The longest private frame of a run.
pub fn private_frame_limit(share_bytes: usize) -> usize {
    256 + share_bytes
}

#[cfg(test)]
mod tests;
