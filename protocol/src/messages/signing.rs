//! What parties say in public, and who signed it.
//!
//! Libp2p's plaintext proves nobody's identity, so every public message is signed by its author over (domain, digest, phase,
//! sequence, recipient, author, SHA-256 of the body).

use std::fmt;

use libp2p_identity::{Keypair, PublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::commitment::{Commitment, Commitments, Nonce};
use crate::dissemination::sketch;
use crate::log::{Answer, ShareId, Verdict};
use crate::mixing::Party;
use crate::wire;

/// SHA-256 of a plan's bytes, which names the run.
pub type Digest = [u8; 32];

/// 128 random bits of one start of a node.
pub type Incarnation = [u8; 16];

/// SHA-256 of an item's bytes.
pub type ItemHash = [u8; 32];

/// A set that parties agree on: (party, hash of its item), ascending by party.
pub type ItemSet = Vec<(Party, ItemHash)>;

/// Which of the two graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Network {
    /// Noise-encrypted, mutually authenticated; nobody else reads it.
    Private,
    /// In the clear, signed; everybody reads it.
    Public,
}

/// The phases of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Who takes part.
    Gathering,
    /// Rounds of shares.
    Mixing,
    /// Agreeing on logs.
    Settling,
    /// Agreeing on finals.
    Publishing,
    /// Over.
    Done,
}

impl Phase {
    /// Its name in events and receipts.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Gathering => "gathering",
            Phase::Mixing => "mixing",
            Phase::Settling => "settling",
            Phase::Publishing => "publishing",
            Phase::Done => "done",
        }
    }
}

/// The two agreements: on logs, then on finals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// The items are logs.
    Settling,
    /// The items are finals.
    Publishing,
}

impl Stage {
    /// Both, in order.
    pub const ALL: [Stage; 2] = [Stage::Settling, Stage::Publishing];

    /// The phase that it happens in.
    pub const fn phase(self) -> Phase {
        match self {
            Stage::Settling => Phase::Settling,
            Stage::Publishing => Phase::Publishing,
        }
    }
}

/// A party of a START, with the incarnation that its READY named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seat {
    /// Who.
    pub party: Party,
    /// Which start of its node.
    pub incarnation: Incarnation,
}

/// What a party tells of its result of averaging: see [`dissemination::sketch`](crate::dissemination::sketch). Public, as the result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sketch {
    /// Of the signs.
    pub seed: sketch::Seed,
    /// Sums of the result's coordinates, in units that the plan and E fix.
    pub sums: [i64; sketch::SUMS],
}

/// What a public message says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// This start of the author's node is ready to begin.
    Ready {
        /// Of this start.
        incarnation: Incarnation,
    },
    /// The author begins with exactly these, if they all say so.
    Start {
        /// Ascending by party.
        seats: Vec<Seat>,
    },
    /// The author's item of a stage; its bytes travel apart.
    Item {
        /// Which stage.
        stage: Stage,
        /// SHA-256 of its bytes.
        hash: ItemHash,
        /// How many they are.
        bytes: u64,
    },
    /// What the author holds at half-time.
    List {
        /// Which stage.
        stage: Stage,
        /// The items.
        set: ItemSet,
    },
    /// The author's one vote of a stage.
    Vote {
        /// Which stage.
        stage: Stage,
        /// Whether it was signed before the author's half-time, since the set was complete.
        early: bool,
        /// The items.
        set: ItemSet,
    },
    /// The author found the party gone while it did not hold its item of the stage.
    Gone {
        /// Which stage.
        stage: Stage,
        /// Who is gone.
        party: Party,
    },
    /// To one neighbour: send me the bytes of this item.
    Want {
        /// Which stage.
        stage: Stage,
        /// Whose item.
        item: Party,
    },
    /// To one neighbour: I cannot send you the bytes of this item; ask somebody else.
    Lack {
        /// Which stage.
        stage: Stage,
        /// Whose item.
        item: Party,
    },
    /// To one neighbour: I lack READYs that a START names; send me all that you hold.
    Call,
    /// Averaging: the author missed a message. All fall back to ratio consensus.
    Missed,
    /// Averaging: the author has cut its edge to this party and taken back its net flow over it. So does the party.
    Severed {
        /// At the other end.
        party: Party,
        /// Whether the author holds the party's opening, so that it can enter it in the party's stead.
        held: bool,
    },
    /// Averaging: the author has its result, or knows that it gets none, and never changes it again.
    Averaged {
        /// Whether it is over all of E, and as accurate as the plan asks for: then it tells its sums.
        whole: bool,
    },
    /// Averaging, to one neighbour: I am here, and wait for others.
    Waiting,
    /// READY where the schedule is drawn at START.
    Commit {
        /// Of this start.
        incarnation: Incarnation,
        /// To the nonce of this start.
        commitment: Commitment,
    },
    /// START where the schedule is drawn at START.
    Reveal {
        /// Ascending by party.
        seats: Vec<Seat>,
        /// Of their READYs.
        commitments: Commitments,
        /// The author's.
        nonce: Nonce,
    },
    /// Averaging: sums of the author's result.
    Sums {
        /// Its first ones are 0.
        number: u8,
        /// Members of E of whose [`Averaged`](Notice::Averaged) the author had not heard before it told the seed, ascending. For these the sums prove nothing.
        unheard: Vec<Party>,
        /// The sums.
        sketch: Box<Sketch>,
    },
}

