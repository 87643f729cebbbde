use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;

use super::*;
use crate::lattice::payload::Coefficient;
use crate::lattice::vector::ExactQuotient;
use crate::mixing::noise::{LatticeNoise, add_gaussian};

fn request(injection: &Injection<Ratio>) -> LatticeRequest<'_> {
    LatticeRequest {
        parties: 8,
        dimension: 1000,
        travel: Travel::Split {
            fanout: 1,
            injection,
            received_bound: 1,
        },
        value_bound: 1.0,
        rows: 1,
        coarsest: f64::INFINITY,
        weight_bound: WEIGHT_UNIT,
        independent_std: 3.7,
        correlated_std: 2.5,
        shares_bound: 7,
        epsilon: 1.0,
        delta: 1e-6,
    }
}

/// The bytes of the values of a share of round `t`.
fn share_bytes(lattice: &Lattice, vector: &LatticeVector, t: u32) -> Result<Vec<u8>, VectorError> {
    let mut bytes = vec![0; vector.len() * lattice.wire_bytes as usize];
    lattice.write_share(vector, t, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn eight_parties_take_forty_bits_and_forty_rounds_a_hundred() {
    let small = Injection::exact_incremental(7);
    let lattice = Lattice::fit(&request(&small)).unwrap();
    assert_eq!((lattice.state_bits, lattice.wire_bytes), (64, 5));
    assert_eq!(lattice.value_grid(), 8 * 128);
    let large = Injection::exact_incremental(40);
    let wide = Lattice::fit(&LatticeRequest {
        parties: 200,
        shares_bound: 40,
        ..request(&large)
    })
    .unwrap();
    assert_eq!(wide.state_bits, 128);
    // 76 to 80 would do for what honest parties send; what others may send in forty rounds grows
    // beyond that.
    assert!((11..=12).contains(&wide.wire_bytes), "{}", wide.wire_bytes);
}

#[test]
fn rounding_many_rows_moves_their_sum_no_more_than_one_vector() {
    let injection = Injection::exact_incremental(7);
    let sum = LatticeRequest {
        rows: 100_000,
        coarsest: f64::INFINITY,
        value_bound: 1e5,
        weight_bound: 100_000 * WEIGHT_UNIT,
        ..request(&injection)
    };
    let lattice = Lattice::fit(&sum).unwrap();
    assert!(
        lattice.value_step() * 1e5 <= sum.independent_std * libm::exp2(-16f64),
        "{lattice:?}"
    );
    assert!(
        Lattice::fit(&request(&injection)).unwrap().value_step() * 1e5 > 0.3 * sum.independent_std,
        "on the grid of one vector it shows"
    );
}

#[test]
fn what_does_not_fit_is_refused_with_its_field() {
    let injection = Injection::exact_incremental(100);
    let travel = Travel::Split {
        fanout: 9,
        injection: &injection,
        received_bound: 1,
    };
    assert!(matches!(
        Lattice::fit(&LatticeRequest {
            travel,
            ..request(&injection)
        }),
        Err(LatticeError::TooWide { .. })
    ));
    let injection = Injection::exact_incremental(7);
    let zero = LatticeRequest {
        independent_std: 0.0,
        ..request(&injection)
    };
    assert!(matches!(
        Lattice::fit(&zero),
        Err(LatticeError::Parameter {
            field: "independent_std",
            ..
        })
    ));
    let tiny = LatticeRequest {
        delta: 1e-15,
        ..request(&injection)
    };
    assert!(matches!(Lattice::fit(&tiny), Err(LatticeError::Sampling { .. })));
}

#[test]
fn a_longer_vector_takes_its_noise_from_coarser_cells() {
    let injection = Injection::exact_incremental(7);
    let short = Lattice::fit(&request(&injection)).unwrap();
    let request = LatticeRequest {
        dimension: 1_000_000,
        ..request(&injection)
    };
    let long = Lattice::fit(&request).unwrap();
    assert_eq!(short.noise_bits, 16);
    assert!(long.noise_bits < 16);
    assert!(long.sampling_delta(&request) <= 1e-7);
}

#[test]
fn inputs_are_rounded_towards_zero_onto_their_grid() {
    let injection = Injection::exact_incremental(7);
    let lattice = Lattice::fit(&request(&injection)).unwrap();
    let cell = lattice.value_step();
    let vector = lattice.encode([0.0, 1.6 * cell, -1.6 * cell, 1.0, -1.0].into_iter());
    let grid = lattice.value_grid();
    let steps: Vec<i128> = vector.steps().collect();
    assert_eq!(steps[..3], [0, grid, -grid]);
    assert!(steps.iter().all(|s| s % grid == 0));
    assert!(steps[3] as f64 * lattice.step() <= 1.0);
    assert_eq!(steps[3], -steps[4]);
}

#[test]
fn shares_survive_the_wire_at_every_width_and_bad_ones_are_refused() {
    let injection = Injection::exact_incremental(7);
    let narrow = Lattice::fit(&request(&injection)).unwrap();
    for (lattice, dimension) in [
        (narrow, 3usize),
        (
            Lattice {
                state_bits: 128,
                ..narrow
            },
            3,
        ),
    ] {
        for wire_bytes in lattice.wire_bytes..=lattice.state_bits / 8 {
            let lattice = Lattice {
                wire_bytes,
                ..lattice
            };
            let mut vector = lattice.zeros(dimension);
            let mut next = [-5i64, 0, 77].into_iter();
            vector.add_each(&[(1.0, lattice.round_grid(3))], |_| next.next().unwrap());
            let bytes = share_bytes(&lattice, &vector, 3).unwrap();
            assert_eq!(bytes.len(), dimension * wire_bytes as usize);
            // What was written reads back, and nothing that was changed.
            let again = lattice
                .share(bytes.clone().into(), dimension, 3)
                .unwrap()
                .unpack();
            assert!(again == vector);
            assert_eq!(
                lattice.share(bytes.clone().into(), dimension, 2).map(drop),
                Err(VectorError::Grid { index: 0 })
            );
            assert!(matches!(
                lattice.share(Bytes::copy_from_slice(&bytes[1..]), dimension, 3),
                Err(VectorError::Length { .. })
            ));
        }
    }
    // A coordinate beyond its round's bound is not even written.
    let mut large = narrow.zeros(2);
    let bound = narrow.share_bound(4);
    let mut next = [0, bound as i64 / 8 + 1].into_iter();
    large.add_each(&[(1.0, 8)], |_| next.next().unwrap());
    assert_eq!(
        share_bytes(&narrow, &large, 4),
        Err(VectorError::Bound { index: 1, bound })
    );
    assert!(share_bytes(&narrow, &large, 5).is_ok(), "later rounds carry more");
}

/// For rounds T, fan-outs k and values of all sizes: a state holds its own injections, all
/// shares that may come in, and all shares that went out and are rolled back, each at its bound.
#[test]
fn nothing_that_peers_may_send_overflows_a_state() {
    let mut tight = 0;
    let sizes = (0..40).map(|size| 2f64.powi(size));
    for (rounds, fanout, value_bound) in
        sizes.flat_map(|size| (1..=63).flat_map(move |t| (1..=3).map(move |k| (t, k, size))))
    {
        let injection = Injection::exact_incremental(rounds);
        let shares_bound = rounds * fanout as usize;
        let request = LatticeRequest {
            parties: 3,
            value_bound,
            shares_bound,
            travel: Travel::Split {
                fanout,
                injection: &injection,
                received_bound: fanout as usize,
            },
            ..request(&injection)
        };
        let Ok(lattice) = Lattice::fit(&request) else {
            continue;
        };
        let bound = |t| lattice.share_bound(t) as f64;
        let last = rounds as u32;
        assert!(
            bound(last) < libm::exp2(f64::from(8 * lattice.wire_bytes - 1)),
            "on the wire"
        );
        let own = request.reach(&injection).own / lattice.step();
        let received: f64 = (1..=last).map(bound).sum::<f64>() * f64::from(fanout);
        let most = own + received + shares_bound as f64 * bound(last);
        let room = libm::exp2(f64::from(lattice.state_bits - 1));
        assert!(most < room, "T = {rounds}, k = {fanout}, {value_bound}");
        tight += usize::from(most > room / 16.0);
    }
    assert!(tight > 20, "some are near the edge: {tight}");
}

/// The final of an honest party is never refused, however many are summed: a state has room for
/// what all of them come to.
#[test]
fn every_honest_final_is_summed_among_up_to_a_thousand_parties() {
    let mut decided = 0;
    let sizes = (0..44).map(|size| 2f64.powi(size));
    for (rounds, parties, value_bound) in sizes.flat_map(|size| {
        [1, 4, 9]
            .into_iter()
            .flat_map(move |t| [3, 40, 1000].map(move |n| (t, n, size)))
    }) {
        let injection = Injection::exact_incremental(rounds);
        let request = LatticeRequest {
            parties,
            value_bound,
            shares_bound: rounds,
            ..request(&injection)
        };
        let Ok(lattice) = Lattice::fit(&request) else {
            continue;
        };
        // Its own pieces, and a share at its bound in each round.
        let received: i128 = (1..=rounds as u32).map(|t| lattice.share_bound(t)).sum();
        let held = lattice.own_reach + received;
        let vector = lattice.vector([held, -held].into_iter());
        let mut bytes = vec![0; 2 * lattice.final_bytes as usize];
        lattice.write_final(&vector, &mut bytes).expect("it fits");
        let read = lattice.final_state(bytes.into(), 2, parties).map(drop);
        assert_eq!(read, Ok(()), "{parties} parties, T = {rounds}, {value_bound}");
        // Where one state would do with 64 bits, the sum of all decides.
        let state = held + rounds as i128 * lattice.share_bound(rounds as u32);
        decided += usize::from(lattice.state_bits == 128 && bits(4.0 * state as f64) <= 63);
    }
    assert!(decided > 10, "the number of parties decides somewhere: {decided}");
}

fn handed_over(independent_std: f64, exchanges: usize) -> LatticeRequest<'static> {
    LatticeRequest {
        parties: 8,
        dimension: 1000,
        travel: Travel::HandOver {
            exchanges,
            finest: None,
        },
        value_bound: 1.0,
        rows: 1,
        coarsest: f64::INFINITY,
        weight_bound: WEIGHT_UNIT,
        independent_std,
        correlated_std: 30.0,
        shares_bound: exchanges / 4,
        epsilon: 1.0,
        delta: 1e-6,
    }
}

#[test]
fn a_hand_over_takes_few_bytes_however_many_there_are() {
    let lattice = Lattice::fit(&handed_over(4.0, 40)).unwrap();
    assert_eq!(
        (lattice.wire_bytes, lattice.final_bytes, lattice.state_bits),
        (4, 4, 64)
    );
    assert_eq!(
        (lattice.value_grid(), lattice.round_grid(3), lattice.noise_grid(0)),
        (1, 1, 1)
    );
    // A bound that grew along chains of exchanges would take thousands of bits.
    assert_eq!(Lattice::fit(&handed_over(4.0, 40_000)).unwrap().wire_bytes, 4);
    // Nothing blurs the values: their own grid is fine enough for what f32 holds.
    let exact = Lattice::fit(&handed_over(0.0, 40)).unwrap();
    assert!(
        exact.value_step() <= libm::exp2(-32f64) && exact.noise_bits >= 12,
        "{exact:?}"
    );
    assert!(exact.sampling_delta(&handed_over(0.0, 40)) <= 1e-7);
}

#[test]
fn residues_neither_overflow_nor_are_refused_and_sums_come_out_all_the_same() {
    for exchanges in [40, 400_000] {
        let request = handed_over(4.0, exchanges);
        let lattice = Lattice::fit(&request).unwrap();
        let width = lattice.wire_bytes as usize;
        let most = (1i128 << (8 * width - 1)) - 1;
        let (least, most) = (
            [vec![0; width - 1], vec![0x80]].concat(),
            most.to_le_bytes()[..width].to_vec(),
        );
        // The worst that peers can send, as often as they can, and as much back: no word overflows
        // (a debug build would panic).
        let mut state = lattice.encode([1.0, -1.0].into_iter());
        let before = state.clone();
        let shares = [least, most].map(|bytes| lattice.share(bytes.repeat(2).into(), 2, 7).unwrap());
        for _ in 0..3 * request.shares_bound {
            state.add_multiples(&[(Ratio::one(), &shares[0])]);
        }
        for _ in 0..3 * request.shares_bound {
            state.add_multiples(&[(Ratio::one().negated(), &shares[0])]);
        }
        assert!(state == before);
        for _ in 0..request.shares_bound {
            state.add_multiples(&[(Ratio::one(), &shares[1])]);
        }
        // What was cut off of a share is back once its receiver has it: all that matters is the
        // sum.
        let written = share_bytes(&lattice, &state, 1).unwrap();
        let mut receiver = lattice.zeros(2);
        receiver.add_multiples(&[(Ratio::one(), &lattice.share(written.into(), 2, 1).unwrap())]);
        for _ in 0..request.shares_bound {
            receiver.add_multiples(&[(Ratio::one().negated(), &shares[1])]);
        }
        let mut written = vec![0; 2 * lattice.final_bytes as usize];
        lattice.write_final(&receiver, &mut written).unwrap();
        let final_state = lattice.final_state(written.into(), 2, 8).unwrap();
        assert!(lattice.sum(final_state.unpack()) == before);
    }
}

/// Kolmogorov–Smirnov at significance 1e-6 (critical value √(ln(2/1e-6)/2)/√N = 2.69/√N), fixed
/// seed.
#[test]
fn noise_is_gaussian_with_the_planned_deviation_down_to_its_grid() {
    let injection = Injection::exact_incremental(7);
    let lattice = Lattice::fit(&request(&injection)).unwrap();
    for (grid, noise_bits) in [
        (1i128, 16),
        (1, 5),
        (lattice.value_grid(), 16),
        (lattice.value_grid(), 3),
    ] {
        const DRAWS: usize = 100_000;
        let mut vector = lattice.zeros(DRAWS);
        let std = 3.7 / lattice.step();
        add_gaussian(
            &mut ChaCha12Rng::seed_from_u64(7),
            std,
            grid,
            noise_bits,
            &mut vector,
        );
        let mut z: Vec<f64> = vector.steps().map(|s| s as f64 / std).collect();
        z.sort_by(f64::total_cmp);
        let distribution = |x: f64| 0.5 * (1.0 + erf(x / 2f64.sqrt()));
        let distance = z
            .iter()
            .enumerate()
            .map(|(i, &x)| (distribution(x) - i as f64 / DRAWS as f64).abs())
            .fold(0.0, f64::max);
        assert!(
            distance < 2.69 / (DRAWS as f64).sqrt(),
            "{distance} at grid {grid}, {noise_bits} bits"
        );
        assert!(vector.steps().all(|s| s % grid == 0));
        // The low bits above the grid are uniform: 16 classes, χ² with 15 degrees of freedom, 1e-6
        // critical value 56.5.
        let mut classes = [0f64; 16];
        vector
            .steps()
            .for_each(|s| classes[((s / grid) & 15) as usize] += 1.0);
        let expected = DRAWS as f64 / 16.0;
        let chi: f64 = classes.iter().map(|c| (c - expected).powi(2) / expected).sum();
        assert!(chi < 56.5, "{chi} at grid {grid}, {noise_bits} bits");
    }
}

/// Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7: enough for a distance of 8e-3.
fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (1.0 - poly * libm::exp(-x * x)).copysign(x)
}

