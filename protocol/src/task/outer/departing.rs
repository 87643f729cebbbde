//! The end: after the last outer iteration, or with somebody who is waited for gone.

use crate::messages::notice::Network;
use crate::messages::stage::Phase;
use crate::mixing::exchange::Tally;
use crate::run::interface::{Input, Output};
use crate::run::outcome::{Ending, Event, Outcome, TrainingOutcome};
use crate::task::outer::{Outer, OuterStage};
use crate::time::Time;
use crate::topology::party::Party;

impl Outer {
    /// Notes who is there and who is not; who is there again gets what it may lack.
    pub(super) fn notice_edge(&mut self, input: &Input) {
        match *input {
            Input::Connected { network, peer } => {
                self.unreachable.remove(&peer);
                self.connected.insert((network, peer));
                match network {
                    Network::Private => self.send_shares_again(peer),
                    Network::Public => self.send_rounds_again(peer),
                }
            }
            Input::Disconnected { network, peer } => {
                self.connected.remove(&(network, peer));
            }
            Input::Unreachable { peer } => {
                self.unreachable.insert(peer);
            }
            _ => {}
        }
    }

    /// Returns the parties that this node waits for.
    fn waits_for(&self) -> Vec<Party> {
        match &self.stage {
            OuterStage::Gossip(phase) => phase.waits_for(self.me).into_iter().collect(),
            OuterStage::Averaging => self.rounds.waits_for().collect(),
            OuterStage::Gathering | OuterStage::Stepping | OuterStage::Over => vec![],
        }
    }

    /// Returns the moment when nobody is waited for any longer: a silence as long as a round and a
    /// stage take.
    pub(super) fn patience_ends(&self) -> Time {
        let run = &self.plan.draft().run;
        match self.waits_for()[..] {
            [] => Time::FAR,
            _ => self.moved.plus_millis(run.round_ms.saturating_add(run.settle_ms)),
        }
    }

    pub(super) fn look_for_departed(&mut self, now: Time) {
        let name = |party: Party| self.plan.draft().members[party].name.clone();
        let awaited = self.waits_for();
        if let Some(&party) = awaited.iter().find(|party| self.unreachable.contains(party)) {
            self.depart(format!("{} is gone", name(party)));
        } else if let Some(&party) = awaited.first()
            && now >= self.patience_ends()
        {
            self.depart(format!("{} was waited for in vain", name(party)));
        }
    }

    /// It ends before its last outer iteration.
    pub(super) fn depart(&mut self, reason: String) {
        self.finish(Some(reason));
    }

    pub(super) fn finish(&mut self, stopped: Option<String>) {
        self.stage = OuterStage::Over;
        let everybody = stopped.is_none();
        if everybody {
            self.tell_end();
        }
        let outcome = Outcome {
            ending: if everybody { Ending::Done } else { Ending::Degraded },
            started: self.run.started().clone(),
            started_at: self.run.started_at(),
            schedule_seed: None,
            records: Default::default(),
            logs: None,
            own_log: None,
            verdict: None,
            included: self.run.started().clone(),
            agreed: everybody,
            sum: None,
            accuracy: None,
            sealed: None,
            opened_for: vec![],
            unopened: vec![],
            out_of_range: false,
            tally: Tally::default(),
            training: Some(TrainingOutcome {
                mixings: 0,
                iterations: self.done,
                // Of the one under way states have left, or may have.
                spent: self.done + u64::from(!everybody),
                corrected: vec![],
                rejected: vec![],
                unopened: Default::default(),
                departed: Default::default(),
                stopped,
                result: Some(self.iterate.to_f64(self.plan.lattice().step())),
            }),
            gossip: None,
        };
        self.phase(Phase::Done);
        self.outbox.push_back(Output::Finished(Box::new(outcome)));
        self.check_complete();
    }

    /// Nobody needs this node any more once all its neighbours have ended, or it was not to the end
    /// itself.
    pub(super) fn check_complete(&mut self) {
        let ended = matches!(self.stage, OuterStage::Over) && self.run.has_handed_over();
        let early = self.done < self.settings().iterations;
        if ended && !self.complete && (early || self.all_have_ended()) {
            self.complete = true;
            self.outbox.push_back(Output::Event(Event::Complete));
        }
    }
}
