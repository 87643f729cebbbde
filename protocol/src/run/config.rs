//! The fixed settings of a run, and the peers that can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agreement::agreeing::{Clock, Electorate};
use crate::agreement::gathering::Attendance;
use crate::agreement::placing::Placing;
use crate::lattice::grid::LatticeWeight;
use crate::messages::commitment::MOST_REVEALS;
use crate::messages::log::{AgreedLogs, ShareId};
use crate::mixing::exchange::ExchangeStart;
use crate::mixing::parameters::MixingParameters;
use crate::plan::checked::{Plan, RecordsAtStart};
use crate::sealing::holders::Threshold;
use crate::time::Time;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// The fixed settings of a run: by its plan, and by START where that draws the schedule.
pub(super) struct RunConfig {
    pub(super) plan: Arc<Plan>,
    pub(super) mixing: MixingParameters,
    pub(super) electorate: Electorate,
    pub(super) settle_ms: u64,
    /// The number of the run, from 1: with circles that of its round.
    pub(super) number: u32,
    /// Whether it is a later run of its plan: then nobody gathers.
    pub(super) succeeds: bool,
    /// The agreed logs of the mixing that its noise comes from, where that was precomputed.
    pub(super) mixed: Option<Arc<AgreedLogs>>,
}

impl RunConfig {
    /// Returns the configuration of a plan's first run.
    pub(super) fn first(plan: Arc<Plan>, me: Party) -> Self {
        RunConfig {
            mixing: MixingParameters::of(&plan, me),
            electorate: electorate(&plan, me),
            settle_ms: plan.draft().run.settle_ms,
            number: 1,
            succeeds: false,
            mixed: None,
            plan,
        }
    }

    /// The configuration of the run after this one, with `parameters`.
    pub(super) fn next(&self, mixing: MixingParameters) -> Self {
        RunConfig {
            plan: self.plan.clone(),
            mixing,
            electorate: self.electorate.clone(),
            settle_ms: self.settle_ms,
            number: self.number + 1,
            succeeds: true,
            mixed: None,
        }
    }

    /// START has drawn the schedule.
    pub(super) fn draw(&mut self, seed: u64) {
        self.plan = Arc::new(self.plan.with_draw(seed));
        let schedule = Arc::new(self.plan.exchanges().clone());
        self.mixing.draw(schedule, self.plan.mechanism(self.mixing.me));
    }

    /// START has fixed how many records these parties bring.
    pub(super) fn count(&mut self, records: &RecordsAtStart) {
        self.plan = Arc::new(self.plan.with_records(records));
    }

    /// The party's own weight.
    pub(super) fn own_weight(&self) -> LatticeWeight {
        let units = self.plan.weight_units(self.mixing.me);
        LatticeWeight(self.plan.lattice().weight(units))
    }

    /// A member's name, for a person.
    pub(super) fn name(&self, party: Party) -> &str {
        &self.plan.draft().members[party].name
    }

