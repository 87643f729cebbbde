//! From a mixing of noise that was in vain to another one.
//!
//! Noise that is mixed ahead carries no value: where logs are agreed on and the gate lets none of
//! their authors go on with it, it is thrown away, and mixed afresh. The next attempt is of those
//! whose logs were agreed on, which all of them see alike. Everything that is said in it, shares,
//! answers, logs and votes, is signed for a digest of its own, so that nothing of an earlier
//! attempt is understood there.

use crate::lattice::grid::LatticeWeight;
use crate::messages::log::ShareId;
use crate::messages::signature::Digest;
use crate::messages::stage::Phase;
use crate::mixing::exchange::{Outset, ShareExchange};
use crate::mixing::portion::Noise;
use crate::run::item_rules::ItemRules;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::Event;
use crate::run::record::Record;

impl Run {
    /// Another mixing of noise ahead, signed for `digest`, of those whose logs this one has agreed
    /// on, where the gate let none of them go on; it begins now. `noise` is fresh. None of any
    /// other run, and where this node's log is not in the agreed set.
    pub fn again(&mut self, digest: Digest, noise: Noise) -> Option<Run> {
        let Machine::Mixed { members } = &self.machine else {
            return None;
        };
        if self.ahead.is_some() || !members.contains(&self.course.me) {
            return None;
        }
        let started = members.clone();
        let seals = self.seals.take()?;
        let mut course = self.course.clone();
        course.digest = digest;
        let rules = ItemRules::of(&self.plan, &course);
        let commons = self.commons_of_next(digest, rules);
        let me = course.me;
        let weight = LatticeWeight(self.plan.lattice().weight(self.plan.draft().weight_units(me)));
        let zeros = self.plan.lattice().zeros(course.dimension);
        let absent = (0..self.electorate.parties).filter(|party| !started.contains(party));
        let outset = Outset {
            start: self.now,
            now: self.now,
            absent: absent.chain(self.gone.keys().copied()).collect(),
            connected: self.private.clone(),
        };
        let exchange = ShareExchange::new(course.clone(), course.begin(zeros, weight, noise), outset);
        let record = Record {
            started,
            started_at: Some(self.now),
            ..Record::default()
        };
        let mut run = Run {
            seals: Some(seals),
            ..self.next(course, commons, Machine::Mixing { exchange }, record)
        };
        run.commons.event(Event::Phase(Phase::Mixing));
        run.advance();
        Some(run)
    }

    /// Whether a share of a neighbour may be one of the next mixing: it is due, and of a share's
    /// length.
    pub(crate) fn is_like_due(&self, id: &ShareId, bytes: usize) -> bool {
        id.to == self.course.me && self.course.is_due(id.round, id.from) && bytes == self.course.share_bytes()
    }
}
