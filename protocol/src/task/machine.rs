//! The task of a plan, as one node's machine.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agreement::shelf::Shelf;
use crate::mixing::gossip::rounds::GossipRounds;
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::Noise;
use crate::plan::checked::Plan;
use crate::plan::computation::choice::Computation;
use crate::run::interface::{Input, InputError, Output};
#[cfg(test)]
use crate::run::machine::held::HeldSecrets;
use crate::run::machine::{Identity, Run};
use crate::run::outcome::{Ending, Outcome, Progress, SliceProgress};
use crate::task::clock::TaskClock;
use crate::task::gossip::GossipTask;
use crate::task::mean::Mean;
use crate::task::outer::Outer;
use crate::task::training::Training;
use crate::time::Time;
use crate::topology::party::Party;

/// One node's part in what a plan computes: how many releases, what this node contributes to each,
/// and what comes of them. A driver feeds it as it would feed a [`Run`].
///
/// It goes by a clock of its own: where its node did not run for a while and others have not gone
/// on meanwhile, as far as it can know, no time has passed ([`Run`] says when).
pub struct Task {
    computation: TaskMachine,
    clock: TaskClock,
}

/// There is one variant and one file a task.
pub(super) enum TaskMachine {
    /// The weighted mean, in one release.
    Mean(Box<Mean>),
    /// A model that is fitted over many releases, or a stream of secure sums.
    Training(Box<Training>),
    /// PPSC's Algorithms 3 and 4.
    Outer(Box<Outer>),
    /// Gossip averaging with open messages, of one value or of a stream.
    Gossip(Box<GossipTask>),
}

impl TaskMachine {
    fn new(plan: Arc<Plan>, identity: Identity, value: Noisy, noise: Noise, now: Time) -> Self {
        match &plan.draft().computation {
            Computation::Mean {} | Computation::Describe(_) => {
                TaskMachine::Mean(Box::new(Mean::new(plan, identity, value, noise, now)))
            }
            Computation::Stream(_) if plan.goes_on_by_task() => {
                TaskMachine::Gossip(Box::new(GossipTask::new(plan, identity, value, now)))
            }
            Computation::Regression { .. } | Computation::Rounds(_) | Computation::Stream(_) => {
                TaskMachine::Training(Box::new(Training::new(plan, identity, value, noise, now)))
            }
            Computation::LinearEquations(_) | Computation::Optimise(_) => {
                TaskMachine::Outer(Box::new(Outer::new(plan, identity, value, noise, now)))
            }
        }
    }

    fn shelving(self, shelf: &Shelf) -> Self {
        match self {
            TaskMachine::Mean(mean) => TaskMachine::Mean(Box::new(mean.shelving(shelf))),
            TaskMachine::Training(training) => TaskMachine::Training(Box::new(training.shelving(shelf))),
            TaskMachine::Outer(outer) => TaskMachine::Outer(Box::new(outer.shelving(shelf))),
            TaskMachine::Gossip(gossip) => TaskMachine::Gossip(Box::new(gossip.shelving(shelf))),
        }
    }

    fn handle(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        match self {
            TaskMachine::Mean(mean) => mean.handle(now, input),
            TaskMachine::Training(training) => training.handle(now, input),
            TaskMachine::Outer(outer) => outer.handle(now, input),
            TaskMachine::Gossip(gossip) => gossip.handle(now, input),
        }
    }

    /// See [`Run::oversleeps`].
    fn oversleeps(&mut self, missed_ms: u64, now: Time) -> bool {
        match self {
            TaskMachine::Mean(mean) => mean.oversleeps(missed_ms, now),
            TaskMachine::Training(training) => training.oversleeps(missed_ms, now),
            TaskMachine::Outer(outer) => outer.oversleeps(missed_ms, now),
            TaskMachine::Gossip(gossip) => gossip.oversleeps(missed_ms, now),
        }
    }
}

impl Task {
    /// This node's part. `value` is what it contributes first, with its own noise; `noise` draws
    /// the correlated one. See [`Run::new`].
    ///
    /// # Panics
    /// If the party is not in the plan.
    pub fn new(plan: Arc<Plan>, identity: Identity, value: Noisy, noise: Noise, now: Time) -> Self {
        Task {
            computation: TaskMachine::new(plan, identity, value, noise, now),
            clock: TaskClock::new(now),
        }
    }

    /// This node keeps long bodies on a shelf. Called before it is fed anything.
    pub fn shelving(mut self, shelf: &Shelf) -> Self {
        self.computation = self.computation.shelving(shelf);
        self
    }

    /// Takes one input; see [`Run::handle`].
    ///
    /// # Errors
    /// Our caller's mistake; the machine is unchanged.
    pub fn handle(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        let missed_ms = self.clock.missed_ms(now);
        if missed_ms > 0 && self.computation.oversleeps(missed_ms, self.clock.at(now)) {
            self.clock.stand_still(now);
        }
        self.clock.is_fed(now);
        self.computation.handle(self.clock.at(now), input)
    }