#[test]
fn independent_noise_shares_the_grid_of_the_input() {
    let injection = Injection::exact_incremental(7);
    let lattice = Lattice::fit(&request(&injection)).unwrap();
    let mut noise = LatticeNoise::new(ChaCha12Rng::seed_from_u64(1), lattice, 10, 2.5);
    let mut value = lattice.encode([0.5; 10].into_iter());
    let before = value.clone();
    noise.add_independent(3.7, &mut value);
    assert!(value != before);
    assert!(value.steps().all(|s| s % lattice.value_grid() == 0));
    assert_eq!(format!("{value:?}"), "LatticeVector(10)", "values are secret");
}

#[test]
fn exact_quotients_are_those_of_division() {
    for divisor in (1..=65).chain([4096, 12_345, i64::from(i32::MAX)]) {
        let quotient = ExactQuotient::by(divisor);
        for times in [0, 1, -1, 7, -1000, 123_456_789, -(1 << 30)] {
            assert_eq!(quotient.of(times * divisor), times, "{times} × {divisor}");
        }
    }
}

#[test]
fn a_packed_vector_comes_back() {
    let injection = Injection::exact_incremental(7);
    let narrow = Lattice::fit(&request(&injection)).unwrap();
    for lattice in [
        narrow,
        Lattice {
            state_bits: 128,
            ..narrow
        },
    ] {
        for largest in [0i64, 1, 127, 128, -128, -129, 1 << 40, i64::MAX / 2] {
            let mut vector = lattice.zeros(3);
            let mut next = [0, largest, -1].into_iter();
            vector.add_each(&[(1.0, 1)], |_| next.next().unwrap());
            assert!(vector.pack().unpack() == vector, "{largest}");
        }
    }
}

