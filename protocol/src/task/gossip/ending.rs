//! The end: after the last round, or when this node is told to leave.

use std::collections::BTreeMap;

use crate::messages::stage::Phase;
use crate::mixing::exchange::Tally;
use crate::run::interface::Output;
use crate::run::outcome::{Ending, Event, GossipOutcome, MissedMessages, Outcome};
use crate::task::gossip::{GossipStage, GossipTask};
use crate::topology::party::Party;

impl GossipTask {
    /// It ends, before its last round if there is a reason.
    pub(super) fn finish(&mut self, stopped: Option<String>) {
        self.stage = GossipStage::Over;
        let mut missed: BTreeMap<Party, MissedMessages> = BTreeMap::new();
        for &(round, party) in self.rounds.missed() {
            let of = missed.entry(party).or_insert(MissedMessages {
                first: round,
                count: 0,
            });
            of.count += 1;
        }
        let all_came = stopped.is_none() && missed.is_empty();
        let outcome = Outcome {
            ending: if all_came { Ending::Done } else { Ending::Degraded },
            started: self.run.started().clone(),
            started_at: self.run.started_at(),
            schedule_seed: None,
            records: Default::default(),
            logs: None,
            own_log: None,
            verdict: None,
            included: self.run.started().clone(),
            agreed: false,
            sum: None,
            accuracy: None,
            sealed: None,
            opened_for: vec![],
            unopened: vec![],
            out_of_range: false,
            tally: Tally::default(),
            training: None,
            gossip: Some(Box::new(GossipOutcome {
                rounds: self.rounds.done(),
                spent: self.rounds.spent(),
                missed,
                stopped,
                estimates: self.rounds.estimates().to_vec(),
            })),
        };
        self.event(Event::Phase(Phase::Done));
        self.outbox.push_back(Output::Finished(Box::new(outcome)));
        self.run.tell_finished();
        self.drain();
        self.check_complete();
    }

    /// Nobody needs this node any more once all its neighbours have sent their last message, so
    /// that they have this node's of the round before, and have ended as well: the last one may be
    /// lost with a connection, and goes out again on the next. Who left early is missed anyway.
    pub(super) fn check_complete(&mut self) {
        let ended = self.stage == GossipStage::Over && self.run.has_handed_over();
        let early = !self.rounds.over();
        if ended && !self.complete && (early || (self.rounds.all_have_ended() && self.run.is_complete())) {
            self.complete = true;
            self.event(Event::Complete);
        }
    }
}
