//! Notices that everybody gets: each is checked, kept once and passed on once. Memory is bounded by
//! the slots, whatever peers send: a READY and a START of each party, and for each of the two
//! stages an item and up to n other versions of it that its author signed as well (an honest one
//! signs none), a list, a vote, and n calls; for averaging that it missed a message, that it has
//! its result, four sketches of it, and n cut edges; 14n + 5n² notices in all, each no longer than
//! a public frame. What is passed on is bounded, too: a READY or START is replaced [`REPLACEMENTS`]
//! times at most.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use crate::averaging::sketch::MOST_SKETCHES;
use crate::messages::commitment::{Commitment, Commitments, Nonce};
use crate::messages::notice::{
    Incarnation, ItemHash, ItemSet, Notice, Seat, SignedNotice, Sketch, Stage, item_hash,
};
use crate::messages::signing::{Members, MessageError};
use crate::messages::wire;
use crate::topology::party::Party;

/// How often a party's READY, or its START, is replaced by a newer one: as often as somebody may
/// restart a node while the others gather (our guess), and too seldom for a member to have the
/// others flood for it at full speed.
pub const REPLACEMENTS: u32 = 64;

/// What there is at most one notice for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// A party's newest READY.
    Ready(Party),
    /// A party's newest START.
    Start(Party),
    /// A party's item of a stage.
    Item(Stage, Party),
    /// A party's list of a stage.
    List(Stage, Party),
    /// A party's vote of a stage.
    Vote(Stage, Party),
    /// A party's call that another one is gone, in a stage.
    Gone(Stage, Party, Party),
    /// That a party missed a message of averaging.
    Missed(Party),
    /// That a party cut its edge to another one.
    Severed(Party, Party),
    /// That a party has its result of averaging.
    Averaged(Party),
    /// A party's sums of it, by number.
    Sums(Party, u8),
}

impl Slot {
    /// The slot of an author's notice; none for one that is not flooded.
    pub fn of(author: Party, notice: &Notice) -> Option<Slot> {
        match *notice {
            Notice::Ready { .. } | Notice::Commit { .. } => Some(Slot::Ready(author)),
            Notice::Start { .. } | Notice::Reveal { .. } => Some(Slot::Start(author)),
            Notice::Item { stage, .. } => Some(Slot::Item(stage, author)),
            Notice::List { stage, .. } => Some(Slot::List(stage, author)),
            Notice::Vote { stage, .. } => Some(Slot::Vote(stage, author)),
            Notice::Gone { stage, party } => Some(Slot::Gone(stage, author, party)),
            Notice::Missed => Some(Slot::Missed(author)),
            Notice::Severed { party, .. } => Some(Slot::Severed(author, party)),
            Notice::Averaged { .. } => Some(Slot::Averaged(author)),
            Notice::Sums { number, .. } => Some(Slot::Sums(author, number)),
            Notice::Want { .. } | Notice::Lack { .. } | Notice::Call | Notice::Waiting => None,
        }
    }
}

/// A notice that is kept.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its author's sequence number.
    pub sequence: u64,
    /// As it travels.
    pub frame: Arc<[u8]>,
    /// What it says.
    pub notice: Notice,
    /// SHA-256 of a vote's set: sets are counted by it.
    set_hash: ItemHash,
    /// How many notices were here before it.
    replaced: u32,
}

impl Held {
    fn new(signed: SignedNotice, frame: Arc<[u8]>) -> Self {
        let set_hash = match &signed.notice {
            Notice::Vote { set, .. } => item_hash(&wire::set_to_bytes(set)),
            _ => [0; 32],
        };
        Held {
            sequence: signed.sequence,
            frame,
            notice: signed.notice,
            set_hash,
            replaced: 0,
        }
    }
}

impl Held {
    /// Hash and length of the item that it announces, if it does.
    pub fn item(&self) -> Option<(ItemHash, u64)> {
        match self.notice {
            Notice::Item { hash, bytes, .. } => Some((hash, bytes)),
            _ => None,
        }
    }
}

