//! Ways from one party to another along exchanges, of which a coalition can take few away: none has
//! a party in common with another.

use std::sync::atomic::{AtomicU64, Ordering};

use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;
use crate::execution::share::Fate;

/// Ways beyond those that can be taken away, at most: the change is split over them, over as many
/// as the largest of [`super::SPLITS`].
const MOST_BEYOND: usize = 16;

/// Ways beyond those that can be taken away that are looked for with care; up to [`MOST_BEYOND`]
/// are taken where they are easily found.
const LEAST_BEYOND: usize = 2;

/// The exchanges whose ω joined its in-agent, of the parties that may be honest.
pub(super) struct Exchanges {
    parties: usize,
    /// With whom each party exchanges, and when, in the order in which they first meet.
    partners: Vec<Vec<Partner>>,
    /// How often two parties exchange: n × n, at most 255.
    times: Vec<u8>,
    work: Work,
}

/// Steps of searches that were made and those that may be: with enough parties on a sparse graph
/// they would take hours.
///
/// Whether all that was asked for was too much does not depend on who asked first, so that all
/// members decide alike.
pub(super) struct Work {
    done: AtomicU64,
    most: u64,
}

impl Work {
    pub(super) fn at_most(most: u64) -> Self {
        Work {
            done: AtomicU64::new(0),
            most,
        }
    }

    /// Adds steps that are due.
    pub(super) fn add(&self, steps: usize) {
        self.done.fetch_add(steps as u64, Ordering::Relaxed);
    }

    pub(super) fn is_too_much(&self) -> bool {
        self.done.load(Ordering::Relaxed) > self.most
    }
}

/// Somebody with whom a party exchanges.
struct Partner {
    party: Party,
    /// For each exchange, ascending, the first round whose hand-out keeps nothing of what went into
    /// it: its own for the out-agent, the one after it has arrived for the in-agent.
    left_by: Vec<u32>,
}

/// A way from v to u.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// What goes this way has left v before it hands out in this round.
    pub(super) left_by: u32,
    /// Who is between v and u.
    pub(super) through: Vec<Party>,
}

/// Ways from v to u, in the order of [`Way::left_by`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Family {
    ways: Vec<Way>,
    /// Exchanges that may fail: each takes a way away.
    failing: usize,
}

impl Exchanges {
    /// Those of `execution` between two parties that `counts` says may be honest.
    pub(super) fn of(execution: &Execution, counts: impl Fn(Party) -> bool, work: Work) -> Self {
        let parties = execution.parties();
        let mut met: Vec<Vec<(Party, u32)>> = vec![Vec::new(); parties];
        for round in 1..=execution.rounds() as u32 {
            for from in (0..parties).filter(|&from| counts(from) && execution.online(round, from)) {
                for &to in execution.out(round, from).iter().filter(|&&to| counts(to)) {
                    let outcome = execution.outcome(round, from, to);
                    if outcome.fate == Fate::Accepted {
                        met[from].push((to, round));
                        met[to].push((from, outcome.applied + 1));
                    }
                }
            }
        }
        let mut times = vec![0u8; parties * parties];
        for (party, met) in met.iter().enumerate() {
            met.iter().for_each(|&(other, _)| {
                times[party * parties + other] = times[party * parties + other].saturating_add(1)
            });
        }
        Exchanges {
            parties,
            partners: met.into_iter().map(partners).collect(),
            times,
            work,
        }
    }

    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    /// With how many others a party exchanges: as many can leave it alone.
    pub(super) fn partners_of(&self, party: Party) -> usize {
        self.partners[party].len()
    }

    /// Whether two parties exchange at least so often.
    fn join(&self, a: Party, b: Party, least: u8) -> bool {
        self.times[a * self.parties + b] >= least
    }

    fn partners(&self, party: Party, least: u8) -> impl Iterator<Item = Party> {
        self.partners[party]
            .iter()
            .map(|partner| partner.party)
            .filter(move |&other| self.join(party, other, least))
    }

    fn left_by(&self, party: Party, other: Party) -> &[u32] {
        self.partners[party]
            .iter()
            .find(|partner| partner.party == other)
            .map_or(&[], |partner| &partner.left_by)
    }