/// Which form of averaging a message belongs to. Each is begun once, from the same opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Form {
    /// The scheduled rounds; round 0 is the opening.
    Fast,
    /// Ratio consensus.
    Ratio,
}

/// What a node says in one round of averaging, the same to all of its neighbours; its vector travels beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Who says it.
    pub author: Party,
    /// Of the plan.
    pub digest: Digest,
    /// In which form.
    pub form: Form,
    /// From 0.
    pub round: u32,
    /// Ratio: names the set of cut edges that the author's state takes into account.
    pub view: u64,
    /// Ratio: the largest difference between neighbours that the author has heard of in this window; ∞ if it cannot tell.
    pub spread: f64,
    /// By the author's key.
    pub signature: Signature,
}

impl Notice {
    /// The phase that it belongs to.
    pub fn phase(&self) -> Phase {
        match self {
            Notice::Ready { .. }
            | Notice::Start { .. }
            | Notice::Call
            | Notice::Commit { .. }
            | Notice::Reveal { .. } => Phase::Gathering,
            Notice::Item { stage, .. }
            | Notice::List { stage, .. }
            | Notice::Vote { stage, .. }
            | Notice::Gone { stage, .. }
            | Notice::Want { stage, .. }
            | Notice::Lack { stage, .. } => stage.phase(),
            Notice::Missed
            | Notice::Severed { .. }
            | Notice::Averaged { .. }
            | Notice::Sums { .. }
            | Notice::Waiting => Phase::Publishing,
        }
    }

    /// Whether it is for one neighbour only; all others are flooded.
    pub fn is_direct(&self) -> bool {
        matches!(
            self,
            Notice::Want { .. } | Notice::Lack { .. } | Notice::Call | Notice::Waiting
        )
    }
}

/// For whom a public message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recipient {
    /// Flooded.
    All,
    /// One neighbour.
    Party(Party),
}

/// An ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

impl Serialize for Signature {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (mut head, mut tail) = ([0; 32], [0; 32]);
        head.copy_from_slice(&self.0[..32]);
        tail.copy_from_slice(&self.0[32..]);
        (head, tail).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (head, tail) = <([u8; 32], [u8; 32])>::deserialize(deserializer)?;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&head);
        signature[32..].copy_from_slice(&tail);
        Ok(Signature(signature))
    }
}

/// A notice with its envelope, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedNotice {
    /// Who says it.
    pub author: Party,
    /// Of the plan.
    pub digest: Digest,
    /// Grows with every message of an author, also from one start of its node to the next.
    pub sequence: u64,
    /// For whom.
    pub recipient: Recipient,
    /// What it says.
    pub notice: Notice,
    /// By the author's key.
    pub signature: Signature,
}

