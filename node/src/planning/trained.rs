//! What a training's noise is beside its gradients.

use serde_json::{Value, json};
use undertone_accountant::losses::{gaussian, releases};
use undertone_protocol::model::loss::Loss;
use undertone_protocol::model::statistics;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::model::{ModelSettings, RowLength};
use undertone_protocol::plan::run_file::settings::{Adjacency, TaskName, Unit};

use crate::planning::bounded;
use crate::reporting::table::number;

/// The iterations whose mean is the model.
fn averaged(plan: &Plan) -> f64 {
    let model = plan.draft().computation.model();
    model.map_or(1.0, |model| {
        (model.average * model.iterations as f64).ceil().max(1.0)
    })
}

/// The noise of a coordinate of the result: of a training that of the mean gradient, averaged over
/// the iterations whose mean is the model.
pub(super) fn noise(plan: &Plan) -> f64 {
    plan.calibration().predicted.standard_error / averaged(plan).sqrt()
}

/// What a plan says of a training: how many sums it releases, of what size, and how often noise is
/// mixed for them, which is 0 where it is not precomputed; none of any other task.
pub(super) fn json(plan: &Plan) -> Option<Value> {
    let draft = plan.draft();
    draft.computation.sequence().map(|_| {
        json!({
            "iterations": draft.releases(),
            "coordinates": draft.dimension(),
            "attempts": plan.most_mixings(),
        })
    })
}

/// How often noise is mixed for a training, where it is precomputed.
pub(super) fn attempts(plan: &Plan) -> Option<String> {
    let most = plan.most_mixings();
    (most > 0).then(|| {
        let often = match most {
            1 => "once".to_owned(),
            most => format!("at most {most} times"),
        };
        format!(
            "Noise is mixed before any value is touched, {often}: what is in vain costs time, and nothing of \
             epsilon.\n"
        )
    })
}

/// What an iteration costs, beside the whole.
fn each_and_together(plan: &Plan) -> String {
    let (draft, privacy) = (plan.draft(), &plan.draft().privacy);
    let each = releases::budget(draft).and_then(|mu| gaussian::epsilon(privacy.delta, mu));
    let each = each.map_or("an unknown ε".into(), |epsilon| {
        format!("ε = {}", number(epsilon))
    });
    format!("each at {each}, together ε = {}", number(privacy.epsilon))
}

/// Budget of means or sums in sequence; none of any other task.
pub(super) fn of_rounds(plan: &Plan) -> Option<String> {
    let draft = plan.draft();
    let rounds = draft.computation.task() == TaskName::Rounds;
    rounds.then(|| {
        format!(
            "{} {}s, {}",
            draft.releases(),
            draft.computation.result().name(),
            each_and_together(plan)
        )
    })
}

/// The noise of least squares by either method, for one budget: per coordinate of what is released.
struct NoiseByMethod {
    /// That of the mean of second moments, over the square of rows' length.
    moments: f64,
    /// That of the mean gradient, over the clip, in one of as many iterations.
    gradient: f64,
    iterations: f64,
}

impl NoiseByMethod {
    /// By proportion: noise is as large as Δ, and a release of K has 1/√K of the budget.
    fn of(plan: &Plan) -> Option<Self> {
        let (draft, model) = (plan.draft(), plan.draft().computation.model()?);
        if model.loss() != Loss::Squared || draft.data.unit != Unit::Record {
            return None;
        }
        let released = draft.releases() as f64;
        let unit =
            plan.calibration().predicted.standard_error / draft.largest_sensitivity() / released.sqrt();
        let (moments, gradient) = match draft.data.adjacency {
            Adjacency::ReplaceOne => (std::f64::consts::SQRT_2, 2.0),
            Adjacency::ZeroOut => (1.0, 1.0),
        };
        let iterations = match model.is_statistics() {
            true => USUAL_ITERATIONS,
            false => released,
        };
        Some(NoiseByMethod {
            moments: unit * moments,
            gradient: unit * gradient * iterations.sqrt(),
            iterations,
        })
    }
}

/// What descent takes where nothing else is said.
const USUAL_ITERATIONS: f64 = 50.0;

/// The length that rows with their targets have at most, where that is public.
fn known_length(model: &ModelSettings) -> Option<f64> {
    if model.is_statistics() {
        return Some(model.clip);
    }
    let [low, high] = model.target_box?;
    (model.rows != RowLength::AsIs).then(|| statistics::radius_of(low, high))
}

/// Least squares only: what noise each of both methods has, and whether descent gets anywhere.
pub(super) fn by_method(plan: &Plan) -> Option<String> {
    let (noise, model) = (NoiseByMethod::of(plan)?, plan.draft().computation.model()?);
    let root = (model.features() as f64).sqrt();
    // Where the other method's bound is not known, in its units.
    let (square, of_length) = match known_length(model) {
        Some(length) => (length * length, ""),
        None => (1.0, " times the square of a row's length with its target"),
    };
    let (clip, of_clip) = match model.is_statistics() {
        true => (1.0, " times its clip"),
        false => (model.clip, ""),
    };
    let averaged = (noise.iterations / 2.0).ceil();
    let mut text = format!(
        "Noise by method, for the same ε: descent in {} iterations has noise of length {}{of_clip} in the \
         averaged mean gradient; statistics has noise of spectral norm {}{of_length} in the features' second \
         moments, and of length {}{of_length} in those with the target.\n",
        noise.iterations,
        number(noise.gradient * clip * root / averaged.sqrt()),
        number(statistics::noise_norm(
            model.features(),
            noise.moments * square,
            1.0
        )),
        number(noise.moments * square * root / std::f64::consts::SQRT_2),
    );
    if !model.is_statistics() && way(model).is_some_and(|way| way < LEAST_WAY) {
        text += "So few or short iterations leave much of the way undone: iterations × step × the largest \
                 curvature is below 5. Take more of them, or longer ones.\n";
    }
    Some(text)
}

/// Iterations × step × curvature that it takes. Measured: the design's tables.
const LEAST_WAY: f64 = 5.0;

/// How far a descent can get, in units of its slowest public direction; none where rows may be of
/// any length.
fn way(model: &ModelSettings) -> Option<f64> {
    let terms = model.terms().ok()?;
    let steps: f64 = (1..=model.iterations).map(|k| terms.step.of(k)).sum();
    let known = model.rows != RowLength::AsIs;
    known.then(|| steps / (1.0 - terms.momentum) * model.loss().smoothness(1.0))
}

/// Budget and noise of a model's training, where `norm` is the averaged noise's length; none of any
/// other task.
pub(super) fn sentence(plan: &Plan, norm: f64) -> Option<String> {
    let (draft, model) = (plan.draft(), plan.draft().computation.model()?);
    if model.is_statistics() {
        return Some(format!(
            "one release; the mean of v·vᵀ over {} rows v = (features, target) of length at most {}, of length \
             at most {}, gets noise of length {}",
            bounded::total(plan),
            number(model.clip),
            number(model.clip * model.clip),
            number(norm),
        ));
    }
    let single = plan.calibration().predicted.standard_error * (draft.dimension() as f64).sqrt();
    Some(format!(
        "{} iterations, {}; the mean gradient of {}, of length at most {}, gets noise of length {} \
         in one iteration and {} over the {} that are averaged",
        model.iterations,
        each_and_together(plan),
        match draft.data.unit {
            Unit::Record => format!("{} rows", bounded::total(plan)),
            Unit::Party => format!("{} parties, each one's clipped as one", plan.parties()),
        },
        number(model.clip),
        number(single),
        number(norm),
        averaged(plan),
    ))
}