/// A vote that is held.
#[derive(Clone, Copy, Debug)]
pub struct HeldVote<'a> {
    /// Who signed it.
    pub signer: Party,
    /// Whether it was signed before the signer's half-time.
    pub early: bool,
    /// The set.
    pub set: &'a ItemSet,
    /// SHA-256 of the set.
    pub hash: ItemHash,
}

/// What came of a received notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It is new: act on it and pass it on.
    New(Slot),
    /// It was held already.
    Known(Slot),
    /// Another version of an item than the one that came first, signed by its author as well.
    Version {
        /// The item's stage.
        stage: Stage,
        /// Who signed two.
        author: Party,
        /// Of this version's body.
        hash: ItemHash,
        /// Whether it was not held before.
        new: bool,
    },
    /// An older or no longer relevant one.
    Stale,
}

/// Why a notice is not taken; the peer that sent it is at fault, or its author.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FloodError {
    /// Not signed by its author for this run.
    #[error("a notice: {0}")]
    Message(#[from] MessageError),
    /// It names parties that do not exist, or not in order.
    #[error("a notice of party {0} is malformed")]
    Malformed(Party),
    /// Its author signed another one for the same purpose.
    #[error("party {author} signed two different notices for {slot:?}")]
    Two {
        /// Who.
        author: Party,
        /// For what.
        slot: Slot,
    },
}

/// The notices of a run.
#[derive(Clone, Debug)]
pub struct Flood {
    me: Party,
    members: Members,
    /// Whether READYs commit and STARTs reveal.
    commits: bool,
    held: BTreeMap<Slot, Held>,
    /// Other versions of items than the first, each signed by its author: evidence, and what to
    /// pull if a set names them.
    versions: BTreeMap<(Stage, Party, ItemHash), Held>,
}

fn ascending<T>(entries: &[T], parties: usize, party: impl Fn(&T) -> Party) -> bool {
    entries.windows(2).all(|pair| party(&pair[0]) < party(&pair[1]))
        && entries.last().is_none_or(|last| party(last) < parties)
}

