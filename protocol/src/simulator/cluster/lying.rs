//! The frames that really leave a node, where its machine wants to send others.

use super::*;
use crate::messages::notice::Notice;
use crate::messages::wire::PublicFrame;
use crate::simulator::equivocator::{self, Revealing};

/// A frame that is to travel.
#[cfg(test)]
pub(super) struct Sending<'f> {
    pub(super) network: Network,
    pub(super) from: Party,
    pub(super) to: Party,
    pub(super) frame: &'f Arc<[u8]>,
}

/// The fate of a frame.
#[cfg(test)]
pub(super) enum Sent {
    /// It travels as it is.
    AsItIs,
    /// This travels in its place.
    Replaced(Arc<[u8]>),
    /// These arrive later than the usual, by so many milliseconds, past what is sent meanwhile; of
    /// none nothing ever does.
    Later(Vec<(u64, Arc<[u8]>)>),
}

/// The hook that decides the fate of each frame.
#[cfg(test)]
pub(super) type Wire<'a> = Box<dyn FnMut(&Sending<'_>) -> Sent + 'a>;

impl Simulation<'_> {
    /// Returns the frame that a party sends when its machine wants this sent: unchanged, unless it
    /// lies. In the later runs of a training or stream it lies as in the first.
    pub(super) fn really_sent(&self, party: Party, to: Party, frame: Arc<[u8]>) -> Option<Arc<[u8]>> {
        if self.liar != Some(party) {
            return Some(frame);
        }
        let outer = Bytes::from_owner(frame.clone());
        match wire::of_iteration(&outer).expect("our own frame") {
            (1, _) => self.really_said(party, to, frame),
            (number, _) if number != self.nodes[party].task.run_number() => Some(frame),
            (number, inner) => {
                let said = self.really_said(party, to, Arc::from(&inner[..]))?;
                Some(wire::iteration_frame(number, &said))
            }
        }
    }

    fn really_said(&self, party: Party, to: Party, frame: Arc<[u8]>) -> Option<Arc<[u8]>> {
        let release = self.nodes[party].task.release();
        let digest = release.digest();
        if self.conditions.false_reveal == Some(party) {
            return Some(equivocator::with_false_reveal(party, digest, frame));
        }
        let frame = match self.conditions.revealing {
            Some((liar, revealing)) if liar == party => revealing.frame(party, digest, frame)?,
            _ => frame,
        };
        let frame = self.other_word(party, to, frame)?;
        let equivocation = self.conditions.equivocation.as_ref();
        Some(
            match equivocation.filter(|equivocation| equivocation.party == party) {
                Some(equivocation) => {
                    let schedule = release.log_schedule();
                    equivocation.frame((digest, schedule), |stage| release.item(stage, party), to, frame)
                }
                None => frame,
            },
        )
    }

    pub(super) fn other_word(&self, party: Party, to: Party, frame: Arc<[u8]>) -> Option<Arc<[u8]>> {
        match &self.conditions.other_word {
            Some((liar, word)) if *liar == party => {
                word.frame(party, self.nodes[party].task.release().digest(), to, frame)
            }
            _ => Some(frame),
        }
    }

    /// Holds back a frame with a secret of whoever tells it late. True: it is on its way.
    pub(super) fn revealed_late(&mut self, party: Party, to: Party, frame: &Arc<[u8]>) -> bool {
        let Some((liar, Revealing::Late(ms))) = self.conditions.revealing else {
            return false;
        };
        let inner = wire::of_iteration(&Bytes::from_owner(frame.clone()));
        let is_key = inner.is_ok_and(|(_, inner)| match wire::read_public(&inner) {
            Ok(PublicFrame::Notice(signed)) => {
                signed.author == party && matches!(signed.notice, Notice::Key { .. })
            }
            _ => false,
        });
        let epoch = self.links.epoch(Network::Public, party, to);
        let (true, Some(epoch)) = (liar == party && is_key, epoch) else {
            return false;
        };
        let at = self.after_latency().plus_millis(ms);
        let late = Occurrence::Deliver {
            network: Network::Public,
            from: party,
            to,
            epoch,
            frame: frame.clone(),
        };
        self.schedule(at, late);
        true
    }

    /// Returns the frame that travels now, as a test's hook decides.
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
            Sent::Replaced(other) => Some(other),
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
