//! The plan: a checked and calibrated run. Its bytes' SHA-256 names the run.
//!
//! [`Draft`] is what is known before calibration, [`Calibration`] what the accountant answers;
//! [`Plan::assemble`] joins them and fixes the lattice. [`Plan::parse`] reads a plan that somebody
//! else made: everything that can be derived is derived again, and a difference refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::averaging::terms::{AveragingTerms, Request};
use crate::lattice::grid::{Lattice, LatticeError, LatticeRequest, WEIGHT_UNIT};
use crate::lattice::payload::Ratio;
use crate::lattice::residue::Ring;
use crate::plan::calibration::{Calibration, SeededSchedule};
use crate::plan::claim::{Claim, Established, Predicted};
use crate::plan::draft::Draft;
use crate::plan::error::PlanError;
use crate::plan::exchange::injector::Mechanism;
use crate::plan::exchange::rules::Planned;
use crate::plan::hex::hex;
use crate::plan::known_signatures::{KnownSignatures, WhileRun};
use crate::plan::peers::contact::Contact;
use crate::plan::precomputed_noise;
use crate::plan::run_file::problem::Problem;
use crate::plan::run_file::records::Records;
use crate::plan::run_file::settings::{Coalitions, Rounds};
use crate::plan::sensitivity::Scales;
use crate::plan::shares::ShareCounts;
use crate::sealing::holders::{Threshold, ThresholdError, Tolerance};
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// A plan that has passed every check that needs no accountant. Immutable.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) draft: Draft,
    pub(super) calibration: Calibration,
    mechanism: Arc<dyn Planned>,
    pub(super) lattice: Lattice,
    pub(super) scales: Scales,
    terms: Option<Arc<AveragingTerms>>,
    /// The random bytes that make this plan's digest unique.
    pub(super) nonce: [u8; 16],
    /// The schedule drawn at START with its seed, where START draws it.
    at_start: Option<SeededSchedule>,
    /// The known record counts of parties, where START fixes them.
    counted: Arc<RecordsAtStart>,
    pub(super) json: Arc<str>,
    pub(super) digest: [u8; 32],
    known: WhileRun,
}

/// Refuses what a proposer of a schedule's plan has no say in: its nonce, and where members are.
fn check_scheduled(draft: &Draft, nonce: &[u8; 16]) -> Result<(), PlanError> {
    let Some(scheduled) = &draft.scheduled else {
        return Ok(());
    };
    let derived = |field: String| Err(PlanError::Derived { field });
    if scheduled.nonce(draft.identified()) != *nonce {
        return derived("nonce".into());
    }
    let mut members = draft.members.iter();
    match members.position(|member| member.contact != Contact::default()) {
        Some(index) => derived(format!("members.{index}")),
        None if draft.relays.is_empty() => Ok(()),
        None => derived("relays".into()),
    }
}

/// The numbers of records of parties for which the plan has only a bound.
pub type RecordsAtStart = BTreeMap<Party, u32>;

/// The schedule of a plan whose schedule is not drawn yet.
static NOT_DRAWN: Schedule = Schedule::none();

impl Plan {
    /// Joins a draft and its calibration, and fixes the lattice. `nonce` is fresh randomness (it
    /// makes every plan's digest its own).
    pub fn assemble(mut draft: Draft, calibration: Calibration, nonce: [u8; 16]) -> Result<Self, PlanError> {
        let rounds = Rounds::Fixed(calibration.rounds);
        if ![Rounds::Auto, rounds].contains(&draft.exchange.rounds()) {
            return Err(PlanError::Derived {
                field: "mechanism.rounds".into(),
            });
        }
        draft.exchange = draft.exchange.with_rounds(rounds);
        let mut plan = Plan::checked(draft, calibration, nonce)?;
        plan.calibration.predicted.bytes_per_party = plan.bytes_per_party();
        let added: Vec<f64> = plan
            .calibration
            .claims
            .iter()
            .map(|claim| match claim.unbounded {
                true => 0.0,
                false => plan.sampling_delta(claim.epsilon),
            })
            .collect();
        for (claim, added) in plan.calibration.claims.iter_mut().zip(added) {
            claim.sampling_delta = added;
        }
        plan.json = plan.write().into();
        plan.digest = Sha256::digest(plan.json.as_bytes()).into();
        Ok(plan)
    }