impl Flood {
    /// Nothing held yet.
    pub fn new(me: Party, members: Members) -> Self {
        Flood {
            me,
            members,
            commits: false,
            held: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    /// The same for a plan whose READYs commit and whose STARTs reveal, if `commits`: only that
    /// kind is taken.
    pub fn committing(mut self, commits: bool) -> Self {
        self.commits = commits;
        self
    }

    /// The keys that notices are checked with.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Takes a notice from a peer. With `gathered` (this node has signed a START) a newer READY no
    /// longer replaces an older one.
    ///
    /// # Errors
    /// The notice is not taken and nothing changes.
    pub fn receive(
        &mut self,
        frame: &[u8],
        signed: SignedNotice,
        gathered: bool,
    ) -> Result<Receipt, FloodError> {
        let author = signed.author;
        self.members.same_plan(&signed.digest)?;
        if author >= self.members.len() {
            return Err(MessageError::Author(author).into());
        }
        let slot = Slot::of(author, &signed.notice).ok_or(FloodError::Malformed(author))?;
        if !self.well_formed(&signed.notice) {
            return Err(FloodError::Malformed(author));
        }
        let known = self.held.get(&slot);
        if known.is_some_and(|known| known.notice == signed.notice) {
            return Ok(Receipt::Known(slot));
        }
        if let Notice::Item { stage, hash, .. } = signed.notice
            && self
                .versions
                .get(&(stage, author, hash))
                .is_some_and(|version| version.notice == signed.notice)
        {
            return Ok(Receipt::Version {
                stage,
                author,
                hash,
                new: false,
            });
        }
        if author == self.me {
            // An earlier start of this node, or a forgery: neither matters to anyone any more.
            return Ok(Receipt::Stale);
        }
        let replaceable = matches!(slot, Slot::Ready(_) | Slot::Start(_));
        if let Some(known) = known
            && replaceable
            && (signed.sequence <= known.sequence
                || known.replaced >= REPLACEMENTS
                || (gathered && matches!(slot, Slot::Ready(_))))
        {
            return Ok(Receipt::Stale);
        }
        let contradicts = known.is_some() && !replaceable;
        let replaced = known.map_or(0, |known| known.replaced + 1);
        self.members.verify(&signed)?;
        if contradicts {
            return self.contradiction(frame, signed, slot);
        }
        self.held.insert(
            slot,
            Held {
                replaced,
                ..Held::new(signed, frame.into())
            },
        );
        Ok(Receipt::New(slot))
    }

    /// A second notice in a slot that takes one: kept only if it is another version of an item.
    fn contradiction(
        &mut self,
        frame: &[u8],
        signed: SignedNotice,
        slot: Slot,
    ) -> Result<Receipt, FloodError> {
        let author = signed.author;
        let Notice::Item { stage, hash, .. } = signed.notice else {
            return Err(FloodError::Two { author, slot });
        };
        let held = self.versions_of(stage, author).count();
        if held >= self.members.len() || self.version(stage, author, &hash).is_some() {
            return Err(FloodError::Two { author, slot });
        }
        self.versions
            .insert((stage, author, hash), Held::new(signed, frame.into()));
        Ok(Receipt::Version {
            stage,
            author,
            hash,
            new: true,
        })
    }

    /// The versions of an item that came after the first.
    fn versions_of(&self, stage: Stage, author: Party) -> impl Iterator<Item = &Held> {
        self.versions
            .range((stage, author, ItemHash::default())..=(stage, author, [u8::MAX; 32]))
            .map(|(_, held)| held)
    }

    /// Whether a party signed more than one item of a stage.
    pub fn signed_two(&self, stage: Stage, author: Party) -> bool {
        self.versions_of(stage, author).next().is_some()
    }

    /// Whether any party signed more than one item of a stage.
    pub fn has_versions(&self, stage: Stage) -> bool {
        self.versions.keys().any(|key| key.0 == stage)
    }

    /// The announcement of the version of a party's item that has this hash.
    pub fn version(&self, stage: Stage, author: Party, hash: &ItemHash) -> Option<&Held> {
        let first = self.get(Slot::Item(stage, author));
        let first = first
            .filter(|held| matches!(&held.notice, Notice::Item { hash: of_first, .. } if of_first == hash));
        first.or_else(|| self.versions.get(&(stage, author, *hash)))
    }

    /// Keeps a notice of this node's own and returns its frame.
    pub fn publish(&mut self, signed: SignedNotice) -> Arc<[u8]> {
        let frame = wire::notice_frame(&signed);
        if let Some(slot) = Slot::of(signed.author, &signed.notice) {
            self.held.insert(slot, Held::new(signed, frame.clone()));
        }
        frame
    }

    fn well_formed(&self, notice: &Notice) -> bool {
        let parties = self.members.len();
        match notice {
            Notice::Ready { .. } => !self.commits,
            Notice::Start { seats } => !self.commits && ascending(seats, parties, |seat| seat.party),
            Notice::Commit { .. } => self.commits,
            Notice::Reveal { seats, .. } => self.commits && ascending(seats, parties, |seat| seat.party),
            Notice::List { set, .. } | Notice::Vote { set, .. } => ascending(set, parties, |entry| entry.0),
            Notice::Gone { party, .. } | Notice::Severed { party, .. } => *party < parties,
            Notice::Sums { number, unheard, .. } => {
                *number < MOST_SKETCHES && ascending(unheard, parties, |party| *party)
            }
            _ => true,
        }
    }

    /// Everything held, in order.
    pub fn held(&self) -> impl Iterator<Item = (Slot, &Held)> {
        self.held.iter().map(|(slot, held)| (*slot, held))
    }

    /// The announcements of items' later versions, in order.
    pub fn versions(&self) -> impl Iterator<Item = (Stage, Party, ItemHash, &Held)> {
        self.versions
            .iter()
            .map(|(&(stage, author, hash), held)| (stage, author, hash, held))
    }

    /// What is held in a slot.
    pub fn get(&self, slot: Slot) -> Option<&Held> {
        self.held.get(&slot)
    }

    /// The incarnation of a party's newest READY.
    pub fn ready(&self, party: Party) -> Option<Incarnation> {
        match self.get(Slot::Ready(party))?.notice {
            Notice::Ready { incarnation } | Notice::Commit { incarnation, .. } => Some(incarnation),
            _ => None,
        }
    }

    /// What a party's newest READY commits to.
    pub fn commitment(&self, party: Party) -> Option<&Commitment> {
        match &self.get(Slot::Ready(party))?.notice {
            Notice::Commit { commitment, .. } => Some(commitment),
            _ => None,
        }
    }

    /// The commitments that a party's START names, and the nonce that it reveals.
    pub fn reveal(&self, party: Party) -> Option<(&Commitments, &Nonce)> {
        match &self.get(Slot::Start(party))?.notice {
            Notice::Reveal {
                commitments, nonce, ..
            } => Some((commitments, nonce)),
            _ => None,
        }
    }

    /// Every party with a READY, in order.
    pub fn readies(&self) -> Vec<Seat> {
        let seat = |party| {
            Some(Seat {
                party,
                incarnation: self.ready(party)?,
            })
        };
        (0..self.members.len()).filter_map(seat).collect()
    }

    /// The set of a party's START.
    pub fn start(&self, party: Party) -> Option<&[Seat]> {
        match &self.get(Slot::Start(party))?.notice {
            Notice::Start { seats } | Notice::Reveal { seats, .. } => Some(seats),
            _ => None,
        }
    }

    /// Hash and length of a party's announced item: of the version that came first.
    pub fn item(&self, stage: Stage, party: Party) -> Option<(ItemHash, u64)> {
        self.get(Slot::Item(stage, party))?.item()
    }

    /// All votes of a stage, by signer.
    pub fn votes(&self, stage: Stage) -> impl Iterator<Item = HeldVote<'_>> {
        let all = Slot::Vote(stage, 0)..=Slot::Vote(stage, Party::MAX);
        self.held
            .range(all)
            .filter_map(|(slot, held)| match (slot, &held.notice) {
                (Slot::Vote(_, signer), Notice::Vote { early, set, .. }) => Some(HeldVote {
                    signer: *signer,
                    early: *early,
                    set,
                    hash: held.set_hash,
                }),
                _ => None,
            })
    }

    /// All lists of a stage.
    pub fn lists(&self, stage: Stage) -> impl Iterator<Item = (Party, &ItemSet)> {
        let all = Slot::List(stage, 0)..=Slot::List(stage, Party::MAX);
        self.held
            .range(all)
            .filter_map(|(slot, held)| match (slot, &held.notice) {
                (Slot::List(_, author), Notice::List { set, .. }) => Some((*author, set)),
                _ => None,
            })
    }

    /// Whether a party said that it missed a message of averaging.
    pub fn missed(&self, party: Party) -> bool {
        self.held.contains_key(&Slot::Missed(party))
    }

    /// Whether a party said that it has ended averaging; if so, whether with a result over all of
    /// E.
    pub fn averaged(&self, party: Party) -> Option<bool> {
        match self.held.get(&Slot::Averaged(party))?.notice {
            Notice::Averaged { whole } => Some(whole),
            _ => None,
        }
    }

    /// A party's sums of its result of averaging, each with those of whose ends it had not heard.
    pub fn sums(&self, party: Party) -> impl Iterator<Item = (&[Party], &Sketch)> {
        let all = Slot::Sums(party, 0)..=Slot::Sums(party, u8::MAX);
        self.held.range(all).filter_map(|(_, held)| match &held.notice {
            Notice::Sums { unheard, sketch, .. } => Some((&unheard[..], &**sketch)),
            _ => None,
        })
    }

    /// Who cut its edge to whom, and whether it holds the other's opening.
    pub fn severed(&self) -> impl Iterator<Item = (Party, Party, bool)> {
        let all = Slot::Severed(0, 0)..=Slot::Severed(Party::MAX, Party::MAX);
        self.held
            .range(all)
            .filter_map(|(slot, held)| match (slot, &held.notice) {
                (Slot::Severed(author, _), Notice::Severed { party, held }) => Some((*author, *party, *held)),
                _ => None,
            })
    }

    /// Who called whom gone in a stage.
    pub fn calls(&self, stage: Stage) -> BTreeMap<Party, BTreeSet<Party>> {
        let all = Slot::Gone(stage, 0, 0)..=Slot::Gone(stage, Party::MAX, Party::MAX);
        let mut calls: BTreeMap<Party, BTreeSet<Party>> = BTreeMap::new();
        for slot in self.held.range(all).map(|(slot, _)| *slot) {
            if let Slot::Gone(_, caller, party) = slot {
                calls.entry(caller).or_default().insert(party);
            }
        }
        calls
    }
}

#[cfg(test)]
mod tests {
    use libp2p_identity::Keypair;

