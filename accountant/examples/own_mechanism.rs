//! Accounts for executions of a mechanism that is none of ours: its value comes in by halves, 1/2
//! before round 1, 1/4 in the first round, and so on.
//!
//! `cargo run -p undertone-accountant --example own_mechanism`

use std::error::Error;

use undertone_accountant::account::inca::party_losses;
use undertone_accountant::losses::gaussian;
use undertone_accountant::mechanism::chosen::Mechanism;
use undertone_accountant::mechanism::inca::{InjectionSpec, NamedInjection};
use undertone_accountant::mechanism::rules::Rules;
use undertone_accountant::mechanism::unfit::Unfit;
use undertone_accountant::{Execution, Noise};
use undertone_protocol::lattice::injection::Injection;

const ROUNDS: usize = 3;

/// The parts of the value that come in before round 1 and in each round: what is left comes last.
fn halves(rounds: usize) -> Vec<f64> {
    let part = |t: usize| 0.5f64.powi(t.min(rounds - 1) as i32 + 1);
    (0..=rounds).map(part).collect()
}

#[derive(Debug)]
struct ByHalves;

impl Rules for ByHalves {
    fn check_size(&self, parties: usize, rounds: usize, _shares: usize) -> Result<(), Unfit> {
        match (rounds, parties * parties * rounds) {
            (0, _) => Err(Unfit::NoRounds),
            (_, 0..1_000_000) => Ok(()),
            _ => Err(Unfit::TooLarge {
                place: "parties",
                size: "parties² · rounds",
                most: 1_000_000,
            }),
        }
    }

    /// A fresh noise in each round, as INCA's.
    fn noises(&self, rounds: usize, _hand_outs: usize) -> usize {
        rounds
    }

    /// INCA's machine splits states into equal parts: only what comes in is another thing.
    fn injection(&self, rounds: usize) -> Result<Option<Injection<f64>>, Unfit> {
        let fresh = Injection::<f64>::incremental(rounds);
        let z = (0..=rounds).map(|t| fresh.z(t).to_vec()).collect();
        Ok(Some(Injection::custom(halves(rounds), z)?))
    }

    /// The loss to somebody who sees every injection but the last: the parts that have come in by
    /// then, each through a noise of its own.
    fn square_before_publishing(&self, rounds: usize, _hand_outs: usize, ratio: f64) -> Result<f64, Unfit> {
        let sums = halves(rounds).into_iter().scan(0.0, |sum, part| {
            *sum += part;
            Some(*sum)
        });
        let precision: f64 = sums.take(rounds).map(|sum| sum * sum).sum();
        Ok(1.0 / (1.0 + ratio / precision))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let noise = Noise {
        independent_std: 4.0,
        correlated_std: 16.0,
    };
    let (parties, sensitivity, delta) = (5, 2.0, 1e-6);
    // In round t everybody sends to the party t places further on; party 4 is corrupted.
    let round = |t: usize| (0..parties).map(|from| vec![(from + t) % parties]).collect();
    let out: Vec<Vec<Vec<usize>>> = (1..=ROUNDS).map(round).collect();
    let incremental = Mechanism::from(InjectionSpec::Named(NamedInjection::Incremental));
    for (name, mechanism) in [
        ("incremental", incremental),
        ("by halves", Mechanism::of_own(ByHalves)),
    ] {
        let bound = mechanism
            .rules()
            .loss_before_publishing(ROUNDS, ROUNDS, sensitivity, noise)?;
        let run = Execution::fault_free(mechanism, out.clone())?.with_corrupted([4])?;
        let largest = |run: &Execution| {
            let losses = party_losses(run, noise, sensitivity);
            losses.into_values().fold(0.0, f64::max).sqrt()
        };
        let epsilon = gaussian::epsilon(delta, largest(&run))?;
        let before = largest(&run.with_published([])?);
        println!(
            "{name}: before publishing mu {before:.4}, at most {bound:.4}; after it epsilon {epsilon:.3}"
        );
    }
    Ok(())
}
