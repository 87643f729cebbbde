//! A party's contribution to each iteration of a training. It is its rows' clipped gradients at the
//! model, or their second moments, with fresh noise of its own.

use std::path::Path;
use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::clipping::row_sum::RowSum;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::mixing::noisy::Noisy;
use undertone_protocol::model::loss::clip_gradient;
use undertone_protocol::model::statistics;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::model::ModelSettings;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::topology::party::Party;

use crate::party::contributor::Contributor;
use crate::party::rows::Rows;
use crate::reporting::failure::Failure;

/// A party of a training, with its rows.
pub struct Trainee {
    rows: TrainingRows,
    noise: LatticeNoise<ChaCha12Rng>,
}

impl Trainee {
    /// The party `me` with these rows, of the plan's columns, and randomness for its noise; none
    /// where the plan fits no model.
    ///
    /// # Errors
    /// A target that the loss does not know.
    pub fn of(
        plan: &Arc<Plan>,
        me: Party,
        values: &[f64],
        path: &Path,
        rng: ChaCha12Rng,
    ) -> Result<Option<Self>, Failure> {
        let rows = TrainingRows::of(plan, me, values, path)?;
        Ok(rows.map(|rows| Trainee {
            rows,
            noise: LatticeNoise::new(rng, *plan.lattice(), plan.draft().dimension(), 0.0),
        }))
    }
}

impl Contributor for Trainee {
    fn contribution(&mut self, _: u32, model: &[f64]) -> Noisy {
        let std = self.rows.plan.calibration().independent_std;
        self.noise.noisy(std, self.rows.sum(model))
    }

    fn conclude(&mut self, _: Option<&[f64]>) {}
}

/// A party's rows and what they come to at a model, without noise.
pub(crate) struct TrainingRows {
    plan: Arc<Plan>,
    me: Party,
    rows: Rows,
}

impl TrainingRows {
    /// Rows of the plan's columns; none where the plan fits no model.
    ///
    /// # Errors
    /// A target that the loss does not know.
    pub(crate) fn of(
        plan: &Arc<Plan>,
        me: Party,
        values: &[f64],
        path: &Path,
    ) -> Result<Option<Self>, Failure> {
        let Some(model) = plan.draft().computation.model() else {
            return Ok(None);
        };
        Ok(Some(TrainingRows {
            rows: Rows::prepare(model, values, path)?,
            plan: plan.clone(),
            me,
        }))
    }

    fn settings(&self) -> &ModelSettings {
        let model = self.plan.draft().computation.model();
        model.expect("rows of a training are of a plan that fits a model")
    }

    /// Returns the party's contribution to a sum at a model, on the lattice and within the range
    /// that Δ was derived from.
    pub(crate) fn sum(&self, model: &[f64]) -> Clipped {
        match self.plan.draft().data.unit {
            Unit::Record => self.sum_of_rows(model),
            Unit::Party => self.mean_of_rows(model),
        }
    }

    /// Each row's gradient or second moments clipped, rounded towards zero and its integer length
    /// checked, and their sum.
    fn sum_of_rows(&self, model: &[f64]) -> Clipped {
        let settings = self.settings();
        let moments = settings.is_statistics();
        let mut of_row = vec![0.0; self.plan.draft().dimension()];
        let sum = RowSum::of(&self.plan, self.rows.len());
        let mut sum = sum.expect("gradients and second moments lie in one ball");
        for (features, target) in self.rows.iter() {
            if moments {
                let row: Vec<f64> = features.iter().copied().chain([target]).collect();
                statistics::second_moments(&row, settings.clip, &mut of_row);
            } else {
                let (loss, row) = (self.rows.loss(), (features, target));
                loss.clipped_gradient(model, row, settings.clip, &mut of_row);
            }
            sum.add(&of_row);
        }
        sum.finish()
    }

