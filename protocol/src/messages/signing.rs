//! Signed public notices, and their signatures.
//!
//! Libp2p's plaintext proves nobody's identity, so every public message is signed by its author
//! over (domain, digest, phase, sequence, recipient, author, SHA-256 of the body).

use std::fmt;

use libp2p_identity::{Keypair, PublicKey};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::messages::log::{Answer, ShareId, Verdict};
use crate::messages::notice::{Notice, Recipient, Round, SignedNotice};
use crate::messages::signature::{Digest, Signature};
use crate::messages::wire;
use crate::plan::checked::Plan;
use crate::plan::draft::Member;
use crate::plan::known_signatures::KnownSignatures;
use crate::topology::party::Party;

/// A reason why a signed message is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// A message that belongs to another plan.
    #[error("it belongs to plan {}, not to {}", hex(found), hex(expected))]
    Digest {
        /// The digest in the message.
        found: Digest,
        /// The digest of the plan that this node runs.
        expected: Digest,
    },
    /// The plan has no such party.
    #[error("its author {0} is not in the plan")]
    Author(Party),
    /// The signature does not verify.
    #[error("its signature is not party {0}'s")]
    Signature(Party),
    /// A signature could not be made.
    #[error("this node's key cannot sign")]
    Signing,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const PUBLIC_DOMAIN: &[u8] = b"undertone/public/1\0";
const ANSWER_DOMAIN: &[u8] = b"undertone/answer/1\0";
const ROUND_DOMAIN: &[u8] = b"undertone/averaging/1\0";

/// Returns the bytes that the signature of a public message covers; its own signature is not looked
/// at.
fn public_bytes(digest: &Digest, signed: &SignedNotice) -> Vec<u8> {
    let mut bytes = PUBLIC_DOMAIN.to_vec();
    bytes.extend_from_slice(digest);
    bytes.push(signed.notice.phase() as u8);
    bytes.extend_from_slice(&signed.sequence.to_le_bytes());
    match signed.recipient {
        Recipient::All => bytes.push(0),
        Recipient::Party(party) => {
            bytes.push(1);
            bytes.extend_from_slice(&(party as u64).to_le_bytes());
        }
    }
    bytes.extend_from_slice(&(signed.author as u64).to_le_bytes());
    bytes.extend_from_slice(&Sha256::digest(wire::notice_to_bytes(&signed.notice)));
    bytes
}

fn answer_bytes(digest: &Digest, share: ShareId, verdict: Verdict) -> Vec<u8> {
    let mut bytes = ANSWER_DOMAIN.to_vec();
    bytes.extend_from_slice(digest);
    bytes.extend_from_slice(&share.round.to_le_bytes());
    bytes.extend_from_slice(&(share.from as u64).to_le_bytes());
    bytes.extend_from_slice(&(share.to as u64).to_le_bytes());
    let applied = match verdict {
        Verdict::Refused => 0,
        Verdict::Accepted { applied } => applied,
    };
    bytes.extend_from_slice(&applied.to_le_bytes());
    bytes
}

fn round_bytes(round: &Round, values: &[u8]) -> Vec<u8> {
    let mut bytes = ROUND_DOMAIN.to_vec();
    bytes.extend_from_slice(&round.digest);
    bytes.extend_from_slice(&(round.author as u64).to_le_bytes());
    bytes.extend_from_slice(&round.round.to_le_bytes());
    bytes.extend_from_slice(&Sha256::digest(values));
    bytes
}

/// The public keys of a plan's members, which check what others signed.
#[derive(Clone, Debug)]
pub struct Members {
    digest: Digest,
    keys: Vec<PublicKey>,
    known: KnownSignatures,
}

impl Members {
    /// The members of a plan, who sign for its digest.
    pub fn of(plan: &Plan) -> Self {
        let keys = plan.draft().members.iter().map(Member::public_key);
        Members {
            known: plan.known_signatures(),
            ..Members::new(*plan.digest(), keys.collect())
        }
    }

    /// The members' keys in plan order.
    pub fn new(digest: Digest, keys: Vec<PublicKey>) -> Self {
        Members {
            digest,
            keys,
            known: KnownSignatures::default(),
        }
    }

