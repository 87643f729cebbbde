//! The held notices of averaging.

use crate::agreement::flood::Flood;
use crate::agreement::flood::slot::Slot;
use crate::topology::party::Party;

impl Flood {
    /// Whether a party said that it missed a message of averaging.
    pub fn missed(&self, party: Party) -> bool {
        self.held.contains_key(&Slot::Missed(party))
    }

    /// Whether a party said that it has done all rounds of averaging.
    pub fn averaged(&self, party: Party) -> bool {
        self.held.contains_key(&Slot::Averaged(party))
    }
}
