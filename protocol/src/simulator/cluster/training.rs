//! Trainings: what simulated parties contribute, and what must hold of their models.

use super::*;
use crate::lattice::grid::LatticeWeight;
use crate::lattice::payload::Payload;
use crate::mixing::noisy::Noisy;
use crate::publishing::result::Sum;
use crate::run::outcome::TrainingOutcome;
use crate::task::released::Released;

impl<'a> Simulation<'a> {
    /// The parties of a training contribute this.
    pub fn contributing(mut self, contribution: impl Fn(Party, u32, &[f64]) -> LatticeVector + 'a) -> Self {
        self.trainees.contribution = Some(Box::new(contribution));
        self
    }

    pub(super) fn checks_of(&mut self, iteration: u32) -> &mut Checks {
        let (liar, terms) = (self.liar, self.plan.terms());
        let opening_bytes = terms.map_or(0, |terms| terms.opening_bytes);
        let fresh = || Checks::new(liar, opening_bytes);
        self.checks.entry(iteration).or_insert_with(fresh)
    }

    pub(super) fn checks_of_present(&mut self, party: Party) -> &mut Checks {
        let run = self.nodes[party].task.run_number();
        self.checks_of(run)
    }

    /// Those of the mixing that a party is in, or of the first one.
    pub(super) fn checks_of_mixing(&mut self, party: Party) -> &mut Checks {
        let task = &self.nodes[party].task;
        let run = if task.release().precomputes_noise() {
            task.run_number()
        } else {
            1
        };
        self.checks_of(run)
    }

    /// Somebody who says again in a later mixing what it has said in the first does so before its
    /// first frame to each neighbour.
    pub(super) fn replay(&mut self, network: Network, (party, to): (Party, Party), frame: &Arc<[u8]>) {
        let task = &self.nodes[party].task;
        if self.conditions.replays != Some(party) || !task.release().precomputes_noise() {
            return;
        }
        let number = task.run_number();
        if number == 1 {
            return self.trainees.said.push((network, to, frame.clone()));
        }
        if !self.trainees.said_again.insert((number, network, to)) {
            return;
        }
        for (of, whom, said) in self.trainees.said.clone() {
            if (of, whom) == (network, to) {
                let again = match network {
                    Network::Public => wire::iteration_frame(number, &said),
                    Network::Private => said,
                };
                self.transmit(network, party, to, again);
            }
        }
    }

    /// A party is asked for its contribution: everybody who is comes to the same model.
    pub(super) fn contribute(&mut self, party: Party, iteration: u32, model: &Arc<[f64]>) {
        // Where nodes average, or computations are as in the paper, each has an iterate of its own.
        let own = self.gossips() || self.plan.draft().computation.recursion().is_some();
        let bits = |model: &[f64]| model.iter().map(|theta| theta.to_bits()).collect::<Vec<_>>();
        let first = self
            .trainees
            .models
            .entry(iteration)
            .or_insert_with(|| model.clone());
        if !own && bits(first) != bits(model) {
            let text = format!("party {party} goes into iteration {iteration} with another model");
            self.violations.push(Violation::new("model", text));
        }
        let contribution = self.trainees.contribution.as_ref();
        let contribution = contribution.expect("a training is simulated with contributions");
        let mut value = contribution(party, iteration, model);
        let (plan, seed) = (&self.plan, self.conditions.seed);
        // Another noise in each iteration.
        let fresh = seed.wrapping_add(u64::from(iteration) << 32);
        noise_of(plan, fresh, party, &mut value);
        self.trainees
            .contributed
            .insert((iteration, party), value.clone());
        let at = self.after_work();
        let input = Input::Contribution {
            iteration,
            value: Noisy::with_noise_in(value),
        };
        self.schedule(at, Occurrence::Input { party, input });
    }

    /// Every model is what follows from the sums of x̃ of those who had not departed, to the bit.
    pub(super) fn check_models(&self) -> Vec<Violation> {
        let nodes = self.nodes.iter().enumerate();
        let ended = nodes.filter_map(|(party, node)| Some((party, &node.outcome.as_ref()?.1)));
        let wrong = ended.filter(|(_, outcome)| !self.model_follows(outcome));
        let two = self.two_models();
        let revealed = wrong.map(|(party, _)| {
            let text = format!("party {party}'s model does not follow from what was contributed");
            Violation::new("model", text)
        });
        revealed.chain(two).collect()
    }

    /// Two nodes that end after the same iteration hold the same model.
    fn two_models(&self) -> Option<Violation> {
        let outcomes = self.nodes.iter().filter_map(|node| node.outcome.as_ref());
        let trainings: Vec<_> = outcomes
            .filter_map(|(_, outcome)| outcome.training.as_ref())
            .collect();
        let differ =
            |a: &TrainingOutcome, b: &TrainingOutcome| a.iterations == b.iterations && a.result != b.result;
        let two = trainings.iter().any(|a| trainings.iter().any(|b| differ(a, b)));
        two.then(|| Violation::new("model", "two nodes end after the same iteration with two models"))
    }

    fn model_follows(&self, outcome: &Outcome) -> bool {
        let Some(training) = &outcome.training else {
            return false;
        };
        let mut released = Released::before(&self.plan);
        for iteration in 1..=training.iterations {
            let is_in = |party: &Party| {
                training
                    .departed
                    .get(party)
                    .is_none_or(|&since| iteration < since)
            };
            let included: Vec<Party> = (0..self.plan.parties()).filter(is_in).collect();
            if training.rejected.contains(&iteration) || training.unopened.contains_key(&iteration) {
                released.stay();
                continue;
            }
            let dimension = self.plan.draft().dimension();
            let (value, weight) = (self.plan.lattice().zeros(dimension), LatticeWeight(0));
            let mut sum = Sum { value, weight };
            for &party in &included {
                let value = match iteration {
                    1 => Some(&self.noised[party]),
                    later => self.trainees.contributed.get(&(later as u32, party)),
                };
                let Some(value) = value else {
                    return false;
                };
                sum.value.add(value);
                let units = i128::from(self.plan.weight_units(party));
                sum.weight.0 += units * self.plan.lattice().value_grid();
            }
            released.take(&self.plan, &sum);
        }
        released.result() == training.result
    }
}