    /// Returns these members, with signatures for another digest.
    pub fn for_digest(&self, digest: Digest) -> Self {
        Members {
            digest,
            ..self.clone()
        }
    }

    /// The number of members n.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The digest of the plan whose members these are.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Checks author and signature, which is for this plan only.
    pub fn verify(&self, signed: &SignedNotice) -> Result<(), MessageError> {
        let bytes = public_bytes(&self.digest, signed);
        self.verify_bytes(signed.author, &bytes, &signed.signature)
    }

    /// Checks that the receiver of the share gave this answer.
    pub fn verify_answer(&self, share: ShareId, answer: &Answer) -> Result<(), MessageError> {
        self.verify_bytes(
            share.to,
            &answer_bytes(&self.digest, share, answer.verdict),
            &answer.signature,
        )
    }

    /// Checks author, digest and signature of a round of averaging.
    pub fn verify_round(&self, round: &Round, values: &[u8]) -> Result<(), MessageError> {
        self.same_plan(&round.digest)?;
        self.verify_bytes(round.author, &round_bytes(round, values), &round.signature)
    }

    /// Checks that something belongs to this plan.
    pub fn same_plan(&self, digest: &Digest) -> Result<(), MessageError> {
        if *digest == self.digest {
            Ok(())
        } else {
            Err(MessageError::Digest {
                found: *digest,
                expected: self.digest,
            })
        }
    }

    fn verify_bytes(&self, author: Party, bytes: &[u8], signature: &Signature) -> Result<(), MessageError> {
        let key = self.keys.get(author).ok_or(MessageError::Author(author))?;
        if self.known.verify(key, bytes, &signature.0) {
            Ok(())
        } else {
            Err(MessageError::Signature(author))
        }
    }
}

/// The key of this node, and its place in the plan: signs what it says.
#[derive(Clone)]
pub struct Signer {
    me: Party,
    digest: Digest,
    key: Keypair,
    sequence: u64,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.me)
    }
}

impl Signer {
    /// Signs as party `me`; `epoch` is larger than every sequence number that earlier starts of
    /// this node used (wall-clock milliseconds at the start × 2^16 will do).
    pub fn new(me: Party, digest: Digest, key: Keypair, epoch: u64) -> Self {
        Signer {
            me,
            digest,
            key,
            sequence: epoch,
        }
    }

    /// A signer with this key, for another digest.
    pub fn for_digest(&self, digest: Digest) -> Self {
        Signer {
            digest,
            ..self.clone()
        }
    }

    /// Returns the party that signs.
    pub fn me(&self) -> Party {
        self.me
    }

    /// The digest of the plan that it signs for.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Signs a notice with the next sequence number.
    pub fn sign(&mut self, recipient: Recipient, notice: Notice) -> Result<SignedNotice, MessageError> {
        let mut signed = SignedNotice {
            author: self.me,
            sequence: 0,
            recipient,
            notice,
            signature: Signature([0; 64]),
        };
        if signed.notice.is_numbered() {
            signed.sequence = self.sequence.saturating_add(1);
        }
        signed.signature = self.signature(&public_bytes(&self.digest, &signed))?;
        self.sequence = self.sequence.max(signed.sequence);
        Ok(signed)
    }

    /// Signs an answer to a share that this party received.
    pub fn answer(&self, share: ShareId, verdict: Verdict) -> Result<Answer, MessageError> {
        Ok(Answer {
            verdict,
            signature: self.signature(&answer_bytes(&self.digest, share, verdict))?,
        })
    }

    /// Signs what this node says in a round of averaging.
    pub fn round(&self, round: u32, values: &[u8]) -> Result<Round, MessageError> {
        let signature = Signature([0; 64]);
        let mut signed = Round {
            author: self.me,
            digest: self.digest,
            round,
            signature,
        };
        signed.signature = self.signature(&round_bytes(&signed, values))?;
        Ok(signed)
    }

