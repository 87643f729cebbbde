//! The interface of a way of publishing: inputs, surroundings, actions, and results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use crate::agreement::flood::Flood;
use crate::averaging::entry::EntryError;
use crate::lattice::packed::VectorError;
use crate::messages::notice::Notice;
use crate::messages::signing::Signer;
use crate::messages::wire::WireError;
use crate::publishing::result::{Accuracy, Sum};
use crate::sealing::mask::MaskTooLong;
use crate::time::Time;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// The inputs of a publishing node.
pub struct Setup {
    /// This node's party.
    pub me: Party,
    /// The key that signs this node's rounds and seeds. Notices go through
    /// [`PublishingAction::Say`]: their sequence numbers are counted elsewhere.
    pub signer: Signer,
    /// The public graph.
    pub graph: Arc<Graph>,
    /// Patience with a silent neighbour, in milliseconds.
    pub settle_ms: u64,
}

/// The inputs of a way of publishing besides its own state.
pub struct Surroundings<'a> {
    /// All notices held.
    pub flood: &'a Flood,
    /// The parties that this node finds unreachable, with the moment since when.
    pub unreachable: &'a BTreeMap<Party, Time>,
    /// Public neighbours that can be reached.
    pub connected: &'a BTreeSet<Party>,
    /// The moment when each neighbour last sent this node something that it had signed.
    pub heard: &'a BTreeMap<Party, Time>,
}

/// An action that a way of publishing asks for.
#[derive(Debug)]
pub enum PublishingAction {
    /// Sign and flood this.
    Say(Notice),
    /// Sign this for one neighbour.
    Tell(Party, Notice),
    /// Send a frame to a public neighbour.
    Send(Party, Arc<[u8]>),
    /// A peer sent what it may not send.
    Offence(Party, String),
    /// Something went wrong.
    Fault(String),
    /// A message of averaging was missed: agree on the finals themselves instead.
    Flood {
        /// The parties that averaged so far, whose finals are expected.
        members: BTreeSet<Party>,
        /// This node's own.
        item: OwnItem,
    },
    /// The end of publishing for this node, once.
    Ended(Box<Published>),
}

/// The result of publishing for one node.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The parties whose finals are in the sum.
    pub included: BTreeSet<Party>,
    /// Whether enough members of the plan hold exactly this result. Not set for averages, which
    /// differ within their `accuracy`.
    pub agreed: bool,
    /// The sum of these finals and of their weights; `None` if none is known.
    pub sum: Option<Sum>,
    /// The known error of the sum; `None` where it is exact.
    pub accuracy: Option<Accuracy>,
}

impl Published {
    /// Returns the result with these parties' finals, whose sum this node does not know.
    pub fn without_sum(included: BTreeSet<Party>, agreed: bool) -> Self {
        Published {
            included,
            agreed,
            ..Published::default()
        }
    }
}

/// A node's own item of the second agreement, on its way.
#[derive(Debug)]
pub struct OwnItem {
    /// The frame with its header.
    pub frame: Arc<[u8]>,
    /// The number of bytes at the frame's end that are the item.
    pub length: usize,
}

/// A reason why a final, or what stands for one, is none.
#[derive(Debug, Error)]
pub enum FinalError {
    /// Its bytes are no final.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Its coordinates cannot be summed.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The weight is too large: as many as there are parties could overflow.
    #[error("the weight is too large")]
    Weight,
    /// Its bytes are no entry.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The final is no vector of residues, which alone can be sealed.
    #[error("finals that are no residues cannot be sealed")]
    NoResidues,
    /// The final was stored elsewhere than in memory, and cannot be read any more.
    #[error("a final that this node holds can no longer be read from the state folder's disk")]
    Unreadable,
    /// Another number of mask keys than was expected.
    #[error("{found} bytes of mask keys, but {expected} were expected")]
    Keys {
        /// The bytes that are there.
        found: usize,
        /// The bytes that are owed.
        expected: usize,
    },
    /// A vector that no mask covers.
    #[error(transparent)]
    Mask(#[from] MaskTooLong),
    /// This node's own final has a coordinate that no honest final has.
    #[error("this node's final does not fit on the wire")]
    OwnWidth,
    /// This node's own final has a coordinate beyond what an opening has room for.
    #[error("this node's final does not fit into an opening")]
    OwnOpening,
}
