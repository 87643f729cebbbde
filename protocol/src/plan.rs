//! The plan: a checked and calibrated run. Its bytes' SHA-256 names the run.
//!
//! [`Draft`] is what is known before calibration, [`Calibration`] what the accountant answers; [`Plan::assemble`] joins them and fixes the lattice.
//! [`Plan::parse`] reads a plan that somebody else made: everything that can be derived is derived again, and a difference refused.

mod draft;
mod error;
mod file;
mod range;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use draft::{Draft, Member};
pub use error::{DraftError, PlanError};
pub use file::MOST_PLAN_BYTES;

use crate::dissemination::entry::ENTRY_BYTES;
use crate::dissemination::sketch;
use crate::dissemination::terms::{Request, Terms};
use crate::injection::Injection;
use crate::lattice::{Lattice, LatticeError, LatticeRequest, Travel};
use crate::mixing::{Mechanism, Party};
use crate::payload::Ratio;
use crate::run_file::{
    Coalitions, Dissemination, IndependentNoise, MechanismKind, Problem, Rounds, most_rounds, supported,
};
use crate::schedule::{MultiGossip, Schedule};
use crate::sensitivity::Scales;

/// Who a claim protects against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// A coalition of parties, who also read the public graph.
    Coalition,
    /// Whoever reads the public graph only.
    Public,
}

/// Under which faults a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Faults {
    /// The tolerated class.
    Class,
    /// A party that is cut off before anything was published.
    BeforePublishing,
    /// Any.
    Any,
}

/// How a claim was established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Established {
    /// By an exact formula.
    Exact,
    /// Every coalition and every fault was computed.
    Exhaustive,
    /// Proved.
    Theorem,
    /// Some coalitions, drawn by chance. Not a guarantee.
    Sampled,
    /// Some coalitions, looked for. Not a guarantee.
    Searched,
}

/// Changes that a claim is stated for, where these are not all that the plan's adjacency allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Changes {
    /// Values that change together, by at most Δ in all, such that every sum which the adversary sees exactly stays (PPSC).
    SameSum,
}

/// One sentence of privacy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Against whom.
    pub adversary: Adversary,
    /// The coalition's size, up to this many parties (0 for `public`).
    pub size: usize,
    /// Under which faults.
    pub faults: Faults,
    /// The loss μ: the view is μ-Gaussian-DP. Finite.
    pub mu: f64,
    /// ε that follows from μ at `delta`.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// How it was established.
    pub established: Established,
    /// How many systems (coalition, fault) were computed; 1 for a theorem.
    pub cases: u64,
    /// Of the sample or search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// For which changes it holds; absent: for all of the plan's adjacency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Whether the headline ε rests on it.
    pub holds_as_headline: bool,
}

/// What the accountant expects of the result, per coordinate and in the data's unit, noise only. Where columns have units of their own
/// ([`Scales`]): the root of the mean square over columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// Without a fault.
    pub standard_error: f64,
    /// One party departs before the logs are agreed; null where no departure is tolerated.
    pub standard_error_one_dropout: Option<f64>,
    /// One party of the agreed logs publishes no final (root of the mean variance over parties); null where it was not computed.
    pub standard_error_late_dropout: Option<f64>,
    /// What a trusted server would reach.
    pub central: f64,
    /// What local noise alone would reach, under the same adjacency and weights: each party adds to its weighted value the noise that this
    /// value alone needs, of scale Δᵢ/μ, so √(Σ Δᵢ²)/(μW). With weights that differ a lot this is less than a plan reaches, whose σ* is one
    /// for everybody.
    pub local: f64,
    /// Δ√(n/n_H)/(μW).
    pub error_floor: f64,
    /// Bytes that a party sends on average, payload and framing, without faults. [`Plan::assemble`] fills it in, whatever stands here.
    pub bytes_per_party: u64,
}

/// A schedule, and the seed that it follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Of [`Schedule::draw`] on the draft's private graph.
    pub seed: u64,
    /// The schedule of that seed.
    pub schedule: Schedule,
}

