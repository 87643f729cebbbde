//! Schedules for coalitions that are fixed before the draw: independent, uniformly random
//! permutations, of which the chance is known in closed form that they leave the others in several
//! pieces.

use crate::topology::public_draw::PublicDraw;
use crate::topology::schedule::Schedule;

impl Schedule {
    /// `rounds` independent, uniformly random permutations of `parties` parties say who sends to
    /// whom, whoever met before; who is mapped to itself sends nothing.
    pub fn independent(parties: usize, rounds: usize, seed: u64) -> Self {
        let mut draw = PublicDraw::new("undertone/independent/1", seed);
        let mut round = || {
            let mut order: Vec<usize> = (0..parties).collect();
            draw.shuffle(&mut order);
            let to = order.into_iter().enumerate();
            to.map(|(from, to)| if from == to { vec![] } else { vec![to] })
                .collect()
        };
        Schedule::from_out((0..rounds).map(|_| round()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All permutations of four alike, fixed points among them, and no round follows from another.
    #[test]
    fn every_permutation_is_as_likely_in_every_round() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..2400 {
            let schedule = Schedule::independent(4, 2, seed);
            let rounds: Vec<Vec<usize>> = schedule
                .out()
                .iter()
                .map(|round| {
                    let to = |(from, to): (usize, &Vec<usize>)| to.first().copied().unwrap_or(from);
                    round.iter().enumerate().map(to).collect()
                })
                .collect();
            rounds.iter().for_each(|round| {
                let mut sorted = round.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, [0, 1, 2, 3]);
            });
            *counts.entry(rounds).or_insert(0u32) += 1;
        }
        // 576 pairs of permutations, 4.17 expected each; most are seen.
        assert!(
            counts.len() > 550 && counts.values().all(|&count| count < 20),
            "{}",
            counts.len()
        );
    }
}
