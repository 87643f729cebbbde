//! Averaging enters finals and nothing else: each party one opening, the one that its entry names,
//! bit for bit; and ratio consensus begins from the same openings. (DESIGN, section 4, Publishing.
//! That the author passed its gate before is [`gated`](super::gated)'s to check.)

use std::collections::BTreeMap;

use crate::averaging::entry::{ENTRY_BYTES, FinalEntry};
use crate::averaging::integers;
use crate::averaging::ratio::{FRACTION_BITS, ONE};
use crate::messages::notice::{Form, Round};
use crate::messages::stage::Stage;
use crate::messages::wire::{self, PublicFrame};
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// So many vanished parties' openings in one node's start are looked for. More would take a node
/// that hears of that many cuts before it has missed anything itself.
const MOST_ENTERED_FOR_OTHERS: usize = 3;

/// What was committed to and opened so far.
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
                round:
                    Round {
                        author,
                        form,
                        round: 0,
                        ..
                    },
                values,
            }) => match form {
                Form::Fast => self.opening(author, &frame[values]),
                Form::Ratio => self.start(author, &frame[values]),
            },
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

    /// The first running sums are a part of the author's opening, and of those of parties that it
    /// enters in their stead.
    fn start(&self, author: Party, bytes: &[u8]) -> Result<(), Violation> {
        let Some(own) = self.openings.get(&author) else {
            return Ok(());
        };
        let width = bytes.len() / (own.len() + 1);
        if width == 0 || width > 16 || bytes.len() != width * (own.len() + 1) {
            return Err(Violation::new(
                "entered",
                format!("party {author} began with a vector of another length"),
            ));
        }
        let found: Vec<i128> = integers::read(bytes, width).collect();
        let count = found[own.len()];
        let others: Vec<&Vec<i64>> = self
            .openings
            .iter()
            .filter(|(party, _)| **party != author)
            .map(|(_, v)| v)
            .collect();
        let fits = |entered: &[&Vec<i64>]| {
            let counted = entered.len() as i128 * ONE;
            let coordinate =
                |i: usize| entered.iter().map(|values| i128::from(values[i])).sum::<i128>() << FRACTION_BITS;
            let among = |ways: i128| {
                counted / ways == count && (0..own.len()).all(|i| found[i] == coordinate(i) / ways)
            };
            count > 0
                && (counted / count)
                    .checked_sub(1)
                    .is_some_and(|near| (near.max(1)..near + 3).any(among))
        };
        let sets = subsets(&others, MOST_ENTERED_FOR_OTHERS);
        if sets.iter().any(|others| fits(&[&[own], &others[..]].concat())) {
            return Ok(());
        }
        Err(Violation::new(
            "entered",
            format!("party {author} began ratio consensus from something else than openings"),
        ))
    }
}

/// All sets of up to `most` of these.
fn subsets<'a>(all: &[&'a Vec<i64>], most: usize) -> Vec<Vec<&'a Vec<i64>>> {
    let mut sets = vec![vec![]];
    for &one in all {
        let with = sets
            .iter()
            .filter(|set| set.len() < most)
            .map(|set| [&set[..], &[one]].concat());
        let with: Vec<Vec<&Vec<i64>>> = with.collect();
        sets.extend(with);
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::grid::LatticeWeight;
    use crate::messages::signature::Signature;

    fn round(author: Party, form: Form, bytes: &[u8]) -> Vec<u8> {
        let round = Round {
            author,
            digest: [0; 32],
            form,
            round: 0,
            view: 0,
            spread: 0.0,
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

    fn start(values: [i128; 3]) -> Vec<u8> {
        let mut bytes = vec![0; 36];
        assert!(integers::write(values.into_iter(), 12, &mut bytes));
        bytes
    }

    #[test]
    fn openings_and_starts_that_are_not_the_committed_ones_are_seen() {
        let mut entered = Entered::with_width(5);
        assert!(
            entered
                .public(&round(1, Form::Fast, &opening([7, -900])))
                .is_err(),
            "before its entry"
        );
        assert_eq!(entered.public(&committed(1, [7, -900], 900)), Ok(()));
        assert_eq!(entered.public(&round(1, Form::Fast, &opening([7, -900]))), Ok(()));
        assert_eq!(
            entered.public(&round(1, Form::Fast, &opening([7, -900]))),
            Ok(()),
            "sent again"
        );
        assert!(
            entered
                .public(&round(1, Form::Fast, &opening([7, -901])))
                .is_err(),
            "another one"
        );
        let part = |x: i128, ways: i128| (x << FRACTION_BITS) / ways;
        let good = start([part(7, 3), part(-900, 3), ONE / 3]);
        assert_eq!(entered.public(&round(1, Form::Ratio, &good)), Ok(()));
        let off = start([part(7, 3) + 1, part(-900, 3), ONE / 3]);
        assert!(
            entered.public(&round(1, Form::Ratio, &off)).is_err(),
            "one step more"
        );
        let twice = start([2 * part(7, 3), 2 * part(-900, 3), ONE / 3]);
        assert!(
            entered.public(&round(1, Form::Ratio, &twice)).is_err(),
            "entered twice, counted once"
        );
        assert_eq!(entered.public(&committed(0, [1000, 0], 1000)), Ok(()));
        assert_eq!(entered.public(&round(0, Form::Fast, &opening([1000, 0]))), Ok(()));
        let both = start([part(1007, 2), part(-900, 2), 2 * ONE / 2]);
        assert_eq!(
            entered.public(&round(1, Form::Ratio, &both)),
            Ok(()),
            "for a vanished party"
        );
        let neither = start([part(1008, 2), part(-900, 2), 2 * ONE / 2]);
        assert!(entered.public(&round(1, Form::Ratio, &neither)).is_err());
    }
}
