//! Measures one node's work on a long vector, each operation beside a copy of the vector in the
//! same run.
//!
//! `cargo run --release -p undertone-protocol --example vector_speed [COORDINATES]`

#![allow(clippy::disallowed_methods)] // It measures time.

use std::time::Instant;

use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;
use undertone_protocol::lattice::grid::{Lattice, LatticeRequest, Travel, WEIGHT_UNIT};
use undertone_protocol::lattice::injection::Injection;
use undertone_protocol::lattice::payload::{Payload, Ratio};
use undertone_protocol::lattice::residue::{ResidueVector, Ring};
use undertone_protocol::messages::wire::Bytes;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::mixing::portion::NoiseSource;
use undertone_protocol::sealing::mask::MaskKey;

fn main() {
    let dimension = std::env::args()
        .nth(1)
        .and_then(|d| d.parse().ok())
        .unwrap_or(1_000_000);
    // A lattice as a plan of eight parties has it.
    let injection = Injection::exact_incremental(6);
    let lattice = Lattice::fit(&LatticeRequest {
        parties: 8,
        dimension,
        travel: Travel::Split {
            fanout: 1,
            injection: &injection,
            received_bound: 1,
        },
        value_bound: 1.0,
        rows: 1,
        coarsest: f64::INFINITY,
        weight_bound: WEIGHT_UNIT,
        independent_std: 3.68,
        correlated_std: 15.6,
        shares_bound: 7,
        epsilon: 1.0,
        delta: 1e-6,
    })
    .expect("it fits");
    println!("{dimension} coordinates, {lattice:?}");
    let mut noise = LatticeNoise::new(ChaCha12Rng::seed_from_u64(1), lattice, dimension, 15.6);
    let values: Vec<f64> = (0..dimension)
        .map(|i| libm::sin(i as f64) / (dimension as f64).sqrt())
        .collect();
    // What a party does once.
    let mut x = lattice.encode(values.iter().copied());
    let copy = median(|| drop(std::hint::black_box(x.clone())));
    let show =
        |what: &str, time: f64| println!("{what:<28} {:8.2} ms  {:6.1} × copy", time * 1e3, time / copy);
    show("copy", copy);
    show(
        "encode input",
        median(|| drop(std::hint::black_box(lattice.encode(values.iter().copied())))),
    );
    show(
        "independent noise",
        median(|| noise.add_independent(3.68, &mut x)),
    );
    show(
        "correlated noise, round 0",
        median(|| drop(std::hint::black_box(noise.draw(0, 0)))),
    );
    show(
        "correlated noise, round 5",
        median(|| drop(std::hint::black_box(noise.draw(5, 5)))),
    );
    // What it does in every round.
    let (eta, share) = (noise.draw(1, 1), noise.draw(2, 2));
    x = eta.unpack();
    let (plus, minus) = (Ratio::whole(1), Ratio::whole(-1));
    show("add a share", median(|| x.add_multiples(&[(plus, &share)])));
    let terms = [(plus, &share), (plus, &eta), (minus, &share), (plus, &eta)];
    show("a round: 4 terms, split", median(|| x.add_and_divide(&terms, 2)));
    x = share.unpack();
    let mut bytes = vec![0; x.len() * lattice.wire_bytes as usize];
    show(
        "share to bytes",
        median(|| lattice.write_share(&x, 7, &mut bytes).expect("within the bound")),
    );
    let bytes = Bytes::from(bytes);
    show(
        "check a share",
        median(|| drop(lattice.share(bytes.clone(), dimension, 2).expect("on the grid"))),
    );
    masks(dimension);
}

/// Measures the addition of masks, and of vectors of residues to each other.
fn masks(dimension: usize) {
    let key = MaskKey::once([7; 32]);
    for (name, ring) in [("2^m", Ring::even as fn(_) -> _), ("2^m - 1", Ring::odd)] {
        for width in [1, 3, 4, 5, 8, 10, 16] {
            let ring: Ring = ring(width).expect("a width");
            let mut vector = ResidueVector::zeros(ring, dimension);
            let mask = median(|| key.add_to(&mut vector).expect("short"));
            let other = vector.clone();
            let sum = median(|| vector.add(&other));
            let speed = |time: f64| (dimension * width) as f64 / time / 1e9;
            println!(
                "{width:2} bytes, modulo {name:<7}: a mask {:5.2} GB/s, a sum {:5.2} GB/s",
                speed(mask),
                speed(sum)
            );
        }
    }
}

fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[3]
}
