//! What is held of averaging.

use crate::agreement::flood::Flood;
use crate::agreement::flood::slot::Slot;
use crate::messages::notice::{Notice, Sketch};
use crate::topology::party::Party;

impl Flood {
    /// Whether a party said that it missed a message of averaging.
    pub fn missed(&self, party: Party) -> bool {
        self.held.contains_key(&Slot::Missed(party))
    }

    /// Whether a party said that it has ended averaging; if so, whether with a result over all
    /// that entered.
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
}
