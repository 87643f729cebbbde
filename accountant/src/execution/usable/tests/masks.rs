//! The secure sum of everybody by masks of pairs, opened for one set: what a coalition and the
//! departed are revealed, by ranks modulo a prime. A correction is the masks that its giver has
//! with the departed, each known by itself; who owes which the protocol says. These are the
//! equations alone, without keys; before opening nothing but masks is known, and there is nothing
//! to ask.

use std::ops::Range;

use undertone_protocol::publishing::corrections::masks_owed;
use undertone_protocol::topology::graph::Graph;

use super::*;

/// Random executions.
const RUNS: u64 = 600;

/// A random run up to its opening.
struct MaskedRun {
    parties: usize,
    /// Pairs of those who started, the lower party first, in ascending order. The lower one adds
    /// their mask, the higher one subtracts it.
    pairs: Vec<(Party, Party)>,
    /// The parties that may publish, and those left of them after each stage of corrections.
    sets: Vec<BTreeSet<Party>>,
    /// The pairs whose masks were given, by those among others that departed meanwhile.
    given: BTreeSet<(Party, Party)>,
    /// The coalition, and most of those who left.
    adversary: BTreeSet<Party>,
}

impl MaskedRun {
    fn random(case: u64) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(case);
        let parties = random.random_range(4..=9);
        let chance = [0.25, 0.6, 1.0][case as usize % 3];
        let pairs = (0..parties).flat_map(|lower| (lower + 1..parties).map(move |higher| (lower, higher)));
        let pairs = pairs.filter(|_| random.random_bool(chance)).collect();
        let mut others: Vec<Party> = (0..parties).collect();
        testing::shuffle(&mut others, random);
        let departing = others.split_off(parties - random.random_range(1..=4.min(parties - 2)));
        let colluding = random.random_range(0..=2.min(others.len() - 1));
        let mut adversary: BTreeSet<Party> = others[..colluding].iter().copied().collect();
        adversary.extend(departing.iter().filter(|_| random.random_bool(0.7)));
        // Before the logs are agreed on, or in a stage of corrections; mostly one of the former, as
        // there are no stages else.
        let mut leaving: BTreeMap<Party, usize> = departing
            .iter()
            .map(|&party| (party, random.random_range(0..3)))
            .collect();
        if random.random_bool(0.8) {
            leaving.insert(departing[0], 0);
        }
        let mut it = MaskedRun {
            parties,
            pairs,
            sets: vec![],
            given: BTreeSet::new(),
            adversary,
        };
        it.settle(&leaving, random);
        it
    }

    /// Stages of corrections until nobody owes any, or nobody departs.
    fn settle(&mut self, leaving: &BTreeMap<Party, usize>, random: &mut ChaCha8Rng) {
        let mut before: BTreeSet<Party> = (0..self.parties).collect();
        for stage in 0.. {
            let mut set = before.clone();
            set.retain(|party| leaving.get(party) != Some(&stage));
            if self.sets.last() == Some(&set) {
                break;
            }
            let owed = self.owed(&before, &set);
            let gives = |party: Party| leaving.get(&party) != Some(&(stage + 1));
            for &(lower, higher) in &owed {
                let giver = if set.contains(&lower) { lower } else { higher };
                if gives(giver) || random.random_bool(0.5) {
                    self.given.insert((lower, higher));
                }
            }
            self.sets.push(set.clone());
            if owed.is_empty() {
                break;
            }
            before = set;
        }
    }

    /// The pairs whose masks `remaining` give for those of `before` that departed.
    fn owed(&self, before: &BTreeSet<Party>, remaining: &BTreeSet<Party>) -> Vec<(Party, Party)> {
        let departed = |party: Party| before.contains(&party) && !remaining.contains(&party);
        let graph = Graph::from_edges(self.parties, &self.pairs).expect("pairs of parties");
        let owed = masks_owed(&graph, remaining, departed).into_iter();
        let pair = |giver: Party, other: Party| (giver.min(other), giver.max(other));
        owed.flat_map(|(giver, with)| with.into_iter().map(move |other| pair(giver, other)))
            .collect()
    }

    /// Returns the parties whose vectors are opened.
    fn opened(&self) -> &BTreeSet<Party> {
        self.sets.last().expect("who may publish")
    }

    fn is_hidden(&self, party: Party) -> bool {
        !self.adversary.contains(&party)
    }

    /// The mask of the pair with this number, over the parties' values and the masks of all pairs.
    fn mask(&self, pair: usize) -> Vec<f64> {
        let mut row = vec![0.0; self.parties + self.pairs.len()];
        row[self.parties + pair] = 1.0;
        row
    }

    /// The vector of a party without its own mask.
    fn vector(&self, party: Party) -> Vec<f64> {
        let mut row = vec![0.0; self.parties + self.pairs.len()];
        row[party] = 1.0;
        for (pair, &(lower, higher)) in self.pairs.iter().enumerate() {
            if lower == party {
                row[self.parties + pair] = 1.0;
            } else if higher == party {
                row[self.parties + pair] = -1.0;
            }
        }
        row
    }

    /// The masks that the adversary knows: of pairs that it is in, and those that were given.
    fn masks_seen(&self) -> Vec<Vec<f64>> {
        let known = |&(lower, higher): &(Party, Party)| {
            !(self.is_hidden(lower) && self.is_hidden(higher)) || self.given.contains(&(lower, higher))
        };
        let pairs = (0..self.pairs.len()).filter(|&pair| known(&self.pairs[pair]));
        pairs.map(|pair| self.mask(pair)).collect()
    }

    /// Returns the adversary's view after the set's vectors are opened.
    fn opened_view(&self) -> Vec<Vec<f64>> {
        let vectors = self.opened().iter().map(|&party| self.vector(party));
        self.masks_seen().into_iter().chain(vectors).collect()
    }

    /// Whether these rows tell the sums of these sets, and nothing else, modulo each prime.
    fn rows_tell(&self, rows: &[Vec<f64>], sets: &[Vec<Party>]) -> bool {
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let hidden = (0..self.parties).filter(|&party| self.is_hidden(party));
        let view = View::from_rows(&rows, hidden.collect(), |party| self.masks_of(party));
        PRIMES.into_iter().all(|prime| view_tells(&view, 0, sets, prime))
    }

    /// Where the masks of pairs lie whose lower party this is.
    fn masks_of(&self, party: Party) -> Range<usize> {
        let before = |party: Party| self.pairs.partition_point(|pair| pair.0 < party);
        self.parties + before(party)..self.parties + before(party + 1)
    }

    /// Those of the opened set who are hidden, as their pairs join them; none joins who is `apart`.
    fn pieces(&self, apart: Option<Party>) -> Vec<Vec<Party>> {
        let counts = |party: &Party| self.opened().contains(party) && self.is_hidden(*party);
        let joins = |party: &Party| counts(party) && apart != Some(*party);
        let usable = self.pairs.iter().copied();
        let usable = usable.filter(|(lower, higher)| joins(lower) && joins(higher));
        let mut pieces = connected(self.parties, usable);
        pieces.retain(|piece| counts(&piece[0]));
        pieces
    }

    /// The sum of the opened set's vectors, less the masks that its members gave.
    fn sum(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.parties + self.pairs.len()];
        for &party in self.opened() {
            let row = self.vector(party);
            sum.iter_mut().zip(row).for_each(|(entry, it)| *entry += it);
        }
        for (pair, (lower, higher)) in self.pairs.iter().enumerate() {
            let one = self.opened().contains(lower) != self.opened().contains(higher);
            if one && self.given.contains(&(*lower, *higher)) {
                sum[self.parties + pair] = 0.0;
            }
        }
        sum
    }
}

