//! The public side of a node: what it heard, holds, passes on and asks for, the same in every
//! phase. Relaying goes on after a run's end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::agreement::agreeing::{self, NamedBodies};
use crate::agreement::anti_entropy::AntiEntropy;
use crate::agreement::flood::held::Held;
use crate::agreement::flood::slot::Slot;
use crate::agreement::flood::{Flood, FloodError, Receipt};
use crate::agreement::items::{Items, Pulled};
use crate::agreement::placing::Placing;
use crate::agreement::shelf::Shelf;
use crate::agreement::trees::Trees;
use crate::agreement::unreachable::Calls;
use crate::agreement::wanted_sets::WantedSets;
use crate::messages::log::{Log, SealTerms};
use crate::messages::notice::{ItemHash, ItemSet, Notice, Recipient, Round, SignedNotice, item_hash};
use crate::messages::set::Set;
use crate::messages::signing::Signer;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, Bytes, PublicFrame};
use crate::publishing::interface::{OwnItem, Surroundings};
use crate::run::early_slices::EarlySlices;
use crate::run::interface::Output;
use crate::run::item_rules::{ItemRules, Owing};
use crate::run::outcome::Event;
use crate::time::Time;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// Factor by which a node waits longer before START than after it until it asks for missing items.
/// Our guess.
const GATHERING_PATIENCE: u64 = 8;

pub(super) struct PublicState {
    signer: Signer,
    pub(super) flood: Flood,
    items: BTreeMap<Stage, Items>,
    /// The sealed finals that the logs held name, by hash or root.
    sealed: NamedBodies,
    /// Where sealed finals travel in slices: where these are, from START on.
    placing: Option<Box<Placing>>,
    /// Slices that came before START was here.
    early_slices: EarlySlices,
    /// The numbers of slices of which some was placed, or some sum came, since it was last asked.
    slice_news: BTreeSet<u32>,
    pub(super) logs: BTreeMap<Party, Log>,
    /// The parties that these logs call unreachable.
    pub(super) in_logs: Calls,
    pub(super) rules: ItemRules,
    neighbours: Vec<Party>,
    trees: Trees,
    anti_entropy: AntiEntropy,
    connected: BTreeSet<Party>,
    /// The newest notice that each neighbour addressed to this node alone: older ones are replays.
    direct: BTreeMap<Party, u64>,
    /// The bytes that each neighbour got in answer to summaries.
    answered: BTreeMap<Party, usize>,
    sets_served: BTreeMap<Party, u32>,
    /// Neighbours that have ended, and need nothing more.
    finished: BTreeSet<Party>,
    /// Whether this node has, and tells its neighbours.
    tells_finished: bool,
    wanted_sets: WantedSets,
    /// The moment when each neighbour last said something of averaging to this node.
    pub(super) heard: BTreeMap<Party, Time>,
    /// Rounds of averaging that just came in.
    pub(super) rounds: Vec<(Round, Bytes)>,
    /// The number of the START that this node has begun with, and its members.
    start: Option<(u8, BTreeSet<Party>)>,
    pub(super) outbox: VecDeque<Output>,
}

impl PublicState {
    pub(super) fn new(signer: Signer, flood: Flood, rules: ItemRules, public: Arc<Graph>, now: Time) -> Self {
        let (sealed, me) = (rules.stages.are_sealed(), signer.me());
        let neighbours = public.neighbours(me).to_vec();
        let items = |stage: Stage| {
            let largest = rules.largest_of(stage) as u64;
            let items = Items::new(me, largest, rules.settle_ms).pulling(match stage {
                Stage::Keeping | Stage::Slice(_) => Pulled::Both,
                Stage::Sum(_) => Pulled::OnceForAll,
                _ => Pulled::First,
            });
            (stage, if sealed { items.closed() } else { items })
        };
        PublicState {
            flood,
            items: rules.stages.all().into_iter().map(items).collect(),
            sealed: NamedBodies::new(),
            placing: None,
            early_slices: EarlySlices::default(),
            slice_news: BTreeSet::new(),
            wanted_sets: WantedSets::new(rules.settle_ms),
            // Before START there is no hurry: most of what is lacking is not said yet.
            anti_entropy: AntiEntropy::new(me, GATHERING_PATIENCE.saturating_mul(rules.settle_ms), now),
            trees: Trees::new(me, public),
            signer,
            logs: BTreeMap::new(),
            in_logs: Calls::new(),
            rules,
            neighbours,
            connected: BTreeSet::new(),
            direct: BTreeMap::new(),
            answered: BTreeMap::new(),
            sets_served: BTreeMap::new(),
            finished: BTreeSet::new(),
            tells_finished: false,
            heard: BTreeMap::new(),
            rounds: Vec::new(),
            start: None,
            outbox: VecDeque::new(),
        }
    }

