//! PPSC: the exchanges of an execution, and the components that they make of its parties.

use std::collections::BTreeMap;

use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;
use crate::execution::share::Fate;

/// An exchange that took place: its out-agent was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PpscExchange {
    /// The iteration in which it took place, from 1.
    pub iteration: u32,
    /// The out-agent: who sent a share ω and kept a noise γ.
    pub out: Party,
    /// The in-agent: who was to add ω to its state.
    pub into: Party,
    /// The fate of its share ω.
    pub fate: Fate,
    /// The index of γ among its out-agent's noises, from 0.
    pub noise: usize,
}

/// The exchanges that took place, by iteration and out-agent. The edge of an out-agent that had
/// crashed is not among them.
pub fn exchanges(execution: &Execution) -> Vec<PpscExchange> {
    let mut noises = vec![0; execution.parties()];
    let mut exchanges = Vec::new();
    for iteration in 1..=execution.rounds() as u32 {
        for out in (0..execution.parties()).filter(|&out| execution.online(iteration, out)) {
            for &into in execution.out(iteration, out) {
                let fate = execution.outcome(iteration, out, into).fate;
                exchanges.push(PpscExchange {
                    iteration,
                    out,
                    into,
                    fate,
                    noise: noises[out],
                });
                noises[out] += 1;
            }
        }
    }
    exchanges
}

/// The connected components of accepted exchanges, each in ascending order, by their first party;
/// one without any stands alone.
///
/// The rank of D, what the noises do to the final states, is the number of parties less that of the
/// components. *Proof:* with C_s and d_s the matrix and the new column of an exchange from i to j,
/// the orthogonal complement of D's range after it is {v : C_sᵀ v in the complement before, vᵢ =
/// vⱼ}; as C_sᵀ changes only entry i, into vⱼ, such a v is itself in the complement before. So the
/// complement is what is constant on each component. ∎ The same holds of what a coalition inside
/// sees, for exchanges between honest parties: ω that it reads takes the coefficient of its sender.
pub fn components(execution: &Execution) -> Vec<Vec<Party>> {
    let accepted = exchanges(execution)
        .into_iter()
        .filter(|exchange| exchange.fate == Fate::Accepted);
    connected(
        execution.parties(),
        accepted.map(|exchange| (exchange.out, exchange.into)),
    )
}

/// The connected components of `parties` parties joined by `edges`, each in ascending order, by
/// their first party.
pub fn connected(parties: usize, edges: impl Iterator<Item = (Party, Party)>) -> Vec<Vec<Party>> {
    let mut component: Vec<usize> = (0..parties).collect();
    for (a, b) in edges {
        let (a, b) = (root(&mut component, a), root(&mut component, b));
        component[a.max(b)] = a.min(b);
    }
    let mut members: BTreeMap<usize, Vec<Party>> = BTreeMap::new();
    for party in 0..parties {
        members
            .entry(root(&mut component, party))
            .or_default()
            .push(party);
    }
    members.into_values().collect()
}

/// The first party of its component, halving the path on the way.
fn root(component: &mut [usize], mut party: Party) -> Party {
    while component[party] != party {
        component[party] = component[component[party]];
        party = component[party];
    }
    party
}
