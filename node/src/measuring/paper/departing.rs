//! INCA's Figure 3: who departs, and what that costs.

use serde_json::json;
use undertone_accountant::account::departing::{EXCHANGES, PRINTED};
use undertone_accountant::losses::gaussian::GaussianError;

use crate::measuring::paper::computed::Computed;
use crate::planning::plot::{Chart, ChartLine};
use crate::telling::failure::{Exit, Failure};
use crate::telling::table::Table;

/// Seeds GOPA's graphs.
const SEED: u64 = 1;

/// A mechanism's name, and its mean squared error by how many depart; none where it has none.
type Mechanism = (&'static str, fn(usize) -> Result<Option<f64>, GaussianError>);

/// GOPA, of whose departures so many happen while the others take masks out.
fn gopa(departed: usize, second: usize) -> Result<Option<f64>, GaussianError> {
    if departed == 0 {
        return Ok(None);
    }
    PRINTED.masks_taken_out_by_who_stays(departed, second.max(1), SEED)
}

/// All that are compared, the trusted server last.
const MECHANISMS: [Mechanism; 7] = [
    ("local noise", |departed| PRINTED.local(departed).map(Some)),
    ("CorDP-DME, at least", |departed| {
        PRINTED.masks_that_stay(departed).map(Some)
    }),
    ("GOPA, half while it takes out", |departed| {
        gopa(departed, departed / 2)
    }),
    ("GOPA, a quarter while it takes out", |departed| {
        gopa(departed, departed / 4)
    }),
    ("GOPA, one while it takes out", |departed| gopa(departed, 1)),
    ("here, and secure aggregation", |departed| {
        PRINTED.taken_out(departed).map(Some)
    }),
    ("trusted server", |_| PRINTED.central().map(Some)),
];

/// Figure 3.
pub(super) fn figure_3() -> Result<Computed, Failure> {
    const SHARES: [f64; 4] = [0.0, 0.05, 0.1, 0.2];
    let refuse = |e: GaussianError| Failure::new(Exit::Internal, e.to_string());
    let mut table = Table::with_headings([
        "mechanism",
        "departed",
        "mean squared error",
        "× trusted server",
        "noise",
    ]);
    let central = PRINTED.central().map_err(refuse)?;
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (mechanism, error) in MECHANISMS {
        let mut points = Vec::new();
        for share in SHARES {
            let departed = (share * PRINTED.parties as f64).round() as usize;
            let Some(error) = error(departed).map_err(refuse)? else {
                continue;
            };
            let how = if mechanism.starts_with("GOPA") || mechanism.starts_with("CorDP") {
                "the best ratio of both"
            } else {
                "exact"
            };
            table.row([
                mechanism.into(),
                share.to_string(),
                format!("{error:.4e}"),
                format!("{:.2}", error / central),
                how.into(),
            ]);
            rows.push(json!({"mechanism": mechanism, "departed": share, "error": error}));
            points.push((share, error));
        }
        lines.push(ChartLine {
            name: mechanism.into(),
            points,
        });
    }
    Ok(Computed {
        name: "inca-figure3",
        title: format!(
            "INCA, Figure 3: mean squared error over the share that departs, n = {}, {} colluding, ε = {}, δ = {:e}",
            PRINTED.parties, PRINTED.colluding, PRINTED.epsilon, PRINTED.delta
        ),
        rows,
        table,
        notes: vec![
            "The paper prints no numbers of this figure. Its protocol leaves the noise of who departs; here it \
             is taken out, and whoever departs counts as one that colludes, as it does for nobody else in this \
             table."
                .into(),
            format!(
                "GOPA: masks with {EXCHANGES} others that each draws, the largest loss of five graphs; those who \
                 depart while masks are taken out leave theirs with the ones that departed before. CorDP-DME: \
                 masks with everybody, none taken out; a lower bound. Both with exact losses and the ratio of \
                 noises that errs least, which the paper's accounting does not reach."
            ),
        ],
        chart: Some(Chart {
            title: "Mean squared error, n = 200, ε = 0.2, δ = 1e-5, 20 colluding",
            x: "share of parties that depart",
            y: "mean squared error",
            logarithmic: true,
            counted: false,
            lines,
        }),
    })
}
