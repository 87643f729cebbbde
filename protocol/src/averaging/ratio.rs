//! Ratio consensus with running sums (Hadjicostis, Vaidya, Domínguez-García 2016), on integers.
//!
//! Beside its vector y each node carries a count, 1 for each party whose vector it entered. In each
//! round it gives 1/(degree + 1) of both to every neighbour; y/count tends to the mean everywhere.
//! A message does not say what is given, but the *sum of all that was ever given* on the edge:
//!
//! state = what was entered − Σ over live edges (sum sent − sum received).
//!
//! So a message that is lost is made good by the next one, a repeated one changes nothing, and an
//! edge that is cut takes its net flow with it: what all live nodes hold, and what is on the way
//! between them, add up to what they entered, *to the unit*, whatever happened before. That is
//! roll-back once more. Divisions round towards zero and the remainder stays: nothing is lost to
//! rounding either.

use crate::averaging::integers;

/// Vectors are carried in 2^-20 of their units, so that remainders do not matter.
pub const FRACTION_BITS: u32 = 20;

/// A party's count of 1, in steps.
pub const ONE: i128 = 1 << 40;

/// Rounds that the width of messages allows for, and more than any run takes in time.
pub const MOST_ROUNDS: u32 = 1 << 14;

/// What a node holds. The last coordinate is the count.
#[derive(Clone)]
pub struct RatioConsensus {
    entered: Vec<i128>,
    sent: Vec<i128>,
    state: Vec<i128>,
}

impl std::fmt::Debug for RatioConsensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ratio({} coordinates)", self.state.len() - 1)
    }
}

/// Bytes a coordinate of a message, where the vectors of all parties add up to at most `sum` units
/// in absolute value. Cut edges can leave up to some thousand times that at a node for a moment.
pub fn width(sum: f64) -> usize {
    let vectors = (sum + 1.0) * libm::exp2(f64::from(FRACTION_BITS));
    integers::width(vectors.max(1025.0 * ONE as f64) * f64::from(MOST_ROUNDS) * 4096.0)
}

impl RatioConsensus {
    /// Begins with this node's own vector.
    pub fn new(own: impl Iterator<Item = i64>) -> Self {
        let mut entered: Vec<i128> = own.map(|x| i128::from(x) << FRACTION_BITS).collect();
        entered.push(ONE);
        RatioConsensus {
            sent: vec![0; entered.len()],
            state: entered.clone(),
            entered,
        }
    }

    /// Enters another party's vector, or takes it out again; it counts from the next round on.
    pub fn enter(&mut self, vector: impl Iterator<Item = i64>, out: bool) {
        let sign = if out { -1 } else { 1 };
        let steps = vector.map(|x| i128::from(x) << FRACTION_BITS).chain([ONE]);
        self.entered
            .iter_mut()
            .zip(steps)
            .for_each(|(entered, x)| *entered += sign * x);
    }

    /// Adds what each of `degree` neighbours is given of the present state to the running sum.
    pub fn give(&mut self, degree: usize) {
        let ways = degree as i128 + 1;
        self.sent
            .iter_mut()
            .zip(&self.state)
            .for_each(|(sent, state)| *sent = sent.wrapping_add(state / ways));
    }

    /// Writes the running sum. False: a coordinate does not fit.
    pub fn write(&self, width: usize, bytes: &mut [u8]) -> bool {
        integers::write(self.sent.iter().copied(), width, bytes)
    }

