//! The knowledge of any two parties together about streams of circles: the sums of agreed sets, and
//! nothing else.

use std::cell::RefCell;

use super::knowledge::{Findings, Record, every_pair_looks};
use super::*;
use crate::lattice::residue::ResidueVector;
use crate::sealing::mask::MaskKey;

/// Plays a stream; `broken` makes of each sealed vector what really travels.
fn looked_at(
    plan: &Arc<Plan>,
    conditions: Conditions,
    broken: impl Fn(ShareId, &[u8]) -> Option<Vec<u8>>,
) -> (Findings, Report) {
    let record = RefCell::new(Record::default());
    let mut simulation = simulation(plan, conditions);
    simulation.wire = Some(Box::new(|sending| {
        let other = match wire::read_private(sending.frame) {
            Ok(PrivateFrame::Sealed {
                digest, id, values, ..
            }) if sending.network == Network::Private => {
                let other = broken(id, &sending.frame[values]);
                other.map(|values| wire::sealed_frame(&digest, id, &values))
            }
            _ => None,
        };
        let frame = other.as_ref().unwrap_or(sending.frame);
        record.borrow_mut().note(plan, &Sending { frame, ..*sending });
        other.map_or(Sent::AsItIs, Sent::Replaced)
    }));
    simulation.play();
    let opened = simulation.opened_circles();
    let findings = every_pair_looks(&simulation, &opened, &record.borrow());
    (findings, simulation.finish())
}

fn as_it_is(_: ShareId, _: &[u8]) -> Option<Vec<u8>> {
    None
}

/// A killed party is outside of a set, or an agreed set is opened with it: what it sealed is found
/// as little as anybody else's.
#[test]
fn any_two_read_the_sums_of_agreed_sets_and_nothing_else() {
    let mut sums = 0;
    for seed in 0..9 {
        let plan = circles(GRAPHS[seed as usize % GRAPHS.len()], "");
        let (started, finished) = span(&plan, seed);
        let mut rng = stream(seed, "kill", 1);
        let at = Time::from_nanos(rng.random_range(started..finished));
        let party = rng.random_range(0..PARTIES);
        let fault = match seed % 2 {
            0 => Fault::Crash { party, at },
            _ => Fault::Silence { party, at },
        };
        let conditions = Conditions::new(seed).with_faults(vec![fault]);
        let (findings, report) = looked_at(&plan, conditions, as_it_is);
        assert_eq!(report.violations, [], "seed {seed}");
        assert_eq!(findings.wrong, Vec::<String>::new(), "seed {seed}");
        // A member of each pair reads at least the sums of its own circle.
        assert!(findings.sums > 100, "seed {seed}: {}", findings.sums);
        sums += findings.sums;
    }
    println!("{sums} sums read");
}

/// Own masks are open once a set is: vectors without masks of pairs are read one by one.
#[test]
fn vectors_without_masks_of_pairs_are_found() {
    let plan = circles(GRAPHS[1], "");
    let seed = 3;
    let pair = |party: Party| PairKey::draw(&mut stream(seed, "pair key", party));
    let unmasked = |id: ShareId, values: &[u8]| {
        let ring = plan.circle_ring().expect("circles");
        let mut vector = ResidueVector::from_bytes(ring, 2, values).expect("a vector");
        let edges = plan.active_edges(id.round);
        for &other in edges.neighbours(id.to).iter().filter(|other| **other != id.from) {
            let mut chain = pair(id.from).chain(pair(other).public(), plan.digest(), id.from, other);
            (1..id.round).for_each(|_| chain.advance());
            let mask = MaskKey::pair(&chain.once_key(), id.to as u32);
            match id.from < other {
                true => mask.subtract_from(&mut vector),
                false => mask.add_to(&mut vector),
            }
            .expect("short");
        }
        Some(vector.to_bytes())
    };
    let (findings, report) = looked_at(&plan, Conditions::new(seed), unmasked);
    // Nobody else notices: all sums are right.
    assert_eq!(report.violations, []);
    assert!(
        ended(&report)
            .iter()
            .all(|(_, outcome, _)| outcome.ending == Ending::Done)
    );
    let of_one = |wrong: &&String| wrong.contains("read {0}") || wrong.contains("read {7}");
    assert!(findings.wrong.iter().filter(of_one).count() > 100);
}
