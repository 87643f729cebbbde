//! The contents of frames.

use std::ops::Range;

use crate::lattice::grid::LatticeWeight;
use crate::messages::log::{Answer, ShareId};
use crate::messages::notice::{Notice, Round, SignedNotice};
use crate::messages::set::Set;
use crate::messages::signature::Digest;
use crate::messages::stage::Stage;
use crate::topology::party::Party;

/// The content of a public frame.
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
        /// The range of the frame that holds the bytes.
        bytes: Range<usize>,
    },
    /// A short item and its announcement.
    Item {
        /// The announcement in its signed envelope.
        signed: SignedNotice,
        /// The range of the frame that holds the item's bytes.
        bytes: Range<usize>,
    },
    /// A slice of a sealed final and its announcement, on the way to those who keep it.
    Slice {
        /// The announcement in its signed envelope.
        signed: SignedNotice,
        /// The range of the frame that holds the item's bytes.
        bytes: Range<usize>,
    },
    /// A set; notices name it by its hash.
    Set(Set),
    /// A round of averaging. Its signature is not checked yet.
    Round {
        /// The message of the round.
        round: Round,
        /// The range of the frame that holds the round's coordinates.
        values: Range<usize>,
    },
}

impl PublicFrame {
    /// The notice, alone or with its item.
    pub fn notice(&self) -> Option<&SignedNotice> {
        match self {
            PublicFrame::Notice(signed)
            | PublicFrame::Item { signed, .. }
            | PublicFrame::Slice { signed, .. } => Some(signed),
            _ => None,
        }
    }

    /// An item, alone or with its announcement: its stage, its author and where its bytes are.
    pub fn item(&self) -> Option<(Stage, Party, Range<usize>)> {
        match self {
            PublicFrame::Body { stage, author, bytes } => Some((*stage, *author, bytes.clone())),
            PublicFrame::Item { signed, bytes } | PublicFrame::Slice { signed, bytes } => match signed {
                SignedNotice {
                    author,
                    notice: Notice::Item { stage, .. },
                    ..
                } => Some((*stage, *author, bytes.clone())),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The content of a private frame.
#[derive(Debug)]
pub enum PrivateFrame {
    /// A share on its way.
    Share {
        /// The digest of the plan that it belongs to.
        digest: Digest,
        /// The identity of the share.
        id: ShareId,
        /// The weight that it carries.
        weight: LatticeWeight,
        /// The range of the frame that holds the share's coordinates.
        values: Range<usize>,
    },
    /// A message of gossip.
    Message {
        /// The digest of the plan that it belongs to.
        digest: Digest,
        /// Its round, who sent it, and to whom.
        id: ShareId,
        /// The part of the parties' values that it carries, in units of 2^-64.
        weight: LatticeWeight,
        /// The range of the frame that holds the message's coordinates.
        values: Range<usize>,
    },
    /// A vector that is sealed for the circle of its receiver.
    Sealed {
        /// The digest that the frame is signed for: the plan's, or that of a later round of it.
        digest: Digest,
        /// Its round, who sealed it, and for whom.
        id: ShareId,
        /// Nothing: weights follow from the plan and the agreed sets.
        weight: LatticeWeight,
        /// The range of the frame that holds the vector's residues.
        values: Range<usize>,
    },
    /// An answer to a share, or to a sealed vector.
    Answer {
        /// The digest of the plan that it belongs to.
        digest: Digest,
        /// The share that is answered.
        id: ShareId,
        /// The receiver's answer.
        answer: Answer,
    },
}