    /// Long bodies are kept on this shelf.
    pub(super) fn shelve(&mut self, shelf: &Shelf) {
        let items = std::mem::take(&mut self.items).into_iter();
        self.items = items
            .map(|(stage, items)| (stage, items.on_shelf(shelf.clone())))
            .collect();
    }

    /// The items of a stage of the run. What peers say of other stages is refused as it comes.
    pub(super) fn items(&self, stage: Stage) -> &Items {
        &self.items[&stage]
    }

    fn items_mut(&mut self, stage: Stage) -> &mut Items {
        self.items.get_mut(&stage).expect("a stage of the run")
    }

    /// This node is gathered: what it waits for from now on should come soon.
    pub(super) fn gathered(&mut self, now: Time) {
        self.anti_entropy.restart(now, self.rules.settle_ms);
    }

    /// START is known: from now on logs, and what they say is sealed, are taken.
    pub(super) fn begin(&mut self, now: Time, terms: SealTerms, placing: Option<Placing>) {
        self.rules.terms = Some(terms);
        if let Some(placing) = placing {
            return self.begin_placing(now, placing);
        }
        // Where what is sealed goes to its readers alone, nothing of it is waited for here.
        let parties = self.flood.members().len();
        let empty = if terms.bytes == 0 { parties } else { 0 };
        for (stage, empty) in [(Stage::Settling, 0), (Stage::Sealed, empty)] {
            self.items_mut(stage).open(0..empty);
            self.take_announced(now, stage);
        }
    }

    /// This node has come to a stage of corrections, in which these owe one and the others' items
    /// are empty.
    pub(super) fn begin_corrections(&mut self, now: Time, number: u32, owing: Owing) {
        let parties = 0..self.flood.members().len();
        let others: Vec<Party> = parties.filter(|&party| owing.of(party).is_none()).collect();
        self.rules.owing.insert(number, owing);
        let stage = Stage::Correction(number);
        self.items_mut(stage).open(others.into_iter());
        self.take_announced(now, stage);
    }

    /// The secrets of these parties are known here.
    pub(super) fn hold_opened(&mut self, known: impl Iterator<Item = Party>) {
        let items = self.items_mut(Stage::Opened);
        let new: Vec<Party> = known.filter(|party| items.get(*party).is_none()).collect();
        items.open(new.into_iter());
    }

    /// Lets an agreement do one step with what is held.
    pub(super) fn step(
        &self,
        agreement: &mut agreeing::Agreement,
        stage: Stage,
        now: Time,
        unreachable: &BTreeMap<Party, Time>,
    ) -> Option<agreeing::Step> {
        let none = BTreeMap::new();
        let in_logs = if stage == Stage::Settling {
            &self.in_logs
        } else {
            &none
        };
        agreement.step(
            now,
            &agreeing::StageSights {
                flood: &self.flood,
                items: self.holding(stage),
                unreachable,
                in_logs,
            },
        )
    }

    pub(super) fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Returns the surroundings that publishing sees.
    pub(super) fn around<'a>(&'a self, unreachable: &'a BTreeMap<Party, Time>) -> Surroundings<'a> {
        Surroundings {
            flood: &self.flood,
            unreachable,
            connected: self.reached(),
            heard: &self.heard,
        }
    }

    /// Public neighbours that can be reached.
    pub(super) fn reached(&self) -> &BTreeSet<Party> {
        &self.connected
    }

    pub(super) fn event(&mut self, event: Event) {
        self.outbox.push_back(Output::Event(event));
    }

    /// Everybody of this set begins with the START of this number.
    pub(super) fn begun(&mut self, number: u8, members: &BTreeSet<Party>) {
        self.start = Some((number, members.clone()));
    }

    /// Whether a party has begun with the same START as this node, as far as this node knows.
    pub(super) fn has_begun_with(&self, party: Party) -> bool {
        self.start.as_ref().is_none_or(|(number, members)| {
            members.contains(&party) && !self.flood.starters_after(*number).contains(&party)
        })
    }

    pub(super) fn offence(&mut self, peer: Party, text: impl ToString) {
        self.event(Event::Offence {
            peer,
            text: text.to_string(),
        });
    }

    pub(super) fn send(&mut self, to: Party, frame: Arc<[u8]>) {
        self.outbox.push_back(Output::Public { to, frame });
    }

