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

use crate::injection::Injection;
use crate::lattice::{Lattice, LatticeError, LatticeRequest};
use crate::payload::Ratio;
use crate::run_file::{Coalitions, MOST_ROUNDS, Problem, Rounds, supported};
use crate::schedule::Schedule;
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
    /// T, 1…63.
    pub rounds: u32,
    /// Who sends to whom; none where it is drawn at START (`coalitions = "static"`).
    pub drawn: Option<Drawn>,
    /// σ*, in a state's units ([`Scales`]).
    pub independent_std: f64,
    /// σ_Δ, in a state's units.
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
    injection: Injection<Ratio>,
    lattice: Lattice,
    scales: Scales,
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
                return Err(PlanError::Derived { field: "mechanism.rounds".into() });
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
        supported(&draft.privacy, &draft.mechanism, &draft.run)
            .map_err(|(field, problem)| PlanError::Settings { field, problem })?;
        calibration.check(&draft)?;
        let injection = draft.mechanism.injection.exact(calibration.rounds).map_err(|problem| PlanError::Settings {
            field: "mechanism.injection".into(),
            problem: Problem::Injection(problem),
        })?;
        let lattice = fit_lattice(&draft, &calibration, &injection)?;
        let scales = draft.data.scales();
        let (at_start, json) = (None, "".into());
        let plan = Plan { draft, calibration, injection, lattice, scales, nonce, at_start, json, digest: [0; 32] };
        plan.check_ranges()?;
        Ok(plan)
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

    /// The exact (c, Z) for the plan's rounds.
    pub fn injection(&self) -> &Injection<Ratio> {
        &self.injection
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
        self.largest_epsilon(|claim| matches!(claim.established, Established::Sampled | Established::Searched))
    }

    fn largest_epsilon(&self, which: impl Fn(&Claim) -> bool) -> Option<f64> {
        self.calibration.claims.iter().filter(|claim| which(claim)).map(|claim| claim.epsilon).reduce(f64::max)
    }

    /// What the lattice had to carry (for [`Lattice::sampling_delta`]).
    pub fn lattice_request(&self) -> LatticeRequest<'_> {
        lattice_request(&self.draft, &self.calibration, &self.injection)
    }

    /// Bytes that a party sends on average in a run without faults: its shares, and as many finals as it receives (each body is pulled
    /// once), each with a frame and signature of about [`FRAME_BYTES`]; logs, sets and READYs as frames.
    fn bytes_per_party(&self) -> u64 {
        let others = self.parties() as u64 - 1;
        let dimension = self.draft.dimension() as u64;
        let shares = u64::from(self.rounds()) * u64::from(self.fanout());
        let share = dimension * u64::from(self.lattice.wire_bytes) + FRAME_BYTES;
        let last = dimension * u64::from(self.lattice.final_bytes) + FRAME_BYTES;
        let log = shares * LOG_ENTRY_BYTES + FRAME_BYTES;
        shares * (share + FRAME_BYTES) + others * (last + log + 6 * FRAME_BYTES)
    }
}

/// Frame, signature, ids of one message: our estimate.
const FRAME_BYTES: u64 = 160;
/// A share's entries in the logs of its sender and its receiver, with the signed answer: our estimate.
const LOG_ENTRY_BYTES: u64 = 100;

fn lattice_request<'a>(draft: &Draft, calibration: &Calibration, injection: &'a Injection<Ratio>) -> LatticeRequest<'a> {
    let sent = calibration.rounds as usize * draft.mechanism.fanout as usize;
    let (in_degree, received_bound) = shares_due(draft, calibration);
    LatticeRequest {
        parties: draft.parties(),
        dimension: draft.dimension(),
        fanout: draft.mechanism.fanout,
        injection,
        value_bound: draft.value_bound(),
        rows: draft.members.iter().filter_map(|member| member.records).max().unwrap_or(1),
        weight_bound: (0..draft.parties()).map(|party| draft.weight_units(party)).max().unwrap_or(1),
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
        shares_bound: sent.max(in_degree),
        received_bound,
        epsilon: draft.privacy.epsilon,
        delta: draft.privacy.delta,
    }
}

