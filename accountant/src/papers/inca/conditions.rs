//! How many rounds random exchanges take until the conditions of INCA's Theorem 4.5 hold: its
//! Figures 2 and 5, and their curve for permutations.
//!
//! The states that nobody of the adversary sees have vectors k·1_i − Σ 1_j, i the party that hands
//! out and j its k receivers; the theorem asks for n_H − 1 independent ones (Lemma 4.4). With one
//! receiver that means: the honest parties are joined by their hidden exchanges.

use rand::rngs::ChaCha8Rng;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use crate::papers::error::PaperError;
use crate::papers::figure::{Cell, Chart, Figure, Table, curves};
use crate::papers::given::Given;
use crate::parallel::in_parallel;

/// The states that the adversary sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    /// All that this many parties hold, who are drawn by chance (Collusion DP).
    Corrupted(usize),
    /// Half of all states in each round, drawn by chance (Eavesdrop DP).
    HalfOfStates,
}

/// Random exchanges, and what is seen of them.
#[derive(Debug, Clone, Copy)]
struct Exchanges {
    /// n.
    parties: usize,
    /// k: to how many others each sends in a round, drawn by chance.
    fanout: usize,
    /// Whether a party sends to nobody twice.
    afresh: bool,
    seen: Watched,
}

/// Runs for each point of Figure 2; the paper has 10⁵.
const RUNS_OF_FIGURE_2: u64 = 10_000;
/// Runs for each point of Figure 2 with several receivers, whose ranks take longer.
const RUNS_OF_RANKS: u64 = 200;
/// Runs for each point of Figure 5: the paper's.
const RUNS_OF_FIGURE_5: u64 = 100;

/// A point of Figure 2: the least T.
#[derive(Serialize)]
struct LeastRounds {
    parties: usize,
    fanout: usize,
    corrupted: f64,
    runs: u64,
    /// After which the conditions held in every run; none if they did not.
    rounds: Option<usize>,
    rounds_of_half: Option<usize>,
}

/// The points of Figure 2, curve by curve.
fn least_rounds(given: &Given<'_>) -> Vec<LeastRounds> {
    const SHARES: [f64; 6] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5];
    let most = given.runs.unwrap_or(RUNS_OF_FIGURE_2);
    let mut rows = Vec::new();
    for (parties, fanout) in [(100, 1), (500, 1), (1000, 1), (5000, 1), (100, 2), (100, 3)] {
        let runs = if fanout == 1 {
            most
        } else {
            most.min(RUNS_OF_RANKS)
        };
        for corrupted in SHARES {
            given.show(&format!(
                "{parties} parties, {fanout} receivers, {corrupted} corrupted"
            ));
            let exchanges = Exchanges {
                parties,
                fanout,
                afresh: true,
                seen: Watched::Corrupted((corrupted * parties as f64).round() as usize),
            };
            let counts = exchanges.first_rounds(runs, given.seed);
            let last = counts.iter().rposition(|&count| count > 0);
            let mut held = 0;
            rows.push(LeastRounds {
                parties,
                fanout,
                corrupted,
                runs,
                rounds: last.filter(|&last| last + 1 < counts.len()),
                rounds_of_half: counts.iter().position(|count| {
                    held += count;
                    2 * held >= runs
                }),
            });
        }
    }
    rows
}