    fn flood_but(&mut self, frame: &Arc<[u8]>, but: &[Party]) {
        let to: Vec<Party> = self
            .neighbours
            .iter()
            .copied()
            .filter(|peer| self.connected.contains(peer) && !but.contains(peer))
            .collect();
        to.into_iter().for_each(|peer| self.send(peer, frame.clone()));
    }

    /// Sends a frame of this author's to those who get it from this node, but not to these.
    fn pass_on(&mut self, author: Party, frame: &Arc<[u8]>, but: &[Party]) {
        let children = self.trees.children(author).iter().copied();
        let to: Vec<Party> = children
            .filter(|peer| self.connected.contains(peer) && !but.contains(peer))
            .collect();
        to.into_iter().for_each(|peer| self.send(peer, frame.clone()));
    }

    /// Sends a neighbour all commitments that are here if its START of this number is over others
    /// than this node's. Somebody has said two, each to others: one of them gets both so, and shows
    /// them to all.
    pub(super) fn show_commitments(&mut self, number: u8) {
        let over = |party: Party| self.flood.reveal(number, party).map(|(all, _)| all);
        let Some(own) = over(self.signer.me()) else {
            return;
        };
        let is_other =
            |peer: &&Party| self.connected.contains(peer) && over(**peer).is_some_and(|all| all != own);
        let Some(&peer) = self.neighbours.iter().find(is_other) else {
            return;
        };
        let parties = 0..self.flood.members().len();
        let held = parties.filter_map(|party| self.flood.committing_notice(number, party));
        let frames: Vec<_> = held.map(|held| held.frame.clone()).collect();
        frames.into_iter().for_each(|frame| self.send(peer, frame));
    }

    /// Signs a notice, keeps it and floods it.
    pub(super) fn say(&mut self, notice: Notice) {
        self.say_with(notice, &[]);
    }

    /// Says a notice in one frame with the item that it announces, if that is short.
    fn say_with(&mut self, notice: Notice, item: &[u8]) {
        match self.signer.sign(Recipient::All, notice) {
            Ok(signed) => {
                let frame = self.flood.publish_with(signed, item);
                self.pass_on(self.signer.me(), &frame, &[]);
            }
            Err(reason) => self.event(Event::Fault(reason.to_string())),
        }
    }

    /// Signs a vote for a set and floods it.
    pub(super) fn vote(&mut self, stage: Stage, early: bool, set: ItemSet) {
        let set = self.flood.keep_set(Set::Items(set));
        self.say(Notice::Vote { stage, early, set });
    }

    pub(super) fn tell(&mut self, peer: Party, notice: Notice) {
        match self.signer.sign(Recipient::Party(peer), notice) {
            Ok(signed) => self.send(peer, wire::notice_frame(&signed)),
            Err(reason) => self.event(Event::Fault(reason.to_string())),
        }
    }

    /// The log of a member of an agreed set, in the version that the set names.
    pub(super) fn log_named(&self, author: Party, hash: &ItemHash) -> Option<Log> {
        let logs = self.items(Stage::Settling);
        // A liar may have signed several logs, and the set names one of them.
        let first = logs.get(author).is_some_and(|body| body.hash == *hash);
        if first {
            return self.logs.get(&author).cloned();
        }
        let body = logs.version(author, hash)?;
        self.rules.log(author, self.flood.members(), &body.bytes()?).ok()
    }

    /// Tells every neighbour that this node is here.
    pub(super) fn pulse(&mut self) {
        let peers: Vec<Party> = self.connected.iter().copied().collect();
        peers.into_iter().for_each(|peer| self.tell(peer, Notice::Here));
    }

    /// Tells every neighbour that this node needs nothing more of them, also on new connections.
    pub(super) fn tell_finished(&mut self) {
        self.tells_finished = true;
        let peers: Vec<Party> = self.connected.iter().copied().collect();
        peers
            .into_iter()
            .for_each(|peer| self.tell(peer, Notice::Finished));
    }

    /// A neighbour has said that it has ended, or that it has gone on.
    pub(super) fn has_finished(&mut self, peer: Party) {
        self.finished.insert(peer);
    }

    /// Neighbours that need nothing more of this node.
    pub(super) fn finished(&self) -> &BTreeSet<Party> {
        &self.finished
    }

    /// Keeps this node's own log and announces it.
    pub(super) fn give_log(&mut self, log: Log) -> ItemHash {
        let bytes = wire::log_to_bytes(&log, &self.rules.schedule);
        if let Some(sealed) = &log.sealed {
            self.name_sealed(log.party, item_hash(&bytes), sealed.hash);
        }
        let hash = self.give_item(Stage::Settling, &bytes);
        self.keep_log(log);
        hash
    }

