//! The end of a training: with all iterations, or with what there is.

use crate::messages::stage::Phase;
use crate::run::interface::Output;
use crate::run::machine::Run;
use crate::run::outcome::{Ending, Event, GossipOutcome, MissedMessages, Outcome, TrainingOutcome};
use crate::task::training::Training;
use crate::task::training::record::{MOST_REJECTED, TrainingRecord};
use crate::topology::party::Party;

/// The result of a stream of sums over circles at one node.
pub(super) fn of_circles(training: TrainingOutcome) -> GossipOutcome {
    let rounds = training.iterations as u32;
    let missed = |(party, since): (Party, u64)| {
        let first = since as u32;
        let count = (rounds + 1).saturating_sub(first);
        (party, MissedMessages { first, count })
    };
    GossipOutcome {
        rounds,
        spent: training.spent as u32,
        missed: training.departed.into_iter().map(missed).collect(),
        stopped: training.stopped,
        estimates: training.result.unwrap_or_default(),
    }
}

impl Training {
    /// The training is over: with all iterations, or with what there is.
    pub(super) fn finish(&mut self, outcome: Box<Outcome>) {
        if std::mem::replace(&mut self.record.finished, true) {
            return;
        }
        self.precomputed = None;
        self.run.wipe();
        self.before.iter_mut().for_each(Run::wipe);
        let TrainingRecord {
            corrected,
            rejected,
            unopened,
            departed,
            opened_for,
            spent,
            began,
            last,
            rejected_in_a_row,
            any_of_use,
            ..
        } = std::mem::take(&mut self.record);
        self.record.finished = true;
        let iterations = self.released.sums();
        let stopped = self.why_stopped(&outcome, rejected_in_a_row);
        // With a model it ends as its last opened iteration did, which others may have gone beyond.
        let mut ended = *last.unwrap_or(outcome);
        (ended.started, ended.started_at) = began;
        ended.opened_for = opened_for.into_iter().collect();
        // Others may have gone on from what was agreed then, and hold another model.
        ended.agreed &= stopped.is_none();
        if iterations > 0 {
            let everybody = ended.included.len() == self.plan.parties();
            let whole = everybody && stopped.is_none() && rejected.is_empty() && unopened.is_empty();
            ended.ending = if whole { Ending::Done } else { Ending::Degraded };
        }
        let training = TrainingOutcome {
            iterations,
            mixings: self.mixings,
            spent,
            corrected,
            rejected,
            unopened,
            departed,
            stopped,
            // A model that no sum has moved is nobody's.
            result: self.released.result().filter(|_| any_of_use),
        };
        match self.plan.reads_circles() {
            true => {
                // Its sums are this node's alone, and nobody's log is of shares.
                (ended.logs, ended.verdict, ended.sum) = (None, None, None);
                ended.gossip = Some(Box::new(of_circles(training)));
            }
            false => ended.training = Some(training),
        }
        self.outbox.push_back(Output::Event(Event::Phase(Phase::Done)));
        self.outbox.push_back(Output::Finished(Box::new(ended)));
        self.run.tell_finished();
    }

    /// Returns the reason why the training ends before its last iteration; `None` if it does not.
    fn why_stopped(&self, outcome: &Outcome, rejected_in_a_row: u32) -> Option<String> {
        match &outcome.ending {
            Ending::Aborted { reason } | Ending::Spent { reason } | Ending::Withheld { reason } => {
                Some(reason.clone())
            }
            _ if self.released.sums() == self.plan.draft().releases() => None,
            _ if rejected_in_a_row >= MOST_REJECTED => Some(format!(
                "{MOST_REJECTED} sums in a row were further out than contributions and noise can be; \
                 each has the vectors of {} parties, and under their masks nobody can prove whose was \
                 wrong; plan it again without a party that you do not trust",
                outcome.included.len()
            )),
            _ if outcome.out_of_range => Some(
                "a sum was further out than values and noise can be: somebody lied, and this node went \
                 no further with it"
                    .to_owned(),
            ),
            _ if outcome.unopened.is_empty() => Some("an iteration was not opened".to_owned()),
            _ => {
                let members = &self.plan.draft().members;
                let lacking = outcome.unopened.iter();
                let sentences: Vec<String> = lacking
                    .map(|lacking| lacking.sentence(&members[lacking.party].name))
                    .collect();
                Some(format!("an iteration was not opened: {}", sentences.join("; ")))
            }
        }
    }
}
