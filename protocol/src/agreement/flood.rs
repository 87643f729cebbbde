//! Notices that everybody gets: each is checked, kept once and passed on once. Memory is bounded by
//! the slots, whatever peers send: a READY and a START of each party, and for each of the two
//! stages (with averaging three) an item and up to n (the number of members) other versions of it
//! that its author signed as well (an honest one signs none), a list, a vote, and n calls; for
//! averaging that it missed a message, and that it has done all rounds; whom it does not reach
//! before START, and that it still waits for logs: 15n + 6n² notices at most, each no longer than a
//! public frame. Where finals are sealed there is no stage of finals, but one of sealed finals, in
//! which there are no lists and votes, and as many of corrections as parties may depart and one;
//! and a secret and n shares of each party, and as many versions of these as [`disclosures`] has
//! room for. Where they travel in slices there are reports, slices and sums in place of sealed
//! finals: items of 2m + 1 stages, for m slices, and m is at most n. What is passed on is bounded,
//! too: a READY, START or word that logs are waited for is replaced [`REPLACEMENTS`] times at most,
//! and so many versions of a secret or share are taken as [`disclosures`] says.
//!
//! A party signs one START of each number for each start of its node, and gives up each number
//! once: a second one of the same start is an offence. There are [`Flood::with_numbers`] numbers,
//! and so many slots of each kind for a party. Once this node has signed its own, one that equals
//! it takes the place of any other, and nothing takes its place again. So all who signed the same
//! START end up holding the same of each other, in whatever order a liar's several ones came in;
//! who refused one before it signed asks its neighbours once more ([`Flood::passed_over`]).

pub mod disclosures;
pub mod held;
mod named_sets;
mod of_averaging;
mod of_gathering;
pub mod of_sets;
mod of_waking;
pub mod slot;
mod summary;
mod well_formed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use crate::agreement::flood::disclosures::Disclosures;
use crate::agreement::flood::held::{Held, HeldList, HeldVote};
use crate::agreement::flood::named_sets::NamedSets;
use crate::agreement::flood::slot::Slot;
use crate::messages::commitment;
use crate::messages::notice::{Disclosed, Incarnation, ItemHash, Notice, Seat, SetHash, SignedNotice};
use crate::messages::signing::{Members, MessageError};
use crate::messages::stage::{Stage, Stages};
use crate::messages::wire;
use crate::plan::run_file::records::Records;
use crate::topology::party::Party;

/// The most replacements of a party's READY, or of its START, by a newer one. Somebody may restart
/// a node as often while the others gather (our guess). It is too seldom for a member to have the
/// others flood for it at full speed.
pub const REPLACEMENTS: u32 = 64;

/// The result of receiving a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// A notice that was not here: act on it and pass it on.
    New(Slot),
    /// A notice that was held already.
    Known(Slot),
    /// Another version of an item than the one that came first, signed by its author as well.
    Version {
        /// The stage that the item belongs to.
        stage: Stage,
        /// The author, who signed two.
        author: Party,
        /// The hash of this version's body.
        hash: ItemHash,
        /// Whether it was not held before.
        new: bool,
    },
    /// An older notice, or one that no longer matters.
    Stale,
}

/// An error in a notice; the peer that sent it is at fault, or its author.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FloodError {
    /// Not signed by its author for this run.
    #[error("a notice: {0}")]
    Message(#[from] MessageError),
    /// The notice names parties that do not exist, or not in order.
    #[error("a notice of party {0} is malformed")]
    Malformed(Party),
    /// A set that names parties that do not exist, or not in order, or is not what it is named for.
    #[error("a set that nobody may sign")]
    MalformedSet,
    /// A READY with a key that makes no secret in common with anybody's: it counts as none.
    #[error("party {0} is ready with a key of small order")]
    SmallKey(Party),
    /// The author signed another notice for the same purpose.
    #[error("party {author} signed two different notices for {slot:?}")]
    Two {
        /// The party that signed both.
        author: Party,
        /// The slot that the two notices are for.
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
    /// READYs have a pair key.
    pairs: bool,
    /// The rules for record counts in READYs, by party; empty where READYs announce none.
    records: Vec<Option<Records>>,
    /// The number of STARTs that a party may sign, one of each number.
    numbers: u8,
    held: BTreeMap<Slot, Held>,
    /// The number of parties with a READY.
    ready: usize,
    /// Other versions of items than the first, each signed by its author: evidence, and what to
    /// pull if a set names them.
    versions: BTreeMap<(Stage, Party, ItemHash), Held>,
    stages: Stages,
    /// Secrets and shares that were revealed.
    disclosures: Disclosures,
    /// Parties of whom a START of this number was refused or replaced.
    passed_over: BTreeSet<(u8, Party)>,
    /// Parties that signed two STARTs of this number in one start of their node.
    two_starts: BTreeSet<(u8, Party)>,
    /// Parties that signed two READYs, STARTs or give-ups of one number in one start of their node.
    liars: BTreeSet<Party>,
    /// The sets that STARTs and votes name.
    sets: NamedSets,
}

/// The effect of a notice on the one that its slot holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Succession {
    /// The notice takes the place of the held one.
    Replaces,
    /// The notice is older, or no longer matters.
    Stale,
    /// One author may not say both.
    Contradicts,
}

