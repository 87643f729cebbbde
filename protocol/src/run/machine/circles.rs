//! Secure sums over neighbourhoods: what differs in one of their rounds from a sum of everybody.
//!
//! What is sealed goes to its readers alone, over private edges; logs say from whom a vector is
//! here, who has answered for one, and what was dealt. The set of the round follows from the agreed
//! logs ([`Closing`]); the keys of masks with those who are not in it are corrections; then it is
//! opened for everybody, and each reader takes the masks off its own sum.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::lattice::average::nearest;
use crate::lattice::residue::ResidueVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::{AgreedLogs, Answer, Log, Sealed, ShareId, Verdict};
use crate::messages::notice::item_hash;
use crate::messages::wire;
use crate::messages::wire::Bytes;
use crate::mixing::exchange::ArrivedShare;
use crate::mixing::gossip::circles::{self, CircleOutset, CircleRound, LOGGED, OwnTerm};
use crate::mixing::gossip::close::Closing;
use crate::mixing::gossip::weights::RoundWeights;
use crate::publishing::interface::FinalError;
use crate::run::interface::Output;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::{Event, GateVerdict, SealedFinal};
use crate::sealing::deal::Secret;
use crate::sealing::mask::{MaskKey, MaskPlace, MaskTooLong};
use crate::sealing::pair_masks::take_out_of_circle;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

impl Run {
    /// The edges of this run's round, where neighbours read sums.
    pub(super) fn circle_edges(&self) -> Option<Graph> {
        self.plan
            .reads_circles()
            .then(|| self.plan.active_edges(self.number))
    }

    /// Who has a mask in common with whom: everywhere by the plan, or whoever is in a circle of
    /// this round together.
    pub(super) fn mask_graph(&self) -> Option<Graph> {
        let Some(edges) = self.circle_edges() else {
            return self.plan.mask_graph();
        };
        let readers = self.record.started.iter();
        let pairs = readers.flat_map(|&reader| {
            let circle = edges.neighbours(reader);
            let pair = |&a: &Party| circle.iter().filter(move |&&b| a < b).map(move |&b| (a, b));
            circle.iter().flat_map(pair).collect::<Vec<_>>()
        });
        let pairs: BTreeSet<(Party, Party)> = pairs.collect();
        let pairs: Vec<(Party, Party)> = pairs.into_iter().collect();
        Some(Graph::from_edges(edges.parties(), &pairs).expect("pairs of the plan's parties"))
    }

    /// Seals this node's message for each of its readers, and sends it. `value`: the message, then
    /// the noise of its vector for each neighbour of the round, ascending.
    ///
    /// # Errors
    /// Nothing is sent, and why.
    pub(super) fn begin_circle(&mut self, value: &LatticeVector) -> Result<(), String> {
        let lacks = || "this plan has no circles".to_owned();
        let (edges, ring) = self
            .circle_edges()
            .zip(self.plan.circle_ring())
            .ok_or_else(lacks)?;
        let (me, dimension) = (self.course.me, self.plan.draft().dimension());
        let weights = RoundWeights::of(&edges);
        let row: Vec<(Party, u32)> = weights
            .row(me)
            .iter()
            .copied()
            .filter(|(of, _)| *of != me)
            .collect();
        let steps: Zeroizing<Vec<i128>> = Zeroizing::new(value.steps().collect());
        if steps.len() != dimension * (1 + row.len()) {
            return Err("a contribution without the noise of each vector".to_owned());
        }
        let (secret, deal) = self.deal().ok_or_else(lacks)?;
        let (message, noises) = steps.split_at(dimension);
        let mut frames: BTreeMap<Party, Arc<[u8]>> = BTreeMap::new();
        let readers = row.iter().zip(noises.chunks(dimension));
        for (&(reader, weight), noise) in readers.filter(|((of, _), _)| self.record.started.contains(of)) {
            let weighed = message.iter().zip(noise).map(|(z, r)| i128::from(weight) * z + r);
            let vector = ResidueVector::of(ring, weighed);
            let frame = self.seal_for(reader, &edges, vector, &secret);
            frames.insert(reader, frame?);
        }
        if let Some(seals) = &mut self.seals {
            seals.own = Some(secret);
        }
        let factor = weights.entry(me, me);
        let begins = self.record.started_at.unwrap_or(self.now);
        // A later round's clock begins where vectors are no longer waited for.
        let deadline = begins.plus_millis(if self.succeeds { 0 } else { self.settle_ms });
        self.record.sealed = Some(SealedFinal::Unknown);
        self.circle = Some(Box::new(CircleRound::new(CircleOutset {
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
        })));
        let readers: Vec<Party> = self.private.iter().copied().collect();
        readers.into_iter().for_each(|reader| self.send_sealed(reader));
        for (id, arrival) in std::mem::take(&mut self.early) {
            self.receive_sealed(id.from, id, arrival);
        }
        Ok(())
    }

