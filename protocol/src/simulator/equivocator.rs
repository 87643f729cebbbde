//! A party that shows some neighbours another version of its item than the others, signed just as
//! well.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::messages::log::Verdict;
use crate::messages::notice::{Disclosed, Notice, Recipient, SignedNotice, item_hash};
use crate::messages::signature::Digest;
use crate::messages::signing::Signer;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, Bytes, PrivateFrame, PublicFrame};
use crate::plan::peers::simulated_keypair;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// Every byte of [`OtherVersion::Garbage`].
const ONES: u8 = 0xff;

/// The equivocation of a party: whom it shows another version, and of which stage's item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equivocation {
    /// The party that equivocates.
    pub party: Party,
    /// Its log, or its final.
    pub stage: Stage,
    /// The parties that get the other version from it.
    pub fooled: BTreeSet<Party>,
    /// The difference of the other version.
    pub version: OtherVersion,
}

/// The difference of another version of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherVersion {
    /// A log dates a share one round later; a final, sealed or not, or a correction is a step off.
    StepOff,
    /// A final has this weight, in units of the lattice.
    Weight(i128),
    /// A log deals letters that no holder can read.
    Letters,
    /// A sealed final or a correction has something else added, as uniform as a share is.
    Shifted,
    /// The sealed body is all ones, and the log signs that. In a ring of one less than a power of
    /// two that is no body at all.
    Garbage,
}

/// The misuse of the secrets that open sealed finals, in place of revealing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revealing {
    /// It reveals neither its own secret nor its shares of others'.
    Nothing,
    /// It reveals wrong shares.
    WrongShares,
    /// It reveals a wrong secret instead of voting on the logs, when nothing may be opened yet.
    TooEarly,
    /// It reveals its own secret this many milliseconds late.
    Late(u64),
}

/// The false words that a party signs beside the notices of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherWord {
    /// To these it votes for a set that nobody can supply.
    Votes(BTreeSet<Party>),
    /// To these its START is over such a set.
    Starts(BTreeSet<Party>),
    /// To these it does not send its START.
    NoStart(BTreeSet<Party>),
    /// It refuses in its answers the shares that it takes.
    Answers,
}

impl OtherWord {
    /// The frame that really goes to `to` when the machine of `party` wants this one sent; `None`:
    /// nothing goes.
    pub(super) fn frame(
        &self,
        party: Party,
        digest: &Digest,
        to: Party,
        frame: Arc<[u8]>,
    ) -> Option<Arc<[u8]>> {
        if let OtherWord::Answers = self {
            return Some(other_answer(party, digest, frame));
        }
        let Ok(PublicFrame::Notice(signed)) = wire::read_public(&frame) else {
            return Some(frame);
        };
        if signed.author != party {
            return Some(frame);
        }
        let other = match (self, signed.notice) {
            (OtherWord::NoStart(kept), Notice::Start { .. } | Notice::Reveal { .. })
                if kept.contains(&to) =>
            {
                return None;
            }
            (
                OtherWord::Votes(fooled),
                Notice::Vote {
                    stage,
                    early,
                    mut set,
                },
            ) if fooled.contains(&to) => {
                set[0] ^= 1;
                said(party, digest, signed.sequence, Notice::Vote { stage, early, set })
            }
            (
                OtherWord::Starts(fooled),
                Notice::Start {
                    number,
                    incarnation,
                    mut seats,
                },
            ) if fooled.contains(&to) => {
                seats[0] ^= 1;
                said(
                    party,
                    digest,
                    signed.sequence,
                    Notice::Start {
                        number,
                        incarnation,
                        seats,
                    },
                )
            }
            _ => frame,
        };
        Some(other)
    }
}

/// A refusal in place of an answer that accepts.
fn other_answer(party: Party, digest: &Digest, frame: Arc<[u8]>) -> Arc<[u8]> {
    let Ok(PrivateFrame::Answer { id, answer, .. }) = wire::read_private(&frame) else {
        return frame;
    };
    if answer.verdict == Verdict::Refused {
        return frame;
    }
    let signer = Signer::new(party, *digest, simulated_keypair(party), 0);
    let refusal = signer.answer(id, Verdict::Refused).expect("a key of ours signs");
    wire::answer_frame(digest, id, &refusal)
}

/// The frame of what a party says to all, signed with its key.
fn said(party: Party, digest: &Digest, sequence: u64, notice: Notice) -> Arc<[u8]> {
    wire::notice_frame(&signed_by(party, digest, sequence, notice))
}

fn signed_by(party: Party, digest: &Digest, sequence: u64, notice: Notice) -> SignedNotice {
    let mut signer = Signer::new(party, *digest, simulated_keypair(party), sequence);
    signer.sign(Recipient::All, notice).expect("a key of ours signs")
}