/// The start of the author's node that signed its START, or gave it up.
fn signed_by(notice: &Notice) -> Option<Incarnation> {
    match notice {
        Notice::Start { incarnation, .. }
        | Notice::Reveal { incarnation, .. }
        | Notice::GiveUp { incarnation, .. } => Some(*incarnation),
        _ => None,
    }
}

impl Flood {
    /// A flood that holds nothing yet.
    pub fn new(me: Party, members: Members) -> Self {
        Flood {
            me,
            members,
            commits: false,
            pairs: false,
            records: vec![],
            numbers: 1,
            held: BTreeMap::new(),
            ready: 0,
            versions: BTreeMap::new(),
            stages: Stages::READABLE,
            disclosures: Disclosures::default(),
            passed_over: BTreeSet::new(),
            two_starts: BTreeSet::new(),
            liars: BTreeSet::new(),
            sets: NamedSets::default(),
        }
    }

    /// Sets with `commits` whether READYs commit and STARTs reveal: only that kind is taken.
    pub fn committing(mut self, commits: bool) -> Self {
        self.commits = commits;
        self
    }

    /// Sets with `pairs` whether the plan has masks of pairs: READYs have a pair key then, and else
    /// none.
    pub fn pairing(mut self, pairs: bool) -> Self {
        self.pairs = pairs;
        self
    }

    /// The flood of a plan whose READYs may say these numbers of records, by party.
    pub fn counting(mut self, records: Vec<Option<Records>>) -> Self {
        self.records = records;
        self
    }

    /// The flood of a plan with STARTs of so many numbers.
    pub fn with_numbers(mut self, numbers: u8) -> Self {
        self.numbers = numbers;
        self
    }

    /// The flood of a plan whose runs have these stages: nothing of any other is taken, and nothing
    /// that opens where finals are not sealed.
    pub fn with_stages(mut self, stages: Stages) -> Self {
        self.stages = stages;
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
        if author >= self.members.len() {
            return Err(MessageError::Author(author).into());
        }
        let slot = Slot::of(author, &signed.notice).ok_or(FloodError::Malformed(author))?;
        if !self.well_formed(author, &signed.notice) {
            return Err(FloodError::Malformed(author));
        }
        if slot.discloses() {
            return self.take_disclosed(frame, signed, slot);
        }
        // What is held already costs no look at its signature.
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
        let succession = known.map(|known| self.succession(slot, known, &signed, gathered));
        if succession == Some(Succession::Stale) {
            if let Slot::Start(number, author) = slot {
                self.passed_over.insert((number, author));
            }
            return Ok(Receipt::Stale);
        }
        // Only now the signature: nobody is accused of what somebody else made up.
        let replaced = known.map_or(0, |known| known.replaced + 1);
        let second = known.is_some_and(|known| signed_by(&known.notice) == signed_by(&signed.notice));
        self.members.verify(&signed)?;
        // With a key of small order every shared secret is public: letters and masks would hide
        // nothing.
        if signed.notice.has_small_key() {
            return Err(FloodError::SmallKey(author));
        }
        if let Slot::Start(number, _) = slot
            && succession.is_some()
        {
            self.passed_over.insert((number, author));
            if second {
                self.two_starts.insert((number, author));
                self.liars.insert(author);
            }
        }
        if succession == Some(Succession::Contradicts) {
            return self.contradiction(signed, slot);
        }
        let held = Held::new(signed, frame.into());
        self.hold(slot, Held { replaced, ..held });
        Ok(Receipt::New(slot))
    }

    /// A notice that opens something: whether it is good is found out later.
    fn take_disclosed(
        &mut self,
        frame: &[u8],
        signed: SignedNotice,
        slot: Slot,
    ) -> Result<Receipt, FloodError> {
        let author = signed.author;
        if self.disclosures.contains(slot, &signed.notice) {
            return Ok(Receipt::Known(slot));
        }
        if author == self.me {
            return Ok(Receipt::Stale);
        }
        self.members.verify(&signed)?;
        let kept = self.disclosures.keep(slot, Held::new(signed, frame.into()));
        kept.then_some(Receipt::New(slot))
            .ok_or(FloodError::Two { author, slot })
    }

