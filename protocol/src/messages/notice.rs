//! Public notices of parties.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::messages::commitment::{Commitment, Commitments, Nonce};
use crate::messages::held_kind::HeldKind;
use crate::messages::row::Row;
use crate::messages::signature::{Digest, Signature};
use crate::messages::stage::{Phase, Stage};
use crate::sealing::run_key::{incarnation, is_small_order};
use crate::topology::party::Party;

/// The name of one start of a node: 128 bits of a hash of the contents of its READY.
pub type Incarnation = [u8; 16];

/// SHA-256 of an item's bytes.
pub type ItemHash = [u8; 32];

/// A set that parties agree on: (party, hash of its item), ascending by party.
pub type ItemSet = Vec<(Party, ItemHash)>;

/// SHA-256 of the bytes of a set of items or of parties.
pub type SetHash = [u8; 32];

/// One of the two graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Network {
    /// Noise-encrypted, mutually authenticated; nobody else reads it.
    Private,
    /// In the clear, signed; everybody reads it.
    Public,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Network::Private => "private",
            Network::Public => "public",
        })
    }
}

/// A party of a START, with the incarnation that its READY named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seat {
    /// The party that takes part.
    pub party: Party,
    /// The incarnation of the author's node.
    pub incarnation: Incarnation,
}

/// A neighbour that a party does not reach before START.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreached {
    /// The party that is not reached.
    pub party: Party,
    /// The start of its node whose READY is held; `None` without a READY.
    pub ready: Option<Incarnation>,
    /// The finding in its place.
    pub found: Found,
}

/// The finding of a node that does not reach a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    /// The party is connected, and has said nothing for a while.
    Silent,
    /// Its address refuses connections.
    Refuses,
    /// The party does not answer: its address does not, or it has said nothing for long over a
    /// connection.
    Nothing,
}

/// The late arrivals of a party, which had not run for a while until its deadlines had passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateArrivals {
    /// The party.
    pub party: Party,
    /// The number of late arrivals, from 1 to [`LateArrivals::MOST`].
    pub count: u8,
}

impl LateArrivals {
    /// The most late arrivals of a party in one run after which it is still heard. Whoever sleeps
    /// more often is of no use to it. Our choice; it bounds what liars can have others say.
    pub const MOST: u8 = 4;

    /// Whether members of a plan with so many parties may say this.
    pub fn are_sound(arrivals: &[LateArrivals], parties: usize) -> bool {
        let counts = |entry: &LateArrivals| (1..=Self::MOST).contains(&entry.count);
        arrivals.windows(2).all(|pair| pair[0].party < pair[1].party)
            && arrivals.last().is_none_or(|last| last.party < parties)
            && arrivals.iter().all(counts)
    }
}

/// A secret or a share of one that its notice makes known. It is public from then on, and still is
/// not printed: what a log has of it would outlive the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Disclosed(pub [u8; 32]);

impl fmt::Debug for Disclosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disclosed")
    }
}

