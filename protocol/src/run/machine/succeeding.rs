//! From one release to the next one of the same plan: nobody gathers again, and nobody mixes.
//!
//! The next run is of those whose values are in the sum that was opened just now, with keys that
//! START has fixed. Everything that is said in it is signed for a digest of its own. Its noise is
//! masks of pairs, or a block of what was mixed ahead: then the first run only mixes, and all
//! releases succeed it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::agreement::flood::Flood;
use crate::lattice::grid::LatticeWeight;
use crate::lattice::packed::PackedVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::{AgreedLogs, SealTerms};
use crate::messages::signature::Digest;
use crate::mixing::course::Course;
use crate::mixing::exchange::ShareExchange;
use crate::mixing::machine::Mixing;
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::{NoiseSource, Portion};
use crate::publishing::averaging::early::EarlyRounds;
use crate::publishing::interface::Published;
use crate::publishing::way::Way;
use crate::run::commons::Commons;
use crate::run::interface::Output;
use crate::run::item_rules::ItemRules;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::{Ending, SealedFinal};
use crate::run::record::Record;
use crate::run::waking::Waking;
use crate::time::Time;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// Masks of pairs follow from keys, and blocks are mixed by now: nothing is drawn.
struct NoNoise;

impl NoiseSource<LatticeVector> for NoNoise {
    fn draw(&mut self, _: usize, _: u32) -> PackedVector {
        unreachable!("a later release draws no noise that cancels")
    }
}

impl Run {
    /// The run of the next release, signed for `digest`, once this one's set is open here, or it is
    /// agreed to go on without whose secret is not known. It waits
    /// for this node's value
    /// ([`Input::Contribution`](crate::run::interface::Input::Contribution)). None if this one has
    /// neither been opened nor mixed noise ahead, or has gone on already.
    ///
    /// Its clock starts now: others' values are waited for from half of an iteration on, as long as
    /// a stage takes.
    pub fn successor(&mut self, digest: Digest) -> Option<Run> {
        let started = match &self.machine {
            Machine::Opening {
                unsealing,
                confirmation,
                ..
            } => confirmation.remaining().unwrap_or(&unsealing.members).clone(),
            Machine::Mixed { members } if self.ahead.is_some() => members.clone(),
            _ => return None,
        };
        let threshold = self.plan.threshold(started.len()).ok()??;
        let course = self.course.of_release(&self.plan, digest);
        let mut rules = ItemRules::of(&self.plan, &course);
        let number = self.number + 1;
        if self.plan.reads_circles() && number <= self.plan.rounds() {
            rules.schedule = Arc::new(Schedule::both_ways(std::iter::once(
                &self.plan.active_edges(number),
            )));
        }
        let Way::Sealed(finals) = &rules.way else {
            return None;
        };
        let bytes = finals.bytes() as u64;
        let mut seals = self.seals.take()?;
        seals.go_on(&started, threshold);
        let mut commons = self.commons_of_next(digest, rules);
        commons.begin(self.now, SealTerms { threshold, bytes });
        let record = Record {
            started,
            started_at: Some(self.now.plus_millis(self.settle_ms)),
            ..Record::default()
        };
        Some(Run {
            number,
            seals: Some(seals),
            ahead: self.ahead.take(),
            succeeds: true,
            ..self.next(course, commons, Machine::Awaiting, record)
        })
    }

    /// What a run after this one says and hears, signed for `digest`: of this node, among the same
    /// parties, over the connections that are there.
    pub(super) fn commons_of_next(&self, digest: Digest, rules: ItemRules) -> Commons {
        let members = self.commons.flood.members().for_digest(digest);
        let flood = Flood::new(self.course.me, members)
            .pairing(self.plan.pairs())
            .with_stages(rules.stages)
            .with_colluding(self.plan.draft().privacy.colluding);
        let signer = self.commons.signer().for_digest(digest);
        let mut commons = Commons::new(signer, flood, rules, self.electorate.public.clone(), self.now);
        commons.gathered(self.now);
        let reached = self.commons.reached().iter();
        reached.for_each(|&peer| commons.connected(peer));
        commons
    }

