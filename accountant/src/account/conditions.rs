//! How many rounds random exchanges take until the conditions of INCA's Theorem 4.5 hold: its
//! Figures 2 and 5, and their curve for permutations.
//!
//! The states that nobody of the adversary sees have vectors k·1_i − Σ 1_j, i the party that hands
//! out and j its k receivers; the theorem asks for n_H − 1 independent ones (Lemma 4.4). With one
//! receiver that means: the honest parties are joined by their hidden exchanges.

use rand::rngs::ChaCha8Rng;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};

use crate::parallel::in_parallel;

/// What the adversary sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// All that so many parties hold, who are drawn by chance (Collusion DP).
    Corrupted(usize),
    /// Half of all states in each round, drawn by chance (Eavesdrop DP).
    HalfOfStates,
}

/// Random exchanges, and what is seen of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchanges {
    /// n.
    pub parties: usize,
    /// k: to how many others each sends in a round, drawn by chance.
    pub fanout: usize,
    /// Whether a party sends to nobody twice.
    pub afresh: bool,
    /// What the adversary sees.
    pub seen: Watched,
}

/// Rounds that are looked at: as many as a plan may have.
const MOST_ROUNDS: u32 = 63;

/// A prime: ranks modulo it are those of the rational numbers but for chance of 10⁻⁹ a step.
const PRIME: u64 = (1 << 31) - 1;

impl Exchanges {
    /// In how many of `runs` runs the conditions hold after 1, 2, … rounds and not before; the last
    /// entry counts those in which they never did.
    pub fn first_rounds(&self, runs: u64, seed: u64) -> Vec<u64> {
        let parts = 64.min(runs.max(1));
        let of_part = |part: usize| {
            let mut counts = vec![0u64; MOST_ROUNDS as usize + 2];
            for run in (part as u64..runs).step_by(parts as usize) {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                random.set_stream(run);
                let first = self.first_round(&mut random).unwrap_or(MOST_ROUNDS + 1);
                counts[first as usize] += 1;
            }
            Some(counts)
        };
        let mut counts = vec![0; MOST_ROUNDS as usize + 2];
        for part in in_parallel(parts as usize, of_part) {
            counts.iter_mut().zip(part).for_each(|(sum, count)| *sum += count);
        }
        counts
    }

    /// After how many rounds the conditions hold.
    fn first_round(&self, random: &mut ChaCha8Rng) -> Option<u32> {
        let honest = match self.seen {
            Watched::Corrupted(corrupted) => self.parties - corrupted,
            Watched::HalfOfStates => self.parties,
        };
        // Parties are alike: the honest ones are the first.
        let mut joined = Joined::of(honest, self.fanout > 1);
        let mut before = vec![Vec::new(); if self.afresh { self.parties } else { 0 }];
        for round in 1..=MOST_ROUNDS {
            let hidden = match self.seen {
                Watched::Corrupted(_) => None,
                Watched::HalfOfStates => {
                    let mut hidden = vec![true; self.parties];
                    let seen = sample(random, self.parties, self.parties / 2);
                    seen.into_iter().for_each(|party| hidden[party] = false);
                    Some(hidden)
                }
            };
            for from in 0..honest {
                let to = self.receivers(from, before.get_mut(from), random);
                let is_hidden = hidden.as_ref().is_none_or(|hidden| hidden[from]);
                if is_hidden && to.iter().all(|&to| to < honest) && joined.join(from, &to) {
                    return Some(round);
                }
            }
        }
        None
    }

    fn receivers(&self, from: usize, before: Option<&mut Vec<usize>>, random: &mut ChaCha8Rng) -> Vec<usize> {
        let mut to: Vec<usize> = Vec::with_capacity(self.fanout);
        let used = before.as_ref().map_or(0, |before| before.len());
        // Who has sent to everybody begins again.
        let fresh = used + self.fanout < self.parties;
        while to.len() < self.fanout {
            let other = random.random_range(0..self.parties);
            let known = fresh && before.as_ref().is_some_and(|before| before.contains(&other));
            if other != from && !to.contains(&other) && !known {
                to.push(other);
            }
        }
        if let Some(before) = before {
            before.extend(&to);
        }
        to
    }
}

/// How far the vectors of hidden states have come.
enum Joined {
    /// One receiver: sets of parties that are joined.
    Pieces { parent: Vec<usize>, pieces: usize },
    /// Several: rows in echelon form, by their first column that is not 0.
    Rows {
        rows: Vec<Option<Vec<u64>>>,
        rank: usize,
    },
}

impl Joined {
    fn of(honest: usize, several: bool) -> Self {
        if several {
            Joined::Rows {
                rows: vec![None; honest],
                rank: 0,
            }
        } else {
            Joined::Pieces {
                parent: (0..honest).collect(),
                pieces: honest,
            }
        }
    }

