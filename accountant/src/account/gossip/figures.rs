//! The figures of Koskela and Kulkarni, newest and first version, computed again: scaled squared
//! sensitivities of pairs of nodes over the number of rounds, and mean ε over all targets.
//!
//! The papers draw their graphs and pairs at random and print neither; here a seed draws them.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::topology::graph::Graph;

use crate::account::gossip::observers::Observers;
use crate::account::gossip::threat::{GossipError, ObserversNoise, ObserversView, Threat};
use crate::account::gossip::weights::Weights;
use crate::losses::gaussian;
use crate::parallel::in_parallel;

/// An observer and whose contributions it looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Who looks.
    pub observer: usize,
    /// Whose contributions are protected.
    pub target: usize,
}

/// A connected graph in which each pair of `nodes` is joined with this chance (Erdős and Rényi),
/// drawn again until it is connected. `nodes` ≥ 1, and `chance` large enough for that.
pub fn evenly_joined(nodes: usize, chance: f64, seed: u64) -> Graph {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    loop {
        let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b)));
        let edges: Vec<(usize, usize)> = pairs.filter(|_| random.random::<f64>() < chance).collect();
        let graph = Graph::from_edges(nodes, &edges).expect("each pair once");
        if graph.connected() {
            return graph;
        }
    }
}

/// A graph grown by preferential attachment (Barabási and Albert): from a complete core of `core`
/// nodes, each further node joins `links` ≤ `core` others, in proportion to their degrees.
pub fn grown(nodes: usize, core: usize, links: usize, seed: u64) -> Graph {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut edges: Vec<(usize, usize)> = (0..core).flat_map(|a| (0..a).map(move |b| (b, a))).collect();
    for node in core..nodes {
        let mut joined: Vec<usize> = Vec::with_capacity(links);
        while joined.len() < links {
            // An end of a random edge: a node in proportion to its degree.
            let (a, b) = edges[random.random_range(0..edges.len())];
            let end = if random.random() { a } else { b };
            if !joined.contains(&end) {
                joined.push(end);
            }
        }
        edges.extend(joined.into_iter().map(|end| (end, node)));
    }
    Graph::from_edges(nodes, &edges).expect("each pair once")
}

/// A random pair of neighbours, and a random pair of nodes that are none; the graph has both.
pub fn random_pairs(graph: &Graph, seed: u64) -> [Pair; 2] {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let nodes = graph.parties();
    let mut draw = |joined: bool| loop {
        let (observer, target) = (random.random_range(0..nodes), random.random_range(0..nodes));
        if observer != target && graph.joins(observer, target) == joined {
            return Pair { observer, target };
        }
    };
    [draw(true), draw(false)]
}

/// A pair's squared sensitivity after some rounds, at unit noise and sensitivity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairSquare {
    /// For contribution 1 in every round: what the papers' curves show.
    pub even: f64,
    /// T λ_max(M): the newest version's bound for any contributions.
    pub spectral: f64,
    /// The smaller of that and 1ᵀ|M|1, which holds for any contributions, too.
    pub upper: f64,
}

/// What a pair's squared sensitivity comes to after each of these numbers of rounds.
///
/// # Errors
/// A number of rounds or a node is out of range, or the view is too nearly dependent.
pub fn over_rounds(
    weights: &Weights,
    pair: Pair,
    (view, noise): (ObserversView, ObserversNoise),
    rounds: &[usize],
) -> Result<Vec<PairSquare>, GossipError> {
    let at = |place: usize| {
        let threat = Threat {
            observers: &[pair.observer],
            rounds: rounds[place],
            view,
            noise,
        };
        let square = |observers: Observers| {
            let found = observers.sensitivity(0);
            PairSquare {
                even: found.lower,
                spectral: observers.spectral(0),
                upper: found.upper,
            }
        };
        Some(Observers::of(weights, &threat, &[pair.target]).map(square))
    };
    in_parallel(rounds.len(), at).into_iter().collect()
}

/// Mean ε over all nodes of a graph after some rounds, for contributions that may depend on what
/// was seen before (first version, Theorems 9 and 10).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanEpsilon {
    /// If each contribution were released with its noise: √T Δ/σ.
    pub local: f64,
    /// By the target's own messages, of which all that is seen follows: [for contribution 1 in
    /// every round, as the paper has it; for any contributions].
    pub messages: [f64; 2],
    /// By the sums of the target's closed neighbourhood, of which all that is seen follows: the
    /// same two.
    pub sums: [f64; 2],
}