    /// The next state, from the running sums received over the live edges.
    pub fn receive<'a>(&mut self, received: impl Iterator<Item = &'a [u8]>, width: usize) {
        self.state.copy_from_slice(&self.entered);
        let mut degree = 0;
        for bytes in received {
            degree += 1;
            let sums = integers::read(bytes, width);
            self.state
                .iter_mut()
                .zip(sums)
                .for_each(|(state, sum)| *state = state.wrapping_add(sum));
        }
        self.state
            .iter_mut()
            .zip(&self.sent)
            .for_each(|(state, sent)| *state = state.wrapping_sub(sent.wrapping_mul(degree)));
    }

    /// What is held now, in 2^-[`FRACTION_BITS`] units; the count last, in 1/[`ONE`].
    pub fn state(&self) -> &[i128] {
        &self.state
    }

    /// The mean as this node sees it, in units; none if its count is not positive.
    pub fn mean(&self) -> Option<Vec<f64>> {
        let (count, values) = self.state.split_last()?;
        let scale = (ONE >> FRACTION_BITS) as f64 / *count as f64;
        (*count > 0).then(|| values.iter().map(|&y| y as f64 * scale).collect())
    }

    /// A bound on the largest difference, over coordinates and in units, between this node's mean
    /// and that of a neighbour whose running sums before and after a round are these. ∞ if either
    /// has no mean.
    pub fn apart(&self, before: Option<&[u8]>, after: &[u8], width: usize) -> f64 {
        let Some((&count, values)) = self.state.split_last() else {
            return f64::INFINITY;
        };
        let mut earlier = before.map(|bytes| integers::read(bytes, width));
        let mut given: Vec<i128> = integers::read(after, width)
            .map(|sum| sum.wrapping_sub(earlier.as_mut().and_then(Iterator::next).unwrap_or(0)))
            .collect();
        let Some(their_count) = given.pop().filter(|_| count > 0).filter(|&theirs| theirs > 0) else {
            return f64::INFINITY;
        };
        let (fraction, one) = (libm::exp2(f64::from(FRACTION_BITS)), ONE as f64);
        let (mine, theirs) = (one / fraction / count as f64, one / fraction / their_count as f64);
        let mut largest = 0.0f64;
        for (y, q) in values.iter().zip(&given) {
            let (a, b) = (*y as f64 * mine, *q as f64 * theirs);
            // Division cut up to one step per way off both, so up to (1 + |b| in steps) over their
            // count; and f64 rounds.
            let cut = (one / fraction + b.abs()) / their_count as f64;
            let rounded = (a.abs() + b.abs()) * 2f64.powi(-49);
            largest = largest.max((a - b).abs() + cut + rounded);
        }
        // A comparison with NaN is false: what is no number is no bound.
        if largest.is_finite() {
            largest
        } else {
            f64::INFINITY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::graph::Graph;

    const WIDTH: usize = 12;

    struct Network {
        graph: Graph,
        nodes: Vec<RatioConsensus>,
        /// The newest running sums that each node holds, by sender.
        held: Vec<Vec<Option<Vec<u8>>>>,
        live: Vec<bool>,
    }

    impl Network {
        fn new(graph: Graph, values: &[i64]) -> Self {
            let nodes: Vec<RatioConsensus> = values
                .iter()
                .map(|&x| RatioConsensus::new([x, -2 * x].into_iter()))
                .collect();
            let parties = values.len();
            Network {
                graph,
                nodes,
                held: vec![vec![None; parties]; parties],
                live: vec![true; parties],
            }
        }

        fn live_neighbours(&self, node: usize) -> Vec<usize> {
            self.graph
                .neighbours(node)
                .iter()
                .copied()
                .filter(|&other| self.live[other])
                .collect()
        }

        fn round(&mut self, mut arrives: impl FnMut(usize, usize) -> bool) {
            for node in (0..self.nodes.len()).filter(|&node| self.live[node]) {
                let others = self.live_neighbours(node);
                self.nodes[node].give(others.len());
                let mut bytes = vec![0; 3 * WIDTH];
                assert!(self.nodes[node].write(WIDTH, &mut bytes));
                for other in others {
                    if arrives(node, other) {
                        self.held[other][node] = Some(bytes.clone());
                    }
                }
            }
            self.restate();
        }

        fn restate(&mut self) {
            for node in (0..self.nodes.len()).filter(|&node| self.live[node]) {
                let zero = vec![0; 3 * WIDTH];
                let others = self.live_neighbours(node);
                let received: Vec<&[u8]> = others
                    .iter()
                    .map(|&other| self.held[node][other].as_deref().unwrap_or(&zero))
                    .collect();
                self.nodes[node].receive(received.into_iter(), WIDTH);
            }
        }

        fn total(&self, of: fn(&RatioConsensus) -> &[i128]) -> Vec<i128> {
            let live = self
                .nodes
                .iter()
                .zip(&self.live)
                .filter(|(_, live)| **live)
                .map(|(node, _)| of(node));
            live.fold(vec![0; 3], |sum, state| {
                sum.iter().zip(state).map(|(a, b)| a + b).collect()
            })
        }
    }

    const VALUES: [i64; 8] = [1000, -70_000, 12, 5, 400_000, -3, 77, 123_456];

    #[test]
    fn every_node_ends_at_the_mean_and_no_unit_is_lost() {
        let mut network = Network::new(Graph::ring(8), &VALUES);
        for _ in 0..200 {
            network.round(|_, _| true);
            assert_eq!(
                network.total(|node| &node.state),
                network.total(|node| &node.entered)
            );
        }
        let mean = VALUES.iter().sum::<i64>() as f64 / 8.0;
        for node in &network.nodes {
            let found = node.mean().expect("a positive count");
            assert!(
                (found[0] - mean).abs() < 0.01 && (found[1] + 2.0 * mean).abs() < 0.02,
                "{found:?} for {mean}"
            );
        }
    }

    #[test]
    fn lost_messages_are_made_good_by_the_next() {
        let mut network = Network::new(Graph::ring(8), &VALUES);
        for round in 0..600usize {
            network.round(|from, to| (round * 7 + from * 3 + to) % 5 != 0);
        }
        network.round(|_, _| true);
        assert_eq!(
            network.total(|node| &node.state),
            network.total(|node| &node.entered),
            "to the unit"
        );
        let mean = VALUES.iter().sum::<i64>() as f64 / 8.0;
        assert!(
            network
                .nodes
                .iter()
                .all(|node| (node.mean().expect("positive")[0] - mean).abs() < 0.01)
        );
    }

    #[test]
    fn a_vanished_node_costs_what_it_entered_and_nothing_else() {
        for vanishes_after in [0, 1, 2, 5, 40] {
            let mut network = Network::new(Graph::complete(8), &VALUES);
            for round in 0..vanishes_after {
                // Some of its last messages arrive, some do not.
                network.round(|from, to| from != 4 || round + 1 < vanishes_after || to < 4);
            }
            network.live[4] = false;
            network.restate();
            for _ in 0..60 {
                network.round(|_, _| true);
                assert_eq!(
                    network.total(|node| &node.state),
                    network.total(|node| &node.entered)
                );
            }
            let mean = (VALUES.iter().sum::<i64>() - VALUES[4]) as f64 / 7.0;
            let near = |node: &RatioConsensus| (node.mean().expect("positive")[0] - mean).abs() < 0.01;
            assert!(
                (0..8)
                    .filter(|&node| node != 4)
                    .all(|node| near(&network.nodes[node])),
                "after {vanishes_after}"
            );
        }
    }

    #[test]
    fn the_bound_holds_and_is_not_idle() {
        let mut network = Network::new(Graph::complete(8), &VALUES);
        for round in 0..30 {
            let before = network.nodes.clone();
            let held = network.held.clone();
            network.round(|_, _| true);
            let (a, b) = (
                before[1].mean().expect("positive"),
                before[2].mean().expect("positive"),
            );
            let real = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let bound = before[1].apart(
                held[1][2].as_deref(),
                network.held[1][2].as_deref().expect("arrived"),
                WIDTH,
            );
            assert!(
                bound >= real && bound <= real * 1.001 + 0.1,
                "round {round}: {bound} for {real}"
            );
        }
        let nobody = vec![0; 3 * WIDTH];
        assert_eq!(network.nodes[0].apart(None, &nobody, WIDTH), f64::INFINITY);
    }

    #[test]
    fn what_was_entered_for_another_can_be_taken_out_again() {
        let mut ratio = RatioConsensus::new([5i64].into_iter());
        ratio.enter([7i64].into_iter(), false);
        ratio.receive([].into_iter(), WIDTH);
        assert_eq!(ratio.mean(), Some(vec![6.0]));
        ratio.enter([7i64].into_iter(), true);
        ratio.receive([].into_iter(), WIDTH);
        assert_eq!(ratio.mean(), Some(vec![5.0]));
    }
}
