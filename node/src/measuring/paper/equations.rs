//! PPSC's tables of Algorithm 3.

use serde_json::{Value, json};
use undertone_accountant::account::ppsc::equations;

use crate::measuring::paper::computed::Computed;
use crate::measuring::paper::ppsc::{cells, object};
use crate::telling::table::{Table, number};

/// Table 5.
pub(super) fn table_5() -> Computed {
    let rows = equations::table_5();
    let mut table = Table::with_headings([
        "ε",
        "ν",
        "L",
        "T, Theorem 3",
        "ours",
        "ratio",
        "as printed",
        "least T, Figure 7",
        "ours",
        "ratio",
    ]);
    for row in &rows {
        let ([a, b, c], [d, e, f]) = (cells(&row.theorem), cells(&row.least));
        table.row([
            number(row.epsilon),
            number(row.accuracy),
            row.outer.ours.to_string(),
            a,
            b,
            c,
            row.theorem_as_printed.to_string(),
            d,
            e,
            f,
        ]);
    }
    let objects: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "epsilon": row.epsilon, "accuracy": row.accuracy, "outer": object(&row.outer),
                "theorem": object(&row.theorem), "theorem_as_printed": row.theorem_as_printed,
                "pairwise_std": row.pairwise_std, "least": object(&row.least),
            })
        })
        .collect();
    Computed {
        name: "ppsc-table5",
        title: "PPSC, Table 5: public rounds T in each outer iteration of Algorithm 3 on Table 4's equations, \
                on the cycle of ten (weights 1/4), S = 26, until E Σ‖x − y*‖² ≤ ν"
            .into(),
        rows: objects,
        table,
        notes: vec![
            "Theorem 3's T follows with n where its bound φ* on the states has √n; \"as printed\" is with √n."
                .into(),
            "Its L and T need numbers that the paper does not print: λ_ppsc = √(3 − √5), ε₀ = 0.01, ‖ζ₀‖ = 14 \
             and ‖ζ₀ − y*‖² = 395 give all of them."
                .into(),
            "Figure 7 is simulated; ours is the exact expectation over edges, noise (σ_γ as printed, √n) and \
             the direction of ζ₀, which the paper does not print."
                .into(),
            "ε is the paper's: Theorem 3's noise needs ‖y*‖, the private solution, and no T and no noise hides \
             the exact sum of each piece of the private graph, from which d + 1 iterations give its equations."
                .into(),
        ],
        chart: None,
    }
}

/// Table 6.
pub(super) fn table_6() -> Computed {
    let rows = equations::table_6();
    let mut table = Table::with_headings(["ε", "ν", "L", "probability", "ours", "ratio", "full rank"]);
    for row in &rows {
        table.row([
            number(row.epsilon),
            number(row.accuracy),
            row.outer.to_string(),
            row.chance.paper.to_string(),
            format!("{:.5}", row.chance.ours),
            format!("{:.4}", row.chance.ratio()),
            format!("{:.4}", row.full_rank),
        ]);
    }
    let objects = rows.iter().map(|row| {
        json!({
            "epsilon": row.epsilon, "accuracy": row.accuracy, "outer": row.outer,
            "probability": object(&row.chance), "full_rank": row.full_rank,
        })
    });
    Computed {
        name: "ppsc-table6",
        title: "PPSC, Table 6: probability that every state changes in each of L outer iterations, S = 26"
            .into(),
        rows: objects.collect(),
        table,
        notes: vec![
            "The paper's are shares of samples; ours are exact, and do not depend on ε.".into(),
            "Every state having changed does not give the noises full rank: the last column is the chance of \
             that in each of the L iterations, below the 0.95 that is asked for."
                .into(),
        ],
        chart: None,
    }
}
