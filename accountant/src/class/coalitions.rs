//! Coalitions of parties: all of one size.
//!
//! Only full-size coalitions are enumerated: what a smaller one sees and knows, a larger one that
//! contains it sees and knows too.

use undertone_protocol::topology::party::Party;

/// The number of coalitions of `size` out of `parties`; none if it does not fit.
pub fn count(parties: usize, size: usize) -> Option<usize> {
    if size > parties {
        return Some(0);
    }
    (0..size).try_fold(1usize, |product, chosen| {
        Some(product.checked_mul(parties - chosen)? / (chosen + 1))
    })
}

/// All coalitions of `size` out of `parties`, each ascending, in lexicographic order.
pub fn all(parties: usize, size: usize) -> Vec<Vec<Party>> {
    let mut list = Vec::new();
    extend(&mut Vec::with_capacity(size), 0, parties, size, &mut list);
    list
}

/// Lists every way to fill up `chosen` with parties from `from` on.
fn extend(chosen: &mut Vec<Party>, from: Party, parties: usize, size: usize, list: &mut Vec<Vec<Party>>) {
    if chosen.len() == size {
        list.push(chosen.clone());
        return;
    }
    let missing = size - chosen.len();
    for party in from..(parties + 1).saturating_sub(missing) {
        chosen.push(party);
        extend(chosen, party + 1, parties, size, list);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coalition_once() {
        assert_eq!(all(4, 2), [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert_eq!(all(3, 0), [Vec::<Party>::new()]);
        assert!(all(2, 3).is_empty());
        for (parties, size) in [(8, 2), (16, 3), (5, 5), (7, 0), (2, 4)] {
            assert_eq!(Some(all(parties, size).len()), count(parties, size));
        }
        assert_eq!(count(200, 100), None);
    }
}
