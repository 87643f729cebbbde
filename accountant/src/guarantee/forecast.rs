//! Forecasts for a quote: errors with more departures, errors at other ε, and changes that would
//! help where a target cannot be met.

use serde::Serialize;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::Faults;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::Rounds;

use crate::bounds::bound::Bound;
use crate::bounds::closed_form::speaks_of;
use crate::bounds::flows::Flows;
use crate::calibration::limits::MOST_ROUNDS;
use crate::calibration::remedy::{Change, Remedy};
use crate::class::setting::Setting;
use crate::guarantee::connected;
use crate::losses::gaussian::{self, GaussianError};
use crate::mechanism::chosen::Mechanism;

/// Shares of the parties that a quote assumes gone for good, in percent.
const DEPARTED_PERCENT: [usize; 5] = [0, 1, 5, 10, 20];

/// The error if so many parties are gone for good.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Departures {
    /// Share of the parties that is gone, in percent.
    pub percent: usize,
    /// How many these are, rounded up.
    pub parties: usize,
    /// Standard error of the result, per coordinate and in the data's unit, noise only; with uneven
    /// weights, for the heaviest gone. Null where nobody is left.
    pub standard_error: Option<f64>,
    /// Whether the plan tolerates as many. If not, the gate may withhold, and fewer than
    /// `min_parties` withhold always.
    pub tolerated: bool,
}

/// Errors with 0, 1, 5, 10 and 20 % of the parties gone for good: the result is the exact mean over
/// the rest, with their own noise.
pub fn departures(plan: &Plan) -> Vec<Departures> {
    let scale = plan.scales().root_mean_square();
    let each = |percent: usize| {
        let parties = (plan.parties() * percent).div_ceil(100);
        Departures {
            percent,
            parties,
            standard_error: Some(rolled_back(plan, parties) * scale).filter(|error| error.is_finite()),
            tolerated: parties <= plan.draft().privacy.dropouts,
        }
    };
    DEPARTED_PERCENT.into_iter().map(each).collect()
}

/// The error of the exact result over the rest, if the heaviest are gone.
fn rolled_back(plan: &Plan, departures: usize) -> f64 {
    let mut weights: Vec<f64> = (0..plan.parties())
        .map(|party| plan.draft().weight(party))
        .collect();
    // Without the heaviest a mean has the smallest divisor, and so the largest error.
    weights.sort_by(f64::total_cmp);
    let rest = &weights[..weights.len() - departures];
    let divisor = plan.draft().computation.result().divisor(rest.iter().sum());
    plan.calibration().independent_std * (rest.len() as f64).sqrt() / divisor
}

/// Errors at one ε, per coordinate and in the data's unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtEpsilon {
    /// The ε that the errors are for.
    pub epsilon: f64,
    /// Standard error of this plan, were it calibrated for that ε.
    pub standard_error: f64,
    /// Standard error of a trusted server for that ε.
    pub central: f64,
    /// Standard error of local noise for that ε.
    pub local: f64,
}

/// The ε of the curve, at the plan's δ.
const CURVE: [f64; 13] = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0];

/// Error against ε. All losses scale with one over the noise, so that rounds, schedule and the
/// ratio of noises are best at every ε alike: errors go like one over the loss that (ε, δ) allows.
pub fn curve(plan: &Plan) -> Result<Vec<AtEpsilon>, GaussianError> {
    let privacy = &plan.draft().privacy;
    let predicted = &plan.calibration().predicted;
    let budget = gaussian::mu(privacy.epsilon, privacy.delta)?;
    let at = |epsilon: f64| {
        let factor = budget / gaussian::mu(epsilon, privacy.delta)?;
        let [standard_error, central, local] =
            [predicted.standard_error, predicted.central, predicted.local].map(|e| e * factor);
        Ok(AtEpsilon {
            epsilon,
            standard_error,
            central,
            local,
        })
    };
    CURVE.into_iter().map(at).collect()
}

/// Whether the plan's noise is that of local privacy: nothing less than sensitivity over a party's
/// own noise bounds its headline.
pub fn is_local(plan: &Plan) -> bool {
    plan.calibration()
        .claims
        .iter()
        .any(|claim| claim.holds_as_headline && claim.faults == Faults::Any)
}

/// Whether more rounds would let more of the plan's noise cancel.
fn gains_from_rounds(plan: &Plan) -> bool {
    Mechanism::with_default_injection(&plan.draft().exchange)
        .is_some_and(|mechanism| mechanism.rules().gains_from_rounds())
}

/// Says why a plan of more parties than are computed has local noise, where no theorem speaks of
/// it, and what would help. None where one does.
pub fn beyond_theorems(plan: &Plan) -> Option<&'static str> {
    let setting = Setting::of_plan(plan).ok()?;
    // Connectivity bounds uniform noise among any number of parties, so this is about Gaussian
    // noise.
    let silent = !setting.uniform && Flows::of(&setting).is_none() && !speaks_of(&setting);
    silent.then_some(
        "No theorem bounds this Gaussian noise: among many parties only fanout = 1 with injection = \
         \"incremental\" is bounded, and an injection that is close to singular never is. The noise is \
         that of local privacy. With these, or with mechanism.correlated = \"uniform\", most of it cancels.",
    )
}

