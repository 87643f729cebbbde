//! Tables of a model's rows, and what the same clipped gradients come to with other noise.

use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::model::descent::Descent;
use undertone_protocol::model::statistics;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::model::ModelSettings;
use undertone_protocol::topology::party::Party;

use crate::measuring::synthetic::normal;
use crate::measuring::trial::{Contributions, Trial};
use crate::party::rows::Rows;
use crate::party::trainee::TrainingRows;
use crate::reporting::failure::{Exit, Failure};

/// The rows of a model's parties, and rows to hold models against.
pub struct Tables {
    /// Held out: no party has them.
    pub test: Rows,
    parties: Vec<TrainingRows>,
}

impl Tables {
    /// These tables, in plan order.
    ///
    /// # Errors
    /// The plan fits no model; a target that its loss does not know.
    pub fn of(plan: &Arc<Plan>, tables: &[(&Path, &[f64])], test: Rows) -> Result<Self, Failure> {
        let rows = tables.iter().enumerate().map(|(party, (path, values))| {
            let rows = TrainingRows::of(plan, party, values, path)?;
            rows.ok_or_else(|| Failure::new(Exit::Internal, "the plan fits no model"))
        });
        let parties = rows.collect::<Result<_, Failure>>()?;
        Ok(Tables { test, parties })
    }
}

fn settings(plan: &Plan) -> &ModelSettings {
    let model = plan.draft().computation.model();
    model.expect("the tables are of a plan that fits a model")
}

impl Contributions for Tables {
    fn contribution(&self, _: &Plan, party: Party, _: u32, model: &[f64]) -> LatticeVector {
        self.parties[party].sum(model).into_vector()
    }

    fn start(&self, plan: &Plan) -> Vec<f64> {
        vec![0.0; settings(plan).parameters()]
    }
}

impl Trial<Tables> {
    /// The model that the same clipped gradients, or second moments, come to where each sum of all
    /// parties gets noise of this standard deviation a coordinate.
    pub fn with_noise(&self, noise_std: f64, seed: u64) -> Result<Vec<f64>, Failure> {
        let (settings, rows) = (settings(&self.plan), self.plan.total_weight());
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let step = self.plan.lattice().step();
        let mut noisy_sum = |model: &[f64]| -> Vec<f64> {
            let sums = self.of.parties.iter().map(|party| party.sum(model).into_vector());
            let sum = sums.reduce(|mut all: LatticeVector, party| {
                all.add(&party);
                all
            });
            let words = sum.map_or(vec![], |sum| sum.to_f64(step));
            let noise = |word: f64| word + noise_std * normal(&mut rng);
            words.into_iter().map(noise).collect()
        };
        if settings.is_statistics() {
            let ridge = settings.ridge_for(noise_std / rows);
            let solved = statistics::solve(&noisy_sum(&[]), settings.features() + 1, rows, ridge);
            return solved.ok_or_else(|| Failure::new(Exit::Internal, "no model was found"));
        }
        let terms = settings
            .terms()
            .map_err(|e| Failure::new(Exit::Internal, e.to_string()))?;
        let mut descent = Descent::new(terms, vec![0.0; settings.parameters()]);
        for _ in 0..settings.iterations {
            let sum = noisy_sum(descent.model());
            descent.step(sum, rows);
        }
        Ok(descent.result())
    }

    /// How good a model is: accuracy, or R², on the rows that were held out.
    pub fn quality(&self, model: &[f64]) -> f64 {
        self.of.test.judge(model).1
    }
}