    /// Checks everything that assembling and parsing check alike. The result has no JSON and no
    /// digest yet.
    pub(super) fn checked(
        draft: Draft,
        calibration: Calibration,
        nonce: [u8; 16],
    ) -> Result<Self, PlanError> {
        draft.check()?;
        check_scheduled(&draft, &nonce)?;
        let settings = |(field, problem)| PlanError::Settings { field, problem };
        draft.asked().check_carried().map_err(settings)?;
        calibration.check(&draft)?;
        if let (true, Some(drawn)) = (draft.averages(), &calibration.drawn) {
            // Edges by chance leave some with fewer.
            let sends = |round| (0..draft.parties()).map(move |party| drawn.schedule.sends_to(round, party));
            let degrees = (1..=calibration.rounds).flat_map(sends).map(<[_]>::len);
            draft.check_circles(degrees.min().unwrap_or(0))?;
        }
        let mechanism = draft
            .exchange
            .planned(calibration.rounds)
            .map_err(|error| settings(("mechanism.injection".into(), Problem::Injection(error))))?;
        let lattice = Lattice::fit(&calibration.lattice_request(&draft, &*mechanism))?;
        let scales = draft.data.scales();
        let mut plan = Plan {
            draft,
            calibration,
            mechanism,
            lattice,
            scales,
            terms: None,
            nonce,
            at_start: None,
            counted: Arc::default(),
            json: "".into(),
            digest: [0; 32],
            known: WhileRun::default(),
        };
        if plan.reads_circles() && plan.circle_ring().is_none() {
            return Err(LatticeError::TooWide { bits: 128 }.into());
        }
        plan.check_ranges()?;
        plan.check_precomputed_noise()?;
        plan.threshold(plan.parties())?;
        plan.choose_dissemination()?;
        Ok(plan)
    }

    /// Refuses precomputed noise that is more than a node may hold.
    fn check_precomputed_noise(&self) -> Result<(), PlanError> {
        if !self.precomputes_noise() {
            return Ok(());
        }
        let (graph, releases) = (&self.draft.private_graph, self.draft.releases());
        let busiest = (0..self.parties())
            .map(|party| graph.neighbours(party).len())
            .max();
        let held = |releases: u64| {
            let coordinates = releases.saturating_mul(self.draft.dimension() as u64);
            precomputed_noise::bytes_held(busiest.unwrap_or(0), coordinates, self.lattice.wire_bytes)
        };
        let sequence = self.draft.computation.sequence();
        let most = sequence.map_or(0, |sequence| sequence.precomputed_bytes);
        let found = held(releases);
        if found <= most {
            return Ok(());
        }
        Err(PlanError::PrecomputedNoise {
            found,
            most,
            releases: most / held(1).max(1),
        })
    }

    /// Fixes how finals spread: as the run file says, or where it leaves the choice by slices if
    /// clearly fewer bytes travel; and the terms of averaging, if finals are averaged.
    fn choose_dissemination(&mut self) -> Result<(), PlanError> {
        let chosen = self.draft.run.dissemination.decided(|| self.prefers_slices());
        let (found, fewest) = (self.parties(), self.fewest_for_slices());
        if chosen.is_in_slices() && found < fewest {
            return Err(PlanError::TooFewForSlices { found, fewest });
        }
        self.draft.run.dissemination = chosen;
        if chosen.is_by_consensus() {
            let terms = AveragingTerms::of(Request {
                graph: &self.draft.public_graph,
                lattice: &self.lattice,
                accuracy: self.draft.run.accuracy,
                standard_error: self.calibration.predicted.standard_error / self.scales.root_mean_square(),
                total_weight: self.draft.total_weight(),
            });
            self.terms = Some(Arc::new(terms.map_err(PlanError::Averaging)?));
        }
        Ok(())
    }

    /// Returns the terms of averaging, with `dissemination = "consensus"`.
    pub fn terms(&self) -> Option<&Arc<AveragingTerms>> {
        self.terms.as_ref()
    }

    /// Returns the draft before calibration: settings, members, graphs. Its `mechanism.rounds` is
    /// fixed.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Its members' signatures that need no second verification.
    pub(crate) fn known_signatures(&self) -> KnownSignatures {
        self.known.known()
    }