impl Revealing {
    /// Returns the frame that really goes to others when the machine of `party` wants this frame
    /// sent; `None`: nothing.
    pub(super) fn frame(self, party: Party, digest: &Digest, frame: Arc<[u8]>) -> Option<Arc<[u8]>> {
        let Ok(PublicFrame::Notice(signed)) = wire::read_public(&frame) else {
            return Some(frame);
        };
        if signed.author != party {
            return Some(frame);
        }
        match (self, signed.notice) {
            (Revealing::Nothing, Notice::Key { .. } | Notice::Share { .. }) => None,
            (Revealing::WrongShares, Notice::Share { round, of, .. }) => {
                let share = Disclosed([1; 32]);
                Some(said(
                    party,
                    digest,
                    signed.sequence,
                    Notice::Share { round, of, share },
                ))
            }
            (
                Revealing::TooEarly,
                Notice::Vote {
                    stage: Stage::Settling,
                    ..
                },
            ) => {
                let (round, secret) = (0, Disclosed([1; 32]));
                Some(said(
                    party,
                    digest,
                    signed.sequence,
                    Notice::Key { round, secret },
                ))
            }
            _ => Some(frame),
        }
    }
}

/// Returns the frame with another nonce in place of the one that the party's machine has committed
/// to.
pub(super) fn with_false_reveal(party: Party, digest: &Digest, frame: Arc<[u8]>) -> Arc<[u8]> {
    match wire::read_public(&frame) {
        Ok(PublicFrame::Notice(signed)) if signed.author == party => match signed.notice {
            Notice::Reveal {
                number,
                incarnation,
                seats,
                commitments,
                mut nonce,
            } => {
                nonce[0] ^= 1;
                let notice = Notice::Reveal {
                    number,
                    incarnation,
                    seats,
                    commitments,
                    nonce,
                };
                said(party, digest, signed.sequence, notice)
            }
            _ => frame,
        },
        _ => frame,
    }
}

impl Equivocation {
    /// Returns the frame that really goes to `to` when the party's machine, whose item of a stage
    /// is `item_of` it, wants this frame sent.
    pub(super) fn frame(
        &self,
        (digest, schedule): (&Digest, &Schedule),
        item_of: impl Fn(Stage) -> Option<Bytes>,
        to: Party,
        frame: Arc<[u8]>,
    ) -> Arc<[u8]> {
        if !self.fooled.contains(&to) {
            return frame;
        }
        let read = wire::read_public(&frame);
        let (stage, announcement) = match &read {
            Ok(PublicFrame::Body { stage, author, .. }) if *author == self.party => (*stage, None),
            Ok(PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. }) => match signed.notice {
                Notice::Item { stage, .. } if signed.author == self.party => (stage, Some(signed)),
                _ => return frame,
            },
            _ => return frame,
        };
        let Some(item) = item_of(stage).filter(|_| self.is_about(stage)) else {
            return frame;
        };
        let other = self.other(stage, &item, schedule);
        match announcement {
            None => wire::body_frame(stage, self.party, &other),
            Some(signed) => {
                let notice = Notice::Item {
                    stage,
                    hash: item_hash(&other),
                    bytes: other.len() as u64,
                };
                let signed = signed_by(self.party, digest, signed.sequence, notice);
                wire::announcement_frame(&signed, &other)
            }
        }
    }

    /// Whether there are two versions of its item of this stage.
    fn is_about(&self, stage: Stage) -> bool {
        match self.version {
            OtherVersion::Garbage => matches!(stage, Stage::Settling | Stage::Sealed),
            _ => stage == self.stage,
        }
    }

    /// Another item that is one.
    fn other(&self, stage: Stage, item: &[u8], schedule: &Schedule) -> Vec<u8> {
        match stage {
            Stage::Settling => {
                let mut log = wire::log_from_bytes(item, self.party, schedule).expect("its own log");
                match (self.version, &mut log.sealed) {
                    (OtherVersion::Letters, Some(sealed)) => {
                        sealed.deal.letters.iter_mut().for_each(|letter| letter[40] ^= 1);
                    }
                    (OtherVersion::Garbage, Some(sealed)) => {
                        sealed.hash = item_hash(&vec![ONES; sealed.bytes as usize]);
                    }
                    (_, sealed) => match (log.received.first_mut(), sealed) {
                        (Some(first), _) => first.applied += 1,
                        (None, Some(sealed)) => sealed.hash[0] ^= 1,
                        (None, None) => {}
                    },
                }
                wire::log_to_bytes(&log, schedule)
            }
            Stage::Sealed if self.version == OtherVersion::Garbage => vec![ONES; item.len()],
            Stage::Sealed | Stage::Correction(_) | Stage::Keeping | Stage::Slice(_) | Stage::Sum(_) => {
                let mut other = item.to_vec();
                if self.version == OtherVersion::Shifted {
                    // No byte becomes one that makes a word of ones of another word.
                    other
                        .iter_mut()
                        .for_each(|byte| *byte = byte.wrapping_add(0x35) & 0x7f);
                } else {
                    other[0] ^= 1;
                }
                other
            }
            Stage::Opened => item.to_vec(),
            Stage::Publishing | Stage::Finals => {
                let mut other = item.to_vec();
                match self.version {
                    // Finals and the entries of averaging begin with their weight.
                    OtherVersion::Weight(weight) => {
                        other[..wire::FINAL_HEADER].copy_from_slice(&weight.to_le_bytes());
                    }
                    _ => other[wire::FINAL_HEADER] ^= 1,
                }
                other
            }
        }
    }
}
