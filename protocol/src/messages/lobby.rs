//! Messages between the host of a lobby and its guests, before there is a list.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::messages::signature::Signature;

/// Most bytes of the frame of a [`ToHost`]: strangers send it.
pub const TO_HOST_LIMIT: usize = 1 << 10;
/// Most bytes of the frame of a [`ToGuest`]: a list of 1,024 parties whose lines came in frames of
/// [`TO_HOST_LIMIT`], and its relays.
pub const TO_GUEST_LIMIT: usize = (1 << 20) + (128 << 10);

/// Said by a guest.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHost {
    /// Let me sit down. The first message of a connection, and only that.
    Sit {
        /// From the invitation.
        token: [u8; 16],
        /// The guest's `[[peer]]`.
        lines: String,
    },
    /// Step 1 of a close: the list is fine, and this binds me to a number that I drew.
    Commit {
        /// The close's number.
        close: u32,
        /// See `lobby::check_number`.
        commitment: [u8; 32],
    },
    /// Step 2: the number that I drew.
    Reveal {
        /// The close's number.
        close: u32,
        /// The 32 bytes that the commitment is of.
        drawn: [u8; 32],
    },
    /// My operator says yes to the list.
    Yes {
        /// The close's number.
        close: u32,
        /// Over the list's digest.
        signature: Signature,
    },
    /// My operator says no, and leaves.
    No,
    /// Still there: keeps the connection open behind routers that forget silent ones.
    Here,
}

/// Prints the kind alone: tokens and drawn numbers are secret.
impl fmt::Debug for ToHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ToHost::Sit { .. } => "Sit",
            ToHost::Commit { .. } => "Commit",
            ToHost::Reveal { .. } => "Reveal",
            ToHost::Yes { .. } => "Yes",
            ToHost::No => "No",
            ToHost::Here => "Here",
        })
    }
}

/// Said by the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    /// You cannot sit here, or not any more. The last message.
    Refused(Refusal),
    /// These names sit here, yours among them.
    Sitting {
        /// In the order of the alphabet.
        names: Vec<String>,
    },
    /// The lobby is closed: step 1.
    List {
        /// The close's number, from 1 on.
        close: u32,
        /// The list as a file.
        list: String,
        /// The names of those who sit here, in the list's order. The others of the list are from
        /// the old one.
        sitting: Vec<String>,
    },
    /// Step 2: the commitments of all who sit, in the list's order.
    Commitments {
        /// The close's number.
        close: u32,
        /// One for each.
        all: Vec<[u8; 32]>,
    },
    /// Step 3: the drawn numbers of all who sit, in the list's order.
    Drawn {
        /// The close's number.
        close: u32,
        /// One for each.
        all: Vec<[u8; 32]>,
    },
    /// All have said yes: their signatures, in the list's order.
    Signatures {
        /// The close's number.
        close: u32,
        /// One for each who sits.
        all: Vec<Signature>,
    },
    /// The lobby has ended without a list. The last message.
    Ended,
    /// Still there.
    Here,
}

/// The reason why somebody gets no seat, or loses it.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The token is of another lobby.
    #[error("the invitation is not one of this lobby; ask the host for the one that it shows now")]
    Token,
    /// The invitation's time is over.
    #[error("the invitation has expired; ask the host to open the lobby again")]
    Expired,
    /// As many sit as were to come.
    #[error("all seats are taken")]
    Full,
    /// A name that is taken, or that people would take for one that is.
    #[error(
        "the name looks like {0:?}, which is there already (- does not count, nor do o and 0, or i, l and 1, differ); choose another: undertone group join … --name"
    )]
    Name(String),
    /// The lines are not usable.
    #[error("the line {0}")]
    Lines(String),
    /// An operator said no to this key: the host's, or it was revoked.
    #[error("the host does not let this key in")]
    Barred,
    /// A step of a close stayed open for too long.
    #[error("it did not answer in time while the lobby was closed; join again")]
    Silent,
    /// A message that did not belong there.
    #[error("it said something that does not belong there")]
    Fault,
}