    /// Rounds, schedule, noise, claims.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// The number of parties n.
    pub fn parties(&self) -> usize {
        self.draft.parties()
    }

    /// The number of rounds T of the schedule.
    pub fn rounds(&self) -> u32 {
        self.calibration.rounds
    }

    /// The number of rounds in which parties mix; 0 where they do not.
    pub fn mixing_rounds(&self) -> u32 {
        if self.mixes() { self.rounds() } else { 0 }
    }

    /// Returns the number of parties that each sends to in a round, k (with PPSC at most 1).
    pub fn fanout(&self) -> u32 {
        self.draft.exchange.fanout()
    }

    /// Returns the receivers of each sender in each round, or with masks of pairs the pairs that
    /// have one in common. No rounds where it is drawn at START and was not yet: see
    /// [`Plan::with_draw`].
    pub fn schedule(&self) -> &Schedule {
        let drawn = self.calibration.drawn.as_ref().or(self.at_start.as_ref());
        drawn.map_or(&NOT_DRAWN, |drawn| &drawn.schedule)
    }

    /// Whether parties mix: exchange shares, round by round.
    pub fn mixes(&self) -> bool {
        self.draft.exchange.rules().mixes()
    }

    /// Returns the most times that noise is precomputed, each time afresh, before a training gives
    /// up: 0 where it is not precomputed.
    pub fn most_mixings(&self) -> u32 {
        let sequence = self.draft.computation.sequence();
        let attempts = sequence.map_or(0, |sequence| sequence.mixing_attempts);
        if self.mixes() { attempts } else { 0 }
    }

    /// Whether what parties mix is noise for all releases of a training, before any value is
    /// touched.
    pub fn precomputes_noise(&self) -> bool {
        self.draft.computation.sequence().is_some() && self.mixes()
    }

    /// Whether a run only gathers, and what follows is the task's: PPSC's outer iterations, and
    /// gossip over edges.
    pub fn goes_on_by_task(&self) -> bool {
        let open = self.draft.averages() && !self.reads_circles();
        self.draft.computation.recursion().is_some() || open
    }

    /// Whether neighbours read sums of each other's messages, each over the circle of one reader.
    pub fn reads_circles(&self) -> bool {
        self.draft.sums_neighbours()
    }

    /// The ring of what is sealed for the circles of neighbours; `None` where there are none.
    pub fn circle_ring(&self) -> Option<Ring> {
        self.lattice.circle_ring().filter(|_| self.reads_circles())
    }

    /// The edges that are active in a round of gossip, from 1.
    pub fn active_edges(&self, round: u32) -> Graph {
        let edges = Graph::from_edges(self.parties(), &self.schedule().pairs(round));
        edges.expect("a checked plan's edges join its parties")
    }

    /// Whether pairs of parties have masks in common.
    pub fn pairs(&self) -> bool {
        !self.mixes() || self.reads_circles()
    }

    /// Coordinates of what parties mix: of precomputed noise those of all releases.
    pub fn mixed_coordinates(&self) -> usize {
        let releases = if self.precomputes_noise() {
            self.draft.releases()
        } else {
            1
        };
        // A checked plan's are within `run.precomputed_bytes`.
        self.draft.dimension().saturating_mul(releases as usize)
    }

    /// Returns the schedule of shares: empty where no party mixes.
    pub fn exchanges(&self) -> &Schedule {
        if self.mixes() { self.schedule() } else { &NOT_DRAWN }
    }

    /// Returns the graph of parties that have a mask in common, where nobody mixes.
    pub fn mask_graph(&self) -> Option<Graph> {
        (!self.mixes()).then(|| self.schedule().meetings())
    }

    /// The number of the one result of a run, in all that is sealed and opened for it: 0, or where
    /// one START may have many results by masks of pairs the first, 1.
    pub fn sealed_round(&self) -> u32 {
        if self.pairs() { 1 } else { 0 }
    }

    /// The seed that the schedule follows from; `None` where it is drawn at START and was not yet.
    pub fn schedule_seed(&self) -> Option<u64> {
        let drawn = self.calibration.drawn.as_ref().or(self.at_start.as_ref());
        drawn.map(|drawn| drawn.seed)
    }