/// The content of a public message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// READY: this start of the author's node is ready to begin.
    Ready {
        /// The run key of this start of the node.
        key: [u8; 32],
        /// Its pair key, where the mechanism has masks of pairs.
        pair: Option<[u8; 32]>,
        /// The number of records that the author brings, where the plan has only a bound of it.
        records: Option<u32>,
    },
    /// The author begins with exactly these, if they all say so.
    Start {
        /// The number of the START within the run, from 0.
        number: u8,
        /// The incarnation of the author's node that has signed the START.
        incarnation: Incarnation,
        /// Names who takes part.
        seats: SetHash,
    },
    /// The author's item of a stage; its bytes travel apart.
    Item {
        /// The stage that the item belongs to.
        stage: Stage,
        /// SHA-256 of its bytes.
        hash: ItemHash,
        /// The number of the item's bytes.
        bytes: u64,
    },
    /// The items that the author holds at half-time.
    List {
        /// The stage that the items belong to.
        stage: Stage,
        /// The parties whose items the author holds.
        held: Row,
        /// The versions of parties that have signed more than one, as far as the author knows,
        /// ascending by party.
        versions: ItemSet,
    },
    /// The author's one vote of a stage.
    Vote {
        /// The stage that is voted on.
        stage: Stage,
        /// Whether it was signed before the author's half-time, since the set was complete.
        early: bool,
        /// Names the items that the author votes for.
        set: SetHash,
    },
    /// The author found the party gone while it did not hold its item of the stage; of sealed
    /// finals, while it did not know what opens the party's.
    Unreachable {
        /// The stage in which something of the party is missing.
        stage: Stage,
        /// The party that is gone.
        party: Party,
    },
    /// To one neighbour: send me the bytes of this item.
    Want {
        /// The stage that the item belongs to.
        stage: Stage,
        /// The author of the item.
        item: Party,
    },
    /// To one neighbour: I cannot send you the bytes of this item; ask somebody else.
    Lack {
        /// The stage that the item belongs to.
        stage: Stage,
        /// The author of the item.
        item: Party,
    },
    /// To one neighbour: this is what I hold; send me what is missing.
    Summary {
        /// Whether the author needs no more of what is said before START.
        gathered: bool,
        /// The notices that the author holds, each kind once.
        holdings: Vec<HeldKind>,
    },
    /// Averaging: the author missed a message. All flood their finals.
    Missed,
    /// Averaging: the author has done all rounds.
    Averaged,
    /// Averaging, to one neighbour: I am here, and wait for others.
    Waiting,
    /// READY where the schedule is drawn at START.
    Commit {
        /// The run key of this start of the node.
        key: [u8; 32],
        /// Its pair key, where the mechanism has masks of pairs.
        pair: Option<[u8; 32]>,
        /// The number of records that the author brings, where the plan has only a bound of it.
        records: Option<u32>,
        /// The commitment to the nonce of this start.
        commitment: Commitment,
    },
    /// START where the schedule is drawn at START.
    Reveal {
        /// The number of the START within the run, from 0.
        number: u8,
        /// The incarnation of the author's node that has signed the START.
        incarnation: Incarnation,
        /// Names who takes part.
        seats: SetHash,
        /// One hash over their commitments for this number.
        commitments: Commitments,
        /// The nonce that the author had committed to.
        nonce: Nonce,
    },
    /// The author leaves before START: the READY of this start of its node is void.
    Withdraw {
        /// The incarnation of the author's node.
        incarnation: Incarnation,
    },
    /// Gathering: whom of its neighbours the author does not reach now, ascending by party.
    Unreached {
        /// Each of them, with the READY that it is about.
        parties: Vec<Unreached>,
    },
    /// Gathering, to one neighbour: I am here.
    Here,
    /// Opening: the secret with which the author sealed its vector.
    Key {
        /// The round of the seal; 0 in a run of one result.
        round: u32,
        /// K, in its canonical encoding.
        secret: Disclosed,
    },
    /// Opening: the author's share of another one's secret.
    Share {
        /// The round of the seal; 0 in a run of one result.
        round: u32,
        /// The party whose secret is shared.
        of: u32,
        /// The share, in its canonical encoding.
        share: Disclosed,
    },
    /// To one neighbour: this node has sent what its summary lacks.
    Answered,
    /// To one neighbour: send me the set that notices name by this hash.
    WantSet {
        /// The hash of the set.
        set: SetHash,
    },
    /// Gathering: the author never begins with a START of this number or a lower one.
    GiveUp {
        /// The number of the START that is given up.
        number: u8,
        /// The incarnation of the author's node that gives it up.
        incarnation: Incarnation,
        /// The commitment to the author's nonce of the next number, where the schedule is drawn at
        /// START.
        next: Option<Commitment>,
    },
    /// To one neighbour: the author has ended, and needs nothing more of this run. Who has ended
    /// itself stays for those that have not said so.
    Finished,
    /// The author still waits for logs: it has signed no set of them, after these arrived late so
    /// often.
    Awake {
        /// Each that was heard to have arrived late, ascending by party; the author itself, if it
        /// did.
        arrivals: Vec<LateArrivals>,
    },
}

/// A node's message in one round of averaging, alike to all of its neighbours; its vector travels
/// beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// The party that speaks.
    pub author: Party,
    /// The digest of the plan that it belongs to.
    pub digest: Digest,
    /// The round's number, from 0: that of the opening.
    pub round: u32,
    /// The signature by the author's key.
    pub signature: Signature,
}

