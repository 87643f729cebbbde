//! Coalitions of parties: all of one size while that is feasible.
//!
//! Only full-size coalitions are enumerated: what a smaller one sees and knows, a larger one that contains it sees and knows too.

use undertone_protocol::mixing::Party;

use crate::faults;
use crate::setting::Setting;

/// Coalitions that each execution is computed against at most (the bound); above, the theorem μ ≤ Δ/σ* is the headline.
pub const MOST_COALITIONS: usize = 100_000;

/// Multiplications that one pass over a class takes at most, times the members: each of them verifies the plan, in `local` all on one
/// machine. Our choice: measured, about half a minute of one core in all; 32 parties with one colluder and one departure take a third of it.
const MOST_PRODUCTS: f64 = 1.2e11;

/// Whether a class is exhausted: few enough coalitions, each pass in reasonable time. A function of the setting alone, so that all members
/// decide alike.
pub fn feasible(setting: &Setting) -> bool {
    let (parties, size) = (setting.parties(), setting.coalition_size());
    let few = size < parties && count(parties, size).is_some_and(|count| count <= MOST_COALITIONS);
    few && products(setting) * parties as f64 <= MOST_PRODUCTS
}

/// Roughly how many multiplications a pass takes.
pub(crate) fn products(setting: &Setting) -> f64 {
    let (parties, rounds, size) = (setting.parties() as f64, setting.rounds() as f64, setting.coalition_size() as f64);
    let coalitions = count(setting.parties(), setting.coalition_size()).unwrap_or(usize::MAX) as f64;
    let fanout = setting.out.first().map_or(1, |round| round.iter().map(Vec::len).max().unwrap_or(1)) as f64;
    let states = parties * rounds;
    let seen = (parties + fanout * rounds * size).min(states + parties);
    let faults = faults::share_count(setting) as f64;
    // Two products with L⁻¹ and two with L⁻¹H, the coalition's columns, and a few dot products a fault (not vectorised: counted thrice).
    let of_coalition =
        states * seen * (2.0 * seen + 2.0 * parties + size * (rounds + 1.0)) + 3.0 * faults * (3.0 * seen + 4.0 * parties);
    let of_crash = states * (states + parties) + seen * seen * (states + parties);
    coalitions * (of_coalition + faults::crash_count(setting) as f64 * of_crash)
}

/// The number of coalitions of `size` out of `parties`; none if it does not fit.
pub fn count(parties: usize, size: usize) -> Option<usize> {
    if size > parties {
        return Some(0);
    }
    (0..size).try_fold(1usize, |product, chosen| Some(product.checked_mul(parties - chosen)? / (chosen + 1)))
}

/// All coalitions of `size` out of `parties`, each ascending, in lexicographic order.
pub fn all(parties: usize, size: usize) -> Vec<Vec<Party>> {
    let mut list = Vec::new();
    extend(&mut Vec::with_capacity(size), 0, parties, size, &mut list);
    list
}

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