#[test]
fn a_sum_under_masks_tells_the_sums_of_the_pieces_and_nothing_else() {
    let (mut stages, mut apart) = ([0; 3], 0);
    for case in 0..RUNS {
        let run = MaskedRun::random(case);
        assert!(
            run.rows_tell(&run.masks_seen(), &[]),
            "case {case}: before opening"
        );
        let pieces = run.pieces(None);
        assert!(
            run.rows_tell(&run.opened_view(), &pieces),
            "case {case}: {pieces:?}"
        );
        let opened = |unknown: usize| if run.opened().contains(&unknown) { 1.0 } else { 0.0 };
        let expected: Vec<f64> = (0..run.parties + run.pairs.len()).map(opened).collect();
        assert_eq!(run.sum(), expected, "case {case}");
        stages[run.sets.len() - 1] += 1;
        apart += usize::from(pieces.len() > 1);
    }
    assert!(
        stages.iter().all(|&count| count > 40) && apart > 50,
        "{stages:?} {apart}"
    );
}

/// Masks of somebody whose vector is open already leave its value bare.
#[test]
fn masks_that_are_given_after_opening_tell_a_value() {
    let mut owed = 0;
    for case in 0..RUNS {
        let run = MaskedRun::random(case);
        let pieces = run.pieces(None);
        for late in pieces
            .iter()
            .filter(|piece| piece.len() > 1)
            .map(|piece| piece[0])
        {
            let mut remaining = run.opened().clone();
            remaining.remove(&late);
            let mut rows = run.opened_view();
            let given = run.owed(run.opened(), &remaining);
            let numbers = (0..run.pairs.len()).filter(|&pair| given.contains(&run.pairs[pair]));
            rows.extend(numbers.map(|pair| run.mask(pair)));
            assert!(!run.rows_tell(&rows, &pieces), "case {case}: party {late}");
            let pieces = run.pieces(Some(late));
            assert!(
                run.rows_tell(&rows, &pieces),
                "case {case}: party {late}, {pieces:?}"
            );
            owed += 1;
        }
    }
    assert!(owed > 50, "{owed}");
}
