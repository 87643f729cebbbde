//! Version, kind, header and tail of a frame, and bincode.

use std::sync::Arc;

use bincode::config::{Config, Configuration, Fixint, Limit, LittleEndian, Varint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The first byte of every frame.
pub const VERSION: u8 = 1;

/// A frame's first bytes: version and kind.
pub(in crate::messages) const PREFIX: usize = 2;
/// No bincode part is larger: a log or a set of 1,000 parties is well below. (Without a limit, a
/// 72-byte message aborts the process.)
const BINCODE_LIMIT: usize = 16 << 20;
const CONFIG: Configuration<LittleEndian, Fixint, Limit<BINCODE_LIMIT>> =
    bincode::config::legacy().with_limit::<BINCODE_LIMIT>();
/// The encoding of public messages, which is as short as possible. (A varint would reveal the
/// magnitude of a private number.)
const COMPACT: Configuration<LittleEndian, Varint, Limit<BINCODE_LIMIT>> =
    bincode::config::standard().with_limit::<BINCODE_LIMIT>();

/// An error in bytes from the wire.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes are too short to have a version and a kind.
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
        /// The number of bytes that are left.
        left: usize,
    },
}

pub(in crate::messages) fn encode_as(value: &impl Serialize, config: impl Config) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, config)
        .expect("our own messages are far smaller than the limit and have no failing serialiser")
}

pub(in crate::messages) fn encode(value: &impl Serialize) -> Vec<u8> {
    encode_as(value, CONFIG)
}

pub(in crate::messages) fn compact(value: &impl Serialize) -> Vec<u8> {
    encode_as(value, COMPACT)
}

/// A frame whose tail of `length` bytes is written where it stays: a long one is never copied.
pub(in crate::messages) fn frame_with<R>(
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

pub(in crate::messages) fn frame(kind: u8, header: &[u8], tail: &[u8]) -> Arc<[u8]> {
    frame_with(kind, header, tail.len(), |bytes| bytes.copy_from_slice(tail)).0
}

pub(in crate::messages) fn decode_as<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
    config: impl Config,
) -> Result<(T, usize), WireError> {
    bincode::serde::decode_from_slice(bytes, config).map_err(|_| WireError::Malformed(what))
}

pub(in crate::messages) fn decode<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<(T, usize), WireError> {
    decode_as(what, bytes, CONFIG)
}

pub(in crate::messages) fn whole<T>(
    what: &'static str,
    bytes: &[u8],
    (value, used): (T, usize),
) -> Result<T, WireError> {
    let left = bytes.len() - used;
    if left == 0 {
        Ok(value)
    } else {
        Err(WireError::Leftover { what, left })
    }
}

pub(in crate::messages) fn decode_all<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, WireError> {
    whole(what, bytes, decode(what, bytes)?)
}

pub(in crate::messages) fn expand<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<(T, usize), WireError> {
    decode_as(what, bytes, COMPACT)
}

pub(in crate::messages) fn expand_all<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, WireError> {
    whole(what, bytes, expand(what, bytes)?)
}

pub(in crate::messages) fn kind(frame: &[u8]) -> Result<(u8, &[u8]), WireError> {
    match frame {
        [VERSION, kind, rest @ ..] => Ok((*kind, rest)),
        [found, _, ..] => Err(WireError::Version { found: *found }),
        _ => Err(WireError::Short(frame.len())),
    }
}
