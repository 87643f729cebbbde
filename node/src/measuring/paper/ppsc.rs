//! PPSC's tables.

use serde_json::{Value, json};
use undertone_accountant::account::ppsc::paper::{self, Compared, PRINTED_LAMBDA, lambda_of_the_graph};

use crate::measuring::paper::computed::Computed;
use crate::telling::table::{Table, number};

pub(super) fn object(compared: &Compared) -> Value {
    json!({"paper": compared.paper, "ours": compared.ours, "ratio": compared.ratio()})
}

pub(super) fn cells(compared: &Compared) -> [String; 3] {
    [
        compared.paper.to_string(),
        compared.ours.to_string(),
        format!("{:.3}", compared.ratio()),
    ]
}

/// Table 2.
pub(super) fn table_2() -> Computed {
    let rows = paper::table_2();
    let notes = vec![
        "The paper's ρ are shares of 10⁶ samples; ours are exact. \
         \"Least S\" allows for three standard errors of these samples."
            .to_owned(),
        "Theorem 2 gives 24 from the printed ρ = 0.9998, not 25: that needs ρ > 0.99985.".to_owned(),
        "Every state having changed does not give D its full rank, which is what hides a value: \
         the last column is the chance of that after the paper's S. \
         Plans compute it from the edges that are really used."
            .to_owned(),
    ];
    let mut table = Table::with_headings([
        "ρ",
        "ρ exact",
        "S, Theorem 2",
        "ours",
        "ratio",
        "least S, Figure 5",
        "ours",
        "ratio",
        "full rank",
    ]);
    for row in &rows {
        let ([a, b, c], [d, e, f]) = (cells(&row.theorem), cells(&row.least));
        table.row([
            row.rho.to_string(),
            format!("{:.5}", row.exact_rho),
            a,
            b,
            c,
            d,
            e,
            f,
            format!("{:.5}", row.full_rank),
        ]);
    }
    let objects = rows.iter().map(|row| {
        json!({
            "rho": row.rho, "exact_rho": row.exact_rho, "full_rank": row.full_rank,
            "theorem": object(&row.theorem), "least": object(&row.least),
        })
    });
    Computed {
        name: "ppsc-table2",
        title: "PPSC, Table 2: iterations S until every state has changed with probability ρ \
                 (Figure 4c: paths of 4, 3 and 3 parties)"
            .into(),
        rows: objects.collect(),
        table,
        notes,
        chart: None,
    }
}

/// Table 3.
pub(super) fn table_3() -> Computed {
    let rows = paper::table_3();
    let notes = vec![
        format!(
            "The paper's σ_γ = κ/λ follows with λ_ppsc = {PRINTED_LAMBDA}; \
             that of its graph is 2 sin(π/8) = {:.5}, which gives more noise: \
             the columns \"λ of the graph\".",
            lambda_of_the_graph()
        ),
        "Figure 6a is simulated; ours is the exact expectation over edges and noise. \
         At ε = 0.1 the two differ by up to 10 %."
            .to_owned(),
        "The sums of the components stay public in all of this: no T and no σ_γ hides them.".to_owned(),
    ];
    let mut table = Table::with_headings([
        "ε",
        "ν",
        "T, Theorem 2",
        "ours",
        "ratio",
        "λ of the graph",
        "least T, Figure 6a",
        "ours",
        "ratio",
        "λ of the graph",
    ]);
    for row in &rows {
        let ([a, b, c], [d, e, f]) = (cells(&row.theorem), cells(&row.least));
        let (theorem, least) = (
            row.theorem_of_the_graph.to_string(),
            row.least_of_the_graph.to_string(),
        );
        table.row([
            number(row.epsilon),
            number(row.accuracy),
            a,
            b,
            c,
            theorem,
            d,
            e,
            f,
            least,
        ]);
    }
    let objects = rows.iter().map(|row| {
        json!({
            "epsilon": row.epsilon, "accuracy": row.accuracy,
            "theorem": object(&row.theorem), "theorem_with_lambda_of_the_graph": row.theorem_of_the_graph,
            "least": object(&row.least), "least_with_lambda_of_the_graph": row.least_of_the_graph,
        })
    });
    Computed {
        name: "ppsc-table3",
        title: "PPSC, Table 3: rounds T of plain averaging on the cycle of ten (weights 1/10) \
                 until E‖x − mean‖² ≤ ν, after S = 25"
            .into(),
        rows: objects.collect(),
        table,
        notes,
        chart: None,
    }
}
