//! What an adversary sees, as linear functions of what it does not know.
//!
//! The matrices come from running the protocol's own mixing machine on unit impulses: each x̃ᵢ and each η is a coordinate of
//! its own, so that a state *is* its row of (B*, A*) (INCA, equation 21), under every rule that the machine has.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::Array2;
use undertone_protocol::mixing::{Mixing, NoiseSource, Party, Portion, Share};
use undertone_protocol::payload::{Impulse, Payload};

use crate::execution::{Adversary, Execution, Fate};

/// The states of a run as linear functions of its unknowns: first x̃₀ … x̃ₙ₋₁, then η of party i, k-th noise, at n + i·T + k.
pub struct Trace {
    parties: usize,
    rounds: usize,
    /// (i, t): row of y_i^(t), t = 0…T, where it was asked for.
    states: BTreeMap<(Party, u32), Vec<f64>>,
    /// Row of each party's final state, after roll-back.
    finals: Vec<Vec<f64>>,
    /// Weight of each party's final state, after roll-back.
    weights: Vec<f64>,
}

/// Noise that is nothing but its own name.
struct Names {
    party: Party,
    parties: usize,
    rounds: usize,
}

impl NoiseSource<Impulse> for Names {
    fn draw(&mut self, k: usize, _round: u32) -> Impulse {
        Impulse::unit(self.parties * (self.rounds + 1), self.parties + self.party * self.rounds + k)
    }
}

/// A share on its way: who takes its mass at the end of the round under which it is kept.
struct Arrival<P: Payload, W> {
    from: Party,
    to: Party,
    back: bool,
    share: Share<P, W>,
}

impl Trace {
    /// Runs `execution` and keeps every state. `weights` are the parties' own (1 each if even).
    pub fn of(execution: &Execution, weights: &[f64]) -> Self {
        Self::keeping(execution, weights, |_, _| true)
    }

    /// Runs `execution` and keeps the states y_i^(t) for which `keep(i, t)`; finals are always kept.
    pub fn keeping(execution: &Execution, weights: &[f64], keep: impl Fn(Party, u32) -> bool) -> Self {
        let (parties, rounds) = (execution.parties(), execution.rounds());
        let names = |party| Names { party, parties, rounds };
        let machines: Vec<Mixing<Impulse, f64>> = (0..parties)
            .map(|party| {
                let value = Impulse::unit(parties * (rounds + 1), party);
                let record = !execution.rolled_back().is_empty();
                Mixing::new(execution.injection().clone(), value, weights[party], record, &mut names(party))
            })
            .collect();
        let mut noises: Vec<Names> = (0..parties).map(names).collect();
        let mut states = BTreeMap::new();
        let last = rerun(execution, machines, &mut noises, |machines, round| {
            for (party, machine) in machines.iter().enumerate().filter(|&(party, _)| keep(party, round)) {
                states.insert((party, round), machine.state().value.0);
            }
        });
        let (finals, weights) = last.into_iter().map(|portion| (portion.value.0, portion.weight)).unzip();
        Trace { parties, rounds, states, finals, weights }
    }

    /// n.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// T.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Row of y_i^(t), t = 0…T, over all unknowns; none if it was not kept.
    pub fn state(&self, party: Party, round: u32) -> Option<&[f64]> {
        self.states.get(&(party, round)).map(Vec::as_slice)
    }

    /// Row of the final state of `party`, after roll-back.
    pub fn last(&self, party: Party) -> &[f64] {
        &self.finals[party]
    }

    /// Weights of the final states, all parties, after roll-back.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }
}

/// Takes the parties' machines, begun, through `execution`, with what it says of each share; `at` sees them all before round 1 (as
/// round 0) and at the end of each. Returns the finals.
pub(crate) fn rerun<P, W, N>(
    execution: &Execution,
    mut machines: Vec<Mixing<P, W>>,
    noises: &mut [N],
    mut at: impl FnMut(&[Mixing<P, W>], u32),
) -> Vec<Portion<P, W>>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
    N: NoiseSource<P>,
{
    let rounds = execution.rounds() as u32;
    at(&machines, 0);
    let mut arrivals: BTreeMap<u32, Vec<Arrival<P, W>>> = BTreeMap::new();
    for round in 1..=rounds {
        send(execution, round, &mut machines, &mut arrivals);
        for arrival in arrivals.remove(&round).into_iter().flatten() {
            match arrival.back {
                true => machines[arrival.from].take_back(arrival.to, &arrival.share),
                false => machines[arrival.to].accept(arrival.from, &arrival.share),
            }
        }
        for (party, machine) in machines.iter_mut().enumerate().filter(|&(party, _)| execution.online(round, party)) {
            match round == rounds {
                true => machine.cancel(),
                false => machine.inject(&mut noises[party], round),
            }
        }
        at(&machines, round);
    }
    machines.into_iter().map(|machine| machine.finish(execution.rolled_back())).collect()
}