    /// Ways from `v` to `u` of which some remain without any `size` other parties and without any
    /// `failing` ≤ 1 exchanges; none if none would.
    pub(super) fn family(&self, v: Party, u: Party, size: usize, failing: usize) -> Option<Family> {
        if self.work.is_too_much() {
            return None;
        }
        // Each exchange between the two is a way of its own, which nobody else can take away.
        let direct = self.left_by(v, u).iter().map(|&left_by| Way {
            left_by,
            through: vec![],
        });
        let family = Family::of(
            direct.chain(self.detours(v, u, size + failing, 1)).collect(),
            failing,
        );
        if failing == 0 || family.remaining(size) > 0 {
            return Some(family).filter(|family| family.remaining(size) > 0);
        }
        // Where any two that meet at all meet twice, no exchange matters.
        let direct = self.left_by(v, u).get(1).map(|&left_by| Way {
            left_by,
            through: vec![],
        });
        let family = Family::of(direct.into_iter().chain(self.detours(v, u, size, 2)).collect(), 0);
        Some(family).filter(|family| family.remaining(size) > 0)
    }

    /// Ways through others, no two through the same one, between parties that exchange at least
    /// `least` times: counted from the last of these.
    fn detours(&self, v: Party, u: Party, taken: usize, least: u8) -> impl Iterator<Item = Way> {
        let mut detours = Detours::new(self, v, u, least);
        detours.short(taken + MOST_BEYOND);
        while detours.first.len() < taken + LEAST_BEYOND && detours.another() {}
        detours.ways().into_iter().map(move |through| {
            let left_by = self.left_by(v, through[0])[usize::from(least) - 1];
            Way { left_by, through }
        })
    }
}

/// By partner, in the order of the first exchange.
fn partners(mut met: Vec<(Party, u32)>) -> Vec<Partner> {
    met.sort_unstable();
    let of_one = |same: &[(Party, u32)]| Partner {
        party: same[0].0,
        left_by: same.iter().map(|&(_, left_by)| left_by).collect(),
    };
    let mut partners: Vec<Partner> = met.chunk_by(|a, b| a.0 == b.0).map(of_one).collect();
    partners.sort_by_key(|partner| (partner.left_by[0], partner.party));
    partners
}

impl Family {
    fn of(mut ways: Vec<Way>, failing: usize) -> Self {
        ways.sort_by(|a, b| (a.left_by, &a.through).cmp(&(b.left_by, &b.through)));
        Family { ways, failing }
    }

    pub(super) fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// How many ways remain at least without any `size` parties, and whatever may fail.
    pub(super) fn remaining(&self, size: usize) -> usize {
        let through_others = self.ways.iter().filter(|way| !way.through.is_empty()).count();
        self.ways
            .len()
            .saturating_sub(size.min(through_others) + self.failing)
    }

    /// The first ways only: as few as leave `enough`, or all.
    pub(super) fn leaving(&self, enough: usize, size: usize) -> Family {
        let first = |count: usize| Family {
            ways: self.ways[..count].to_vec(),
            failing: self.failing,
        };
        (1..self.ways.len())
            .map(first)
            .find(|family| family.remaining(size) >= enough)
            .unwrap_or_else(|| self.clone())
    }
}

/// Disjoint ways as a flow in which every party but the ends has room for one.
struct Detours<'a> {
    exchanges: &'a Exchanges,
    v: Party,
    u: Party,
    least: u8,
    /// Whom each way meets first.
    first: Vec<Party>,
    /// Whom each party on a way comes from, and goes to.
    before: Vec<Option<Party>>,
    after: Vec<Option<Party>>,
}

/// A step of a search: into a party, or out of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Into(Party),
    OutOf(Party),
}

impl Step {
    fn index(self) -> usize {
        match self {
            Step::Into(party) => 2 * party,
            Step::OutOf(party) => 2 * party + 1,
        }
    }
}

impl<'a> Detours<'a> {
    fn new(exchanges: &'a Exchanges, v: Party, u: Party, least: u8) -> Self {
        let nobody = vec![None; exchanges.parties];
        Detours {
            exchanges,
            v,
            u,
            least,
            first: vec![],
            before: nobody.clone(),
            after: nobody,
        }
    }

    fn free(&self, party: Party) -> bool {
        party != self.v && party != self.u && self.before[party].is_none()
    }

    fn add(&mut self, way: &[Party]) {
        self.first.push(way[0]);
        self.before[way[0]] = Some(self.v);
        for pair in way.windows(2) {
            (self.after[pair[0]], self.before[pair[1]]) = (Some(pair[1]), Some(pair[0]));
        }
        self.after[way[way.len() - 1]] = Some(self.u);
    }

