//! From one release to the next one of the same plan, by masks of pairs: nobody gathers again.
//!
//! The next run is of those whose values are in the sum that was opened just now, with keys that
//! START has fixed. Everything that is said in it is signed for a digest of its own.

use std::collections::{BTreeMap, BTreeSet};

use zeroize::Zeroizing;

use crate::agreement::flood::Flood;
use crate::lattice::grid::LatticeWeight;
use crate::lattice::packed::PackedVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::SealTerms;
use crate::messages::signature::Digest;
use crate::mixing::course::Course;
use crate::mixing::portion::NoiseSource;
use crate::publishing::averaging::early::EarlyRounds;
use crate::publishing::way::Way;
use crate::run::commons::Commons;
use crate::run::interface::Output;
use crate::run::item_rules::{ItemRules, stages};
use crate::run::machine::{Machine, Run};
use crate::run::record::Record;
use crate::time::Time;
use crate::topology::party::Party;

/// Masks of pairs follow from keys: nothing is drawn.
struct NoNoise;

impl NoiseSource<LatticeVector> for NoNoise {
    fn draw(&mut self, _: usize, _: u32) -> PackedVector {
        unreachable!("masks of pairs follow from keys")
    }
}

impl Run {
    /// The run of the next release, signed for `digest`, once this one's set is open here. It waits
    /// for this node's value
    /// ([`Input::Contribution`](crate::run::interface::Input::Contribution)). None if this one has
    /// not been opened, has gone on already, or its plan has no masks of pairs.
    ///
    /// Its clock starts now: others' values are waited for from half of an iteration on, as long as
    /// a stage takes.
    pub fn successor(&mut self, digest: Digest) -> Option<Run> {
        let Machine::Opening { unsealing, .. } = &self.machine else {
            return None;
        };
        let started = unsealing.members.clone();
        let threshold = self.plan.threshold(started.len()).ok()??;
        let course = Course {
            digest,
            ..self.course.clone()
        };
        let rules = ItemRules::of(&self.plan, &course);
        let Way::Sealed(finals) = &rules.way else {
            return None;
        };
        let bytes = finals.bytes() as u64;
        let mut seals = self.seals.take()?;
        seals.go_on(&started, threshold);
        let me = self.course.me;
        let flood = Flood::new(me, self.commons.flood.members().for_digest(digest))
            .pairing(true)
            .with_stages(stages(&self.plan))
            .with_colluding(self.plan.draft().privacy.colluding);
        let signer = self.commons.signer().for_digest(digest);
        let mut commons = Commons::new(signer, flood, rules, self.electorate.public.clone(), self.now);
        commons.begin(self.now, SealTerms { threshold, bytes });
        commons.gathered(self.now);
        let reached = self.commons.reached().iter();
        reached.for_each(|&peer| commons.connected(peer));
        Some(Run {
            plan: self.plan.clone(),
            course,
            electorate: self.electorate.clone(),
            settle_ms: self.settle_ms,
            commons,
            machine: Machine::Awaiting,
            now: self.now,
            private: self.private.clone(),
            pull_at: Time::FAR,
            gone: self.gone.clone(),
            early: BTreeMap::new(),
            early_rounds: EarlyRounds::default(),
            seals: Some(seals),
            seal_seed: Zeroizing::new([0; 32]),
            leaving: false,
            succeeds: true,
            record: Record {
                started,
                started_at: Some(self.now.plus_millis(self.settle_ms)),
                ..Record::default()
            },
        })
    }

    /// Whether this run waits for this node's value.
    pub fn awaits_value(&self) -> bool {
        matches!(self.machine, Machine::Awaiting)
    }

    /// Takes this node's value, x̃ with its own noise, in a run that waits for it.
    pub(super) fn contribute(&mut self, value: LatticeVector) {
        let units = self.plan.draft().weight_units(self.course.me);
        let weight = LatticeWeight(self.plan.lattice().weight(units));
        let mixing = self.course.begin(value, weight, Box::new(NoNoise));
        self.machine = Machine::Spending { mixing };
        self.commons.outbox.push_back(Output::Spend);
    }

    /// Those who take part in this run.
    pub fn started(&self) -> &BTreeSet<Party> {
        &self.record.started
    }

    /// Whether the plan may have another release after this one.
    pub(super) fn may_go_on(&self) -> bool {
        self.plan.draft().releases() > 1
    }
}
