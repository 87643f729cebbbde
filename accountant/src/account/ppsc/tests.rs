use std::collections::BTreeSet;

use ndarray::{Array2, array};
use proptest::prelude::*;

use super::*;
use crate::account::ppsc::on_numbers::finals;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::exchanges::exchanges;
use crate::execution::ppsc_file::parse;
use crate::execution::share::Fate;
use crate::losses::same_sum::SameSum;

/// A path of four (accountant/docs/papers.md): values meet in pairs, then the pairs' noises do.
const PATH: &str = r#"{"parties": 4, "edges": [[[1, 0]], [[2, 3]], [[1, 2]]]}"#;

fn with(extra: &str) -> String {
    PATH.replace("]]]", &format!("]]], {extra}"))
}

fn quiet(text: &str) -> PpscAccount {
    account(text, 2.0, 0.0, 1.0, 1e-6).expect("an answer")
}

fn parsed(text: &str) -> Execution {
    parse(text).expect("a good file")
}

#[test]
fn the_path_of_four_loses_more_than_theorem_1_says() {
    let answer = quiet(PATH);
    // λ_ppsc of a path of four, the least over all edge sequences; of these very edges it is 1.
    let theorem = 1.0 / (2.0 * libm::sin(std::f64::consts::PI / 8.0)) / 2.0;
    assert!(
        (answer.same_sum_mu - 2f64.sqrt() / 2.0).abs() < 1e-11,
        "{}",
        answer.same_sum_mu
    );
    assert!(
        (4.0 * theorem * theorem - 1.707_106_781_186_547_5).abs() < 1e-12 && answer.same_sum_mu > theorem
    );
    assert!((answer.smallest_singular_value.expect("D is not zero") - 1.0).abs() < 1e-12);
    assert!(
        answer.mu.is_infinite() && answer.epsilon.is_infinite() && answer.unbounded && answer.sum_revealed
    );
    assert_eq!(answer.components, [[0, 1, 2, 3]]);
}

#[test]
fn independent_noise_hides_the_sum() {
    let answer = account(PATH, 1e3, 1.0, 1.0, 1e-6).expect("an answer");
    assert!(
        (answer.mu * answer.mu - 0.25).abs() < 0.3,
        "four values share the noise of four: {}",
        answer.mu
    );
    assert!(!answer.sum_revealed && !answer.unbounded);
    assert_eq!(
        account(PATH, 0.0, 1.0, 0.0, 1e-6).expect("an answer").same_sum_mu,
        0.0,
        "what cannot change loses nothing"
    );
    let open = account(PATH, 0.0, 1.0, 1.0, 1e-6).expect("an answer");
    assert!(open.same_sum_mu.is_infinite() && open.mu.is_finite() && open.unbounded);
}

#[test]
fn a_coalition_that_is_a_leafs_only_neighbour_knows_it_all() {
    // 1 hands to 0 alone and gets nothing back but what 0 can see (the paper's section 3.2).
    let leaf = r#"{"parties": 4, "edges": [[[0, 1]], [[1, 2]], [[2, 3]]], "corrupted": [1]}"#;
    let answer = account(leaf, 5.0, 1.0, 1.0, 1e-6).expect("an answer");
    assert!(
        (answer.losses[&0] - 1.0).abs() < 1e-9,
        "only its own η* is left: {:?}",
        answer.losses
    );
    assert!(answer.losses[&3] < 0.9 && !answer.losses.contains_key(&1));
    assert!(quiet(leaf).sum_revealed);
}