    /// Ways through one other and through two, up to `most`; those that leave v early first.
    fn short(&mut self, most: usize) {
        let Detours {
            exchanges,
            v,
            u,
            least,
            ..
        } = *self;
        let first: Vec<Party> = exchanges.partners(v, least).collect();
        for &w in &first {
            if self.first.len() < most && self.free(w) && exchanges.join(w, u, least) {
                self.add(&[w]);
            }
        }
        for &w in &first {
            if self.first.len() < most && self.free(w) {
                exchanges.work.add(exchanges.partners[w].len());
                let second = exchanges
                    .partners(w, least)
                    .find(|&x| self.free(x) && x != w && exchanges.join(x, u, least));
                if let Some(x) = second {
                    self.add(&[w, x]);
                }
            }
        }
    }

    /// One way more, which may lead others elsewhere (an augmenting path); false if there are no
    /// more.
    fn another(&mut self) -> bool {
        let Some(steps) = self.search() else { return false };
        // What is taken out first, then what is put in: a party may be left and entered again.
        let mut put = Vec::new();
        let mut from = None;
        for step in steps {
            match (from, step) {
                (None, Step::Into(w)) => put.push((self.v, w)),
                (Some(Step::OutOf(a)), Step::Into(b)) if a != b => put.push((a, b)),
                (Some(Step::Into(b)), Step::OutOf(a)) if a != b => {
                    (self.after[a], self.before[b]) = (None, None)
                }
                _ => {}
            }
            from = Some(step);
        }
        let Some(Step::OutOf(last)) = from else {
            return false;
        };
        for (a, b) in put {
            self.before[b] = Some(a);
            if a == self.v {
                self.first.push(b);
            } else {
                self.after[a] = Some(b);
            }
        }
        self.after[last] = Some(self.u);
        true
    }

    /// The steps of a shortest such way from v to u, breadth first.
    fn search(&self) -> Option<Vec<Step>> {
        let Detours {
            exchanges,
            v,
            u,
            least,
            ..
        } = *self;
        // Where each step was reached from; its own if from v.
        let mut reached: Vec<Option<Step>> = vec![None; 2 * exchanges.parties];
        let mut queue = Vec::new();
        for w in exchanges
            .partners(v, least)
            .filter(|&w| w != u && self.before[w] != Some(v))
        {
            reached[Step::Into(w).index()] = Some(Step::Into(w));
            queue.push(Step::Into(w));
        }
        let mut place = 0;
        while let Some(&step) = queue.get(place) {
            place += 1;
            let mut reach = |next: Step| {
                if reached[next.index()].is_none() {
                    reached[next.index()] = Some(step);
                    queue.push(next);
                }
            };
            match step {
                Step::Into(x) => match self.before[x] {
                    None => reach(Step::OutOf(x)),
                    // Somebody's way already: all there is to do is to lead that one elsewhere.
                    Some(from) if from != v => reach(Step::OutOf(from)),
                    Some(_) => {}
                },
                Step::OutOf(x) => {
                    exchanges.work.add(exchanges.partners[x].len());
                    if self.before[x].is_some() {
                        reach(Step::Into(x));
                    }
                    for y in exchanges
                        .partners(x, least)
                        .filter(|&y| y != v && self.after[x] != Some(y))
                    {
                        if y == u {
                            return Some(traced(&reached, step));
                        }
                        reach(Step::Into(y));
                    }
                }
            }
        }
        None
    }

    /// Who is on each way, from v to u.
    fn ways(&self) -> Vec<Vec<Party>> {
        let way = |&first: &Party| {
            std::iter::successors(Some(first), |&party| {
                self.after[party].filter(|&next| next != self.u)
            })
            .collect()
        };
        self.first.iter().map(way).collect()
    }
}

