//! Budgets of iterations, and the losses of precomputed noise.

use std::collections::BTreeMap;
use std::error::Error;

use serde::Deserialize;
use serde_json::{Value, from_value, json};
use undertone_accountant::account::inca::inca;
use undertone_accountant::losses::loss::Noise;
use undertone_accountant::losses::{gaussian, releases};

use crate::Answer;

#[derive(Deserialize)]
struct Budget {
    epsilon: f64,
    delta: f64,
    iterations: u64,
    before_over_published: f64,
    published: u64,
}

pub(crate) fn budget(given: &Value) -> Answer {
    let given: Budget = from_value(given.clone())?;
    let total = gaussian::mu(given.epsilon, given.delta)?;
    let before = given.before_over_published;
    let each = releases::each_with_shares(total, given.iterations, before);
    let published = releases::together(each, given.published);
    let withheld_next = (published * published + (before * each) * (before * each)).sqrt();
    Ok(json!({
        "mu_total": total,
        "mu_iteration": each,
        "mu_withheld_next": withheld_next,
        "epsilon_withheld_next": gaussian::epsilon(given.delta, withheld_next)?,
        "epsilon_all": gaussian::epsilon(given.delta, releases::together(each, given.iterations))?,
    }))
}

#[derive(Deserialize)]
struct PrecomputedMixing {
    parties: usize,
    rounds: usize,
    out: Value,
    injection: Value,
    corrupted: Vec<usize>,
    rolled_back: Vec<usize>,
    independent_std: f64,
    correlated_std: f64,
    sensitivity: f64,
}

impl PrecomputedMixing {
    /// μ of each honest party, with these in the coalition.
    fn losses(&self, corrupted: &[usize]) -> Result<BTreeMap<usize, f64>, Box<dyn Error>> {
        let mut execution = json!({
            "parties": self.parties,
            "rounds": self.rounds,
            "out": self.out,
            "injection": self.injection,
            "corrupted": corrupted,
        });
        if !self.rolled_back.is_empty() {
            execution["rolled_back"] = json!(self.rolled_back);
        }
        let noise = Noise {
            independent_std: self.independent_std,
            correlated_std: self.correlated_std,
        };
        let answer = inca(&execution.to_string(), noise, self.sensitivity, 1e-6)?;
        let losses = answer.losses.into_iter();
        Ok(losses.map(|(party, square)| (party, square.sqrt())).collect())
    }
}

pub(crate) fn precomputed(given: &Value) -> Answer {
    let given: PrecomputedMixing = from_value(given.clone())?;
    let with_gone = [&given.corrupted[..], &given.rolled_back].concat();
    Ok(json!({
        "losses": given.losses(&given.corrupted)?,
        "losses_with_the_gone_in_the_coalition": given.losses(&with_gone)?,
    }))
}