    fn succession(&self, slot: Slot, known: &Held, signed: &SignedNotice, gathered: bool) -> Succession {
        let newer = signed.sequence > known.sequence && known.replaced < REPLACEMENTS;
        match slot {
            // A start of a node says one READY. (Its withdrawal is of no start by this reckoning.)
            Slot::Ready(_)
                if known.incarnation.is_some() && known.incarnation == signed.notice.incarnation() =>
            {
                Succession::Contradicts
            }
            Slot::Ready(_) if newer && !gathered => Succession::Replaces,
            Slot::Unreached(_) | Slot::Awake(_) if newer => Succession::Replaces,
            Slot::Ready(_) | Slot::Unreached(_) | Slot::Awake(_) => Succession::Stale,
            Slot::GiveUp(..) if signed_by(&known.notice) == signed_by(&signed.notice) => {
                Succession::Contradicts
            }
            // The first one stays: the commitments of the next START may rest on it.
            Slot::GiveUp(..) => Succession::Stale,
            Slot::Start(number, author) => {
                let same = signed_by(&known.notice) == signed_by(&signed.notice);
                match (self.is_own_start(number, author, &known.notice), same) {
                    (true, true) => Succession::Contradicts,
                    (true, false) => Succession::Stale,
                    (false, _) if self.is_own_start(number, author, &signed.notice) => Succession::Replaces,
                    (false, true) => Succession::Contradicts,
                    (false, false) if newer => Succession::Replaces,
                    (false, false) => Succession::Stale,
                }
            }
            _ => Succession::Contradicts,
        }
    }

    /// Whether a party's START is the one that this node has signed; where it draws the schedule,
    /// also whether it reveals what the party's READY committed to.
    fn is_own_start(&self, number: u8, author: Party, notice: &Notice) -> bool {
        let own = self.get(Slot::Start(number, self.me)).map(|own| &own.notice);
        let (Some(own), Some(incarnation)) = (own, signed_by(notice)) else {
            return false;
        };
        let seat = Seat {
            party: author,
            incarnation,
        };
        let names = |seats: &SetHash| {
            self.seats(seats)
                .is_some_and(|seats| seats.binary_search(&seat).is_ok())
        };
        match (own, notice) {
            (Notice::Start { seats: ours, .. }, Notice::Start { seats, .. }) => seats == ours && names(seats),
            (
                Notice::Reveal {
                    seats: ours,
                    commitments: all,
                    ..
                },
                Notice::Reveal {
                    seats,
                    commitments,
                    nonce,
                    ..
                },
            ) => {
                // A START with a wrong nonce must not displace the one that counts.
                let committed = commitment::commitment(self.members.digest(), author, nonce);
                let same = seats == ours && commitments == all;
                same && names(seats) && self.commitment(number, author) == Some(&committed)
            }
            _ => false,
        }
    }

    /// Parties of whom a START of this number was refused or replaced here: the one that counts may
    /// be among those.
    pub fn passed_over(&self, number: u8) -> impl Iterator<Item = Party> {
        let all = (number, 0)..=(number, Party::MAX);
        self.passed_over.range(all).map(|(_, party)| *party)
    }

    /// Whether a party is known to have said two things of one start of its node before START, of
    /// which an honest one says one.
    pub fn lies(&self, party: Party) -> bool {
        self.liars.contains(&party)
    }

    /// Whether a party signed two STARTs of this number in one start of its node.
    pub fn signed_two_starts(&self, number: u8, party: Party) -> bool {
        self.two_starts.contains(&(number, party))
    }

    /// A second notice in a slot that takes one: kept only if it is another version of an item.
    fn contradiction(&mut self, signed: SignedNotice, slot: Slot) -> Result<Receipt, FloodError> {
        let author = signed.author;
        let Notice::Item { stage, hash, .. } = signed.notice else {
            // Before START such a party can still be left out.
            if matches!(slot, Slot::Ready(_) | Slot::Start(..) | Slot::GiveUp(..)) {
                self.liars.insert(author);
            }
            return Err(FloodError::Two { author, slot });
        };
        let held = self.versions_of(stage, author).count();
        // A liar may sign versions without end: memory has room for a few.
        if held >= self.members.len() || self.version(stage, author, &hash).is_some() {
            return Err(FloodError::Two { author, slot });
        }
        // Without its item, if that came with it: a liar may sign many versions.
        let frame = wire::notice_frame(&signed);
        self.versions
            .insert((stage, author, hash), Held::new(signed, frame));
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
        self.publish_with(signed, &[])
    }

