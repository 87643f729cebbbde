//! Bodies of announced items: short ones come with their announcement, others are pulled once.
//!
//! An honest author has one item. One that signs two versions shows some nodes the one and some the
//! other; each node holds the first that it gets. A second version is pulled only if the set with
//! most signatures names it: a quorum's set is then held in full by those as well who were shown
//! the other version. So at most two bodies an author are held.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::agreement::shelf::{self, Shelf, Shelved};
use crate::messages::notice::{ItemHash, ItemSet, item_hash};
use crate::messages::wire::{Bytes, SHORT_ITEM_BYTES};
use crate::time::Time;
use crate::topology::party::Party;

/// Number of long bodies that are pulled at once, whatever their length, so that each moves
/// on well within its patience. Our choice: it hides the way of a request behind the bodies before
/// it.
const PULLS_AT_ONCE: usize = 3;

/// Maximum number of bytes requested at once, in any number of bodies: waves of short ones would
/// cost a network's delay each.
const PULLED_AT_ONCE_BYTES: u64 = 4 << 20;

/// The most times that one neighbour is served one body; more is an attempt to fill our queues.
const SERVINGS: u32 = 4;

/// A body that is held.
#[derive(Clone)]
pub struct Body {
    /// SHA-256 of the bytes.
    pub hash: ItemHash,
    /// The number of bytes at the end of the frame that are the item.
    length: usize,
    frame: Carrier,
}

/// The frame of a body: as it came in, as it goes out, or elsewhere.
#[derive(Clone)]
enum Carrier {
    Received(Bytes),
    Outgoing(Arc<[u8]>),
    Shelved(Arc<dyn Shelved>),
}

impl Body {
    /// The body of an item that came in a frame, whose last `length` bytes it is.
    pub fn received(hash: ItemHash, length: usize, frame: Bytes) -> Self {
        let frame = Carrier::Received(frame);
        Body { hash, length, frame }
    }

    /// Whether the item has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes of the item; `None` if they were put elsewhere than in memory and cannot be read
    /// any more.
    pub fn bytes(&self) -> Option<Bytes> {
        let frame = match &self.frame {
            Carrier::Received(frame) => frame.clone(),
            Carrier::Outgoing(frame) => Bytes::from_owner(frame.clone()),
            Carrier::Shelved(shelved) => Bytes::from_owner(shelved.read()?),
        };
        Some(frame.slice(frame.len() - self.length..))
    }

    /// The frame that carries them, as [`Body::bytes`].
    fn frame(&mut self) -> Option<Arc<[u8]>> {
        let frame = match &self.frame {
            Carrier::Outgoing(frame) => return Some(frame.clone()),
            Carrier::Shelved(shelved) => return shelved.read(),
            // Few bodies are ever served by others than their authors: only those are copied, once,
            // and kept once.
            Carrier::Received(frame) => Arc::<[u8]>::from(&frame[..]),
        };
        self.frame = Carrier::Outgoing(frame.clone());
        Some(frame)
    }
}

struct Wanted {
    bytes: u64,
    /// The neighbours that announced the item and so hold it, in the order in which they did.
    announcers: Vec<Party>,
    asked: Option<(Party, Time)>,
    /// Whether it is pulled: the first version of its author, or one that a set names.
    needed: bool,
}

impl Wanted {
    /// A peer's connection is lost, or it does not have the body.
    fn lose(&mut self, peer: Party) {
        self.announcers.retain(|&announcer| announcer != peer);
        if self.asked.is_some_and(|(asked, _)| asked == peer) {
            self.asked = None;
        }
    }

    /// A peer sent something else: whoever was asked, somebody is asked again.
    fn disown(&mut self, peer: Party) {
        self.lose(peer);
        self.asked = None;
    }
}

/// The result of taking a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<E> {
    /// The body is held now; its hash.
    New(ItemHash),
    /// The body was held already, or nobody wants it.
    Ignored,
    /// The body is not what its author announced: the peer that sent it is at fault.
    Wrong,
    /// The body is what its author announced, and is no item of this stage: nobody takes it.
    Void(E),
}

/// The versions of an item that are pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// The first one, and one that a set names.
    First,
    /// The first two.
    Both,
    /// The first two; and what several authors have announced alike only once.
    OnceForAll,
}

