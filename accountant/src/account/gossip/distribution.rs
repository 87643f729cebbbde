//! Every node as an observer by itself, every other as a target: how the upper values are
//! distributed over all pairs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::account::gossip::observers::Observers;
use crate::account::gossip::threat::{GossipError, ObserversNoise, ObserversView, Threat};
use crate::account::gossip::weights::Weights;
use crate::parallel::in_parallel;

/// Bins a decade: what is reported of a value is at most 2.4 % above it.
const BINS: f64 = 100.0;

/// Observers that are prepared between two words of progress.
const AT_ONCE: usize = 64;

/// Percentages of the pairs for which a value is reported.
const QUANTILES: [f64; 9] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9, 100.0];

/// Upper values of the squared sensitivity of all pairs that were asked about, at unit sensitivity
/// and unit noise variance a round. No number in it is below the true one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// How many nodes the graph has.
    pub nodes: usize,
    /// For how many rounds observers look.
    pub rounds: usize,
    /// Pairs of an observer and another node.
    pub pairs: u64,
    /// Pairs whose target's contributions never reach the observer: their value is 0.
    pub nothing_seen: u64,
    /// Pairs of observers whose view is too nearly dependent to be computed: they count with the
    /// number of rounds, which nothing exceeds.
    pub not_computed: u64,
    /// The mean of the upper values over all pairs.
    #[serde(rename = "sensitivity_squared_mean")]
    pub mean: f64,
    /// The largest upper bound over all pairs.
    #[serde(rename = "sensitivity_squared_upper")]
    pub largest: f64,
    /// The (observer, target) that the largest upper value is of.
    pub largest_pair: Option<(usize, usize)>,
    /// (percent of the pairs, a value that so many do not exceed).
    pub quantiles: Vec<(f64, f64)>,
    /// (lower end, upper end, pairs) of each bin that is not empty, ascending.
    pub histogram: Vec<(f64, f64, u64)>,
}

/// The nodes whose contributions are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// Those of every node.
    All,
    /// Those of the node of this number.
    One(usize),
}

