//! A training: a sequence of sums, each of what the parties contribute once they have seen the
//! earlier ones. Sums of gradients make a model; of what programs hand over each is a mean.
//!
//! Iteration k is one [`Run`], the first one with gathering and START, each later one the
//! [successor](Run::successor) of the one before, of those whose contributions are in that one's
//! sum. Where noise is precomputed, one run before them all mixes that of all iterations; it has
//! START then, and no value is touched before it is over: whatever goes wrong in it has told
//! nothing, and where it was in vain another one may follow. Everybody who opens a sum comes to the
//! same model or mean, to the bit. What is said in a later run is signed for a digest that has it
//! in it: who came to another one is not understood.
//!
//! Nothing of iteration k + 1 leaves a node before k is open there, or all have agreed that it is
//! not. There is no second attempt at an iteration. Where one is not opened since somebody's secret
//! is lacking, it counts as spent, and the next one is without that party; where nothing is agreed
//! the training ends, with what there is so far.

mod ending;
mod mixing_again;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::agreement::shelf::Shelf;
use crate::messages::log::ShareId;
use crate::messages::signature::Digest;
use crate::messages::stage::Phase;
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::{Noise, SharedNoise};
use crate::mixing::precomputed::PrecomputedNoise;
use crate::plan::checked::Plan;
use crate::run::interface::{Input, InputError, Output};
#[cfg(test)]
use crate::run::machine::held::HeldSecrets;
use crate::run::machine::{Identity, Run};
use crate::run::outcome::{Ending, Event, Outcome, SealedFinal};
use crate::task::released::Released;
use crate::task::training::record::{MOST_REJECTED, TrainingRecord};
use crate::time::Time;
use crate::topology::party::Party;

/// Frames of the next iteration that wait until the present one is open here: so many of each
/// neighbour, as bytes and as frames. What is beyond is asked for again once it is. Our choice.
const EARLY_BYTES: usize = 1 << 20;
const EARLY_FRAMES: usize = 4096;

/// One node's part in a training.
pub struct Training {
    plan: Arc<Plan>,
    released: Released,
    /// This node's first contribution, kept while noise is precomputed.
    first: Option<Noisy>,
    /// The number of the run that is under way, from 1.
    number: u32,
    run: Run,
    /// The run before, for those who have not come to its end yet.
    before: Option<Run>,
    shelf: Option<Shelf>,
    /// The run that is opened, while its pace lets the next one wait, and until when.
    paced: Option<(Time, Box<Outcome>)>,
    /// The number of runs that have precomputed noise, the present one included: 0 where it is not.
    mixings: u32,
    /// Noise of the iterations to come, where it was mixed before them.
    precomputed: Option<PrecomputedNoise>,
    /// The noise source of a further mixing, as long as there may be one.
    noise: Option<SharedNoise>,
    /// The digests of mixings that were in vain.
    vain: Vec<Digest>,
    /// Shares of the next mixing, from neighbours who have begun it: one of each round that a
    /// neighbour owes, for whoever is owed nothing goes on without this node.
    early_shares: BTreeMap<ShareId, Bytes>,
    /// The messages of neighbours for the next run that came early.
    early: BTreeMap<Party, Vec<Bytes>>,
    /// The vectors that neighbours have sealed for this node in the next round already.
    early_sealed: BTreeMap<Party, Bytes>,
    record: TrainingRecord,
    outbox: VecDeque<Output>,
}

/// Returns the digest for all messages of a later run: the plan, the run's number, and the values
/// that its contributions are computed from.
fn digest_of(plan: &Plan, number: u32, released: &[f64]) -> Digest {
    let mut coordinates = Sha256::new();
    released
        .iter()
        .for_each(|coordinate| coordinates.update(coordinate.to_le_bytes()));
    let mut hash = Sha256::new();
    hash.update(b"undertone/iteration/1\0");
    hash.update(plan.digest());
    hash.update(number.to_le_bytes());
    hash.update(coordinates.finalize());
    hash.finalize().into()
}