/// The items of one stage.
pub struct Items {
    pulled: Pulled,
    /// Whether bodies are taken and asked for: else this node has not come to the stage.
    open: bool,
    /// The author whose items are pulled first: each node begins elsewhere, so that no author has
    /// to serve all at once.
    first: Party,
    /// A pull is waited for that long before somebody else is asked.
    pull_patience_ms: u64,
    largest: u64,
    /// The storage of bodies that are not short.
    shelf: Shelf,
    held: BTreeMap<Party, Body>,
    /// Second versions that a set names.
    named: BTreeMap<Party, Body>,
    wanted: BTreeMap<(Party, ItemHash), Wanted>,
    void: BTreeSet<(Party, ItemHash)>,
    served: BTreeMap<(Party, Party), u32>,
}

impl Items {
    /// Holds nothing yet, for party `me`. `largest` bounds an item's bytes; patience is a quarter
    /// of the stage's time (our guess: a silent announcer leaves time for another one before the
    /// vote).
    pub fn new(me: Party, largest: u64, settle_ms: u64) -> Self {
        Items {
            pulled: Pulled::First,
            open: true,
            first: me + 1,
            pull_patience_ms: settle_ms / 4,
            largest,
            shelf: shelf::in_memory(),
            held: BTreeMap::new(),
            named: BTreeMap::new(),
            wanted: BTreeMap::new(),
            void: BTreeSet::new(),
            served: BTreeMap::new(),
        }
    }

    /// These versions are pulled.
    pub fn pulling(mut self, pulled: Pulled) -> Self {
        self.pulled = pulled;
        self
    }

    /// Long bodies are kept on this shelf.
    pub fn on_shelf(mut self, shelf: Shelf) -> Self {
        self.shelf = shelf;
        self
    }

    /// The body in a frame that ends with the `length` bytes of an item.
    fn keep(&self, hash: ItemHash, length: usize, frame: Carrier) -> Body {
        let long = length > SHORT_ITEM_BYTES;
        let shelved = match &frame {
            Carrier::Received(bytes) if long => (self.shelf)(bytes),
            Carrier::Outgoing(bytes) if long => (self.shelf)(bytes),
            _ => None,
        };
        Body {
            hash,
            length,
            frame: shelved.map_or(frame, Carrier::Shelved),
        }
    }

    /// For a stage that this node has not come to: announcements are noted, and bodies neither
    /// taken nor asked for until it has ([`Items::open`]).
    pub fn closed(mut self) -> Self {
        self.open = false;
        self
    }

    /// This node has come to the stage. Whose item is empty holds it from the start, whatever it
    /// announces.
    pub fn open(&mut self, whose_is_empty: impl Iterator<Item = Party>) {
        self.open = true;
        for author in whose_is_empty {
            let empty = self.keep(item_hash(&[]), 0, Carrier::Outgoing(Arc::from([])));
            self.held.insert(author, empty);
            self.versions_wanted_mut(author)
                .for_each(|wanted| wanted.needed = false);
        }
    }

    /// The body of a party's item: the first version.
    pub fn get(&self, author: Party) -> Option<&Body> {
        self.held.get(&author)
    }

    /// The version of a party's item that has this hash.
    pub fn version(&self, author: Party, hash: &ItemHash) -> Option<&Body> {
        let versions = [self.held.get(&author), self.named.get(&author)];
        versions.into_iter().flatten().find(|body| body.hash == *hash)
    }

    /// Returns everything held, as a set: the first versions.
    pub fn set(&self) -> ItemSet {
        self.held
            .iter()
            .map(|(&author, body)| (author, body.hash))
            .collect()
    }

    /// Whether every item of the set is held.
    pub fn hold_all(&self, set: &ItemSet) -> bool {
        set.iter()
            .all(|(author, hash)| self.version(*author, hash).is_some())
    }

    /// The body that is the last `length` bytes of a frame of its own, on the shelf if it is long.
    pub fn framed(&self, hash: ItemHash, frame: Arc<[u8]>, length: usize) -> Body {
        self.keep(hash, length, Carrier::Outgoing(frame))
    }

    /// Holds a body that is here already as the item of this author, if that is wanted or nothing
    /// of the author is held. Whether it is held now.
    pub fn put(&mut self, author: Party, body: Body) -> bool {
        let versions = match (self.held.get(&author), self.named.get(&author)) {
            (None, _) => &mut self.held,
            (Some(first), None) if first.hash != body.hash => &mut self.named,
            _ => return false,
        };
        versions.insert(author, body);
        true
    }