    pub(super) fn give_item(&mut self, stage: Stage, bytes: &[u8]) -> ItemHash {
        let frame = wire::body_frame(stage, self.signer.me(), bytes);
        let length = bytes.len();
        self.give_body(stage, OwnItem { frame, length })
    }

    /// Keeps this node's own item, which is in its frame already, and announces it.
    pub(super) fn give_body(&mut self, stage: Stage, OwnItem { frame, length }: OwnItem) -> ItemHash {
        let me = self.signer.me();
        let hash = self.items_mut(stage).keep_own(me, frame.clone(), length);
        let bytes = length as u64;
        let notice = Notice::Item { stage, hash, bytes };
        // Several have the same sum, which is pulled from one of them.
        let item = match stage {
            Stage::Sum(_) => &[],
            _ => &frame[frame.len() - length..],
        };
        self.say_with(notice, item);
        hash
    }

    fn keep_log(&mut self, log: Log) {
        let party = log.party;
        self.logs.insert(party, log);
        self.note_calls(party);
    }

    /// Counts the parties that a log calls unreachable once the log itself counts.
    fn note_calls(&mut self, party: Party) {
        let counts = self.holding(Stage::Settling).get(party).is_some();
        if let Some(log) = self.logs.get(&party).filter(|_| counts) {
            self.in_logs
                .insert(party, log.unreachable.iter().copied().collect());
        }
    }

    /// Sends on a new connection all that the peer gets from this node: whatever was on the way on
    /// an old one may be lost.
    pub(super) fn connected(&mut self, peer: Party) {
        if !self.neighbours.contains(&peer) {
            return;
        }
        self.connected.insert(peer);
        let slots: Vec<Slot> = self.flood.held().map(|(slot, _)| slot).collect();
        let mut frames = Vec::new();
        for slot in slots {
            let (_, author) = slot.kind();
            if self.trees.children(author).contains(&peer) {
                frames.extend(self.frame_of(slot));
            }
        }
        frames.extend(self.early_slices.take_unsent(peer));
        frames.into_iter().for_each(|frame| self.send(peer, frame));
        if self.tells_finished {
            self.tell(peer, Notice::Finished);
        }
        self.anti_entropy.reconnected(peer);
        // Unless more than may lie have answered, all that are reached have to: this one is among
        // them now.
        if self.anti_entropy.asks_everybody() {
            self.ask(peer);
        }
    }

    pub(super) fn disconnected(&mut self, peer: Party) {
        self.connected.remove(&peer);
        self.anti_entropy.reconnected(peer);
        self.items.values_mut().for_each(|items| items.lost(peer));
    }

    /// A frame from a public neighbour. False: it was held already, as most are in a flood, and
    /// nobody needs to look.
    pub(super) fn receive(&mut self, now: Time, from: Party, frame: &Bytes, gathered: bool) -> bool {
        match wire::read_public(frame) {
            Err(reason) => self.offence(from, reason),
            Ok(PublicFrame::Notice(signed)) if signed.recipient == Recipient::All => {
                return self.receive_flooded(now, from, frame, signed, gathered);
            }
            Ok(PublicFrame::Notice(signed)) => self.receive_direct(now, from, signed),
            Ok(PublicFrame::Item { signed, bytes }) => {
                return self.receive_item(now, from, frame, (signed, bytes), gathered);
            }
            Ok(PublicFrame::Slice { signed, bytes }) => self.receive_slice(now, from, frame, (signed, bytes)),
            Ok(PublicFrame::Set(set)) => self.receive_set(from, set),
            Ok(PublicFrame::Round { round, values }) => {
                self.receive_round(now, from, round, frame.slice(values))
            }
            Ok(PublicFrame::Body { stage, author, bytes }) => {
                self.receive_body(now, from, frame, (stage, author, bytes));
            }
        }
        true
    }

