//! A run is a function of identity, value, noise, and inputs with their times: what a node was told
//! is told again to a new machine, which says the same.

use crate::messages::log::ShareId;
use crate::mixing::noisy::Noisy;
use crate::mixing::ticket::Recalled;
use crate::simulator::cluster::tests::{inputs, plan};
use crate::simulator::cluster::*;

/// The inputs and outputs of a node, in order.
#[derive(Clone, Default)]
pub(super) struct Journal(Vec<Line>, Vec<SeenFrame>);

#[derive(Clone)]
enum Line {
    Handled(Time, Input),
    /// An output, in writing.
    Said(String),
}

/// The visible facts of an encrypted frame that a node sends or gets, for an eavesdropper.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenFrame {
    /// When the node was last told something.
    at: Time,
    other: Party,
    sent: bool,
    bytes: usize,
}

impl Journal {
    pub(super) fn handled(&mut self, now: Time, input: &Input) {
        if let Input::Public { from, frame } | Input::Private { from, frame } = input {
            self.see(now, (*from, false), frame.len());
        }
        self.0.push(Line::Handled(now, input.clone()));
    }

    pub(super) fn said(&mut self, output: &Output) {
        if let Output::Public { to, frame } | Output::Private { to, frame, .. } = output {
            let last = self.0.iter().rev().find_map(|line| match line {
                Line::Handled(at, _) => Some(*at),
                Line::Said(_) => None,
            });
            self.see(last.unwrap_or(Time::ZERO), (*to, true), frame.len());
        }
        self.0.push(Line::Said(written(output)));
    }

    fn see(&mut self, at: Time, (other, sent): (Party, bool), bytes: usize) {
        self.1.push(SeenFrame {
            at,
            other,
            sent,
            bytes,
        });
    }

    /// All frames that it sent and got, in order.
    pub(super) fn frames(&self) -> Vec<SeenFrame> {
        self.1.clone()
    }

    fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.0.iter().filter_map(|line| match line {
            Line::Handled(_, input) => Some(input),
            Line::Said(_) => None,
        })
    }

    /// Tells it all to a new machine. The first output that is another one, if there is one.
    fn replay(&self, mut task: Task) -> Option<String> {
        for line in &self.0 {
            match line {
                Line::Handled(now, input) => {
                    if let Err(error) = task.handle(*now, input.clone()) {
                        return Some(error.to_string());
                    }
                }
                Line::Said(before) => {
                    let again = written(&task.poll_output());
                    if again != *before {
                        return Some(format!("{before}\n{again}"));
                    }
                }
            }
        }
        None
    }
}

/// Every byte of an output: what has no values when it is printed is spelt out.
fn written(output: &Output) -> String {
    let sum = match output {
        Output::Finished(outcome) => outcome
            .sum
            .as_ref()
            .map(|sum| (sum.value.steps().collect::<Vec<i128>>(), sum.weight.0)),
        _ => None,
    };
    format!("{output:?} {sum:?}")
}

fn fresh(plan: &Arc<Plan>, seed: u64, party: Party) -> Task {
    let mut value = inputs(plan)[party].clone();
    let noise = noise_of(plan, seed, party, &mut value);
    let identity = identity_of(seed, party);
    Task::new(
        plan.clone(),
        identity,
        Noisy::with_noise_in(value),
        Box::new(noise),
        Time::ZERO,
    )
}

/// Recorded with a party that is killed, and connections that break while shares are queued or on
/// their way and come back.
fn recorded(plan: &Arc<Plan>, seed: u64) -> (Vec<Journal>, Report) {
    let at = |ms: u64| Time::from_millis(ms + 13 * seed);
    let cut = |ends: (Party, Party), ms: u64| Fault::Cut {
        network: Network::Private,
        ends,
        at: at(ms),
        for_ms: 150,
    };
    let edges = (0..4).flat_map(|one| (one + 1..4).map(move |other| (one, other)));
    let cuts = (0..).map(|nth| 60 + 17 * nth).zip(edges);
    let mut faults: Vec<Fault> = cuts.map(|(ms, ends)| cut(ends, ms)).collect();
    faults.push(Fault::Crash {
        party: 4,
        at: at(200),
    });
    let mut conditions = Conditions::new(seed).with_faults(faults);
    conditions.latency_us = (1_000, 30_000);
    let mut simulation = Simulation::new(plan.clone(), inputs(plan), &permissive_gate, conditions);
    // What was said at the start was said already; it is the same for every machine.
    simulation.journals = vec![Journal::default(); plan.parties()];
    simulation.play();
    let journals = std::mem::take(&mut simulation.journals);
    (journals, simulation.finish())
}

#[test]
fn a_recorded_run_is_replayed_byte_for_byte() {
    let plan = plan(5, "[run]\nround_ms = 160\npace_ms = 0", 4);
    let (mut late, mut unreachable, mut left, mut back, mut again) = (0, 0, 0, 0, 0);
    for seed in 0..16 {
        let (journals, report) = recorded(&plan, seed);
        assert_eq!(report.violations, []);
        for (party, journal) in journals.iter().enumerate() {
            let replayed = journal.replay(started(&plan, seed, party));
            assert_eq!(replayed, None, "party {party}, seed {seed}");
            for input in journal.inputs() {
                match input {
                    Input::Unreachable { .. } => unreachable += 1,
                    Input::Left { .. } => left += 1,
                    Input::Recalled(recalled) => back += recalled.back.len(),
                    Input::Disconnected {
                        network: Network::Private,
                        ..
                    } => again += 1,
                    _ => {}
                }
            }
        }
        let logs = report
            .outcomes
            .iter()
            .flatten()
            .filter_map(|it| it.own_log.as_ref());
        let received = logs.flat_map(|log| &log.received);
        late += received.filter(|entry| entry.applied > entry.round).count();
    }
    let seen = [late, unreachable, left, back, again];
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

/// A machine that has said what it says at the start.
fn started(plan: &Arc<Plan>, seed: u64, party: Party) -> Task {
    let mut task = fresh(plan, seed, party);
    while !matches!(task.poll_output(), Output::Wait { .. }) {}
    task
}

/// The answers about shares are inputs like others: with another one it is another run.
#[test]
fn a_journal_with_another_answer_is_another_run() {
    let plan = plan(5, "[run]\nround_ms = 160\npace_ms = 0", 4);
    let turned = |journal: &Journal| {
        let mut found = false;
        let lines = journal.0.iter().map(|line| match line {
            Line::Handled(now, Input::Recalled(Recalled { left, back })) if !back.is_empty() => {
                found = true;
                let left: Vec<ShareId> = left.iter().chain(back).copied().collect();
                Line::Handled(*now, Input::Recalled(Recalled { left, back: vec![] }))
            }
            other => other.clone(),
        });
        let lines = lines.collect();
        found.then_some(Journal(lines, vec![]))
    };
    let without = |journal: &Journal| {
        let is_left = |line: &&Line| matches!(line, Line::Handled(_, Input::Left { .. }));
        let lines = journal.0.iter().filter(|line| !is_left(line));
        Journal(lines.cloned().collect(), vec![])
    };
    let mut answers = 0;
    for seed in 0..16 {
        let (journals, _) = recorded(&plan, seed);
        for (party, journal) in journals.iter().enumerate().take(4) {
            if let Some(other) = turned(journal) {
                answers += 1;
                assert!(other.replay(started(&plan, seed, party)).is_some());
            }
            assert!(without(journal).replay(started(&plan, seed, party)).is_some());
        }
    }
    assert!(answers > 0);
}
