//! What frames hold.

use std::ops::Range;

use crate::lattice::grid::LatticeWeight;
use crate::messages::log::{Answer, ShareId};
use crate::messages::notice::{Notice, Round, SignedNotice};
use crate::messages::set::Set;
use crate::messages::signature::Digest;
use crate::messages::stage::Stage;
use crate::topology::party::Party;

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
    /// A short item and its announcement.
    Item {
        /// The announcement in its signed envelope.
        signed: SignedNotice,
        /// Where in the frame the item's bytes are.
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

impl PublicFrame {
    /// The notice, alone or with its item.
    pub fn notice(&self) -> Option<&SignedNotice> {
        match self {
            PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. } => Some(signed),
            _ => None,
        }
    }

    /// An item, alone or with its announcement: its stage, its author and where its bytes are.
    pub fn item(&self) -> Option<(Stage, Party, Range<usize>)> {
        match self {
            PublicFrame::Body { stage, author, bytes } => Some((*stage, *author, bytes.clone())),
            PublicFrame::Item {
                signed:
                    SignedNotice {
                        author,
                        notice: Notice::Item { stage, .. },
                        ..
                    },
                bytes,
            } => Some((*stage, *author, bytes.clone())),
            _ => None,
        }
    }
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
    /// A message of gossip.
    Message {
        /// The digest of the plan that it belongs to.
        digest: Digest,
        /// Its round, who sent it, and to whom.
        id: ShareId,
        /// How much of the parties' values it carries, in units of 2^-64.
        weight: LatticeWeight,
        /// Where in the frame its coordinates are.
        values: Range<usize>,
    },
    /// A vector that is sealed for the circle of its receiver.
    Sealed {
        /// What it is signed for: the plan, or a later round of it.
        digest: Digest,
        /// Its round, who sealed it, and for whom.
        id: ShareId,
        /// Nothing: weights follow from the plan and the agreed sets.
        weight: LatticeWeight,
        /// Where in the frame its residues are.
        values: Range<usize>,
    },
    /// An answer to a share, or to a sealed vector.
    Answer {
        /// The digest of the plan that it belongs to.
        digest: Digest,
        /// The share that is answered.
        id: ShareId,
        /// What the receiver says.
        answer: Answer,
    },
}
