use std::collections::BTreeSet;
use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::lattice::grid::{Lattice, LatticeRequest, LatticeWeight, Travel, WEIGHT_UNIT};
use crate::lattice::injection::Injection;
use crate::lattice::payload::{Impulse, Ratio};
use crate::lattice::vector::LatticeVector;
use crate::mixing::noise::LatticeNoise;
use crate::topology::graph::Graph;
use crate::topology::multi_gossip::MultiGossip;
use crate::topology::schedule::Schedule;

type Machine = Mixing<LatticeVector, LatticeWeight>;

struct Cluster {
    lattice: Lattice,
    values: Vec<LatticeVector>,
    machines: Vec<Machine>,
    noise: Vec<LatticeNoise<ChaCha12Rng>>,
}

fn cluster(parties: usize, fanout: u32, injection: Injection<Ratio>, seed: u64) -> Cluster {
    let lattice = Lattice::fit(&LatticeRequest {
        parties,
        dimension: 5,
        travel: Travel::Split {
            fanout,
            injection: &injection,
            received_bound: parties - 1,
        },
        value_bound: 1.0,
        rows: 1,
        coarsest: f64::INFINITY,
        weight_bound: WEIGHT_UNIT,
        independent_std: 4.0,
        correlated_std: 3.0,
        shares_bound: injection.rounds() * parties,
        epsilon: 1.0,
        delta: 1e-6,
    })
    .unwrap();
    let injection = Arc::new(injection);
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let (mut values, mut machines, mut noises) = (vec![], vec![], vec![]);
    for party in 0..parties {
        let mut noise = LatticeNoise::new(
            ChaCha12Rng::seed_from_u64(seed ^ (party as u64 + 1)),
            lattice,
            5,
            3.0,
        );
        let mut value = lattice.encode((0..5).map(|_| rng.random_range(-1.0..1.0)));
        noise.add_independent(4.0, &mut value);
        let weight = LatticeWeight(lattice.weight(WEIGHT_UNIT));
        machines.push(Mixing::new(
            injection.clone(),
            value.pack(),
            weight,
            true,
            &mut noise,
        ));
        values.push(value);
        noises.push(noise);
    }
    Cluster {
        lattice,
        values,
        machines,
        noise: noises,
    }
}

fn sum<'a>(vectors: impl Iterator<Item = &'a LatticeVector>, zero: LatticeVector) -> LatticeVector {
    vectors.fold(zero, |mut total, v| {
        total.add(v);
        total
    })
}

/// Any k, T and injection; party 0 departs: it hands out half of its shares of its last round and
/// is never heard of again. The survivors' finals add up to the survivors' values, to the bit.
fn survivors_hold_their_exact_sum(fanout: u32, injection: Injection<Ratio>, dies_in: u32, seed: u64) {
    let (parties, rounds) = (6usize, injection.rounds() as u32);
    let mut c = cluster(parties, fanout, injection, seed);
    let mut rng = ChaCha12Rng::seed_from_u64(seed + 1000);
    for round in 1..=rounds {
        // Everybody hands out; some shares come back at once.
        let mut arriving = vec![];
        for from in (0..parties).filter(|&p| p != 0 || round <= dies_in) {
            let mut others: Vec<usize> = (0..parties).filter(|&p| p != from).collect();
            let to: Vec<usize> = (0..fanout)
                .map(|_| others.swap_remove(rng.random_range(0..others.len())))
                .collect();
            let portion = c.machines[from].split(&to, |state| state.value.pack());
            let bytes = share_bytes(&c.lattice, &portion.0.value.unpack(), round);
            let value = c.lattice.share(bytes.into(), 5, round).unwrap();
            assert!(
                value.unpack() == c.machines[from].state().value,
                "on its round's grid, within the bound"
            );
            for &to in &to {
                let kept = (to == 0 && round >= dies_in) || rng.random_bool(0.1);
                if kept {
                    c.machines[from].take_back(to, &portion)
                } else {
                    arriving.push((from, to, portion.clone()))
                }
            }
        }
        // Of the shares that party 0 sends last, half are lost.
        for (from, to, portion) in arriving {
            let lost = from == 0 && round == dies_in && to % 2 == 0;
            if !lost {
                c.machines[to].accept(from, &portion);
            }
        }
        for (machine, noise) in c.machines.iter_mut().zip(&mut c.noise) {
            if round < rounds {
                machine.inject(noise, round)
            } else {
                machine.cancel()
            }
        }
    }
    // The survivors roll party 0 back.
    let departed = BTreeSet::from([0]);
    let finals: Vec<_> = c
        .machines
        .drain(..)
        .skip(1)
        .map(|m| m.finish(&departed))
        .collect();
    let zero = c.lattice.zeros(5);
    assert!(
        sum(finals.iter().map(|f| &f.value), zero.clone()) == sum(c.values[1..].iter(), zero),
        "seed {seed}"
    );
    let weight: i128 = finals.iter().map(|f| f.weight.0).sum();
    assert_eq!(weight, 5 * c.lattice.weight(WEIGHT_UNIT), "seed {seed}");
}