impl Notice {
    /// The phase that the notice belongs to.
    pub fn phase(&self) -> Phase {
        match self {
            Notice::Ready { .. }
            | Notice::Start { .. }
            | Notice::Summary { .. }
            | Notice::Commit { .. }
            | Notice::Reveal { .. }
            | Notice::Withdraw { .. }
            | Notice::Unreached { .. }
            | Notice::GiveUp { .. }
            | Notice::Here
            | Notice::Answered
            | Notice::WantSet { .. } => Phase::Gathering,
            Notice::Item { stage, .. }
            | Notice::List { stage, .. }
            | Notice::Vote { stage, .. }
            | Notice::Unreachable { stage, .. }
            | Notice::Want { stage, .. }
            | Notice::Lack { stage, .. } => stage.phase(),
            Notice::Awake { .. } => Phase::Settling,
            Notice::Missed
            | Notice::Averaged
            | Notice::Waiting
            | Notice::Finished
            | Notice::Key { .. }
            | Notice::Share { .. } => Phase::Publishing,
        }
    }

    /// Whether it announces an item of this stage.
    pub fn is_item_of(&self, of: Stage) -> bool {
        matches!(self, Notice::Item { stage, .. } if *stage == of)
    }

    /// The run key and the pair key of a READY; `None` of anything else.
    pub fn keys(&self) -> Option<(&[u8; 32], Option<&[u8; 32]>)> {
        match self {
            Notice::Ready { key, pair, .. } | Notice::Commit { key, pair, .. } => Some((key, pair.as_ref())),
            _ => None,
        }
    }

    /// The start of the author's node that a READY is of; `None` of anything else.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.keys()
            .map(|(key, pair)| incarnation(key, pair, self.records()))
    }

    /// Returns the number of records that the author of a READY brings, where its plan has only a
    /// bound of it.
    pub fn records(&self) -> Option<u32> {
        match self {
            Notice::Ready { records, .. } | Notice::Commit { records, .. } => *records,
            _ => None,
        }
    }

    /// The secret or share that it makes known.
    pub fn disclosed(&self) -> Option<&Disclosed> {
        match self {
            Notice::Key { secret, .. } => Some(secret),
            Notice::Share { share, .. } => Some(share),
            _ => None,
        }
    }

    /// Whether it is a READY with a key that makes no secret in common with anybody's.
    pub fn has_small_key(&self) -> bool {
        self.keys()
            .is_some_and(|(key, pair)| is_small_order(key) || pair.is_some_and(is_small_order))
    }

    /// Whether its author may say several in turn, so that they are numbered.
    pub fn is_numbered(&self) -> bool {
        self.is_direct()
            || matches!(
                self,
                Notice::Ready { .. }
                    | Notice::Commit { .. }
                    | Notice::Withdraw { .. }
                    | Notice::Start { .. }
                    | Notice::Reveal { .. }
                    | Notice::GiveUp { .. }
                    | Notice::Unreached { .. }
                    | Notice::Awake { .. }
            )
    }

    /// Whether it is for one neighbour only; all others are flooded.
    pub fn is_direct(&self) -> bool {
        matches!(
            self,
            Notice::Want { .. }
                | Notice::Lack { .. }
                | Notice::WantSet { .. }
                | Notice::Summary { .. }
                | Notice::Waiting
                | Notice::Here
                | Notice::Answered
                | Notice::Finished
        )
    }
}

/// The recipient of a public message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recipient {
    /// To everybody, by flooding.
    All,
    /// To one neighbour, which does not pass it on.
    Party(Party),
}

/// A notice with its envelope, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedNotice {
    /// The party that speaks.
    pub author: Party,
    /// The sequence number of notices whose order matters ([`Notice::is_numbered`]): it grows with
    /// every message, across starts of the node, too. Else 0.
    pub sequence: u64,
    /// The recipient of the message.
    pub recipient: Recipient,
    /// The content of the message.
    pub notice: Notice,
    /// The signature by the author's key.
    pub signature: Signature,
}

/// SHA-256 of an item's bytes.
pub fn item_hash(bytes: &[u8]) -> ItemHash {
    Sha256::digest(bytes).into()
}
