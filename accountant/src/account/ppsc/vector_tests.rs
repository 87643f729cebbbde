//! PPSC against an independent implementation: C, D and outputs from edge sequences, and losses.

use crate::account::ppsc::account;
use crate::account::ppsc::on_numbers::finals;
use crate::execution::checked::Execution;
use crate::execution::exchanges::{PpscExchange, components, exchanges};
use crate::execution::ppsc_file::parse;
use crate::losses::loss::{Noise, squared_losses};
use crate::losses::view::View;
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/ppsc.json")).expect("vectors parse")
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn numbers(value: &Value) -> Vec<f64> {
    list(value)
        .iter()
        .map(|x| x.as_f64().expect("a number"))
        .collect()
}

#[track_caller]
fn assert_close(name: &str, found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs() + 1e-14,
        "{name}: found {found:e}, expected {expected:e}"
    );
}

/// The place of an exchange among those of its iteration: these are in order of the components, as
/// the parties are.
fn slot(all: &[PpscExchange], exchange: &PpscExchange) -> usize {
    all.iter()
        .filter(|other| other.iteration == exchange.iteration && other.out < exchange.out)
        .count()
}

fn each(mut check: impl FnMut(&str, &Value, &Execution)) {
    let vectors = vectors();
    assert_eq!(list(&vectors["sequences"]).len(), 2);
    for sequence in list(&vectors["sequences"]) {
        let execution = parse(&sequence["execution"].to_string()).expect("a good file");
        check(sequence["name"].as_str().expect("a name"), sequence, &execution);
    }
}

#[test]
fn matrices_of_the_edge_sequence() {
    each(|name, sequence, execution| {
        let view = View::of(execution);
        for (row, expected) in list(&sequence["C"]).iter().enumerate() {
            assert_eq!(
                view.b.row(row).to_vec(),
                numbers(expected),
                "{name}: C, row {row}"
            );
        }
        for (row, expected) in list(&sequence["D"]).iter().enumerate() {
            // Columns component by component there, iteration by iteration here.
            let mut found = vec![0.0; numbers(expected).len()];
            let all = exchanges(execution);
            for exchange in &all {
                let column = execution.noises(exchange.out).start + exchange.noise;
                found[slot(&all, exchange) * execution.rounds() + exchange.iteration as usize - 1] =
                    view.a[[row, column]];
            }
            assert_eq!(found, numbers(expected), "{name}: D, row {row}");
        }
        let rank = sequence["rank_of_D"].as_u64().expect("a number") as usize;
        assert_eq!(
            components(execution).len(),
            execution.parties() - rank,
            "{name}: a rank short of full is a component"
        );
    });
}

#[test]
fn states_and_their_consensus() {
    each(|name, sequence, execution| {
        let noise: Vec<Vec<f64>> = list(&sequence["noise"]).iter().map(numbers).collect();
        let all = exchanges(execution);
        let draw = |party: usize, k: usize| {
            let exchange = all
                .iter()
                .find(|exchange| (exchange.out, exchange.noise) == (party, k))
                .expect("one a noise");
            noise[exchange.iteration as usize - 1][slot(&all, exchange)]
        };
        let mut x = finals(execution, &numbers(&sequence["input"]), draw);
        assert_eq!(x, numbers(&sequence["output"]), "{name}");
        for _ in 0..30 {
            let n = x.len();
            x = (0..n)
                .map(|i| x[i] + 0.1 * (x[(i + 1) % n] - x[i]) + 0.1 * (x[(i + n - 1) % n] - x[i]))
                .collect();
        }
        for (found, expected) in x
            .iter()
            .zip(numbers(&sequence["after_30_consensus_rounds_on_10_cycle_a_0.1"]))
        {
            assert_close(name, *found, expected);
        }
    });
}

#[test]
fn accounts() {
    each(|name, sequence, execution| {
        let answer = account(&sequence["execution"].to_string(), 2.0, 0.0, 1.0, 1e-6).expect("an answer");
        let view = View::of(execution);
        let least = answer.smallest_singular_value.expect("D is not zero");
        assert_close(
            name,
            least,
            sequence["smallest_singular_value"].as_f64().expect("a number"),
        );
        assert!(
            answer.sum_revealed && answer.unbounded && answer.mu.is_infinite(),
            "{name}: the sums are public"
        );
        assert_eq!(answer.components, components(execution));
        for row in list(&sequence["replace_one_losses_with_independent_noise"]) {
            let (pairwise, independent) = (
                row[0].as_f64().expect("a number"),
                row[1].as_f64().expect("a number"),
            );
            let noise = Noise {
                independent_std: independent,
                correlated_std: pairwise,
            };
            for (found, expected) in squared_losses(&view, noise).into_iter().zip(numbers(&row[2])) {
                assert_close(name, found, expected);
            }
        }
        // σ_γ, the loss μ, and the σ* with which nobody loses more: somebody then loses just that.
        for row in list(&sequence["independent_std_needed"]).iter().map(numbers) {
            let noise = Noise {
                independent_std: row[2],
                correlated_std: row[0],
            };
            let largest = squared_losses(&view, noise).into_iter().fold(0.0, f64::max);
            assert_close(name, largest.sqrt(), row[1]);
        }
    });
}
