//! KK's sensitivities against an independent dense implementation.

use serde_json::Value;
use undertone_accountant::account::gossip::threat::{ObserversNoise, ObserversView, Threat};
use undertone_accountant::account::gossip::weights::{Scheme, Weights};
use undertone_accountant::account::gossip::{self, edges};

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/gossip.json")).expect("vectors parse")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().expect("a string")
}

fn whole(value: &Value) -> usize {
    value.as_u64().expect("a whole number") as usize
}

/// The graph as an edge list, each edge in both directions.
fn edge_list(graph: &Value) -> String {
    let edges = graph["edges"].as_array().expect("a list");
    edges
        .iter()
        .map(|edge| format!("{} {}\n{} {}\n", edge[0], edge[1], edge[1], edge[0]))
        .collect()
}

fn scheme(name: &str) -> Scheme {
    match name {
        "metropolis" => Scheme::Metropolis,
        "max-degree" => Scheme::MaxDegree,
        "closed-neighbourhood" => Scheme::ClosedNeighbourhood,
        other => panic!("{other}"),
    }
}

#[track_caller]
fn assert_close(name: &str, found: f64, expected: &Value) {
    let expected = expected.as_f64().unwrap_or(f64::INFINITY);
    assert!(
        found == expected || (found - expected).abs() <= 1e-9 * expected + 1e-14,
        "{name}: found {found:e}, expected {expected:e}"
    );
}

#[test]
fn sensitivities() {
    let vectors = vectors();
    let cases = vectors["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 100);
    for case in cases {
        let name = case.to_string();
        let observers: Vec<usize> = case["observers"]
            .as_array()
            .expect("a list")
            .iter()
            .map(whole)
            .collect();
        let threat = Threat {
            observers: &observers,
            rounds: whole(&case["rounds"]),
            view: if text(case, "view") == "sum" {
                ObserversView::Sum
            } else {
                ObserversView::Messages
            },
            noise: if text(case, "observers_noise") == "known" {
                ObserversNoise::Known
            } else {
                ObserversNoise::Unknown
            },
        };
        let list = edge_list(&vectors["graphs"][text(case, "graph")]);
        let answer = gossip::account(
            &list,
            scheme(text(case, "weights")),
            &threat,
            whole(&case["target"]),
        )
        .expect("an answer");
        assert_close(&name, answer.lower, &case["sensitivity_squared_lower"]);
        assert_close(&name, answer.upper, &case["sensitivity_squared_upper"]);
        // One contribution that the upper value must cover.
        let alternating = case["sensitivity_squared_alternating"]
            .as_f64()
            .unwrap_or(f64::INFINITY);
        assert!(answer.upper >= alternating * (1.0 - 1e-9), "{name}");
        assert_eq!(answer.unbounded, case["sensitivity_squared_upper"].is_null());
    }
}

#[test]
fn powers_of_the_weights() {
    let vectors = vectors();
    for moment in vectors["moments"].as_array().expect("a list") {
        let graph = edges::connected(&edge_list(&vectors["graphs"][text(moment, "graph")])).expect("a graph");
        let weights = Weights::of(&graph, scheme(text(moment, "W")));
        let (i, j) = (whole(&moment["i"]), whole(&moment["j"]));
        let mut row = vec![0.0; weights.nodes()];
        row[i] = 1.0;
        let powers = moment["Wk_ii"].as_array().expect("a list").len();
        assert!(powers > 20);
        for k in 0..powers {
            assert_close("Wk_ii", row[i], &moment["Wk_ii"][k]);
            assert_close("Wk_ij", row[j], &moment["Wk_ij"][k]);
            row = weights.after(&row);
        }
    }
}
