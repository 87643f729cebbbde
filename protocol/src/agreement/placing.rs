//! Placing of sealed vectors: their slices are with enough keepers, or here.
//!
//! An author sends each slice along a way to its keepers. A keeper reports once which slices are
//! here, and for which roots. What is not reported by every keeper goes to everybody, by whoever
//! has it. A final is *placed*, at one node and for the root that its author's log names, once each
//! of its slices is reported for that root by all of its keepers, or is here itself; once placed,
//! always. A log counts as held only with its final placed.
//!
//! **Why a placed final is not lost.** Let c parties lie at most, and d depart. A set of logs is
//! agreed on by more than (n + c)/2 signers, and each honest one had every final of the set placed.
//! Take one slice. Either some honest signer saw all k = c + d + 1 keepers report it for the root
//! that its log names: one of them is honest and stays, and an honest keeper reports what it has.
//! Or every honest signer has the slice itself: there are at least ⌊(n − c)/2⌋ + 1 of these, and
//! they are more than d where n ≥ c + 2d + 2, which plans are checked for; one stays.
//!
//! **What a liar can do.** Its report proves nothing, and costs nobody more than a flood of what it
//! keeps. With two logs, two versions of a slice or two reports at the last moment it can have some
//! nodes count a final as held and others not, split the vote and so end the run, as it can with
//! two logs alone. Both versions of everything are held and passed on, and each counts: what others
//! have acted on cannot be taken back. Only an author's own signature uses up the room for versions
//! of its slices.

mod report;

use std::collections::{BTreeMap, BTreeSet};

pub use report::KeeperReport;

use crate::agreement::agreeing::SealedBodies;
use crate::agreement::items::Body;
use crate::agreement::placing::report::{RootStart, start};
use crate::messages::notice::{ItemHash, SignedNotice};
use crate::messages::signature::Digest;
use crate::plan::slices::{Keepers, Slices};
use crate::sealing::slice_tree::{HASH_BYTES, SlicePlace, path_length, root_of};
use crate::topology::party::Party;

/// The versions of an author's slice, and the reports of a keeper, that are kept and passed on: an
/// honest one has one.
const VERSIONS: usize = 2;

/// The bytes of a slice as it travels: its path in the hash tree, then its residues.
pub fn item_bytes(slices: &Slices, slice: u32) -> usize {
    path_length(slice, slices.count()) * HASH_BYTES + slices.bytes(slice)
}

/// A slice that is here.
struct PlacedSlice {
    /// The root to which its path leads.
    root: ItemHash,
    body: Body,
    /// Its author's announcement; `None` if that is flooded already.
    announced: Option<SignedNotice>,
}

/// The progress of a final towards being placed, for one root.
#[derive(Default)]
struct PlacingProgress {
    /// By slice: the number of keepers that have reported it, and whether it is here.
    slices: Vec<(usize, bool)>,
    /// The slices that are reported by all of their keepers, or here.
    safe: usize,
}

/// The name of a slice in one version: whose it is, its number, and its item's hash.
pub type SliceVersion = (Party, u32, ItemHash);

/// The progress of all sealed finals of a run towards being placed, as one node sees it.
pub struct Placing {
    me: Party,
    /// The number of the plan's members.
    parties: usize,
    slices: Slices,
    keepers: Keepers,
    digest: Digest,
    round: u32,
    /// The roots that logs here name, in the order in which these came.
    roots: BTreeMap<Party, Vec<ItemHash>>,
    /// The versions of each slice that this node has passed on.
    passed_on: BTreeMap<(Party, u32), Vec<ItemHash>>,
    here: BTreeMap<(Party, u32), Vec<PlacedSlice>>,
    reports: BTreeMap<Party, Vec<KeeperReport>>,
    progress: BTreeMap<(Party, RootStart), PlacingProgress>,
    /// Whether something has changed since it was asked last what is not reported.
    changed: bool,
}

impl Placing {
    /// Nothing is placed yet. What is sealed is signed for `digest`, and of this round.
    pub fn new(me: Party, parties: usize, slices: Slices, keepers: Keepers, sealed: (Digest, u32)) -> Self {
        Placing {
            me,
            parties,
            slices,
            keepers,
            digest: sealed.0,
            round: sealed.1,
            roots: BTreeMap::new(),
            passed_on: BTreeMap::new(),
            here: BTreeMap::new(),
            reports: BTreeMap::new(),
            progress: BTreeMap::new(),
            changed: false,
        }
    }

    /// The slices that this node keeps, ascending.
    pub fn kept(&self) -> &[u32] {
        self.keepers.kept_by(self.me)
    }

    /// The slices that a member keeps, ascending.
    pub fn kept_by(&self, keeper: Party) -> &[u32] {
        self.keepers.kept_by(keeper)
    }

    /// The parties among whom slices are placed.
    pub fn members(&self) -> &BTreeSet<Party> {
        self.keepers.members()
    }

