//! The passage from one release to the next one of the same plan: nobody gathers again, and nobody
//! mixes. Likewise from a mixing of noise that was in vain to another one.
//!
//! The next run is of those whose values are in the sum that was opened just now, with keys that
//! START has fixed. Everything that is said in it is signed for a digest of its own. Its noise is
//! masks of pairs, or a block of what was precomputed: then the first run only mixes, and all
//! releases succeed it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agreement::flood::Flood;
use crate::messages::log::{SealTerms, ShareId};
use crate::messages::signature::Digest;
use crate::messages::stage::Phase;
use crate::mixing::exchange::ShareExchange;
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::Noise;
use crate::mixing::precomputed::{PrecomputedNoise, ReleaseNoise};
use crate::publishing::way::Way;
use crate::run::config::RunConfig;
use crate::run::context::Record;
use crate::run::early::EarlyShares;
use crate::run::item_rules::ItemRules;
use crate::run::machine::Run;
use crate::run::outcome::{Event, SealedFinal};
use crate::run::phase::{AwaitingPhase, MixingPhase, RunPhase, Transfers};
use crate::run::public_state::PublicState;
use crate::run::waking::Waking;
use crate::time::Time;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

impl Run {
    /// The run of the next release, signed for `digest`, once this one's set is open here, or it is
    /// agreed to go on without whose secret is not known. It waits for this node's value
    /// ([`Input::Contribution`](crate::run::interface::Input::Contribution)); `noise` is that of
    /// its release where it was precomputed. `None` if this run has neither been opened nor mixed
    /// noise, or has gone on already.
    ///
    /// Its clock starts now: others' values are waited for from half of an iteration on, as long as
    /// a stage takes.
    pub fn successor(&mut self, digest: Digest, noise: Option<ReleaseNoise>) -> Option<Run> {
        let (members, seals) = match &mut self.phase {
            RunPhase::Opening(phase) => {
                let remaining = phase.confirmation.remaining();
                (remaining.unwrap_or(&phase.unsealing.members), &mut phase.seals)
            }
            RunPhase::Mixed(phase) if noise.is_some() => (&phase.members, &mut phase.seals),
            _ => return None,
        };
        let started = members.clone();
        // Those who remain may be too few to hold shares of a secret: then no release follows.
        let threshold = self.config.plan.threshold(started.len()).ok()??;
        let parameters = self.config.mixing.of_release(&self.config.plan, digest);
        let mut rules = ItemRules::of(&self.config.plan, &parameters);
        let mut config = self.config.next(parameters);
        // Each round of circles has edges of its own, by which its logs number vectors.
        if config.plan.reads_circles() && config.number <= config.plan.rounds() {
            let edges = config.plan.active_edges(config.number);
            rules.schedule = Arc::new(Schedule::both_ways(std::iter::once(&edges)));
        }
        let Way::Sealed(finals) = &rules.way else {
            return None;
        };
        let bytes = finals.bytes() as u64;
        let mut seals = seals.take()?;
        // Nobody seals for a party that has departed: its keys are dropped.
        seals.go_on(&started, threshold);
        let mut public_state = self.public_state_of_next(digest, rules);
        let placing = config.placing(&started, threshold);
        public_state.begin(self.now, SealTerms { threshold, bytes }, placing);
        let record = Record {
            started,
            started_at: Some(self.now.plus_millis(config.settle_ms)),
            ..Record::default()
        };
        let (block, mixed) = noise.map(|noise| (noise.block, noise.logs)).unzip();
        config.mixed = mixed;
        let phase = RunPhase::Awaiting(Box::new(AwaitingPhase {
            seals,
            block,
            early: EarlyShares::default(),
        }));
        Some(self.next(config, public_state, phase, record))
    }

    /// Another mixing of precomputed noise, where the gate let none of those go on whose logs were
    /// agreed on; it is of these, which all of them see alike, with fresh noise, and begins now.
    /// All that is said in it is signed for `digest`, so that nothing of an earlier attempt is
    /// understood there. `None` of any other run, and where this node's log is not in the agreed
    /// set.
    pub fn again(&mut self, digest: Digest, noise: Noise) -> Option<Run> {
        let RunPhase::Mixed(mixed) = &mut self.phase else {
            return None;
        };
        if mixed.noise.is_some() || !mixed.members.contains(&self.config.mixing.me) {
            return None;
        }
        let seals = mixed.seals.take()?;
        let record = Record {
            started: mixed.members.clone(),
            started_at: Some(self.now),
            ..Record::default()
        };
        let mut config = self.config.next(self.config.mixing.clone());
        // Shares are exchanged again, so that the deadlines are those of a first run.
        config.succeeds = false;
        config.mixing.digest = digest;
        let RunConfig {
            plan,
            mixing: parameters,
            ..
        } = &config;
        let rules = ItemRules::of(plan, parameters);
        // Only noise is mixed: the values of releases are added to its blocks later.
        let zeros = Noisy::with_noise_in(plan.lattice().zeros(parameters.dimension));
        let start = self
            .peers
            .exchange_start(&record.started, &config, (self.now, self.now));
        let transfers = Transfers {
            shares: ShareExchange::new(
                parameters.clone(),
                parameters.begin(zeros, config.own_weight(), noise),
                start,
            ),
            circle: None,
            seals: Some(seals),
            leaving: None,
        };
        let public_state = self.public_state_of_next(digest, rules);
        let phase = RunPhase::Mixing(Box::new(MixingPhase { transfers }));
        let mut run = self.next(config, public_state, phase, record);
        run.public_state.event(Event::Phase(Phase::Mixing));
        run.advance();
        Some(run)
    }