impl Training {
    /// This node's part; `value` is its first contribution, with its own noise.
    pub(super) fn new(plan: Arc<Plan>, identity: Identity, value: Noisy, noise: Noise, now: Time) -> Self {
        let (mixed, first) = if plan.precomputes_noise() {
            let nothing = plan.lattice().zeros(plan.mixed_coordinates());
            (Noisy::with_noise_in(nothing), Some(value))
        } else {
            (value, None)
        };
        let (noise, again): (Noise, _) = match plan.most_mixings() {
            0 | 1 => (noise, None),
            _ => {
                let shared = SharedNoise::of(noise);
                (Box::new(shared.clone()), Some(shared))
            }
        };
        let mut training = Training {
            mixings: u32::from(plan.precomputes_noise()),
            precomputed: None,
            noise: again,
            vain: vec![],
            early_shares: BTreeMap::new(),
            run: Run::new(plan.clone(), identity, mixed, noise, now),
            released: Released::before(&plan),
            plan,
            first,
            number: 1,
            before: None,
            shelf: None,
            paced: None,
            early: BTreeMap::new(),
            early_sealed: BTreeMap::new(),
            record: TrainingRecord::default(),
            outbox: VecDeque::new(),
        };
        training.drain(now);
        training
    }

    pub(super) fn shelving(mut self, shelf: &Shelf) -> Self {
        self.shelf = Some(shelf.clone());
        self.run = self.run.shelving(shelf);
        self
    }

    pub(super) fn handle(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        match input {
            Input::Connected { .. }
            | Input::Disconnected { .. }
            | Input::Unreachable { .. }
            | Input::Refused { .. }
            | Input::Declined { .. }
            | Input::Unanswered { .. } => {
                self.run.handle(now, input.clone())?;
                self.feed_before(now, input);
            }
            Input::Tick => {
                self.run.handle(now, Input::Tick)?;
                self.feed_before(now, Input::Tick);
            }
            Input::Public { from, frame } => self.receive(now, from, &frame)?,
            Input::Private { from, frame } => self.receive_private(now, from, frame)?,
            Input::Contribution { iteration, value } => {
                if iteration != self.iteration() || !self.run.awaits_value() {
                    return Err(InputError::NotAsked("Contribution"));
                }
                let value = self.released.with_state(&self.plan, value.into_vector());
                let value = Noisy::with_noise_in(value);
                self.run.handle(now, Input::Contribution { iteration, value })?;
            }
            Input::Leave if self.paced.is_some() => self.leave_between(),
            input @ (Input::Left { .. } | Input::Recalled(_)) => self.hear_of_shares(now, input)?,
            input => self.run.handle(now, input)?,
        }
        self.drain(now);
        if self.paced.as_ref().is_some_and(|(until, _)| now >= *until)
            && let Some((_, outcome)) = self.paced.take()
        {
            self.go_on(now, outcome);
            self.drain(now);
        }
        Ok(())
    }

    pub(super) fn oversleeps(&mut self, missed_ms: u64, now: Time) -> bool {
        self.run.oversleeps(missed_ms, now)
    }

    fn feed_before(&mut self, now: Time, input: Input) {
        if let Some(before) = &mut self.before {
            // What the present run takes, the one before takes, too.
            let _ = before.handle(now, input);
        }
    }

    fn receive(&mut self, now: Time, from: Party, outer: &Bytes) -> Result<(), InputError> {
        let Ok((number, frame)) = wire::of_iteration(outer) else {
            // The run tells of the offence.
            let frame = outer.clone();
            return self.run.handle(now, Input::Public { from, frame });
        };
        if number == self.number {
            return self.run.handle(now, Input::Public { from, frame });
        }
        if number.checked_add(1) == Some(self.number) {
            self.feed_before(now, Input::Public { from, frame });
        } else if Some(number) == self.number.checked_add(1) {
            self.run.has_gone_on(from);
            let early = self.early.entry(from).or_default();
            let bytes: usize = early.iter().map(Bytes::len).sum();
            if early.len() < EARLY_FRAMES && bytes + frame.len() <= EARLY_BYTES {
                early.push(frame);
            }
        }
        Ok(())
    }