/// What the accountant answers to a draft.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// T, 1…63; with PPSC 1…4096 network rounds.
    pub rounds: u32,
    /// Who sends to whom; none where it is drawn at START (`coalitions = "static"`).
    pub drawn: Option<Drawn>,
    /// σ*, in a state's units ([`Scales`]); 0 with `independent_noise = "none"`.
    pub independent_std: f64,
    /// The noise that cancels in the sum, in a state's units: σ_Δ of INCA, σ_γ of PPSC (the file's `correlated_std` or `pairwise_std`).
    pub correlated_std: f64,
    /// What is claimed, the headline first.
    pub claims: Vec<Claim>,
    /// What is expected.
    pub predicted: Predicted,
}

/// A plan that has passed every check that needs no accountant. Immutable.
#[derive(Clone, Debug)]
pub struct Plan {
    draft: Draft,
    calibration: Calibration,
    injection: Option<Arc<Injection<Ratio>>>,
    lattice: Lattice,
    scales: Scales,
    terms: Option<Arc<Terms>>,
    nonce: [u8; 16],
    /// Where the schedule is drawn at START: what was drawn.
    at_start: Option<Drawn>,
    json: Arc<str>,
    digest: [u8; 32],
}

/// The schedule of a plan whose schedule is not drawn yet.
static NOT_DRAWN: Schedule = Schedule::none();

impl Plan {
    /// Joins a draft and its calibration, and fixes the lattice. `nonce` is fresh randomness (it makes every plan's digest its own).
    pub fn assemble(mut draft: Draft, calibration: Calibration, nonce: [u8; 16]) -> Result<Self, PlanError> {
        match draft.mechanism.rounds {
            Rounds::Fixed(rounds) if rounds != calibration.rounds => {
                return Err(PlanError::Derived {
                    field: "mechanism.rounds".into(),
                });
            }
            _ => draft.mechanism.rounds = Rounds::Fixed(calibration.rounds),
        }
        let mut plan = Plan::checked(draft, calibration, nonce)?;
        plan.calibration.predicted.bytes_per_party = plan.bytes_per_party();
        plan.json = plan.write().into();
        plan.digest = Sha256::digest(plan.json.as_bytes()).into();
        Ok(plan)
    }

    /// Everything that assembling and parsing check alike. The result has no JSON and no digest yet.
    fn checked(draft: Draft, calibration: Calibration, nonce: [u8; 16]) -> Result<Self, PlanError> {
        draft.check()?;
        supported(&draft.privacy, &draft.mechanism)
            .map_err(|(field, problem)| PlanError::Settings { field, problem })?;
        calibration.check(&draft)?;
        let injection = match draft.mechanism.kind {
            MechanismKind::Ppsc => None,
            MechanismKind::Inca | MechanismKind::Gossip => {
                Some(draft.mechanism.injection.exact(calibration.rounds))
            }
        };
        let injection = injection.transpose().map_err(|problem| PlanError::Settings {
            field: "mechanism.injection".into(),
            problem: Problem::Injection(problem),
        })?;
        let injection = injection.map(Arc::new);
        let lattice = Lattice::fit(&lattice_request(&draft, &calibration, injection.as_deref()))?;
        let scales = draft.data.scales();
        let (terms, at_start, json) = (None, None, "".into());
        let mut plan = Plan {
            draft,
            calibration,
            injection,
            lattice,
            scales,
            terms,
            nonce,
            at_start,
            json,
            digest: [0; 32],
        };
        plan.check_ranges()?;
        plan.choose_dissemination()?;
        Ok(plan)
    }