fn shares_due(draft: &Draft, calibration: &Calibration) -> (usize, usize) {
    match &calibration.drawn {
        Some(Drawn { schedule, .. }) => (schedule.largest_in_degree(), schedule.most_at_once()),
        None => Schedule::bounds(&draft.private_graph, draft.mechanism.fanout as usize, calibration.rounds as usize),
    }
}

fn fit_lattice(draft: &Draft, calibration: &Calibration, injection: &Injection<Ratio>) -> Result<Lattice, PlanError> {
    Ok(Lattice::fit(&lattice_request(draft, calibration, injection))?)
}

impl Calibration {
    /// Draws the schedule of `seed` and takes the rest as given. None if the private graph has parties with too few neighbours.
    pub fn draw_schedule(draft: &Draft, rounds: u32, seed: u64) -> Option<Schedule> {
        Schedule::draw(&draft.private_graph, draft.mechanism.fanout as usize, rounds as usize, seed)
    }

    /// The same with its seed.
    pub fn draw(draft: &Draft, rounds: u32, seed: u64) -> Option<Drawn> {
        Some(Drawn { seed, schedule: Self::draw_schedule(draft, rounds, seed)? })
    }

    fn check(&self, draft: &Draft) -> Result<(), PlanError> {
        if !(1..=MOST_ROUNDS).contains(&self.rounds) {
            let problem = Problem::Count { found: self.rounds.into(), least: 1, most: MOST_ROUNDS.into() };
            return Err(PlanError::Settings { field: "mechanism.rounds".into(), problem });
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
        positive("mechanism.independent_std", self.independent_std)?;
        positive("mechanism.correlated_std", self.correlated_std)?;
        // Before the schedule is drawn again: neither its shape nor the work may be what a hostile file says.
        let (parties, fanout) = (draft.parties(), draft.mechanism.fanout);
        if (u128::from(fanout) + 1).checked_pow(self.rounds).is_none() {
            return Err(LatticeError::TooWide { bits: 128 }.into());
        }
        if self.drawn.is_none() != (draft.privacy.coalitions == Coalitions::Static) {
            return Err(PlanError::Derived { field: "schedule_seed".into() });
        }
        if let Some(Drawn { seed, schedule }) = &self.drawn {
            let shaped = schedule.has_shape(self.rounds as usize, parties, fanout as usize);
            if !shaped || Self::draw_schedule(draft, self.rounds, *seed).as_ref() != Some(schedule) {
                return Err(PlanError::Derived { field: "out".into() });
            }
        }
        self.claims.iter().enumerate().try_for_each(|(index, claim)| claim.check(index, parties))?;
        self.predicted.check()
    }
}

impl Claim {
    fn check(&self, index: usize, parties: usize) -> Result<(), PlanError> {
        let field = |key: &str| format!("claims.{index}.{key}");
        let at_least_zero = |key: &str, found: f64| number(&field(key), found, found >= 0.0, "a finite number, at least 0");
        at_least_zero("mu", self.mu)?;
        at_least_zero("epsilon", self.epsilon)?;
        number(&field("delta"), self.delta, self.delta > 0.0 && self.delta < 1.0, "above 0 and below 1")?;
        number(&field("size"), self.size as f64, self.size <= parties, "at most the number of parties")
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
            .try_for_each(|(key, value)| number(&format!("predicted.{key}"), value, value >= 0.0, "a finite number, at least 0"))
    }
}

fn number(field: &str, found: f64, fine: bool, expected: &'static str) -> Result<(), PlanError> {
    if fine && found.is_finite() {
        return Ok(());
    }
    Err(PlanError::Settings { field: field.to_string(), problem: Problem::Range { found, expected } })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