/// Everybody who is online splits its state; what leaves is due where the execution says.
fn send<P, W>(execution: &Execution, round: u32, machines: &mut [Mixing<P, W>], arrivals: &mut BTreeMap<u32, Vec<Arrival<P, W>>>)
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    for (from, machine) in machines.iter_mut().enumerate().filter(|&(from, _)| execution.online(round, from)) {
        let out = execution.out(round, from);
        // An unlisted share to somebody offline never leaves: as good as returned at once.
        let share = machine.split(out, |state| state.value.pack());
        for &to in out {
            let outcome = execution.outcome(round, from, to);
            if outcome.fate != Fate::Lost {
                let back = outcome.fate == Fate::Returned;
                arrivals.entry(outcome.applied).or_default().push(Arrival { from, to, back, share: share.clone() });
            }
        }
    }
}

/// Rows that an adversary observes, over the unknowns of honest parties: y = B x̃ + A η (INCA, equation 10).
#[derive(Debug, Clone)]
pub struct View {
    /// Who is honest; the columns of `b`, and T columns each of `a`, in this order.
    pub honest: Vec<Party>,
    /// m × n_H.
    pub b: Array2<f64>,
    /// m × n_H·T.
    pub a: Array2<f64>,
}

impl View {
    /// Runs `execution` and keeps what its adversary sees.
    pub fn of(execution: &Execution) -> Self {
        let states = seen_states(execution);
        let trace = Trace::keeping(execution, &vec![1.0; execution.parties()], |party, round| states.contains(&(party, round)));
        Self::select(&trace, execution, &states)
    }

    /// What the adversary of `execution` sees of `trace`, which must have kept the states that it sees (all, by [`Trace::of`]).
    pub fn of_trace(trace: &Trace, execution: &Execution) -> Self {
        Self::select(trace, execution, &seen_states(execution))
    }

    fn select(trace: &Trace, execution: &Execution, states: &BTreeSet<(Party, u32)>) -> Self {
        let none = BTreeSet::new();
        let corrupted = match execution.adversary() {
            Adversary::Corrupted(corrupted) => corrupted,
            Adversary::Observed(_) => &none,
        };
        let finals = execution.published().iter().filter(|party| !corrupted.contains(party));
        let rows: Vec<&[f64]> = states
            .iter()
            .map(|&(party, round)| trace.state(party, round).expect("the trace kept the states that are seen"))
            .chain(finals.map(|&party| trace.last(party)))
            .collect();
        let honest = (0..trace.parties).filter(|party| !corrupted.contains(party)).collect();
        Self::from_rows(&rows, honest, trace.parties, trace.rounds)
    }

    /// Restricts rows over all unknowns to those of `honest`: what corrupted parties injected is known and drops out.
    pub fn from_rows(rows: &[&[f64]], honest: Vec<Party>, parties: usize, rounds: usize) -> Self {
        let b = Array2::from_shape_fn((rows.len(), honest.len()), |(row, column)| rows[row][honest[column]]);
        let a = Array2::from_shape_fn((rows.len(), honest.len() * rounds), |(row, column)| {
            rows[row][parties + honest[column / rounds] * rounds + column % rounds]
        });
        View { honest, b, a }
    }
}

/// The states (i, t), i honest and t < T, that the adversary sees. All shares of one state are the same multiple of it.
pub(crate) fn seen_states(execution: &Execution) -> BTreeSet<(Party, u32)> {
    let corrupted = match execution.adversary() {
        Adversary::Observed(observed) => return observed.clone(),
        Adversary::Corrupted(corrupted) => corrupted,
    };
    let mut seen = BTreeSet::new();
    for round in 1..=execution.rounds() as u32 {
        for from in (0..execution.parties()).filter(|from| !corrupted.contains(from) && execution.online(round, *from)) {
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
