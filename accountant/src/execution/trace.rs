//! All that is handed out in an execution, as linear functions of its unknowns.
//!
//! The matrices come from running the protocol's own mixing machine on unit impulses: each x̃ᵢ (the
//! value of party i, with its own noise) and each η (noise that cancels) is a coordinate of its
//! own, so that a state *is* its row of (B*, A*) (INCA, equation 21), under every rule that the
//! machine has.

use std::collections::BTreeMap;
use std::ops::Range;

use undertone_protocol::lattice::payload::{Impulse, Payload};
use undertone_protocol::mixing::machine::Mixing;
use undertone_protocol::mixing::portion::{NoiseSource, Portion, Share};
use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;
use crate::execution::share::Fate;

/// The shares handed out in a run, as linear functions of its unknowns. These are first the
/// parties' values, then the noises, party by party ([`Execution::noises`]).
pub struct Trace {
    parties: usize,
    rounds: usize,
    /// Where each party's noises begin among the unknowns, and where the last one's end.
    noises: Vec<usize>,
    /// By (party, t): what the party hands out in round t + 1, where it was asked for. INCA: its
    /// state. PPSC: its share ω; nothing if it is no out-agent then.
    states: BTreeMap<(Party, u32), Vec<f64>>,
    /// The row of each party's final state, after roll-back.
    finals: Vec<Vec<f64>>,
    /// The weight of each party's final state, after roll-back.
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

/// A share in transit, kept under the round at whose end it is added to a state.
struct Arrival<P: Payload, W> {
    from: Party,
    to: Party,
    back: bool,
    share: Share<P, W>,
}

impl Trace {
    /// Runs `execution` and keeps all that is handed out. `weights` are the parties' own (1 each if
    /// even).
    pub fn of(execution: &Execution, weights: &[f64]) -> Self {
        Self::keeping(execution, weights, |_, _| true)
    }

    /// Runs `execution` and keeps what a party hands out in round t + 1 where `keep(party, t)`;
    /// finals are always kept.
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
                    execution.machine(party),
                    value,
                    weights[party],
                    record,
                    &mut names[party],
                )
            })
            .collect();
        let mut states = BTreeMap::new();
        let finals = rerun(execution, machines, &mut names, keep, |party, round, state| {
            states.insert((party, round), state.0);
        });
        let (finals, weights) = finals
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

    /// How many parties there are.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// How many rounds the run had.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// The range of unknowns that are the noise of `party`.
    pub fn noises(&self, party: Party) -> Range<usize> {
        self.noises[party]..self.noises[party + 1]
    }

    /// How many unknowns there are.
    pub fn unknowns(&self) -> usize {
        self.noises[self.parties]
    }

    /// The row, over all unknowns, of what `party` hands out in round `round` + 1; none if it was
    /// not kept, or with PPSC if that is nothing.
    pub fn state(&self, party: Party, round: u32) -> Option<&[f64]> {
        self.states.get(&(party, round)).map(Vec::as_slice)
    }

    /// The row of the final state of `party`, after roll-back.
    pub fn final_state(&self, party: Party) -> &[f64] {
        &self.finals[party]
    }

    /// The weights of all final states, after roll-back.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }
}

/// Takes the parties' machines, begun, through `execution`, with what it says of each share. `seen`
/// gets what a party hands out in round t + 1 where `keep(party, t)` (see [`Trace::state`]).
/// Returns the finals.
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
    let states = !execution.mechanism().rules().hands_over();
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
        // A round: everybody sends, what is due arrives, and the next injection comes in.
        send(execution, round, &mut machines, &mut arrivals, &mut sent);
        for arrival in arrivals.remove(&round).into_iter().flatten() {
            if arrival.back {
                machines[arrival.from].take_back(arrival.to, &arrival.share);
            } else {
                machines[arrival.to].accept(arrival.from, &arrival.share);
            }
        }
        for (party, machine) in machines
            .iter_mut()
            .enumerate()
            .filter(|&(party, _)| execution.online(round, party))
        {
            if round == rounds {
                machine.cancel();
            } else {
                machine.inject(&mut noises[party], round);
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

/// Everybody who is online splits its state, or hands it over; what leaves is due where the
/// execution says.
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
        if out.is_empty() && execution.mechanism().rules().hands_over() {
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