#[test]
fn an_exchange_that_came_back_leaves_the_state_and_may_have_been_read() {
    let base = r#"{"parties": 3, "edges": [[[0, 1]], [[1, 2]]], "corrupted": [1], "published": [2], "exchanges": [EX]}"#;
    let exchange =
        |seen: bool| format!(r#"{{"iteration": 1, "out": 0, "in": 1, "fate": "returned", "seen": {seen}}}"#);
    let answer =
        |seen| account(&base.replace("EX", &exchange(seen)), 2.0, 0.0, 1.0, 1e-6).expect("an answer");
    assert_eq!(answer(false).losses[&0], 0.0, "nothing of 0 was seen");
    assert!((answer(true).losses[&0] - 0.25).abs() < 1e-14, "ω = x − γ was");
    assert_eq!(answer(true).components, vec![vec![0], vec![1, 2]]);
}

#[test]
fn what_is_lost_takes_the_sum_with_it() {
    let lost = with(r#""exchanges": [{"iteration": 3, "out": 1, "in": 2, "fate": "lost"}]"#);
    let answer = account(&lost, 2.0, 0.0, 1.0, 1e-6).expect("an answer");
    // 1 keeps γ₃ only; γ₁ is known from nowhere else: y₀ = x₀ + x₁ − γ₁.
    assert!((answer.losses[&0] - 0.25).abs() < 1e-12);
    assert!(
        answer.losses[&2].is_infinite() && answer.sum_revealed,
        "2 and 3 still sum up: {:?}",
        answer.losses
    );
    assert_eq!(answer.components, vec![vec![0, 1], vec![2, 3]]);
}

#[test]
fn a_crashed_party_takes_no_part() {
    let execution = parsed(&with(r#""crashed": [[1, 3]]"#));
    assert_eq!(exchanges(&execution).len(), 2);
    assert_eq!(execution.published(), &BTreeSet::from([0, 2, 3]));
    let execution = parsed(&with(r#""crashed": [[2, 3]]"#));
    assert_eq!(exchanges(&execution)[2].fate, Fate::Returned);
    assert!(!execution.outcome(3, 1, 2).seen);
    assert_eq!(
        exchanges(&parsed(&with(r#""crashed": [[2, 4]]"#)))[2].fate,
        Fate::Accepted
    );
    assert_eq!(
        parsed(&with(r#""crashed": [[2, 2]], "published": [0, 1, 2, 3]"#))
            .published()
            .len(),
        4
    );
}

fn assert_places(cases: impl IntoIterator<Item = (String, &'static str)>) {
    for (text, place) in cases {
        match parse(&text) {
            Err(ExecutionError::Invalid { place: found, .. }) => assert_eq!(found, place, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn every_contradiction_of_parties_names_its_place() {
    assert_places([
        (PATH.replace("4", "0"), "parties"),
        (
            PATH.replace("\"parties\": 4", "\"parties\": 99999999999"),
            "parties",
        ),
        (PATH.replace("[2, 3]", "[2, 4]"), "edges[1][0][1]"),
        (PATH.replace("[2, 3]", "[4, 2]"), "edges[1][0][0]"),
        (PATH.replace("[2, 3]", "[2, 2]"), "edges[1][0][1]"),
        (PATH.replace("[2, 3]", "[2, 3], [0, 3]"), "edges[1][1][1]"),
        (with(r#""corrupted": [4]"#), "corrupted[0]"),
        (with(r#""corrupted": [1, 1]"#), "corrupted[1]"),
        (with(r#""published": [0, 9]"#), "published[1]"),
        (with(r#""crashed": [[4, 1]]"#), "crashed[0][0]"),
        (with(r#""crashed": [[0, 0]]"#), "crashed[0][1]"),
        (with(r#""crashed": [[0, 5]]"#), "crashed[0][1]"),
        (with(r#""crashed": [[0, 1], [0, 2]]"#), "crashed[1][0]"),
        (with(r#""rolled_back": [4]"#), "rolled_back[0]"),
        (with(r#""rolled_back": [1, 1]"#), "rolled_back[1]"),
        (with(r#""rolled_back": [1], "published": [0, 1]"#), "published"),
        (with(r#""sensitivity": [1, 1, 1]"#), "sensitivity"),
        (with(r#""sensitivity": [1, 1, -1, 1]"#), "sensitivity[2]"),
        (
            format!(r#"{{"parties": 9, "edges": [{}[]]}}"#, "[],".repeat(500_000)),
            "edges",
        ),
    ]);
}

#[test]
fn every_contradiction_of_an_exchange_names_its_place() {
    assert_places([
        (
            with(r#""exchanges": [{"iteration": 0, "out": 1, "in": 0, "fate": "lost"}]"#),
            "exchanges[0].iteration",
        ),
        (
            with(r#""exchanges": [{"iteration": 4, "out": 1, "in": 0, "fate": "lost"}]"#),
            "exchanges[0].iteration",
        ),
        (
            with(r#""exchanges": [{"iteration": 1, "out": 0, "in": 1, "fate": "lost"}]"#),
            "exchanges[0].in",
        ),
        (
            with(r#""exchanges": [{"iteration": 1, "out": 9, "in": 0, "fate": "lost"}]"#),
            "exchanges[0].out",
        ),
        (
            with(
                r#""crashed": [[1, 1]], "exchanges": [{"iteration": 1, "out": 1, "in": 0, "fate": "lost"}]"#,
            ),
            "exchanges[0].out",
        ),
        (
            with(
                r#""crashed": [[0, 1]], "exchanges": [{"iteration": 1, "out": 1, "in": 0, "fate": "accepted"}]"#,
            ),
            "exchanges[0].fate",
        ),
        (
            with(r#""exchanges": [{"iteration": 2, "out": 2, "in": 3, "fate": "returned", "applied": 1}]"#),
            "exchanges[0].applied",
        ),
        (
            with(
                r#""crashed": [[3, 3]], "exchanges": [{"iteration": 2, "out": 2, "in": 3, "fate": "accepted", "applied": 3}]"#,
            ),
            "exchanges[0].applied",
        ),
    ]);
    let twice = r#"{"iteration": 1, "out": 1, "in": 0, "fate": "lost"}"#;
    assert!(parse(&with(&format!(r#""exchanges": [{twice}, {twice}]"#))).is_err());
}

#[test]
fn what_is_no_file_and_numbers_out_of_range_are_refused() {
    for text in [
        PATH.replace("[2, 3]", "[2, 3, 1]"),
        PATH.replace("parties", "partys"),
        PATH.replace("[2, 3]", "[-1, 3]"),
    ] {
        assert!(
            matches!(parse(&text), Err(ExecutionError::Syntax { .. })),
            "{text}"
        );
    }
    assert!(matches!(
        account(PATH, -1.0, 0.0, 1.0, 0.1),
        Err(AccountError::Scale {
            flag: "--pairwise-std",
            ..
        })
    ));
    assert!(matches!(
        account(PATH, 1.0, 0.0, 1.0, 0.0),
        Err(AccountError::Gaussian(_))
    ));
}

#[test]
fn a_late_exchange_joins_later() {
    // 1 hands γ₁ on before ω₂ of 2 reaches it: x₂ is where it is at the end.
    let late = |applied: u32| {
        let fault =
            format!(r#"{{"iteration": 1, "out": 0, "in": 1, "fate": "accepted", "applied": {applied}}}"#);
        parsed(&format!(
            r#"{{"parties": 3, "edges": [[[0, 1]], [[1, 2]]], "exchanges": [{fault}]}}"#
        ))
    };
    assert_eq!(
        finals(&late(1), &[10.0, 20.0, 30.0], |party, _| party as f64),
        [0.0, 1.0, 59.0]
    );
    assert_eq!(
        finals(&late(2), &[10.0, 20.0, 30.0], |party, _| party as f64),
        [0.0, 11.0, 49.0]
    );
    let back = r#"{"parties": 3, "edges": [[[0, 1]], [[0, 2]]],
        "exchanges": [{"iteration": 1, "out": 0, "in": 1, "fate": "returned", "applied": 9}]}"#;
    assert_eq!(
        finals(&parsed(back), &[10.0, 20.0, 30.0], |_, k| k as f64 + 1.0),
        [11.0, 20.0, 29.0]
    );
}

#[test]
fn who_is_rolled_back_is_taken_out() {
    let crashed = with(r#""crashed": [[1, 3]], "rolled_back": [1]"#);
    let execution = parsed(&crashed);
    assert_eq!(execution.published(), &BTreeSet::from([0, 2, 3]));
    let run = finals(&execution, &[1.0, 2.0, 4.0, 8.0], |party, _| 100.0 * party as f64);
    assert_eq!(run[0] + run[2] + run[3], 13.0, "the exact sum of the rest");
    assert_eq!(run[0], 1.0, "what 1 had handed to it is out again");
    assert!(quiet(&crashed).losses[&0].is_infinite(), "which leaves 0 alone");
}

#[test]
fn an_executions_file_is_the_execution() {
    let text = with(
        r#""corrupted": [3], "crashed": [[0, 3]], "rolled_back": [0], "published": [1, 2], "sensitivity": [1, 2, 3, 4],
        "exchanges": [{"iteration": 2, "out": 2, "in": 3, "fate": "returned", "applied": 3, "seen": true}]"#,
    );
    let written = serde_json::to_string(&parsed(&text)).expect("JSON");
    let (before, after) = (
        account(&text, 2.0, 1.5, 1.0, 1e-6),
        account(&written, 2.0, 1.5, 7.0, 1e-6),
    );
    assert_eq!(before, after, "{written}");
    assert_eq!(serde_json::to_string(&parsed(&written)).expect("JSON"), written);
    let back = parsed(PATH).with_online(vec![
        vec![true; 4],
        vec![true, true, false, true],
        vec![true; 4],
        vec![true; 4],
    ]);
    assert!(
        serde_json::to_string(&back.expect("a run")).is_err(),
        "who comes back has no place in the file"
    );
}

#[test]
fn each_party_has_its_own_sensitivity() {
    let answer = account(&with(r#""sensitivity": [1, 2, 0, 3]"#), 2.0, 1.0, 9.0, 1e-6).expect("an answer");
    let equal = account(PATH, 2.0, 1.0, 1.0, 1e-6).expect("an answer");
    for (party, factor) in [(0, 1.0), (1, 4.0), (2, 0.0), (3, 9.0)] {
        assert!((answer.losses[&party] - factor * equal.losses[&party]).abs() < 1e-12);
    }
    assert!((answer.same_sum_mu - 3.0 * equal.same_sum_mu).abs() < 1e-12);
}

#[test]
fn no_exchange_hides_nothing() {
    let answer = quiet(r#"{"parties": 2, "edges": []}"#);
    assert_eq!(
        (
            answer.smallest_singular_value,
            answer.same_sum_mu,
            answer.sum_revealed
        ),
        (None, 0.0, true)
    );
    assert_eq!(answer.components, [[0], [1]]);
}

/// Returns the loss of a joint change v, ‖D⁺Cv‖² at unit noise. It asks for the losses of a view in
/// which Cv is one party's whole column.
fn loss_of_direction(view: &View, v: &[f64]) -> f64 {
    let column = view
        .b
        .dot(&Array2::from_shape_vec((v.len(), 1), v.to_vec()).expect("a column"));
    let view = View {
        honest: vec![0],
        b: column,
        a: view.a.clone(),
    };
    squared_losses(
        &view,
        Noise {
            independent_std: 0.0,
            correlated_std: 1.0,
        },
    )[0]
}

#[test]
fn the_supremum_is_attained_on_the_path() {
    let view = View::of(&parsed(PATH));
    assert_eq!(
        view.b,
        array![
            [1., 1., 0., 0.],
            [0., 0., 0., 0.],
            [0., 0., 0., 0.],
            [0., 0., 1., 1.]
        ]
    );
    assert!((loss_of_direction(&view, &[0.5, 0.5, -0.5, -0.5]) - 2.0).abs() < 1e-12);
    assert!(loss_of_direction(&view, &[1.0, 0.0, 0.0, 0.0]).is_infinite());
}

fn random_execution() -> impl Strategy<Value = String> {
    (
        3usize..7,
        prop::collection::vec((0usize..6, 1usize..6, 0u8..8), 1..14),
        0usize..7,
    )
        .prop_map(|(n, steps, corrupted)| {
            let mut edges = Vec::new();
            let mut exchanges = Vec::new();
            for (index, (out, step, fate)) in steps.iter().enumerate() {
                let (out, into) = (out % n, (out + 1 + step % (n - 1)) % n);
                edges.push(format!("[[{out},{into}]]"));
                let fate = match fate {
                    0 => "lost",
                    1 => "returned",
                    _ => continue,
                };
                exchanges.push(format!(
                    r#"{{"iteration":{},"out":{out},"in":{into},"fate":"{fate}"}}"#,
                    index + 1
                ));
            }
            let corrupted = if corrupted < n {
                corrupted.to_string()
            } else {
                String::new()
            };
            format!(
                r#"{{"parties":{n},"edges":[{}],"exchanges":[{}],"corrupted":[{corrupted}]}}"#,
                edges.join(","),
                exchanges.join(",")
            )
        })
}

/// A random execution against nobody: its last key is emptied.
fn without_a_coalition(text: &str) -> String {
    let last = text.find("\"corrupted\"").expect("a key");
    format!("{}\"corrupted\":[]}}", &text[..last])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// No direction that keeps every sum that is seen loses more than the supremum.
    #[test]
    fn the_supremum_bounds_every_direction_that_keeps_the_sums(
        text in random_execution(),
        seed in 0u64..1000,
    ) {
        let view = View::of(&parsed(&text));
        let together = SameSum::of(&view);
        let honest = view.honest.len();
        // Differences of two parties' values, and sums of such: those whose loss is finite keep
        // every sum that is seen.
        let mut best = 0.0f64;
        for a in 0..honest {
            for b in 0..honest {
                let mut v = vec![0.0; honest];
                v[a] += 1.0;
                v[b] -= 1.0;
                v[(a + b + seed as usize) % honest] += (seed % 3) as f64 - 1.0;
                let norm = v.iter().map(|x| x * x).sum::<f64>();
                let loss = loss_of_direction(&view, &v);
                if norm > 0.0 && loss.is_finite() {
                    best = best.max(loss / norm);
                }
            }
        }
        let square = together.largest * together.largest;
        prop_assert!(best <= square * (1.0 + 1e-9) + 1e-9, "{best} against {square}");
    }

    /// The loss of one party is that of its own direction, and a coalition only ever learns more.
    #[test]
    fn losses_are_those_of_directions_and_grow_with_the_coalition(text in random_execution()) {
        let execution = parsed(&text);
        let seen = View::of(&execution);
        let noise = Noise { independent_std: 0.0, correlated_std: 1.0 };
        let losses = squared_losses(&seen, noise);
        for (column, &loss) in losses.iter().enumerate() {
            let mut v = vec![0.0; seen.honest.len()];
            v[column] = 1.0;
            let own = loss_of_direction(&seen, &v);
            prop_assert!(own == loss || (own - loss).abs() <= 1e-9 * loss, "{own} against {loss}");
        }
        let alone = View::of(&parsed(&without_a_coalition(&text)));
        let noise = Noise { independent_std: 1.0, correlated_std: 1.0 };
        let (with, without) = (squared_losses(&seen, noise), squared_losses(&alone, noise));
        for (&party, &loss) in seen.honest.iter().zip(&with) {
            prop_assert!(loss >= without[party] * (1.0 - 1e-9));
        }
    }

    /// Numbers and impulses agree: y = C x + D γ.
    #[test]
    fn the_machine_is_the_same_on_numbers(
        text in random_execution(),
        x in prop::collection::vec(-5.0..5.0f64, 6),
        g in prop::collection::vec(-5.0..5.0f64, 14),
    ) {
        let execution = parsed(&without_a_coalition(&text));
        let first = |party: usize| execution.noises(party).start;
        let run = finals(&execution, &x[..execution.parties()], |party, k| g[first(party) + k]);
        let view = View::of(&execution);
        for (row, state) in run.iter().enumerate() {
            let values = view.b.row(row).into_iter().zip(&x);
            let noises = view.a.row(row).into_iter().zip(&g);
            let value: f64 = values.chain(noises).map(|(c, x)| c * x).sum();
            prop_assert!((value - state).abs() < 1e-9);
        }
    }
}
