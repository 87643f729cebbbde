//! Tests of what a view reveals of the honest values where correlated noise is uniform. They
//! compare ranks modulo a prime with the components of the graph of usable shares. The residues of
//! a plan are taken modulo 2^w − 1 or 2^w: they are what they are modulo each prime factor.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::losses::view::View;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::inca::{CustomInjection, InjectionSpec};
use crate::testing::{self, power, random_out};

mod masks;
mod sealed;

/// 2^61 − 1, and primes that divide 2^24 − 1, 2^32 − 1 or 2^40 − 1: each of the last ones divides
/// the modulus of a plan.
const PRIMES: [i128; 8] = [(1 << 61) - 1, 3, 5, 7, 13, 17, 241, 65_537];

type Matrix = Vec<Vec<i128>>;

/// A vector of the field's elements, from numbers that are multiples of 2^-`halvings`.
fn residues(numbers: &[f64], halvings: u32, prime: i128) -> Vec<i128> {
    let residue = |x: &f64| {
        let whole = x * libm::exp2(f64::from(halvings));
        assert_eq!(whole.fract(), 0.0, "{x} is a multiple of 2^-{halvings}");
        (whole as i128).rem_euclid(prime)
    };
    numbers.iter().map(residue).collect()
}

/// Brings the first `columns` columns into row echelon form; the rows that are 0 there are last,
/// and their number is returned.
fn eliminate(m: &mut Matrix, columns: usize, prime: i128) -> usize {
    let mut rank = 0;
    for column in 0..columns {
        let Some(pivot) = (rank..m.len()).find(|&row| m[row][column] != 0) else {
            continue;
        };
        m.swap(rank, pivot);
        let inverse = power(m[rank][column], prime - 2, prime);
        let kept = m[rank].clone();
        for row in &mut m[rank + 1..] {
            let factor = row[column] * inverse % prime;
            for (entry, top) in row.iter_mut().zip(&kept) {
                *entry = (*entry - factor * top).rem_euclid(prime);
            }
        }
        rank += 1;
    }
    m.len() - rank
}

fn rank(mut m: Matrix, prime: i128) -> usize {
    let columns = m.first().map_or(0, Vec::len);
    m.len() - eliminate(&mut m, columns, prime)
}

/// Whether the view of `execution` tells of the honest values the sums of these sets, and no more.
fn tells(execution: &Execution, sets: &[Vec<Party>], prime: i128) -> bool {
    view_tells(&View::of(execution), execution.rounds() as u32, sets, prime)
}

/// Whether a view whose factors are multiples of 2^-`halvings` tells of the honest values the sums
/// of these sets, and no more.
fn view_tells(view: &View, halvings: u32, sets: &[Vec<Party>], prime: i128) -> bool {
    let of_row = |(a, b): (ndarray::ArrayView1<f64>, ndarray::ArrayView1<f64>)| {
        residues(&[a.to_vec(), b.to_vec()].concat(), halvings, prime)
    };
    let mut rows: Matrix = view.a.rows().into_iter().zip(view.b.rows()).map(of_row).collect();
    // Combinations of what is seen in which no noise is left.
    let noises = view.a.ncols();
    let free = eliminate(&mut rows, noises, prime);
    let mut found: Matrix = rows[rows.len() - free..]
        .iter()
        .map(|row| row[noises..].to_vec())
        .collect();
    let sum = |set: &Vec<Party>| {
        view.honest
            .iter()
            .map(|it| i128::from(set.contains(it)))
            .collect()
    };
    let sums: Matrix = sets.iter().map(sum).collect();
    let revealed = rank(found.clone(), prime);
    found.extend(sums);
    revealed == sets.len() && rank(found, prime) == revealed
}

/// INCA whose values come in whole at the start, and each of whose noises goes in after a round and
/// out after the next.
fn value_first(rounds: usize) -> Mechanism {
    let mut c = vec![0.0; rounds + 1];
    c[0] = 1.0;
    let mut z = vec![vec![0.0; rounds]; rounds + 1];
    for k in 0..rounds {
        (z[k][k], z[k + 1][k]) = (1.0, -1.0);
    }
    InjectionSpec::Custom(CustomInjection { c, z }).into()
}

