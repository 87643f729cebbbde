//! What a party contributes to each iteration of a training: its rows' clipped gradients at the
//! model, with fresh noise of its own.

use std::path::Path;
use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::model::loss::clip_gradient;
use undertone_protocol::plan::checked::Plan;

use crate::party::contributor::Contributor;
use crate::party::rows::Rows;
use crate::party::{clipping, randomness};
use crate::telling::failure::Failure;

/// A party of a training, with its rows.
pub struct Trainee {
    plan: Arc<Plan>,
    rows: Rows,
    noise: LatticeNoise<ChaCha12Rng>,
}

impl Trainee {
    /// The party with these rows, of the plan's columns; none where the plan fits no model.
    ///
    /// # Errors
    /// A target that the loss does not know; a system without randomness.
    pub fn of(plan: &Arc<Plan>, values: &[f64], path: &Path) -> Result<Option<Self>, Failure> {
        let Some(model) = &plan.draft().model else {
            return Ok(None);
        };
        let rows = Rows::prepare(model, values, path)?;
        let rng = randomness::for_noise()?;
        let noise = LatticeNoise::new(rng, *plan.lattice(), plan.draft().dimension(), 0.0);
        Ok(Some(Trainee {
            plan: plan.clone(),
            rows,
            noise,
        }))
    }

    /// Each row's gradient at a model clipped, rounded towards zero and its integer length checked,
    /// and their sum.
    fn clipped_gradients(&self, model: &[f64]) -> LatticeVector {
        let lattice = self.plan.lattice();
        let radius = self.plan.draft().model.as_ref().map_or(0.0, |model| model.clip);
        let mut sum = lattice.zeros(model.len());
        let mut gradient = vec![0.0; model.len()];
        for (features, target) in self.rows.iter() {
            self.rows.loss().gradient(model, features, target, &mut gradient);
            clip_gradient(radius, &mut gradient);
            sum.add(&clipping::ball_onto_lattice(lattice, radius, 1.0, &gradient));
        }
        sum
    }
}

impl Contributor for Trainee {
    fn contribution(&mut self, _: u32, model: &[f64]) -> LatticeVector {
        let mut sum = self.clipped_gradients(model);
        self.noise
            .add_independent(self.plan.calibration().independent_std, &mut sum);
        sum
    }

    fn conclude(&mut self, _: Option<&[f64]>) {}
}
