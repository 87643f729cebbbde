//! Coalitions and departures that are fixed before the schedule is drawn: the chance that a draw
//! leaves those whom they are not in several pieces.
//!
//! **Theorem.** T independent, uniformly random permutations of n parties say who sends to whom;
//! who is mapped to itself sends nothing. Take any s parties away, chosen before the draw, and then
//! any q shares, whoever chooses them. With h = n − s the others are in several pieces with a
//! chance of at most
//!
//! p = Σ_{a=1}^{⌊h/2⌋} C(h, a) C(h − a, q) P(a, h − a − q, s + q)^T,
//!
//! P(a, b, s) = (s!/n!) Σ_{i,j} C(a, i) (a)_i C(b, j) (b)_j (s)_{a−i+b−j},
//!
//! (x)_k a falling factorial. *Proof.* In several pieces, some set A of a ≤ h/2 parties has no
//! share to or from the others but the q that were taken away; take one end of each of these away,
//! too, on the larger side. P is the chance that one permutation has no share between A and the b
//! others: i of A go to A and j of the others to the others, injectively, the rest of both to those
//! taken away, whose own images are free. Rounds are independent; the sum is over all A and all
//! ends. ∎
//!
//! Fewer than s against the others are covered, for each value by itself: with whomever else beside
//! its own party they are s, who see more. So are fewer shares that go astray.
//!
//! **Pairings.** Where a round pairs everybody, evenly, and one of each pair hands over to the
//! other, the same holds with
//!
//! P(a, b, s) = Σ_{i,j} C(a, i) C(b, j) (s)_{i+j} (a−i−1)!! (b−j−1)!! (s−i−j−1)!! / (a+b+s−1)!!
//!
//! over i and j for which a − i and b − j are even: i of A and j of the others are paired with as
//! many of those taken away, and the rest of each of the three among themselves; (2m − 1)!! is the
//! number of pairings of 2m. Of an odd number of parties one is alone: as if it were paired with
//! one more that is taken away, so that s + 1 stands for s.
//!
//! **Tries.** Whoever reveals its nonce last knows the draw, and may end that START instead, before
//! anything private has left: the next one is another draw to choose from. With c who collude and D
//! departures at most, a run begins with at least one of
//!
//! ⌊3(n − c)/(n − c − D)⌋
//!
//! draws, however often those who are against a value end a START. *Proof.* A run begins with a
//! START of at least n − D parties, so that n − c − D or more of them do not collude, and each of
//! these has signed it: it names the starts of all nodes in it and their commitments, and its draw
//! follows from the nonces committed to. A start of a node has one nonce for each number of START,
//! and signs one START of each number. So no nonce of who does not collude is in two draws that a
//! run may begin with, and each such draw, until it is known, has taken n − c − D of them. There
//! are 3(n − c) in all: no node reveals more than [`MOST_REVEALS`] for one plan, each counted on
//! disk before it leaves. ∎
//!
//! A draw that a run begins with is bad with a chance of at most p given all that was seen before
//! its last honest nonce, whoever is against it by then. So the chance that some draw which a run
//! may begin with is bad is at most p times the tries, whichever of them the run begins with. Fewer
//! who collude only lower that number.

use undertone_protocol::messages::commitment::MOST_REVEALS;
use undertone_protocol::plan::claim::DrawBasis;

use crate::class::setting::Setting;
use crate::mechanism::chosen::Mechanism;
use crate::parallel::in_parallel;

/// Terms so far below the largest, in nats, add nothing to a sum of as many as there are here: they
/// fall from there on, faster and faster.
const NEGLIGIBLE: f64 = 80.0;

/// A bound, with room to spare, on what rounding and neglected terms take from ln p. The sums have
/// fewer than 10⁸ terms, each of logarithms below 10⁵ that are right to 10⁻¹⁶.
const ROUNDING: f64 = 1e-8;

/// The share of δ that is left to the chance of a bad draw, among all that may be tried: noise
/// hardly grows for it, and each factor of a thousand costs two rounds.
pub const CHANCE_OF_DELTA: f64 = 1e-3;

/// How many draws a run may begin with, at most, those included that somebody ends; `colluding` and
/// `dropouts` together below `parties`.
pub fn tries(parties: usize, colluding: usize, dropouts: usize) -> u64 {
    let honest = parties.saturating_sub(colluding) as u64;
    let of_each_draw = honest.saturating_sub(dropouts as u64).max(1);
    MOST_REVEALS * honest / of_each_draw
}