/// [`MeanEpsilon`] after `rounds` rounds with noise of standard deviation `std` and unit
/// contributions, at `delta`.
///
/// # Errors
/// `rounds` is 0 or too large, the view is too nearly dependent, or δ is out of range.
pub fn mean_epsilon(
    graph: &Graph,
    weights: &Weights,
    rounds: usize,
    std: f64,
    delta: f64,
) -> Result<MeanEpsilon, FigureError> {
    let epsilon = |square: f64| gaussian::epsilon(delta, square.sqrt() / std);
    let of_target = |target: usize| -> Result<[f64; 4], FigureError> {
        let mut closed = graph.neighbours(target).to_vec();
        closed.push(target);
        let views = [
            (vec![target], ObserversView::Messages),
            (closed, ObserversView::Sum),
        ];
        let mut told = [0.0; 4];
        for (place, (observers, view)) in views.iter().enumerate() {
            let threat = Threat {
                observers,
                rounds,
                view: *view,
                noise: ObserversNoise::Unknown,
            };
            let found = Observers::of(weights, &threat, &[target])?.sensitivity(0);
            told[2 * place] = epsilon(found.lower)?;
            told[2 * place + 1] = epsilon(found.upper)?;
        }
        Ok(told)
    };
    let targets = graph.parties();
    let each = in_parallel(targets, |target| Some(of_target(target)));
    let mut means = [0.0; 4];
    for told in each {
        for (mean, value) in means.iter_mut().zip(told?) {
            *mean += value / targets as f64;
        }
    }
    let [messages, any_messages, sums, any_sums] = means;
    Ok(MeanEpsilon {
        local: epsilon(rounds as f64)?,
        messages: [messages, any_messages],
        sums: [sums, any_sums],
    })
}

/// Why a point of a figure was not computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FigureError {
    /// The sensitivity was not.
    #[error(transparent)]
    Gossip(#[from] GossipError),
    /// δ or a loss is out of range.
    #[error(transparent)]
    Gaussian(#[from] gaussian::GaussianError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::gossip::weights::Scheme;

    #[test]
    fn graphs_are_what_they_are_called() {
        let graph = evenly_joined(100, 0.15, 1);
        // 742.5 edges expected, standard deviation 25.
        assert!(graph.connected() && graph.edges().len().abs_diff(742) < 125);
        assert_ne!(graph, evenly_joined(100, 0.15, 2));
        let graph = grown(100, 5, 3, 1);
        assert_eq!(graph.edges().len(), 10 + 95 * 3);
        assert!(graph.connected() && graph.least_degree() == 3);
        let most = (0..100).map(|node| graph.neighbours(node).len()).max();
        assert!(most > Some(15), "some have many: {most:?}");
        for seed in 0..20 {
            let [near, far] = random_pairs(&graph, seed);
            assert!(graph.joins(near.observer, near.target) && !graph.joins(far.observer, far.target));
            assert_ne!(far.observer, far.target);
        }
    }

    /// Neighbours' scaled sensitivity falls towards 1/n for contribution 1, and stays above it for
    /// the worst ones.
    #[test]
    fn one_over_n_is_the_limit_for_even_contributions_only() {
        let graph = evenly_joined(20, 0.4, 3);
        let weights = Weights::of(&graph, Scheme::Metropolis);
        let [near, far] = random_pairs(&graph, 1);
        let seen = (ObserversView::Sum, ObserversNoise::Unknown);
        let rounds = [5, 80];
        for pair in [near, far] {
            let found = over_rounds(&weights, pair, seen, &rounds).expect("points");
            let scaled = found[1].even / 80.0;
            assert!((scaled * 20.0 - 1.0).abs() < 0.15, "{scaled}");
        }
        let worst = over_rounds(&weights, near, seen, &rounds).expect("points")[1];
        assert!(worst.upper > 1.05 * worst.even, "{worst:?}");
        assert!(
            worst.spectral >= worst.upper && worst.upper >= worst.even,
            "{worst:?}"
        );
    }

    #[test]
    fn messages_hide_nothing_in_the_mean_by_the_valid_bound() {
        let graph = evenly_joined(8, 0.5, 1);
        let weights = Weights::of(&graph, Scheme::MaxDegree);
        let found = mean_epsilon(&graph, &weights, 10, 10.0, 1e-5).expect("a point");
        assert!(found.messages[0] < found.local && found.messages[1] > 0.98 * found.local);
        assert!(found.sums[0] < found.sums[1] && found.sums[1] < found.local);
        assert!(mean_epsilon(&graph, &weights, 0, 10.0, 1e-5).is_err());
        assert!(mean_epsilon(&graph, &weights, 1, 10.0, 0.0).is_err());
    }
}
