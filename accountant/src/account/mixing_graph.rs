//! The states that stay hidden, and the paper's conditions on them (INCA, Lemma 4.4 and Theorem
//! 4.8, as repaired).
//!
//! These are the paper's interpretable conditions: with them a party's own noise, σ*, can be near
//! its floor for a large enough σ_Δ, that of the noise that cancels. The losses themselves never
//! rest on them.

use std::collections::BTreeSet;

use undertone_protocol::topology::party::Party;

use crate::execution::adversary::Adversary;
use crate::execution::checked::Execution;
use crate::execution::seen::seen_states;
use crate::losses::loss::rank;

/// A state that an honest party really sends and that the adversary sees nothing of.
struct HiddenState {
    from: Party,
    /// The part of it that each of k receivers gets: 1/(k + 1).
    part: f64,
    /// The receivers that were online.
    to: Vec<Party>,
}

/// All hidden states of an execution without share faults.
pub(crate) struct HiddenStates {
    parties: usize,
    honest: BTreeSet<Party>,
    states: Vec<HiddenState>,
}

impl HiddenStates {
    /// Finds the hidden states of an execution.
    ///
    /// A state frozen while its party is offline is one state: it is sent in the party's next
    /// online round, with the mixing matrix W of that round (the literal W_{t+1} of the paper
    /// undercounts after temporary dropouts), and hidden if it was seen in none of the rounds that
    /// it lasted.
    pub(crate) fn of(execution: &Execution) -> Self {
        let honest: BTreeSet<Party> = match execution.adversary() {
            Adversary::Corrupted(corrupted) => (0..execution.parties())
                .filter(|party| !corrupted.contains(party))
                .collect(),
            Adversary::Observed(_) => (0..execution.parties()).collect(),
        };
        let seen = seen_states(execution);
        let mut states = Vec::new();
        for &from in &honest {
            let mut since = 0;
            for round in (1..=execution.rounds() as u32).filter(|&round| execution.online(round, from)) {
                if (since..round).all(|t| !seen.contains(&(from, t))) {
                    let out = execution.out(round, from);
                    let to = out
                        .iter()
                        .copied()
                        .filter(|&to| execution.online(round, to))
                        .collect();
                    states.push(HiddenState {
                        from,
                        part: 1.0 / (out.len() as f64 + 1.0),
                        to,
                    });
                }
                since = round;
            }
        }
        HiddenStates {
            parties: execution.parties(),
            honest,
            states,
        }
    }

    /// The rank of Lemma 4.4's vectors: over hidden states, where the mass of one goes (a column of
    /// the mixing matrix) less where it came from.
    pub(crate) fn independent_vectors(&self) -> usize {
        let vectors: Vec<Vec<f64>> = self
            .states
            .iter()
            .map(|state| {
                let mut vector = vec![0.0; self.parties];
                for &to in &state.to {
                    vector[to] += state.part;
                    vector[state.from] -= state.part;
                }
                vector
            })
            .collect();
        rank(&vectors)
    }

    /// Whether every honest party reaches every other along hidden states.
    pub(crate) fn strongly_connected(&self) -> bool {
        let edges: BTreeSet<(Party, Party)> = self
            .states
            .iter()
            .flat_map(|state| state.to.iter().map(|&to| (state.from, to)))
            .filter(|(_, to)| self.honest.contains(to))
            .collect();
        let backwards = edges.iter().map(|&(from, to)| (to, from)).collect();
        self.reaches_all(&edges) && self.reaches_all(&backwards)
    }

    fn reaches_all(&self, edges: &BTreeSet<(Party, Party)>) -> bool {
        let Some(&start) = self.honest.first() else {
            return true;
        };
        let (mut reached, mut open) = (BTreeSet::from([start]), vec![start]);
        while let Some(from) = open.pop() {
            for &(_, to) in edges.range((from, 0)..(from + 1, 0)) {
                if reached.insert(to) {
                    open.push(to);
                }
            }
        }
        reached.len() == self.honest.len()
    }
}