/// The largest chance of one bad draw that is within its share of δ however often it is tried.
pub fn most_chance(delta: f64, tries: u64) -> f64 {
    (delta * CHANCE_OF_DELTA / tries as f64).next_down()
}

/// The δ that is left to the noise of a plan whose schedule START draws.
pub fn delta_of_noise(delta: f64) -> f64 {
    delta * (1.0 - CHANCE_OF_DELTA)
}

/// Returns how well the drawn schedules of a setting hide a value, if the chance that one of all
/// that may be tried hides nothing is within its share of δ; `None` where it is not, or where
/// nothing is drawn at START.
pub fn drawn(setting: &Setting, delta: f64) -> Option<DrawBasis> {
    let draw = StaticDraw {
        round: drawn_round(setting),
        parties: setting.parties(),
        removed: setting.coalition_size(),
        share_faults: setting.drawn_share_faults?,
    };
    let ln_chance = draw.ln_chance(setting.rounds() as u32);
    let tries = tries(draw.parties, setting.colluding, setting.dropouts);
    let basis = DrawBasis {
        // No chance is 0, and the smallest are below what a number holds.
        chance: libm::exp(ln_chance).max(f64::MIN_POSITIVE),
        tries,
        removed: draw.removed,
        share_faults: draw.share_faults,
        among: draw.parties - draw.removed,
    };
    (basis.chance <= most_chance(delta, tries)).then_some(basis)
}

/// Returns the kind of round that START draws for a setting.
fn drawn_round(setting: &Setting) -> DrawnRound {
    match setting.mechanism {
        Mechanism::Ppsc => DrawnRound::Pairing,
        Mechanism::Inca(_) | Mechanism::Pairwise | Mechanism::Custom(_) => DrawnRound::Permutation,
    }
}

/// The kind of draw in each round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawnRound {
    /// A permutation says who sends to whom.
    Permutation,
    /// A pairing says who hands over to whom, or takes over from whom.
    Pairing,
}

/// A draw, and who is taken away before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticDraw {
    /// The kind of draw in each of its rounds.
    pub round: DrawnRound,
    /// n, from 2.
    pub parties: usize,
    /// s: those who collude or depart, at most n − 2.
    pub removed: usize,
    /// q: shares between others that may go astray.
    pub share_faults: usize,
}

impl StaticDraw {
    /// An upper bound of ln p for each of these numbers of rounds; 0 where nothing better is known.
    pub fn ln_chances(&self, rounds: &[u32]) -> Vec<f64> {
        let honest = self.parties.saturating_sub(self.removed);
        let factorials = Factorials::up_to(self.parties + 1);
        let no_share = |a: usize, b: usize, s: usize| match self.round {
            DrawnRound::Permutation => factorials.no_share(a, b, s),
            DrawnRound::Pairing => factorials.no_pair(a, b, s + self.parties % 2),
        };
        // In one permutation: (how many sets and ends, the chance of each), as logarithms.
        let of_size = |index: usize| {
            let a = index + 1;
            let Some(b) = (honest - a).checked_sub(self.share_faults) else {
                // All that these share with the others may go astray.
                return Some((0.0, 0.0));
            };
            let ways = factorials.choose(honest, a) + factorials.choose(honest - a, self.share_faults);
            Some((ways, no_share(a, b, self.removed + self.share_faults)))
        };
        let terms = in_parallel(honest / 2, of_size);
        let chance = |&rounds: &u32| {
            let each = terms.iter().map(|(ways, one)| ways + f64::from(rounds) * one);
            (ln_sum(each) + ROUNDING).min(0.0)
        };
        rounds.iter().map(chance).collect()
    }

    /// An upper bound of ln p for so many rounds.
    pub fn ln_chance(&self, rounds: u32) -> f64 {
        self.ln_chances(&[rounds])[0]
    }

    /// The fewest rounds, up to `most`, for which p is at most each of these chances; none where no
    /// such number is enough.
    pub fn fewest_rounds(&self, chances: &[f64], most: u32) -> Vec<Option<u32>> {
        let all: Vec<u32> = (1..=most).collect();
        let found = self.ln_chances(&all);
        let fewest = |chance: &f64| {
            let enough = found.iter().position(|found| *found <= libm::log(*chance));
            enough.map(|index| all[index])
        };
        chances.iter().map(fewest).collect()
    }
}

/// ln k! by k.
struct Factorials(Vec<f64>);

