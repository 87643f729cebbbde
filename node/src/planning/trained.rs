//! What a training's noise is beside its gradients.

use undertone_accountant::losses::{gaussian, releases};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::settings::TaskKind;

use crate::telling::table::number;

/// The iterations whose mean is the model.
fn averaged(plan: &Plan) -> f64 {
    let model = plan.draft().model.as_ref();
    model.map_or(1.0, |model| {
        (model.average * model.iterations as f64).ceil().max(1.0)
    })
}

/// The noise of a coordinate of the result: of a training that of the mean gradient, averaged over
/// the iterations whose mean is the model.
pub(super) fn noise(plan: &Plan) -> f64 {
    plan.calibration().predicted.standard_error / averaged(plan).sqrt()
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
    let rounds = draft.task == TaskKind::Rounds;
    rounds.then(|| {
        format!(
            "{} {}s, {}",
            draft.releases(),
            draft.data.result.name(),
            each_and_together(plan)
        )
    })
}

/// Budget and noise of a model's training, where `norm` is the averaged noise's length; none of any
/// other task.
pub(super) fn sentence(plan: &Plan, norm: f64) -> Option<String> {
    let (draft, model) = (plan.draft(), plan.draft().model.as_ref()?);
    let single = plan.calibration().predicted.standard_error * (draft.dimension() as f64).sqrt();
    Some(format!(
        "{} iterations, {}; the mean gradient of {} rows, of length at most {}, gets noise of length {} \
         in one iteration and {} over the {} that are averaged",
        model.iterations,
        each_and_together(plan),
        draft.total_weight(),
        number(model.clip),
        number(single),
        number(norm),
        averaged(plan),
    ))
}