    /// Whether the schedule is nobody's choice: drawn at START, from nonces that all who take part
    /// have committed to.
    pub fn draws_at_start(&self) -> bool {
        self.draft.privacy.coalitions == Coalitions::Static
    }

    /// The seed that was drawn at START, if it was ([`Plan::with_draw`]).
    pub fn seed_at_start(&self) -> Option<u64> {
        self.at_start.as_ref().map(|drawn| drawn.seed)
    }

    /// A copy of the plan, file and digest unchanged, with the schedule that START drew. A plan
    /// that has its schedule keeps it.
    pub fn with_draw(&self, seed: u64) -> Self {
        let mut plan = self.clone();
        if plan.draws_at_start() {
            plan.at_start = Calibration::draw(&self.draft, self.rounds(), seed);
        }
        plan
    }

    /// A copy of the plan, file and digest unchanged, that knows how many records these parties
    /// contribute, and no others: a node's own before START, everybody's once that fixes them.
    /// Numbers that the plan has itself, or that are above its bounds, are left out.
    pub fn with_records(&self, counts: &RecordsAtStart) -> Self {
        let bounded = |party: &Party, count: u32| {
            let records = self.draft.members.get(*party).and_then(|member| member.records);
            Records::admit_announced(records, Some(count))
        };
        let known = counts.iter().filter(|&(party, &count)| bounded(party, count));
        Plan {
            counted: Arc::new(known.map(|(&party, &count)| (party, count)).collect()),
            ..self.clone()
        }
    }

    /// The numbers of records that START has fixed, or that are known before, where the plan has
    /// bounds.
    pub fn records_at_start(&self) -> &RecordsAtStart {
        &self.counted
    }

    /// Returns the number of a party's records: as START has fixed it or the plan says it, else its
    /// bound. `None` where a party is protected as a whole.
    pub fn records(&self, party: Party) -> Option<u64> {
        let records = self.draft.members[party].records?;
        let counted = self.counted.get(&party).copied();
        Some(counted.map_or(records.most(), u64::from))
    }

    /// Returns the number of records that a party's READY announces: `None` where the plan has the
    /// number, or protects parties.
    pub fn announced_records(&self, party: Party) -> Option<u32> {
        match self.draft.members[party].records? {
            // At most 2³¹, by `RecordCounts::check`.
            Records::AtMost(_) => self.records(party).map(|count| count as u32),
            Records::Exactly(_) => None,
        }
    }

    /// Returns the weight of a party's value in the result, in the lattice's units of
    /// 1/[`WEIGHT_UNIT`]. It is the public weight, the number of records ([`Plan::records`]), or 1.
    pub fn weight_units(&self, party: Party) -> u64 {
        let records = self.records(party);
        records.map_or_else(|| self.draft.weight_units(party), |count| count * WEIGHT_UNIT)
    }

    /// Returns the weight of a party's value in the result; see [`Plan::weight_units`].
    pub fn weight(&self, party: Party) -> f64 {
        // Exact: at most 2⁵¹ units of a power of two.
        self.weight_units(party) as f64 / WEIGHT_UNIT as f64
    }

    /// The sum of all parties' weights, as far as they are known ([`Plan::weight`]).
    pub fn total_weight(&self) -> f64 {
        (0..self.parties()).map(|party| self.weight(party)).sum()
    }

    /// The predicted errors for the weights that are known ([`Plan::weight`]): those of a sum as
    /// planned, those of a mean for as much weight as there is.
    pub fn predicted(&self) -> Predicted {
        let (planned, known) = (self.draft.total_weight(), self.total_weight());
        let divisor = |weight| self.draft.computation.result().divisor(weight);
        self.calibration
            .predicted
            .clone()
            .times(divisor(planned) / divisor(known))
    }

    /// Returns the predicted errors of a result that has the data of these parties: the noise of
    /// all parties over the weight of these, which is never below the noise of fewer.
    pub fn predicted_over(&self, included: &BTreeSet<Party>) -> Predicted {
        let weight: f64 = included.iter().map(|&party| self.weight(party)).sum();
        let divisor = |weight| self.draft.computation.result().divisor(weight);
        let factor = divisor(self.draft.total_weight()) / divisor(weight);
        self.calibration.predicted.clone().times(factor)
    }