    fn receive_private(&mut self, now: Time, from: Party, frame: Bytes) -> Result<(), InputError> {
        if self.plan.reads_circles() {
            return self.receive_of_circle(now, from, frame);
        }
        if self.plan.precomputes_noise() {
            return self.receive_of_mixing(now, from, frame);
        }
        self.run.handle(now, Input::Private { from, frame })
    }

    /// Takes in sealed vectors and their answers; one of each neighbour for the next round waits,
    /// and those of other rounds come too late.
    fn receive_of_circle(&mut self, now: Time, from: Party, frame: Bytes) -> Result<(), InputError> {
        let (round, digest) = match wire::read_private(&frame) {
            Ok(PrivateFrame::Sealed { id, .. }) => (Some(id.round), None),
            Ok(PrivateFrame::Answer { digest, .. }) => (None, Some(digest)),
            // The run tells of the offence.
            _ => (Some(self.number), None),
        };
        let next = round.is_some() && round == self.number.checked_add(1);
        if next {
            self.early_sealed.insert(from, frame);
        } else if round == Some(self.number) || digest == Some(*self.run.digest()) {
            return self.run.handle(now, Input::Private { from, frame });
        }
        Ok(())
    }

    /// The next output; see [`Run::poll_output`].
    pub(super) fn poll_output(&mut self) -> Output {
        self.outbox.pop_front().unwrap_or_else(|| {
            let until = |run: &mut Run| match run.poll_output() {
                Output::Wait { until } => until,
                // Runs are drained whenever they were fed.
                _ => Time::ZERO,
            };
            let before = self.before.as_mut().map_or(Time::FAR, until);
            let paced = self.paced.as_ref().map_or(Time::FAR, |(until, _)| *until);
            Output::Wait {
                until: until(&mut self.run).min(before).min(paced),
            }
        })
    }

    /// Takes what the runs want, and goes on to the next iteration where one has ended.
    fn drain(&mut self, now: Time) {
        if let Some(mut before) = self.before.take() {
            self.take(&mut before, self.number - 1);
            self.before = Some(before);
        }
        loop {
            let mut ended = None;
            loop {
                match self.run.poll_output() {
                    Output::Wait { .. } => break,
                    Output::Finished(outcome) => ended = Some(outcome),
                    output => self.pass_on(output, self.number),
                }
            }
            match ended {
                Some(outcome) if !self.record.finished => self.ended(now, outcome),
                _ => return,
            }
        }
    }

    fn take(&mut self, run: &mut Run, number: u32) {
        loop {
            match run.poll_output() {
                Output::Wait { .. } => return,
                output => self.pass_on(output, number),
            }
        }
    }

    /// An output of a run, as the training's.
    fn pass_on(&mut self, output: Output, number: u32) {
        let output = match self.with_attempt(output, number) {
            Output::Public { to, frame } if number > 1 => Output::Public {
                to,
                frame: wire::iteration_frame(number, &frame),
            },
            Output::Event(Event::Phase(phase)) if !self.is_reported(number, phase) => return,
            output => output,
        };
        self.outbox.push_back(output);
    }

    /// Whether a phase of a run is one of the training's: it has each once, of later iterations
    /// their numbers are told; and it is done once.
    fn is_reported(&self, number: u32, phase: Phase) -> bool {
        match phase {
            Phase::Done => false,
            // Nothing is published by a run that precomputes noise.
            Phase::Publishing => number == 1 + self.mixings,
            _ => number <= self.mixings.max(1),
        }
    }

