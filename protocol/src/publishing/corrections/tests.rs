//! Random executions of the mixing machine, exactly, in numbers modulo a prime: what is sealed and
//! what is corrected add up to the values of the set.

use std::sync::Arc;

use proptest::prelude::*;
use rand::rngs::ChaCha8Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use super::*;
use crate::lattice::injection::Injection;
use crate::lattice::payload::{Payload, Ratio};
use crate::messages::log::{Answer, ReceivedEntry, SentEntry, Verdict};
use crate::messages::signature::Signature;
use crate::mixing::machine::Mixing;
use crate::mixing::portion::{NoiseSource, Portion, Share};
use crate::plan::exchange::injector::Mechanism;

/// 2^61 − 1, a prime: fractions are exact.
const PRIME: u128 = (1 << 61) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modular(u128);

impl Modular {
    fn of(number: i64) -> Self {
        Modular(i128::from(number).rem_euclid(PRIME as i128) as u128)
    }

    fn times(self, other: Modular) -> Self {
        Modular(self.0 * other.0 % PRIME)
    }

    fn plus(self, other: Modular) -> Self {
        Modular((self.0 + other.0) % PRIME)
    }

    /// By Fermat's little theorem.
    fn inverse(self) -> Self {
        let bits = (0..61).rev();
        bits.fold(Modular(1), |power, bit| {
            let square = power.times(power);
            if (PRIME - 2) >> bit & 1 == 1 {
                square.times(self)
            } else {
                square
            }
        })
    }
}

impl Payload for Modular {
    type Coefficient = Ratio;
    type Packed = Modular;

    fn zero_like(_: &Modular) -> Self {
        Modular(0)
    }

    fn pack(&self) -> Modular {
        *self
    }

    fn add(&mut self, other: &Self) {
        *self = self.plus(*other);
    }

    fn add_and_divide(&mut self, terms: &[(Ratio, &Modular)], ways: u32) {
        for (factor, other) in terms {
            let factor = Modular::of(factor.numerator()).times(Modular::of(factor.denominator()).inverse());
            *self = self.plus(factor.times(**other));
        }
        *self = self.times(Modular::of(ways.into()).inverse());
    }
}

struct Drawn(ChaCha8Rng);

impl NoiseSource<Modular> for Drawn {
    fn draw(&mut self, _: usize, _: u32) -> Modular {
        Modular(u128::from(self.0.random::<u64>()) % PRIME)
    }
}

type Machine = Mixing<Modular, Modular>;

/// The actions of the parties so far, and their logs.
struct Execution {
    values: Vec<Modular>,
    machines: Vec<Machine>,
    logs: AgreedLogs,
    shares: BTreeMap<ShareId, Share<Modular, Modular>>,
}

/// The receivers of each party, in a list for each round.
type Sends = Vec<Vec<Vec<Party>>>;

/// Up to `fanout` receivers a party and round.
fn schedule(parties: usize, rounds: u32, fanout: usize, rng: &mut ChaCha8Rng) -> Sends {
    let mut to = |from: Party| {
        let mut others: Vec<Party> = (0..parties).filter(|&party| party != from).collect();
        others.shuffle(rng);
        others.truncate(fanout);
        others.sort_unstable();
        others
    };
    (0..rounds).map(|_| (0..parties).map(&mut to).collect()).collect()
}

fn begin(sends: &Sends, parties: usize, hands_over: bool, rng: &mut ChaCha8Rng) -> Execution {
    let injection = Arc::new(Injection::exact_incremental(sends.len()));
    let mut noise = Drawn(ChaCha8Rng::from_rng(rng));
    let values: Vec<Modular> = (0..parties).map(|_| noise.draw(0, 0)).collect();
    let machine = |(party, value): (Party, &Modular)| {
        let hand_outs = sends.iter().filter(|round| !round[party].is_empty()).count();
        let mechanism = if hands_over {
            Mechanism::HandOver { hand_outs }
        } else {
            Mechanism::Injection(injection.clone())
        };
        Mixing::new(mechanism, *value, Modular(party as u128 + 1), false, &mut noise)
    };
    let machines = values.iter().enumerate().map(machine).collect();
    let log = |party| {
        let party_log = Log {
            party,
            ..Log::default()
        };
        (party, party_log)
    };
    Execution {
        machines,
        values,
        logs: (0..parties).map(log).collect(),
        shares: BTreeMap::new(),
    }
}

impl Execution {
    fn log(&mut self, party: Party) -> &mut Log {
        self.logs.get_mut(&party).expect("everybody has one")
    }