/// The bytes of the values of a share of round `t`.
fn share_bytes(lattice: &Lattice, vector: &LatticeVector, t: u32) -> Vec<u8> {
    let mut bytes = vec![0; vector.len() * lattice.wire_bytes as usize];
    lattice
        .write_share(vector, t, &mut bytes)
        .expect("within the bound");
    bytes
}

#[test]
fn roll_back_leaves_the_survivors_exact_sum() {
    for seed in 0..20 {
        for fanout in [1, 2, 3] {
            for dies_in in 1..=4 {
                survivors_hold_their_exact_sum(fanout, Injection::exact_incremental(4), dies_in, seed);
                survivors_hold_their_exact_sum(fanout, Injection::exact_early(4), dies_in, seed);
            }
        }
    }
    let r = |n, d| Ratio::new(n, d).unwrap();
    let custom = Injection::exact_custom(
        vec![r(1, 2), r(1, 4), r(1, 4)],
        vec![
            vec![r(1, 1), r(1, 3)],
            vec![r(-1, 2), r(1, 1)],
            vec![r(-1, 2), r(-4, 3)],
        ],
    )
    .unwrap();
    survivors_hold_their_exact_sum(2, custom, 1, 5);
}

#[test]
fn all_correlated_noise_cancels_and_skipped_rounds_use_the_next_row() {
    let mut c = cluster(3, 1, Injection::exact_incremental(4), 3);
    // Party 0 is offline in rounds 2 and 3: it injects three of its five pieces and cancels what is
    // out.
    for (machine, noise) in c.machines.iter_mut().zip(&mut c.noise).take(1) {
        machine.inject(noise, 1);
        machine.cancel();
    }
    let mut expected = c.lattice.zeros(5);
    expected.add_multiples(&[(Ratio::new(3, 5).unwrap(), &c.values[0].pack())]);
    assert!(c.machines[0].state().value == expected);
}

#[test]
fn what_is_prepared_is_what_would_have_been_injected() {
    for injection in [Injection::exact_incremental(4), Injection::exact_early(4)] {
        let (mut plain, mut prepared) = (cluster(2, 1, injection.clone(), 7), cluster(2, 1, injection, 7));
        let machines = prepared.machines.iter_mut().zip(&mut prepared.noise);
        machines.for_each(|(machine, noise)| machine.prepare(noise));
        for round in 1..=4 {
            for (c, noise) in [
                (&mut plain.machines, &mut plain.noise),
                (&mut prepared.machines, &mut prepared.noise),
            ] {
                for (machine, noise) in c.iter_mut().zip(noise) {
                    if round < 4 {
                        machine.inject(noise, round)
                    } else {
                        machine.cancel()
                    }
                }
            }
            for (one, other) in plain.machines.iter().zip(&prepared.machines) {
                let (one, other) = (one.state(), other.state());
                assert!(
                    one.value == other.value && one.weight == other.weight,
                    "round {round}"
                );
            }
        }
        assert!(
            plain.machines[0].state().value == plain.values[0],
            "all of x̃, and no noise"
        );
    }
}

/// Three paths of four, three and three: the paper's Figure 4c (accountant/docs/papers.md).
fn three_paths() -> Graph {
    Graph::from_edges(10, &[(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9)]).unwrap()
}

/// Machines of PPSC on a lattice of its own, with the noises of each.
fn handing_over(gossip: &MultiGossip, seed: u64) -> Cluster {
    let (schedule, parties) = (gossip.schedule(), gossip.parties());
    let lattice = Lattice::fit(&LatticeRequest {
        parties,
        dimension: 5,
        travel: Travel::HandOver {
            exchanges: schedule.shares(),
            finest: None,
        },
        value_bound: 1.0,
        rows: 1,
        coarsest: f64::INFINITY,
        weight_bound: WEIGHT_UNIT,
        independent_std: 4.0,
        correlated_std: 30.0,
        shares_bound: (0..parties)
            .map(|party| schedule.hand_outs(party))
            .max()
            .unwrap()
            .max(schedule.largest_in_degree()),
        epsilon: 1.0,
        delta: 1e-6,
    })
    .unwrap();
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let (mut values, mut machines, mut noises) = (vec![], vec![], vec![]);
    for party in 0..parties {
        let mut noise = LatticeNoise::new(
            ChaCha12Rng::seed_from_u64(seed ^ (party as u64 + 1)),
            lattice,
            5,
            30.0,
        );
        let mut value = lattice.encode((0..5).map(|_| rng.random_range(-1.0..1.0)));
        noise.add_independent(4.0, &mut value);
        let weight = LatticeWeight(lattice.weight(WEIGHT_UNIT));
        let mechanism = Mechanism::HandOver {
            hand_outs: schedule.hand_outs(party),
        };
        machines.push(Mixing::new(mechanism, value.pack(), weight, true, &mut noise));
        values.push(value);
        noises.push(noise);
    }
    Cluster {
        lattice,
        values,
        machines,
        noise: noises,
    }
}