    /// The noise of all iterations is mixed, or the training ends before any value was touched.
    fn mixed(&mut self, now: Time, mut outcome: Box<Outcome>) {
        if self.record.began.1.is_none() {
            self.record.began = (outcome.started.clone(), outcome.started_at);
        }
        if let Ending::Withheld { reason } = &outcome.ending
            && self.mixes_again(now, &outcome, &reason.clone())
        {
            return;
        }
        // Nobody is to draw again what hides contributions.
        self.noise = None;
        self.early_shares.clear();
        if let Ending::Withheld { reason } = outcome.ending {
            let reason = format!("{reason}; no value was touched, and another plan costs nothing");
            outcome.ending = Ending::Aborted { reason };
        }
        if outcome.ending != Ending::Done {
            (outcome.logs, outcome.verdict) = (None, None);
            return self.finish(outcome);
        }
        let parties = 0..self.plan.parties();
        let excluded = parties.filter(|party| !outcome.included.contains(party));
        self.record.departed.extend(excluded.map(|party| (party, 1)));
        self.precomputed = self.run.take_noise();
        self.go_on(now, outcome);
    }

    /// A run is over for this node: the next one begins, or the training ends.
    fn ended(&mut self, now: Time, outcome: Box<Outcome>) {
        if self.run.precomputes_noise() {
            return self.mixed(now, outcome);
        }
        let iteration = u64::from(self.iteration());
        let me_included = outcome.sealed == Some(SealedFinal::Opened);
        if self.number == 1 {
            self.record.began = (outcome.started.clone(), outcome.started_at);
        }
        if outcome.sealed.is_some_and(|sealed| sealed != SealedFinal::Closed) {
            self.record.spent += 1;
        }
        self.record.opened_for.extend(&outcome.opened_for);
        if self.run.goes_on_without_sum() {
            return self.passed_over(now, iteration, outcome);
        }
        let usable = outcome.sum.is_some() || (outcome.out_of_range && !self.plan.reads_circles());
        let opened = me_included && usable;
        if !opened {
            return self.finish(outcome);
        }
        let expected: BTreeSet<Party> = match self.number {
            1 => (0..self.plan.parties()).collect(),
            _ => self.run.started().clone(),
        };
        let excluded: Vec<Party> = expected.difference(&outcome.included).copied().collect();
        if self.run.started() != &outcome.included {
            self.record.corrected.push(iteration);
        }
        excluded.iter().for_each(|&party| {
            self.record.departed.insert(party, iteration);
        });
        match &outcome.sum {
            Some(sum) => {
                self.released.take(&self.plan, sum);
                (self.record.any_of_use, self.record.rejected_in_a_row) = (true, 0);
            }
            None => {
                self.record.rejected.push(iteration);
                self.record.rejected_in_a_row += 1;
                self.released.stay();
            }
        }
        self.outbox.push_back(Output::Event(Event::Iteration(iteration)));
        self.record.last = Some(outcome.clone());
        let corrupted = self.record.rejected_in_a_row >= MOST_REJECTED;
        if iteration >= self.plan.draft().releases() || corrupted {
            return self.finish(outcome);
        }
        self.go_on_in_time(now, iteration, outcome);
    }

    /// The sum of an iteration is not opened, and the next one is without whose secrets lacked:
    /// what there was stays, as with a sum that is of no use.
    fn passed_over(&mut self, now: Time, iteration: u64, outcome: Box<Outcome>) {
        let lacking: Vec<Party> = outcome.unopened.iter().map(|it| it.party).collect();
        let expected = match self.number {
            1 => (0..self.plan.parties()).collect(),
            _ => self.run.started().clone(),
        };
        let excluded = expected.difference(&outcome.included);
        self.record
            .departed
            .extend(excluded.map(|&party| (party, iteration)));
        self.record.unopened.insert(iteration, lacking);
        self.released.stay();
        self.go_on_in_time(now, iteration, outcome);
    }

