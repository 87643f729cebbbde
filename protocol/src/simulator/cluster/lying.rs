//! What really leaves a node, where that is not what its machine wants to send.

use super::*;
use crate::simulator::equivocator;

/// A frame that is to travel.
#[cfg(test)]
pub(super) struct Sending<'f> {
    pub(super) network: Network,
    pub(super) from: Party,
    pub(super) to: Party,
    pub(super) frame: &'f Arc<[u8]>,
}

/// What becomes of it.
#[cfg(test)]
pub(super) enum Sent {
    /// It travels as it is.
    AsItIs,
    /// This travels in its place.
    Instead(Arc<[u8]>),
    /// These arrive later than the usual, by so many milliseconds, past what is sent meanwhile; of
    /// none nothing ever does.
    Later(Vec<(u64, Arc<[u8]>)>),
}

/// What a test makes of each frame.
#[cfg(test)]
pub(super) type Wire<'a> = Box<dyn FnMut(&Sending<'_>) -> Sent + 'a>;

impl Simulation<'_> {
    /// What a party sends when its machine wants this sent: the same, unless it lies.
    pub(super) fn really_sent(&self, party: Party, to: Party, frame: Arc<[u8]>) -> Option<Arc<[u8]>> {
        if self.conditions.false_reveal == Some(party) {
            return Some(equivocator::with_false_reveal(party, self.plan.digest(), frame));
        }
        let frame = match self.conditions.telling {
            Some((liar, telling)) if liar == party => telling.frame(party, self.plan.digest(), frame)?,
            _ => frame,
        };
        let frame = self.other_word(party, to, frame)?;
        let equivocation = self
            .conditions
            .equivocation
            .as_ref()
            .filter(|equivocation| equivocation.party == party);
        match equivocation.and_then(|it| Some((it, self.nodes[party].task.release().item(it.stage, party)?)))
        {
            Some((equivocation, item)) => {
                let schedule = self.nodes[party].task.plan().exchanges();
                Some(equivocation.frame((self.plan.digest(), schedule), &item, to, frame))
            }
            None => Some(frame),
        }
    }

    pub(super) fn other_word(&self, party: Party, to: Party, frame: Arc<[u8]>) -> Option<Arc<[u8]>> {
        match &self.conditions.other_word {
            Some((liar, word)) if *liar == party => word.frame(party, self.plan.digest(), to, frame),
            _ => Some(frame),
        }
    }

    /// What travels now of a frame, by the word of a test.
    #[cfg(test)]
    pub(super) fn on_the_wire(
        &mut self,
        (network, epoch): (Network, u64),
        (from, to): (Party, Party),
        frame: Arc<[u8]>,
    ) -> Option<Arc<[u8]>> {
        let Some(wire) = &mut self.wire else {
            return Some(frame);
        };
        let sending = Sending {
            network,
            from,
            to,
            frame: &frame,
        };
        match wire(&sending) {
            Sent::AsItIs => Some(frame),
            Sent::Instead(other) => Some(other),
            Sent::Later(frames) => {
                for (ms, frame) in frames {
                    let at = self.after_latency().plus_millis(ms);
                    let late = Occurrence::Deliver {
                        network,
                        from,
                        to,
                        epoch,
                        frame,
                    };
                    self.schedule(at, late);
                }
                None
            }
        }
    }
}
