//! Trainings in one process, over a simulated network, with the machines, the lattice and the gate
//! of a node; and what the same clipped gradients come to with other noise.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::model::descent::Descent;
use undertone_protocol::model::statistics;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::model::ModelSettings;
use undertone_protocol::simulator::cluster::Simulation;
use undertone_protocol::simulator::scenario::{Conditions, Fault, Report as Simulated};
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;

use crate::measuring::synthetic::normal;
use crate::measuring::trial::CachedGate;
use crate::party::rows::Rows;
use crate::party::trainee::TrainingRows;
use crate::telling::failure::{Exit, Failure};

/// A plan with the rows of its parties, and rows to hold models against.
pub struct TrainingTrial {
    /// The plan that is run.
    pub plan: Arc<Plan>,
    /// The gate of every node.
    pub gate: CachedGate,
    /// Held out: no party has them.
    pub test: Rows,
    parties: Vec<TrainingRows>,
    /// When a training without kills starts, and when it ends.
    span: OnceCell<(Time, Time)>,
}

impl TrainingTrial {
    /// A trial of parties with these tables, in plan order.
    ///
    /// # Errors
    /// The plan fits no model; a target that its loss does not know.
    pub fn new(plan: Arc<Plan>, tables: &[(&Path, &[f64])], test: Rows) -> Result<Self, Failure> {
        let rows = tables.iter().enumerate().map(|(party, (path, values))| {
            let rows = TrainingRows::of(&plan, party, values, path)?;
            rows.ok_or_else(|| Failure::new(Exit::Internal, "the plan fits no model"))
        });
        let parties = rows.collect::<Result<_, Failure>>()?;
        Ok(TrainingTrial {
            plan,
            gate: CachedGate::default(),
            test,
            parties,
            span: OnceCell::new(),
        })
    }

    fn settings(&self) -> &ModelSettings {
        let model = self.plan.draft().computation.model();
        model.expect("a trial is of a plan that fits a model")
    }

    /// One training of all nodes.
    pub fn simulate(&self, conditions: Conditions) -> Simulated {
        let gate = |plan: &Plan, logs: &AgreedLogs| self.gate.verdict(plan, logs);
        let start = vec![0.0; self.settings().parameters()];
        let first = self
            .parties
            .iter()
            .map(|party| party.sum(&start).into_vector())
            .collect();
        Simulation::new(self.plan.clone(), first, &gate, conditions)
            .contributing(|party, _, model| self.parties[party].sum(model).into_vector())
            .run()
    }

    /// `count` kills at moments of a training, from its START to its end. Killed parties fall
    /// silent, or are seen to be gone.
    pub fn kills(&self, count: usize, seed: u64, silent: bool) -> Vec<Fault> {
        if count == 0 {
            return vec![];
        }
        let (started, finished) = *self.span.get_or_init(|| self.calm_span(seed));
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut parties: Vec<Party> = (0..self.plan.parties()).collect();
        let mut kill = |_| {
            let party = parties.swap_remove(rng.random_range(0..parties.len()));
            let until = finished.as_nanos().max(started.as_nanos() + 1);
            let at = Time::from_nanos(rng.random_range(started.as_nanos()..until));
            match silent {
                true => Fault::Silence { party, at },
                false => Fault::Crash { party, at },
            }
        };
        (0..count).map(&mut kill).collect()
    }

    fn calm_span(&self, seed: u64) -> (Time, Time) {
        let calm = self.simulate(Conditions::new(seed));
        let outcomes = calm.outcomes.iter().flatten();
        let started = outcomes.filter_map(|outcome| outcome.started_at).min();
        let finished = calm.finished_at.iter().flatten().copied().min();
        (started.unwrap_or(Time::ZERO), finished.unwrap_or(Time::ZERO))
    }

    /// The model that the same clipped gradients, or second moments, come to where each sum of all
    /// parties gets noise of this standard deviation a coordinate.
    pub fn with_noise(&self, noise_std: f64, seed: u64) -> Result<Vec<f64>, Failure> {
        let (settings, rows) = (self.settings(), self.plan.draft().total_weight());
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let step = self.plan.lattice().step();
        let mut noisy_sum = |model: &[f64]| -> Vec<f64> {
            let sums = self.parties.iter().map(|party| party.sum(model).into_vector());
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
            .course()
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
        self.test.judge(model).1
    }
}