    /// Whether nothing is asked for, and nothing will be before something is announced.
    pub fn lacks_nothing(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The authors who have announced this hash, and whose item is not held: where bytes are pulled
    /// once for all these hold it as soon as one of them does.
    pub fn wanting(&self, hash: &ItemHash) -> Vec<Party> {
        let alike = self.pulled == Pulled::OnceForAll;
        let wanted = self.wanted.keys().filter(|(_, of)| alike && of == hash);
        wanted.map(|(author, _)| *author).collect()
    }

    /// A body with this hash, of whichever author.
    pub fn with_hash(&self, hash: &ItemHash) -> Option<&Body> {
        let mut all = self.held.values().chain(self.named.values());
        all.find(|body| body.hash == *hash)
    }

    /// Keeps this node's own item: the last `length` bytes of its frame. Returns their hash.
    pub fn keep_own(&mut self, author: Party, frame: Arc<[u8]>, length: usize) -> ItemHash {
        let hash = item_hash(&frame[frame.len() - length..]);
        let body = self.keep(hash, length, Carrier::Outgoing(frame));
        self.held.insert(author, body);
        hash
    }

    /// A verified announcement arrived from a peer, for the first time or again. False: it is too
    /// large to be an item.
    pub fn announced(&mut self, author: Party, (hash, bytes): (ItemHash, u64), from: Party) -> bool {
        if bytes > self.largest {
            return false;
        }
        if self.version(author, &hash).is_some() || self.void.contains(&(author, hash)) {
            return true;
        }
        // Later versions are pulled only if a set names them: a liar may sign many.
        let known = usize::from(self.held.contains_key(&author))
            + usize::from(self.named.contains_key(&author))
            + self
                .versions_wanted(author)
                .filter(|wanted| wanted.needed)
                .count();
        // Of evidence the second counts, too; a third is more than an honest node can be shown.
        let needed = match self.pulled {
            Pulled::First => known == 0 && self.versions_wanted(author).next().is_none(),
            Pulled::Both | Pulled::OnceForAll => known < 2,
        };
        let wanted = Wanted {
            bytes,
            announcers: Vec::new(),
            asked: None,
            needed,
        };
        let wanted = self.wanted.entry((author, hash)).or_insert(wanted);
        if !wanted.announcers.contains(&from) {
            wanted.announcers.push(from);
        }
        true
    }

    /// The set with most signatures: its versions are pulled, whichever came first.
    pub fn name(&mut self, set: &ItemSet) {
        for entry in set {
            if let Some(wanted) = self.wanted.get_mut(entry) {
                wanted.needed = true;
            }
        }
    }

    fn versions_wanted(&self, author: Party) -> impl Iterator<Item = &Wanted> {
        self.wanted
            .range((author, ItemHash::default())..=(author, [u8::MAX; 32]))
            .map(|(_, wanted)| wanted)
    }

    fn versions_wanted_mut(&mut self, author: Party) -> impl Iterator<Item = &mut Wanted> {
        self.wanted
            .range_mut((author, ItemHash::default())..=(author, [u8::MAX; 32]))
            .map(|(_, wanted)| wanted)
    }

    /// Returns the neighbours that announced an item that is not held yet, or was just taken: they
    /// need not be told of it.
    pub fn announcers(&self, author: Party, hash: ItemHash) -> &[Party] {
        self.wanted
            .get(&(author, hash))
            .map_or(&[], |wanted| &wanted.announcers)
    }

    /// A body arrived; `check` says what is wrong with bytes that have the announced hash.
    pub fn body<E>(
        &mut self,
        author: Party,
        from: Party,
        frame: &Bytes,
        bytes: Range<usize>,
        check: impl FnOnce(&Bytes) -> Result<(), E>,
    ) -> Taken<E> {
        if !self.open || self.versions_wanted(author).next().is_none() {
            return Taken::Ignored;
        }
        let content = frame.slice(bytes);
        let length = content.len() as u64;
        // No hash is computed for what cannot be it.
        let known = [self.held.get(&author), self.named.get(&author)];
        let may_be_held = known
            .into_iter()
            .flatten()
            .any(|body| body.length == content.len());
        let may_be_wanted = self.versions_wanted(author).any(|wanted| wanted.bytes == length);
        let hash = if may_be_held || may_be_wanted {
            item_hash(&content)
        } else {
            ItemHash::default()
        };
        if self.version(author, &hash).is_some() {
            return Taken::Ignored;
        }
        // Nobody announced this: whoever sent it is not asked again.
        let Some(needed) = self
            .wanted
            .get(&(author, hash))
            .filter(|wanted| wanted.bytes == length)
            .map(|wanted| wanted.needed)
        else {
            self.versions_wanted_mut(author)
                .filter(|wanted| wanted.needed)
                .for_each(|wanted| wanted.disown(from));
            return Taken::Wrong;
        };
        // A second version is held only if a set names it.
        let first = !self.held.contains_key(&author);
        if !first && !needed {
            return Taken::Ignored;
        }
        if let Err(reason) = check(&content) {
            self.wanted.remove(&(author, hash));
            self.void.insert((author, hash));
            return Taken::Void(reason);
        }
        let body = self.keep(hash, content.len(), Carrier::Received(frame.clone()));
        let versions = if first { &mut self.held } else { &mut self.named };
        versions.insert(author, body);
        Taken::New(hash)
    }

    /// The announcement of a held item was passed on: its announcers are of no use any more.
    pub fn passed_on(&mut self, author: Party, hash: ItemHash) {
        self.wanted.remove(&(author, hash));
    }

    /// The connection with a peer is lost: it announced nothing, and will not answer.
    pub fn lost(&mut self, peer: Party) {
        self.wanted.values_mut().for_each(|wanted| wanted.lose(peer));
    }

    /// A peer cannot serve a body.
    pub fn lacks(&mut self, author: Party, peer: Party) {
        self.versions_wanted_mut(author)
            .filter(|wanted| wanted.needed)
            .for_each(|wanted| wanted.lose(peer));
    }

    /// Bodies for a peer that asked for a party's item, of both versions if there are two; none if
    /// none is held or they were served too often.
    pub fn serve(&mut self, author: Party, peer: Party) -> Vec<Arc<[u8]>> {
        let served = self.served.entry((peer, author)).or_insert(0);
        let versions = [self.held.get_mut(&author), self.named.get_mut(&author)];
        let held = versions.into_iter().flatten().filter(|_| *served < SERVINGS);
        let frames: Vec<Arc<[u8]>> = held.filter_map(Body::frame).collect();
        *served += u32::from(!frames.is_empty());
        frames
    }

    /// The next body to ask for, as (whom, whose), or when to look again.
    pub fn pull(&mut self, now: Time, connected: impl Fn(Party) -> bool) -> Result<(Party, Party), Time> {
        if !self.open {
            return Err(Time::FAR);
        }
        // What is under way, and whoever was asked and kept silent for too long.
        let mut later = Time::FAR;
        let (mut under_way, mut bytes_under_way) = (0, 0);
        let lacking = |key: &(Party, ItemHash)| self.version(key.0, &key.1).is_none();
        let needed = self
            .wanted
            .iter()
            .filter(|(_, wanted)| wanted.needed)
            .map(|(key, _)| *key);
        let mut open: Vec<(Party, ItemHash)> = needed.filter(lacking).collect();
        if self.pulled == Pulled::OnceForAll {
            // Of those who have the same bytes the one whose are asked for, else one that somebody
            // can serve.
            let rank = |key: &(Party, ItemHash)| {
                let wanted = self.wanted.get(key);
                let asked = wanted.is_some_and(|wanted| wanted.asked.is_some());
                (!asked, wanted.is_none_or(|wanted| wanted.announcers.is_empty()))
            };
            open.sort_by_key(|key| (key.1, rank(key)));
            open.dedup_by_key(|key| key.1);
        }
        for key in &open {
            let Some(wanted) = self.wanted.get_mut(key) else {
                continue;
            };
            let Some((asked, at)) = wanted.asked else { continue };
            let patience = at.plus_millis(self.pull_patience_ms);
            if now < patience {
                later = later.min(patience);
                if wanted.bytes > SHORT_ITEM_BYTES as u64 {
                    (under_way, bytes_under_way) = (under_way + 1, bytes_under_way + wanted.bytes);
                }
                continue;
            }
            // It goes to the back of the queue.
            wanted.announcers.retain(|&announcer| announcer != asked);
            wanted.announcers.push(asked);
            wanted.asked = None;
        }
        // The next one to ask for: everybody begins with another author's.
        let (before, after): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|&(author, _)| author < self.first);
        for key in after.into_iter().chain(before) {
            let author = key.0;
            let Some(wanted) = self.wanted.get_mut(&key).filter(|wanted| wanted.asked.is_none()) else {
                continue;
            };
            let short = wanted.bytes <= SHORT_ITEM_BYTES as u64;
            let full = under_way >= PULLS_AT_ONCE && bytes_under_way + wanted.bytes > PULLED_AT_ONCE_BYTES;
            if !short && full {
                continue;
            }
            if let Some(&peer) = wanted.announcers.iter().find(|&&peer| connected(peer)) {
                wanted.asked = Some((peer, now));
                return Ok((peer, author));
            }
        }
        Err(later)
    }
}

#[cfg(test)]
mod tests;
