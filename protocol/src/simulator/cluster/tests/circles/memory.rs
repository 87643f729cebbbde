//! The remains of keys in a node's memory once a round is open.

use sha2::{Digest, Sha256};

use super::*;
use crate::run::machine::held::HeldSecrets;

/// Returns whether a key that was found yields a once-key: as a chain's key, or as the key itself.
fn makes(found: &[u8; 32], once_key: &[u8; 32]) -> bool {
    let made = Sha256::new()
        .chain_update(b"undertone/pair-once/1\0")
        .chain_update(found);
    found == once_key || made.finalize()[..] == once_key[..]
}

/// An attacker that breaks into a node after a round finds the keys of pairs of the next one, and
/// none of a round that is over; no letter is left that only that round needed.
#[test]
fn who_breaks_in_after_a_round_finds_no_mask_of_a_pair_of_it_or_before() {
    let (seed, me) = (2, 4);
    let plan = circles(GRAPHS[0], "");
    let pair = |party: Party| PairKey::draw(&mut stream(seed, "pair key", party));
    // By round, from 1, with each other party.
    let chains = all_but(me).map(|other| pair(me).chain(pair(other).public(), plan.digest(), me, other));
    let mut chains: Vec<_> = chains.collect();
    let rounds = (1..=plan.rounds()).map(|_| {
        let keys: Vec<[u8; 32]> = chains.iter().map(|chain| *chain.once_key()).collect();
        chains.iter_mut().for_each(|chain| chain.advance());
        keys
    });
    let once: Vec<Vec<[u8; 32]>> = rounds.collect();
    let mut simulation = simulation(&plan, Conditions::new(seed));
    let mut looks = 0;
    while let Some(Queued { at, what, .. }) = simulation.queue.pop() {
        simulation.now = at;
        simulation.happen(what);
        let over = simulation
            .events
            .iter()
            .filter_map(|(_, party, event)| match event {
                Event::Iteration(round) if *party == me => Some(*round as usize),
                _ => None,
            });
        let Some(round) = over.max().filter(|round| *round > looks) else {
            continue;
        };
        looks = round;
        let mut held = HeldSecrets::default();
        simulation.nodes[me].task.held_secrets(&mut held);
        let finds = |keys: &Vec<[u8; 32]>| {
            let found = |key: &&[u8; 32]| held.keys.iter().any(|held| makes(held, key));
            keys.iter().filter(found).count()
        };
        let counts: Vec<usize> = once.iter().map(finds).collect();
        // Of the next round all: it is about to seal with them. Nothing is after the last.
        let expected = (1..)
            .take(counts.len())
            .map(|of| if of == round + 1 { 7 } else { 0 });
        assert_eq!(counts, expected.collect::<Vec<_>>(), "after round {round}");
        assert_eq!(held.shares, 0, "after round {round}");
        let goes_on = round < RELEASES as usize;
        assert_eq!(!held.run_keys.is_empty(), goes_on, "after round {round}");
    }
    assert_eq!(looks as u64, RELEASES);
    assert_eq!(simulation.finish().violations, []);
}

fn all_but(party: Party) -> impl Iterator<Item = Party> {
    (0..PARTIES).filter(move |it| *it != party)
}
