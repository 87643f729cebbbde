//! Offences of a peer, in words that name both sides' facts.

use std::fmt;

/// Something that a peer, or somebody who claims to be one, must not do. Its
/// [`Display`](fmt::Display) is a sentence without its subject ("runs another plan: …"), to be put
/// behind the peer's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offence {
    /// The peer's hello is for another run.
    OtherDigest {
        /// The digest that it named.
        theirs: [u8; 32],
        /// The digest that we run.
        ours: [u8; 32],
    },
    /// It speaks another version of the protocol.
    OtherVersion {
        /// The version that it named.
        theirs: u32,
        /// The version that we speak.
        ours: u32,
    },
    /// The first bytes that it sent are no valid signed hello. On the public graph this may be an
    /// impostor, not the peer.
    NoHello {
        /// The fault in it.
        reason: &'static str,
    },
    /// It announced a frame above the limit.
    FrameTooLong {
        /// Bytes that the peer announced.
        length: usize,
        /// Bytes that a frame may have.
        limit: usize,
    },
    /// It wrote on a stream that only we write on.
    OutOfTurn,
    /// It stopped in the middle of a frame, or stopped taking ours.
    Stalled {
        /// How long nothing moved, in milliseconds.
        after_ms: u64,
    },
    /// It takes frames more slowly than they are made: the queue towards it is full.
    QueueFull {
        /// Frames that were queued.
        frames: usize,
        /// Bytes that were queued.
        bytes: usize,
    },
    /// The incoming bytes are not our protocol at all, or did not get through the security
    /// handshake in time.
    NoProtocol {
        /// The transport's message.
        reason: String,
    },
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Offence::OtherDigest { theirs, ours } => {
                write!(
                    f,
                    "runs another plan: its digest is {}, ours is {}",
                    Hex(theirs),
                    Hex(ours)
                )
            }
            Offence::OtherVersion { theirs, ours } => {
                write!(
                    f,
                    "speaks version {theirs} of the protocol, we speak version {ours}"
                )
            }
            Offence::NoHello { reason } => write!(f, "did not begin with a valid signed hello: {reason}"),
            Offence::FrameTooLong { length, limit } => {
                write!(f, "announced a frame of {length} bytes, the limit is {limit}")
            }
            Offence::OutOfTurn => write!(f, "wrote on a stream that only we write on"),
            Offence::Stalled { after_ms } => write!(f, "stalled in the middle of a frame for {after_ms} ms"),
            Offence::QueueFull { frames, bytes } => {
                write!(
                    f,
                    "takes frames too slowly: {frames} frames with {bytes} bytes were waiting for it"
                )
            }
            Offence::NoProtocol { reason } => write!(f, "did not speak our protocol: {reason}"),
        }
    }
}

/// Shows bytes as lower-case hex.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