    /// Returns the number of shares of the run: of the schedule in the file, or at most of any that
    /// can be drawn.
    pub fn shares(&self) -> ShareCounts {
        self.calibration.shares(&self.draft)
    }

    /// Returns the number of shares that make the secret of a sealed final known, and that of its
    /// holders, if `started` members have started. It is `None` where finals are not sealed.
    ///
    /// # Errors
    /// Too few members have started, or too few to hold so many shares.
    pub fn threshold(&self, started: usize) -> Result<Option<Threshold>, ThresholdError> {
        if !self.draft.run.sealed {
            return Ok(None);
        }
        Threshold::of(Tolerance {
            members: self.parties(),
            started,
            colluding: self.draft.privacy.colluding,
            dropouts: self.draft.privacy.dropouts,
        })
        .map(Some)
    }

    /// Returns the mechanism by which value and noise get into the states of `party`, at its node.
    pub fn mechanism(&self, party: Party) -> Mechanism<Ratio> {
        self.mechanism.injector(self.exchanges(), party)
    }

    /// Returns the mechanism by which value and noise get into the states of `party`, for an
    /// analysis of a coalition's knowledge. Masks of pairs are drawn, and handed to the other party
    /// of the pair, where nodes expand them from a key.
    pub fn mechanism_as_drawn(&self, party: Party) -> Mechanism<Ratio> {
        self.mechanism.injector(self.schedule(), party)
    }

    /// The number of PPSC's iterations, in each of which every component of the private graph has
    /// one exchange; `None` with INCA.
    pub fn iterations(&self) -> Option<u32> {
        self.mechanism
            .iterations(&self.draft.private_graph, self.schedule())
    }

    /// The lattice on which states of this plan live.
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// The units of a state's coordinates, in the data's unit.
    pub fn scales(&self) -> &Scales {
        &self.scales
    }

    /// The file's text: what was parsed, or what [`Plan::assemble`] wrote.
    pub fn to_json(&self) -> &str {
        &self.json
    }

    /// SHA-256 of the file's bytes.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The digest as files and messages write it: 64 lower-case hex digits.
    pub fn digest_hex(&self) -> String {
        hex(&self.digest)
    }

    /// The headline ε: the largest ε of the claims that it rests on (one per fault set); None if
    /// there is none.
    pub fn epsilon_claimed(&self) -> Option<f64> {
        self.largest_epsilon(|claim| claim.holds_as_headline)
    }

    /// The largest ε that a search found, which is no guarantee; None if there was none.
    pub fn epsilon_searched(&self) -> Option<f64> {
        self.largest_epsilon(|claim| claim.established == Established::Searched)
    }

    fn largest_epsilon(&self, which: impl Fn(&Claim) -> bool) -> Option<f64> {
        self.calibration
            .claims
            .iter()
            .filter(|claim| which(claim))
            .map(|claim| claim.epsilon)
            .reduce(f64::max)
    }

    /// Returns the most that sampling and rounding the noise of all releases adds to δ of a
    /// statement with this ε.
    pub fn sampling_delta(&self, epsilon: f64) -> f64 {
        let request = LatticeRequest {
            epsilon,
            ..self.lattice_request()
        };
        let each = self.lattice.sampling_delta(&request);
        (each * self.draft.releases() as f64).min(1.0)
    }

    /// The chance, at most, that some draw of the schedule that may be tried does not hide what the
    /// headline says: 0 where it rests on none.
    pub fn draw_chance(&self) -> f64 {
        let headline = self
            .calibration
            .claims
            .iter()
            .filter(|claim| claim.holds_as_headline);
        let draws = headline.filter_map(|claim| claim.draw);
        draws.map(|draw| draw.chance_of_all()).fold(0.0, f64::max)
    }

    /// Returns the largest total variation distance between the noise of all releases and the noise
    /// that its claims are about, at every ε alike.
    pub fn sampling_distance(&self) -> f64 {
        // At ε = 0 sampling adds (1 + 1) times the distance to δ.
        self.sampling_delta(0.0) / 2.0
    }

    /// Returns the requirements on the plan's lattice (for [`Lattice::sampling_delta`]).
    pub fn lattice_request(&self) -> LatticeRequest<'_> {
        self.calibration.lattice_request(&self.draft, &*self.mechanism)
    }
}

#[cfg(test)]
mod tests;
