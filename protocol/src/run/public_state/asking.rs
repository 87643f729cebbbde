//! The requests of a node to its neighbours when it lacks something, and its answers to theirs.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agreement::agreeing;
use crate::agreement::flood::slot::Slot;
use crate::messages::held_kind::HeldKind;
use crate::messages::notice::{ItemSet, Notice, SetHash};
use crate::messages::stage::Stage;
use crate::messages::wire;
use crate::run::interface::Output;
use crate::run::public_state::PublicState;
use crate::time::Time;
use crate::topology::party::Party;

/// Maximum number of bytes sent to a neighbour that lacks notices, in multiples of all notices. Our
/// guess: who asks for more is after our time.
const ANSWERS: usize = 4;

/// The most sets that a neighbour is sent: each node asks for a set that it lacks, and as a rule
/// for none. Our guess.
const SETS_SERVED: u32 = 64;

impl PublicState {
    /// A neighbour is asked for what is missing, as soon as this node has done what it can.
    pub(in crate::run) fn hurry(&mut self, now: Time) {
        self.anti_entropy.hurry(now);
    }

    /// Whether several neighbours were asked lately, and none had any news.
    pub(in crate::run) fn has_asked_around(&self) -> bool {
        self.anti_entropy.has_asked_around()
    }

    /// Asks every neighbour for what is missing; see [`PublicState::is_informed`].
    pub(in crate::run) fn ask_everybody(&mut self) {
        self.anti_entropy.begin_round();
        let peers: Vec<Party> = self.connected.iter().copied().collect();
        peers.into_iter().for_each(|peer| self.ask(peer));
    }

    /// Sends a neighbour a summary before START.
    pub(super) fn ask(&mut self, peer: Party) {
        let holdings = self
            .flood
            .summary(false, |stage, author| self.has_first(stage, author));
        self.anti_entropy.asked(peer);
        let gathered = false;
        self.tell(peer, Notice::Summary { gathered, holdings });
    }

    /// Whether more neighbours than may lie, or all that are reached, have sent what was missing
    /// since they were all asked.
    pub(in crate::run) fn is_informed(&mut self) -> bool {
        self.anti_entropy
            .is_informed(&self.connected, self.flood.colluding())
    }

    /// Compares what is held with a neighbour, if it is one's turn; returns when the next one's is.
    pub(in crate::run) fn anti_entropy(&mut self, now: Time, gathered: bool) -> Time {
        // Who has ended has all that others of its set lack: one of more than may lie does, if they
        // all say so.
        let ended: BTreeSet<Party> = self.connected.intersection(&self.finished).copied().collect();
        let peers = match ended.len() > self.flood.colluding() {
            true => ended,
            false => self.connected.clone(),
        };
        while let Some(peer) = self.anti_entropy.turn(now, &peers) {
            let has_body = |stage, author| self.has_first(stage, author);
            let holdings = self.flood.summary(gathered, has_body);
            self.tell(peer, Notice::Summary { gathered, holdings });
        }
        self.anti_entropy.wake()
    }

    /// Sends a neighbour what its summary lacks.
    pub(super) fn answer(&mut self, peer: Party, gathered: bool, theirs: &[HeldKind]) {
        let parties = self.flood.members().len();
        if !theirs.iter().all(|holding| holding.is_of(parties)) {
            return self.offence(peer, "a summary of another plan");
        }
        // Answers are bounded in bytes: a peer that lies about what it lacks has no queue filled.
        let mut frames = Vec::new();
        for slot in self.flood.lacking(gathered, theirs) {
            frames.extend(self.frame_of(slot));
        }
        let held: usize = self.flood.held().map(|(_, held)| held.frame.len()).sum();
        let answered = self.answered.entry(peer).or_insert(0);
        for frame in frames {
            if *answered > ANSWERS * (held + frame.len()) {
                break;
            }
            *answered += frame.len();
            self.outbox.push_back(Output::Public { to: peer, frame });
        }
        // The asker waits for this even if it lacked nothing.
        self.tell(peer, Notice::Answered);
    }

    /// Returns the frame for a neighbour that gets the notice of a slot. `None` for an item whose
    /// body is not here, since a node that announces one must be able to serve it.
    pub(super) fn frame_of(&self, slot: Slot) -> Option<Arc<[u8]>> {
        let held = self.flood.get(slot)?;
        if let Slot::Item(stage, author) = slot {
            self.items.get(&stage)?.get(author)?;
        }
        Some(held.frame.clone())
    }

    /// Sends a neighbour a set that it asks for, if it is here and was not sent too often.
    pub(super) fn serve_set(&mut self, peer: Party, hash: &SetHash) {
        let Some(set) = self.flood.set_named(hash) else {
            return;
        };
        let served = self.sets_served.entry(peer).or_insert(0);
        *served += 1;
        if *served <= SETS_SERVED {
            let frame = wire::set_frame(set);
            self.send(peer, frame);
        }
    }

    /// Asks for sets that notices name and that are not here; returns when to look again.
    fn pull_sets(&mut self, now: Time) -> Time {
        if self.wanted_sets.is_empty() && !self.flood.lacks_sets() {
            return Time::FAR;
        }
        let unknown = self.flood.unknown_sets();
        let asks = self.wanted_sets.asks(now, &unknown, &self.connected);
        for (peer, set) in asks {
            self.tell(peer, Notice::WantSet { set });
        }
        self.wanted_sets.wake()
    }

    /// Returns the versions of an item that count: sealed finals that logs name, and of other items
    /// those of the set with most signatures.
    fn named_versions(&self, stage: Stage) -> Option<ItemSet> {
        if stage != Stage::Sealed {
            return agreeing::most_signed_set(&self.flood, stage).cloned();
        }
        let named = self.sealed.iter();
        Some(named.map(|((author, _), hash)| (*author, *hash)).collect())
    }

    /// Asks for what is lacking; returns when to look again.
    pub(in crate::run) fn pull(&mut self, now: Time) -> Time {
        let mut later = self.pull_sets(now);
        let lacking = self.items.iter().filter(|(_, items)| !items.lacks_nothing());
        let lacking: Vec<Stage> = lacking.map(|(stage, _)| *stage).collect();
        for stage in lacking {
            // Second versions are pulled only once a set names them: a liar may sign many.
            if self.flood.has_versions(stage)
                && let Some(set) = self.named_versions(stage)
            {
                self.items_mut(stage).name(&set);
            }
            loop {
                let connected = self.connected.clone();
                match self.items_mut(stage).pull(now, |peer| connected.contains(&peer)) {
                    Ok((peer, item)) => self.tell(peer, Notice::Want { stage, item }),
                    Err(at) => {
                        later = later.min(at);
                        break;
                    }
                }
            }
        }
        later
    }
}
