//! Answers the reference vectors of trainings that are the accountant's: budgets of iterations, and
//! the losses of precomputed noise.
//!
//! `cargo run -p undertone-accountant --example training_vectors -- IN.json OUT.json`
//!
//! IN has `{"vectors": [{name, kind, given}]}`, answered as `{name: answer}` for the kinds `budget`
//! and `precomputed`; all others are left to the protocol's example `reference_vectors`.

mod answers;

use std::error::Error;

use serde_json::{Map, Value};

type Answer = Result<Value, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args().skip(1);
    let (Some(from), Some(to)) = (paths.next(), paths.next()) else {
        return Err("usage: training_vectors IN.json OUT.json".into());
    };
    let asked: Value = serde_json::from_slice(&std::fs::read(from)?)?;
    let mut answers = Map::new();
    for vector in asked["vectors"].as_array().into_iter().flatten() {
        let answer = match vector["kind"].as_str().unwrap_or_default() {
            "budget" => answers::budget(&vector["given"]),
            "ahead" => answers::precomputed(&vector["given"]),
            _ => continue,
        };
        let name = vector["name"].as_str().ok_or("a vector has a name")?;
        answers.insert(
            name.to_owned(),
            answer.map_err(|error| format!("{name}: {error}"))?,
        );
    }
    Ok(std::fs::write(to, serde_json::to_vec_pretty(&answers)?)?)
}