    fn receive_flooded(
        &mut self,
        now: Time,
        from: Party,
        frame: &Bytes,
        signed: SignedNotice,
        gathered: bool,
    ) -> bool {
        let ready = matches!(
            signed.notice,
            Notice::Ready { .. } | Notice::Commit { .. } | Notice::Withdraw { .. }
        );
        let lied = self.flood.lies(signed.author);
        match self.flood.receive(frame, signed, gathered) {
            // Both have its signature; whoever passed on the second has done nothing wrong.
            Err(reason @ FloodError::Two { author, slot }) => {
                // The others leave it out of the next START, too.
                if !lied && self.flood.lies(author) {
                    self.show_both(slot, frame);
                }
                self.offence(author, reason);
            }
            Err(reason @ FloodError::SmallKey(author)) => self.offence(author, reason),
            Err(reason) => self.offence(from, reason),
            Ok(Receipt::Stale) => return false,
            Ok(Receipt::Known(Slot::Item(stage, author))) if self.lacks_first(stage, author) => {
                self.announced(now, (stage, author), self.flood.item(stage, author), from);
            }
            Ok(Receipt::Known(_)) => return false,
            // It is passed on once the body is here: who announces an item can serve it.
            Ok(Receipt::New(Slot::Item(stage, author))) => {
                self.announced(now, (stage, author), self.flood.item(stage, author), from);
            }
            Ok(Receipt::Version {
                stage,
                author,
                hash,
                new,
            }) => {
                if new {
                    self.offence(
                        author,
                        format!("it signed more than one item of {}", stage.phase().name()),
                    );
                    self.show_both(Slot::Item(stage, author), frame);
                }
                let item = self.flood.version(stage, author, &hash).and_then(Held::item);
                self.announced(now, (stage, author), item, from);
            }
            Ok(Receipt::New(slot)) => {
                self.anti_entropy.news(now);
                if let Some(frame) = self.flood.get(slot).map(|held| held.frame.clone()) {
                    self.pass_on(slot.kind().1, &frame, &[from]);
                }
                if matches!(slot, Slot::Ready(_) | Slot::Start(..)) && self.flood.lacks_sets() {
                    // As a rule a START is over all who are ready.
                    let all = Set::Seats(self.flood.readies());
                    let _ = self.flood.take_set(all);
                }
                if ready {
                    let ready = self.flood.ready_parties();
                    self.event(Event::Ready(ready));
                }
            }
        }
        true
    }

    fn receive_set(&mut self, from: Party, set: Set) {
        if let Err(reason) = self.flood.take_set(set) {
            self.offence(from, reason);
        }
    }

    fn receive_round(&mut self, now: Time, from: Party, round: Round, values: Bytes) {
        if !self.rules.way.has_rounds() || round.author != from {
            return self.offence(
                from,
                "a round of averaging that is not its own, or that this plan does not have",
            );
        }
        if !self.neighbours.contains(&from) {
            return self.offence(from, "a round of averaging from somebody who is no neighbour");
        }
        if let Err(reason) = self.flood.members().verify_round(&round, &values) {
            return self.offence(from, reason);
        }
        self.heard.insert(from, now);
        self.rounds.push((round, values));
    }

    fn receive_direct(&mut self, now: Time, from: Party, signed: SignedNotice) {
        if signed.author != from || signed.recipient != Recipient::Party(self.signer.me()) {
            return self.offence(from, "a notice for somebody else");
        }
        let newest = self.direct.get(&from).copied().unwrap_or(0);
        // A copy of an older notice must not undo a newer one.
        if signed.sequence <= newest {
            return;
        }
        if let Err(reason) = self.flood.members().verify(&signed) {
            return self.offence(from, reason);
        }
        self.direct.insert(from, signed.sequence);
        if let Notice::Want { item, .. } | Notice::Lack { item, .. } = signed.notice
            && item >= self.flood.members().len()
        {
            return self.offence(
                from,
                "a notice about the item of a party that the plan does not have",
            );
        }
        if let Notice::Want { stage, .. } | Notice::Lack { stage, .. } = signed.notice
            && !self.rules.stages.has(stage)
        {
            return self.offence(from, "a notice about a stage that this plan does not have");
        }
        match signed.notice {
            Notice::Want { stage, item } => {
                let frames = self.items_mut(stage).serve(item, from);
                if frames.is_empty() {
                    self.tell(from, Notice::Lack { stage, item });
                }
                frames.into_iter().for_each(|frame| self.send(from, frame));
            }
            Notice::Lack { stage, item } => self.items_mut(stage).lacks(item, from),
            Notice::WantSet { set } => self.serve_set(from, &set),
            Notice::Waiting => {
                self.heard.insert(from, now);
            }
            Notice::Summary { gathered, holdings } => self.answer(from, gathered, &holdings),
            Notice::Answered => self.anti_entropy.answered(now, from),
            Notice::Finished => self.has_finished(from),
            _ => {}
        }
    }
}

mod asking;
mod placing_slices;
mod taking_items;
#[cfg(test)]
mod tests;