/// Figure 2: the least T.
pub(crate) fn figure_2(given: &Given<'_>) -> Result<Figure, PaperError> {
    let rows = least_rounds(given);
    let point = |row: &LeastRounds| {
        let name = match row.fanout {
            1 => format!("n = {}", row.parties),
            _ => format!("n = {}, k = {}", row.parties, row.fanout),
        };
        Some((name, row.corrupted, row.rounds? as f64))
    };
    Ok(Figure {
        title: "INCA, Figure 2: the least number of rounds after which Theorem 4.5's conditions held in every \
                run (at each round each party sends to k others that it has not sent to before)"
            .into(),
        table: Table::of(
            &rows,
            &[
                ("n", |row| Cell::text(row.parties)),
                ("k", |row| Cell::text(row.fanout)),
                ("corrupted", |row| Cell::text(row.corrupted)),
                ("runs", |row| Cell::text(row.runs)),
                ("least T", |row| match row.rounds {
                    Some(rounds) => Cell::text(rounds),
                    None => Cell::text("more than 63"),
                }),
                ("T of half of the runs", |row| Cell::perhaps(row.rounds_of_half)),
            ],
        ),
        notes: vec![
            "The paper prints no numbers but that 5,000 parties of whom half are corrupted take slightly more \
             than 15 rounds, of 10⁵ runs (--runs 100000); more runs find rarer draws."
                .into(),
            "Permutations, in which everybody receives as well, take fewer, and of these the chance is a closed \
             sum: `undertone account static`."
                .into(),
            format!("With several receivers {RUNS_OF_RANKS} runs at most: each takes ranks, not pieces."),
        ],
        chart: Some(Chart {
            title: "Rounds until Theorem 4.5's conditions held in every run",
            x: "share of corrupted parties",
            y: "rounds T",
            logarithmic: false,
            counted: false,
            curves: curves(rows.iter().filter_map(point)),
        }),
    })
}

/// A point of Figure 5: success by rounds.
#[derive(Serialize)]
struct Success {
    adversary: &'static str,
    fanout: usize,
    rounds: usize,
    messages: usize,
    runs: u64,
    success: f64,
}

/// Figure 5: success by rounds.
pub(crate) fn figure_5(given: &Given<'_>) -> Result<Figure, PaperError> {
    const PARTIES: usize = 100;
    const OBSERVED: &str = "half of the states observed";
    let runs = given.runs.unwrap_or(RUNS_OF_FIGURE_5);
    let mut rows = Vec::new();
    for (adversary, seen) in [
        (OBSERVED, Watched::HalfOfStates),
        ("30 % corrupted", Watched::Corrupted(30)),
    ] {
        for fanout in 1..=5 {
            given.show(&format!("{adversary}, {fanout} receivers"));
            let exchanges = Exchanges {
                parties: PARTIES,
                fanout,
                afresh: false,
                seen,
            };
            let counts = exchanges.first_rounds(runs, given.seed);
            rows.extend([2, 4, 6, 8, 10].map(|rounds| Success {
                adversary,
                fanout,
                rounds,
                messages: fanout * rounds,
                runs,
                success: counts[..=rounds].iter().sum::<u64>() as f64 / runs as f64,
            }));
        }
    }
    let corrupted = rows.iter().filter(|row| row.adversary != OBSERVED);
    let point = |row: &Success| (format!("k = {}", row.fanout), row.rounds as f64, row.success);
    Ok(Figure {
        title: format!(
            "INCA, Figure 5: in which share of {runs} runs Theorem 4.5's conditions hold, n = {PARTIES}"
        ),
        table: Table::of(
            &rows,
            &[
                ("adversary", |row| Cell::text(row.adversary)),
                ("k", |row| Cell::text(row.fanout)),
                ("T", |row| Cell::text(row.rounds)),
                ("messages a party", |row| Cell::text(row.messages)),
                ("success", |row| Cell::Number(row.success)),
            ],
        ),
        notes: vec![
            "The paper prints no numbers of this figure; what it says of it holds here: observed states are \
             outrun by more receivers, corrupted parties by fewer."
                .into(),
        ],
        chart: Some(Chart {
            title: "Success with 30 of 100 parties corrupted",
            x: "rounds T",
            y: "share of runs",
            logarithmic: false,
            counted: true,
            curves: curves(corrupted.map(point)),
        }),
    })
}

/// Rounds that are looked at: as many as a plan may have.
const MOST_ROUNDS: u32 = 63;

/// A prime: ranks modulo it are those of the rational numbers but for chance of 10⁻⁹ a step.
const PRIME: u64 = (1 << 31) - 1;

impl Exchanges {
    /// In how many of `runs` runs the conditions hold after 1, 2, … rounds and not before; the last
    /// entry counts those in which they never did.
    fn first_rounds(&self, runs: u64, seed: u64) -> Vec<u64> {
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