    fn sends(&mut self, id: ShareId, left: bool, answered: bool) {
        let ShareId { round, from, to } = id;
        let answer = answered.then_some(Answer {
            verdict: Verdict::Accepted { applied: round },
            signature: Signature([0; 64]),
        });
        self.log(from).sent.push(SentEntry {
            round,
            to,
            left,
            answer,
        });
    }

    /// A share joins its receiver, or its receiver never has it.
    fn arrives(&mut self, id: ShareId, applied: u32) {
        let ShareId { round, from, to } = id;
        self.machines[to].accept(from, &self.shares[&id]);
        self.log(to).received.push(ReceivedEntry { round, from, applied });
    }

    /// All rounds: shares stay here, are late, or never arrive, and answers are missing, as chance
    /// has it.
    fn run(&mut self, sends: &Sends, rng: &mut ChaCha8Rng) {
        let mut late: Vec<ShareId> = vec![];
        let rounds = sends.len() as u32;
        for (round, lists) in (1..=rounds).zip(sends) {
            let mut arriving: Vec<ShareId> = std::mem::take(&mut late);
            for (from, to) in lists.iter().enumerate().filter(|(_, to)| !to.is_empty()) {
                let portion = self.machines[from].split(to, |state| state.value);
                for &to in to {
                    let id = ShareId { round, from, to };
                    self.shares.insert(id, portion.clone());
                    let left = rng.random_bool(0.85);
                    self.sends(id, left, left && rng.random_bool(0.7));
                    if !left {
                        self.machines[from].take_back(to, &portion);
                    } else if rng.random_bool(0.8) {
                        arriving.push(id);
                    }
                }
            }
            arriving.shuffle(rng);
            for id in arriving {
                if round < rounds && rng.random_bool(0.2) {
                    late.push(id);
                } else {
                    self.arrives(id, round);
                }
            }
            for party in 0..self.machines.len() {
                if round < rounds {
                    self.machines[party].inject(&mut Drawn(ChaCha8Rng::from_rng(rng)), round);
                } else {
                    self.machines[party].cancel();
                }
            }
        }
        for log in self.logs.values_mut() {
            log.sent.sort_by_key(|entry| (entry.round, entry.to));
            log.received.sort_by_key(|entry| (entry.round, entry.from));
        }
    }

    /// Falsifies a party's log: a share never came, never left, or (of one that did not come) did
    /// come.
    fn lie(&mut self, liar: Party, rng: &mut ChaCha8Rng) {
        let log = self.log(liar);
        log.received.retain(|_| rng.random_bool(0.7));
        for entry in &mut log.sent {
            entry.left ^= rng.random_bool(0.2);
            entry.answer = entry.answer.take().filter(|_| entry.left);
        }
        let to_liar: Vec<ShareId> = self.shares.keys().copied().filter(|id| id.to == liar).collect();
        for ShareId { round, from, .. } in to_liar {
            if self.logs[&liar].applied(round, from).is_none() && rng.random_bool(0.2) {
                let applied = round;
                let received = &mut self.log(liar).received;
                received.push(ReceivedEntry { round, from, applied });
                received.sort_by_key(|entry| (entry.round, entry.from));
            }
        }
    }

    /// Returns the sum sealed by `set` with all these corrections, and the expected sum: value and
    /// weight.
    fn sums(&self, set: &BTreeSet<Party>, corrections: &[Corrections]) -> [(Modular, Modular); 2] {
        let (mut sealed, mut expected) = ((Modular(0), Modular(0)), (Modular(0), Modular(0)));
        let add = |sum: &mut (Modular, Modular), value: Modular, weight: Modular| {
            *sum = (sum.0.plus(value), sum.1.plus(weight));
        };
        for &party in set {
            let state = self.machines[party].state();
            add(&mut sealed, state.value, state.weight);
            add(&mut expected, self.values[party], Modular(party as u128 + 1));
            let terms = corrections.iter().filter_map(|each| each.get(&party)).flatten();
            for CorrectionTerm { share, sign } in terms {
                let minus = Modular(PRIME - 1);
                let factor = if *sign == Sign::Plus { Modular(1) } else { minus };
                let &Portion { value, weight } = self.shares[share].carried();
                add(&mut sealed, factor.times(value), factor.times(weight));
            }
        }
        [sealed, expected]
    }
}