/// Why a signed message is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Another plan's.
    #[error("it belongs to plan {}, not to {}", hex(found), hex(expected))]
    Digest {
        /// In the message.
        found: Digest,
        /// Ours.
        expected: Digest,
    },
    /// No such party.
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
const SEED_DOMAIN: &[u8] = b"undertone/signs/2\0";

fn public_bytes(
    author: Party,
    digest: &Digest,
    sequence: u64,
    recipient: Recipient,
    phase: Phase,
    body: &[u8],
) -> Vec<u8> {
    let mut bytes = PUBLIC_DOMAIN.to_vec();
    bytes.extend_from_slice(digest);
    bytes.push(phase as u8);
    bytes.extend_from_slice(&sequence.to_le_bytes());
    match recipient {
        Recipient::All => bytes.push(0),
        Recipient::Party(party) => {
            bytes.push(1);
            bytes.extend_from_slice(&(party as u64).to_le_bytes());
        }
    }
    bytes.extend_from_slice(&(author as u64).to_le_bytes());
    bytes.extend_from_slice(&Sha256::digest(body));
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
    bytes.push(round.form as u8);
    bytes.extend_from_slice(&round.round.to_le_bytes());
    bytes.extend_from_slice(&round.view.to_le_bytes());
    bytes.extend_from_slice(&round.spread.to_bits().to_le_bytes());
    bytes.extend_from_slice(&Sha256::digest(values));
    bytes
}

/// The public keys of a plan's members, which check what others signed.
#[derive(Clone, Debug)]
pub struct Members {
    digest: Digest,
    keys: Vec<PublicKey>,
}

impl Members {
    /// The members' keys in plan order.
    pub fn new(digest: Digest, keys: Vec<PublicKey>) -> Self {
        Members { digest, keys }
    }

    /// n.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The plan's digest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Checks author, digest and signature.
    pub fn verify(&self, signed: &SignedNotice) -> Result<(), MessageError> {
        self.same_plan(&signed.digest)?;
        let body = wire::notice_to_bytes(&signed.notice);
        let bytes = public_bytes(
            signed.author,
            &signed.digest,
            signed.sequence,
            signed.recipient,
            signed.notice.phase(),
            &body,
        );
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
        if key.verify(bytes, &signature.0) {
            Ok(())
        } else {
            Err(MessageError::Signature(author))
        }
    }
}

/// This node's key and its place in the plan.
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
    /// Signs as party `me`; `epoch` is larger than every sequence number that earlier starts of this node used (wall-clock
    /// milliseconds at the start × 2^16 will do).
    pub fn new(me: Party, digest: Digest, key: Keypair, epoch: u64) -> Self {
        Signer {
            me,
            digest,
            key,
            sequence: epoch,
        }
    }

    /// Whose signer it is.
    pub fn me(&self) -> Party {
        self.me
    }

    /// Signs a notice with the next sequence number.
    pub fn sign(&mut self, recipient: Recipient, notice: Notice) -> Result<SignedNotice, MessageError> {
        let sequence = self.sequence.saturating_add(1);
        let body = wire::notice_to_bytes(&notice);
        let signature = self.signature(&public_bytes(
            self.me,
            &self.digest,
            sequence,
            recipient,
            notice.phase(),
            &body,
        ))?;
        self.sequence = sequence;
        Ok(SignedNotice {
            author: self.me,
            digest: self.digest,
            sequence,
            recipient,
            notice,
            signature,
        })
    }

    /// Signs an answer to a share that this party received.
    pub fn answer(&self, share: ShareId, verdict: Verdict) -> Result<Answer, MessageError> {
        Ok(Answer {
            verdict,
            signature: self.signature(&answer_bytes(&self.digest, share, verdict))?,
        })
    }

    /// Signs what this node says in a round of averaging.
    pub fn round(
        &self,
        form: Form,
        round: u32,
        view: u64,
        spread: f64,
        values: &[u8],
    ) -> Result<Round, MessageError> {
        let signature = Signature([0; 64]);
        let mut signed = Round {
            author: self.me,
            digest: self.digest,
            form,
            round,
            view,
            spread,
            signature,
        };
        signed.signature = self.signature(&round_bytes(&signed, values))?;
        Ok(signed)
    }

    /// The seed of this node's sums of that number, which nobody else can know before it tells it: a hash of a signature that it shows to nobody.
    pub fn seed(&self, number: u8) -> Result<sketch::Seed, MessageError> {
        let signature = self.signature(&[SEED_DOMAIN, &self.digest[..], &[number]].concat())?;
        Ok(sketch::seed_of(&signature.0))
    }

    fn signature(&self, bytes: &[u8]) -> Result<Signature, MessageError> {
        let signature = self.key.sign(bytes).map_err(|_| MessageError::Signing)?;
        Ok(Signature(
            signature.try_into().map_err(|_| MessageError::Signing)?,
        ))
    }
}