    fn signature(&self, bytes: &[u8]) -> Result<Signature, MessageError> {
        let signature = self.key.sign(bytes).map_err(|_| MessageError::Signing)?;
        Ok(Signature(
            signature.try_into().map_err(|_| MessageError::Signing)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::stage::Stage;

    fn party_key(seed: u8) -> Keypair {
        Keypair::ed25519_from_bytes([seed; 32]).expect("32 bytes")
    }

    /// One for all checks of a test: what they know by then makes nothing else good.
    fn members() -> Members {
        Members::new([7; 32], vec![party_key(1).public(), party_key(2).public()])
    }

    #[test]
    fn a_signature_binds_everything_in_the_envelope() {
        let members = members();
        let mut signer = Signer::new(1, [7; 32], party_key(2), 100);
        let signed = signer
            .sign(Recipient::All, Notice::Withdraw { incarnation: [3; 16] })
            .expect("signs");
        assert_eq!(signed.sequence, 101);
        let vote = Notice::Missed;
        let vote = signer.sign(Recipient::All, vote).expect("signs");
        assert_eq!(vote.sequence, 0, "said once");
        assert_eq!(members.verify(&signed), Ok(()));
        let forged = |change: &dyn Fn(&mut SignedNotice)| {
            let mut forged = signed.clone();
            change(&mut forged);
            members.verify(&forged).is_err()
        };
        assert!(forged(&|m| m.author = 0));
        assert!(forged(&|m| m.author = 5));
        assert!(forged(&|m| m.sequence += 1));
        assert!(forged(&|m| m.recipient = Recipient::Party(0)));
        assert!(forged(&|m| m.notice = Notice::Withdraw { incarnation: [4; 16] }));
        assert!(forged(&|m| m.notice = Notice::Missed));
        assert!(forged(&|m| m.signature.0[5] ^= 1));
    }

    #[test]
    fn an_answer_binds_the_share_and_the_verdict() {
        let members = members();
        let signer = Signer::new(1, [7; 32], party_key(2), 0);
        let share = ShareId {
            round: 3,
            from: 0,
            to: 1,
        };
        let answer = signer
            .answer(share, Verdict::Accepted { applied: 3 })
            .expect("signs");
        assert_eq!(members.verify_answer(share, &answer), Ok(()));
        assert!(
            members
                .verify_answer(ShareId { round: 2, ..share }, &answer)
                .is_err()
        );
        assert!(
            members
                .verify_answer(
                    share,
                    &Answer {
                        verdict: Verdict::Refused,
                        ..answer
                    }
                )
                .is_err()
        );
    }

    #[test]
    fn what_is_rightly_signed_for_another_plan_counts_in_none_else() {
        let mut other = Signer::new(1, [8; 32], party_key(2), 0);
        let notice = Notice::Unreachable {
            stage: Stage::Settling,
            party: 0,
        };
        let signed = other.sign(Recipient::All, notice).expect("signs");
        let theirs = Members::new([8; 32], vec![party_key(1).public(), party_key(2).public()]);
        // What they know is known here, too.
        let members = theirs.for_digest([7; 32]);
        assert_eq!(theirs.verify(&signed), Ok(()));
        assert!(members.verify(&signed).is_err());
        let round = other.round(3, b"vector").expect("signs");
        assert_eq!(theirs.verify_round(&round, b"vector"), Ok(()));
        assert!(members.verify_round(&round, b"vector").is_err());
        let share = ShareId {
            round: 3,
            from: 0,
            to: 1,
        };
        let answer = other.answer(share, Verdict::Refused).expect("signs");
        assert_eq!(theirs.verify_answer(share, &answer), Ok(()));
        assert!(members.verify_answer(share, &answer).is_err());
    }

    #[test]
    fn a_round_binds_everything_that_it_says() {
        let members = members();
        let signer = Signer::new(1, [7; 32], party_key(2), 0);
        let round = signer.round(3, b"vector").expect("signs");
        assert_eq!(members.verify_round(&round, b"vector"), Ok(()));
        assert!(members.verify_round(&round, b"vectos").is_err());
        for forged in [
            Round { author: 0, ..round },
            Round {
                digest: [8; 32],
                ..round
            },
            Round { round: 4, ..round },
        ] {
            assert!(members.verify_round(&forged, b"vector").is_err(), "{forged:?}");
        }
    }

    #[test]
    fn a_signer_prints_no_key() {
        assert_eq!(
            format!("{:?}", Signer::new(4, [0; 32], party_key(2), 0)),
            "Signer(4)"
        );
    }
}
