//! What an adversary sees, as linear functions of what it does not know.
//!
//! The matrices come from running the protocol's own mixing machine on unit impulses: each x̃ᵢ and each η is a coordinate of
//! its own, so that a state *is* its row of (B*, A*) (INCA, equation 21), under every rule that the machine has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ndarray::Array2;
use undertone_protocol::mixing::{Mixing, NoiseSource, Party, Portion, Share};
use undertone_protocol::payload::{Impulse, Payload};

use crate::execution::{Adversary, Execution, Family, Fate};

/// What is handed out in a run, as linear functions of its unknowns: first x̃₀ … x̃ₙ₋₁, then the noises, party by party
/// ([`Execution::noises`]).
pub struct Trace {
    parties: usize,
    rounds: usize,
    /// Where each party's noises begin among the unknowns, and where the last one's end.
    noises: Vec<usize>,
    /// (i, t): what party i hands out in round t + 1, where it was asked for. INCA: its state y_i^(t), t = 0…T. PPSC: ω; nothing if it
    /// is no out-agent then.
    states: BTreeMap<(Party, u32), Vec<f64>>,
    /// Row of each party's final state, after roll-back.
    finals: Vec<Vec<f64>>,
    /// Weight of each party's final state, after roll-back.
    weights: Vec<f64>,
}

/// Noise that is nothing but its own name.
struct Names {
    unknowns: usize,
    first: usize,
}

