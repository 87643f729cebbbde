//! A keeper's report of the slices that are here: an item of [`Stage::Keeping`].
//!
//! [`Stage::Keeping`]: crate::messages::stage::Stage::Keeping

use std::collections::BTreeMap;

use crate::messages::notice::ItemHash;
use crate::messages::row::Row;
use crate::plan::slices::ROOT_BYTES;
use crate::topology::party::Party;

/// The beginning of a root: as much of it as a report names.
pub(super) type RootStart = [u8; ROOT_BYTES];

/// The beginning of a root.
pub(super) fn start(root: &ItemHash) -> RootStart {
    *root.first_chunk().expect("a root is longer than its beginning")
}

/// A keeper's report: of each slice that it keeps whose are here, and for each of those parties the
/// beginning of the one root that they are meant for. A report without roots could be of slices of
/// one log where another is agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeeperReport {
    /// By the slices that the keeper keeps, ascending.
    held: Vec<Row>,
    roots: BTreeMap<Party, RootStart>,
}

impl KeeperReport {
    /// The report of a keeper: for each slice that it keeps the parties whose is here, of the roots
    /// that are given.
    pub fn of(parties: usize, held: &[Vec<Party>], roots: &BTreeMap<Party, ItemHash>) -> Self {
        let row = |of: &Vec<Party>| Row::of(parties, of.iter().copied());
        let named = |party: &Party| Some((*party, start(roots.get(party)?)));
        KeeperReport {
            held: held.iter().map(row).collect(),
            roots: held.iter().flatten().filter_map(named).collect(),
        }
    }

    /// The most bytes of a report, by a keeper of so many slices in a plan with so many parties.
    pub fn most_bytes(parties: usize, kept: usize) -> usize {
        kept * parties.div_ceil(8) + parties * ROOT_BYTES
    }

    /// The bytes: the rows, then the roots, ascending by party.
    pub fn to_bytes(&self) -> Vec<u8> {
        let rows = self.held.iter().flat_map(Row::bytes).copied();
        rows.chain(self.roots.values().flatten().copied()).collect()
    }

    /// The report in bytes, of a keeper of so many slices in a plan with so many parties. `None`:
    /// they are no such report.
    pub fn from_bytes(parties: usize, kept: usize, bytes: &[u8]) -> Option<Self> {
        let length = parties.div_ceil(8);
        let (rows, roots) = bytes.split_at_checked(kept * length)?;
        let rows = rows.chunks(length).map(|row| Row::from_bytes(parties, row));
        let held: Vec<Row> = rows.collect::<Option<_>>()?;
        let (roots, rest) = roots.as_chunks::<ROOT_BYTES>();
        let named: Vec<Party> = (0..parties)
            .filter(|&party| held.iter().any(|row| row.has(party)))
            .collect();
        let fits = rest.is_empty() && named.len() == roots.len();
        fits.then(|| KeeperReport {
            held,
            roots: named.into_iter().zip(roots.iter().copied()).collect(),
        })
    }

    /// Whether a party's slice, at this place among those that the keeper keeps, is reported for a
    /// root.
    pub(super) fn has(&self, place: usize, party: Party, root: &RootStart) -> bool {
        let held = self.held.get(place).is_some_and(|row| row.has(party));
        held && self.roots.get(&party) == Some(root)
    }

    /// All that is reported: the place of a slice among those that the keeper keeps, whose it is,
    /// and the root.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, Party, RootStart)> + '_ {
        let rows = self.held.iter().enumerate();
        let entries = rows.flat_map(|(place, row)| row.parties().map(move |party| (place, party)));
        entries.filter_map(|(place, party)| Some((place, party, *self.roots.get(&party)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written_and_nothing_else_is_one() {
        let roots: BTreeMap<Party, ItemHash> = (0..11).map(|party| (party, [party as u8; 32])).collect();
        let report = KeeperReport::of(11, &[vec![0, 3, 10], vec![], vec![3, 7]], &roots);
        let bytes = report.to_bytes();
        assert_eq!(bytes.len(), 3 * 2 + 4 * ROOT_BYTES);
        assert!(bytes.len() <= KeeperReport::most_bytes(11, 3));
        assert_eq!(KeeperReport::from_bytes(11, 3, &bytes), Some(report.clone()));
        for (parties, kept) in [(10, 3), (11, 2), (11, 4), (17, 3)] {
            assert_eq!(
                KeeperReport::from_bytes(parties, kept, &bytes),
                None,
                "{parties} {kept}"
            );
        }
        assert_eq!(KeeperReport::from_bytes(11, 3, &bytes[1..]), None);
        assert_eq!(
            KeeperReport::from_bytes(11, 3, &[&bytes[..], &[0]].concat()),
            None
        );
        assert_eq!(KeeperReport::from_bytes(11, 3, &[]), None);
        assert!(report.has(2, 7, &[7; ROOT_BYTES]) && !report.has(1, 7, &[7; ROOT_BYTES]));
        assert!(!report.has(2, 7, &[8; ROOT_BYTES]), "for another root");
        let entries: Vec<_> = report.entries().map(|(place, party, _)| (place, party)).collect();
        assert_eq!(entries, [(0, 0), (0, 3), (0, 10), (2, 3), (2, 7)]);
        let none = KeeperReport::of(11, &[vec![], vec![]], &roots);
        assert_eq!(KeeperReport::from_bytes(11, 2, &none.to_bytes()), Some(none));
    }
}
