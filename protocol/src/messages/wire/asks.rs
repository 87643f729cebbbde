//! Frames of questions to a node and of its replies, outside of any run.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::messages::question::{Question, Reply};
use crate::messages::signature::Signature;
use crate::messages::wire::framing::{WireError, decode, encode, frame, kind};

const QUESTION: u8 = 5;
const REPLY: u8 = 6;

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

/// The contents of a frame of the ask protocol: nonce, signature (not checked yet), message,
/// payload.
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
