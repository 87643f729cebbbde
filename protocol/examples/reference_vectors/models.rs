//! The mathematics of a training: descent, second moments, projections.

use serde::Deserialize;
use serde_json::{Value, from_value, json};
use undertone_protocol::model::descent::{Descent, DescentTerms, StepLength};
use undertone_protocol::model::loss::Loss;
use undertone_protocol::model::projection::ModelSet;
use undertone_protocol::model::statistics;

use crate::Answer;

/// A party's rows.
#[derive(Deserialize)]
pub(crate) struct Rows {
    pub(crate) x: Vec<Vec<f64>>,
    pub(crate) y: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Steps {
    Constant(f64),
    Each(Vec<f64>),
}

#[derive(Deserialize)]
struct Training {
    loss: String,
    parties: Vec<Rows>,
    iterations: usize,
    step: Steps,
    clip: f64,
    ridge: f64,
    momentum: f64,
    noise: Vec<Vec<f64>>,
    included: Vec<Option<Vec<usize>>>,
    set: ModelSet,
    average: f64,
}

impl Training {
    /// The loss, with as many classes as its noise has blocks for.
    fn loss(&self) -> Result<Loss, String> {
        let features = self.parties[0].x[0].len();
        match self.loss.as_str() {
            "squared" => Ok(Loss::Squared),
            "logistic" => Ok(Loss::Logistic),
            "softmax" => Ok(Loss::Softmax {
                classes: self.noise[0].len() / features,
            }),
            other => Err(format!("unknown loss {other}")),
        }
    }

    /// A list of steps is the harmonic one.
    fn step(&self) -> Result<StepLength, String> {
        match &self.step {
            Steps::Constant(step) => Ok(StepLength::Constant(*step)),
            Steps::Each(steps) => {
                let step = StepLength::Inverse { first: steps[0] };
                let harmonic = (1..)
                    .zip(steps)
                    .all(|(k, given)| (step.of(k) - given).abs() < 1e-12);
                harmonic
                    .then_some(step)
                    .ok_or_else(|| "steps are not first/k".into())
            }
        }
    }

    /// The sum of a party's clipped gradients.
    fn sum(&self, loss: Loss, party: usize, model: &[f64]) -> Vec<f64> {
        let rows = &self.parties[party];
        let (mut sum, mut gradient) = (vec![0.0; model.len()], vec![0.0; model.len()]);
        for (features, &target) in rows.x.iter().zip(&rows.y) {
            loss.clipped_gradient(model, (features, target), self.clip, &mut gradient);
            sum.iter_mut().zip(&gradient).for_each(|(s, g)| *s += g);
        }
        sum
    }
}

pub(crate) fn descend(given: &Value) -> Answer {
    let given: Training = from_value(given.clone())?;
    let (loss, dimension) = (given.loss()?, given.noise[0].len());
    let terms = DescentTerms {
        step: given.step()?,
        momentum: given.momentum,
        ridge: given.ridge,
        set: given.set.projection(dimension)?,
        average: given.average,
    };
    let mut descent = Descent::new(terms, vec![0.0; dimension]);
    let sums_at = |model: &[f64]| -> Vec<Vec<f64>> {
        (0..given.parties.len())
            .map(|party| given.sum(loss, party, model))
            .collect()
    };
    let (first_sums, mut iterates) = (sums_at(descent.model()), vec![descent.model().to_vec()]);
    for (noise, included) in given.noise.iter().zip(&given.included).take(given.iterations) {
        match included {
            Some(included) => {
                let (sums, mut sum) = (sums_at(descent.model()), noise.clone());
                for &party in included {
                    sum.iter_mut().zip(&sums[party]).for_each(|(s, p)| *s += p);
                }
                let rows: usize = included.iter().map(|&party| given.parties[party].y.len()).sum();
                descent.step(sum, rows as f64);
            }
            None => descent.stay(),
        }
        iterates.push(descent.model().to_vec());
    }
    Ok(json!({ "model": descent.result(), "iterates": iterates, "first_sums": first_sums }))
}

#[derive(Deserialize)]
struct Moments {
    parties: Vec<Rows>,
    clip: f64,
    noise: Vec<f64>,
    ridge: f64,
}

pub(crate) fn statistics(given: &Value) -> Answer {
    let given: Moments = from_value(given.clone())?;
    let columns = given.parties[0].x[0].len() + 1;
    let sum_of = |rows: &Rows| {
        let mut sum = vec![0.0; statistics::coordinates(columns)];
        let mut moments = sum.clone();
        for (features, &target) in rows.x.iter().zip(&rows.y) {
            let row: Vec<f64> = features.iter().copied().chain([target]).collect();
            statistics::second_moments(&row, given.clip, &mut moments);
            sum.iter_mut().zip(&moments).for_each(|(s, m)| *s += m);
        }
        sum
    };
    let sums: Vec<Vec<f64>> = given.parties.iter().map(sum_of).collect();
    let mut sum = given.noise.clone();
    sums.iter()
        .for_each(|party| sum.iter_mut().zip(party).for_each(|(s, p)| *s += p));
    let rows: usize = given.parties.iter().map(|party| party.y.len()).sum();
    let model = statistics::solve(&sum, columns, rows as f64, given.ridge).ok_or("finite numbers")?;
    Ok(json!({
        "sums": sums,
        "sensitivity_replace_one": statistics::sensitivity_replace_one(given.clip, columns, 0.0),
        "sensitivity_zero_out": statistics::sensitivity_zero_out(given.clip),
        "model": model,
    }))
}

#[derive(Deserialize)]
struct Point {
    set: ModelSet,
    point: Vec<f64>,
}

pub(crate) fn projection(given: &Value) -> Answer {
    let Point { set, mut point } = from_value(given.clone())?;
    set.projection(point.len())?.apply(&mut point);
    Ok(json!({ "projection": point }))
}
