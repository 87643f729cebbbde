//! The mechanism in PLAN.json: its settings, and the numbers that were calibrated or follow.

use serde::{Deserialize, Serialize};

use crate::lattice::average::AVERAGE_BITS;
use crate::plan::checked::Plan;
use crate::plan::error::PlanError;
use crate::plan::mechanism::rules::Rules;
use crate::plan::run_file::gossip::{Circle, GossipSettings, SumsChoice};
use crate::plan::run_file::settings::{
    CorrelatedNoise, IndependentNoise, InjectionChoice, MechanismKind, MechanismSettings, Rounds,
};
use crate::sealing::holders::Threshold;
use crate::topology::active_edges::ActiveEdges;

/// The mechanism as the file has it. Which of its optional keys are there follows from the kind
/// ([`Rules::keys`](crate::plan::mechanism::rules::Rules::keys)).
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MechanismFile {
    kind: MechanismKind,
    /// The noise that cancels, where it is not Gaussian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlated: Option<CorrelatedNoise>,
    /// The injection (c, Z); null with PPSC, and with uniform noise.
    injection: Option<InjectionChoice>,
    pub(super) rounds: u32,
    /// The number of iterations; with PPSC only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
    fanout: u32,
    rollback: bool,
    /// The settings of gossip: this one and the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sums: Option<SumsChoice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    circle: Option<Circle>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edges: Option<ActiveEdges>,
    /// Weights of gossip are multiples of 2 to the minus so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight_bits: Option<u32>,
    /// How many shares make a secret known, where sums are secure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threshold: Option<usize>,
    /// The settings of PPSC as the run file has them: this one and the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    independent_noise: Option<IndependentNoise>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accept_exact_sum: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    local_noise_ok: Option<bool>,
    /// Null with `independent_noise = "none"`.
    independent_std: Option<f64>,
    /// σ_Δ, the deviation of the noise that cancels in INCA; null with PPSC.
    correlated_std: Option<f64>,
    /// σ_γ, the deviation of the noise that a party of PPSC keeps; null with INCA.
    pairwise_std: Option<f64>,
    step_log2: i32,
    state_bits: u32,
    wire_bytes: u32,
}

impl MechanismFile {
    /// What the file says of a plan's mechanism.
    pub(super) fn of(plan: &Plan) -> Self {
        let (settings, calibration) = (&plan.draft().mechanism, plan.calibration());
        let has = |key| has_key(settings.rules(), settings.correlated, key);
        let cancelling = calibration.correlated_std;
        MechanismFile {
            kind: settings.kind,
            correlated: has("correlated").then_some(settings.correlated),
            injection: has("injection").then(|| settings.injection.clone()),
            rounds: calibration.rounds,
            iterations: plan.iterations(),
            fanout: settings.fanout,
            rollback: settings.rollback,
            sums: settings.gossip.map(|gossip| gossip.sums),
            circle: settings.gossip.and_then(|gossip| gossip.circle),
            edges: settings.gossip.map(|gossip| gossip.edges),
            weight_bits: has("weight_bits").then_some(AVERAGE_BITS),
            threshold: threshold(plan),
            independent_noise: has("independent_noise").then_some(settings.independent_noise),
            accept_exact_sum: has("accept_exact_sum").then_some(settings.accept_exact_sum),
            local_noise_ok: has("local_noise_ok").then_some(settings.local_noise_ok),
            independent_std: (settings.independent_noise != IndependentNoise::None)
                .then_some(calibration.independent_std),
            correlated_std: has("correlated_std").then_some(cancelling),
            pairwise_std: has("pairwise_std").then_some(cancelling),
            step_log2: plan.lattice().step_log2,
            state_bits: plan.lattice().state_bits,
            wire_bytes: plan.lattice().wire_bytes,
        }
    }

    /// The settings; which keys are there must go with the kind.
    pub(super) fn settings(&self) -> Result<MechanismSettings, PlanError> {
        self.check_keys()?;
        let independent_noise = self.independent_noise.unwrap_or(IndependentNoise::Calibrated);
        if self.independent_std.is_some() != (independent_noise == IndependentNoise::Calibrated) {
            return Err(derived("independent_std"));
        }
        let injection = match self.correlated() {
            CorrelatedNoise::Gaussian => InjectionChoice::Incremental,
            CorrelatedNoise::Uniform => InjectionChoice::Late,
        };
        Ok(MechanismSettings {
            kind: self.kind,
            correlated: self.correlated(),
            injection: self.injection.clone().unwrap_or(injection),
            rounds: Rounds::Fixed(self.rounds),
            fanout: self.fanout,
            rollback: self.rollback,
            independent_noise,
            accept_exact_sum: self.accept_exact_sum.unwrap_or(false),
            local_noise_ok: self.local_noise_ok.unwrap_or(false),
            gossip: self.gossip(),
        })
    }