    /// The next output; see [`Run::poll_output`].
    pub fn poll_output(&mut self) -> Output {
        let output = match &mut self.computation {
            TaskMachine::Mean(mean) => mean.poll_output(),
            TaskMachine::Training(training) => training.poll_output(),
            TaskMachine::Outer(outer) => outer.poll_output(),
            TaskMachine::Gossip(gossip) => gossip.poll_output(),
        };
        let Output::Wait { until } = output else {
            return output;
        };
        self.clock.is_due(until);
        Output::Wait {
            until: self.clock.when(until),
        }
    }

    /// The release that is under way, or was the last.
    pub fn release(&self) -> &Run {
        match &self.computation {
            TaskMachine::Mean(mean) => mean.release(),
            TaskMachine::Training(training) => training.release(),
            TaskMachine::Outer(outer) => outer.release(),
            TaskMachine::Gossip(gossip) => gossip.release(),
        }
    }

    /// The plan with the schedule that START drew, once it has; else as it was given.
    pub fn plan(&self) -> &Arc<Plan> {
        self.release().plan()
    }

    /// The number of the run that is under way, from 1; a mixing of precomputed noise counts.
    pub fn run_number(&self) -> u32 {
        match &self.computation {
            TaskMachine::Mean(_) | TaskMachine::Outer(_) | TaskMachine::Gossip(_) => 1,
            TaskMachine::Training(training) => training.run_number(),
        }
    }

    /// The number of the release that is under way, from 1; 0 before the first.
    pub fn iteration(&self) -> u32 {
        match &self.computation {
            TaskMachine::Mean(_) => 1,
            TaskMachine::Training(training) => training.iteration(),
            TaskMachine::Outer(outer) => outer.iteration(),
            TaskMachine::Gossip(gossip) => gossip.iteration(),
        }
    }

    /// The rounds of gossip, for whoever checks a simulation.
    pub(crate) fn gossip(&self) -> Option<&GossipRounds> {
        match &self.computation {
            TaskMachine::Gossip(gossip) => Some(gossip.rounds()),
            _ => None,
        }
    }

    /// Returns the parties that the present stage waits for, ascending; see [`Run::awaited`].
    pub fn awaited(&self) -> Vec<Party> {
        match &self.computation {
            TaskMachine::Gossip(_) => vec![],
            _ => self.release().awaited(),
        }
    }

    /// Returns the parties that are in START, once it is here; see [`Run::started`].
    pub fn started(&self) -> Option<&BTreeSet<Party>> {
        match &self.computation {
            TaskMachine::Gossip(_) => None,
            _ => Some(self.release().started()),
        }
    }

    /// Returns the progress of slices; see [`Run::slices`].
    pub fn slices(&self) -> Option<SliceProgress> {
        match &self.computation {
            TaskMachine::Gossip(_) => None,
            _ => self.release().slices(),
        }
    }

    /// Whether this node could still make a key of a mask, read a letter or use noise of releases
    /// to come: for checks.
    pub(crate) fn keeps_secrets(&self) -> bool {
        match &self.computation {
            TaskMachine::Training(training) => training.keeps_secrets(),
            _ => self.release().keeps_secrets(),
        }
    }

    #[cfg(test)]
    pub(super) fn computation(&self) -> &TaskMachine {
        &self.computation
    }

    /// Returns the number of sealed vectors that wait for a round that has not begun here.
    #[cfg(test)]
    pub(crate) fn kept_early(&self) -> usize {
        match &self.computation {
            TaskMachine::Training(training) => training.kept_early(),
            _ => 0,
        }
    }

    /// The secrets that it keeps in memory.
    #[cfg(test)]
    pub(crate) fn held_secrets(&self, held: &mut HeldSecrets) {
        match &self.computation {
            TaskMachine::Training(training) => training.held_secrets(held),
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
        let now = self.clock.at(now);
        let (plan, run) = (self.plan(), &self.plan().draft().run);
        let mixing_ms = u64::from(plan.mixing_rounds()).saturating_mul(run.round_ms);
        let once_ms = mixing_ms.saturating_add(run.settle_ms.saturating_mul(2));
        let deadlines_ms = once_ms.saturating_mul(plan.most_mixings().max(1).into());
        // Averaging takes more than one where somebody holds it up.
        let stages = self.release().publishing_stages();
        let stage = now.plus_millis(run.settle_ms.saturating_mul(stages));
        let end = outcome
            .started_at
            .map_or(stage, |start| start.plus_millis(deadlines_ms).max(stage));
        self.clock.when(end)
    }

    /// Returns the stage that the task is in.
    pub fn progress(&self) -> Progress {
        match &self.computation {
            TaskMachine::Gossip(gossip) => gossip.progress(),
            _ => self.release().progress(),
        }
    }
}
