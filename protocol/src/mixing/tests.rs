use std::collections::BTreeSet;
use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::injection::Injection;
use crate::lattice::{Lattice, LatticeRequest, LatticeVector, LatticeWeight, WEIGHT_UNIT};
use crate::noise::LatticeNoise;
use crate::payload::Ratio;

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
        fanout,
        injection: &injection,
        value_bound: 1.0,
        rows: 1,
        weight_bound: WEIGHT_UNIT,
        independent_std: 4.0,
        correlated_std: 3.0,
        shares_bound: injection.rounds() * parties,
        received_bound: parties - 1,
        epsilon: 1.0,
        delta: 1e-6,
    })
    .unwrap();
    let injection = Arc::new(injection);
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let (mut values, mut machines, mut noises) = (vec![], vec![], vec![]);
    for party in 0..parties {
        let mut noise = LatticeNoise::new(ChaCha12Rng::seed_from_u64(seed ^ (party as u64 + 1)), lattice, 5, 3.0);
        let mut value = lattice.encode((0..5).map(|_| rng.random_range(-1.0..1.0)));
        noise.add_independent(4.0, &mut value);
        let weight = LatticeWeight(lattice.weight(WEIGHT_UNIT));
        machines.push(Mixing::new(injection.clone(), value.pack(), weight, true, &mut noise));
        values.push(value);
        noises.push(noise);
    }
    Cluster { lattice, values, machines, noise: noises }
}

fn sum<'a>(vectors: impl Iterator<Item = &'a LatticeVector>, zero: LatticeVector) -> LatticeVector {
    vectors.fold(zero, |mut total, v| {
        total.add(v);
        total
    })
}

/// Any k, T and injection; party 0 departs: it hands out half of its shares of its last round and is never heard of again.
/// The survivors' finals add up to the survivors' values, to the bit.
fn survivors_hold_their_exact_sum(fanout: u32, injection: Injection<Ratio>, dies_in: u32, seed: u64) {
    let (parties, rounds) = (6usize, injection.rounds() as u32);
    let mut c = cluster(parties, fanout, injection, seed);
    let mut rng = ChaCha12Rng::seed_from_u64(seed + 1000);
    for round in 1..=rounds {
        let mut arriving = vec![];
        for from in (0..parties).filter(|&p| p != 0 || round <= dies_in) {
            let mut others: Vec<usize> = (0..parties).filter(|&p| p != from).collect();
            let to: Vec<usize> = (0..fanout).map(|_| others.swap_remove(rng.random_range(0..others.len()))).collect();
            let portion = c.machines[from].split(&to, |state| state.value.pack());
            let bytes = c.lattice.share_to_bytes(&portion.value.unpack(), round).unwrap();
            let value = c.lattice.share(bytes.into(), 5, round).unwrap();
            assert!(value.unpack() == c.machines[from].state().value, "on its round's grid, within the bound");
            for &to in &to {
                let kept = (to == 0 && round >= dies_in) || rng.random_bool(0.1);
                if kept { c.machines[from].take_back(to, &portion) } else { arriving.push((from, to, portion.clone())) }
            }
        }
        for (from, to, portion) in arriving {
            let lost = from == 0 && round == dies_in && to % 2 == 0;
            if !lost {
                c.machines[to].accept(from, &portion);
            }
        }
        for (machine, noise) in c.machines.iter_mut().zip(&mut c.noise) {
            if round < rounds { machine.inject(noise, round) } else { machine.cancel() }
        }
    }
    let departed = BTreeSet::from([0]);
    let finals: Vec<_> = c.machines.drain(..).skip(1).map(|m| m.finish(&departed)).collect();
    let zero = c.lattice.zeros(5);
    assert!(sum(finals.iter().map(|f| &f.value), zero.clone()) == sum(c.values[1..].iter(), zero), "seed {seed}");
    let weight: i128 = finals.iter().map(|f| f.weight.0).sum();
    assert_eq!(weight, 5 * c.lattice.weight(WEIGHT_UNIT), "seed {seed}");
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
        vec![vec![r(1, 1), r(1, 3)], vec![r(-1, 2), r(1, 1)], vec![r(-1, 2), r(-4, 3)]],
    )
    .unwrap();
    survivors_hold_their_exact_sum(2, custom, 1, 5);
}

#[test]
fn all_correlated_noise_cancels_and_skipped_rounds_use_the_next_row() {
    let mut c = cluster(3, 1, Injection::exact_incremental(4), 3);
    // Party 0 is offline in rounds 2 and 3: it injects three of its five pieces and cancels what is out.
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
            for (c, noise) in [(&mut plain.machines, &mut plain.noise), (&mut prepared.machines, &mut prepared.noise)] {
                for (machine, noise) in c.iter_mut().zip(noise) {
                    if round < 4 { machine.inject(noise, round) } else { machine.cancel() }
                }
            }
            for (one, other) in plain.machines.iter().zip(&prepared.machines) {
                let (one, other) = (one.state(), other.state());
                assert!(one.value == other.value && one.weight == other.weight, "round {round}");
            }
        }
        assert!(plain.machines[0].state().value == plain.values[0], "all of x̃, and no noise");
    }
}
