use proptest::prelude::*;

use super::*;

/// The modulus, if it is not 2^128.
fn modulus(ring: Ring) -> Option<u128> {
    match (ring.is_odd(), ring.width()) {
        (true, _) => Some(ring.ones()),
        (false, 16) => None,
        (false, width) => Some(1 << (8 * width)),
    }
}

/// Addition as one would write it down: nothing here overflows.
fn sum(ring: Ring, a: u128, b: u128) -> u128 {
    match modulus(ring) {
        None => a.wrapping_add(b),
        Some(n) if a >= n - b => a - (n - b),
        Some(_) => a + b,
    }
}

fn rings() -> impl Strategy<Value = Ring> {
    (1usize..=MOST_BYTES, any::<bool>()).prop_map(|(width, odd)| Ring { width, odd })
}

/// A residue, in a third of the cases next to 0, to a half or to the modulus.
fn residue(ring: Ring) -> impl Strategy<Value = u128> {
    let below = ring.ones() - u128::from(ring.odd);
    let near = (0u128..3, 0u8..3).prop_map(move |(by, at)| match at {
        0 => by,
        1 => below - by,
        _ => (below / 2 + by).saturating_sub(1),
    });
    prop_oneof![2 => 0..=below, 1 => near]
}

fn several(count: usize) -> impl Strategy<Value = (Ring, Vec<u128>)> {
    rings().prop_flat_map(move |ring| (Just(ring), prop::collection::vec(residue(ring), count)))
}

fn vector(ring: Ring, residues: &[u128]) -> ResidueVector {
    let bytes: Vec<u8> = residues
        .iter()
        .flat_map(|residue| residue.to_le_bytes()[..ring.width()].to_vec())
        .collect();
    ResidueVector::from_bytes(ring, residues.len(), &bytes).expect("residues")
}

fn residues(vector: &ResidueVector) -> Vec<u128> {
    vector.residues().collect()
}

proptest! {
    #[test]
    fn rings_hold_their_laws((ring, drawn) in several(3)) {
        let [a, b, c] = drawn[..] else { unreachable!() };
        prop_assert_eq!(ring.add(a, b), sum(ring, a, b));
        prop_assert_eq!(ring.add(a, b), ring.add(b, a));
        prop_assert_eq!(ring.add(ring.add(a, b), c), ring.add(a, ring.add(b, c)));
        prop_assert_eq!(ring.add(a, ring.negate(a)), 0);
        prop_assert_eq!(ring.add(ring.subtract(a, b), b), a);
        prop_assert_eq!(ring.add(a, 0), a);
        if let Some(n) = modulus(ring) {
            for result in [ring.add(a, b), ring.subtract(a, b), ring.negate(a)] {
                prop_assert!(result < n);
            }
        }
    }

    #[test]
    fn halves_are_exact((ring, drawn) in several(1)) {
        let ring = Ring { odd: true, ..ring };
        let a = drawn[0].min(ring.ones() - 1);
        let half = ring.half(a);
        prop_assert!(half < ring.ones());
        prop_assert_eq!(ring.add(half, half), a);
    }

    #[test]
    fn integers_come_back((ring, drawn) in several(2), any in any::<i128>()) {
        for residue in drawn.iter().copied() {
            let lifted = ring.lift(residue);
            prop_assert_eq!(ring.reduce(lifted), residue);
            if let Some(n) = modulus(ring) {
                prop_assert!(lifted.unsigned_abs() <= n / 2);
            }
        }
        // Reducing is a homomorphism, wherever the integer came from.
        let (high, low) = (any >> 1, any - (any >> 1));
        prop_assert_eq!(ring.reduce(any), ring.add(ring.reduce(high), ring.reduce(low)));
        prop_assert_eq!(ring.reduce(-high), ring.negate(ring.reduce(high)));
        if let Some(n) = modulus(ring).and_then(|n| i128::try_from(n).ok()) {
            prop_assert_eq!(ring.reduce(any), any.rem_euclid(n) as u128);
        }
    }

    #[test]
    fn vectors_compute_like_their_residues((ring, drawn) in several(34)) {
        let (a, b) = drawn.split_at(17);
        let (mut sum, mut difference, other) = (vector(ring, a), vector(ring, a), vector(ring, b));
        sum.add(&other);
        difference.subtract(&other);
        let each = |combine: &dyn Fn(u128, u128) -> u128| -> Vec<u128> {
            a.iter().zip(b).map(|(&a, &b)| combine(a, b)).collect()
        };
        prop_assert_eq!(residues(&sum), each(&|a, b| ring.add(a, b)));
        prop_assert_eq!(residues(&difference), each(&|a, b| ring.subtract(a, b)));
        prop_assert_eq!(ResidueVector::of(ring, sum.lifted()), sum);
        if ring.is_odd() {
            let mut half = difference.clone();
            half.halve();
            let mut whole = half.clone();
            whole.add(&half);
            prop_assert_eq!(whole, difference);
        }
    }

    #[test]
    fn bytes_come_back((ring, drawn) in several(19)) {
        let vector = vector(ring, &drawn);
        let bytes = vector.to_bytes();
        prop_assert_eq!(bytes.len(), 19 * ring.width());
        prop_assert_eq!(residues(&vector), drawn);
        prop_assert_eq!(ResidueVector::from_bytes(ring, 19, &bytes), Ok(vector));
    }

    #[test]
    fn words_of_a_stream_are_added_and_those_of_ones_skipped(
        ring in rings(),
        count in prop_oneof![0usize..20, 1020usize..1030, Just(2500)],
        ones in prop::collection::vec(0usize..2600, 0..6),
    ) {
        // Every word of the stream is its number, but for some that are all ones.
        let mut word = 0u64;
        let mut words = vec![];
        let mut vector = ResidueVector::of(ring, (0..count).map(|_| 5));
        let added = vector.add_words::<()>(Sign::Minus, |bytes| {
            assert_eq!(bytes.len() % 4, 0);
            for to in bytes.chunks_exact_mut(ring.width()) {
                let all = ones.contains(&(word as usize));
                let residue = if all { ring.ones() } else { u128::from(word) % ring.ones() };
                to.copy_from_slice(&residue.to_le_bytes()[..ring.width()]);
                words.push(residue);
                word += 1;
            }
            Ok(())
        });
        prop_assert_eq!(added, Ok(()));
        words.retain(|word| !(ring.is_odd() && *word == ring.ones()));
        let expected: Vec<u128> = words[..count].iter().map(|word| ring.subtract(5, *word)).collect();
        prop_assert_eq!(residues(&vector), expected);
    }
}