    /// A run after this one, of the same plan, without any secrets yet.
    pub(super) fn next(&self, course: Course, commons: Commons, machine: Machine, record: Record) -> Run {
        Run {
            plan: self.plan.clone(),
            course,
            electorate: self.electorate.clone(),
            settle_ms: self.settle_ms,
            commons,
            machine,
            now: self.now,
            private: self.private.clone(),
            pull_at: Time::FAR,
            gone: self.gone.clone(),
            early: BTreeMap::new(),
            early_rounds: EarlyRounds::default(),
            number: self.number + 1,
            circle: None,
            seals: None,
            ahead: None,
            seal_seed: Zeroizing::new([0; 32]),
            leaving: None,
            stays_until: None,
            succeeds: false,
            waking: Waking::default(),
            record,
        }
    }

    /// Whether this run waits for this node's value.
    pub fn awaits_value(&self) -> bool {
        matches!(self.machine, Machine::Awaiting)
    }

    /// Takes this node's value, x̃ with its own noise, in a run that waits for it.
    pub(super) fn contribute(&mut self, value: Noisy) {
        let value = value.into_vector();
        let units = self.plan.draft().weight_units(self.course.me);
        let weight = LatticeWeight(self.plan.lattice().weight(units));
        let block = self.ahead.as_mut().and_then(|ahead| ahead.take_next());
        let mixing = match block {
            None => self.course.begin(value, weight, Box::new(NoNoise)),
            Some(block) => {
                let value = value.pack();
                let mut mixing = Mixing::of_block(Portion { value, weight }, block);
                let parties = 0..self.electorate.parties;
                mixing.roll_back(
                    &parties
                        .filter(|party| !self.record.started.contains(party))
                        .collect(),
                );
                mixing
            }
        };
        self.machine = Machine::Spending { mixing };
        self.commons.outbox.push_back(Output::Spend);
    }

    /// The noise of all releases to come is mixed, among these.
    pub(super) fn mixed(
        &mut self,
        exchange: ShareExchange,
        logs: &Arc<AgreedLogs>,
        members: BTreeSet<Party>,
    ) {
        let tally = exchange.tally();
        let ahead = match self.record.withheld.clone() {
            Some(reason) => Err(reason),
            None => exchange
                .into_ahead(logs, &members, self.plan.draft().dimension())
                .map_err(|denier| {
                    let name = &self.plan.draft().members[denier].name;
                    format!("{name} signed for a share that its log denies")
                }),
        };
        self.record.tally = tally;
        match ahead {
            Err(reason) => self.finish(Ending::Withheld { reason }, Published::default()),
            Ok(ahead) => {
                self.ahead = Some(Box::new(ahead));
                let published = Published::without_sum(members.clone(), true);
                self.machine = Machine::Mixed { members };
                self.finish(Ending::Done, published);
            }
        }
    }

    /// Whether this run mixes noise of releases to come.
    pub(crate) fn mixes_ahead(&self) -> bool {
        self.course.ahead
    }

    /// Those who take part in this run.
    pub fn started(&self) -> &BTreeSet<Party> {
        &self.record.started
    }

    /// What everything of this run is signed for.
    pub fn digest(&self) -> &Digest {
        &self.course.digest
    }

    /// When this node held every START.
    pub fn started_at(&self) -> Option<Time> {
        self.record.started_at
    }

    /// Whether START is here and the plan is spent, of one whose outer iterations its task does.
    pub fn has_handed_over(&self) -> bool {
        self.record.handed_over
    }

    /// Whether the plan has another release after this run.
    pub(super) fn may_go_on(&self) -> bool {
        let mixings = u64::from(self.plan.most_mixings());
        u64::from(self.number) < self.plan.draft().releases() + mixings
    }

    /// Whether this node could still make a key of a mask, or read a letter: for checks.
    pub(crate) fn keeps_secrets(&self) -> bool {
        self.seals.is_some() || self.ahead.is_some() || self.seal_seed.iter().any(|byte| *byte != 0)
    }

    /// Wipes the keys of masks and letters and noise of releases to come, unless a next release is
    /// to have them: whoever breaks into a node later finds nothing that opens what was not opened.
    pub(super) fn wipe_unless_it_goes_on(&mut self) {
        let through = match self.machine {
            Machine::Mixed { .. } => true,
            Machine::Opening { .. } => {
                self.record.sealed == Some(SealedFinal::Opened) || self.goes_on_without_sum()
            }
            _ => false,
        };
        if !(through && self.may_go_on()) {
            self.wipe();
        }
    }

    /// Wipes them: no release follows.
    pub(crate) fn wipe(&mut self) {
        (self.seals, self.ahead) = (None, None);
        self.seal_seed = Zeroizing::new([0; 32]);
    }
}
