//! The attack where correlated noise is uniform: the sum that an adversary learns, put
//! together from what it saw, residue by residue.
//!
//! For a set M of honest parties with all of their finals seen, Σ finals + Σ shares that M handed
//! out to others − Σ shares that joined M from others = Σ x̃ over M: the noise of M's own shares
//! cancels, whatever it is. All of these shares are the adversary's own. Nothing else can be put
//! together (Theorem U), so that the best test looks at this sum alone.

use std::collections::BTreeSet;

use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;
use crate::execution::share::Fate;
use crate::execution::usable::revealed;

/// The states, and the finals, that make up a revealed sum.
pub(super) struct RevealedSum {
    /// The states handed out in the round after, by (party, round): how often each is added, less
    /// how often it is subtracted.
    pub(super) handed_out: Vec<((Party, u32), i64)>,
    /// The parties whose values are in the sum.
    pub(super) members: BTreeSet<Party>,
    /// Whether a share is half of the state that is kept for it.
    halves: bool,
}

impl RevealedSum {
    /// Returns the revealed sum that has the value of `victim`; `None` if there is no such sum.
    pub(super) fn of(execution: &Execution, victim: Party) -> Option<Self> {
        let piece = revealed(execution)
            .into_iter()
            .find(|piece| piece.contains(&victim))?;
        let members: BTreeSet<Party> = piece.into_iter().collect();
        let mut handed_out = Vec::new();
        for round in 1..=execution.rounds() as u32 {
            for from in (0..execution.parties()).filter(|&from| execution.online(round, from)) {
                for &to in execution.out(round, from) {
                    let fate = execution.outcome(round, from, to).fate;
                    let times = match (members.contains(&from), members.contains(&to)) {
                        (true, false) if fate != Fate::Returned => 1,
                        (false, true) if fate == Fate::Accepted => -1,
                        _ => continue,
                    };
                    handed_out.push(((from, round - 1), times));
                }
            }
        }
        Some(RevealedSum {
            handed_out,
            members,
            halves: !execution.mechanism().rules().hands_over(),
        })
    }

    /// Adds what was handed out to a sum, as often as this says.
    pub(super) fn add(&self, place: (Party, u32), state: &LatticeVector, sum: &mut LatticeVector) {
        let mut share = state.clone();
        if self.halves {
            share.add_and_divide(&[], 2);
        }
        for &(_, times) in self.handed_out.iter().filter(|(other, _)| *other == place) {
            match times {
                1 => sum.add(&share),
                _ => sum.subtract(&share),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::adversary::Adversary;
    use crate::execution::trace::Trace;
    use crate::mechanism::chosen::Mechanism;
    use crate::mechanism::inca::{InjectionSpec, NamedInjection};
    use crate::testing::random_run;

    /// The sum that is put together, as a row of values and noises: of random runs in which shares
    /// come late, go back read or unread, or are lost on the way to a coalition that read them.
    #[test]
    fn the_sum_that_is_revealed_has_each_member_once_and_no_noise() {
        let late = |_rounds: usize| -> Mechanism { InjectionSpec::Named(NamedInjection::Late).into() };
        let (mut sums, mut of_several, mut returned) = (0, 0, 0);
        for case in 0..600 {
            let execution = random_run(case, false, (case % 2 == 0).then_some(&late));
            if !execution.rolled_back().is_empty() {
                continue;
            }
            let Adversary::Corrupted(corrupted) = execution.adversary() else {
                unreachable!("these runs have coalitions")
            };
            let trace = Trace::of(&execution, &vec![1.0; execution.parties()]);
            for victim in (0..execution.parties()).filter(|party| !corrupted.contains(party)) {
                let Some(revealed) = RevealedSum::of(&execution, victim) else {
                    continue;
                };
                let mut row = vec![0.0; trace.unknowns()];
                let mut add = |factor: f64, of: &[f64]| {
                    row.iter_mut().zip(of).for_each(|(entry, x)| *entry += factor * x);
                };
                revealed
                    .members
                    .iter()
                    .for_each(|&party| add(1.0, trace.final_state(party)));
                let part = if revealed.halves { 0.5 } else { 1.0 };
                for &((from, round), times) in &revealed.handed_out {
                    add(part * times as f64, trace.state(from, round).expect("kept"));
                }
                for (unknown, entry) in row.iter().enumerate() {
                    let expected = f64::from(u8::from(revealed.members.contains(&unknown)));
                    assert!(
                        (entry - expected).abs() < 1e-9,
                        "{case} {victim} {unknown}: {entry}"
                    );
                }
                sums += 1;
                of_several += usize::from(revealed.members.len() > 1);
                let leaves = |fault: &&crate::execution::share::ShareFault| {
                    fault.fate == Fate::Returned
                        && revealed.members.contains(&fault.from)
                        && !revealed.members.contains(&fault.to)
                };
                returned += execution.shares().iter().filter(leaves).count();
            }
        }
        assert!(
            sums > 300 && of_several > 100 && returned > 100,
            "{sums} {of_several} {returned}"
        );
    }
}