    /// Adds the vector of a hidden state; whether there are enough now.
    fn join(&mut self, from: usize, to: &[usize]) -> bool {
        match self {
            Joined::Pieces { parent, pieces } => {
                for &to in to {
                    let (one, other) = (root(parent, from), root(parent, to));
                    if one != other {
                        parent[one] = other;
                        *pieces -= 1;
                    }
                }
                *pieces == 1
            }
            Joined::Rows { rows, rank } => {
                let mut vector = vec![0u64; rows.len()];
                vector[from] = to.len() as u64;
                to.iter().for_each(|&to| vector[to] = PRIME - 1);
                *rank += usize::from(insert(rows, vector));
                *rank + 1 == rows.len()
            }
        }
    }
}

fn root(parent: &mut [usize], mut party: usize) -> usize {
    while parent[party] != party {
        parent[party] = parent[parent[party]];
        party = parent[party];
    }
    party
}

/// Adds a vector to rows in echelon form, each with 1 in its first column; whether it is
/// independent of them.
fn insert(rows: &mut [Option<Vec<u64>>], mut vector: Vec<u64>) -> bool {
    for column in 0..rows.len() {
        let factor = vector[column];
        if factor == 0 {
            continue;
        }
        let Some(row) = &rows[column] else {
            let inverse = power(factor, PRIME - 2);
            vector
                .iter_mut()
                .for_each(|entry| *entry = *entry * inverse % PRIME);
            rows[column] = Some(vector);
            return true;
        };
        let subtract = |(entry, row): (&mut u64, &u64)| *entry = (*entry + (PRIME - factor) * row) % PRIME;
        vector[column..].iter_mut().zip(&row[column..]).for_each(subtract);
    }
    false
}

fn power(base: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * square % PRIME;
        }
        square = square * square % PRIME;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::mixing_graph::HiddenStates;
    use crate::execution::checked::Execution;
    use crate::mechanism::inca::{InjectionSpec, NamedInjection};

    fn collusion(parties: usize, fanout: usize, corrupted: usize) -> Exchanges {
        Exchanges {
            parties,
            fanout,
            afresh: false,
            seen: Watched::Corrupted(corrupted),
        }
    }

    /// Each draw is an execution as well, in which Lemma 4.4's vectors are independent after as
    /// many rounds.
    #[test]
    fn conditions_hold_when_they_do_in_an_execution() {
        for (fanout, corrupted) in [(1, 0), (1, 3), (2, 2), (3, 1)] {
            let exchanges = collusion(9, fanout, corrupted);
            for run in 0..30 {
                let draw = || {
                    let mut random = ChaCha8Rng::seed_from_u64(5);
                    random.set_stream(run);
                    random
                };
                let Some(found) = exchanges.first_round(&mut draw()) else {
                    continue;
                };
                let random = &mut draw();
                let honest = 9 - corrupted;
                let mut round = || -> Vec<Vec<usize>> {
                    let mut out: Vec<Vec<usize>> = (0..honest)
                        .map(|from| exchanges.receivers(from, None, random))
                        .collect();
                    // Whom the corrupted send to tells nothing of the honest.
                    out.extend(
                        (honest..9).map(|from| (0..9).filter(|&to| to != from).take(fanout).collect()),
                    );
                    out
                };
                let out: Vec<_> = (0..found).map(|_| round()).collect();
                let holds = |rounds: usize| {
                    let spec = InjectionSpec::Named(NamedInjection::Incremental);
                    let run = Execution::fault_free(spec, out[..rounds].to_vec()).expect("a run");
                    let run = run.with_corrupted(honest..9).expect("a coalition");
                    HiddenStates::of(&run).independent_vectors() == honest - 1
                };
                assert!(holds(found as usize), "{fanout} {corrupted} {run}");
                assert!(
                    found == 1 || !holds(found as usize - 1),
                    "{fanout} {corrupted} {run}"
                );
            }
        }
    }

    #[test]
    fn counts_are_those_of_all_runs_whatever_the_number_of_cores() {
        let counts = collusion(20, 1, 6).first_rounds(500, 3);
        assert_eq!(counts.iter().sum::<u64>(), 500);
        assert_eq!(counts, collusion(20, 1, 6).first_rounds(500, 3));
        assert_ne!(counts, collusion(20, 1, 6).first_rounds(500, 4));
        // More who collude, more rounds.
        let mean = |counts: &[u64]| -> f64 {
            let weighed = counts
                .iter()
                .enumerate()
                .map(|(round, &count)| round as f64 * count as f64);
            weighed.sum::<f64>() / counts.iter().sum::<u64>() as f64
        };
        assert!(mean(&counts) < mean(&collusion(20, 1, 10).first_rounds(500, 3)));
        assert!(
            mean(&counts) < mean(&collusion(20, 3, 6).first_rounds(500, 3)),
            "Figure 5c"
        );
    }

    /// Figure 5a: under an eavesdropper more receivers take fewer rounds.
    #[test]
    fn an_eavesdropper_is_outrun_by_more_receivers() {
        let rounds = |fanout| {
            let exchanges = Exchanges {
                parties: 40,
                fanout,
                afresh: false,
                seen: Watched::HalfOfStates,
            };
            let counts = exchanges.first_rounds(50, 1);
            counts.iter().rposition(|&count| count > 0)
        };
        assert!(
            rounds(1) > rounds(2) && rounds(2) >= rounds(4),
            "{:?}",
            [1, 2, 4].map(rounds)
        );
    }
}