    /// Fixes the terms of averaging, if finals are to be averaged: because the run file says so, or because it leaves the choice and fewer bytes
    /// travel.
    fn choose_dissemination(&mut self) -> Result<(), PlanError> {
        let choice = self.draft.run.dissemination;
        if choice == Dissemination::Flood {
            return Ok(());
        }
        let terms = Terms::of(Request {
            graph: &self.draft.public_graph,
            lattice: &self.lattice,
            accuracy: self.draft.run.accuracy,
            standard_error: self.calibration.predicted.standard_error / self.scales.root_mean_square(),
            total_weight: self.draft.total_weight(),
        });
        let floods = self.bytes_per_party();
        match terms {
            Ok(terms) => self.terms = Some(Arc::new(terms)),
            Err(_) if choice == Dissemination::Auto => {}
            Err(error) => return Err(PlanError::Averaging(error)),
        }
        if choice == Dissemination::Auto && self.bytes_per_party() >= floods {
            self.terms = None;
        }
        self.draft.run.dissemination = match self.terms {
            Some(_) => Dissemination::Consensus,
            None => Dissemination::Flood,
        };
        Ok(())
    }

    /// With `dissemination = "consensus"`: the terms of averaging.
    pub fn terms(&self) -> Option<&Arc<Terms>> {
        self.terms.as_ref()
    }

    /// What was known before calibration: settings, members, graphs. Its `mechanism.rounds` is fixed.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Rounds, schedule, noise, claims.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// n.
    pub fn parties(&self) -> usize {
        self.draft.parties()
    }

    /// T.
    pub fn rounds(&self) -> u32 {
        self.calibration.rounds
    }

    /// k.
    pub fn fanout(&self) -> u32 {
        self.draft.mechanism.fanout
    }

    /// Who sends to whom. No rounds where it is drawn at START and was not yet: see [`Plan::with_draw`].
    pub fn schedule(&self) -> &Schedule {
        let drawn = self.calibration.drawn.as_ref().or(self.at_start.as_ref());
        drawn.map_or(&NOT_DRAWN, |drawn| &drawn.schedule)
    }

    /// Whether the schedule is nobody's choice: drawn at START, from nonces that all who take part have committed to.
    pub fn draws_at_start(&self) -> bool {
        self.draft.privacy.coalitions == Coalitions::Static
    }

    /// The seed that was drawn at START, if it was ([`Plan::with_draw`]).
    pub fn seed_at_start(&self) -> Option<u64> {
        self.at_start.as_ref().map(|drawn| drawn.seed)
    }

    /// The same plan, file and digest, with the schedule that START drew. A plan that has its schedule keeps it.
    pub fn with_draw(&self, seed: u64) -> Self {
        let mut plan = self.clone();
        if plan.draws_at_start() {
            plan.at_start = Calibration::draw(&self.draft, self.rounds(), seed);
        }
        plan
    }

    /// The largest number of shares that a party may be due over all rounds, and in one round: of the schedule, or of any that can be drawn.
    pub fn shares_due(&self) -> (usize, usize) {
        shares_due(&self.draft, &self.calibration)
    }

    /// The exact (c, Z) for the plan's rounds; none with PPSC, which has no such thing.
    pub fn injection(&self) -> Option<&Injection<Ratio>> {
        self.injection.as_deref()
    }

    /// How value and noise get into the states of `party`.
    pub fn mechanism(&self, party: Party) -> Mechanism<Ratio> {
        match &self.injection {
            Some(injection) => Mechanism::Injection(injection.clone()),
            None => Mechanism::HandOver {
                hand_outs: self.schedule().hand_outs(party),
            },
        }
    }

    /// S of PPSC: an iteration has one exchange for each component of the private graph. None with INCA.
    pub fn iterations(&self) -> Option<u32> {
        let components = self.draft.private_graph.components().len().max(1);
        self.injection
            .is_none()
            .then(|| (self.schedule().shares() / components) as u32)
    }

    /// The lattice.
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// The units of a state's coordinates, in the data's unit.
    pub fn scales(&self) -> &Scales {
        &self.scales
    }

