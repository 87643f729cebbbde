//! What a plan could have been instead: the error of each mechanism, what it sends, and what it
//! rests on.

use serde::Serialize;
use undertone_accountant::calibration::calibrate::calibrate;
use undertone_accountant::losses::gaussian;
use undertone_protocol::plan::calibration::Calibration;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::ConnectivityBasis;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::{
    Coalitions, CorrelatedNoise, Dissemination, IndependentNoise, InjectionChoice, MechanismKind, Rounds,
};

use crate::telling::table::{Table, bytes, number};

/// Parties up to which the Gaussian plan is calibrated for the comparison; above, that would take
/// longer than the plan itself, and a closed form stands in.
const MOST_CALIBRATED: usize = 16;

/// Rounds of the Gaussian plan at least: what its own search takes for one colluder and one
/// departure among eight (it may find a few percent less with others).
const GAUSSIAN_ROUNDS: usize = 6;

/// σ_Δ/σ* of the closed form: the largest that a Gaussian plan may have.
const LARGEST_RATIO: f64 = 1e3;

/// Bytes of a frame's head and signature: what a plan's own count takes.
const FRAME_BYTES: u64 = 140;

/// Another way to the same mean, for the same ε and δ against the same coalitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instead {
    /// Its name.
    pub mechanism: String,
    /// The standard error of the mean, per coordinate and in the data's unit, if nobody departs.
    pub standard_error: f64,
    /// What a party sends, payload and framing.
    pub bytes_per_party: u64,
    /// What has to be true for it.
    pub rests_on: String,
}

/// What this plan could have been instead, each with what its own calibration says.
pub fn of(plan: &Plan) -> Vec<Instead> {
    let drafted = plan.draft();
    let uniform = drafted.mechanism.correlated == CorrelatedNoise::Uniform;
    let mut ways = Vec::new();
    for kind in [MechanismKind::Inca, MechanismKind::Ppsc] {
        if !(uniform && drafted.mechanism.kind == kind) {
            ways.extend(sealed(drafted, kind));
        }
    }
    if uniform {
        ways.extend(gaussian_unsealed(plan));
    }
    ways.push(local(plan));
    ways.push(server(plan));
    ways
}

/// The comparison as a person reads it.
pub fn text(plan: &Plan, ways: &[Instead]) -> String {
    let predicted = &plan.calibration().predicted;
    let mut table = Table::with_headings([
        "instead",
        "standard error",
        "× floor",
        "a party sends",
        "rests on",
    ]);
    let times = |error: f64| format!("{:.2}", error / predicted.error_floor);
    table.row([
        "this plan".into(),
        number(predicted.standard_error),
        times(predicted.standard_error),
        bytes(predicted.bytes_per_party),
        String::new(),
    ]);
    for way in ways {
        table.row([
            way.mechanism.clone(),
            number(way.standard_error),
            times(way.standard_error),
            bytes(way.bytes_per_party),
            way.rests_on.clone(),
        ]);
    }
    format!("\nWhat this plan could use instead:\n{}", table.render())
}

fn name(kind: MechanismKind) -> &'static str {
    match kind {
        MechanismKind::Ppsc => "PPSC",
        _ => "INCA",
    }
}

/// The draft with another mechanism, for the same privacy target.
fn drafted(draft: &Draft, kind: MechanismKind, correlated: CorrelatedNoise, rounds: Rounds) -> Draft {
    let mut other = draft.clone();
    let uniform = correlated == CorrelatedNoise::Uniform;
    let (mechanism, privacy) = (&mut other.mechanism, &mut other.privacy);
    (mechanism.kind, mechanism.correlated, mechanism.rounds) = (kind, correlated, rounds);
    mechanism.injection = match correlated {
        CorrelatedNoise::Uniform => InjectionChoice::Late,
        CorrelatedNoise::Gaussian => InjectionChoice::Incremental,
    };
    (mechanism.fanout, mechanism.rollback) = (1, true);
    mechanism.independent_noise = IndependentNoise::Calibrated;
    mechanism.accept_exact_sum = false;
    (privacy.coalitions, privacy.draws) = (Coalitions::Any, None);
    privacy.share_faults = privacy.share_faults.filter(|_| uniform);
    (other.run.sealed, other.run.dissemination) = (uniform, Dissemination::Flood);
    other
}

/// The plan of another draft; none where it is refused (a graph that does not carry it, say).
fn planned(draft: Draft) -> Option<Plan> {
    let calibration = calibrate(&draft, &mut |_| {}).ok()?;
    Plan::assemble(draft, calibration, [0; 16]).ok()
}

fn basis(plan: &Plan) -> Option<ConnectivityBasis> {
    let claims = plan.calibration().claims.iter();
    claims.filter_map(|claim| claim.connectivity).next()
}

/// Uniform noise with sealed finals.
fn sealed(draft: &Draft, kind: MechanismKind) -> Option<Instead> {
    let plan = planned(drafted(draft, kind, CorrelatedNoise::Uniform, Rounds::Auto))?;
    let rests_on = match basis(&plan) {
        Some(basis) => format!("κ = {} of those who share; sealing", basis.kappa),
        None => "sealing; its noise is local".into(),
    };
    Some(way(
        format!("{}, uniform noise, sealed finals", name(kind)),
        &plan,
        rests_on,
    ))
}

