//! Checks the statements of a receipt against its plan: the execution must be one that a run of the
//! plan can have, and its loss is computed again, against every coalition where the gate does.

use std::collections::BTreeSet;

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::bounds::connectivity::among;
use crate::execution::adversary::Adversary;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::ppsc_file;
use crate::execution::share::ShareFault;
use crate::gate::connected::shared;
use crate::gate::plan_facts::Gate;
use crate::guarantee::choice::Guarantee;
use crate::mechanism::rules::Format;

/// The reasons why a receipt's execution is none of its plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StatedError {
    /// It is no execution.
    #[error("its execution cannot be read: {0}")]
    Unreadable(#[from] ExecutionError),
    /// A part of it is not what the plan says.
    #[error("its execution's {part} not the plan's")]
    Other {
        /// The part, with its verb.
        part: &'static str,
    },
}

/// An execution that a run of a plan can have.
pub struct StatedExecution<'a> {
    gate: Gate<'a>,
    execution: Execution,
}

impl<'a> StatedExecution<'a> {
    /// Reads the execution that a receipt of `plan` states; the plan has the schedule that START
    /// drew, if it did.
    ///
    /// Differences in which shares arrived are accepted: only the agreed logs say which did.
    ///
    /// # Errors
    /// It cannot be read, or parties, rounds, injection, schedule or sensitivities are not the
    /// plan's, or somebody is offline in it although the departed count as online to the end.
    pub fn read(plan: &'a Plan, text: &str) -> Result<Self, StatedError> {
        let gate = Gate::of(plan).map_err(|_| StatedError::Other { part: "mechanism is" })?;
        let format = gate.base.mechanism().rules().format();
        let execution = match format {
            Format::Exchanges => ppsc_file::parse(text)?,
            Format::Shares | Format::Masks => Execution::parse(text)?,
        };
        let base = &gate.base;
        let rounds_are_revealed = format != Format::Masks;
        let other = if execution.parties() != base.parties() {
            Some("parties are")
        } else if execution.mechanism() != base.mechanism() {
            Some("injection is")
        } else if rounds_are_revealed && execution.rounds() != base.rounds() {
            Some("rounds are")
        } else if sent(&execution, rounds_are_revealed) != sent(base, rounds_are_revealed) {
            Some("schedule is")
        } else if execution.sensitivity() != Some(&gate.setting.sensitivity) {
            Some("sensitivities are")
        } else if !matches!(execution.adversary(), Adversary::Corrupted(_)) {
            Some("adversary, which is no coalition, is")
        } else if execution
            .absences()
            .is_some_and(|rows| !rows.iter().flatten().all(|here| *here))
        {
            Some("absences, where the departed count as online to the end, are")
        } else {
            None
        };
        match other {
            Some(part) => Err(StatedError::Other { part }),
            None => Ok(StatedExecution { gate, execution }),
        }
    }

    /// Returns the parties whose finals the statement says are seen.
    pub fn published(&self) -> &BTreeSet<Party> {
        self.execution.published()
    }

    /// How many of those whose finals are seen collude in it.
    pub fn colluding(&self) -> usize {
        match self.execution.adversary() {
            Adversary::Corrupted(corrupted) => corrupted.intersection(self.published()).count(),
            Adversary::Observed(_) => 0,
        }
    }

    /// Computes the largest loss of one release in which these parties' finals are seen, and all
    /// others have departed. The parties are some at least.
    ///
    /// With uniform noise or masks it is that of the connectivity of what happened, so never less
    /// than Δ/(σ*√(members − colluding)); with Gaussian noise that of every coalition, where as
    /// many were computed for the gate. A departed party's own loss is taken in where it is the
    /// bound before publishing. Never above what the gate says of the same execution. None where no
    /// coalition is computed.
    ///
    /// # Errors
    /// The execution has a fault that it cannot have among these parties alone.
    pub fn loss_of(&self, members: &BTreeSet<Party>) -> Result<Option<f64>, StatedError> {
        let gate = &self.gate;
        let std = gate.noise.independent_std;
        let list: Vec<Party> = members.iter().copied().collect();
        let colluding = gate.coalition_size(list.len());
        let among_members =
            |fault: &&ShareFault| members.contains(&fault.from) && members.contains(&fault.to);
        let faults = self.execution.shares().iter().filter(among_members).copied();
        let happened = gate.base.clone().with_shares(faults.collect())?;
        let happened = happened.with_published(members.iter().copied())?;
        // Of a draw only the claim says what is hidden; of what happened never more is.
        let hidden = match gate.guarantee {
            Guarantee::ExactSum | Guarantee::AsInPaper => return Ok(Some(f64::INFINITY)),
            Guarantee::Drawn => vec![list.len() - colluding; list.len()],
            Guarantee::Connected => among(&shared(&happened, &list), colluding),
            Guarantee::Gaussian => {
                let found = gate.by_theorem_c(happened, members);
                let found = found.map_err(|_| StatedError::Other { part: "shares are" })?;
                return Ok(found.map(|found| found.mu.min(gate.theorem())));
            }
            Guarantee::OwnNoise | Guarantee::Circles => return Ok(None),
        };
        let losses = list
            .iter()
            .zip(hidden)
            .map(|(&party, among)| gate.setting.sensitivity[party] / (std * (among as f64).sqrt()));
        Ok(Some(losses.fold(0.0, f64::max)))
    }

    /// Returns the ε of a loss at the plan's δ, less what of that is left to a draw of the
    /// schedule.
    pub fn epsilon(&self, mu: f64) -> f64 {
        self.gate.epsilon(mu)
    }
}

/// Returns the sender and the receiver of each share in each round; of masks, which have no rounds,
/// the pairs.
fn sent(execution: &Execution, with_rounds: bool) -> BTreeSet<(u32, Party, Party)> {
    let of_round = |round: u32| {
        let from = 0..execution.parties();
        from.flat_map(move |from| {
            execution
                .out(round, from)
                .iter()
                .map(move |&to| (round, from, to))
        })
    };
    let all = (1..=execution.rounds() as u32).flat_map(of_round);
    match with_rounds {
        true => all.collect(),
        false => all.map(|(_, from, to)| (0, from.min(to), from.max(to))).collect(),
    }
}
