//! Invariant 7: the same seed gives the same trace in the simulator. (protocol/docs/phases.md)

use sha2::{Digest, Sha256};

use crate::simulator::invariants::violation::Violation;
use crate::time::Time;

/// The trace of everything that happened, as a chain of hashes: one entry an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    links: Vec<[u8; 32]>,
}

impl Trace {
    /// Appends an event.
    pub fn push(&mut self, at: Time, what: &str, bytes: &[u8]) {
        let mut hash = Sha256::new();
        hash.update(self.links.last().unwrap_or(&[0; 32]));
        hash.update(at.as_nanos().to_le_bytes());
        hash.update(what);
        hash.update(bytes);
        self.links.push(hash.finalize().into());
    }

    /// Events so far.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }
}

/// Checks that two runs of one seed went alike.
pub fn check(one: &Trace, other: &Trace) -> Result<(), Violation> {
    if one == other {
        return Ok(());
    }
    let parting = one
        .links
        .iter()
        .zip(&other.links)
        .position(|(a, b)| a != b)
        .unwrap_or(one.len().min(other.len()));
    Err(Violation::new(
        "trace",
        format!("two runs of one seed part at event {parting}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_different_event_or_moment_is_seen() {
        let trace = |events: &[(u64, &str)]| {
            let mut trace = Trace::default();
            events
                .iter()
                .for_each(|(at, what)| trace.push(Time::from_millis(*at), what, b""));
            trace
        };
        let good = trace(&[(1, "a"), (2, "b")]);
        assert_eq!(check(&good, &trace(&[(1, "a"), (2, "b")])), Ok(()));
        let parts = |text: &str| Err(Violation::new("trace", text));
        assert_eq!(
            check(&good, &trace(&[(1, "a"), (2, "c")])),
            parts("two runs of one seed part at event 1")
        );
        assert_eq!(
            check(&good, &trace(&[(0, "a"), (2, "b")])),
            parts("two runs of one seed part at event 0")
        );
        assert_eq!(
            check(&good, &trace(&[(1, "a")])),
            parts("two runs of one seed part at event 1")
        );
    }
}