/// A random run of either kind, some of whose parties are away for a while.
fn random_run(case: u64, ppsc: bool) -> Execution {
    testing::random_run(case, true, (!ppsc).then_some(&value_first))
}

#[test]
fn a_view_tells_the_sums_of_the_pieces_and_nothing_else() {
    let (mut whole, mut apart, mut nothing) = (0, 0, 0);
    for (case, ppsc) in (0..300).flat_map(|case| [(case, false), (case, true)]) {
        let execution = random_run(case, ppsc);
        let pieces = revealed(&execution);
        for prime in PRIMES {
            assert!(
                tells(&execution, &pieces, prime),
                "case {case}, ppsc {ppsc}, prime {prime}: {pieces:?}"
            );
        }
        match pieces.len() {
            0 => nothing += 1,
            1 => whole += 1,
            _ => apart += 1,
        }
    }
    println!("one piece: {whole}, several: {apart}, none: {nothing}");
    assert!(
        whole > 50 && apart > 50 && nothing > 20,
        "{whole} {apart} {nothing}"
    );
}

/// Masks of pairs tell as much: the sums over those whom masks join that nobody of the coalition
/// knows, if all of them are opened.
#[test]
fn masks_tell_the_sums_of_the_pieces_and_nothing_else() {
    let mut several = 0;
    for case in 0..300 {
        let random = &mut ChaCha8Rng::seed_from_u64(5000 + case);
        let parties = random.random_range(3..=8);
        let rounds = random.random_range(1..=3);
        let mut out = random_out(parties, rounds, random, |_| 1);
        out.iter_mut().flatten().for_each(|to| {
            let _ = random.random_bool(0.4) && to.pop().is_some();
        });
        let run = Execution::fault_free(Mechanism::Pairwise, out).expect("a run");
        let some = |random: &mut ChaCha8Rng, chance: f64| -> Vec<Party> {
            (0..parties).filter(|_| random.random_bool(chance)).collect()
        };
        let (corrupted, published) = (some(random, 0.25), some(random, 0.9));
        let run = run.with_corrupted(corrupted).expect("a coalition");
        let execution = run.with_published(published).expect("parties");
        let pieces = revealed(&execution);
        for prime in PRIMES {
            assert!(
                tells(&execution, &pieces, prime),
                "case {case}, {prime}: {pieces:?}"
            );
        }
        several += usize::from(pieces.len() > 1);
    }
    assert!(several > 50, "{several}");
}

/// Before anybody publishes nothing at all is revealed, whatever became of shares.
#[test]
fn shares_alone_tell_nothing() {
    for (case, ppsc) in (0..100).flat_map(|case| [(case, false), (case, true)]) {
        let execution = random_run(case, ppsc).with_published([]).expect("an execution");
        assert_eq!(revealed(&execution), Vec::<Vec<Party>>::new());
        for prime in PRIMES {
            assert!(
                tells(&execution, &[], prime),
                "case {case}, ppsc {ppsc}, prime {prime}"
            );
        }
    }
}

/// An eavesdropper that read some states learns the sums over those whom the other shares join.
#[test]
fn what_an_eavesdropper_read_hides_nothing() {
    let mut apart = 0;
    for case in 0..150 {
        let random = &mut ChaCha8Rng::seed_from_u64(1000 + case);
        let parties = random.random_range(3..=7);
        let rounds = random.random_range(1..=3);
        let out = random_out(parties, rounds, random, |_| 1);
        let observed: Vec<(Party, u32)> = (0..parties)
            .flat_map(|party| (0..rounds).map(move |round| (party, round)))
            .filter(|_| random.random_bool(0.6))
            .collect();
        let run = Execution::fault_free(value_first(rounds as usize), out).expect("a run");
        let execution = run.with_observed(observed).expect("an execution");
        let pieces = revealed(&execution);
        for prime in PRIMES {
            assert!(
                tells(&execution, &pieces, prime),
                "case {case}, prime {prime}: {pieces:?}"
            );
        }
        apart += usize::from(pieces.len() > 1);
    }
    assert!(apart > 50, "{apart}");
}
