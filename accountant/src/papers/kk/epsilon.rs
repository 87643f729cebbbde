//! The first version's Figure 2: mean ε over all targets.

use serde::Serialize;
use undertone_protocol::topology::graph::Graph;

use crate::account::gossip::observers::Observers;
use crate::account::gossip::threat::{ObserversNoise, ObserversView, Threat};
use crate::account::gossip::weights::{Scheme, Weights};
use crate::losses::gaussian;
use crate::papers::error::PaperError;
use crate::papers::figure::{Cell, Chart, Figure, Table, curves};
use crate::papers::given::Given;
use crate::papers::kk::graphs::evenly_joined;
use crate::parallel::in_parallel;

/// T of each point: the last two show where the paper's curves cross.
const ROUNDS: [usize; 6] = [5, 10, 20, 40, 60, 80];

/// The paper's δ.
const DELTA: f64 = 1e-5;

/// The paper names no σ: ours.
const STD: f64 = 10.0;

/// A curve's name, and its ε at a point.
type Side = (&'static str, fn(&MeanEpsilon) -> f64);

const SIDES: [Side; 5] = [
    ("local", |at| at.local),
    ("messages, c = 1 (paper)", |at| at.messages_even),
    ("messages, any c", |at| at.messages),
    ("sums, c = 1 (paper)", |at| at.sums_even),
    ("sums, any c", |at| at.sums),
];

/// Figure 2 of the first version.
pub(crate) fn first_figure_2(given: &Given<'_>) -> Result<Figure, PaperError> {
    let graph = evenly_joined(50, 0.2, given.seed);
    let weights = Weights::of(&graph, Scheme::MaxDegree);
    let mut found: Vec<MeanEpsilon> = Vec::new();
    for rounds in ROUNDS {
        given.show(&format!("T = {rounds}, of {}", ROUNDS[ROUNDS.len() - 1]));
        found.push(mean_epsilon(&graph, &weights, rounds, STD, DELTA)?);
    }
    let points = SIDES.into_iter().flat_map(|(name, side)| {
        let point = move |at: &MeanEpsilon| (name.into(), at.rounds as f64, side(at));
        found.iter().map(point)
    });
    Ok(Figure {
        title: format!(
            "KK, first version, Figure 2: mean ε of adaptive contributions, n = 50, p = 0.2, δ = {DELTA:e}, σ = {STD}"
        ),
        table: Table::of(
            &found,
            &[
                ("T", |at| Cell::text(at.rounds)),
                (SIDES[0].0, |at| Cell::text(format!("{:.3}", at.local))),
                (SIDES[1].0, |at| Cell::text(format!("{:.3}", at.messages_even))),
                (SIDES[2].0, |at| Cell::text(format!("{:.3}", at.messages))),
                (SIDES[3].0, |at| Cell::text(format!("{:.3}", at.sums_even))),
                (SIDES[4].0, |at| Cell::text(format!("{:.3}", at.sums))),
            ],
        ),
        notes: vec![
            "The paper prints no numbers and no σ; its graph is drawn at random: --seed draws others.".into(),
            crossing(&found),
            "By what is valid for any contributions, messages give next to nothing over local noise.".into(),
        ],
        chart: Some(Chart {
            title: "Mean ε, n = 50, p = 0.2, δ = 1e-5, σ = 10",
            x: "rounds T",
            y: "mean ε",
            logarithmic: false,
            counted: true,
            curves: curves(points),
        }),
    })
}

/// Where messages come below sums, as the paper says they do.
fn crossing(found: &[MeanEpsilon]) -> String {
    let first = |messages: fn(&MeanEpsilon) -> f64, sums: fn(&MeanEpsilon) -> f64| {
        let below = found.iter().find(|at| messages(at) < sums(at));
        below.map_or("nowhere up to T = 80".to_owned(), |at| {
            format!("from T = {} on", at.rounds)
        })
    };
    format!(
        "The paper says that messages become tighter than sums as T grows: for c = 1 {}, for any c {}.",
        first(|at| at.messages_even, |at| at.sums_even),
        first(|at| at.messages, |at| at.sums)
    )
}

/// Mean ε over all nodes of a graph after some rounds, for contributions that may depend on what
/// was seen before (first version, Theorems 9 and 10).
#[derive(Debug, Serialize)]
struct MeanEpsilon {
    rounds: usize,
    /// If each contribution were released with its noise: √T Δ/σ.
    local: f64,
    /// By the target's own messages, of which all that is seen follows: for contribution 1 in every
    /// round, as the paper has it; then for any contributions.
    messages_even: f64,
    messages: f64,
    /// By the sums of the target's closed neighbourhood, of which all that is seen follows: the
    /// same two.
    sums_even: f64,
    sums: f64,
}

/// [`MeanEpsilon`] after `rounds` rounds with noise of standard deviation `std` and unit
/// contributions, at `delta`.
fn mean_epsilon(
    graph: &Graph,
    weights: &Weights,
    rounds: usize,
    std: f64,
    delta: f64,
) -> Result<MeanEpsilon, PaperError> {
    let epsilon = |square: f64| gaussian::epsilon(delta, square.sqrt() / std);
    let of_target = |target: usize| -> Result<[f64; 4], PaperError> {
        let mut closed = graph.neighbours(target).to_vec();
        closed.push(target);
        let views = [
            (vec![target], ObserversView::Messages),
            (closed, ObserversView::Sum),
        ];
        let mut reported = [0.0; 4];
        for (place, (observers, view)) in views.iter().enumerate() {
            let threat = Threat {
                observers,
                rounds,
                view: *view,
                noise: ObserversNoise::Unknown,
            };
            let found = Observers::of(weights, &threat, &[target])?.sensitivity(0);
            reported[2 * place] = epsilon(found.lower)?;
            reported[2 * place + 1] = epsilon(found.upper)?;
        }
        Ok(reported)
    };
    let targets = graph.parties();
    let each = in_parallel(targets, |target| Some(of_target(target)));
    let mut means = [0.0; 4];
    for reported in each {
        for (mean, value) in means.iter_mut().zip(reported?) {
            *mean += value / targets as f64;
        }
    }
    let [messages_even, messages, sums_even, sums] = means;
    Ok(MeanEpsilon {
        rounds,
        local: epsilon(rounds as f64)?,
        messages_even,
        messages,
        sums_even,
        sums,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_hide_nothing_in_the_mean_by_the_valid_bound() {
        let graph = evenly_joined(8, 0.5, 1);
        let weights = Weights::of(&graph, Scheme::MaxDegree);
        let found = mean_epsilon(&graph, &weights, 10, 10.0, 1e-5).expect("a point");
        assert!(found.messages_even < found.local && found.messages > 0.98 * found.local);
        assert!(found.sums_even < found.sums && found.sums < found.local);
        assert!(mean_epsilon(&graph, &weights, 0, 10.0, 1e-5).is_err());
        assert!(mean_epsilon(&graph, &weights, 1, 10.0, 0.0).is_err());
    }
}
