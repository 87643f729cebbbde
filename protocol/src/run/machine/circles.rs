//! Secure sums over neighbourhoods: what differs in one of their rounds from a sum of everybody.
//!
//! What is sealed goes to its readers alone, over private edges; logs say from whom a vector is
//! here, who has answered for one, and what was dealt. The set of the round follows from the agreed
//! logs ([`Closing`]); the keys of masks with those who are not in it are corrections; then it is
//! opened for everybody, and each reader takes the masks off its own sum.

use std::collections::BTreeMap;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::lattice::average::nearest;
use crate::lattice::residue::ResidueVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::{AgreedLogs, ShareId, Verdict};
use crate::messages::wire;
use crate::messages::wire::Bytes;
use crate::mixing::exchange::ArrivedShare;
use crate::mixing::gossip::circles::{self, CircleRound, CircleStart, LOGGED, OwnTerm};
use crate::mixing::gossip::close::Closing;
use crate::mixing::gossip::weights::RoundWeights;
use crate::publishing::interface::FinalError;
use crate::publishing::sealed::OpenedSum;
use crate::run::context::StepContext;
use crate::run::interface::Output;
use crate::run::outcome::{GateVerdict, SealedFinal};
use crate::run::phase::OpeningPhase;
use crate::run::seals::Seals;
use crate::sealing::deal::Secret;
use crate::sealing::mask::{MaskKey, MaskPlace, MaskTooLong};
use crate::sealing::pair_masks::take_out_of_circle;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

impl StepContext<'_> {
    /// Seals this node's message for each of its readers, and sends it. `value`: the message, then
    /// the noise of its vector for each neighbour of the round, ascending. `None` without circles.
    ///
    /// # Errors
    /// Nothing is sent, and why.
    pub(super) fn begin_circle(
        &mut self,
        value: &LatticeVector,
        seals: Option<&mut Seals>,
    ) -> Result<Option<CircleRound>, String> {
        let circle = self.config.circle_edges().zip(self.config.plan.circle_ring());
        let Some((edges, ring)) = circle else {
            return Ok(None);
        };
        let seals = seals.ok_or("this plan seals nothing")?;
        let (me, dimension) = (self.config.mixing.me, self.config.plan.draft().dimension());
        let weights = RoundWeights::of(&edges);
        let row: Vec<(Party, u32)> = weights
            .row(me)
            .iter()
            .copied()
            .filter(|(of, _)| *of != me)
            .collect();
        let steps: Zeroizing<Vec<i128>> = Zeroizing::new(value.steps().collect());
        // Without fresh noise two sums with different whole weights would reveal each message
        // exactly.
        if steps.len() != dimension * (1 + row.len()) {
            return Err("a contribution without the noise of each vector".to_owned());
        }
        let (secret, deal) = seals.deal(self);
        let (message, noises) = steps.split_at(dimension);
        let mut frames: BTreeMap<Party, Arc<[u8]>> = BTreeMap::new();
        let readers = row.iter().zip(noises.chunks(dimension));
        for (&(reader, weight), noise) in readers.filter(|((of, _), _)| self.record.started.contains(of)) {
            let weighed = message.iter().zip(noise).map(|(z, r)| i128::from(weight) * z + r);
            let vector = ResidueVector::of(ring, weighed);
            let frame = self.seal_for((reader, &edges), vector, &secret, seals);
            frames.insert(reader, frame?);
        }
        seals.own = Some(secret);
        let factor = weights.entry(me, me);
        // A later round's clock begins where vectors are no longer waited for.
        let patience_ms = if self.config.succeeds {
            0
        } else {
            self.config.settle_ms
        };
        let deadline = self.begun_at().plus_millis(patience_ms);
        // From here on a vector may leave, and cannot be called back.
        self.record.sealed = Some(SealedFinal::Unknown);
        let mut circle = CircleRound::new(CircleStart {
            me,
            ring,
            dimension,
            expected: frames.keys().copied().collect(),
            row,
            own: OwnTerm {
                steps: Zeroizing::new(message.iter().map(|z| i128::from(factor) * z).collect()),
                factor,
            },
            deal,
            frames,
            deadline,
        });
        for &reader in &self.peers.private {
            self.send_sealed(&mut circle, reader);
        }
        Ok(Some(circle))
    }

    /// A vector under this party's own mask for a reader's circle, and under those that it has in
    /// common with the circle's other members, as it leaves.
    fn seal_for(
        &self,
        (reader, edges): (Party, &Graph),
        mut vector: ResidueVector,
        secret: &Secret,
        seals: &Seals,
    ) -> Result<Arc<[u8]>, String> {
        let me = self.config.mixing.me;
        let place = MaskPlace {
            digest: &self.config.mixing.digest,
            author: me,
            round: self.config.plan.sealed_round(),
            circle: reader as u32,
        };
        let too_long = |reason: MaskTooLong| reason.to_string();
        MaskKey::own(secret, &place)
            .add_to(&mut vector)
            .map_err(too_long)?;
        let others = edges.neighbours(reader).iter().copied();
        let others = others.filter(|other| *other != me && self.record.started.contains(other));
        // Once the own masks are open, a vector without these could be read by itself.
        let masks = seals.masks.as_ref();
        let masks = masks.filter(|masks| masks.are_with_all(others.clone()));
        let masks = masks.ok_or("a mask with a member of the circle is missing: nothing is sent")?;
        masks
            .add_in_circle(reader as u32, others, &mut vector)
            .map_err(too_long)?;
        let id = ShareId {
            round: self.config.number,
            from: me,
            to: reader,
        };
        Ok(wire::sealed_frame(
            &self.config.mixing.digest,
            id,
            &vector.to_bytes(),
        ))
    }

    /// Sends a reader that can be reached the vector that is sealed for it, unless it has answered.
    pub(super) fn send_sealed(&mut self, circle: &mut CircleRound, reader: Party) {
        if let Some(frame) = circle.due_to(reader) {
            self.output(Output::Private {
                to: reader,
                frame,
                share: None,
            });
        }
    }

    /// A neighbour's sealed vector of this round.
    pub(super) fn receive_of_circle(
        &mut self,
        circle: &mut CircleRound,
        from: Party,
        id: ShareId,
        arrival: ArrivedShare,
    ) {
        // A sealed vector carries no weight: one that does is refused like one of another length.
        let weighed = arrival.weight.0 != 0;
        match circle.receive(from, id, if weighed { Bytes::new() } else { arrival.values }) {
            Ok(true) => self.answer_sealed(from),
            Ok(false) => {}
            Err(reason) => self.public_state.offence(from, reason),
        }
    }

    fn answer_sealed(&mut self, from: Party) {
        let id = ShareId {
            round: LOGGED,
            from,
            to: self.config.mixing.me,
        };
        if !self.peers.private.contains(&from) {
            // It sends its vector again on a new connection.
            return;
        }
        let answer = self
            .public_state
            .signer()
            .answer(id, Verdict::Accepted { applied: LOGGED });
        match answer {
            Ok(answer) => self.output(Output::Private {
                to: from,
                frame: wire::answer_frame(&self.config.mixing.digest, id, &answer),
                share: None,
            }),
            Err(reason) => self.fault(reason),
        }
    }

    /// The set of the round, from the agreed logs alone: the same at all nodes.
    pub(super) fn close_circle(&self, logs: &AgreedLogs) -> Option<GateVerdict> {
        let edges = self.config.circle_edges()?;
        let draft = self.config.plan.draft();
        let closing = Closing {
            edges: &edges,
            before: &self.record.started,
            least: draft.run.min_parties,
            dropouts: draft.privacy.dropouts,
        };
        let items = logs.iter().map(|(party, log)| (*party, circles::held(log)));
        let set = closing.close(&items.collect());
        let reason = match &set {
            None => "no set of the round is left: more parties departed, or lack vectors, than is tolerated",
            Some(_) => "this node is not in the round's set: somebody lacks a vector, or says so",
        };
        Some(GateVerdict {
            publish: set,
            reason: reason.to_owned(),
        })
    }
}