    /// The neighbours to which this node passes on an author's slice that came from another one, or
    /// is its own. `None`: it is not on that way, or that neighbour not before it.
    pub fn next(&self, author: Party, slice: u32, from: Party) -> Option<Vec<Party>> {
        let way = self.keepers.way(author, slice);
        let on_it = from == self.me || way.contains(&(from, self.me));
        let next = way.iter().filter(|(at, _)| *at == self.me).map(|(_, next)| *next);
        on_it.then(|| next.collect())
    }

    /// Whether a version of a slice is to be looked at and passed on: it was not before, nor so
    /// many others.
    pub fn is_new(&self, (author, slice, hash): &SliceVersion) -> bool {
        let passed = self.passed_on.get(&(*author, *slice));
        passed.is_none_or(|passed| passed.len() < VERSIONS && !passed.contains(hash))
    }

    /// A version of a slice is passed on.
    pub fn pass(&mut self, (author, slice, hash): SliceVersion) {
        self.passed_on.entry((author, slice)).or_default().push(hash);
    }

    /// A version of a slice is here, whose length and residues are right. Returns whether its
    /// author's final is placed by it.
    pub fn take(
        &mut self,
        (author, slice): (Party, u32),
        body: Body,
        announced: Option<SignedNotice>,
    ) -> bool {
        // Computed even before a log is here: the path leads to one root, whichever log names it.
        let Some(root) = self.root(author, slice, &body) else {
            return false;
        };
        let versions = self.here.entry((author, slice)).or_default();
        if let Some(known) = versions.iter_mut().find(|known| known.body.hash == body.hash) {
            // What came with a flood is flooded already, and is not announced by this node again.
            known.announced = known.announced.take().filter(|_| announced.is_some());
            return false;
        }
        if versions.len() >= VERSIONS {
            return false;
        }
        versions.push(PlacedSlice {
            root,
            body,
            announced,
        });
        self.changed = true;
        self.count((author, start(&root)), slice, |(_, here)| *here = true)
    }

    /// The root to which a slice's path leads.
    fn root(&self, author: Party, slice: u32, body: &Body) -> Option<ItemHash> {
        let bytes = body.bytes()?;
        let length = path_length(slice, self.slices.count());
        let (path, residues) = bytes.split_at_checked(length * HASH_BYTES)?;
        let (digest, round) = (&self.digest, self.round);
        let leaf = SlicePlace {
            digest,
            author,
            round,
        }
        .leaf(slice, residues);
        root_of(leaf, slice, self.slices.count(), path.as_chunks().0)
    }

    /// Counts something of a slice for a root; returns whether the final is placed by it.
    fn count(&mut self, of: (Party, RootStart), slice: u32, count: impl FnOnce(&mut (usize, bool))) -> bool {
        let (all, each) = (self.slices.count(), self.keepers.each());
        let progress = self.progress.entry(of).or_default();
        progress.slices.resize(all, (0, false));
        let Some(entry) = progress.slices.get_mut(slice as usize) else {
            return false;
        };
        // Fewer keepers than all could collude and depart. What is here this node can give others.
        let safe = |entry: &(usize, bool)| entry.1 || entry.0 >= each;
        let was = safe(entry);
        count(entry);
        progress.safe += usize::from(safe(entry) && !was);
        progress.safe == all && !was
    }

    /// A log that is here names this root.
    pub fn name(&mut self, author: Party, root: ItemHash) {
        let roots = self.roots.entry(author).or_default();
        // A liar's second log names another root: either may be the one that is agreed on.
        if !roots.contains(&root) {
            roots.push(root);
            self.changed = true;
        }
    }

    /// The slice of an author that is here for a root: its body, whose residues follow its path.
    pub fn slice(&self, author: Party, slice: u32, root: &ItemHash) -> Option<&Body> {
        let versions = self.here.get(&(author, slice))?;
        let of_root = versions.iter().find(|version| version.root == *root)?;
        Some(&of_root.body)
    }

    /// The body of a version that is here.
    pub fn version(&self, (author, slice, hash): &SliceVersion) -> Option<&Body> {
        let versions = self.here.get(&(*author, *slice))?;
        let version = versions.iter().find(|version| version.body.hash == *hash)?;
        Some(&version.body)
    }

    /// The first root that a log of a party names and of which a slice that this node keeps is
    /// here.
    fn root_here(&self, author: Party) -> Option<ItemHash> {
        let is_here = |root: &&ItemHash| {
            let mut kept = self.kept().iter();
            kept.any(|&slice| self.slice(author, slice, root).is_some())
        };
        self.roots.get(&author)?.iter().find(is_here).copied()
    }

