//! A party that shows some neighbours another version of its item than the others, signed just as
//! well.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::messages::notice::{Notice, Recipient, Stage, item_hash};
use crate::messages::signature::Digest;
use crate::messages::signing::Signer;
use crate::messages::wire::{self, PublicFrame};
use crate::plan::peers::simulated_keypair;
use crate::topology::party::Party;

/// Who shows whom another version, of which stage's item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equivocation {
    /// Who does.
    pub party: Party,
    /// Its log, or its final.
    pub stage: Stage,
    /// Who gets the other version from it.
    pub fooled: BTreeSet<Party>,
    /// The weight of the other final, in units of the lattice; none: it is a step off.
    pub weight: Option<i128>,
}

/// What a party sends that reveals another nonce than the one that its machine has committed to.
pub(super) fn with_false_reveal(party: Party, digest: &Digest, frame: Arc<[u8]>) -> Arc<[u8]> {
    match wire::read_public(&frame) {
        Ok(PublicFrame::Notice(signed)) if signed.author == party => match signed.notice {
            Notice::Reveal {
                seats,
                commitments,
                mut nonce,
            } => {
                nonce[0] ^= 1;
                let mut signer = Signer::new(party, *digest, simulated_keypair(party), signed.sequence);
                let notice = Notice::Reveal {
                    seats,
                    commitments,
                    nonce,
                };
                wire::notice_frame(&signer.sign(Recipient::All, notice).expect("a key of ours signs"))
            }
            _ => frame,
        },
        _ => frame,
    }
}

impl Equivocation {
    /// What really goes to `to` when the party's machine, whose item is `item`, wants this frame
    /// sent.
    pub(super) fn frame(&self, digest: &Digest, item: &[u8], to: Party, frame: Arc<[u8]>) -> Arc<[u8]> {
        if !self.fooled.contains(&to) {
            return frame;
        }
        match wire::read_public(&frame) {
            Ok(PublicFrame::Body { stage, author, .. }) if (stage, author) == (self.stage, self.party) => {
                wire::body_frame(digest, stage, author, &self.other(item))
            }
            Ok(PublicFrame::Notice(signed)) if signed.author == self.party => match signed.notice {
                Notice::Item { stage, .. } if stage == self.stage => {
                    let other = self.other(item);
                    let notice = Notice::Item {
                        stage,
                        hash: item_hash(&other),
                        bytes: other.len() as u64,
                    };
                    let mut signer = Signer::new(
                        self.party,
                        *digest,
                        simulated_keypair(self.party),
                        signed.sequence,
                    );
                    wire::notice_frame(&signer.sign(Recipient::All, notice).expect("a key of ours signs"))
                }
                _ => frame,
            },
            _ => frame,
        }
    }

    /// Another item that is one: a log that dates a share one round later, a final that is a step
    /// off.
    fn other(&self, item: &[u8]) -> Vec<u8> {
        match self.stage {
            Stage::Settling => {
                let mut log = wire::log_from_bytes(item).expect("its own log");
                log.received[0].applied += 1;
                wire::log_to_bytes(&log)
            }
            Stage::Sealed | Stage::Correction(_) => {
                let mut other = item.to_vec();
                other[0] ^= 1;
                other
            }
            Stage::Publishing => {
                let mut other = item.to_vec();
                match self.weight {
                    // Finals and the entries of averaging begin with their weight.
                    Some(weight) => other[..wire::FINAL_HEADER].copy_from_slice(&weight.to_le_bytes()),
                    None => other[wire::FINAL_HEADER] ^= 1,
                }
                other
            }
        }
    }
}
