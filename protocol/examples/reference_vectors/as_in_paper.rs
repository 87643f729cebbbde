//! PPSC's Algorithms 3 and 4, all nodes at once, on given noise.

use serde::Deserialize;
use serde_json::{Value, from_value, json};
use undertone_protocol::model::affine::Affine;
use undertone_protocol::model::loss::Loss;
use undertone_protocol::model::projection::ModelSet;

use crate::Answer;
use crate::models::Rows;

type States = Vec<Vec<f64>>;

/// Gossip and averaging between two local steps.
#[derive(Deserialize)]
struct Outer {
    /// The edges by iteration, gossip iteration and component: who sends, who receives.
    edges: Vec<Vec<Vec<[usize; 2]>>>,
    /// The noise that the sender keeps.
    noise: Vec<Vec<Vec<Vec<f64>>>>,
    public_edges: Vec<[usize; 2]>,
    edge_weight: f64,
    consensus_rounds: usize,
}

impl Outer {
    fn iterations(&self) -> usize {
        self.edges.len()
    }

    /// The receiver gets what the sender has less the noise, which the sender keeps.
    fn gossip(&self, iteration: usize, states: &mut States) {
        let steps = self.edges[iteration].iter().zip(&self.noise[iteration]);
        for (&[from, to], noise) in steps.flat_map(|(edges, noise)| edges.iter().zip(noise)) {
            let sent: Vec<f64> = states[from].iter().zip(noise).map(|(x, n)| x - n).collect();
            states[from].clone_from(noise);
            states[to].iter_mut().zip(sent).for_each(|(x, s)| *x += s);
        }
    }

    fn average(&self, states: &mut States) {
        for _ in 0..self.consensus_rounds {
            let before = states.clone();
            for &[a, b] in &self.public_edges {
                for (own, other) in [(a, b), (b, a)] {
                    let apart = before[other].iter().zip(&before[own]).map(|(o, x)| o - x);
                    let moved = states[own].iter_mut().zip(apart);
                    moved.for_each(|(x, apart)| *x += self.edge_weight * apart);
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Equations {
    h: States,
    z: Vec<f64>,
    start: Vec<f64>,
    steps: Option<Vec<f64>>,
    #[serde(flatten)]
    outer: Outer,
}

pub(crate) fn algorithm_3(given: &Value) -> Answer {
    let given: Equations = from_value(given.clone())?;
    let rows = given.h.iter().zip(&given.z);
    let sets: Vec<Affine> = rows
        .map(|(h, z)| Affine::new(std::slice::from_ref(h), &[*z]))
        .collect();
    let projected = |(k, state): (usize, &Vec<f64>)| {
        let mut projected = state.clone();
        sets[k].project(&mut projected);
        projected
    };
    let mut states: States = vec![given.start.clone(); given.h.len()];
    states = states.iter().enumerate().map(projected).collect();
    let (mut all, mut public) = (vec![states.clone()], vec![]);
    for l in 0..given.outer.iterations() {
        given.outer.gossip(l, &mut states);
        public.push(states.clone());
        given.outer.average(&mut states);
        // The paper's least squares: part of the way to the projection.
        let step = given.steps.as_ref().map_or(1.0, |steps| steps[l]);
        for (k, state) in states.iter_mut().enumerate() {
            let projected = projected((k, state));
            state
                .iter_mut()
                .zip(projected)
                .for_each(|(x, p)| *x += step * (p - *x));
        }
        all.push(states.clone());
    }
    Ok(json!({ "states": all, "public_first": public }))
}

#[derive(Deserialize)]
struct Optimisation {
    parties: Vec<Rows>,
    ridge: f64,
    set: ModelSet,
    #[serde(flatten)]
    outer: Outer,
}

pub(crate) fn algorithm_4(given: &Value) -> Answer {
    let given: Optimisation = from_value(given.clone())?;
    let dimension = given.parties[0].x[0].len();
    let set = given.set.projection(dimension)?;
    let step = |length: f64, rows: &Rows, state: &mut Vec<f64>| {
        let (mut sum, mut gradient) = (vec![0.0; dimension], vec![0.0; dimension]);
        for (features, &target) in rows.x.iter().zip(&rows.y) {
            Loss::Logistic.gradient(state, features, target, &mut gradient);
            sum.iter_mut().zip(&gradient).for_each(|(s, g)| *s += g);
        }
        let moved = state.iter_mut().zip(sum);
        moved.for_each(|(x, s)| *x -= length * (s + given.ridge * *x));
        set.apply(state);
    };
    let mut states: States = vec![vec![0.0; dimension]; given.parties.len()];
    let mut all = vec![];
    for l in 0..=given.outer.iterations() {
        if l > 0 {
            given.outer.gossip(l - 1, &mut states);
            given.outer.average(&mut states);
        }
        let parties = given.parties.iter().zip(&mut states);
        parties.for_each(|(rows, state)| step(1.0 / (l + 1) as f64, rows, state));
        all.push(states.clone());
    }
    Ok(json!({ "states": all }))
}