#[test]
fn the_edges_of_both_rings_are_lifted_as_written() {
    let (even, odd) = (Ring::even(1).expect("a width"), Ring::odd(1).expect("a width"));
    let lifted = |ring: Ring, residues: [u128; 5]| residues.map(|residue| ring.lift(residue));
    assert_eq!(lifted(even, [0, 1, 127, 128, 255]), [0, 1, 127, -128, -1]);
    assert_eq!(lifted(odd, [0, 1, 127, 128, 254]), [0, 1, 127, -127, -1]);
    assert_eq!([-1, 255, 256, -255].map(|i| even.reduce(i)), [255, 255, 0, 1]);
    assert_eq!([-1, 255, 256, -255].map(|i| odd.reduce(i)), [254, 0, 1, 0]);
    assert_eq!([1, 2, 253, 254].map(|r| odd.half(r)), [128, 1, 254, 127]);
    let widest = Ring::odd(16).expect("a width");
    assert_eq!(widest.reduce(i128::MIN), (1 << 127) - 1);
    assert_eq!(widest.lift(1 << 127), -i128::MAX);
}

#[test]
fn rings_have_one_to_sixteen_bytes() {
    for width in [0, 17, usize::MAX] {
        assert_eq!((Ring::even(width), Ring::odd(width)), (None, None), "{width}");
    }
    for width in 1..=16 {
        assert_eq!(Ring::odd(width).map(Ring::width), Some(width));
    }
}

#[test]
fn a_word_of_all_ones_is_a_residue_of_the_even_ring_alone() {
    for width in 1..=MOST_BYTES {
        let (even, odd) = (
            Ring::even(width).expect("a width"),
            Ring::odd(width).expect("a width"),
        );
        for index in [0, 6, 12] {
            let mut bytes = vec![0xfe; 13 * width];
            bytes[index * width..][..width].fill(0xff);
            let refused = ResidueVector::from_bytes(odd, 13, &bytes);
            assert_eq!(refused, Err(ResidueError::AllOnes { index }), "{width}");
            assert!(ResidueVector::from_bytes(even, 13, &bytes).is_ok());
        }
    }
}

#[test]
fn other_lengths_are_refused_before_anything_is_allocated() {
    let ring = Ring::even(3).expect("a width");
    for (count, found, expected) in [(2, 5, 6), (2, 7, 6), (0, 1, 0), (usize::MAX, 3, usize::MAX)] {
        let refused = ResidueVector::from_bytes(ring, count, &vec![0; found]);
        assert_eq!(refused, Err(ResidueError::Length { found, expected }));
    }
}

#[test]
fn nothing_prints_the_residues() {
    let ring = Ring::even(3).expect("a width");
    assert_eq!(format!("{:?}", ResidueVector::of(ring, [77])), "ResidueVector(1)");
}

/// Both ways of looking at a vector's integers say the same, at the edges of every width.
#[test]
fn numbers_and_bounds_are_those_of_the_lifted_integers() {
    for ring in (1..=15).flat_map(|width| [Ring::even(width), Ring::odd(width)]) {
        let ring = ring.expect("a width");
        let half = 1i128 << (8 * ring.width() - 1);
        let edges = [0, 1, -1, half - 1, -(half - 1), half - 2, 77, -77];
        let vector = ResidueVector::of(ring, edges);
        let numbers: Vec<f64> = vector.lifted().map(|steps| steps as f64 * 0.25).collect();
        assert_eq!(vector.to_f64(0.25), numbers);
        let largest = vector.lifted().map(i128::unsigned_abs).max().expect("some");
        assert!(
            vector.within(largest) && !vector.within(largest - 1),
            "{}",
            ring.width()
        );
    }
}