fn way(mechanism: String, plan: &Plan, rests_on: String) -> Instead {
    let predicted = &plan.calibration().predicted;
    Instead {
        mechanism,
        standard_error: predicted.standard_error,
        bytes_per_party: predicted.bytes_per_party,
        rests_on,
    }
}

/// Gaussian noise with readable finals: calibrated where that is soon done, else by closed form.
fn gaussian_unsealed(plan: &Plan) -> Option<Instead> {
    let draft = plan.draft();
    let kind = draft.mechanism.kind;
    let mechanism = format!("{}, Gaussian noise, finals not sealed", name(kind));
    let removed = draft.privacy.colluding + draft.privacy.dropouts;
    if plan.parties() <= MOST_CALIBRATED {
        let rounds = match kind {
            MechanismKind::Inca => Rounds::Fixed(GAUSSIAN_ROUNDS.max(removed + 2) as u32),
            _ => Rounds::Auto,
        };
        let other = planned(drafted(draft, kind, CorrelatedNoise::Gaussian, rounds))?;
        let predicted = &other.calibration().predicted;
        let late = predicted.standard_error_late_dropout.map_or_else(
            || "may leave no mean".into(),
            |late| format!("costs {:.2} × floor", late / predicted.error_floor),
        );
        let rests_on = format!("every coalition, computed; one missing final {late}");
        return Some(way(mechanism, &other, rests_on));
    }
    let mut calibration = by_closed_form(plan, basis(plan)?)?;
    let rounds = calibration.rounds;
    let other = drafted(draft, kind, CorrelatedNoise::Gaussian, Rounds::Fixed(rounds));
    // For its bytes: a schedule as Gaussian plans draw theirs.
    calibration.drawn = Calibration::draw(&other, rounds, plan.schedule_seed()?);
    let other = Plan::assemble(other, calibration, [0; 16]).ok()?;
    let rests_on = "a theorem's closed form; one missing final spoils the mean".into();
    Some(way(mechanism, &other, rests_on))
}

/// Theorem C's closed form (FLOOR section 2) for the schedule of a plan with uniform noise, at the
/// largest σ_Δ: what is left after any s parties and one share hides everybody along trees of mean
/// depth D. None where that is no better than local noise.
fn by_closed_form(plan: &Plan, basis: ConnectivityBasis) -> Option<Calibration> {
    let (draft, here) = (plan.draft(), plan.calibration());
    let left = basis.among as f64;
    let faults = basis.share_faults.min(1);
    let depth = mean_depth(basis.among, basis.kappa - basis.removed - faults);
    // 1/r of what the correlated noise adds to the loss, in units of σ*².
    let energy = match draft.mechanism.kind {
        MechanismKind::Inca => {
            let rounds = f64::from(plan.rounds());
            3.0 * (4.0 * depth + rounds * (depth + 1.0) + rounds)
        }
        _ => plan.shares().most_sent as f64 * (1.0 + depth),
    };
    let ratio = LARGEST_RATIO.powi(2);
    let square = 1.0 / left + 1.0 / (left / (left - 1.0) + ratio / energy);
    let budget = gaussian::mu(draft.privacy.epsilon, draft.privacy.delta).ok()?;
    let independent_std = draft.largest_sensitivity() * square.sqrt() / budget;
    let mut calibration = here.clone();
    let error = here.predicted.standard_error * independent_std / here.independent_std;
    (calibration.independent_std, calibration.correlated_std) =
        (independent_std, LARGEST_RATIO * independent_std);
    calibration.claims.clear();
    calibration.predicted.standard_error = error;
    (error < here.predicted.local).then_some(calibration)
}

/// The mean distance from one party to the others, itself counted, in a graph of so many in which
/// no `ways` − 1 separate any: each layer has as many.
fn mean_depth(parties: usize, ways: usize) -> f64 {
    let (full, rest) = ((parties - 1) / ways.max(1), (parties - 1) % ways.max(1));
    (ways * full * (full + 1) / 2 + rest * (full + 1)) as f64 / parties as f64
}

/// Each party's own noise alone, and every vector to everybody.
fn local(plan: &Plan) -> Instead {
    let draft = plan.draft();
    let vector = draft.dimension() as u64 * u64::from(plan.lattice().final_bytes) + FRAME_BYTES;
    Instead {
        mechanism: "local noise".into(),
        standard_error: plan.calibration().predicted.local,
        bytes_per_party: (plan.parties() as u64 - 1) * vector,
        rests_on: "a party's own noise alone, whoever colludes".into(),
    }
}

/// A server that everybody gives its vector, in f64.
fn server(plan: &Plan) -> Instead {
    Instead {
        mechanism: "a trusted server".into(),
        standard_error: plan.calibration().predicted.central,
        bytes_per_party: plan.draft().dimension() as u64 * 8 + FRAME_BYTES,
        rests_on: "a server that reads every value, and tells nobody".into(),
    }
}