/// SHA-256 of an item's bytes.
pub fn item_hash(bytes: &[u8]) -> ItemHash {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party_key(seed: u8) -> Keypair {
        Keypair::ed25519_from_bytes([seed; 32]).expect("32 bytes")
    }

    fn members() -> Members {
        Members::new([7; 32], vec![party_key(1).public(), party_key(2).public()])
    }

    #[test]
    fn a_signature_binds_everything_in_the_envelope() {
        let mut signer = Signer::new(1, [7; 32], party_key(2), 100);
        let signed = signer
            .sign(
                Recipient::All,
                Notice::Gone {
                    stage: Stage::Settling,
                    party: 0,
                },
            )
            .expect("signs");
        assert_eq!(signed.sequence, 101);
        assert_eq!(members().verify(&signed), Ok(()));
        let forged = |change: &dyn Fn(&mut SignedNotice)| {
            let mut forged = signed.clone();
            change(&mut forged);
            members().verify(&forged).is_err()
        };
        assert!(forged(&|m| m.author = 0));
        assert!(forged(&|m| m.author = 5));
        assert!(forged(&|m| m.digest = [8; 32]));
        assert!(forged(&|m| m.sequence += 1));
        assert!(forged(&|m| m.recipient = Recipient::Party(0)));
        assert!(forged(&|m| m.notice = Notice::Gone {
            stage: Stage::Publishing,
            party: 0
        }));
        assert!(forged(&|m| m.notice = Notice::Gone {
            stage: Stage::Settling,
            party: 1
        }));
        assert!(forged(&|m| m.signature.0[5] ^= 1));
    }

    #[test]
    fn an_answer_binds_the_share_and_the_verdict() {
        let signer = Signer::new(1, [7; 32], party_key(2), 0);
        let share = ShareId {
            round: 3,
            from: 0,
            to: 1,
        };
        let answer = signer
            .answer(share, Verdict::Accepted { applied: 3 })
            .expect("signs");
        assert_eq!(members().verify_answer(share, &answer), Ok(()));
        assert!(
            members()
                .verify_answer(ShareId { round: 2, ..share }, &answer)
                .is_err()
        );
        assert!(
            members()
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
    fn a_round_binds_everything_that_it_says() {
        let signer = Signer::new(1, [7; 32], party_key(2), 0);
        let round = signer.round(Form::Ratio, 3, 9, 0.5, b"vector").expect("signs");
        assert_eq!(members().verify_round(&round, b"vector"), Ok(()));
        assert!(members().verify_round(&round, b"vectos").is_err());
        for forged in [
            Round { author: 0, ..round },
            Round {
                digest: [8; 32],
                ..round
            },
            Round {
                form: Form::Fast,
                ..round
            },
            Round { round: 4, ..round },
            Round { view: 8, ..round },
            Round {
                spread: 0.25,
                ..round
            },
        ] {
            assert!(members().verify_round(&forged, b"vector").is_err(), "{forged:?}");
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