impl OpeningPhase {
    /// This node's sum of the round, whose set is open: θ of the next round, in steps, and the
    /// weights that are in it, in units of 2^-16. `None`: it is further out than values and noise
    /// can be, and of no use.
    pub(super) fn circle_sum(
        &self,
        circle: &CircleRound,
        cx: &StepContext<'_>,
    ) -> Result<Option<(OpenedSum, u32)>, FinalError> {
        let members = &self.unsealing.members;
        let secrets = self.opening.secrets().ok_or(FinalError::NoResidues)?;
        let (of, mut sum) = circle.sealed_sum(members).ok_or(FinalError::NoResidues)?;
        let me = cx.config.mixing.me as u32;
        for author in &of {
            let place = MaskPlace {
                digest: &cx.config.mixing.digest,
                author: *author,
                round: cx.config.plan.sealed_round(),
                circle: me,
            };
            let secret = secrets.get(author).ok_or(FinalError::NoResidues)?;
            MaskKey::own(secret, &place).subtract_from(&mut sum)?;
        }
        let edges = cx.config.circle_edges().ok_or(FinalError::NoResidues)?;
        let masked =
            |other: &Party| edges.joins(*other, cx.config.mixing.me) && cx.record.started.contains(other);
        // Masks with parties outside of the set do not cancel: their keys are in the corrections.
        let revealed = self.corrections_given(cx).into_iter();
        for (stage, giver, body) in revealed.filter(|(_, giver, _)| of.contains(giver)) {
            let owed = self.unsealing.masks.get(stage).and_then(|owed| owed.get(&giver));
            let keys = body.bytes().ok_or(FinalError::Unreadable)?;
            let with = owed.map_or(&[][..], Vec::as_slice);
            take_out_of_circle(&mut sum, (me, giver), (with, &keys), masked)?;
        }
        let lattice = cx.config.plan.lattice();
        let most = lattice.circle_bound(cx.config.number);
        let own = circle.own().steps.iter();
        // Beyond the bound stays beyond it.
        let steps = sum.lifted().zip(own).map(|(a, b)| a.saturating_add(*b));
        let steps: Zeroizing<Vec<i128>> = Zeroizing::new(steps.collect());
        let most = most.unsigned_abs();
        if steps.iter().any(|steps| steps.unsigned_abs() > most) {
            return Ok(None);
        }
        let state = OpenedSum::of_circle(lattice, steps.iter().copied().map(nearest));
        Ok(Some((state, circle.weight_of(members))))
    }
}