    /// Keeps a notice of this node's own and returns its frame, which carries the item that it
    /// announces, if that is short.
    pub fn publish_with(&mut self, signed: SignedNotice, item: &[u8]) -> Arc<[u8]> {
        let frame = wire::announcement_frame(&signed, item);
        if let Some(slot) = Slot::of(signed.author, &signed.notice) {
            let held = Held::new(signed, frame.clone());
            if slot.discloses() {
                self.disclosures.keep(slot, held);
            } else {
                self.hold(slot, held);
            }
        }
        frame
    }

    fn hold(&mut self, slot: Slot, held: Held) {
        let (_, author) = slot.kind();
        if let Some(before) = self.held.remove(&slot) {
            self.sets.forget(author, &before.notice);
            self.ready -= usize::from(before.incarnation.is_some());
        }
        self.sets.note(author, &held.notice);
        self.ready += usize::from(held.incarnation.is_some());
        self.held.insert(slot, held);
    }

    /// The one round of a run of one result: rounds of masks of pairs are counted from 1.
    fn round(&self) -> u32 {
        u32::from(self.pairs)
    }

    /// Returns everything held, in order.
    pub fn held(&self) -> impl Iterator<Item = (Slot, &Held)> {
        let held = self.held.iter().map(|(slot, held)| (*slot, held));
        held.chain(self.disclosures.all())
    }

    /// The announcements of items' later versions, in order.
    pub fn versions(&self) -> impl Iterator<Item = (Stage, Party, ItemHash, &Held)> {
        self.versions
            .iter()
            .map(|(&(stage, author, hash), held)| (stage, author, hash, held))
    }

    /// Returns the notice held in a slot; the latest one, where several are held.
    pub fn get(&self, slot: Slot) -> Option<&Held> {
        self.held.get(&slot).or_else(|| self.disclosures.last(slot))
    }

    /// The secrets and shares that were revealed of a round, not checked; one party may have
    /// revealed several.
    pub fn disclosed(&self, round: u32) -> impl Iterator<Item = (Slot, &Disclosed)> {
        self.disclosures.of_round(round)
    }

    /// Returns the unchecked secrets or shares that are held of a slot.
    pub fn revealed(&self, slot: Slot) -> impl Iterator<Item = &Disclosed> {
        self.disclosures.revealed(slot)
    }

    /// The slot of the secret or share, of whatever round, that was taken after so many others: who
    /// counts on sees each once.
    pub fn slot_revealed_after(&self, count: usize) -> Option<Slot> {
        self.disclosures.slot_after(count)
    }

    /// Forgets a secret or share that was found to be wrong: a later one of its author may be good.
    pub fn retract(&mut self, slot: Slot, revealed: &Disclosed) {
        self.disclosures.retract(slot, revealed);
    }

    /// Hash and length of a party's announced item: of the version that came first.
    pub fn item(&self, stage: Stage, party: Party) -> Option<(ItemHash, u64)> {
        self.get(Slot::Item(stage, party))?.item()
    }

    /// The hashes of all versions of a party's item that are announced here.
    pub fn item_hashes(&self, stage: Stage, party: Party) -> impl Iterator<Item = ItemHash> {
        let first = self.item(stage, party).into_iter();
        let later = self.versions_of(stage, party).filter_map(Held::item);
        first.chain(later).map(|(hash, _)| hash)
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
                    set: self.items(set),
                    hash: *set,
                }),
                _ => None,
            })
    }

    /// All lists of a stage.
    pub fn lists(&self, stage: Stage) -> impl Iterator<Item = HeldList<'_>> {
        let all = Slot::List(stage, 0)..=Slot::List(stage, Party::MAX);
        self.held
            .range(all)
            .filter_map(|(slot, held)| match (slot, &held.notice) {
                (Slot::List(_, author), Notice::List { held, versions, .. }) => Some(HeldList {
                    author: *author,
                    held,
                    versions,
                }),
                _ => None,
            })
    }

    /// Returns the parties that each caller has called unreachable in a stage.
    pub fn calls(&self, stage: Stage) -> BTreeMap<Party, BTreeSet<Party>> {
        let all = Slot::Unreachable(stage, 0, 0)..=Slot::Unreachable(stage, Party::MAX, Party::MAX);
        let mut calls: BTreeMap<Party, BTreeSet<Party>> = BTreeMap::new();
        for slot in self.held.range(all).map(|(slot, _)| *slot) {
            if let Slot::Unreachable(_, caller, party) = slot {
                calls.entry(caller).or_default().insert(party);
            }
        }
        calls
    }
}

#[cfg(test)]
mod tests;