impl Factorials {
    fn up_to(largest: usize) -> Self {
        let (mut sum, mut lost) = (0.0f64, 0.0f64);
        let mut table = vec![0.0];
        for k in 1..=largest {
            // Kahan's sum: what a step loses the next one adds.
            let step = libm::log(k as f64) - lost;
            let next = sum + step;
            (lost, sum) = ((next - sum) - step, next);
            table.push(sum);
        }
        Factorials(table)
    }

    fn choose(&self, of: usize, some: usize) -> f64 {
        match of.checked_sub(some) {
            None => f64::NEG_INFINITY,
            Some(rest) => self.0[of] - self.0[some] - self.0[rest],
        }
    }

    /// ln (2m − 1)!!, the number of pairings of 2m; none of an odd number.
    fn pairings(&self, count: usize) -> f64 {
        match count % 2 {
            0 => self.0[count] - (count / 2) as f64 * std::f64::consts::LN_2 - self.0[count / 2],
            _ => f64::NEG_INFINITY,
        }
    }

    /// ln P(a, b, s) of a pairing: u of A and v of the b others are paired with some of the s, of
    /// whom there are enough that a + b + s is even.
    fn no_pair(&self, a: usize, b: usize, s: usize) -> f64 {
        let leave = |of: usize, some: usize| self.choose(of, some) + self.pairings(of - some);
        let row = |u: usize| {
            let term = |v: usize| {
                let rest = s - u - v;
                leave(b, v) + self.0[s] - self.0[rest] + self.pairings(rest)
            };
            leave(a, u) + ln_sum((0..=b.min(s - u)).map(term))
        };
        ln_sum((0..=a.min(s)).map(row)) - self.pairings(a + b + s)
    }

    /// ln P(a, b, s): u of A and v of the b others go to the s.
    fn no_share(&self, a: usize, b: usize, s: usize) -> f64 {
        let stay = |of: usize, leave: usize| self.choose(of, leave) + self.0[of] - self.0[leave];
        let mut peak = 0;
        let row = |u: usize| {
            let term = |v: usize| stay(b, v) + self.0[s] - self.0[s - u - v];
            let inner = around_peak(&mut peak, b.min(s - u), term);
            stay(a, u) + inner
        };
        let all = ln_sum((0..=a.min(s)).map(row));
        self.0[s] - self.0[a + b + s] + all
    }
}

/// The logarithm of a sum of terms, of which the logarithms at 0…`last` first rise and then fall;
/// `peak` is where they are largest, near where it was.
fn around_peak(peak: &mut usize, last: usize, term: impl Fn(usize) -> f64) -> f64 {
    *peak = (*peak).min(last);
    while *peak < last && term(*peak + 1) > term(*peak) {
        *peak += 1;
    }
    while *peak > 0 && term(*peak - 1) > term(*peak) {
        *peak -= 1;
    }
    let top = term(*peak);
    let counts = |found: &f64| *found > top - NEGLIGIBLE;
    let above = (*peak..=last).map(&term).take_while(counts);
    let below = (0..*peak).rev().map(&term).take_while(counts);
    let all = above.chain(below).map(|found| libm::exp(found - top));
    top + libm::log(all.sum::<f64>())
}

