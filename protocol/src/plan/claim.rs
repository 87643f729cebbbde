//! One sentence of privacy, and what is predicted of the result.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::error::PlanError;
use crate::plan::run_file::problem::Problem;

/// The adversary that a claim protects against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// A coalition of parties, who also read the public graph.
    Coalition,
    /// An observer that reads the public graph only.
    Public,
    /// A coalition of which no member is a neighbour, in any round, of the party that it wants to
    /// know of (gossip).
    Apart,
}

/// Under which faults a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Faults {
    /// Any of the class of faults that the plan tolerates.
    Class,
    /// Any faults of a run of which no final leaves.
    BeforePublishing,
    /// Whatever faults there may be.
    Any,
    /// No faults: nobody departs, and every message comes.
    None,
}

/// The method by which a claim was established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Established {
    /// An exact formula.
    Exact,
    /// Every coalition and every fault was computed.
    Exhaustive,
    /// A theorem: nothing has to be enumerated.
    Theorem,
    /// Some coalitions, looked for. Not a guarantee.
    Searched,
}

/// Changes that a claim is stated for, where these are not all that the plan's adjacency allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Changes {
    /// Values that change together, by at most Δ in all, such that every sum which the adversary
    /// sees exactly stays (PPSC).
    SameSum,
}

/// The basis of a theorem, where the theorem names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The connectivity of those who share with each other: see [`ConnectivityBasis`].
    Connectivity,
    /// A draw of the schedule after coalitions and departures are fixed: see [`DrawBasis`].
    Draw,
}

/// The draw that hides every value among others, whoever colludes or departs, if that was fixed
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawBasis {
    /// p: the chance of a draw that does not, at most. The claim's δ includes it, times `tries`.
    pub chance: f64,
    /// The most draws that those who are against a value may look at before a run begins with one.
    pub tries: u64,
    /// s: how many may collude or depart, together.
    pub removed: usize,
    /// q: how many shares between the others may go astray besides, whoever chooses them.
    pub share_faults: usize,
    /// m: among how many values, its own included, each is hidden then.
    pub among: usize,
}

/// The connectivity that hides every value among others, whoever colludes or departs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectivityBasis {
    /// κ: the least number of parties whose removal leaves the others in several pieces.
    pub kappa: usize,
    /// s: how many may collude or depart, together; below κ.
    pub removed: usize,
    /// q = κ − s − 1: how many shares between the others may go astray besides.
    pub share_faults: usize,
    /// m: among how many values, its own included, each is hidden then.
    pub among: usize,
}

/// One sentence of privacy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The adversary that it holds against.
    pub adversary: Adversary,
    /// The coalition's size, up to this many parties (0 for `public`).
    pub size: usize,
    /// The faults under which it holds.
    pub faults: Faults,
    /// The loss μ: the view is μ-Gaussian-DP. Infinite, and null in files, where it is unbounded.
    #[serde(serialize_with = "or_null", deserialize_with = "or_infinite")]
    pub mu: f64,
    /// ε that follows from μ at `delta`; infinite with it.
    #[serde(serialize_with = "or_null", deserialize_with = "or_infinite")]
    pub epsilon: f64,
    /// The δ at which ε holds, for noise that is really Gaussian; with the chance of a draw that
    /// hides nothing, where the claim rests on one.
    pub delta: f64,
    /// The most that sampling and rounding the noise adds to δ: what is sent is (ε, δ +
    /// this)-private. [`Plan::assemble`](crate::plan::checked::Plan::assemble) fills it in,
    /// whatever stands here.
    #[serde(default)]
    pub sampling_delta: f64,
    /// The method by which it was established.
    pub established: Established,
    /// The number of systems (coalition, fault) that were computed; 1 for a theorem.
    pub cases: u64,
    /// The seed of the sample or search, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// For which changes it holds; absent: for all of the plan's adjacency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// The basis of a theorem, where it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// The numbers of a basis that is connectivity: there if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connectivity: Option<ConnectivityBasis>,
    /// The numbers of a basis that is a draw: there if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<DrawBasis>,
    /// Whether it holds because finals are sealed: against whoever cannot break the sealing
    /// (X25519, ChaCha20-Poly1305, SHA-256, discrete logarithms), nor hold as many shares of a
    /// secret as make it known. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// Whether no loss bounds what the adversary learns. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unbounded: bool,
    /// The adversary's knowledge in words, where it is unbounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// Whether the headline ε rests on it.
    pub holds_as_headline: bool,
}

impl Claim {
    /// A theorem about coalitions of up to `size` parties under these faults, with a loss μ and the
    /// ε that follows from it at `delta`; no headline yet.
    pub fn theorem(size: usize, faults: Faults, (mu, epsilon): (f64, f64), delta: f64) -> Self {
        Claim {
            adversary: Adversary::Coalition,
            size,
            faults,
            mu,
            epsilon,
            delta,
            sampling_delta: 0.0,
            established: Established::Theorem,
            cases: 1,
            seed: None,
            changes: None,
            basis: None,
            connectivity: None,
            draw: None,
            sealed: false,
            unbounded: false,
            sentence: None,
            holds_as_headline: false,
        }
    }
}

