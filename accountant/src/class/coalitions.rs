//! Coalitions of parties: all of one size, with few parties.
//!
//! Only full-size coalitions are enumerated: what a smaller one sees and knows, a larger one that
//! contains it sees and knows too.

use undertone_protocol::topology::party::Party;

use crate::class::faults;
use crate::class::setting::Setting;

/// Parties up to which every coalition is computed. With more the theorems about all coalitions at
/// once stand in: they come close to the least error there is, and take no time.
pub const MOST_PARTIES: usize = 16;

/// Multiplications of a pass over a class above which computing it counts as impossible: each
/// member makes one to verify the plan, and whoever makes the plan some dozens. Our choice: half a
/// minute of one core. With 16 parties only coalitions of six and more over many rounds take
/// longer.
const MOST_PRODUCTS: f64 = 2e11;

/// Multiplications that the gate takes at most, while all wait for it: measured, two seconds of one
/// core.
pub(crate) const MOST_SETTLED: f64 = 1e10;

/// Rows of a run, parties times one more than rounds, of which products of all pairs are kept: our
/// choice. There are up to four such matrices at a time, of 200 MB each. 16 parties reach it in 311
/// rounds.
const MOST_ROWS: usize = 5_000;

/// Whether a class is computed: few parties, and a pass, like the gate, in reasonable time. A
/// function of the setting alone, so that all members decide alike.
pub fn feasible(setting: &Setting) -> bool {
    let (parties, size) = (setting.parties(), setting.coalition_size());
    let settled = |members: usize| settled_products(setting, members) <= MOST_SETTLED;
    let fits = parties * (setting.rounds() + 1) <= MOST_ROWS;
    parties <= MOST_PARTIES
        && size < parties
        && fits
        && products(setting) <= MOST_PRODUCTS
        && settled(parties)
        && settled(parties.saturating_sub(setting.dropouts))
}

/// Roughly how many multiplications it takes to account for one settled execution in which
/// `members` parties stay and all others are in each coalition.
pub(crate) fn settled_products(setting: &Setting, members: usize) -> f64 {
    let (parties, rounds) = (setting.parties() as f64, setting.rounds() as f64);
    let colluding = setting.colluding.min(members.saturating_sub(1));
    let coalitions = count(members, colluding).unwrap_or(usize::MAX) as f64;
    let size = (setting.parties() - members + colluding) as f64;
    let unknowns = parties * (rounds + 1.0);
    let seen = (parties + rounds * size * fanout(setting)).min(unknowns);
    let run = unknowns * unknowns * 8.0;
    let covariances = (unknowns.powi(3) + coalitions * seen * seen * size * (rounds + 1.0))
        .min(coalitions * seen * seen * unknowns);
    run + covariances + coalitions * seen * seen * (seen / 3.0 + parties)
}

/// How many values and noises all parties have.
fn unknowns(setting: &Setting) -> f64 {
    let noises: usize = (0..setting.parties())
        .map(|party| {
            let hand_outs = setting.hand_outs(party);
            setting.mechanism.rules().noises(setting.rounds(), hand_outs)
        })
        .sum();
    (setting.parties() + noises) as f64
}

/// To how many a party sends in the first round, at most.
fn fanout(setting: &Setting) -> f64 {
    setting
        .out
        .first()
        .map_or(1, |round| round.iter().map(Vec::len).max().unwrap_or(1)) as f64
}

/// Roughly how many multiplications a pass over the class takes.
pub(crate) fn products(setting: &Setting) -> f64 {
    let (parties, rounds, size) = (
        setting.parties() as f64,
        setting.rounds() as f64,
        setting.coalition_size() as f64,
    );
    let coalitions = count(setting.parties(), setting.coalition_size()).unwrap_or(usize::MAX) as f64;
    let states = parties * rounds;
    let seen = (parties + fanout(setting) * rounds * size).min(states + parties);
    let faults = faults::share_count(setting) as f64;
    // Two products with L⁻¹ and two with L⁻¹H (module `screen`), the coalition's columns, and a few
    // dot products a fault (not vectorised: counted thrice).
    let of_coalition = states * seen * (2.0 * seen + 2.0 * parties + size * (rounds + 1.0))
        + 3.0 * faults * (3.0 * seen + 4.0 * parties);
    let of_crash = states * (states + parties) + seen * seen * (states + parties);
    // Covariances of all pairs of rows, or of all rows with what each coalition sees.
    let rows = states + parties;
    let pairs = rows * unknowns(setting) * rows.min(coalitions * seen);
    pairs + coalitions * (of_coalition + faults::crash_count(setting) as f64 * of_crash)
}

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
    use crate::mechanism::chosen::Mechanism;

    /// Few coalitions do not make a run small: covariances of all its rows take memory and time,
    /// too.
    #[test]
    fn runs_that_are_too_large_are_not_exhausted() {
        let nobody_colludes = |parties: usize, rounds: usize| Setting {
            mechanism: Mechanism::Ppsc,
            out: vec![(0..parties).map(|party| vec![(party + 1) % parties]).collect(); rounds],
            sensitivity: vec![1.0; parties],
            weights: vec![1.0; parties],
            colluding: 0,
            dropouts: 0,
            rollback: true,
            uniform: false,
            drawn_share_faults: None,
        };
        assert!(feasible(&nobody_colludes(16, 300)));
        assert!(!feasible(&nobody_colludes(16, 400)));
        assert!(!feasible(&nobody_colludes(17, 3)));
    }

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
