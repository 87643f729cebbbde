//! A row of bits, one for each party of a plan.

use serde::{Deserialize, Serialize};

use crate::topology::party::Party;

/// A subset of a plan's parties, as a row of bits: eight parties a byte, the lowest bit first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row(Vec<u8>);

impl Row {
    /// The row in which the bits of these parties are set, of a plan with so many.
    ///
    /// # Panics
    /// If one of them is not in the plan.
    pub fn of(parties: usize, set: impl IntoIterator<Item = Party>) -> Self {
        let mut bytes = vec![0; parties.div_ceil(8)];
        for party in set {
            bytes[party / 8] |= 1 << (party % 8);
        }
        Row(bytes)
    }

    /// Whether it is a row of a plan with so many parties.
    pub fn is_of(&self, parties: usize) -> bool {
        let beyond = |last: &u8| !parties.is_multiple_of(8) && last >> (parties % 8) != 0;
        self.0.len() == parties.div_ceil(8) && !self.0.last().is_some_and(beyond)
    }

    /// Reads the row of a plan with so many parties; `None` if the bytes are no such row.
    pub fn from_bytes(parties: usize, bytes: &[u8]) -> Option<Self> {
        Some(Row(bytes.to_vec())).filter(|row| row.is_of(parties))
    }

    /// The row's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a party's bit is set.
    pub fn has(&self, party: Party) -> bool {
        self.0
            .get(party / 8)
            .is_some_and(|byte| byte >> (party % 8) & 1 == 1)
    }

    /// The parties whose bits are set, ascending.
    pub fn parties(&self) -> impl Iterator<Item = Party> {
        (0..8 * self.0.len()).filter(|&party| self.has(party))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_what_was_set_and_is_of_one_number_of_parties() {
        for parties in 0..40 {
            let thirds = || (0..parties).step_by(3);
            let row = Row::of(parties, thirds());
            assert!(row.parties().eq(thirds()), "{parties}");
            assert!((0..100).all(|party| row.has(party) == (party < parties && party % 3 == 0)));
            let of = (0..60).filter(|&other| row.is_of(other));
            let longest = |other: &usize| other.div_ceil(8) == parties.div_ceil(8);
            assert!(of.clone().all(|other| longest(&other)) && of.clone().any(|other| other == parties));
            assert!((0..parties.saturating_sub(3)).all(|other| !row.is_of(other)));
        }
    }
}
