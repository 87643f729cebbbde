//! A summary of what this node holds, in a few bytes for each party, and what somebody else lacks
//! of it.

use std::collections::BTreeMap;

use crate::agreement::flood::Flood;
use crate::agreement::flood::held::Held;
use crate::agreement::flood::slot::Slot;
use crate::messages::held_kind::{HeldKind, Kind, Mark};
use crate::messages::row::Row;
use crate::messages::stage::Stage;
use crate::messages::wire;
use crate::topology::party::Party;

/// Returns the mark that distinguishes a notice from others of its author.
fn mark(held: &Held) -> Mark {
    // Two signatures agree in four bytes with a chance of 2^-32; a liar can match its own only.
    let [a, b, c, d, ..] = held.signature.0;
    [a, b, c, d]
}

impl Flood {
    /// Returns a summary of this node's holdings, as far as it fits a frame; of items, those whose
    /// body `has_body`.
    pub fn summary(&self, gathered: bool, has_body: impl Fn(Stage, Party) -> bool) -> Vec<HeldKind> {
        let mut authors: BTreeMap<Kind, Vec<(Party, Mark)>> = BTreeMap::new();
        for (slot, held) in self.held() {
            let (kind, author) = slot.kind();
            if matches!(kind, Kind::Item(stage) if !has_body(stage, author)) {
                continue;
            }
            let of_kind = authors.entry(kind).or_default();
            // Several may open the same thing, and are revealed alike.
            if of_kind.last().is_none_or(|(last, _)| *last != author) {
                of_kind.push((author, mark(held)));
            }
        }
        let parties = self.members.len();
        let mut room = wire::summary_room(parties);
        let holding = |(kind, of_kind): (Kind, Vec<(Party, Mark)>)| {
            let marks = of_kind.iter().filter(|_| kind.has_marks()).map(|(_, mark)| *mark);
            HeldKind {
                kind,
                held: Row::of(parties, of_kind.iter().map(|(author, _)| *author)),
                marks: marks.collect(),
            }
        };
        let needed = authors
            .into_iter()
            .filter(|(kind, _)| !(gathered && kind.is_of_gathering()));
        needed
            .map(holding)
            // A kind that does not fit is sent by the peer once more than needed, which does no
            // harm.
            .take_while(|holding| {
                let left = room.checked_sub(wire::held_kind_bytes(holding));
                room = left.unwrap_or(0);
                left.is_some()
            })
            .collect()
    }

    /// Returns the slots that this node holds and the summary's author lacks or holds differently,
    /// in the order in which they are to be sent.
    pub fn lacking(&self, gathered: bool, theirs: &[HeldKind]) -> Vec<Slot> {
        let theirs: BTreeMap<Kind, (&Row, BTreeMap<Party, Mark>)> = theirs
            .iter()
            .map(|holding| {
                let marks = holding.held.parties().zip(holding.marks.iter().copied());
                (holding.kind, (&holding.held, marks.collect()))
            })
            .collect();
        let lacks = |slot: Slot, held: &Held| {
            let (kind, author) = slot.kind();
            if gathered && kind.is_of_gathering() {
                return false;
            }
            theirs.get(&kind).is_none_or(|(row, marks)| {
                !row.has(author) || marks.get(&author).is_some_and(|theirs| *theirs != mark(held))
            })
        };
        let mut slots: Vec<Slot> = self
            .held()
            .filter(|(slot, held)| lacks(*slot, held))
            .map(|(slot, _)| slot)
            .collect();
        // A slot that discloses something may hold several notices.
        slots.dedup();
        slots
    }
}
