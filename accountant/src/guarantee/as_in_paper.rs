//! PPSC's Algorithms 3 and 4 as in the paper: a schedule, the noise that the run file asks for, and
//! the one thing that can be claimed.
//!
//! All that is public satisfies this: in each outer iteration the states of a piece of the private
//! graph add up to what they did before multi-gossip, whatever the noise. These sums are affine (or
//! gradient steps) in public points, so that no ε holds for a change of one party's rows, and none
//! is stated for other changes: it would need a bound on the iterates, which nobody has.

use undertone_protocol::model::local_step::Inconsistent;
use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::claim::{Adversary, Claim, Faults, Predicted};
use undertone_protocol::plan::computation::exchange_noise::PairwiseStd;
use undertone_protocol::plan::computation::model::LossChoice;
use undertone_protocol::plan::computation::recursion::RecursionSettings;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::TaskName;

use crate::bounds::paper_noise::{Equations, OuterIterations, least_singular_value};
use crate::calibration::error::CalibrateError;

/// The seed of the first outer iteration's schedule; each later one has the next.
const SEED: u64 = 0;

/// Says what everybody who reads the public graph learns.
pub fn learned_by_readers(draft: &Draft, outer: &RecursionSettings) -> String {
    let gradients = draft.computation.task() == TaskName::Optimise
        || outer.inconsistent == Some(Inconsistent::LeastSquares);
    let sums = if gradients {
        "gradient steps"
    } else {
        "normalised equations"
    };
    // What is affine in the iterate follows from as many points as it has coefficients.
    let wholes = match outer.loss {
        Some(LossChoice::Logistic | LossChoice::Softmax) => String::new(),
        Some(LossChoice::Squared) | None => format!(
            "; after {} iterations the pieces' whole systems",
            outer.dimension() + 1
        ),
    };
    format!(
        "anyone who reads the public graph learns, exactly, for every connected piece of the private graph, \
         the sum of its members' {sums} at every iterate{wholes}"
    )
}

/// Says why a theorem's noise of an exchange gives no ε; `None` where the noise is not a theorem's.
pub fn of_theorem(draft: &Draft, outer: &RecursionSettings) -> Option<String> {
    let (theorem, more) = match (outer.pairwise_std, draft.computation.task()) {
        (PairwiseStd::Given(_), _) => return None,
        (PairwiseStd::Theorem, TaskName::Optimise) => (
            4,
            ", and its constant is repaired: how far a gradient changes, not how long it is",
        ),
        (PairwiseStd::Theorem, _) => (3, ""),
    };
    Some(format!(
        "the noise of an exchange is what the paper's Theorem {theorem} asks for at epsilon {} and delta {}, \
         and this number carries no ε: the theorem leaves out that exact sums are seen whatever the noise, \
         so that it holds for no change of one party's rows{more}",
        draft.privacy.epsilon, draft.privacy.delta,
    ))
}

/// The one claim: that nothing bounds what is learned.
fn claim(draft: &Draft, outer: &RecursionSettings) -> Claim {
    Claim {
        adversary: Adversary::Public,
        unbounded: true,
        sentence: Some(match of_theorem(draft, outer) {
            Some(theorem) => format!("{}; {theorem}", learned_by_readers(draft, outer)),
            None => learned_by_readers(draft, outer),
        }),
        // An infinite loss and not a missing claim: no sum or comparison of losses can take it for
        // a small one.
        ..Claim::theorem(
            0,
            Faults::Any,
            (f64::INFINITY, f64::INFINITY),
            draft.privacy.delta,
        )
    }
}

/// The one claim of a draft with a recursion, and none of another.
pub(super) fn established(draft: &Draft) -> Vec<Claim> {
    let recursion = draft.computation.recursion();
    recursion.map(|outer| claim(draft, outer)).into_iter().collect()
}

/// No error of noise: it cancels in the mean, and no party adds any of its own.
pub(super) const NO_NOISE: Predicted = Predicted {
    standard_error: 0.0,
    standard_error_one_dropout: None,
    standard_error_late_dropout: None,
    standard_error_correcting: None,
    central: 0.0,
    local: 0.0,
    error_floor: 0.0,
    bytes_per_party: 0,
};

/// The schedule of the first iteration, the noise of an exchange, and the one claim.
pub(super) fn calibrate(draft: &Draft) -> Result<Calibration, CalibrateError> {
    let outer = draft.computation.recursion().ok_or(CalibrateError::Kind)?;
    let correlated_std = noise_of_exchange(draft, outer)?;
    // However many rounds: the number of iterations is what is drawn.
    let schedule = Calibration::draw_schedule(draft, 1, SEED).ok_or(CalibrateError::Kind)?;
    Ok(Calibration {
        rounds: schedule.rounds() as u32,
        drawn: Some(SeededSchedule { seed: SEED, schedule }),
        independent_std: 0.0,
        correlated_std,
        claims: vec![claim(draft, outer)],
        predicted: NO_NOISE,
    })
}

/// σ_γ: the number that the run file has, or the theorem's.
pub(crate) fn noise_of_exchange(draft: &Draft, outer: &RecursionSettings) -> Result<f64, CalibrateError> {
    if let PairwiseStd::Given(std) = outer.pairwise_std {
        return Ok(std);
    }
    let pieces = draft.private_graph.components();
    let iterations = OuterIterations {
        parties: draft.parties(),
        iterations: outer.iterations,
        epsilon: draft.privacy.epsilon,
        delta: draft.privacy.delta,
        // The larger a piece, the smaller this value and the more noise: the largest decides for
        // all.
        least_singular_value: least_singular_value(pieces.iter().map(Vec::len).max().unwrap_or(0)),
    };
    let std = match (outer.solution_norm, outer.gradient_change) {
        (Some(solution_norm), None) => {
            let start_norm = length(&outer.start());
            let most = || iterations.most_contraction(outer.accuracy, solution_norm, start_norm);
            let contraction = outer.contraction.or_else(most).ok_or(CalibrateError::Reached)?;
            iterations.of_equations(&Equations {
                accuracy: outer.accuracy,
                solution_norm,
                start_norm,
                contraction,
            })
        }
        (None, Some(gradient_change)) => iterations.of_gradients(gradient_change),
        (_, _) => return Err(CalibrateError::Kind),
    };
    if std.is_finite() && std > 0.0 {
        return Ok(std);
    }
    Err(CalibrateError::AsInPaper {
        epsilon: draft.privacy.epsilon,
    })
}

fn length(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}