    /// Whether the file is of gossip over edges, which are its schedule.
    pub(super) fn averages(&self) -> bool {
        self.gossip().is_some_and(|gossip| !gossip.sums_everybody())
    }

    fn gossip(&self) -> Option<GossipSettings> {
        Some(GossipSettings {
            sums: self.sums?,
            circle: self.circle,
            edges: self.edges?,
        })
    }

    fn correlated(&self) -> CorrelatedNoise {
        self.correlated.unwrap_or(CorrelatedNoise::Gaussian)
    }

    fn check_keys(&self) -> Result<(), PlanError> {
        let found = [
            ("correlated", self.correlated.is_some()),
            ("injection", self.injection.is_some()),
            ("iterations", self.iterations.is_some()),
            ("independent_noise", self.independent_noise.is_some()),
            ("accept_exact_sum", self.accept_exact_sum.is_some()),
            ("local_noise_ok", self.local_noise_ok.is_some()),
            ("sums", self.sums.is_some()),
            ("circle", self.circle.is_some()),
            ("threshold", self.threshold.is_some()),
            ("edges", self.edges.is_some()),
            ("weight_bits", self.weight_bits.is_some()),
            ("correlated_std", self.correlated_std.is_some()),
            ("pairwise_std", self.pairwise_std.is_some()),
        ];
        let rules = self.kind.rules_with(self.gossip());
        let mut wrong = found
            .into_iter()
            .filter(|&(key, found)| found != has_key(rules, self.correlated(), key));
        wrong.next().map_or(Ok(()), |(key, _)| Err(derived(key)))
    }

    /// σ*, the standard deviation of the independent noise; 0 where there is none.
    pub(super) fn independent_std(&self) -> f64 {
        self.independent_std.unwrap_or(0.0)
    }

    /// The standard deviation of the noise that cancels in the sum: σ_Δ or σ_γ.
    pub(super) fn cancelling_std(&self) -> f64 {
        self.correlated_std.or(self.pairwise_std).unwrap_or(0.0)
    }

    /// Refuses numbers that are not what the rest of the plan gives.
    pub(super) fn check_derived(&self, plan: &Plan) -> Result<(), PlanError> {
        let lattice = plan.lattice();
        let pairs = [
            ("iterations", self.iterations == plan.iterations()),
            ("step_log2", self.step_log2 == lattice.step_log2),
            ("state_bits", self.state_bits == lattice.state_bits),
            ("wire_bytes", self.wire_bytes == lattice.wire_bytes),
            (
                "threshold",
                self.threshold.is_none() || self.threshold == threshold(plan),
            ),
            (
                "weight_bits",
                self.weight_bits.is_none_or(|bits| bits == AVERAGE_BITS),
            ),
        ];
        let mut wrong = pairs.into_iter().filter(|&(_, same)| !same);
        wrong.next().map_or(Ok(()), |(key, _)| Err(derived(key)))
    }
}

fn has_key(rules: &dyn Rules, correlated: CorrelatedNoise, key: &str) -> bool {
    let uniform = correlated == CorrelatedNoise::Uniform;
    match key {
        "correlated" => uniform,
        // Uniform noise has no scale, and one injection.
        "injection" | "correlated_std" | "pairwise_std" if uniform => false,
        _ => rules.keys().contains(&key),
    }
}

/// How many shares make a secret known, where sums are secure.
fn threshold(plan: &Plan) -> Option<usize> {
    let gossip = plan.draft().mechanism.gossip?;
    let threshold = plan.threshold(plan.parties()).ok().flatten();
    threshold
        .filter(|_| gossip.sums == SumsChoice::Secure)
        .map(Threshold::needed)
}

fn derived(key: &str) -> PlanError {
    PlanError::Derived {
        field: format!("mechanism.{key}"),
    }
}