    /// A vector under this party's own mask for a reader's circle, and under those that it has in
    /// common with the circle's other members, as it leaves.
    fn seal_for(
        &self,
        reader: Party,
        edges: &Graph,
        mut vector: ResidueVector,
        secret: &Secret,
    ) -> Result<Arc<[u8]>, String> {
        let me = self.course.me;
        let place = MaskPlace {
            digest: &self.course.digest,
            author: me,
            round: self.plan.sealed_round(),
            circle: reader as u32,
        };
        let too_long = |reason: MaskTooLong| reason.to_string();
        MaskKey::own(secret, &place)
            .add_to(&mut vector)
            .map_err(too_long)?;
        let others = edges.neighbours(reader).iter().copied();
        let others = others.filter(|other| *other != me && self.record.started.contains(other));
        let masks = self.seals.as_ref().and_then(|seals| seals.masks.as_ref());
        // Once the own masks are open, a vector without these could be read by itself.
        let masks = masks.filter(|masks| masks.are_with_all(others.clone()));
        let masks = masks.ok_or("a mask with a member of the circle is missing: nothing is sent")?;
        masks
            .add_in_circle(reader as u32, others, &mut vector)
            .map_err(too_long)?;
        let id = ShareId {
            round: self.number,
            from: me,
            to: reader,
        };
        Ok(wire::sealed_frame(&self.course.digest, id, &vector.to_bytes()))
    }

    /// What is sealed for a reader that can be reached goes out, unless it has answered.
    pub(super) fn send_sealed(&mut self, reader: Party) {
        if let Some(frame) = self.circle.as_mut().and_then(|circle| circle.due_to(reader)) {
            self.commons.outbox.push_back(Output::Private {
                to: reader,
                frame,
                share: None,
            });
        }
    }

    /// A neighbour's sealed vector of this round.
    pub(super) fn receive_sealed(&mut self, from: Party, id: ShareId, arrival: ArrivedShare) {
        // It has begun with a START that the others gave up: its vector has no counterpart here.
        if !self.record.started.is_empty() && !self.record.started.contains(&from) {
            return;
        }
        let Some(circle) = &mut self.circle else {
            let waits = matches!(
                self.machine,
                Machine::Gathering { .. } | Machine::Awaiting | Machine::Spending { .. }
            );
            let edges = self.circle_edges().filter(|_| waits && id.from == from);
            let due = edges.is_some_and(|edges| edges.joins(from, self.course.me));
            let bytes =
                self.plan.circle_ring().map_or(0, |ring| ring.width()) * self.plan.draft().dimension();
            if due && id.to == self.course.me && arrival.values.len() == bytes {
                self.early.entry(id).or_insert(arrival);
            } else {
                self.commons.offence(from, "a sealed vector that is not due");
            }
            return;
        };
        let weighed = arrival.weight.0 != 0;
        let taken = circle.receive(from, id, if weighed { Bytes::new() } else { arrival.values });
        match taken {
            Ok(true) => self.answer_sealed(from),
            Ok(false) => {}
            Err(reason) => self.commons.offence(from, reason),
        }
    }

    /// How many sealed vectors wait for this run to begin.
    #[cfg(test)]
    pub(crate) fn kept_early(&self) -> usize {
        self.early.len()
    }