    use super::*;
    use crate::messages::notice::Recipient;
    use crate::messages::signing::Signer;

    fn key(party: Party) -> Keypair {
        Keypair::ed25519_from_bytes([party as u8 + 1; 32]).expect("32 bytes")
    }

    fn flood() -> Flood {
        Flood::new(
            0,
            Members::new([1; 32], (0..3).map(|party| key(party).public()).collect()),
        )
    }

    fn signed(signer: &mut Signer, notice: Notice) -> (Arc<[u8]>, SignedNotice) {
        let signed = signer.sign(Recipient::All, notice).expect("signs");
        (wire::notice_frame(&signed), signed)
    }

    #[test]
    fn each_notice_is_new_once_and_a_second_one_is_an_offence() {
        let (mut flood, mut signer) = (flood(), Signer::new(1, [1; 32], key(1), 0));
        let stage = Stage::Settling;
        let (frame, vote) = signed(
            &mut signer,
            Notice::Vote {
                stage,
                early: true,
                set: vec![(0, [0; 32])],
            },
        );
        let slot = Slot::Vote(stage, 1);
        assert_eq!(flood.receive(&frame, vote.clone(), false), Ok(Receipt::New(slot)));
        assert_eq!(flood.receive(&frame, vote, false), Ok(Receipt::Known(slot)));
        let (frame, other) = signed(
            &mut signer,
            Notice::Vote {
                stage,
                early: true,
                set: vec![(1, [0; 32])],
            },
        );
        let mut forged = other.clone();
        forged.signature.0[0] ^= 1;
        assert_eq!(
            flood.receive(&frame, forged, false),
            Err(MessageError::Signature(1).into()),
            "no false accusation"
        );
        assert_eq!(
            flood.receive(&frame, other, false),
            Err(FloodError::Two { author: 1, slot })
        );
        assert_eq!(flood.votes(stage).count(), 1);
        assert_eq!(flood.held().count(), 1);
    }