    /// What made this plan's digest its own.
    pub fn nonce(&self) -> &[u8; 16] {
        &self.nonce
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

    /// The headline ε: the largest ε of the claims that it rests on (one per fault set); None if there is none.
    pub fn epsilon_claimed(&self) -> Option<f64> {
        self.largest_epsilon(|claim| claim.holds_as_headline)
    }

    /// The largest ε that a sample or a search found, which is no guarantee; None if there was none.
    pub fn epsilon_searched(&self) -> Option<f64> {
        self.largest_epsilon(|claim| {
            matches!(claim.established, Established::Sampled | Established::Searched)
        })
    }

    fn largest_epsilon(&self, which: impl Fn(&Claim) -> bool) -> Option<f64> {
        self.calibration
            .claims
            .iter()
            .filter(|claim| which(claim))
            .map(|claim| claim.epsilon)
            .reduce(f64::max)
    }

    /// What the lattice had to carry (for [`Lattice::sampling_delta`]).
    pub fn lattice_request(&self) -> LatticeRequest<'_> {
        lattice_request(&self.draft, &self.calibration, self.injection.as_deref())
    }

    /// Bytes that a party sends on average in a run without faults: its shares and their answers, notices as often as the public graph has them
    /// passed on, logs, sets, and finals or rounds of averaging. (Within 10 % of what 10 to 200 simulated parties sent.)
    fn bytes_per_party(&self) -> u64 {
        let others = self.parties() as u64 - 1;
        let dimension = self.draft.dimension() as u64;
        // With INCA every party sends as many.
        let parties = self.parties() as u64;
        let all_shares = match &self.calibration.drawn {
            Some(drawn) => drawn.schedule.shares() as u64,
            None => parties * u64::from(self.rounds()) * u64::from(self.fanout()),
        };
        let share = dimension * u64::from(self.lattice.wire_bytes) + FRAME_BYTES;
        // Both ends of an edge send. A notice goes to all neighbours but the one that it came from.
        let ends = 2 * self.draft.public_graph.edges().len() as u64;
        let copies = (ends + 1).saturating_sub(parties);
        let notice = copies * FRAME_BYTES;
        // READY and START, and of either stage an item and a vote; a body is asked for, and sent to each party once.
        let everybodys = 6 * parties * notice + ends * parties * SETS_BYTES;
        let bodies = |bytes: u64| parties * others * (bytes + FRAME_BYTES);
        let logs = bodies(all_shares * LOG_ENTRY_BYTES / parties);
        let finals = match &self.terms {
            None => bodies(dimension * u64::from(self.lattice.final_bytes)),
            Some(terms) => {
                let rounds = terms.expected_rounds as u64 * FRAME_BYTES;
                // That it has its result, and sums of it.
                let said = parties * (2 * notice + copies * SKETCH_BYTES) + bodies(ENTRY_BYTES as u64);
                ends * (dimension * terms.expected_bytes as u64 + rounds) + said
            }
        };
        (all_shares * (share + FRAME_BYTES) + everybodys + logs + finals) / parties
    }
}

/// Frame, signature, ids of one message: measured, 115 to 165.
const FRAME_BYTES: u64 = 140;
/// Of a notice that tells sums of a result.
const SKETCH_BYTES: u64 = 16 + 8 * sketch::SUMS as u64;
/// A share's entries in the logs of its sender and its receiver, with the signed answer: our estimate.
const LOG_ENTRY_BYTES: u64 = 100;
/// A party's part of START and of the sets of two stages, which travel once in either direction of an edge ([`crate::wire::Repeats`]).
const SETS_BYTES: u64 = 24 + 2 * 40;

/// Claims of one plan: ours have six at most. Each is computed again by whoever verifies it.
const MOST_CLAIMS: u64 = 16;