/// Some of a set leave it: at least one stays.
fn fewer(set: &BTreeSet<Party>, most: usize, rng: &mut ChaCha8Rng) -> BTreeSet<Party> {
    let all: Vec<Party> = set.iter().copied().collect();
    let leaving = rng.random_range(0..=most.min(all.len() - 1));
    let leaving: Vec<Party> = all.sample(rng, leaving).copied().collect();
    all.into_iter().filter(|party| !leaving.contains(party)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_sealed_and_corrected_adds_up_to_the_sets_values(
        seed in any::<u64>(),
        parties in 2usize..=8,
        rounds in 1u32..=5,
        hands_over in any::<bool>(),
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let fanout = if hands_over { 1 } else { rng.random_range(1..=3) };
        let sends = schedule(parties, rounds, fanout, &mut rng);
        let mut execution = begin(&sends, parties, hands_over, &mut rng);
        execution.run(&sends, &mut rng);
        // Some have no log in time, then the gate leaves some out, then some depart, and again.
        let everybody: BTreeSet<Party> = (0..parties).collect();
        let with_logs = fewer(&everybody, 2, &mut rng);
        let mut sets = vec![fewer(&with_logs, 2, &mut rng)];
        for _ in 0..3 {
            let remaining = fewer(&sets[sets.len() - 1], 2, &mut rng);
            sets.push(remaining);
        }
        // Whoever departs at some time may have said anything; a set without liars adds up.
        let departing: Vec<Party> = everybody.difference(&sets[3]).copied().collect();
        let liars: BTreeSet<Party> = departing.into_iter().filter(|_| rng.random_bool(0.5)).collect();
        liars.iter().for_each(|&liar| execution.lie(liar, &mut rng));
        execution.logs.retain(|party, _| with_logs.contains(party));
        let mut given = vec![first_corrections(&execution.logs, &sets[0])];
        for (step, set) in sets.iter().enumerate() {
            if step > 0 {
                given.push(next_corrections(&execution.logs, &sets[step - 1], set));
            }
            if set.is_disjoint(&liars) {
                let [sealed, expected] = execution.sums(set, &given);
                prop_assert_eq!(sealed, expected, "after {} corrections", given.len());
            }
        }
    }
}

fn quiet(seed: u64) -> Execution {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let sends = schedule(5, 3, 2, &mut rng);
    let mut execution = begin(&sends, 5, false, &mut rng);
    for (round, lists) in (1..).zip(&sends) {
        for (from, to) in lists.iter().enumerate() {
            let portion = execution.machines[from].split(to, |state| state.value);
            for &to in to {
                let id = ShareId { round, from, to };
                execution.shares.insert(id, portion.clone());
                execution.sends(id, true, true);
            }
        }
        let arriving: Vec<ShareId> = execution
            .shares
            .keys()
            .copied()
            .filter(|id| id.round == round)
            .collect();
        arriving.into_iter().for_each(|id| execution.arrives(id, round));
    }
    execution
}

#[test]
fn without_faults_nobody_owes_anything() {
    let execution = quiet(3);
    let everybody = (0..5).collect();
    assert_eq!(first_corrections(&execution.logs, &everybody), Corrections::new());
    assert_eq!(
        next_corrections(&execution.logs, &everybody, &everybody),
        Corrections::new()
    );
}

#[test]
fn a_share_that_its_receiver_does_not_list_goes_back_once() {
    let mut execution = quiet(4);
    let id = *execution.shares.keys().next().expect("there are shares");
    let received = &mut execution.log(id.to).received;
    received.retain(|entry| (entry.round, entry.from) != (id.round, id.from));
    let everybody: BTreeSet<Party> = (0..5).collect();
    let back = CorrectionTerm {
        share: id,
        sign: Sign::Plus,
    };
    let first = first_corrections(&execution.logs, &everybody);
    assert_eq!(first, Corrections::from([(id.from, vec![back])]));
    // Its receiver departs: what was given back already is not given again.
    let remaining: BTreeSet<Party> = everybody.into_iter().filter(|&party| party != id.to).collect();
    let next = next_corrections(&execution.logs, &(0..5).collect(), &remaining);
    assert!(next.values().flatten().all(|term| term.share != id));
    assert!(next.values().flatten().any(|term| term.share.to == id.to));
}

#[test]
fn only_shares_that_cross_the_sets_border_or_went_back_are_revealed() {
    let execution = quiet(5);
    let publishers: BTreeSet<Party> = (0..4).collect();
    for (giver, terms) in first_corrections(&execution.logs, &publishers) {
        for CorrectionTerm { share, sign } in terms {
            let (own, other) = if sign == Sign::Plus {
                (share.from, share.to)
            } else {
                (share.to, share.from)
            };
            assert_eq!((own, other), (giver, 4));
        }
    }
}