/// A share on its way.
struct Travelling {
    /// The round in which the noise joins a state.
    at: u32,
    /// Whether it goes back to its sender.
    back: bool,
    from: usize,
    into: usize,
    share: Share<LatticeVector, LatticeWeight>,
}

/// A party that departs in a round, in which it may still hand out.
struct Departing {
    party: usize,
    round: u32,
}

/// All shares that are handed out in a round; they are late, or come back, as chance has it.
fn hand_out(
    c: &mut Cluster,
    schedule: &Schedule,
    round: u32,
    departing: &Departing,
    rng: &mut ChaCha12Rng,
) -> Vec<Travelling> {
    let (victim, rounds) = (departing.party, schedule.rounds() as u32);
    let mut sent = vec![];
    for from in (0..c.machines.len()).filter(|&party| party != victim || round <= departing.round) {
        let to = schedule.sends_to(round, from);
        let Some(&into) = to.first() else { continue };
        let share = c.machines[from].split(to, |state| {
            let bytes = share_bytes(&c.lattice, &state.value, round);
            c.lattice.share(bytes.into(), 5, round).unwrap()
        });
        assert_eq!(
            c.machines[from].state().weight,
            LatticeWeight(0),
            "the whole weight has left"
        );
        let back = (into == victim && round >= departing.round) || rng.random_bool(0.1);
        let at = if rng.random_bool(0.2) {
            rng.random_range(round..=rounds)
        } else {
            round
        };
        let half_sent = from == victim && round == departing.round && rng.random_bool(0.5);
        if !half_sent {
            sent.push(Travelling {
                at,
                back,
                from,
                into,
                share,
            });
        }
    }
    sent
}

/// Returns the sum of the finals of all but one party, which has departed.
fn survivors_sums(c: Cluster, departed: usize) -> (LatticeVector, i128) {
    let machines = c.machines.into_iter().enumerate();
    let survivors = machines.filter(|(party, _)| *party != departed);
    let finals: Vec<_> = survivors
        .map(|(_, machine)| machine.finish(&BTreeSet::from([departed])))
        .collect();
    let values = sum(finals.iter().map(|f| &f.value), c.lattice.zeros(5));
    (c.lattice.sum(values), finals.iter().map(|f| f.weight.0).sum())
}

/// A departs in some round; shares are late, come back at once or at the end, as chance has it. In
/// every order of these events the survivors' finals add up to their values.
#[test]
fn roll_back_of_hand_overs_leaves_the_survivors_exact_sum() {
    let graphs = [Graph::ring(6), Graph::complete(7), three_paths()];
    for (seed, graph) in graphs.into_iter().cycle().take(60).enumerate() {
        let gossip = MultiGossip::draw(&graph, 40, seed as u64).unwrap();
        let schedule = gossip.schedule();
        let mut rng = ChaCha12Rng::seed_from_u64(seed as u64 + 1000);
        let (rounds, parties) = (gossip.rounds(), gossip.parties());
        let mut c = handing_over(&gossip, seed as u64);
        let departing = Departing {
            party: rng.random_range(0..parties),
            round: rng.random_range(1..=rounds),
        };
        let mut later: Vec<Travelling> = vec![];
        for round in 1..=rounds {
            later.extend(hand_out(&mut c, &schedule, round, &departing, &mut rng));
            for Travelling {
                back,
                from,
                into,
                share,
                ..
            } in later.extract_if(.., |travelling| travelling.at == round)
            {
                if back {
                    c.machines[from].take_back(into, &share)
                } else {
                    c.machines[into].accept(from, &share)
                }
            }
            let machines = c.machines.iter_mut().zip(&mut c.noise);
            machines.for_each(|(machine, noise)| machine.inject(noise, round));
        }
        let (lattice, own) = (c.lattice, c.values.clone());
        let survivors = own
            .iter()
            .enumerate()
            .filter(|(party, _)| *party != departing.party)
            .map(|(_, value)| value);
        let (values, weight) = survivors_sums(c, departing.party);
        assert!(values == sum(survivors, lattice.zeros(5)), "seed {seed}");
        assert_eq!(
            weight,
            (parties as i128 - 1) * lattice.weight(WEIGHT_UNIT),
            "seed {seed}"
        );
    }
}