/// Returns changes that would let most of the noise cancel, where the headline is the theorem's and
/// the noise is that of local privacy. With more rounds, or a smaller coalition, no coalition is
/// all that a party exchanges shares with. It is empty if the noise cancels, or nothing here helps.
pub fn against_the_theorem(plan: &Plan) -> Vec<Remedy> {
    // Where START draws the schedule, calibration itself refuses too few rounds and names enough.
    let silent = plan.draws_at_start() || !gains_from_rounds(plan) || beyond_theorems(plan).is_some();
    let Some(here) = Setting::of_plan(plan).ok().filter(|_| is_local(plan) && !silent) else {
        return vec![];
    };
    let draft = plan.draft();
    let (colluding, dropouts) = (draft.privacy.colluding, draft.privacy.dropouts);
    // Whether the noise cancels with other rounds, fewer colluding, fewer departures.
    let with_rounds = |rounds: usize, colluding: usize, dropouts: usize| {
        let other = Setting {
            colluding,
            dropouts,
            ..here.clone()
        };
        let fits = draft.exchange.takes_rounds(rounds as u32);
        fits && cancels(draft, rounds, other)
    };
    let suffices = |colluding: usize, dropouts: usize| match draft.exchange.rounds() {
        Rounds::Fixed(rounds) => with_rounds(rounds as usize, colluding, dropouts),
        // Calibration tries up to as many, so the most rounds show what it could reach.
        Rounds::Auto => with_rounds(MOST_ROUNDS, colluding, dropouts),
    };
    // One change, the closest to what was asked for …
    let mut remedies = vec![];
    if let Rounds::Fixed(rounds) = draft.exchange.rounds() {
        let mut more = rounds as usize + 1..=MOST_ROUNDS;
        let enough = more.find(|&rounds| with_rounds(rounds, colluding, dropouts));
        remedies.extend(enough.map(|rounds| Remedy::one("mechanism.rounds", rounds)));
    }
    let fewer = (1..colluding).rev().find(|&fewer| suffices(fewer, dropouts));
    remedies.extend(fewer.map(|fewer| Remedy::one("privacy.colluding", fewer)));
    let fewer = (0..dropouts).rev().find(|&fewer| suffices(colluding, fewer));
    remedies.extend(fewer.map(|fewer| Remedy::one("privacy.dropouts", fewer)));
    // … or, where none suffices, two.
    if remedies.is_empty() {
        let fewer = (1..colluding).rev().find(|&fewer| suffices(fewer, 0));
        remedies.extend(fewer.map(|fewer| Remedy {
            change: Change {
                setting: "privacy.colluding",
                value: fewer,
            },
            with: Some(Change {
                setting: "privacy.dropouts",
                value: 0,
            }),
        }));
    }
    remedies
}

