//! Answers the reference vectors for which no command exists: what of a protocol is computed in
//! bytes or in whole numbers, and the mathematics of a training.
//!
//! `cargo run -p undertone-protocol --example reference_vectors -- IN.json OUT.json`
//!
//! IN has `{"vectors": [{name, kind, given}]}`, answered as `{name: answer}` for the kinds known
//! here (`width`, `descend`, `statistics`, `projection`, `algorithm-3`, `algorithm-4`, `root`,
//! `layout`, `rows`, `figures`), or
//! `{"crypto": [{digest, run_secrets, …}]}`, answered as `{"crypto": [{…}]}` with all that follows
//! from what is given, or both.

mod as_in_paper;
mod crypto;
mod described;
mod models;

use std::error::Error;

use serde::Deserialize;
use serde_json::{Map, Value, from_value, json};
use undertone_protocol::lattice::width::least_bits;

type Answer = Result<Value, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args().skip(1);
    let (Some(from), Some(to)) = (paths.next(), paths.next()) else {
        return Err("usage: reference_vectors IN.json OUT.json".into());
    };
    let asked: Value = serde_json::from_slice(&std::fs::read(from)?)?;
    let mut answers = Map::new();
    for vector in asked["vectors"].as_array().into_iter().flatten() {
        let given = &vector["given"];
        let answer = match vector["kind"].as_str().unwrap_or_default() {
            "width" => width(given),
            "descend" => models::descend(given),
            "statistics" => models::statistics(given),
            "projection" => models::projection(given),
            "algorithm-3" => as_in_paper::algorithm_3(given),
            "algorithm-4" => as_in_paper::algorithm_4(given),
            "root" => described::root(given),
            "layout" => described::layout(given),
            "rows" => described::rows(given),
            "figures" => described::figures(given),
            _ => continue,
        };
        let name = vector["name"].as_str().ok_or("a vector has a name")?;
        answers.insert(
            name.to_owned(),
            answer.map_err(|error| format!("{name}: {error}"))?,
        );
    }
    if let Some(crypto) = asked["crypto"].as_array() {
        let crypto = crypto.iter().map(crypto::answer).collect::<Result<Vec<_>, _>>()?;
        answers.insert("crypto".to_owned(), crypto.into());
    }
    Ok(std::fs::write(to, serde_json::to_vec_pretty(&answers)?)?)
}

#[derive(Deserialize)]
struct Sum {
    parties: usize,
    bound: f64,
    independent_std: f64,
}

fn width(given: &Value) -> Answer {
    let sum: Sum = from_value(given.clone())?;
    let bits = least_bits(sum.parties, sum.bound, sum.independent_std);
    Ok(json!({ "bits": bits }))
}
