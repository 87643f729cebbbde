//! Items as they come in: announcements, bodies, and both at once.

use std::ops::Range;
use std::sync::Arc;

use crate::agreement::flood::slot::Slot;
use crate::agreement::items::Taken;
use crate::messages::notice::{ItemHash, Notice, SignedNotice, item_hash};
use crate::messages::stage::Stage;
use crate::messages::wire::{self, Bytes, PublicFrame};
use crate::run::public_state::PublicState;
use crate::time::Time;
use crate::topology::party::Party;

impl PublicState {
    /// An announcement with its item: one after the other.
    pub(super) fn receive_item(
        &mut self,
        now: Time,
        from: Party,
        frame: &Bytes,
        (signed, bytes): (SignedNotice, Range<usize>),
        gathered: bool,
    ) -> bool {
        let author = signed.author;
        let Notice::Item { stage, hash, .. } = signed.notice else {
            return false;
        };
        let news = self.receive_flooded(now, from, frame, signed, gathered);
        // Nobody is blamed for the bytes of what was not taken.
        if self.flood.version(stage, author, &hash).is_some() {
            self.receive_body(now, from, frame, (stage, author, bytes));
        }
        news
    }

    /// Takes in the items that came with announcements before their stage, which this node has just
    /// entered.
    pub(super) fn take_announced(&mut self, now: Time, stage: Stage) {
        for author in 0..self.flood.members().len() {
            let Some(held) = self.flood.get(Slot::Item(stage, author)) else {
                continue;
            };
            let frame = Bytes::from_owner(held.frame.clone());
            if let Ok(PublicFrame::Item { bytes, .. }) = wire::read_public(&frame) {
                self.receive_body(now, author, &frame, (stage, author, bytes));
            }
        }
    }

    /// Shows all neighbours both notices that somebody signed for one purpose: which of them got
    /// the one, and which the other, nobody knows.
    pub(super) fn show_both(&mut self, slot: Slot, second: &Bytes) {
        let first = self.flood.get(slot).map(|held| held.frame.clone());
        let both = first.into_iter().chain([Arc::from(&second[..])]);
        both.for_each(|frame| self.flood_but(&frame, &[]));
    }

    /// Whether the body of a party's item that was announced first is here.
    pub(super) fn has_first(&self, stage: Stage, author: Party) -> bool {
        let first = self.flood.item(stage, author);
        first.is_some_and(|(hash, _)| self.items(stage).version(author, &hash).is_some())
    }

    /// Whether the body of the version that was announced first is not here: who announces it can
    /// serve it.
    pub(super) fn lacks_first(&self, stage: Stage, author: Party) -> bool {
        self.flood
            .item(stage, author)
            .is_some_and(|(hash, _)| self.items(stage).version(author, &hash).is_none())
    }

    /// An author's item is announced by a peer that can serve it.
    pub(super) fn announced(
        &mut self,
        now: Time,
        (stage, author): (Stage, Party),
        item: Option<(ItemHash, u64)>,
        from: Party,
    ) {
        let Some(item) = item else { return };
        // A body longer than any honest one is not asked for.
        if !self.items_mut(stage).announced(author, item, from) {
            self.offence(from, format!("an item of {} bytes", item.1));
        }
        self.adopt(now, (stage, author), item.0);
    }

    pub(super) fn receive_body(
        &mut self,
        now: Time,
        from: Party,
        frame: &Bytes,
        (stage, author, bytes): (Stage, Party, Range<usize>),
    ) {
        let members = self.flood.members();
        let (mut log, mut report) = (None, None);
        let Some(items) = self.items.get_mut(&stage) else {
            return self.offence(from, "an item of a stage that this plan does not have");
        };
        // Of a sum that several have announced it does not matter whose is served.
        let author = match stage {
            Stage::Sum(_) => {
                let wanting = items.wanting(&item_hash(&frame[bytes.clone()]));
                wanting.first().copied().unwrap_or(author)
            }
            _ => author,
        };
        let (rules, placing) = (&self.rules, &self.placing);
        let taken = items.body(author, from, frame, bytes, |bytes| match stage {
            Stage::Settling => rules.log(author, members, bytes).map(|read| log = Some(read)),
            Stage::Keeping => {
                let placing = placing.as_ref();
                report = placing.and_then(|placing| placing.read_report(author, bytes));
                report
                    .is_some()
                    .then_some(())
                    .ok_or_else(|| "no report".to_string())
            }
            _ => rules.check_item(stage, author, bytes),
        });
        match taken {
            Taken::Ignored => {}
            Taken::Wrong => self.offence(
                from,
                format!("the body of party {author}'s item is not what was announced"),
            ),
            Taken::Void(reason) if self.has_begun_with(author) => {
                self.offence(author, format!("its item is none: {reason}"));
            }
            // It may be a good one of the START that its author has begun with.
            Taken::Void(_) => {}
            Taken::New(hash) => {
                self.anti_entropy.news(now);
                // A later version calls nobody gone: what this node has said rests on the first.
                let first = self
                    .items(stage)
                    .get(author)
                    .is_some_and(|body| body.hash == hash);
                if let Some(sealed) = log.as_ref().and_then(|log| log.sealed.as_ref()) {
                    self.name_sealed(author, hash, sealed.hash);
                }
                if let Some(log) = log.filter(|_| first) {
                    self.keep_log(log);
                }
                // A log counts only with what it seals, which may come after it.
                if stage == Stage::Sealed {
                    self.note_calls(author);
                }
                self.placed_by(stage, author, &hash, report);
                self.pass_on_item(stage, author, hash);
                self.adopt_alike(now, stage, &hash);
            }
        }
    }

    /// Passes on the announcement of an item that is held now, but for those who have announced it.
    pub(super) fn pass_on_item(&mut self, stage: Stage, author: Party, hash: ItemHash) {
        let announcers = self.items(stage).announcers(author, hash).to_vec();
        let announcement = self.flood.version(stage, author, &hash);
        if let Some(frame) = announcement.map(|held| held.frame.clone()) {
            self.pass_on(author, &frame, &announcers);
        }
        self.items_mut(stage).passed_on(author, hash);
    }
}
