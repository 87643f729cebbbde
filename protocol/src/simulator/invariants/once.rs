//! Invariant 6: no party sends two different bodies under one id, signs two logs, sets or finals of
//! one stage, or starts a plan twice. (protocol/docs/phases.md)

use std::collections::BTreeMap;

use crate::agreement::flood::slot::Slot;
use crate::messages::log::{ShareId, Verdict};
use crate::messages::notice::{Notice, SignedNotice};
use crate::messages::stage::Stage;
use crate::messages::wire::{self, PrivateFrame, PublicFrame};
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// The messages of all parties so far.
#[derive(Default)]
pub struct Once {
    notices: BTreeMap<Slot, Notice>,
    bodies: BTreeMap<(Stage, Party), Vec<u8>>,
    rounds: BTreeMap<(Party, u32), Vec<u8>>,
    shares: BTreeMap<ShareId, Vec<u8>>,
    messages: BTreeMap<(u32, Party), Vec<u8>>,
    answers: BTreeMap<ShareId, Verdict>,
    spent: BTreeMap<Party, u32>,
    /// The party that is known to sign two items; what others pass on of it is not their doing.
    liar: Option<Party>,
}

impl Once {
    /// Nothing said yet. What `liar` signed is not looked at.
    pub fn except(liar: Option<Party>) -> Self {
        Once {
            liar,
            ..Once::default()
        }
    }

    /// A frame was given to the public graph.
    pub fn public(&mut self, frame: &[u8]) -> Result<(), Violation> {
        match wire::read_public(frame) {
            Ok(
                PublicFrame::Notice(signed)
                | PublicFrame::Item { signed, .. }
                | PublicFrame::Slice { signed, .. },
            ) if self.liar == Some(signed.author) => Ok(()),
            Ok(PublicFrame::Body { author, .. }) if self.liar == Some(author) => Ok(()),
            Ok(PublicFrame::Item { signed, bytes } | PublicFrame::Slice { signed, bytes }) => {
                let body = frame[bytes].to_vec();
                if let Notice::Item { stage, .. } = signed.notice {
                    same(&mut self.bodies, (stage, signed.author), body, "bodies")?;
                }
                self.notice(signed)
            }
            // A READY is taken back; whom somebody reaches changes, and who has arrived late.
            Ok(PublicFrame::Notice(SignedNotice {
                notice: Notice::Withdraw { .. } | Notice::Unreached { .. } | Notice::Awake { .. },
                ..
            })) => Ok(()),
            Ok(PublicFrame::Notice(signed)) => self.notice(signed),
            Ok(PublicFrame::Body {
                stage, author, bytes, ..
            }) => same(&mut self.bodies, (stage, author), frame[bytes].to_vec(), "bodies"),
            Ok(PublicFrame::Round { round, .. }) => same(
                &mut self.rounds,
                (round.author, round.round),
                frame.to_vec(),
                "rounds",
            ),
            // Its hash is its name.
            Ok(PublicFrame::Set { .. }) | Err(_) => Ok(()),
        }
    }

    fn notice(&mut self, signed: SignedNotice) -> Result<(), Violation> {
        match Slot::of(signed.author, &signed.notice) {
            Some(slot) => same(&mut self.notices, slot, signed.notice, "notices"),
            None => Ok(()),
        }
    }

    /// A frame was given to the private graph.
    pub fn private(&mut self, frame: &[u8]) -> Result<(), Violation> {
        match wire::read_private(frame) {
            Ok(PrivateFrame::Share { id, .. } | PrivateFrame::Sealed { id, .. }) => {
                same(&mut self.shares, id, frame.to_vec(), "shares")
            }
            Ok(PrivateFrame::Message {
                id, weight, values, ..
            }) => {
                // To all neighbours the same.
                let said = [&weight.0.to_le_bytes()[..], &frame[values]].concat();
                same(&mut self.messages, (id.round, id.from), said, "messages")
            }
            Ok(PrivateFrame::Answer { id, answer, .. }) => {
                same(&mut self.answers, id, answer.verdict, "answers")
            }
            Err(_) => Ok(()),
        }
    }

    /// A party wants to mark its plan as spent.
    pub fn spend(&mut self, party: Party) -> Result<(), Violation> {
        let times = self.spent.entry(party).or_insert(0);
        *times += 1;
        if *times == 1 {
            Ok(())
        } else {
            Err(Violation::new("once", format!("party {party} started twice")))
        }
    }
}

fn same<K: Ord + std::fmt::Debug, V: PartialEq>(
    said: &mut BTreeMap<K, V>,
    key: K,
    value: V,
    what: &str,
) -> Result<(), Violation> {
    match said.get(&key) {
        Some(before) if *before != value => Err(Violation::new(
            "once",
            format!("two different {what} for {key:?}"),
        )),
        Some(_) => Ok(()),
        None => {
            said.insert(key, value);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::grid::LatticeWeight;
    use crate::messages::notice::Recipient;
    use crate::messages::notice::Round;
    use crate::messages::notice::SignedNotice;
    use crate::messages::signature::Signature;

    #[test]
    fn second_versions_are_seen() {
        let mut once = Once::default();
        let id = ShareId {
            round: 1,
            from: 0,
            to: 1,
        };
        let share = |byte| wire::share_frame(&[0; 32], id, LatticeWeight(1), &[byte]);
        assert_eq!(once.private(&share(1)), Ok(()));
        assert_eq!(once.private(&share(1)), Ok(()), "sent again, bit for bit");
        assert!(once.private(&share(2)).is_err());
        let vote = |early| {
            let notice = Notice::Vote {
                stage: Stage::Settling,
                early,
                set: [0; 32],
            };
            let signature = Signature([0; 64]);
            wire::notice_frame(&SignedNotice {
                author: 1,
                sequence: 1,
                recipient: Recipient::All,
                notice,
                signature,
            })
        };
        assert_eq!(once.public(&vote(true)), Ok(()));
        assert!(once.public(&vote(false)).is_err());
        let log = |bytes: &[u8]| wire::body_frame(Stage::Settling, 2, bytes);
        assert_eq!(once.public(&log(b"one")), Ok(()));
        assert!(once.public(&log(b"two")).is_err());
        let round = |values: &[u8]| {
            let (digest, signature) = ([0; 32], Signature([0; 64]));
            wire::round_frame(
                &Round {
                    author: 1,
                    digest,
                    round: 2,
                    signature,
                },
                values,
            )
        };
        assert_eq!(once.public(&round(b"one")), Ok(()));
        assert!(once.public(&round(b"two")).is_err());
        assert_eq!(once.spend(3), Ok(()));
        assert!(once.spend(3).is_err());
    }
}
