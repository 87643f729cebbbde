//! Invariant 5: no readable final, nor a digest of one, nor a correction of a sealed one, leaves
//! unless the gate named its author to it. (protocol/docs/phases.md)

use std::collections::BTreeSet;

use crate::messages::notice::Notice;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, PublicFrame};
use crate::run::outcome::GateVerdict;
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// The parties that may publish so far.
#[derive(Default)]
pub struct Gated {
    passed: BTreeSet<Party>,
}

impl Gated {
    /// A node was given its verdict.
    pub fn verdict(&mut self, party: Party, verdict: &GateVerdict) {
        if verdict
            .publish
            .as_ref()
            .is_some_and(|publishers| publishers.contains(&party))
        {
            self.passed.insert(party);
        }
    }

    /// A frame was given to the public graph by `sender`; finals of others may only be passed on.
    pub fn public(&self, frame: &[u8]) -> Result<(), Violation> {
        let author = match wire::read_public(frame) {
            Ok(PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. })
                if matches!(
                    signed.notice,
                    Notice::Item {
                        stage: Stage::Publishing | Stage::Correction(_) | Stage::Finals,
                        ..
                    }
                ) =>
            {
                signed.author
            }
            Ok(PublicFrame::Body {
                stage: Stage::Publishing | Stage::Correction(_) | Stage::Finals,
                author,
                ..
            }) => author,
            // Averages of finals: whoever sends one has entered its own.
            Ok(PublicFrame::Round { round, .. }) => round.author,
            _ => return Ok(()),
        };
        if self.passed.contains(&author) {
            Ok(())
        } else {
            Err(Violation::new(
                "gated",
                format!("party {author}'s final left before its gate was passed"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::notice::Round;
    use crate::messages::signature::Signature;

    #[test]
    fn a_final_before_its_verdict_is_seen() {
        let final_of = |author| wire::body_frame(Stage::Publishing, author, b"final");
        let mut gated = Gated::default();
        assert!(gated.public(&final_of(1)).is_err());
        gated.verdict(
            1,
            &GateVerdict {
                publish: Some(BTreeSet::from([1])),
                reason: String::new(),
            },
        );
        gated.verdict(
            2,
            &GateVerdict {
                publish: Some(BTreeSet::from([1])),
                reason: String::new(),
            },
        );
        gated.verdict(
            3,
            &GateVerdict {
                publish: None,
                reason: String::new(),
            },
        );
        assert_eq!(gated.public(&final_of(1)), Ok(()));
        assert!(gated.public(&final_of(2)).is_err(), "left out");
        assert!(gated.public(&final_of(3)).is_err(), "withheld");
        assert_eq!(
            gated.public(&wire::body_frame(Stage::Settling, 2, b"log")),
            Ok(())
        );
        let round = |author| {
            let (digest, signature) = ([0; 32], Signature([0; 64]));
            let round = Round {
                author,
                digest,
                round: 0,
                signature,
            };
            wire::round_frame(&round, b"opening")
        };
        assert_eq!(gated.public(&round(1)), Ok(()));
        assert!(gated.public(&round(2)).is_err(), "left out, and averages");
    }
}
