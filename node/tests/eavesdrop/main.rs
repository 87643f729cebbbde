//! Tests of what somebody on the wire sees of a run, and of what a node logs at TRACE. Three nodes
//! in this process, each behind a proxy on both graphs that records every byte, with marked values
//! and marked noise.

mod marked;
mod proxy;
mod session;
mod wire;

use std::collections::BTreeSet;

use libp2p::identity::PublicKey;
use sha2::{Digest, Sha256};

use crate::marked::{key, markers};
use crate::proxy::Capture;
use crate::session::{Seen, run};
use crate::wire::{apart, frames, streams, verify};

const PARTIES: usize = 3;
const DIMENSION: usize = 3000;

fn holds(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn all(captures: &[Capture]) -> Vec<u8> {
    captures
        .iter()
        .flat_map(|capture| [&capture.to_listener[..], &capture.from_listener])
        .flatten()
        .copied()
        .collect()
}

/// Bits a byte, 8 for noise.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0f64; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1.0);
    let total = bytes.len() as f64;
    -counts
        .iter()
        .filter(|count| **count > 0.0)
        .map(|count| count / total * (count / total).log2())
        .sum::<f64>()
}

/// Returns the bytes that went each way over each connection.
fn sides(captures: &[Capture]) -> impl Iterator<Item = &Vec<u8>> {
    captures
        .iter()
        .flat_map(|capture| [&capture.to_listener, &capture.from_listener])
}

#[test]
fn the_private_graph_is_sealed_the_public_one_is_readable_and_nothing_is_revealed() {
    let seen = run();
    println!(
        "{} bytes private, {} bytes public, {} bytes told",
        all(&seen.private).len(),
        all(&seen.public).len(),
        seen.reported.len()
    );
    the_private_graph_is_sealed(&seen);
    the_public_graph_is_readable(&seen);
    nothing_is_reported(&seen);
}

/// The parties' shares of three rounds went through the proxies, and nothing can be made of them.
fn the_private_graph_is_sealed(seen: &Seen) {
    let (digest, private) = (seen.plan.digest(), all(&seen.private));
    let share = DIMENSION * seen.plan.lattice().wire_bytes as usize;
    assert!(
        private.len() > PARTIES * seen.plan.rounds() as usize * share,
        "everything went through the proxies"
    );
    assert!(!holds(&private, digest), "a plan digest in clear");
    assert!(!holds(&private, &digest[..8]), "a part of one");
    for word in [
        &b"/yamux"[..],
        b"/undertone",
        &[1, 3, digest[0], digest[1], digest[2]],
    ] {
        assert!(
            !holds(&private, word),
            "{:?} in clear",
            String::from_utf8_lossy(word)
        );
    }
    for side in sides(&seen.private) {
        // Only what is long enough to tell; the first bytes are the negotiation of Noise.
        if side.len() > 20_000 {
            let bits = entropy(&side[1000..]);
            assert!(bits > 7.95, "{bits} bits a byte");
        }
    }
}

/// The public graph, by somebody who has the plan's keys and a description of the wire.
fn the_public_graph_is_readable(seen: &Seen) {
    let digest = seen.plan.digest();
    let keys: Vec<PublicKey> = (0..PARTIES).map(|party| key(party).public()).collect();
    let (mut kinds, mut hashes, mut bodies) = (BTreeSet::new(), vec![], vec![]);
    for (_, stream) in sides(&seen.public).flat_map(|side| streams(side)) {
        for frame in frames(&stream) {
            match &frame[..2] {
                [1, 1] => {
                    let (author, kind, rest) = verify(frame, digest, &keys);
                    kinds.insert((author, kind));
                    // An item: its stage, and the hash of its body.
                    if kind == 2 {
                        hashes.push(rest[1..33].to_vec());
                    }
                }
                // A body: the stage, the author, the bytes.
                [1, 2] => bodies.push(Sha256::digest(&frame[2 + 1 + 1..]).to_vec()),
                // A short item, signed for as if its notice stood apart.
                [1, 9] => {
                    let (notice, body) = apart(frame);
                    let (author, kind, rest) = verify(&notice, digest, &keys);
                    kinds.insert((author, kind));
                    hashes.push(rest[1..33].to_vec());
                    bodies.push(Sha256::digest(body).to_vec());
                }
                // A set that somebody asked for.
                [1, 8] => {}
                other => panic!("an unknown frame {other:?}"),
            }
        }
    }
    // READY, START, items and votes of everybody; each body is one that its author signed for.
    for author in 0..PARTIES as u32 {
        for kind in [0, 1, 2, 4] {
            assert!(
                kinds.contains(&(author, kind)),
                "kind {kind} of party {author} was read and verified: {kinds:?}"
            );
        }
    }
    assert!(
        bodies.len() >= PARTIES && bodies.iter().all(|hash| hashes.contains(hash)),
        "bodies have the signed hashes"
    );
}

/// Checks that no marked value or noise shows in the clear, in a log, an event, a receipt or a
/// report.
fn nothing_is_reported(seen: &Seen) {
    let (private, public) = (all(&seen.private), all(&seen.public));
    assert!(
        holds(&seen.reported, b"TRACE") && holds(&seen.reported, b"phase"),
        "the log is one"
    );
    for (what, marker) in markers(&seen.plan) {
        for (place, bytes) in [
            ("the private graph", &private),
            ("the public graph", &public),
            ("what was told", &seen.reported),
        ] {
            assert!(!holds(bytes, &marker), "{what} is in {place}");
        }
    }
    for word in ["clipped", "rms_"] {
        assert!(
            !holds(&seen.reported, word.as_bytes()),
            "{word} is a statistic of raw data"
        );
    }
}
