//! Slices of sealed finals: on their way to their keepers, kept, reported, and flooded where
//! somebody has not reported them; then their sums.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::agreement::agreeing::{Clock, HeldItems};
use crate::agreement::items::Body;
use crate::agreement::placing::{KeeperReport, Placing, SliceVersion};
use crate::messages::notice::{ItemHash, Notice, Recipient, SignedNotice, item_hash};
use crate::messages::stage::Stage;
use crate::messages::wire::{self, Bytes};
use crate::run::early_slices::EarlySlice;
use crate::run::outcome::{Event, SliceProgress};
use crate::run::public_state::PublicState;
use crate::time::Time;
use crate::topology::party::Party;

impl PublicState {
    /// START is known: slices are placed with these keepers.
    pub(super) fn begin_placing(&mut self, now: Time, placing: Placing) {
        self.placing = Some(Box::new(placing));
        for stage in self.rules.stages.all() {
            if !matches!(stage, Stage::Correction(_) | Stage::Opened) {
                self.items_mut(stage).open(std::iter::empty());
                self.take_announced(now, stage);
            }
        }
        for early in self.early_slices.take_all() {
            let EarlySlice {
                from,
                frame,
                signed,
                bytes,
            } = early;
            self.receive_slice(now, from, &frame, (signed, bytes));
        }
    }