fn ln_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let terms: Vec<f64> = terms.collect();
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + libm::log(terms.iter().map(|term| libm::exp(term - top)).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::calibration::Calibration;
    use undertone_protocol::topology::schedule::Schedule;

    use super::*;
    use crate::bounds::uniform::joined;

    fn draw(parties: usize, removed: usize, share_faults: usize) -> StaticDraw {
        StaticDraw {
            round: DrawnRound::Permutation,
            parties,
            removed,
            share_faults,
        }
    }

    /// Every permutation of so many.
    fn permutations(count: usize) -> Vec<Vec<usize>> {
        if count == 0 {
            return vec![vec![]];
        }
        let longer = |shorter: Vec<usize>| {
            (0..count).map(move |at| {
                let mut longer = shorter.clone();
                longer.insert(at, count - 1);
                longer
            })
        };
        permutations(count - 1).into_iter().flat_map(longer).collect()
    }

    #[test]
    fn the_chance_of_no_share_is_that_of_all_permutations() {
        let mut cases = 0;
        for parties in 2..=7 {
            let all = permutations(parties);
            for a in 1..parties {
                for b in 1..=parties - a {
                    let s = parties - a - b;
                    let apart = |to: &&Vec<usize>| {
                        let side = |party: usize| usize::from(party >= a) + usize::from(party >= a + b);
                        let split = |from: usize| side(from) + side(to[from]) == 1;
                        !(0..a + b).any(split)
                    };
                    let found = all.iter().filter(apart).count() as f64 / all.len() as f64;
                    let ln = Factorials::up_to(parties).no_share(a, b, s);
                    assert!(
                        (libm::exp(ln) - found).abs() < 1e-12,
                        "{a} {b} {s}: {} {found}",
                        libm::exp(ln)
                    );
                    cases += 1;
                }
            }
        }
        assert_eq!(cases, 56);
    }

    /// Every way to pair these, with nobody or one left over.
    fn pairings_of(left: &[usize]) -> Vec<Vec<(usize, usize)>> {
        let [first, rest @ ..] = left else {
            return vec![vec![]];
        };
        let without = |at: usize| {
            let others: Vec<usize> = rest.iter().copied().filter(|&other| other != rest[at]).collect();
            pairings_of(&others)
                .into_iter()
                .map(move |pairs| [vec![(*first, rest[at])], pairs].concat())
        };
        let mut all: Vec<_> = (0..rest.len()).flat_map(without).collect();
        if left.len() % 2 == 1 {
            all.extend(pairings_of(rest));
        }
        all
    }

    #[test]
    fn the_chance_of_no_pair_is_that_of_all_pairings() {
        let mut cases = 0;
        for parties in 2..=9 {
            let everybody: Vec<usize> = (0..parties).collect();
            let all = pairings_of(&everybody);
            for a in 1..parties {
                for b in 1..=parties - a {
                    let s = parties - a - b;
                    let side = |party: usize| usize::from(party >= a) + usize::from(party >= a + b);
                    let apart =
                        |pairs: &&Vec<(usize, usize)>| !pairs.iter().any(|&(x, y)| side(x) + side(y) == 1);
                    let found = all.iter().filter(apart).count() as f64 / all.len() as f64;
                    let ln = Factorials::up_to(parties + 1).no_pair(a, b, s + parties % 2);
                    assert!(
                        (libm::exp(ln) - found).abs() < 1e-12,
                        "{a} {b} {s}: {} {found}",
                        libm::exp(ln)
                    );
                    cases += 1;
                }
            }
        }
        assert_eq!(cases, 120);
    }

    /// Draws of which those who stay are in several pieces: no more than the bound says, and not
    /// many fewer where it is small.
    #[test]
    fn draws_fall_into_pieces_as_often_as_the_bound_says() {
        use DrawnRound::{Pairing, Permutation};
        for (round, parties, removed, rounds) in [
            (Permutation, 12, 2, 2),
            (Permutation, 50, 10, 3),
            (Permutation, 20, 4, 3),
            (Pairing, 12, 2, 5),
            (Pairing, 50, 10, 7),
            (Pairing, 21, 4, 6),
        ] {
            let count = 4000;
            let honest = parties - removed;
            let is_apart = |seed: &u64| {
                let schedule = match round {
                    Permutation => Schedule::independent(parties, rounds, *seed),
                    Pairing => Schedule::pairings(parties, rounds, *seed),
                };
                let sent = schedule.out().iter().flat_map(|round| {
                    let each = round.iter().enumerate();
                    each.flat_map(|(from, to)| to.iter().map(move |&to| (from.min(to), from.max(to))))
                });
                joined(honest, sent.filter(|&(_, to)| to < honest).collect())
                    .components()
                    .len()
                    > 1
            };
            let apart = (0..count).filter(is_apart).count();
            let drawn = StaticDraw {
                round,
                ..draw(parties, removed, 0)
            };
            let bound = libm::exp(drawn.ln_chance(rounds as u32));
            let (found, error) = (apart as f64 / count as f64, (bound / count as f64).sqrt());
            assert!(
                found < bound + 4.0 * error,
                "{round:?} {parties}: {found} {bound}"
            );
            assert!(
                found > 0.7 * bound - 4.0 * error,
                "{round:?} {parties}: {found} {bound}"
            );
        }
    }

    #[test]
    fn fewest_rounds_are_those_of_the_table() {
        for (parties, removed, share_faults, expected) in [
            (50, 10, 0, [9, 10, 12]),
            (200, 40, 0, [9, 10, 11]),
            (1000, 200, 0, [9, 10, 11]),
            (50, 2, 0, [7, 7, 9]),
        ] {
            let found = draw(parties, removed, share_faults).fewest_rounds(&[1e-9, 1e-10, 1e-12], 40);
            assert_eq!(found[0], Some(expected[0]), "{parties} {removed}: {found:?}");
            if removed > 2 {
                assert_eq!(found, expected.map(Some), "{parties} {removed}");
            }
        }
        for parties in [50, 200, 1000] {
            let found = draw(parties, parties / 5, 1).fewest_rounds(&[1e-9], 40);
            assert_eq!(found, [Some(11)], "one share that goes astray");
        }
    }

    #[test]
    fn nothing_is_claimed_where_the_sum_says_nothing() {
        assert_eq!(draw(4, 2, 0).ln_chance(1).min(0.0), draw(4, 2, 0).ln_chance(1));
        assert!(draw(3, 1, 0).ln_chance(40) > -60.0);
        assert_eq!(draw(8, 2, 0).fewest_rounds(&[1e-300], 10), [None]);
        // As many shares may go astray as somebody shares with all others.
        for share_faults in [6, 7, 8, 50] {
            assert_eq!(draw(8, 2, share_faults).ln_chance(63), 0.0, "{share_faults}");
        }
    }

    /// As many sets of `each` of those who are left as can be chosen, each of whom may be in so
    /// many more: every way is tried.
    fn most_sets(left: &mut [u64], each: usize) -> u64 {
        let chosen = |set: usize| (0..left.len()).filter(move |one| set >> one & 1 == 1);
        let mut most = 0;
        for set in 0..1usize << left.len() {
            let fits = set.count_ones() as usize == each && chosen(set).all(|one| left[one] > 0);
            if fits {
                let mut rest = left.to_vec();
                chosen(set).for_each(|one| rest[one] -= 1);
                // In any order: the same sets again are the same number.
                rest.sort_unstable();
                most = most.max(1 + most_sets(&mut rest, each));
            }
        }
        most
    }

    /// However those who are against it choose who is away, which nodes start again and which
    /// STARTs end: as many draws as honest nonces allow, and no more.
    #[test]
    fn tries_are_as_many_as_the_nonces_of_those_who_do_not_collude_allow() {
        for (honest, dropouts) in [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (4, 1), (4, 2)] {
            let found = most_sets(&mut vec![MOST_REVEALS; honest], honest - dropouts);
            for colluding in 0..3 {
                assert_eq!(
                    tries(honest + colluding, colluding, dropouts),
                    found,
                    "{honest} {dropouts}"
                );
            }
        }
        for (parties, colluding, dropouts, expected) in [
            (200, 20, 20, 3),
            (24, 2, 2, 3),
            (8, 1, 1, 3),
            (8, 0, 6, 12),
            (6, 1, 3, 7),
            (5, 2, 0, 3),
        ] {
            assert_eq!(tries(parties, colluding, dropouts), expected, "{parties}");
        }
    }

    /// All draws that may be tried share a thousandth of δ: where one round less leaves more than
    /// that, and less than δ, or where one draw alone would do, nothing is claimed.
    #[test]
    fn all_tries_together_are_within_a_thousandth_of_delta() {
        let lines = "[privacy]\ncoalitions = \"static\"\ncolluding = 2\ndropouts = 6\n\
                     [mechanism]\ncorrelated = \"uniform\"\n[run]\nsealed = true\n";
        let draft = crate::testing::draft(24, lines);
        let draw = draw(24, 8, 1);
        assert_eq!(tries(24, 2, 6), 4);
        let (mut claimed, mut refused_for_tries, mut refused_for_delta) = (0, 0, 0);
        for rounds in 4..30 {
            let schedule = Calibration::draw_schedule(&draft, rounds, 1).expect("a schedule");
            let setting = Setting::of_draft(&draft, &schedule).expect("a setting");
            // By the formula of above, which is counted out below.
            let chance = libm::exp(draw.ln_chance(rounds));
            for delta in [
                1e-3,
                1e-6,
                1e-9,
                3.9e3 * chance,
                4.1e3 * chance,
                1.1e3 * chance,
                500.0 * chance,
            ] {
                let found = drawn(&setting, delta);
                assert_eq!(
                    found.is_some(),
                    4.0 * chance <= delta / 1000.0,
                    "{rounds} {delta}"
                );
                match found {
                    Some(basis) => {
                        claimed += 1;
                        assert_eq!((basis.tries, basis.among, basis.removed), (4, 16, 8));
                        assert!(
                            (basis.chance / chance - 1.0).abs() < 1e-9
                                && basis.chance_of_all() >= 4.0 * chance
                        );
                    }
                    None if chance <= delta / 1000.0 => refused_for_tries += 1,
                    None if 4.0 * chance < delta => refused_for_delta += 1,
                    None => {}
                }
            }
        }
        assert!(claimed > 20 && refused_for_tries > 20 && refused_for_delta > 20);
    }
}