    fn answer_sealed(&mut self, from: Party) {
        let id = ShareId {
            round: LOGGED,
            from,
            to: self.course.me,
        };
        if !self.private.contains(&from) {
            // It sends its vector again on a new connection.
            return;
        }
        match self
            .commons
            .signer()
            .answer(id, Verdict::Accepted { applied: LOGGED })
        {
            Ok(answer) => self.commons.outbox.push_back(Output::Private {
                to: from,
                frame: wire::answer_frame(&self.course.digest, id, &answer),
                share: None,
            }),
            Err(reason) => self.commons.event(Event::Fault(reason.to_string())),
        }
    }

    /// A reader's answer, whose signature is good. False: this run has no circles.
    pub(super) fn answered_sealed(&mut self, from: Party, id: ShareId, answer: &Answer) -> bool {
        let Some(circle) = &mut self.circle else {
            return false;
        };
        if let Err(reason) = circle.answer(from, id, answer.clone()) {
            self.commons.offence(from, reason);
        }
        true
    }

    /// Whether nothing more is due to or from this node's circle, or it is time.
    pub(super) fn is_circle_quiet(&self) -> bool {
        let gone = |party: Party| self.gone.contains_key(&party);
        self.circle
            .as_ref()
            .is_none_or(|circle| circle.is_quiet(self.now, gone))
    }

    /// What the log says of vectors, and of the secret that was dealt. False: there are none.
    pub(super) fn log_circle(&mut self, log: &mut Log) -> bool {
        let Some(circle) = &mut self.circle else {
            return false;
        };
        circle.close(log);
        log.sealed = circle.take_deal().map(|deal| Sealed {
            hash: item_hash(&[]),
            bytes: 0,
            deal,
        });
        true
    }

    /// The set of the round, from the agreed logs alone: the same at all nodes.
    pub(super) fn close_circle(&self, logs: &AgreedLogs) -> Option<GateVerdict> {
        let edges = self.circle_edges()?;
        let draft = self.plan.draft();
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

    /// This node's sum of the round, whose set is open: θ of the next round, in steps, and the
    /// weights that are in it, in units of 2^-16. None: it is further out than values and noise can
    /// be, and of no use.
    pub(super) fn circle_sum(&self) -> Result<Option<(LatticeVector, u32)>, FinalError> {
        let (
            Machine::Opening {
                opening, unsealing, ..
            },
            Some(circle),
        ) = (&self.machine, &self.circle)
        else {
            return Err(FinalError::NoResidues);
        };
        let members = &unsealing.members;
        let secrets = opening.secrets().ok_or(FinalError::NoResidues)?;
        let (of, mut sum) = circle.sealed_sum(members).ok_or(FinalError::NoResidues)?;
        let me = self.course.me as u32;
        for author in &of {
            let place = MaskPlace {
                digest: &self.course.digest,
                author: *author,
                round: self.plan.sealed_round(),
                circle: me,
            };
            let secret = secrets.get(author).ok_or(FinalError::NoResidues)?;
            MaskKey::own(secret, &place).subtract_from(&mut sum)?;
        }
        let edges = self.circle_edges().ok_or(FinalError::NoResidues)?;
        let masked =
            |other: &Party| edges.joins(*other, self.course.me) && self.record.started.contains(other);
        let told = self.corrections_given(unsealing).into_iter();
        for (stage, giver, body) in told.filter(|(_, giver, _)| of.contains(giver)) {
            let owed = unsealing.masks.get(stage).and_then(|owed| owed.get(&giver));
            let keys = body.bytes().ok_or(FinalError::Unreadable)?;
            let with = owed.map_or(&[][..], Vec::as_slice);
            take_out_of_circle(&mut sum, (me, giver), (with, &keys), masked)?;
        }
        let lattice = self.plan.lattice();
        let most = lattice.circle_bound(self.number);
        let own = circle.own().steps.iter();
        // Beyond the bound stays beyond it.
        let steps = sum.lifted().zip(own).map(|(a, b)| a.saturating_add(*b));
        let steps: Zeroizing<Vec<i128>> = Zeroizing::new(steps.collect());
        let most = most.unsigned_abs();
        if steps.iter().any(|steps| steps.unsigned_abs() > most) {
            return Ok(None);
        }
        let state = lattice.vector(steps.iter().copied().map(nearest));
        Ok(Some((state, circle.weight_of(members))))
    }
}