    /// The mean of the rows' gradients clipped as one, times the party's weight. A row whose
    /// gradient is not finite counts as zero.
    fn mean_of_rows(&self, model: &[f64]) -> Clipped {
        let mut gradient = vec![0.0; model.len()];
        let mut mean = gradient.clone();
        let share = 1.0 / self.rows.len().max(1) as f64;
        for (features, target) in self.rows.iter() {
            self.rows.loss().gradient(model, features, target, &mut gradient);
            if gradient.iter().all(|g| g.is_finite()) {
                mean.iter_mut().zip(&gradient).for_each(|(m, g)| *m += g * share);
            }
        }
        clip_gradient(self.settings().clip, &mut mean);
        Clipped::of(&self.plan, self.me, mean).0
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use undertone_protocol::lattice::payload::Payload;

    use undertone_protocol::lattice::vector::LatticeVector;

    use super::*;
    use crate::party::noise_tests::{COORDINATES, assert_planned_noise};
    use crate::testing::plan_of;

    fn plan(data: &str, model: &str, epsilon: f64) -> Arc<Plan> {
        let text = format!(
            "task = \"regression\"\nname = \"rows\"\n[data]\nshape = [3]\n{data}\n[model]\nloss = \"squared\"\n\
             rows = \"as-is\"\nintercept = false\n{model}\n[privacy]\nepsilon = {epsilon}\n"
        );
        let records = (!data.contains("party")).then_some(2);
        Arc::new(plan_of(&text, 4, records))
    }

    fn sum(plan: &Arc<Plan>, values: &[f64]) -> LatticeVector {
        let rows = TrainingRows::of(plan, 0, values, Path::new("rows.csv"));
        rows.expect("usable")
            .expect("a model")
            .sum(&[0.0; 2])
            .into_vector()
    }

    /// Euclidean, in the data's unit.
    fn length(plan: &Plan, vector: &LatticeVector) -> f64 {
        let squares = vector.steps().map(|word| word as f64 * word as f64);
        squares.sum::<f64>().sqrt() * plan.lattice().step()
    }

    fn apart(plan: &Arc<Plan>, one: &[f64], other: &[f64]) -> f64 {
        let mut difference = sum(plan, one);
        difference.subtract(&sum(plan, other));
        length(plan, &difference)
    }

    /// Rows of all directions, some at right angles, shorter and longer than R: where noise is fine
    /// and where it is so coarse that the lattice of a mean would be, too.
    #[test]
    fn no_row_in_place_of_another_moves_moments_further_than_planned() {
        for epsilon in [1.0, 1e-4] {
            let plan = plan("", "method = \"statistics\"\nclip = 2.0", epsilon);
            let planned = plan.draft().sensitivity(0);
            let root = 2f64.sqrt() * 4.0;
            assert!(planned > root && planned < root * (1.0 + 1e-4), "{planned}");
            let mut furthest = 0.0f64;
            let rows: Vec<[f64; 3]> = (0..60)
                .map(|at| {
                    let (turn, tilt) = (f64::from(at) * 0.7, f64::from(at % 7) * 0.9);
                    let long = f64::from(at % 4);
                    [turn.cos() * tilt.cos(), turn.sin() * tilt.cos(), tilt.sin()].map(|v| v * long)
                })
                .chain([
                    [9.0, 0.0, 0.0],
                    [0.0, 2.0, 0.0],
                    [0.0, 0.0, -5.0],
                    [f64::NAN, 1.0, 1.0],
                ])
                .collect();
            for one in &rows {
                for other in &rows {
                    let with = |row: &[f64; 3]| [row[0], row[1], row[2], 0.3, 0.1, 1.0];
                    let moved = apart(&plan, &with(one), &with(other));
                    assert!(moved <= planned, "{one:?} {other:?}: {moved} of {planned}");
                    furthest = furthest.max(moved);
                }
            }
            assert!(
                furthest > 0.999 * root,
                "the bound is met: {furthest} of {planned}"
            );
        }
    }

    #[test]
    fn a_party_as_the_unit_is_one_clipped_mean_times_its_weight() {
        let data = "unit = \"party\"\nweights = { party-0 = 2.5 }";
        let plan = plan(data, "clip = 0.5\nstep = 1.0", 1.0);
        assert_eq!([0, 1].map(|party| plan.draft().sensitivity(party)), [2.5, 1.0]);
        assert_eq!(plan.draft().total_weight(), 5.5);
        // At θ = 0 a row's gradient is −y·x: 0.1 and 0.3 in the first coordinate, 0.2 on average.
        let mean = sum(&plan, &[-0.1, 0.0, 1.0, -0.3, 0.0, 1.0]).to_f64(plan.lattice().step());
        assert!((mean[0] - 0.5).abs() < 0.01 && mean[1] == 0.0, "{mean:?}");
        // However many rows and however long: C·a, and in opposite directions 2·C·a, but for cells
        // of 1/128.
        let far = |sign: f64| [sign * 1e9, 0.0, 1.0, sign * 7.0, 0.0, 1.0, sign, 1.0, 1e5];
        assert!(length(&plan, &sum(&plan, &far(1.0))) <= 1.25);
        let moved = apart(&plan, &far(1.0), &[-1e9, 0.0, 1.0]);
        assert!(moved <= 2.5 && moved > 2.48, "{moved}");
        // What has no finite gradient counts as zero, in the mean of as many.
        let corrupted = sum(&plan, &[-0.2, 0.0, 1.0, 1e200, 1.0, 1e200]).to_f64(plan.lattice().step());
        assert!((corrupted[0] - 0.25).abs() < 0.01, "{corrupted:?}");
    }

    /// Gradients and second moments leave with noise of their own in every iteration: rows of zeros
    /// have a gradient of zero.
    #[test]
    fn every_iteration_has_the_planned_noise() {
        let descent = format!("shape = [{}]", COORDINATES + 1);
        // The moments of 141 columns are 10,011 coordinates.
        let cases = [
            (&descent[..], "loss = \"squared\"", COORDINATES + 1),
            (&descent, "loss = \"logistic\"", COORDINATES + 1),
            (
                "shape = [141]",
                "loss = \"squared\"\nmethod = \"statistics\"",
                141,
            ),
        ];
        for (shape, model, columns) in cases {
            let units: &[&str] = match model.contains("statistics") {
                true => &["record"],
                false => &["record", "party"],
            };
            for unit in units {
                let text = format!(
                    "task = \"regression\"\nname = \"t\"\n[data]\n{shape}\nunit = \"{unit}\"\nnoise_ok = true\n\
                     [model]\n{model}\nrows = \"as-is\"\nintercept = false\nclip = 1.0\n{}\n",
                    if model.contains("statistics") {
                        ""
                    } else {
                        "step = 1.0\niterations = 5"
                    }
                );
                let records = (*unit == "record").then_some(2);
                let plan = Arc::new(plan_of(&text, 4, records));
                let rows = vec![0.0; 2 * columns];
                let rng = ChaCha12Rng::seed_from_u64(8);
                let party = Trainee::of(&plan, 0, &rows, Path::new("rows.csv"), rng).expect("usable");
                let mut party = party.expect("a model");
                let model = vec![0.0; plan.draft().dimension()];
                assert_planned_noise(&plan, &mut party, &model, &text);
            }
        }
    }

    /// One row whose gradient is not finite counts as zero, whatever the others are.
    #[test]
    fn a_row_without_a_finite_gradient_is_one_row() {
        let plan = plan("", "clip = 2.0\nstep = 1.0", 1.0);
        let good = [-0.5, 0.25, 1.0];
        let of = |row: [f64; 3]| sum(&plan, &[good, row].concat());
        let zero = of([0.0, 0.0, 0.0]);
        assert!(of([1e200, 1.0, 1e200]) == zero && of([f64::INFINITY, 1.0, 1.0]) == zero);
        assert!(of([1.0, 1.0, 1.0]) != zero);
    }
}