    /// The items of a stage that count as held: a log does with what it says is sealed.
    pub(in crate::run) fn holding(&self, stage: Stage) -> HeldItems<'_> {
        let items = self.items(stage);
        if stage != Stage::Settling {
            return HeldItems::alone(items);
        }
        match (&self.placing, self.items.get(&Stage::Sealed)) {
            (Some(placing), _) => HeldItems::with(items, &**placing, &self.sealed),
            (None, Some(sealed)) => HeldItems::with(items, sealed, &self.sealed),
            (None, None) => HeldItems::alone(items),
        }
    }

    /// A log of a party that is here names what it has sealed.
    pub(super) fn name_sealed(&mut self, party: Party, log: ItemHash, sealed: ItemHash) {
        self.sealed.insert((party, log), sealed);
        if let Some(placing) = &mut self.placing {
            placing.name(party, sealed);
        }
    }

    /// Whether sealed finals travel in slices.
    pub(in crate::run) fn is_sliced(&self) -> bool {
        self.placing.is_some()
    }

    /// Sends this node's sealed slices on their ways.
    pub(in crate::run) fn place(&mut self, slices: Vec<Vec<u8>>) {
        let me = self.signer.me();
        for (slice, item) in (0..).zip(slices) {
            let (stage, hash) = (Stage::Slice(slice), item_hash(&item));
            let bytes = item.len() as u64;
            let signed = match self
                .signer
                .sign(Recipient::All, Notice::Item { stage, hash, bytes })
            {
                Ok(signed) => signed,
                Err(reason) => return self.event(Event::Fault(reason.to_string())),
            };
            let frame = wire::slice_frame(me, stage, signed.signature, &item);
            let body = Body::received(hash, item.len(), Bytes::from_owner(frame.clone()));
            // An author keeps all of its own until the end: it may be the last who has them.
            self.take_slice((me, slice), body, Some(signed));
            let placing = self.placing.as_ref();
            let next = placing
                .and_then(|placing| placing.next(me, slice, me))
                .unwrap_or_default();
            self.send_along(next, &frame);
        }
    }

    /// Sends a slice to the next on its way. An edge may come up after START, which others have
    /// passed on.
    fn send_along(&mut self, next: Vec<Party>, frame: &Arc<[u8]>) {
        for peer in next {
            match self.connected.contains(&peer) {
                true => self.send(peer, frame.clone()),
                false => self.early_slices.hold(peer, frame.clone()),
            }
        }
    }

    /// A slice on its way, from the party before this node.
    pub(super) fn receive_slice(
        &mut self,
        now: Time,
        from: Party,
        frame: &Bytes,
        (signed, bytes): (SignedNotice, Range<usize>),
    ) {
        let (author, Notice::Item { stage, hash, .. }) = (signed.author, &signed.notice) else {
            return;
        };
        let (stage, hash) = (*stage, *hash);
        let Stage::Slice(slice) = stage else {
            return self.offence(from, "a slice of another stage");
        };
        if !self.rules.stages.has(stage) || author >= self.flood.members().len() {
            return self.offence(from, "a slice that this plan does not have");
        }
        if bytes.len() != self.rules.largest_of(stage) {
            return self.offence(from, "a slice of another length than the plan's");
        }
        let version = (author, slice, hash);
        match &self.placing {
            // Whoever has begun earlier may seal before this node has heard every START.
            None => {}
            Some(placing) if placing.next(author, slice, from).is_none() || !placing.is_new(&version) => {
                return;
            }
            Some(_) => {}
        }
        // The announcement's hash is made of the bytes: the signature covers both.
        if let Err(reason) = self.flood.members().verify(&signed) {
            return self.offence(from, reason);
        }
        let content = frame.slice(bytes.clone());
        if let Err(reason) = self.rules.check_item(stage, author, &content) {
            return self.offence(author, reason);
        }
        let Some(placing) = &mut self.placing else {
            let frame = frame.clone();
            let early = EarlySlice {
                from,
                frame,
                signed,
                bytes,
            };
            self.early_slices.keep((author, slice), early);
            return;
        };
        // Noted before it is kept: a copy that comes back must not go round again.
        let next = placing.next(author, slice, from).unwrap_or_default();
        placing.pass(version);
        let keeps = placing.kept().binary_search(&slice).is_ok();
        // Copied once for all who get it, and by nobody who only keeps it.
        if !next.is_empty() {
            self.send_along(next, &Arc::from(&frame[..]));
        }
        if keeps {
            self.anti_entropy.news(now);
            let body = Body::received(hash, bytes.len(), frame.clone());
            self.take_slice((author, slice), body, Some(signed));
        }
    }

    /// A slice is here.
    fn take_slice(&mut self, (author, slice): (Party, u32), body: Body, announced: Option<SignedNotice>) {
        let placing = self.placing.as_mut();
        let placed = placing.is_some_and(|placing| placing.take((author, slice), body, announced));
        self.slice_news.insert(slice);
        // A log counts only with what it seals.
        if placed {
            self.note_calls(author);
        }
    }

    /// An item came that bears on what is placed, or a sum.
    pub(super) fn placed_by(
        &mut self,
        stage: Stage,
        author: Party,
        hash: &ItemHash,
        report: Option<KeeperReport>,
    ) {
        match stage {
            Stage::Slice(slice) => {
                if let Some(body) = self.items(stage).version(author, hash).cloned() {
                    self.take_slice((author, slice), body, None);
                }
            }
            Stage::Sum(slice) => {
                self.slice_news.insert(slice);
            }
            Stage::Keeping => {
                let placing = self.placing.as_mut();
                let report = report.zip(placing);
                let placed = report.map(|(report, placing)| placing.take_report(author, report));
                placed
                    .into_iter()
                    .flatten()
                    .for_each(|party| self.note_calls(party));
            }
            _ => {}
        }
    }

    /// Holds an announced item whose bytes are here already: a slice that was kept, or a sum that
    /// is that of others.
    pub(super) fn adopt(&mut self, now: Time, (stage, author): (Stage, Party), hash: ItemHash) {
        let body = match stage {
            Stage::Slice(slice) => {
                let placing = self.placing.as_ref();
                let here = placing.and_then(|placing| placing.version(&(author, slice, hash)));
                here.and_then(|body| self.framed(stage, author, body))
            }
            Stage::Sum(_) => self.items(stage).with_hash(&hash).cloned(),
            _ => None,
        };
        let Some(body) = body else { return };
        if self.items_mut(stage).put(author, body) {
            self.anti_entropy.news(now);
            self.placed_by(stage, author, &hash, None);
            self.pass_on_item(stage, author, hash);
        }
    }

    /// Holds the items of all who have announced what is here of somebody else.
    pub(super) fn adopt_alike(&mut self, now: Time, stage: Stage, hash: &ItemHash) {
        let wanting = self.items(stage).wanting(hash);
        wanting
            .into_iter()
            .for_each(|author| self.adopt(now, (stage, author), *hash));
    }

    /// Reports what this node keeps, once, and floods what is not reported: while settling.
    pub(in crate::run) fn keep_slices(&mut self, now: Time, clock: Clock, gone: &BTreeSet<Party>) {
        // Later nobody signs another set for it.
        let Some(placing) = self.placing.as_mut().filter(|_| now < clock.three_quarters) else {
            return;
        };
        let report = placing.report(gone, now >= clock.quarter);
        if let Some(report) = report {
            let me = self.signer.me();
            self.give_item(Stage::Keeping, &report.to_bytes());
            let placing = self.placing.as_mut();
            let placed = placing.map(|placing| placing.take_report(me, report));
            placed
                .into_iter()
                .flatten()
                .for_each(|party| self.note_calls(party));
        }
        let Some(placing) = &mut self.placing else { return };
        let unreported = placing.unreported(gone, now >= clock.three_eighths);
        unreported.iter().for_each(|version| self.flood_slice(version));
    }

    /// Announces a slice that is here to everybody, in its author's name.
    fn flood_slice(&mut self, version: &SliceVersion) {
        let &(author, slice, _) = version;
        let stage = Stage::Slice(slice);
        let placing = self.placing.as_mut();
        let Some((signed, body)) = placing.and_then(|placing| placing.flood(version)) else {
            return;
        };
        let frame = wire::notice_frame(&signed);
        // In its author's name: only its signature makes it an item.
        if author == self.signer.me() {
            self.flood.publish(signed);
        } else if self.flood.receive(&frame, signed, true).is_err() {
            // Its author has signed more versions than there is room for.
            return;
        }
        if let Some(body) = self.framed(stage, author, &body) {
            self.items_mut(stage).put(author, body);
        }
        // To all neighbours, not along its tree: somebody on that may be why it is lacking.
        self.flood_but(&frame, &[]);
    }

    /// A slice that came along its way, as whoever asks for it is served.
    fn framed(&self, stage: Stage, author: Party, body: &Body) -> Option<Body> {
        let bytes = body.bytes()?;
        let frame = wire::body_frame(stage, author, &bytes);
        Some(self.items(stage).framed(body.hash, frame, bytes.len()))
    }

    /// Floods the slices of this number that are here, for these roots: their sum is lacking.
    pub(in crate::run) fn flood_slices(&mut self, slice: u32, roots: &BTreeMap<Party, ItemHash>) {
        let placing = self.placing.as_ref();
        let versions = placing.map_or(Vec::new(), |placing| placing.versions_for(slice, roots));
        versions.iter().for_each(|version| self.flood_slice(version));
    }

    /// The slices of this number for these roots, if all are here.
    pub(in crate::run) fn slices_for(
        &self,
        slice: u32,
        roots: &BTreeMap<Party, ItemHash>,
    ) -> Option<Vec<Body>> {
        let placing = self.placing.as_ref()?;
        let body = |(&author, root): (&Party, &ItemHash)| placing.slice(author, slice, root).cloned();
        roots.iter().map(body).collect()
    }

    /// The numbers of slices of which something came since it was asked last.
    pub(in crate::run) fn take_slice_news(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.slice_news)
    }

    /// The hash of a slice's sum that so many of these have signed.
    pub(in crate::run) fn signed_sum(
        &self,
        slice: u32,
        by: &BTreeSet<Party>,
        needed: usize,
    ) -> Option<ItemHash> {
        let stage = Stage::Sum(slice);
        let mut signers: BTreeMap<ItemHash, usize> = BTreeMap::new();
        // Each version counts: a liar that signs two takes nothing from the right one.
        for &party in by {
            let hashes = self.flood.item_hashes(stage, party);
            hashes.for_each(|hash| *signers.entry(hash).or_insert(0) += 1);
        }
        // With as many as may lie and one more there is one such hash.
        signers
            .into_iter()
            .find(|(_, count)| *count >= needed)
            .map(|(hash, _)| hash)
    }

    /// The sum with this hash, if it is here.
    pub(in crate::run) fn sum_with(&self, slice: u32, hash: &ItemHash) -> Option<&Body> {
        self.items(Stage::Sum(slice)).with_hash(hash)
    }

    /// Gives this node's sum of a slice; returns its body.
    pub(in crate::run) fn give_sum(&mut self, now: Time, slice: u32, bytes: &[u8]) -> Option<Body> {
        let stage = Stage::Sum(slice);
        let hash = self.give_item(stage, bytes);
        self.adopt_alike(now, stage, &hash);
        self.sum_with(slice, &hash).cloned()
    }

    /// The members whose sealed finals are placed.
    pub(in crate::run) fn placed(&self) -> Option<SliceProgress> {
        let members = self.placing.as_ref()?.members();
        let holding = self.holding(Stage::Settling);
        let placed = members.iter().filter(|&&party| holding.get(party).is_some());
        Some(SliceProgress::Placing(placed.count(), members.len()))
    }

    /// The keepers that have announced no sum of a slice of which none is here.
    pub(in crate::run) fn awaited_keepers(&self, here: &BTreeMap<u32, Body>) -> Vec<Party> {
        let Some(placing) = &self.placing else {
            return Vec::new();
        };
        let silent = |&keeper: &Party| {
            let mut kept = placing.kept_by(keeper).iter();
            kept.any(|&slice| {
                !here.contains_key(&slice) && self.flood.item(Stage::Sum(slice), keeper).is_none()
            })
        };
        placing.members().iter().copied().filter(silent).collect()
    }
}