    #[test]
    fn a_newer_ready_replaces_until_a_start_is_signed() {
        let (mut flood, mut signer) = (flood(), Signer::new(2, [1; 32], key(2), 7));
        let ready = |incarnation| Notice::Ready {
            incarnation: [incarnation; 16],
        };
        let (old_frame, old) = signed(&mut signer, ready(1));
        let (frame, new) = signed(&mut signer, ready(2));
        assert_eq!(
            flood.receive(&frame, new, false),
            Ok(Receipt::New(Slot::Ready(2)))
        );
        assert_eq!(flood.receive(&old_frame, old, false), Ok(Receipt::Stale));
        let (frame, newest) = signed(&mut signer, ready(3));
        assert_eq!(flood.receive(&frame, newest.clone(), true), Ok(Receipt::Stale));
        assert_eq!(flood.ready(2), Some([2; 16]));
        assert_eq!(
            flood.receive(&frame, newest, false),
            Ok(Receipt::New(Slot::Ready(2)))
        );
    }

    fn sums(number: u8, unheard: Vec<Party>, sum: i64) -> Notice {
        let sketch = Sketch {
            seed: [1; 16],
            sums: [sum; crate::averaging::sketch::SUMS],
        };
        Notice::Sums {
            number,
            unheard,
            sketch: Box::new(sketch),
        }
    }