fn lattice_request<'a>(
    draft: &Draft,
    calibration: &Calibration,
    injection: Option<&'a Injection<Ratio>>,
) -> LatticeRequest<'a> {
    let sent = match &calibration.drawn {
        Some(Drawn { schedule, .. }) => (0..draft.parties())
            .map(|party| schedule.hand_outs(party))
            .max()
            .unwrap_or(0),
        None => calibration.rounds as usize * draft.mechanism.fanout as usize,
    };
    let (in_degree, at_once) = shares_due(draft, calibration);
    LatticeRequest {
        parties: draft.parties(),
        dimension: draft.dimension(),
        travel: match injection {
            Some(injection) => Travel::Split {
                fanout: draft.mechanism.fanout,
                injection,
                received_bound: at_once,
            },
            None => Travel::HandOver {
                exchanges: calibration
                    .drawn
                    .as_ref()
                    .map_or(0, |drawn| drawn.schedule.shares()),
            },
        },
        value_bound: draft.value_bound(),
        rows: draft
            .members
            .iter()
            .filter_map(|member| member.records)
            .max()
            .unwrap_or(1),
        weight_bound: (0..draft.parties())
            .map(|party| draft.weight_units(party))
            .max()
            .unwrap_or(1),
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
        shares_bound: sent.max(in_degree),
        epsilon: draft.privacy.epsilon,
        delta: draft.privacy.delta,
    }
}

fn shares_due(draft: &Draft, calibration: &Calibration) -> (usize, usize) {
    match &calibration.drawn {
        Some(Drawn { schedule, .. }) => (schedule.largest_in_degree(), schedule.most_at_once()),
        None => Schedule::bounds(
            &draft.private_graph,
            draft.mechanism.fanout as usize,
            calibration.rounds as usize,
        ),
    }
}

impl Calibration {
    /// The most rounds of INCA, fewer than these, whose states fit on a lattice with this noise; none if no number does.
    pub fn most_rounds(&self, draft: &Draft) -> Option<u32> {
        let inca = draft.mechanism.kind == MechanismKind::Inca;
        (1..self.rounds).rev().filter(|_| inca).find(|&rounds| {
            let injection = draft.mechanism.injection.exact(rounds).ok();
            let drawn = self
                .drawn
                .as_ref()
                .and_then(|drawn| Self::draw(draft, rounds, drawn.seed));
            let fits = injection
                .filter(|_| drawn.is_some() == self.drawn.is_some())
                .map(|injection| {
                    let shorter = Calibration {
                        rounds,
                        drawn,
                        ..self.clone()
                    };
                    Lattice::fit(&lattice_request(draft, &shorter, Some(&injection))).is_ok()
                });
            fits == Some(true)
        })
    }

    /// The schedule of `seed` for so many rounds: with PPSC of as many iterations as fit into them. None if the private graph has parties with
    /// too few neighbours.
    pub fn draw_schedule(draft: &Draft, rounds: u32, seed: u64) -> Option<Schedule> {
        if draft.mechanism.kind == MechanismKind::Ppsc {
            return Some(MultiGossip::fitting(&draft.private_graph, rounds, seed)?.schedule());
        }
        Schedule::draw(
            &draft.private_graph,
            draft.mechanism.fanout as usize,
            rounds as usize,
            seed,
        )
    }

    /// The same with its seed.
    pub fn draw(draft: &Draft, rounds: u32, seed: u64) -> Option<Drawn> {
        Some(Drawn {
            seed,
            schedule: Self::draw_schedule(draft, rounds, seed)?,
        })
    }