    /// Begins the next iteration, once its pace lets it.
    fn go_on_in_time(&mut self, now: Time, iteration: u64, outcome: Box<Outcome>) {
        match self.next_begins(iteration) {
            next if now < next => self.paced = Some((next, outcome)),
            _ => self.go_on(now, outcome),
        }
    }

    /// Returns the moment when the iteration after this one begins at the earliest: a round of a
    /// stream lasts as long as its pace says.
    fn next_begins(&self, iteration: u64) -> Time {
        let pace_ms = match self.plan.draft().computation.stream().is_some() {
            true => self.plan.draft().run.pace_ms,
            false => 0,
        };
        let start = self.record.began.1.unwrap_or(Time::ZERO);
        start.plus_millis(pace_ms.saturating_mul(iteration))
    }

    /// This node is told to leave while it waits for the next round.
    fn leave_between(&mut self) {
        if let Some((_, mut outcome)) = self.paced.take() {
            outcome.ending = Ending::Aborted {
                reason: "this node was told to leave".into(),
            };
            self.finish(outcome);
        }
    }

    fn go_on(&mut self, now: Time, outcome: Box<Outcome>) {
        let next = self.number + 1;
        let members: Vec<f64> = outcome.included.iter().map(|&party| party as f64).collect();
        let common = match self.plan.reads_circles() {
            // States differ: what all have in common is whose messages are in them.
            true => &members,
            false => self.released.latest(),
        };
        let digest = digest_of(&self.plan, next, common);
        let noise = self.precomputed.as_mut().map(PrecomputedNoise::take_next);
        if noise.as_ref().is_some_and(Option::is_none) {
            return self.finish(outcome);
        }
        let Some(mut run) = self.run.successor(digest, noise.flatten()) else {
            return self.finish(outcome);
        };
        if let Some(shelf) = &self.shelf {
            run = run.shelving(shelf);
        }
        self.before = Some(std::mem::replace(&mut self.run, run));
        self.number = next;
        self.ask(now);
        self.feed_early(now);
        for (from, frame) in std::mem::take(&mut self.early_sealed) {
            let _ = self.run.handle(now, Input::Private { from, frame });
        }
    }

    fn feed_early(&mut self, now: Time) {
        for (from, frames) in std::mem::take(&mut self.early) {
            for frame in frames {
                // A peer's frame is never an error.
                let _ = self.run.handle(now, Input::Public { from, frame });
            }
        }
    }

    /// Asks for this node's contribution to the iteration that begins. The first one is there.
    fn ask(&mut self, now: Time) {
        let iteration = self.iteration();
        match self.first.take() {
            Some(value) => self
                .run
                .handle(now, Input::Contribution { iteration, value })
                .expect("a run that has just begun awaits its value"),
            None => self.outbox.push_back(Output::Contribute {
                iteration,
                released: self.released.latest().into(),
            }),
        }
    }

    /// The iteration that is under way, or was the last.
    pub(super) fn release(&self) -> &Run {
        &self.run
    }

    /// Returns the values that the present iteration's contributions are computed from.
    pub fn released_before(&self) -> &[f64] {
        self.released.latest()
    }

    /// The number of the present iteration, from 1; 0 while noise is precomputed.
    pub fn iteration(&self) -> u32 {
        self.number - self.mixings
    }

    pub(super) fn keeps_secrets(&self) -> bool {
        let mut runs = self.before.iter().chain([&self.run]);
        self.precomputed.is_some() || runs.any(Run::keeps_secrets)
    }

    #[cfg(test)]
    pub(super) fn kept_early(&self) -> usize {
        self.early_sealed.len() + self.run.early().len()
    }

    #[cfg(test)]
    pub(super) fn held_secrets(&self, held: &mut HeldSecrets) {
        let runs = self.before.iter().chain([&self.run]);
        runs.for_each(|run| run.held_secrets(held));
    }

    /// The number of the present run, from 1; a mixing of precomputed noise counts.
    pub fn run_number(&self) -> u32 {
        self.number
    }
}