/// Unknown noises are unit vectors, numbered by (party, hand-out).
struct Names {
    first: usize,
    unknowns: usize,
}

impl NoiseSource<Impulse> for Names {
    fn draw(&mut self, k: usize, _: u32) -> Impulse {
        Impulse::unit(self.unknowns, self.first + k)
    }
}

/// For each party of a gossip its hand-outs, and where its noises begin among all unknowns.
struct Unknowns {
    hand_outs: Vec<usize>,
    names: Vec<Names>,
}

impl Unknowns {
    fn of(gossip: &MultiGossip) -> Self {
        let (schedule, parties) = (gossip.schedule(), gossip.parties());
        let hand_outs: Vec<usize> = (0..parties).map(|party| schedule.hand_outs(party)).collect();
        let names = |party: usize| Names {
            first: parties + hand_outs[..party].iter().sum::<usize>(),
            unknowns: parties + schedule.shares(),
        };
        Unknowns {
            names: (0..parties).map(names).collect(),
            hand_outs,
        }
    }
}

/// C and D of Algorithm 1, which takes one iteration after the other.
fn algorithm_1(gossip: &MultiGossip) -> Vec<Vec<f64>> {
    let mut names = Unknowns::of(gossip).names;
    let unknowns = names[0].unknowns;
    let mut states: Vec<Vec<f64>> = (0..gossip.parties())
        .map(|party| Impulse::unit(unknowns, party).0)
        .collect();
    for edge in gossip.edges().iter().flatten() {
        let fresh = Impulse::unit(unknowns, names[edge.out].first).0;
        names[edge.out].first += 1;
        let beta = std::mem::replace(&mut states[edge.out], fresh.clone());
        states[edge.into]
            .iter_mut()
            .zip(beta.iter().zip(&fresh))
            .for_each(|(y, (beta, gamma))| *y += beta - gamma);
    }
    states
}

/// Returns the states of the machines after all network rounds, with noises drawn `precomputed` or
/// as they come.
fn in_network_rounds(gossip: &MultiGossip, precomputed: bool) -> Vec<Vec<f64>> {
    let schedule = gossip.schedule();
    let Unknowns {
        hand_outs,
        names: mut noises,
    } = Unknowns::of(gossip);
    let machine = |(party, noise): (usize, &mut Names)| {
        let mechanism = Mechanism::HandOver {
            hand_outs: hand_outs[party],
        };
        let own = Impulse::unit(noise.unknowns, party);
        Mixing::<Impulse, f64>::new(mechanism, own, 1.0, false, noise)
    };
    let mut machines: Vec<_> = noises.iter_mut().enumerate().map(machine).collect();
    if precomputed {
        let machines = machines.iter_mut().zip(&mut noises);
        machines.for_each(|(machine, noise)| machine.prepare(noise));
    }
    for round in 1..=gossip.rounds() {
        for from in 0..gossip.parties() {
            if let to @ [into] = schedule.sends_to(round, from) {
                let share = machines[from].split(to, |state| state.value.pack());
                machines[*into].accept(from, &share);
            }
        }
        let machines = machines.iter_mut().zip(&mut noises);
        machines.for_each(|(machine, noise)| machine.inject(noise, round));
    }
    machines.iter().map(|machine| machine.state().value.0).collect()
}

/// The machines, in network rounds, give the C and D of Algorithm 1; with noises drawn precomputed
/// too.
#[test]
fn hand_overs_in_network_rounds_are_algorithm_1() {
    let graphs = [three_paths(), Graph::complete(5)];
    for (seed, graph) in graphs.into_iter().cycle().take(20).enumerate() {
        let gossip = MultiGossip::draw(&graph, 15, seed as u64).unwrap();
        let (states, parties) = (algorithm_1(&gossip), gossip.parties());
        for precomputed in [false, true] {
            assert_eq!(in_network_rounds(&gossip, precomputed), states, "seed {seed}");
        }
        let total: Vec<f64> = (0..states[0].len())
            .map(|column| states.iter().map(|row| row[column]).sum())
            .collect();
        assert!(
            total[..parties].iter().all(|&sum| sum == 1.0) && total[parties..].iter().all(|&sum| sum == 0.0)
        );
    }
}