    /// This node's report, unless it has reported, once it has all slices that it keeps of those
    /// who are not `gone`, or once it is `due`.
    pub fn report(&self, gone: &BTreeSet<Party>, due: bool) -> Option<KeeperReport> {
        // A second report would be an offence, and would have everybody flood what this node keeps.
        if self.reports.contains_key(&self.me) {
            return None;
        }
        let roots = self
            .members()
            .iter()
            .filter_map(|&party| Some((party, self.root_here(party)?)));
        let roots: BTreeMap<Party, ItemHash> = roots.collect();
        let holds = |party: Party, slice: u32| {
            let root = roots.get(&party);
            root.is_some_and(|root| self.slice(party, slice, root).is_some())
        };
        let mut all = self.members().iter().filter(|party| !gone.contains(party));
        if !due && !all.all(|&party| self.kept().iter().all(|&slice| holds(party, slice))) {
            return None;
        }
        let held: Vec<Vec<Party>> = self
            .kept()
            .iter()
            .map(|&slice| {
                roots
                    .keys()
                    .copied()
                    .filter(|&party| holds(party, slice))
                    .collect()
            })
            .collect();
        Some(KeeperReport::of(self.parties, &held, &roots))
    }

    /// The report of a keeper in bytes; `None` if they are none.
    pub fn read_report(&self, keeper: Party, bytes: &[u8]) -> Option<KeeperReport> {
        let kept = self.keepers.kept_by(keeper).len();
        KeeperReport::from_bytes(self.parties, kept, bytes)
    }

    /// A keeper's report is here, the first one or another. Returns whose finals are placed by it.
    pub fn take_report(&mut self, keeper: Party, report: KeeperReport) -> Vec<Party> {
        let reports = self.reports.entry(keeper).or_default();
        if reports.len() >= VERSIONS || reports.contains(&report) {
            return Vec::new();
        }
        // What it has reported twice counts once.
        let is_new = |(place, party, root): &(usize, Party, RootStart)| {
            !reports.iter().any(|earlier| earlier.has(*place, *party, root))
        };
        let entries: Vec<_> = report.entries().filter(is_new).collect();
        reports.push(report);
        self.changed = true;
        let kept = self.keepers.kept_by(keeper).to_vec();
        let counted = entries.into_iter().filter_map(|(place, party, root)| {
            let slice = *kept.get(place)?;
            self.count((party, root), slice, |(reported, _)| *reported += 1)
                .then_some(party)
        });
        counted.collect()
    }

    /// Slices that are here and that some keeper does not report: it has reported others, twice, or
    /// nothing although it is `gone` or reports are `due`. They have to go to everybody.
    pub fn unreported(&mut self, gone: &BTreeSet<Party>, due: bool) -> Vec<SliceVersion> {
        // Most inputs change nothing here, and every slice that is here is looked at otherwise.
        if !std::mem::take(&mut self.changed) && gone.is_empty() && !due {
            return Vec::new();
        }
        // What no log names counts nowhere: a liar's garbage is not flooded for it.
        let named = |author: Party, version: &PlacedSlice| {
            let roots = self.roots.get(&author);
            version.announced.is_some() && roots.is_some_and(|roots| roots.contains(&version.root))
        };
        let mut unreported = Vec::new();
        for (&(author, slice), versions) in &self.here {
            for version in versions.iter().filter(|version| named(author, version)) {
                let lacks = |keeper: Party| self.lacks((author, slice), &version.root, keeper, gone, due);
                if self.keepers.of(slice).any(lacks) {
                    unreported.push((author, slice, version.body.hash));
                }
            }
        }
        unreported
    }

    fn lacks(
        &self,
        (author, slice): (Party, u32),
        root: &ItemHash,
        keeper: Party,
        gone: &BTreeSet<Party>,
        due: bool,
    ) -> bool {
        match self.reports.get(&keeper).map(Vec::as_slice) {
            // Reports of keepers that can be reached are on their way.
            None | Some([]) => due || gone.contains(&keeper),
            Some([report]) => {
                let kept = self.keepers.kept_by(keeper);
                let place = kept.binary_search(&slice);
                !place.is_ok_and(|place| report.has(place, author, &start(root)))
            }
            // Two reports: others may have only one of them yet.
            Some(_) => true,
        }
    }

    /// The announcement and the body of a version that is here, to be flooded, once.
    pub fn flood(&mut self, (author, slice, hash): &SliceVersion) -> Option<(SignedNotice, Body)> {
        let versions = self.here.get_mut(&(*author, *slice))?;
        let version = versions.iter_mut().find(|version| version.body.hash == *hash)?;
        Some((version.announced.take()?, version.body.clone()))
    }

    /// The versions of a slice that are here for these roots and were not flooded.
    pub fn versions_for(&self, slice: u32, roots: &BTreeMap<Party, ItemHash>) -> Vec<SliceVersion> {
        let version = |(&author, root): (&Party, &ItemHash)| {
            let versions = self.here.get(&(author, slice))?;
            let of_root = versions.iter().find(|version| version.root == *root)?;
            of_root
                .announced
                .as_ref()
                .map(|_| (author, slice, of_root.body.hash))
        };
        roots.iter().filter_map(version).collect()
    }
}

impl SealedBodies for Placing {
    fn hold(&self, author: Party, root: &ItemHash) -> bool {
        let progress = self.progress.get(&(author, start(root)));
        progress.is_some_and(|progress| progress.safe == self.slices.count())
    }
}

#[cfg(test)]
mod tests;
