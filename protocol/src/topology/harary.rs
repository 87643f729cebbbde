//! The sparsest graphs of a given connectivity (Harary 1962), for masks of pairs.

use crate::topology::public_draw::PublicDraw;
use crate::topology::schedule::Schedule;

impl Schedule {
    /// A graph of `parties` parties that stays in one piece whichever `degree` − 1 of them are
    /// taken away, with as few edges as such a graph can have: everybody has `degree` neighbours,
    /// or one party has one more where both numbers are odd. From 2 to `parties` − 1, which is the
    /// complete graph; other degrees count as the nearest of these.
    ///
    /// The parties stand on a circle, in an order that is drawn from `seed`. Round r joins each
    /// with the one r places on; an odd degree adds a last round in which half of them are joined
    /// with those opposite. So nobody sends to more than one in a round, and no pair meets twice.
    pub fn harary(parties: usize, degree: usize, seed: u64) -> Self {
        let degree = degree.clamp(2, parties.saturating_sub(1).max(2));
        let mut circle: Vec<usize> = (0..parties).collect();
        PublicDraw::new("undertone/masks/1", seed).shuffle(&mut circle);
        let round = |places: usize, of: usize| {
            let mut out = vec![Vec::new(); parties];
            for place in 0..of {
                out[circle[place]].push(circle[(place + places) % parties]);
            }
            out
        };
        let full = (1..=degree / 2).map(|places| match 2 * places == parties {
            // Who is opposite is as far either way.
            true => round(places, parties / 2),
            false => round(places, parties),
        });
        let opposite = (degree % 2 == 1).then(|| round(parties.div_ceil(2), parties.div_ceil(2)));
        Schedule::from_out(full.chain(opposite).collect())
    }

    /// Returns the number of rounds of [`Schedule::harary`] for a degree.
    pub fn harary_rounds(parties: usize, degree: usize) -> u32 {
        let degree = degree.clamp(2, parties.saturating_sub(1).max(2));
        degree.div_ceil(2) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::connectivity::connectivity;

    #[test]
    fn as_many_neighbours_as_connectivity_asks_for_and_no_more() {
        for parties in 3..=14 {
            for degree in 2..parties {
                for seed in 0..3 {
                    let schedule = Schedule::harary(parties, degree, seed);
                    assert_eq!(
                        schedule.rounds(),
                        Schedule::harary_rounds(parties, degree) as usize
                    );
                    assert!(schedule.has_shape(schedule.rounds(), parties, 0..=1));
                    let graph = schedule.meetings();
                    assert_eq!(connectivity(&graph).kappa, degree, "{parties} {degree}");
                    assert_eq!(graph.edges().len(), (parties * degree).div_ceil(2));
                    assert_eq!(schedule.shares(), graph.edges().len(), "no pair twice");
                }
            }
        }
    }

    #[test]
    fn out_of_range_is_the_nearest_that_there_is() {
        let same = |a: usize, b: usize| assert_eq!(Schedule::harary(6, a, 1), Schedule::harary(6, b, 1));
        same(0, 2);
        same(1, 2);
        same(40, 5);
        assert_ne!(Schedule::harary(9, 3, 1), Schedule::harary(9, 3, 2));
    }
}
