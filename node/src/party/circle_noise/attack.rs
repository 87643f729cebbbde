//! An attack on sums of whole numbers that the noise of each vector is there for.
//!
//! Two readers, of three and of six neighbours, have three members in common, and know the messages
//! of the others. (That takes more parties than such a plan tolerates; the point is what whole
//! numbers give away.) Real numbers are not revealed by two sums of three. Whole ones are, where
//! weights differ: solutions lie so far apart that the noise of messages reaches one of them only.

use rand::SeedableRng;
use undertone_protocol::clipping::contribution::Clipped;

use super::*;
use crate::testing::plan_of;

const READERS: [Party; 2] = [0, 1];
const MEMBERS: [Party; 3] = [2, 3, 4];
const EDGES: [(Party, Party); 21] = [
    (0, 2),
    (0, 3),
    (0, 4),
    (1, 2),
    (1, 3),
    (1, 4),
    (1, 5),
    (1, 6),
    (1, 7),
    (2, 5),
    (3, 4),
    (3, 6),
    (3, 7),
    (4, 5),
    (4, 6),
    (4, 7),
    (4, 8),
    (4, 9),
    (6, 8),
    (7, 9),
    (8, 9),
];

fn plan(epsilon: f64) -> Plan {
    let edges = EDGES.map(|(a, b)| format!("[\"party-{a}\", \"party-{b}\"]"));
    let text = format!(
        "name = \"t\"\ntask = \"stream\"\n[data]\nshape = [1]\nreleases = 2\n[privacy]\nepsilon = {epsilon:?}\ncolluding = 1\n\
         dropouts = 1\n[mechanism]\nsums = \"neighbours\"\n[topology]\n\
         private = {{ kind = \"edges\", edges = [{}] }}",
        edges.join(", ")
    );
    plan_of(&text, 10, None)
}

/// A column of both readers' weights, and which combination of the members' columns it is.
#[derive(Clone, Copy)]
struct Column {
    weights: [i128; 2],
    of: [i128; 3],
}

impl Column {
    fn less(self, times: i128, other: Column) -> Column {
        Column {
            weights: [0, 1].map(|at| self.weights[at] - times * other.weights[at]),
            of: [0, 1, 2].map(|at| self.of[at] - times * other.of[at]),
        }
    }
}

/// The readers' weights in triangular form: the first column has both weights, the second one only
/// the second reader's, and the third none: by it messages change without any sum.
fn triangular(plan: &Plan) -> [Column; 3] {
    let weights = RoundWeights::of(&plan.active_edges(1));
    let mut columns = [0, 1, 2].map(|member| {
        let mut of = [0; 3];
        of[member] = 1;
        let weights = READERS.map(|reader| i128::from(weights.entry(reader, MEMBERS[member])));
        Column { weights, of }
    });
    for row in 0..2 {
        for other in row + 1..3 {
            while columns[other].weights[row] != 0 {
                let times = columns[row].weights[row].div_euclid(columns[other].weights[row]);
                columns[row] = columns[row].less(times, columns[other]);
                columns.swap(row, other);
            }
        }
    }
    columns
}

fn nearest(over: i128, under: i128) -> i128 {
    (2 * over + under.abs()).div_euclid(2 * under.abs()) * under.signum()
}

/// The whole messages nearest to zero that come to these sums, or nearly do.
fn guess(columns: &[Column; 3], sums: [i128; 2]) -> [i128; 3] {
    let first = nearest(sums[0], columns[0].weights[0]);
    let rest = sums[1] - first * columns[0].weights[1];
    let second = nearest(rest, columns[1].weights[1]);
    let some = [0, 1, 2].map(|at| first * columns[0].of[at] + second * columns[1].of[at]);
    let kernel = columns[2].of;
    let product = |a: [i128; 3], b: [i128; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<i128>();
    let times = nearest(product(some, kernel), product(kernel, kernel));
    [0, 1, 2].map(|at| some[at] - times * kernel[at])
}

/// In how many of `trials` all three messages are found, from sums without noise of the vectors and
/// from those that are really sealed.
fn found(epsilon: f64, trials: u64) -> (u64, u64) {
    let plan = plan(epsilon);
    let (columns, lattice) = (triangular(&plan), plan.lattice());
    let weights = RoundWeights::of(&plan.active_edges(1));
    let (mut bare, mut sealed) = (0, 0);
    for trial in 0..trials {
        let mut noise = LatticeNoise::new(ChaCha12Rng::seed_from_u64(trial), *lattice, 1, 0.0);
        // For each member its message, and what it adds to that in the vector for either reader.
        let contributed = MEMBERS.map(|member| {
            let zero = Clipped::of(&plan, member, vec![0.0]).0;
            let message = noise.noisy(plan.calibration().independent_std, zero);
            let all = with_noise_of_circles(&plan, member, 1, message, &mut noise);
            let all: Vec<i128> = all.vector().steps().collect();
            let edges = plan.active_edges(1);
            let place = |reader| edges.neighbours(member).iter().position(|of| *of == reader);
            (
                all[0],
                READERS.map(|reader| all[1 + place(reader).expect("a neighbour")]),
            )
        });
        let sums = |noisy: i128| {
            [0, 1].map(|at| {
                let terms = MEMBERS.iter().zip(&contributed);
                let term = |(&member, (z, r)): (&Party, &(i128, [i128; 2]))| {
                    i128::from(weights.entry(READERS[at], member)) * z + noisy * r[at]
                };
                terms.map(term).sum::<i128>()
            })
        };
        let truth = [0, 1, 2].map(|at| contributed[at].0);
        bare += u64::from(guess(&columns, sums(0)) == truth);
        sealed += u64::from(guess(&columns, sums(1)) == truth);
    }
    let deviation = plan.calibration().independent_std / lattice.step();
    println!(
        "epsilon {epsilon}, noise of {deviation:.3e} steps, next solution {:?}",
        columns[2].of
    );
    (bare, sealed)
}

#[test]
fn two_sums_of_whole_numbers_tell_three_messages_and_with_noise_of_their_own_none() {
    for (epsilon, least) in [(1.0, 100), (6.0, 450)] {
        let (bare, sealed) = found(epsilon, 500);
        println!("epsilon {epsilon}: found in {bare} of 500 without, in {sealed} with noise of vectors");
        assert!(bare >= least, "epsilon {epsilon}: {bare}");
        assert_eq!(sealed, 0, "epsilon {epsilon}");
    }
}