    fn check(&self, draft: &Draft) -> Result<(), PlanError> {
        let most = most_rounds(draft.mechanism.kind);
        if !(1..=most).contains(&self.rounds) {
            let problem = Problem::Count {
                found: self.rounds.into(),
                least: 1,
                most: most.into(),
            };
            return Err(PlanError::Settings {
                field: "mechanism.rounds".into(),
                problem,
            });
        }
        // Squares of anything beyond overflow or vanish; no data is of that size (clipping ranges end at 1e100).
        let positive = |field: &str, found: f64| {
            number(
                field,
                found,
                (1e-120..=1e120).contains(&found),
                "from 1e-120 to 1e120: the noise that epsilon and delta ask for over this clipping range is beyond any number here",
            )
        };
        let ppsc = draft.mechanism.kind == MechanismKind::Ppsc;
        match draft.mechanism.independent_noise {
            IndependentNoise::Calibrated => positive("mechanism.independent_std", self.independent_std)?,
            IndependentNoise::None if self.independent_std == 0.0 => {}
            IndependentNoise::None => {
                return Err(PlanError::Derived {
                    field: "mechanism.independent_std".into(),
                });
            }
        }
        positive(
            if ppsc {
                "mechanism.pairwise_std"
            } else {
                "mechanism.correlated_std"
            },
            self.correlated_std,
        )?;
        // Before the schedule is drawn again: neither its shape nor the work may be what a hostile file says.
        let (parties, fanout) = (draft.parties(), draft.mechanism.fanout);
        let least = if ppsc { 0 } else { fanout as usize };
        if !ppsc && (u128::from(fanout) + 1).checked_pow(self.rounds).is_none() {
            return Err(LatticeError::TooWide { bits: 128 }.into());
        }
        if self.drawn.is_none() != (draft.privacy.coalitions == Coalitions::Static) {
            return Err(PlanError::Derived {
                field: "schedule_seed".into(),
            });
        }
        if let Some(Drawn { seed, schedule }) = &self.drawn {
            let shaped = schedule.has_shape(self.rounds as usize, parties, least..=fanout as usize);
            if !shaped || Self::draw_schedule(draft, self.rounds, *seed).as_ref() != Some(schedule) {
                return Err(PlanError::Derived { field: "out".into() });
            }
        }
        let found = self.claims.len() as u64;
        if found > MOST_CLAIMS {
            return Err(PlanError::Settings {
                field: "claims".into(),
                problem: Problem::Count {
                    found,
                    least: 0,
                    most: MOST_CLAIMS,
                },
            });
        }
        self.claims
            .iter()
            .enumerate()
            .try_for_each(|(index, claim)| claim.check(index, parties))?;
        self.predicted.check()
    }
}

impl Claim {
    fn check(&self, index: usize, parties: usize) -> Result<(), PlanError> {
        let field = |key: &str| format!("claims.{index}.{key}");
        let at_least_zero =
            |key: &str, found: f64| number(&field(key), found, found >= 0.0, "a finite number, at least 0");
        at_least_zero("mu", self.mu)?;
        at_least_zero("epsilon", self.epsilon)?;
        number(
            &field("delta"),
            self.delta,
            self.delta > 0.0 && self.delta < 1.0,
            "above 0 and below 1",
        )?;
        number(
            &field("size"),
            self.size as f64,
            self.size <= parties,
            "at most the number of parties",
        )
    }
}

impl Predicted {
    /// All errors times `factor`: from a state's units to the data's ([`Scales::root_mean_square`]).
    pub fn times(self, factor: f64) -> Self {
        let times = |error: f64| error * factor;
        Predicted {
            standard_error: times(self.standard_error),
            standard_error_one_dropout: self.standard_error_one_dropout.map(times),
            standard_error_late_dropout: self.standard_error_late_dropout.map(times),
            central: times(self.central),
            local: times(self.local),
            error_floor: times(self.error_floor),
            bytes_per_party: self.bytes_per_party,
        }
    }

    fn check(&self) -> Result<(), PlanError> {
        let all = [
            ("standard_error", Some(self.standard_error)),
            ("standard_error_one_dropout", self.standard_error_one_dropout),
            ("standard_error_late_dropout", self.standard_error_late_dropout),
            ("central", Some(self.central)),
            ("local", Some(self.local)),
            ("error_floor", Some(self.error_floor)),
        ];
        all.into_iter()
            .filter_map(|(key, value)| value.map(|value| (key, value)))
            .try_for_each(|(key, value)| {
                number(
                    &format!("predicted.{key}"),
                    value,
                    value >= 0.0,
                    "a finite number, at least 0",
                )
            })
    }
}

fn number(field: &str, found: f64, fine: bool, expected: &'static str) -> Result<(), PlanError> {
    if fine && found.is_finite() {
        return Ok(());
    }
    Err(PlanError::Settings {
        field: field.to_string(),
        problem: Problem::Range { found, expected },
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