/// (k + 1)^T·q has more digits than an f64 from k = 2, T = 32 on.
#[test]
fn noise_lies_on_its_grid_with_any_fanout_rounds_and_denominator_that_fit() {
    let mut rng = ChaCha12Rng::seed_from_u64(13);
    let (mut fitting, mut beyond_f64) = (0, 0);
    for fanout in 1..=8 {
        for rounds in 1..=80 {
            for injection in [
                Injection::exact_incremental(rounds),
                Injection::exact_early(rounds),
            ] {
                let travel = Travel::Split {
                    fanout,
                    injection: &injection,
                    received_bound: 1,
                };
                let Ok(lattice) = Lattice::fit(&LatticeRequest {
                    travel,
                    shares_bound: rounds,
                    ..request(&injection)
                }) else {
                    continue;
                };
                fitting += 1;
                beyond_f64 += u32::from(lattice.value_grid() as f64 as i128 != lattice.value_grid());
                let mut on_its_grid = |std: f64, grid: i128| {
                    let mut noise = lattice.zeros(3);
                    add_gaussian(
                        &mut rng,
                        std / lattice.step(),
                        grid,
                        lattice.noise_bits,
                        &mut noise,
                    );
                    noise.steps().all(|step| step % grid == 0) && noise.steps().any(|step| step != 0)
                };
                let what = format!("k = {fanout}, T = {rounds}");
                assert!(on_its_grid(3.7, lattice.value_grid()), "{what}");
                for round in 0..=rounds as u32 {
                    assert!(
                        on_its_grid(2.5, lattice.noise_grid(round)),
                        "{what}, round {round}"
                    );
                }
            }
        }
    }
    assert!(fitting > 200 && beyond_f64 > 10, "{fitting}, {beyond_f64}");
}
