//! The mechanism in PLAN.json: its settings, and the numbers that were calibrated or follow.

use serde::{Deserialize, Serialize};

use crate::lattice::average::AVERAGE_BITS;
use crate::plan::checked::Plan;
use crate::plan::computation::stream::Sums;
use crate::plan::error::PlanError;
use crate::plan::exchange::choice::Exchange;
use crate::plan::exchange::gossip::{Gossip, MessagesRead};
use crate::plan::exchange::inca::{Cancelling, GaussianNoise, Inca};
use crate::plan::exchange::pair_masks::PairwiseMasks;
use crate::plan::exchange::ppsc::{Ppsc, PpscNoise};
use crate::plan::run_file::settings::{
    CorrelatedNoise, ExchangeName, IndependentNoise, InjectionChoice, Rounds,
};
use crate::sealing::holders::Threshold;
use crate::topology::active_edges::ActiveEdges;

/// The mechanism as the file has it. Which of its optional keys are there follows from the
/// exchange.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MechanismFile {
    kind: ExchangeName,
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
    /// The sums that a reader of gossip reads, and the active edges: this field and the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sums: Option<Sums>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edges: Option<ActiveEdges>,
    /// Weights of gossip are multiples of 2 to the minus so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight_bits: Option<u32>,
    /// The number of shares that make a secret known, where sums are secure.
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
    /// The file's table of a plan's exchange.
    pub(super) fn of(plan: &Plan) -> Self {
        let (exchange, calibration) = (&plan.draft().exchange, plan.calibration());
        let cancelling =
            |key| (exchange.rules().correlated_key() == Some(key)).then_some(calibration.correlated_std);
        let mut file = MechanismFile {
            kind: exchange.name(),
            correlated: None,
            injection: None,
            rounds: calibration.rounds,
            iterations: plan.iterations(),
            fanout: exchange.fanout(),
            rollback: exchange.rolls_back(),
            sums: None,
            edges: None,
            weight_bits: None,
            threshold: None,
            independent_noise: None,
            accept_exact_sum: None,
            local_noise_ok: None,
            independent_std: exchange.adds_own_noise().then_some(calibration.independent_std),
            correlated_std: cancelling("correlated_std"),
            pairwise_std: cancelling("pairwise_std"),
            step_log2: plan.lattice().step_log2,
            state_bits: plan.lattice().state_bits,
            wire_bytes: plan.lattice().wire_bytes,
        };
        let uniform = exchange.correlated() == CorrelatedNoise::Uniform;
        file.correlated = uniform.then_some(CorrelatedNoise::Uniform);
        match exchange {
            Exchange::Inca(Inca { noise, .. }) => {
                if let Cancelling::Gaussian(gaussian) = noise {
                    file.injection = Some(gaussian.injection.clone());
                }
            }
            Exchange::Ppsc(ppsc) => {
                let exact = ppsc.noise == PpscNoise::ExactSum;
                file.independent_noise = Some(match exact {
                    true => IndependentNoise::None,
                    false => IndependentNoise::Calibrated,
                });
                file.accept_exact_sum = Some(exact);
                file.local_noise_ok = Some(ppsc.local_noise_ok);
            }
            Exchange::PairMasks(_) => {}
            Exchange::Gossip(gossip) => {
                file.sums = Some(match gossip.read {
                    MessagesRead::Each => Sums::Open,
                    MessagesRead::Sums => Sums::Neighbours,
                });
                file.edges = Some(gossip.edges);
                file.weight_bits = Some(AVERAGE_BITS);
                file.threshold = threshold(plan);
            }
        }
        file
    }

    /// The exchange; which keys are there must go with the kind.
    pub(super) fn exchange(&self) -> Result<Exchange, PlanError> {
        let rounds = Rounds::Fixed(self.rounds);
        let uniform = self.correlated == Some(CorrelatedNoise::Uniform);
        Ok(match self.kind {
            ExchangeName::Inca => Exchange::Inca(Inca {
                rounds,
                noise: match (uniform, &self.injection) {
                    (true, _) => Cancelling::Uniform,
                    (false, Some(injection)) => Cancelling::Gaussian(GaussianNoise {
                        injection: injection.clone(),
                        fanout: self.fanout,
                        rollback: self.rollback,
                    }),
                    (false, None) => return Err(derived("injection")),
                },
            }),
            ExchangeName::Ppsc => Exchange::Ppsc(Ppsc {
                rounds,
                noise: match (uniform, self.independent_noise) {
                    (true, _) => PpscNoise::Uniform,
                    (false, Some(IndependentNoise::Calibrated)) => PpscNoise::Gaussian,
                    (false, Some(IndependentNoise::None)) => PpscNoise::ExactSum,
                    (false, None) => return Err(derived("independent_noise")),
                },
                local_noise_ok: self.local_noise_ok.ok_or_else(|| derived("local_noise_ok"))?,
            }),
            ExchangeName::Pairwise => Exchange::PairMasks(PairwiseMasks { rounds }),
            ExchangeName::Gossip => Exchange::Gossip(Gossip {
                rounds,
                read: match self.sums {
                    Some(Sums::Open) => MessagesRead::Each,
                    Some(Sums::Neighbours) => MessagesRead::Sums,
                    Some(Sums::Everybody) | None => return Err(derived("sums")),
                },
                edges: self.edges.ok_or_else(|| derived("edges"))?,
            }),
        })
    }

    /// Whether the file is of gossip over edges, which are its schedule.
    pub(super) fn averages(&self) -> bool {
        self.kind == ExchangeName::Gossip
    }

    /// σ*, the standard deviation of the independent noise; 0 where there is none.
    pub(super) fn independent_std(&self) -> f64 {
        self.independent_std.unwrap_or(0.0)
    }

    /// The standard deviation of the noise that cancels in the sum: σ_Δ or σ_γ.
    pub(super) fn cancelling_std(&self) -> f64 {
        self.correlated_std.or(self.pairwise_std).unwrap_or(0.0)
    }

    /// Refuses keys and numbers that are not what the rest of the plan gives.
    pub(super) fn check_derived(&self, plan: &Plan) -> Result<(), PlanError> {
        let expected = MechanismFile::of(plan);
        let pairs = [
            ("correlated", self.correlated == expected.correlated),
            ("injection", self.injection == expected.injection),
            ("iterations", self.iterations == expected.iterations),
            ("fanout", self.fanout == expected.fanout),
            ("rollback", self.rollback == expected.rollback),
            ("sums", self.sums == expected.sums),
            ("edges", self.edges == expected.edges),
            ("weight_bits", self.weight_bits == expected.weight_bits),
            ("threshold", self.threshold == expected.threshold),
            (
                "independent_noise",
                self.independent_noise == expected.independent_noise,
            ),
            (
                "accept_exact_sum",
                self.accept_exact_sum == expected.accept_exact_sum,
            ),
            ("local_noise_ok", self.local_noise_ok == expected.local_noise_ok),
            (
                "independent_std",
                self.independent_std == expected.independent_std,
            ),
            ("correlated_std", self.correlated_std == expected.correlated_std),
            ("pairwise_std", self.pairwise_std == expected.pairwise_std),
            ("step_log2", self.step_log2 == expected.step_log2),
            ("state_bits", self.state_bits == expected.state_bits),
            ("wire_bytes", self.wire_bytes == expected.wire_bytes),
        ];
        let mut wrong = pairs.into_iter().filter(|&(_, same)| !same);
        wrong.next().map_or(Ok(()), |(key, _)| Err(derived(key)))
    }
}

/// Returns the number of shares that make a secret known, where neighbours read sums.
fn threshold(plan: &Plan) -> Option<usize> {
    let threshold = plan.threshold(plan.parties()).ok().flatten();
    threshold.map(Threshold::needed)
}

fn derived(key: &str) -> PlanError {
    PlanError::Derived {
        field: format!("mechanism.{key}"),
    }
}