/// Whether a good part of the noise cancels in so many rounds of a setting.
fn cancels(draft: &Draft, rounds: usize, setting: Setting) -> bool {
    connected::schedule(draft, rounds as u32).is_ok_and(|drawn| {
        let out = drawn.schedule.out().to_vec();
        Bound::of(&Setting { out, ..setting }).lets_noise_cancel()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::error::CalibrateError;
    use crate::calibration::remedy::against_exposure;
    use crate::guarantee::choice::calibrate;
    use crate::testing::{draft, plan};

    #[test]
    fn with_roll_back_the_rest_has_its_exact_mean() {
        let plan = plan(5, "[mechanism]\nrounds = 4");
        let departures = departures(&plan);
        let counts: Vec<usize> = departures.iter().map(|departures| departures.parties).collect();
        assert_eq!(counts, [0, 1, 1, 1, 1]);
        let predicted = &plan.calibration().predicted;
        let same = |a: Option<f64>, b: f64| (a.expect("computed") / b - 1.0).abs() < 1e-12;
        assert!(same(departures[0].standard_error, predicted.standard_error) && departures[0].tolerated);
        assert!(same(
            departures[4].standard_error,
            predicted.standard_error_one_dropout.expect("tolerated")
        ));
    }

    #[test]
    fn the_curve_goes_through_the_plan_and_through_other_plans() {
        let here = plan(4, "[mechanism]\nrounds = 4");
        let there = plan(4, "[privacy]\nepsilon = 3.0\n[mechanism]\nrounds = 4");
        let curve = curve(&here).expect("a budget");
        let at = |epsilon: f64| {
            curve
                .iter()
                .find(|at| at.epsilon == epsilon)
                .expect("on the curve")
        };
        for (epsilon, plan) in [(1.0, &here), (3.0, &there)] {
            let predicted = &plan.calibration().predicted;
            assert!((at(epsilon).standard_error / predicted.standard_error - 1.0).abs() < 1e-9);
            assert!((at(epsilon).local / predicted.local - 1.0).abs() < 1e-9);
        }
        assert!(
            curve
                .windows(2)
                .all(|pair| pair[1].standard_error < pair[0].standard_error)
        );
    }

    #[test]
    fn each_remedy_suffices() {
        let ring = |privacy: &str| {
            draft(
                7,
                &format!(
                    "[privacy]\n{privacy}\n[topology]\nprivate = {{ kind = \"ring\" }}\n[mechanism]\nrounds = 3"
                ),
            )
        };
        let exposed = ring("colluding = 1\ndropouts = 1");
        assert!(matches!(
            calibrate(&exposed, &mut |_| {}),
            Err(CalibrateError::Exposed { .. })
        ));
        let remedies = against_exposure(&exposed, 2);
        assert_eq!(
            remedies,
            [
                Remedy::one("topology.private", 4),
                Remedy::one("privacy.dropouts", 0)
            ]
        );
        assert!(calibrate(&ring("colluding = 1\ndropouts = 0"), &mut |_| {}).is_ok());
        let regular = "[privacy]\ncolluding = 1\ndropouts = 1\n[topology]\nprivate = { kind = \"random-regular\", degree = 4 }\n[mechanism]\nrounds = 3";
        assert!(calibrate(&draft(7, regular), &mut |_| {}).is_ok());
    }

    /// The plan, and what each of its remedies makes of it.
    fn with_remedies(parties: usize, colluding: usize, dropouts: usize, rounds: &str) -> Vec<(Remedy, f64)> {
        let run = |colluding: usize, dropouts: usize, rounds: &str| {
            plan(
                parties,
                &format!(
                    "[privacy]\ncolluding = {colluding}\ndropouts = {dropouts}\n[mechanism]\nrounds = {rounds}"
                ),
            )
        };
        let here = run(colluding, dropouts, rounds);
        let noise =
            |plan: &Plan| plan.calibration().predicted.standard_error / plan.calibration().predicted.local;
        assert!(is_local(&here) && noise(&here) > 0.999, "{}", noise(&here));
        let remedied = |remedy: Remedy| {
            let (mut colluding, mut dropouts, mut rounds) = (colluding, dropouts, rounds.to_owned());
            for change in std::iter::once(remedy.change).chain(remedy.with) {
                match change.setting {
                    "privacy.colluding" => colluding = change.value,
                    "privacy.dropouts" => dropouts = change.value,
                    "mechanism.rounds" => rounds = change.value.to_string(),
                    other => panic!("{other}"),
                }
            }
            let there = run(colluding, dropouts, &rounds);
            assert!(
                !is_local(&there) && against_the_theorem(&there).is_empty(),
                "{remedy}"
            );
            (remedy, noise(&there))
        };
        against_the_theorem(&here).into_iter().map(remedied).collect()
    }

    #[test]
    fn too_few_rounds_to_hide_in_are_said_with_the_number_that_suffices() {
        for (parties, colluding, dropouts, rounds, expected) in [
            (8, 1, 1, "1", vec![Remedy::one("mechanism.rounds", 3)]),
            (
                8,
                1,
                1,
                "2",
                vec![
                    Remedy::one("mechanism.rounds", 3),
                    Remedy::one("privacy.dropouts", 0),
                ],
            ),
            (
                8,
                2,
                1,
                "3",
                vec![
                    Remedy::one("mechanism.rounds", 4),
                    Remedy::one("privacy.colluding", 1),
                    Remedy::one("privacy.dropouts", 0),
                ],
            ),
        ] {
            let found = with_remedies(parties, colluding, dropouts, rounds);
            let (remedies, noises): (Vec<Remedy>, Vec<f64>) = found.into_iter().unzip();
            assert_eq!(remedies, expected, "{parties} {colluding} {dropouts} {rounds}");
            assert!(noises.iter().all(|noise| *noise < 0.9), "{noises:?}");
        }
    }

    /// With more parties than are computed the theorem says which settings it is for.
    #[test]
    fn what_no_theorem_speaks_of_says_so() {
        let more = |mechanism: &str| plan(120, &format!("[mechanism]\nrounds = 4\n{mechanism}"));
        for mechanism in ["fanout = 2", "injection = \"early\""] {
            let local = more(mechanism);
            assert!(is_local(&local), "{mechanism}");
            let reported = beyond_theorems(&local).expect("no theorem");
            assert!(
                reported.contains("fanout = 1") && reported.contains("uniform"),
                "{reported}"
            );
            assert!(against_the_theorem(&local).is_empty());
        }
        let bounded = more("");
        assert!(!is_local(&bounded) && beyond_theorems(&bounded).is_none());
        let few = with_remedies(20, 3, 3, "3");
        let remedies: Vec<String> = few.iter().map(|(remedy, _)| remedy.to_string()).collect();
        assert_eq!(remedies, ["mechanism.rounds = 5", "privacy.dropouts = 0"]);
    }
}
