//! Averaging enters finals and nothing else: each party one opening, the one that its entry names,
//! bit for bit. (That the author passed its gate before is [`gated`](super::gated)'s to check.)

use std::collections::BTreeMap;

use crate::averaging::entry::{ENTRY_BYTES, FinalEntry};
use crate::averaging::integers;
use crate::messages::notice::Round;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, PublicFrame};
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// The commitments and openings so far.
#[derive(Default)]
pub struct Entered {
    /// Bytes a coordinate of an opening; 0 where nothing is averaged.
    width: usize,
    entries: BTreeMap<Party, FinalEntry>,
    openings: BTreeMap<Party, Vec<i64>>,
}

impl Entered {
    /// Nothing yet, in a plan whose openings have so many bytes a coordinate.
    pub fn with_width(width: usize) -> Self {
        Entered {
            width,
            ..Entered::default()
        }
    }

    /// A frame was given to the public graph.
    pub fn public(&mut self, frame: &[u8]) -> Result<(), Violation> {
        let read = wire::read_public(frame);
        if let Ok(Some((Stage::Publishing, author, bytes))) = read.as_ref().map(PublicFrame::item)
            && bytes.len() == ENTRY_BYTES
            && let Ok(entry) = FinalEntry::from_bytes(&frame[bytes], 1)
        {
            self.entries.insert(author, entry);
        }
        match read {
            Ok(PublicFrame::Round {
                round: Round { author, round: 0, .. },
                values,
            }) => self.opening(author, &frame[values]),
            _ => Ok(()),
        }
    }

    fn opening(&mut self, author: Party, bytes: &[u8]) -> Result<(), Violation> {
        let Some(entry) = self.entries.get(&author) else {
            return Err(Violation::new(
                "entered",
                format!("party {author} opened before it committed to anything"),
            ));
        };
        if !entry.is_of(bytes) {
            return Err(Violation::new(
                "entered",
                format!("party {author} opened another vector than it committed to"),
            ));
        }
        let values: Vec<i64> = integers::read_narrow(bytes, self.width.clamp(1, 8)).collect();
        if values.iter().map(|x| x.unsigned_abs()).max() != Some(entry.range) {
            return Err(Violation::new(
                "entered",
                format!("party {author}'s opening has not the range that it announced"),
            ));
        }
        self.openings.insert(author, values);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::grid::LatticeWeight;
    use crate::messages::signature::Signature;

    fn round(author: Party, bytes: &[u8]) -> Vec<u8> {
        let round = Round {
            author,
            digest: [0; 32],
            round: 0,
            signature: Signature([0; 64]),
        };
        wire::round_frame(&round, bytes).to_vec()
    }

    fn opening(values: [i64; 2]) -> Vec<u8> {
        let mut bytes = vec![0; 10];
        assert!(integers::write(values.into_iter().map(i128::from), 5, &mut bytes));
        bytes
    }

    fn committed(author: Party, values: [i64; 2], range: u64) -> Vec<u8> {
        let entry = FinalEntry::new(LatticeWeight(1), range, &opening(values));
        wire::body_frame(Stage::Publishing, author, &entry.to_bytes()).to_vec()
    }

    #[test]
    fn openings_that_are_not_the_committed_ones_are_seen() {
        let mut entered = Entered::with_width(5);
        assert!(
            entered.public(&round(1, &opening([7, -900]))).is_err(),
            "before its entry"
        );
        assert_eq!(entered.public(&committed(1, [7, -900], 900)), Ok(()));
        assert_eq!(entered.public(&round(1, &opening([7, -900]))), Ok(()));
        assert_eq!(
            entered.public(&round(1, &opening([7, -900]))),
            Ok(()),
            "sent again"
        );
        assert!(
            entered.public(&round(1, &opening([7, -901]))).is_err(),
            "another one"
        );
    }
}