    /// A member of three that signs whatever it can, many times over.
    #[test]
    fn a_members_flood_fills_its_slots_and_no_more() {
        let (mut flood, mut signer) = (flood(), Signer::new(2, [1; 32], key(2), 0));
        let mut passed_on = 0;
        for turn in 0..200u8 {
            let hash = [turn; 32];
            let mut notices = vec![
                Notice::Ready {
                    incarnation: [turn; 16],
                },
                Notice::Start {
                    seats: vec![Seat {
                        party: 2,
                        incarnation: [turn; 16],
                    }],
                },
            ];
            for stage in Stage::ALL {
                notices.push(Notice::Item {
                    stage,
                    hash,
                    bytes: 9,
                });
                notices.push(Notice::List {
                    stage,
                    set: vec![(0, hash)],
                });
                notices.push(Notice::Vote {
                    stage,
                    early: true,
                    set: vec![(1, hash)],
                });
                notices.extend((0..3).map(|party| Notice::Gone { stage, party }));
            }
            notices.push(Notice::Averaged { whole: turn % 2 == 0 });
            notices.extend(
                (0..=u8::MAX)
                    .step_by(1 + 50 * usize::from(turn > 0))
                    .map(|number| sums(number, vec![], turn.into())),
            );
            for notice in notices {
                let (frame, notice) = signed(&mut signer, notice);
                passed_on += u32::from(matches!(
                    flood.receive(&frame, notice, false),
                    Ok(Receipt::New(_))
                ));
            }
        }
        let once = 2 * (3 + 3) + 1 + usize::from(MOST_SKETCHES);
        assert_eq!(flood.held().count(), 2 + once, "one slot each");
        assert_eq!(passed_on as usize, 2 * (1 + REPLACEMENTS as usize) + once);
        let (frame, latest) = signed(
            &mut signer,
            Notice::Ready {
                incarnation: [255; 16],
            },
        );
        assert_eq!(flood.receive(&frame, latest, false), Ok(Receipt::Stale));
    }

    #[test]
    fn strangers_and_disorder_are_refused() {
        let mut flood = flood();
        let mut stranger = Signer::new(9, [1; 32], key(1), 0);
        let (frame, notice) = signed(
            &mut stranger,
            Notice::Gone {
                stage: Stage::Settling,
                party: 0,
            },
        );
        assert_eq!(
            flood.receive(&frame, notice, false),
            Err(MessageError::Author(9).into())
        );
        let mut signer = Signer::new(1, [1; 32], key(1), 0);
        for notice in [
            Notice::Gone {
                stage: Stage::Settling,
                party: 3,
            },
            Notice::List {
                stage: Stage::Settling,
                set: vec![(1, [0; 32]), (1, [0; 32])],
            },
            Notice::Start {
                seats: vec![Seat {
                    party: 3,
                    incarnation: [0; 16],
                }],
            },
            sums(MOST_SKETCHES, vec![], 0),
            sums(0, vec![2, 0], 0),
            sums(0, vec![3], 0),
        ] {
            let (frame, notice) = signed(&mut signer, notice);
            assert_eq!(
                flood.receive(&frame, notice, false),
                Err(FloodError::Malformed(1))
            );
        }
        let mut elsewhere = Signer::new(1, [2; 32], key(1), 0);
        let (frame, notice) = signed(&mut elsewhere, Notice::Ready { incarnation: [0; 16] });
        assert!(matches!(
            flood.receive(&frame, notice, false),
            Err(FloodError::Message(MessageError::Digest { .. }))
        ));
    }
}