    /// Whether a share of a neighbour may be one of the next mixing: it is due, and of a share's
    /// length.
    pub(crate) fn is_like_due(&self, id: &ShareId, bytes: usize) -> bool {
        id.to == self.config.mixing.me
            && self.config.mixing.is_due(id.round, id.from)
            && bytes == self.config.mixing.share_bytes()
    }

    /// Returns the public state of the run after this one, signed for `digest`: of this node, among
    /// these parties, over the present connections.
    pub(super) fn public_state_of_next(&self, digest: Digest, rules: ItemRules) -> PublicState {
        let members = self.public_state.flood.members().for_digest(digest);
        let flood = Flood::new(self.config.mixing.me, members)
            .pairing(self.config.plan.pairs())
            .with_stages(rules.stages)
            .with_colluding(self.config.plan.draft().privacy.colluding);
        let signer = self.public_state.signer().for_digest(digest);
        let mut public_state = PublicState::new(
            signer,
            flood,
            rules,
            self.config.electorate.public.clone(),
            self.now,
        );
        // Nobody gathers for this run: what it lacks should come as soon as after START.
        public_state.gathered(self.now);
        // Connections outlive a run, and the driver reports only new ones.
        let reached = self.public_state.reached().iter();
        reached.for_each(|&peer| public_state.connected(peer));
        public_state
    }

    /// A run after this one, of the same plan.
    pub(super) fn next(
        &self,
        config: RunConfig,
        public_state: PublicState,
        phase: RunPhase,
        record: Record,
    ) -> Run {
        Run {
            config,
            peers: self.peers.clone(),
            public_state,
            phase,
            now: self.now,
            pull_at: Time::FAR,
            waking: Waking::default(),
            record,
        }
    }

    /// Whether this run waits for this node's value.
    pub fn awaits_value(&self) -> bool {
        matches!(self.phase, RunPhase::Awaiting(_))
    }

    /// The noise of all releases to come, once, when it is mixed.
    pub(crate) fn take_noise(&mut self) -> Option<PrecomputedNoise> {
        match &mut self.phase {
            RunPhase::Mixed(phase) => phase.noise.take(),
            _ => None,
        }
    }

    /// Whether this run mixes noise of releases to come.
    pub(crate) fn precomputes_noise(&self) -> bool {
        self.config.mixing.precomputed
    }

    /// Returns the parties that take part in this run.
    pub fn started(&self) -> &BTreeSet<Party> {
        &self.record.started
    }

    /// Returns the digest that everything of this run is signed for.
    pub fn digest(&self) -> &Digest {
        &self.config.mixing.digest
    }

    /// Returns the moment when this node held every START.
    pub fn started_at(&self) -> Option<Time> {
        self.record.started_at
    }

    /// Whether START is here and the plan is spent, of one whose outer iterations its task does.
    pub fn has_handed_over(&self) -> bool {
        matches!(self.phase, RunPhase::HandedOver)
    }

    /// Whether the next release is without whose secrets lacked, this node among its members.
    pub(crate) fn goes_on_without_sum(&self) -> bool {
        match &self.phase {
            RunPhase::Opening(phase) => phase.goes_on_without_sum(self.config.mixing.me),
            _ => false,
        }
    }

    /// Whether this node could still make a key of a mask, or read a letter: for checks.
    pub(crate) fn keeps_secrets(&self) -> bool {
        self.phase.seals().is_some() || matches!(self.phase, RunPhase::Gathering(_))
    }

    /// Wipes the keys of masks and letters and noise of releases to come, unless a next release is
    /// to have them: whoever breaks into a node later finds nothing that opens what was not opened.
    pub(super) fn wipe_unless_it_goes_on(&mut self) {
        let through = match &self.phase {
            RunPhase::Mixed(_) => true,
            RunPhase::Opening(_) => {
                self.record.sealed == Some(SealedFinal::Opened) || self.goes_on_without_sum()
            }
            _ => false,
        };
        if !(through && self.config.may_go_on()) {
            self.phase.wipe();
        }
    }

    /// Wipes them: no release follows.
    pub(crate) fn wipe(&mut self) {
        self.phase.wipe();
    }
}