impl NoiseSource<Impulse> for Names {
    fn draw(&mut self, k: usize, _round: u32) -> Impulse {
        Impulse::unit(self.unknowns, self.first + k)
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
    /// Runs `execution` and keeps all that is handed out. `weights` are the parties' own (1 each if even).
    pub fn of(execution: &Execution, weights: &[f64]) -> Self {
        Self::keeping(execution, weights, |_, _| true)
    }

    /// Runs `execution` and keeps what party i hands out in round t + 1 where `keep(i, t)`; finals are always kept.
    pub fn keeping(execution: &Execution, weights: &[f64], keep: impl Fn(Party, u32) -> bool) -> Self {
        let (parties, rounds, unknowns) = (execution.parties(), execution.rounds(), execution.unknowns());
        let noises: Vec<usize> = (0..parties)
            .map(|party| parties + execution.noises(party).start)
            .chain(std::iter::once(unknowns))
            .collect();
        let mut names: Vec<Names> = noises[..parties]
            .iter()
            .map(|&first| Names { unknowns, first })
            .collect();
        let machines: Vec<Mixing<Impulse, f64>> = (0..parties)
            .map(|party| {
                let value = Impulse::unit(unknowns, party);
                let record = !execution.rolled_back().is_empty();
                Mixing::new(
                    execution.mechanism(party),
                    value,
                    weights[party],
                    record,
                    &mut names[party],
                )
            })
            .collect();
        let mut states = BTreeMap::new();
        let last = rerun(execution, machines, &mut names, keep, |party, round, state| {
            states.insert((party, round), state.0);
        });
        let (finals, weights) = last
            .into_iter()
            .map(|portion| (portion.value.0, portion.weight))
            .unzip();
        Trace {
            parties,
            rounds,
            noises,
            states,
            finals,
            weights,
        }
    }

    /// n.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// T.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// The unknowns that are `party`'s noises.
    pub fn noises(&self, party: Party) -> Range<usize> {
        self.noises[party]..self.noises[party + 1]
    }

    /// How many unknowns there are.
    pub fn unknowns(&self) -> usize {
        self.noises[self.parties]
    }

    /// Row of what `party` hands out in round `round` + 1, over all unknowns; none if it was not kept, or with PPSC if that is nothing.
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

/// Takes the parties' machines, begun, through `execution`, with what it says of each share. `seen` gets what party i hands out in round
/// t + 1 where `keep(i, t)` (see [`Trace::state`]). Returns the finals.
pub(crate) fn rerun<P, W, N>(
    execution: &Execution,
    mut machines: Vec<Mixing<P, W>>,
    noises: &mut [N],
    keep: impl Fn(Party, u32) -> bool,
    mut seen: impl FnMut(Party, u32, P),
) -> Vec<Portion<P, W>>
where
    P: Payload + Clone,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
    N: NoiseSource<P>,
{
    let rounds = execution.rounds() as u32;
    let states = *execution.family() != Family::Ppsc;
    let mut at = |machines: &[Mixing<P, W>], round: u32| {
        for (party, machine) in machines
            .iter()
            .enumerate()
            .filter(|&(party, _)| states && keep(party, round))
        {
            seen(party, round, machine.state().value);
        }
    };
    at(&machines, 0);
    let mut arrivals: BTreeMap<u32, Vec<Arrival<P, W>>> = BTreeMap::new();
    let mut handed_out: Vec<(Party, u32, P)> = Vec::new();
    for round in 1..=rounds {
        let mut sent = |from: Party, state: &P| {
            if !states && keep(from, round - 1) {
                handed_out.push((from, round - 1, state.clone()));
            }
        };
        send(execution, round, &mut machines, &mut arrivals, &mut sent);
        for arrival in arrivals.remove(&round).into_iter().flatten() {
            match arrival.back {
                true => machines[arrival.from].take_back(arrival.to, &arrival.share),
                false => machines[arrival.to].accept(arrival.from, &arrival.share),
            }
        }
        for (party, machine) in machines
            .iter_mut()
            .enumerate()
            .filter(|&(party, _)| execution.online(round, party))
        {
            match round == rounds {
                true => machine.cancel(),
                false => machine.inject(&mut noises[party], round),
            }
        }
        at(&machines, round);
    }
    handed_out
        .into_iter()
        .for_each(|(party, round, state)| seen(party, round, state));
    machines
        .into_iter()
        .map(|machine| machine.finish(execution.rolled_back()))
        .collect()
}

/// Everybody who is online splits its state, or hands it over; what leaves is due where the execution says.
fn send<P, W>(
    execution: &Execution,
    round: u32,
    machines: &mut [Mixing<P, W>],
    arrivals: &mut BTreeMap<u32, Vec<Arrival<P, W>>>,
    sent: &mut impl FnMut(Party, &P),
) where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    for (from, machine) in machines
        .iter_mut()
        .enumerate()
        .filter(|&(from, _)| execution.online(round, from))
    {
        let out = execution.out(round, from);
        if out.is_empty() && *execution.family() == Family::Ppsc {
            continue;
        }
        // An unlisted share to somebody offline never leaves: as good as returned at once.
        let share = machine.split(out, |state| {
            sent(from, &state.value);
            state.value.pack()
        });
        for &to in out {
            let outcome = execution.outcome(round, from, to);
            if outcome.fate != Fate::Lost {
                let back = outcome.fate == Fate::Returned;
                arrivals.entry(outcome.applied).or_default().push(Arrival {
                    from,
                    to,
                    back,
                    share: share.clone(),
                });
            }
        }
    }
}

/// Rows that an adversary observes, over the unknowns of honest parties: y = B x̃ + A η (INCA, equation 10).
#[derive(Debug, Clone)]
pub struct View {
    /// Who is honest; the columns of `b`, and those of each one's noises in `a`, in this order.
    pub honest: Vec<Party>,
    /// m × n_H.
    pub b: Array2<f64>,
    /// m × noises of honest parties: T each for INCA, one a hand-out for PPSC.
    pub a: Array2<f64>,
}

impl View {
    /// Runs `execution` and keeps what its adversary sees.
    pub fn of(execution: &Execution) -> Self {
        let states = seen_states(execution);
        let trace = Trace::keeping(execution, &vec![1.0; execution.parties()], |party, round| {
            states.contains(&(party, round))
        });
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
            .chain(finals.map(|&party| trace.last(party)))
            .collect();
        let honest = (0..trace.parties)
            .filter(|party| !corrupted.contains(party))
            .collect();
        Self::from_rows(&rows, honest, |party| trace.noises(party))
    }

    /// Restricts rows over all unknowns to those of `honest`, whose noises are where `noises` says: what corrupted parties injected is known
    /// and drops out.
    pub fn from_rows(rows: &[&[f64]], honest: Vec<Party>, noises: impl Fn(Party) -> Range<usize>) -> Self {
        let b = Array2::from_shape_fn((rows.len(), honest.len()), |(row, column)| {
            rows[row][honest[column]]
        });
        let columns: Vec<usize> = honest.iter().flat_map(|&party| noises(party)).collect();
        let a = Array2::from_shape_fn((rows.len(), columns.len()), |(row, column)| {
            rows[row][columns[column]]
        });
        View { honest, b, a }
    }
}

/// The (i, t), i honest and t < T, for which the adversary sees what i hands out in round t + 1. With INCA all shares of one state are the same
/// multiple of it.
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
