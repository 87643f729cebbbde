//! Marked values and marked noise, and what they would look like in bytes and in words.

use libp2p::identity::Keypair;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::lattice::grid::{Lattice, LatticeWeight};
use undertone_protocol::lattice::packed::PackedVector;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::mixing::machine::Mixing;
use undertone_protocol::mixing::noisy::Noisy;
use undertone_protocol::mixing::portion::NoiseSource;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::exchange::injector::Mechanism;
use undertone_protocol::topology::party::Party;

use crate::{DIMENSION, PARTIES};

/// Noise that can be distinguished from all else: known multiples of its grid, about one standard
/// deviation large.
pub(crate) struct Marked {
    lattice: Lattice,
    correlated_std: f64,
    party: Party,
}

impl Marked {
    pub(crate) fn of(plan: &Plan, party: Party) -> Self {
        Marked {
            lattice: *plan.lattice(),
            correlated_std: plan.calibration().correlated_std,
            party,
        }
    }

    fn steps(&self, k: usize, round: u32, i: usize) -> i128 {
        let grid = self.lattice.noise_grid(round);
        let deviation = (self.correlated_std / self.lattice.step()) as i128 / grid;
        grid * (deviation - (1 + 7919 * self.party + 104_729 * k + 31 * i) as i128)
    }
}

impl NoiseSource<LatticeVector> for Marked {
    fn draw(&mut self, k: usize, round: u32) -> PackedVector {
        vector(&self.lattice, (0..DIMENSION).map(|i| self.steps(k, round, i))).pack()
    }
}

fn vector(lattice: &Lattice, steps: impl Iterator<Item = i128>) -> LatticeVector {
    let width = lattice.final_bytes as usize;
    let bytes: Vec<u8> = steps
        .flat_map(|step| step.to_le_bytes()[..width].to_vec())
        .collect();
    lattice
        .final_state(bytes.into(), DIMENSION, 1)
        .expect("small enough")
        .unpack()
}

/// A party's contribution: its noise would hide the marks.
pub(crate) fn contribution(plan: &Plan, party: Party) -> Noisy {
    let values: Vec<f64> = (0..DIMENSION).map(|i| value(party, i)).collect();
    Noisy::exposed_without_noise(Clipped::of(plan, party, values).0)
}

fn value(party: Party, i: usize) -> f64 {
    // Norm below 1, seven digits that nothing else has.
    0.010_234_567 * (1.0 + 0.27 * party as f64) + i as f64 * 1e-7
}

pub(crate) fn key(party: Party) -> Keypair {
    Keypair::ed25519_from_bytes([party as u8 + 40; 32]).expect("32 bytes")
}

/// Two neighbouring coordinates in `width` bytes each.
fn pair(steps: [i128; 2], width: usize) -> Vec<u8> {
    steps
        .iter()
        .flat_map(|step| step.to_le_bytes()[..width].to_vec())
        .collect()
}

/// A mark to look for: a name, and the bytes that would give it away.
type Marker = (String, Vec<u8>);

/// The secrets of the run as they would look in bytes and in words.
pub(crate) fn markers(plan: &Plan) -> Vec<Marker> {
    (0..PARTIES)
        .flat_map(|party| {
            let states = states(plan, party);
            let states = states
                .into_iter()
                .flat_map(|(what, steps)| of_steps(plan.lattice(), &what, steps));
            states.chain(of_number(party)).collect::<Vec<_>>()
        })
        .collect()
}

/// The first two coordinates of a party's value, noise, first state and first share, in steps.
fn states(plan: &Plan, party: Party) -> Vec<(String, [i128; 2])> {
    let lattice = plan.lattice();
    let own = contribution(plan, party);
    let own = own.vector();
    let mut noise = Marked::of(plan, party);
    let first_two = |vector: &LatticeVector| {
        let mut steps = vector.steps();
        [0; 2].map(|_| steps.next().expect("thousands"))
    };
    let mut states = vec![(format!("the value of {party}"), first_two(own))];
    let Mechanism::Injection(injection) = plan.mechanism(party) else {
        panic!("a plan of INCA")
    };
    for k in 0..plan.rounds() as usize {
        let round = injection.first_use(k) as u32;
        let steps = [0, 1].map(|i| noise.steps(k, round, i));
        states.push((format!("noise {k} of {party}"), steps));
    }
    let weight = LatticeWeight(lattice.weight(plan.draft().weight_units(party)));
    let mut mixing = Mixing::new(plan.mechanism(party), own.pack(), weight, true, &mut noise);
    let first = first_two(&mixing.state().value);
    states.push((format!("the first state of {party}"), first));
    let share = mixing.split(plan.schedule().sends_to(1, party), |state| state.value.pack());
    let first = first_two(&share.carried().value.unpack());
    states.push((format!("the first share of {party}"), first));
    states
}

/// Two neighbouring coordinates in steps of the lattice, in every width and notation.
fn of_steps(lattice: &Lattice, what: &str, steps: [i128; 2]) -> Vec<Marker> {
    let mut markers = vec![];
    for width in [lattice.wire_bytes as usize, lattice.final_bytes as usize, 8, 16] {
        let bytes = pair(steps, width);
        let list: Vec<String> = bytes[..8.min(bytes.len())].iter().map(u8::to_string).collect();
        markers.push((format!("{what} as a list of bytes"), list.join(", ").into_bytes()));
        let hex: String = bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let upper = hex.to_uppercase().into_bytes();
        markers.push((format!("{what} in hexadecimal"), hex.into_bytes()));
        markers.push((format!("{what} in upper-case hexadecimal"), upper));
        markers.push((format!("{what} in {width} bytes"), bytes));
    }
    // Short numbers are everywhere.
    if steps[0].abs() >= 1_000_000 {
        markers.push((format!("{what} in digits"), steps[0].to_string().into_bytes()));
    }
    markers
}

/// The first number of a party as it stands in a file.
fn of_number(party: Party) -> [Marker; 3] {
    let number = value(party, 0);
    let singles = [number as f32, value(party, 1) as f32];
    [
        (
            format!("the number of {party} in digits"),
            number.to_string().as_bytes()[..9].to_vec(),
        ),
        (
            format!("the number of {party} in f64"),
            number.to_le_bytes().to_vec(),
        ),
        (
            format!("the number of {party} in f32"),
            singles.map(f32::to_le_bytes).concat(),
        ),
    ]
}