/// The steps up to `last`.
fn traced(reached: &[Option<Step>], last: Step) -> Vec<Step> {
    let from = |&step: &Step| reached[step.index()].filter(|&from| from != step);
    let mut steps: Vec<Step> = std::iter::successors(Some(last), from).collect();
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::class::coalitions;
    use crate::execution::exchanges::connected;
    use crate::mechanism::chosen::Mechanism;

    /// Each pair once, in a round of its own.
    fn once(parties: usize, pairs: &[(Party, Party)]) -> Exchanges {
        let round = |&(a, b): &(Party, Party)| {
            (0..parties)
                .map(|from| if from == a { vec![b] } else { vec![] })
                .collect()
        };
        let execution =
            Execution::fault_free(Mechanism::Ppsc, pairs.iter().map(round).collect()).expect("a schedule");
        Exchanges::of(&execution, |_| true, Work::at_most(u64::MAX))
    }

    #[test]
    fn a_search_that_would_take_too_long_finds_nothing() {
        let pairs: Vec<(Party, Party)> = (0..12)
            .map(|a| (a, (a + 1) % 12))
            .chain((0..12).map(|a| (a, (a + 2) % 12)))
            .collect();
        let within = |most: u64| {
            let exchanges = Exchanges {
                work: Work::at_most(most),
                ..once(12, &pairs)
            };
            let found = (1..12)
                .filter(|&u| exchanges.family(0, u, 1, 0).is_some())
                .count();
            (found, exchanges.work().is_too_much())
        };
        assert_eq!(within(u64::MAX), (11, false));
        let (found, too_much) = within(20);
        assert!(found < 11 && too_much, "{found}");
    }

    #[test]
    fn there_are_as_many_ways_as_parties_that_it_takes_to_part_two() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mut several = 0;
        for case in 0..150 {
            let parties = random.random_range(4..=8);
            let mut pairs: Vec<(Party, Party)> =
                (0..parties).flat_map(|a| (0..a).map(move |b| (b, a))).collect();
            pairs.retain(|_| random.random_bool(0.45));
            let exchanges = once(parties, &pairs);
            let joined = |a: Party, b: Party| pairs.contains(&(a.min(b), a.max(b)));
            for v in 0..parties {
                for u in (0..parties).filter(|&u| u != v && !joined(u, v)) {
                    // Menger: as many disjoint ways as parties that part the two.
                    let parts = |coalition: &Vec<Party>| {
                        let rest = pairs
                            .iter()
                            .copied()
                            .filter(|(a, b)| !coalition.contains(a) && !coalition.contains(b));
                        !connected(parties, rest)
                            .iter()
                            .any(|part| part.contains(&u) && part.contains(&v))
                    };
                    let others: Vec<Party> = (0..parties).filter(|&w| w != u && w != v).collect();
                    let chosen =
                        |coalition: Vec<usize>| coalition.into_iter().map(|index| others[index]).collect();
                    let least = (0..=others.len())
                        .find(|&size| {
                            coalitions::all(others.len(), size)
                                .into_iter()
                                .map(chosen)
                                .any(|c| parts(&c))
                        })
                        .expect("without all others they are parted");
                    let ways: Vec<Vec<Party>> = exchanges
                        .detours(v, u, least + 1, 1)
                        .map(|way| way.through)
                        .collect();
                    assert_eq!(ways.len(), least, "case {case}, {v} to {u}: {pairs:?} {ways:?}");
                    let mut all: Vec<Party> = ways.concat();
                    all.sort_unstable();
                    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{ways:?}");
                    for way in &ways {
                        let whole: Vec<Party> = [&[v], &way[..], &[u]].concat();
                        assert!(whole.windows(2).all(|pair| joined(pair[0], pair[1])), "{whole:?}");
                    }
                    several += usize::from(least > 2);
                }
            }
        }
        assert!(several > 50, "{several}");
    }

    #[test]
    fn a_pair_that_meets_twice_does_without_one_exchange() {
        let twice = [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1)];
        let exchanges = once(3, &twice);
        // Without party 2, which may collude, and without one exchange.
        let family = exchanges.family(0, 1, 1, 1).expect("they meet twice");
        assert_eq!(family.remaining(1), 1);
        assert_eq!(
            exchanges.family(0, 2, 1, 1),
            None,
            "they meet once, and all else leads through party 1"
        );
        assert_eq!(
            exchanges.family(0, 2, 1, 0).map(|family| family.remaining(1)),
            Some(1)
        );
        // A ring of pairs that meet twice: one way is left, whichever exchange fails, but no two
        // exchanges are disjoint ways.
        let ring: Vec<(Party, Party)> = (0..2).flat_map(|_| (0..5).map(|a| (a, (a + 1) % 5))).collect();
        let exchanges = once(5, &ring);
        let family = exchanges.family(0, 2, 1, 1).expect("round the other side");
        assert_eq!((family.remaining(1), family.failing), (1, 0));
        // With the second exchange: 0 hands out to 1 in round 6, and 4 to 0 in round 10.
        assert_eq!(
            family.ways().iter().map(|way| way.left_by).collect::<Vec<_>>(),
            [6, 11]
        );
    }
}
