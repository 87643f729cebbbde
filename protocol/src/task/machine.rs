//! The task of a plan, as one node's machine.

use std::sync::Arc;

use crate::agreement::shelf::Shelf;
use crate::lattice::vector::LatticeVector;
use crate::mixing::gossip::rounds::GossipRounds;
use crate::mixing::portion::Noise;
use crate::plan::checked::Plan;
use crate::plan::run_file::settings::TaskKind;
use crate::run::interface::{Input, InputError, Output};
#[cfg(test)]
use crate::run::machine::held::HeldSecrets;
use crate::run::machine::{Identity, Run};
use crate::run::outcome::{Ending, Outcome, Progress};
use crate::task::gossip::GossipTask;
use crate::task::mean::Mean;
use crate::task::outer::Outer;
use crate::task::training::Training;
use crate::time::Time;
use crate::topology::party::Party;

/// One node's part in what a plan computes: how many releases, what this node contributes to each,
/// and what comes of them. A driver feeds it as it would feed a [`Run`].
///
/// There is one variant and one file a task.
pub enum Task {
    /// The weighted mean, in one release.
    Mean(Box<Mean>),
    /// A model that is fitted over many releases, or a stream of secure sums.
    Training(Box<Training>),
    /// PPSC's Algorithms 3 and 4.
    Outer(Box<Outer>),
    /// Gossip averaging with open messages, of one value or of a stream.
    Gossip(Box<GossipTask>),
}

impl Task {
    /// This node's part. `value` is what it contributes first, with its own noise; `noise` draws
    /// the correlated one. See [`Run::new`].
    ///
    /// # Panics
    /// If the party is not in the plan.
    pub fn new(plan: Arc<Plan>, identity: Identity, value: LatticeVector, noise: Noise, now: Time) -> Self {
        let summed = plan.reads_circles() || plan.draft().mechanism.sums_everybody();
        if plan.draft().mechanism.averages() && !summed {
            return Task::Gossip(Box::new(GossipTask::new(plan, identity, value, now)));
        }
        if summed {
            return Task::Training(Box::new(Training::new(plan, identity, value, noise, now)));
        }
        match plan.draft().task {
            TaskKind::Mean => Task::Mean(Box::new(Mean::new(plan, identity, value, noise, now))),
            TaskKind::Regression | TaskKind::Rounds => {
                Task::Training(Box::new(Training::new(plan, identity, value, noise, now)))
            }
            TaskKind::LinearEquations | TaskKind::Optimise => {
                Task::Outer(Box::new(Outer::new(plan, identity, value, noise, now)))
            }
        }
    }

    /// This node keeps long bodies on a shelf. Called before it is fed anything.
    pub fn shelving(self, shelf: &Shelf) -> Self {
        match self {
            Task::Mean(mean) => Task::Mean(Box::new(mean.shelving(shelf))),
            Task::Training(training) => Task::Training(Box::new(training.shelving(shelf))),
            Task::Outer(outer) => Task::Outer(Box::new(outer.shelving(shelf))),
            Task::Gossip(gossip) => Task::Gossip(Box::new(gossip.shelving(shelf))),
        }
    }

    /// Takes one input; see [`Run::handle`].
    ///
    /// # Errors
    /// Our caller's mistake; the machine is unchanged.
    pub fn handle(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        match self {
            Task::Mean(mean) => mean.handle(now, input),
            Task::Training(training) => training.handle(now, input),
            Task::Outer(outer) => outer.handle(now, input),
            Task::Gossip(gossip) => gossip.handle(now, input),
        }
    }

    /// The next output; see [`Run::poll_output`].
    pub fn poll_output(&mut self) -> Output {
        match self {
            Task::Mean(mean) => mean.poll_output(),
            Task::Training(training) => training.poll_output(),
            Task::Outer(outer) => outer.poll_output(),
            Task::Gossip(gossip) => gossip.poll_output(),
        }
    }

    /// The release that is under way, or was the last.
    pub fn release(&self) -> &Run {
        match self {
            Task::Mean(mean) => mean.release(),
            Task::Training(training) => training.release(),
            Task::Outer(outer) => outer.release(),
            Task::Gossip(gossip) => gossip.release(),
        }
    }

    /// The plan with the schedule that START drew, once it has; else as it was given.
    pub fn plan(&self) -> &Arc<Plan> {
        self.release().plan()
    }

    /// The number of the run that is under way, from 1; a mixing of noise ahead counts.
    pub fn run_number(&self) -> u32 {
        match self {
            Task::Mean(_) | Task::Outer(_) | Task::Gossip(_) => 1,
            Task::Training(training) => training.run_number(),
        }
    }

    /// The number of the release that is under way, from 1; 0 before the first.
    pub fn iteration(&self) -> u32 {
        match self {
            Task::Mean(_) => 1,
            Task::Training(training) => training.iteration(),
            Task::Outer(outer) => outer.iteration(),
            Task::Gossip(gossip) => gossip.iteration(),
        }
    }

    /// The rounds of gossip, for whoever checks a simulation.
    pub(crate) fn gossip(&self) -> Option<&GossipRounds> {
        match self {
            Task::Gossip(gossip) => Some(gossip.rounds()),
            _ => None,
        }
    }

    /// Whom the present stage waits for, ascending; see [`Run::awaited`].
    pub fn awaited(&self) -> Vec<Party> {
        match self {
            Task::Gossip(_) => vec![],
            _ => self.release().awaited(),
        }
    }

    /// How many sealed vectors wait for a round that has not begun here.
    #[cfg(test)]
    pub(crate) fn kept_early(&self) -> usize {
        match self {
            Task::Training(training) => training.kept_early(),
            _ => 0,
        }
    }

    /// The secrets that it keeps in memory.
    #[cfg(test)]
    pub(crate) fn held_secrets(&self, held: &mut HeldSecrets) {
        match self {
            Task::Training(training) => training.held_secrets(held),
            _ => self.release().held_secrets(held),
        }
    }

    /// Until when others may still want something of this node, which has ended with this outcome
    /// just now, if nobody says earlier that all is done ([`Event::Complete`]): the end of the
    /// plan's deadlines, and at least one stage from now. Nobody does where nothing private has
    /// left it.
    ///
    /// [`Event::Complete`]: crate::run::outcome::Event::Complete
    pub fn others_end(&self, outcome: &Outcome, now: Time) -> Time {
        if matches!(outcome.ending, Ending::Aborted { .. } | Ending::Spent { .. }) {
            return now;
        }
        let (plan, run) = (self.plan(), &self.plan().draft().run);
        let mixing_ms = u64::from(plan.mixing_rounds()).saturating_mul(run.round_ms);
        let once_ms = mixing_ms.saturating_add(run.settle_ms.saturating_mul(2));
        let deadlines_ms = once_ms.saturating_mul(plan.most_mixings().max(1).into());
        // Averaging takes more than one where somebody holds it up.
        let stages = self.release().publishing_stages();
        let stage = now.plus_millis(run.settle_ms.saturating_mul(stages));
        outcome
            .started_at
            .map_or(stage, |start| start.plus_millis(deadlines_ms).max(stage))
    }

    /// Where the task is.
    pub fn progress(&self) -> Progress {
        match self {
            Task::Gossip(gossip) => gossip.progress(),
            _ => self.release().progress(),
        }
    }
}
