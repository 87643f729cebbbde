//! The adversary's view of an execution, as rows.

use std::collections::BTreeSet;

use undertone_protocol::topology::party::Party;

use crate::execution::adversary::Adversary;
use crate::execution::checked::Execution;
use crate::execution::share::Fate;
use crate::execution::trace::Trace;
use crate::losses::view::View;

impl View {
    /// Runs `execution` and keeps what its adversary sees.
    pub fn of(execution: &Execution) -> Self {
        let states = seen_states(execution);
        let trace = Trace::keeping(execution, &vec![1.0; execution.parties()], |party, round| {
            states.contains(&(party, round))
        });
        Self::select(&trace, execution, &states)
    }

    /// Returns the view that the adversary of `execution` has of `trace`, which must have kept the
    /// states that it sees (all, by [`Trace::of`]).
    pub fn of_trace(trace: &Trace, execution: &Execution) -> Self {
        Self::select(trace, execution, &seen_states(execution))
    }

    /// The seen states and finals of a trace that kept them.
    fn select(trace: &Trace, execution: &Execution, states: &BTreeSet<(Party, u32)>) -> Self {
        let none = BTreeSet::new();
        let corrupted = match execution.adversary() {
            Adversary::Corrupted(corrupted) => corrupted,
            Adversary::Observed(_) => &none,
        };
        let finals = execution
            .published()
            .iter()
            .filter(|party| !corrupted.contains(party));
        let rows: Vec<&[f64]> = states
            .iter()
            .map(|&(party, round)| {
                trace
                    .state(party, round)
                    .expect("the trace kept the states that are seen")
            })
            .chain(finals.map(|&party| trace.final_state(party)))
            .collect();
        let honest = (0..trace.parties())
            .filter(|party| !corrupted.contains(party))
            .collect();
        Self::from_rows(&rows, honest, |party| trace.noises(party))
    }
}

/// The (party, t), honest ones and before the last round, for which the adversary sees what the
/// party hands out in round t + 1. With INCA all shares of one state are the same multiple of it.
pub(crate) fn seen_states(execution: &Execution) -> BTreeSet<(Party, u32)> {
    let corrupted = match execution.adversary() {
        Adversary::Observed(observed) => return observed.clone(),
        Adversary::Corrupted(corrupted) => corrupted,
    };
    let mut seen = BTreeSet::new();
    for round in 1..=execution.rounds() as u32 {
        for from in (0..execution.parties())
            .filter(|from| !corrupted.contains(from) && execution.online(round, *from))
        {
            let reads = |to: &Party| {
                let outcome = execution.outcome(round, from, *to);
                // What a corrupted party holds is known, whatever the file says about `seen`.
                corrupted.contains(to) && (outcome.seen || outcome.fate == Fate::Accepted)
            };
            if execution.out(round, from).iter().any(reads) {
                seen.insert((from, round - 1));
            }
        }
    }
    seen
}