/// Asks every node as an observer by itself. `progress` receives how many of how many observers are
/// done.
///
/// A product for all targets of an observer at once: its upper values hold, and may be larger than
/// [`super::sensitivity`]'s for targets close by.
pub fn all_pairs(
    weights: &Weights,
    rounds: usize,
    (view, noise): (ObserversView, ObserversNoise),
    targets: Targets,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Distribution, GossipError> {
    let nodes = weights.nodes();
    let targets: Vec<usize> = match targets {
        Targets::All => (0..nodes).collect(),
        Targets::One(found) if found >= nodes => return Err(GossipError::Target { found, nodes }),
        Targets::One(target) => vec![target],
    };
    let mut tally = Tally::default();
    for first in (0..nodes).step_by(AT_ONCE) {
        let count = AT_ONCE.min(nodes - first);
        let answers = in_parallel(count, |index| {
            let observer = first + index;
            let threat = Threat {
                observers: &[observer],
                rounds,
                view,
                noise,
            };
            Some(Observers::of(weights, &threat, &targets).map(|observers| observers.sensitivities_at_once()))
        });
        for (index, answers) in answers.into_iter().enumerate() {
            let observer = first + index;
            let uppers: Vec<f64> = match answers {
                Ok(answers) => answers.iter().map(|answer| answer.upper).collect(),
                Err(GossipError::NearlyDependent) => {
                    tally.not_computed += targets.iter().filter(|&&target| target != observer).count() as u64;
                    vec![rounds as f64; targets.len()]
                }
                Err(error) => return Err(error),
            };
            for (&target, upper) in targets
                .iter()
                .zip(uppers)
                .filter(|(target, _)| **target != observer)
            {
                tally.add(observer, target, upper);
            }
        }
        progress(first + count, nodes);
    }
    Ok(tally.distribution(nodes, rounds))
}

/// The counts so far: 16 million values need not be kept.
#[derive(Default)]
struct Tally {
    pairs: u64,
    nothing: u64,
    not_computed: u64,
    sum: f64,
    largest: f64,
    largest_pair: Option<(usize, usize)>,
    bins: BTreeMap<i64, u64>,
}

impl Tally {
    fn add(&mut self, observer: usize, target: usize, upper: f64) {
        self.pairs += 1;
        self.sum += upper;
        if upper > self.largest {
            (self.largest, self.largest_pair) = (upper, Some((observer, target)));
        }
        if upper > 0.0 {
            let bin = (libm::log10(upper) * BINS).floor() as i64;
            *self.bins.entry(bin).or_insert(0) += 1;
        } else {
            self.nothing += 1;
        }
    }

    fn distribution(self, nodes: usize, rounds: usize) -> Distribution {
        let edge = |bin: i64| libm::pow(10.0, bin as f64 / BINS);
        let quantile = |percent: f64| {
            let wanted = (self.pairs as f64 * percent / 100.0).ceil() as u64;
            let mut seen = self.nothing;
            if seen >= wanted {
                return 0.0;
            }
            for (&bin, &count) in &self.bins {
                seen += count;
                if seen >= wanted {
                    return edge(bin + 1).min(self.largest);
                }
            }
            self.largest
        };
        Distribution {
            nodes,
            rounds,
            pairs: self.pairs,
            nothing_seen: self.nothing,
            not_computed: self.not_computed,
            mean: if self.pairs == 0 {
                0.0
            } else {
                self.sum / self.pairs as f64
            },
            largest: self.largest,
            largest_pair: self.largest_pair,
            quantiles: QUANTILES.map(|percent| (percent, quantile(percent))).into(),
            histogram: self
                .bins
                .iter()
                .map(|(&bin, &count)| (edge(bin), edge(bin + 1), count))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::gossip::{Scheme, edges, sensitivity};

    fn weights() -> Weights {
        let graph = edges::connected("0 1\n1 2\n2 3\n3 4\n4 5\n5 0\n1 4\n5 6\n").expect("a graph");
        Weights::of(&graph, Scheme::Metropolis)
    }

    #[test]
    fn every_pair_is_in_it_and_none_is_understated() {
        let (weights, rounds) = (weights(), 6);
        let mut reported = vec![];
        for (view, noise) in [
            (ObserversView::Sum, ObserversNoise::Unknown),
            (ObserversView::Messages, ObserversNoise::Known),
        ] {
            let found = all_pairs(&weights, rounds, (view, noise), Targets::All, &mut |done, all| {
                reported.push((done, all))
            })
            .expect("answers");
            let mut each = vec![];
            for observer in 0..7 {
                let threat = Threat {
                    observers: &[observer],
                    rounds,
                    view,
                    noise,
                };
                let others = (0..7).filter(|&target| target != observer);
                each.extend(
                    others.map(|target| sensitivity(&weights, &threat, target).expect("an answer").upper),
                );
            }
            each.sort_unstable_by(f64::total_cmp);
            assert_eq!((found.pairs, found.not_computed), (42, 0));
            assert_eq!(
                found.histogram.iter().map(|bin| bin.2).sum::<u64>() + found.nothing_seen,
                42
            );
            for &(percent, value) in &found.quantiles {
                let exact = each[((42.0 * percent / 100.0).ceil() as usize).max(1) - 1];
                // The product for all targets at once may say more for neighbours, never less.
                assert!(
                    value >= exact && value <= rounds as f64,
                    "{percent} %: {value} {exact}"
                );
            }
            assert!(
                found.largest >= each[41] && found.mean >= each.iter().sum::<f64>() / 42.0 * (1.0 - 1e-12)
            );
            let (observer, target) = found.largest_pair.expect("a pair");
            assert!(observer != target && observer < 7 && target < 7);
        }
        assert_eq!(reported, [(7, 7), (7, 7)]);
    }

    #[test]
    fn one_target_and_what_is_out_of_range() {
        let ask = |rounds, targets| {
            all_pairs(
                &weights(),
                rounds,
                (ObserversView::Sum, ObserversNoise::Unknown),
                targets,
                &mut |_, _| {},
            )
        };
        let one = ask(3, Targets::One(6)).expect("answers");
        // Node 6 hangs on node 5: nodes 2 and 3 are further than three rounds away, or just as far.
        assert_eq!(one.pairs, 6);
        assert_eq!(one.largest_pair.map(|pair| pair.1), Some(6));
        assert!(matches!(
            ask(3, Targets::One(7)),
            Err(GossipError::Target { found: 7, nodes: 7 })
        ));
        assert!(matches!(ask(0, Targets::All), Err(GossipError::Rounds)));
    }
}
