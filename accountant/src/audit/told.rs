//! The attack where correlated noise is uniform: the sum that an adversary is told, put together
//! from what it saw, residue by residue.
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
use crate::execution::usable::told;

/// Which states, and which finals, make up a sum that is told.
pub(super) struct ToldSum {
    /// What a party hands out in the round after, by (party, round): how often it is added, less
    /// how often it is subtracted.
    pub(super) handed_out: Vec<((Party, u32), i64)>,
    /// Whose values the sum has.
    pub(super) members: BTreeSet<Party>,
    /// Whether a share is half of the state that is kept for it.
    halves: bool,
}

impl ToldSum {
    /// The sum that has the value of `victim`; none if no sum is told that has it.
    pub(super) fn of(execution: &Execution, victim: Party) -> Option<Self> {
        let piece = told(execution)
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
        Some(ToldSum {
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
