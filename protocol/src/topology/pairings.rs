//! Schedules of hand-overs for coalitions that are fixed before the draw: in each round a uniformly
//! random pairing of all parties, of which the chance is known in closed form that it joins none of
//! some parties to any of some others.

use crate::topology::public_draw::PublicDraw;
use crate::topology::schedule::Schedule;

impl Schedule {
    /// `rounds` independent, uniformly random pairings of `parties` parties: one of each pair,
    /// either as likely, hands over to the other. With an odd number one of them is alone in a
    /// round.
    pub fn pairings(parties: usize, rounds: usize, seed: u64) -> Self {
        let mut draw = PublicDraw::new("undertone/pairings/1", seed);
        let mut round = || {
            let mut order: Vec<usize> = (0..parties).collect();
            draw.shuffle(&mut order);
            let mut out = vec![Vec::new(); parties];
            for pair in order.chunks_exact(2) {
                out[pair[0]].push(pair[1]);
            }
            out
        };
        Schedule::from_out((0..rounds).map(|_| round()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The three pairings of four parties, with each direction: twelve, all alike, and no round
    /// follows from another. Of three parties somebody is alone, each as often.
    #[test]
    fn every_pairing_is_as_likely_in_every_round() {
        for (parties, pairings) in [(4, 12), (3, 6)] {
            let mut counts = std::collections::BTreeMap::new();
            for seed in 0..2400 {
                let schedule = Schedule::pairings(parties, 2, seed);
                for round in schedule.out() {
                    let ends = |party: usize| {
                        round[party].len() + round.iter().filter(|to| to.contains(&party)).count()
                    };
                    let alone = (0..parties).filter(|&party| ends(party) == 0).count();
                    assert!(alone == parties % 2 && (0..parties).all(|party| ends(party) <= 1));
                }
                *counts.entry(schedule.out().to_vec()).or_insert(0u32) += 1;
            }
            let expected = 2400.0 / f64::from(pairings * pairings);
            let found = counts.len() as u32;
            assert!(found > pairings * pairings * 95 / 100, "{parties}: {found}");
            let most = f64::from(*counts.values().max().expect("some"));
            assert!(
                most < expected + 6.0 * expected.sqrt(),
                "{parties}: {most} for {expected}"
            );
        }
    }
}