    /// Members' names, for a person.
    pub(super) fn names<'a>(&self, parties: impl IntoIterator<Item = &'a Party>) -> String {
        let names: Vec<&str> = parties.into_iter().map(|&party| self.name(party)).collect();
        names.join(", ")
    }

    /// Whether the plan has another release after this run.
    pub(super) fn may_go_on(&self) -> bool {
        // Each attempt to mix noise is a run of its own, before the releases.
        let mixings = u64::from(self.plan.most_mixings());
        u64::from(self.number) < self.plan.draft().releases() + mixings
    }

    /// Returns the time that settling takes: with sealed finals, which leave with the logs, also
    /// that of publishing. A later release begins in the middle of its iteration.
    pub(super) fn settling_ms(&self, sealed: bool) -> u64 {
        let stages = if sealed && !self.succeeds { 2 } else { 1 };
        self.settle_ms.saturating_mul(stages)
    }

    /// Returns the moment when mixing ends at the latest, where it has begun then.
    pub(super) fn mixing_ends(&self, begun_at: Time) -> Time {
        let mixing_ms = u64::from(self.mixing.rounds).saturating_mul(self.mixing.round_ms);
        begun_at.plus_millis(mixing_ms)
    }

    /// The deadlines of settling, which begins when mixing ends at the latest. Where vectors of
    /// circles are waited for that takes the first half: lists are due half-way through the second,
    /// so that they have the logs of those who waited for a vector that does not come.
    pub(super) fn settling_clock(&self, begun_at: Time, sealed: bool) -> Clock {
        let begin = self.mixing_ends(begun_at);
        match self.plan.reads_circles() && !self.succeeds {
            true => Clock::new(begin.plus_millis(self.settle_ms), self.settle_ms),
            false => Clock::new(begin, self.settling_ms(sealed)),
        }
    }

    /// The placing of sealed finals among those who have started, where they travel in slices.
    pub(super) fn placing(&self, started: &BTreeSet<Party>, threshold: Threshold) -> Option<Placing> {
        let (plan, me) = (&self.plan, self.mixing.me);
        // As many as may collude and depart, and one: of these one is honest and stays.
        let keepers = plan.keepers(started, threshold.needed())?;
        let sealed = (self.mixing.digest, plan.sealed_round());
        Some(Placing::new(me, plan.parties(), plan.slices()?, keepers, sealed))
    }

    /// The edges of this run's round, where neighbours read sums.
    pub(super) fn circle_edges(&self) -> Option<Graph> {
        self.plan
            .reads_circles()
            .then(|| self.plan.active_edges(self.number))
    }

    /// Returns the graph of the parties that have a mask in common. They are those of the plan, or
    /// with circles those in one circle of `readers` in this round.
    pub(super) fn mask_graph(&self, readers: &BTreeSet<Party>) -> Option<Graph> {
        let Some(edges) = self.circle_edges() else {
            return self.plan.mask_graph();
        };
        // Two members of a circle mask their vectors against each other; the mask cancels in the
        // reader's sum.
        let pairs = readers.iter().flat_map(|&reader| {
            let circle = edges.neighbours(reader);
            let pair = |&a: &Party| circle.iter().filter(move |&&b| a < b).map(move |&b| (a, b));
            circle.iter().flat_map(pair).collect::<Vec<_>>()
        });
        let pairs: BTreeSet<(Party, Party)> = pairs.collect();
        let pairs: Vec<(Party, Party)> = pairs.into_iter().collect();
        Some(Graph::from_edges(edges.parties(), &pairs).expect("pairs of the plan's parties"))
    }

    /// Whether a share may be due to this node. Until START has drawn the schedule here, when
    /// others may have begun, one of each neighbour in each round: a draw may have that many, so
    /// that fewer would accuse an honest neighbour, and lose its share.
    pub(super) fn may_be_due(&self, id: ShareId) -> bool {
        if !self.plan.draws_at_start() || self.plan.seed_at_start().is_some() {
            return self.mixing.is_due(id.round, id.from);
        }
        let graph = &self.plan.draft().private_graph;
        (1..=self.plan.rounds()).contains(&id.round) && graph.joins(id.from, id.to)
    }
}

/// The peers that can be reached.
#[derive(Clone, Default)]
pub(super) struct Connectivity {
    /// The peers connected on the private graph.
    pub(super) private: BTreeSet<Party>,
    /// The peers whose connection is lost and whose address refuses a new one, with the moment
    /// since when.
    pub(super) unreachable: BTreeMap<Party, Time>,
}

impl Connectivity {
    /// Returns the start of the exchange of shares, among those who have `started`: its moment, and
    /// the present one.
    pub(super) fn exchange_start(
        &self,
        started: &BTreeSet<Party>,
        config: &RunConfig,
        (start, now): (Time, Time),
    ) -> ExchangeStart {
        let absent = (0..config.electorate.parties).filter(|party| !started.contains(party));
        ExchangeStart {
            start,
            now,
            absent: absent.chain(self.unreachable.keys().copied()).collect(),
            connected: self.private.clone(),
        }
    }
}

/// The most STARTs of any run. Our choice: each but the last is given up after seven seconds or
/// more, and each takes memory at every node, whatever liars sign.
const MOST_STARTS: u64 = 8;

/// Returns the most STARTs of this run: one more than parties may depart, since each leaves
/// somebody out. Where START draws the schedule, there are no more than a node has nonces.
pub(super) fn starts(plan: &Plan) -> u8 {
    let most = if plan.draws_at_start() {
        MOST_REVEALS
    } else {
        MOST_STARTS
    };
    (plan.draft().privacy.dropouts as u64 + 1).min(most) as u8
}

/// Returns the plan's rules about who must come, and by when.
pub(super) fn attendance(plan: &Plan) -> Attendance {
    let run = &plan.draft().run;
    Attendance {
        parties: plan.parties(),
        min_parties: run.min_parties,
        join_ms: run.join_ms,
        grace_ms: run.grace_ms,
        colluding: plan.draft().privacy.colluding,
        numbers: starts(plan),
    }
}

/// The members of a plan, as far as votes go.
fn electorate(plan: &Plan, me: Party) -> Electorate {
    let draft = plan.draft();
    Electorate {
        me,
        parties: plan.parties(),
        colluding: draft.privacy.colluding,
        quorum: draft.run.quorum,
        min_parties: draft.run.min_parties,
        private: Arc::new(plan.private_links()),
        public: Arc::new(plan.public_links()),
    }
}