/// The expected errors of the result, per coordinate and in the data's unit, noise only. Where
/// columns have units of their own ([`Scales`](crate::plan::sensitivity::Scales)): the root of the
/// mean square over columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// The standard error without a fault.
    pub standard_error: f64,
    /// One party departs before the logs are agreed; null where no departure is tolerated.
    pub standard_error_one_dropout: Option<f64>,
    /// One party of the agreed logs leaves right after its log. With sealed finals it is in the
    /// mean all the same; without, its final is missing (root of the mean variance over parties).
    /// Null where it was not computed, or leaves nothing.
    pub standard_error_late_dropout: Option<f64>,
    /// With sealed finals: one party leaves while it owes a correction, and counts as one that
    /// departed in mixing. Absent where finals are not sealed, or no departure is tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_error_correcting: Option<f64>,
    /// The error that a trusted server would reach.
    pub central: f64,
    /// The error that local noise alone would reach, under the same adjacency and weights. Each
    /// party adds to its weighted value the noise that this value alone needs, of scale Δᵢ/μ, so
    /// √(Σ Δᵢ²)/(μW). With weights that differ a lot this is less than a plan reaches, whose σ* is
    /// one for everybody.
    pub local: f64,
    /// The least error of any mechanism against such coalitions: Δ√(n/n_H)/(μW) for n parties, n_H
    /// of them honest, W the sum of weights.
    pub error_floor: f64,
    /// Bytes that a party sends on average, payload and framing, without faults.
    /// [`Plan::assemble`](crate::plan::checked::Plan::assemble) fills it in, whatever stands here.
    pub bytes_per_party: u64,
}

/// Files have null for what is infinite.
fn or_null<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let finite = Some(*number).filter(|number| number.is_finite());
    finite.serialize(serializer)
}

fn or_infinite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    Ok(number.unwrap_or(f64::INFINITY))
}

impl DrawBasis {
    /// The chance, at most, that one of the draws that may be looked at does not hide every value:
    /// `chance` times `tries`, never below it.
    pub fn chance_of_all(&self) -> f64 {
        (self.chance * self.tries as f64).next_up()
    }
}

impl Claim {
    /// Checks the plan's number `index` as far as that is possible without the accountant;
    /// `threshold`: whether finals are sealed.
    pub(super) fn check(&self, index: usize, parties: usize, threshold: bool) -> Result<(), PlanError> {
        let field = |key: &str| format!("claims.{index}.{key}");
        if self.sealed && !threshold {
            return Err(PlanError::NothingSealed { index });
        }
        // What holds as long as nothing fails, or against strangers only, is a remark.
        let remark = self.adversary == Adversary::Apart || self.faults == Faults::None;
        if remark && self.holds_as_headline {
            return Err(PlanError::Derived {
                field: field("holds_as_headline"),
            });
        }
        let at_least_zero =
            |key: &str, found: f64| number(&field(key), found, found >= 0.0, "a finite number, at least 0");
        if self.unbounded {
            let infinite = self.mu.is_infinite() && self.epsilon.is_infinite() && !self.holds_as_headline;
            return match infinite && self.sentence.is_some() {
                true => Ok(()),
                false => Err(PlanError::Derived {
                    field: field("unbounded"),
                }),
            };
        }
        at_least_zero("mu", self.mu)?;
        at_least_zero("epsilon", self.epsilon)?;
        number(
            &field("delta"),
            self.delta,
            self.delta > 0.0 && self.delta < 1.0,
            "above 0 and below 1",
        )?;
        at_least_zero("sampling_delta", self.sampling_delta)?;
        let numbers = match self.basis {
            None => (false, false),
            Some(Basis::Connectivity) => (true, false),
            Some(Basis::Draw) => (false, true),
        };
        if numbers != (self.connectivity.is_some(), self.draw.is_some()) {
            return Err(PlanError::Derived {
                field: field("basis"),
            });
        }
        if let Some(draw) = self.draw {
            let fine = draw.chance > 0.0 && draw.tries > 0 && draw.chance_of_all() < self.delta;
            number(
                &field("draw.chance"),
                draw.chance,
                fine,
                "above 0 and, times the tries, below the claim's delta",
            )?;
        }
        number(
            &field("size"),
            self.size as f64,
            self.size <= parties,
            "at most the number of parties",
        )
    }
}

impl Predicted {
    /// All errors times `factor`: from a state's units to the data's
    /// ([`Scales::root_mean_square`](crate::plan::sensitivity::Scales::root_mean_square)).
    pub fn times(self, factor: f64) -> Self {
        let times = |error: f64| error * factor;
        Predicted {
            standard_error: times(self.standard_error),
            standard_error_one_dropout: self.standard_error_one_dropout.map(times),
            standard_error_late_dropout: self.standard_error_late_dropout.map(times),
            standard_error_correcting: self.standard_error_correcting.map(times),
            central: times(self.central),
            local: times(self.local),
            error_floor: times(self.error_floor),
            bytes_per_party: self.bytes_per_party,
        }
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        let all = [
            ("standard_error", Some(self.standard_error)),
            ("standard_error_one_dropout", self.standard_error_one_dropout),
            ("standard_error_late_dropout", self.standard_error_late_dropout),
            ("standard_error_correcting", self.standard_error_correcting),
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

pub(super) fn number(field: &str, found: f64, fine: bool, expected: &'static str) -> Result<(), PlanError> {
    if fine && found.is_finite() {
        return Ok(());
    }
    Err(PlanError::Settings {
        field: field.to_string(),
        problem: Problem::Range { found, expected },
    })
}
