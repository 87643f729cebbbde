//! Questions between listed peers that belong to no run: is it you, which version, do you know this
//! plan, how fast is the way; and a plan that is offered.
//!
//! A question is signed by who asks, its reply by who was asked, over the question's nonce: on the
//! public graph anybody on the way could otherwise answer in a peer's name. Both signatures cover a
//! domain, both peer ids, the graph, the nonce, the message and the bytes beside it. A question
//! that is played back later is kept off by the hello of its stream.

use libp2p_identity::{Keypair, PeerId, PublicKey};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::messages::notice::Network;
use crate::messages::question::{ECHO_LIMIT, OFFER_LIMIT, Question, Reply};
use crate::messages::revocation::STATEMENTS_LIMIT;
use crate::messages::signature::Signature;
use crate::messages::wire::{WireError, asks};

const QUESTION_DOMAIN: &[u8] = b"undertone/question/1";
const REPLY_DOMAIN: &[u8] = b"undertone/reply/1";

/// Most bytes of a text in a reply.
pub const TEXT_LIMIT: usize = 1024;

/// The longest frame of a question.
pub const fn question_frame_limit() -> usize {
    OFFER_LIMIT + 1024
}

/// The longest frame of a reply.
pub const fn reply_frame_limit() -> usize {
    ECHO_LIMIT + 4 * TEXT_LIMIT
}

/// An error in a question or a reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AskError {
    /// A message whose bytes cannot be read.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Not signed by the peer, for us, on this graph, with this nonce.
    #[error("its signature is wrong")]
    Signature,
    /// More bytes beside it, or longer texts, than it may have.
    #[error("it is too long")]
    TooLong,
}

/// Between whom, where: what both signatures cover beside the message.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The peer that asks.
    pub asker: PeerId,
    /// The peer that is asked.
    pub answerer: PeerId,
    /// The graph on which it is asked.
    pub network: Network,
    /// The nonce of the question, random.
    pub nonce: [u8; 16],
}

impl Context {
    fn covered(&self, domain: &[u8], message: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(domain);
        bytes.extend_from_slice(&[0, self.network as u8]);
        for peer in [self.asker, self.answerer] {
            let peer = peer.to_bytes();
            // An ed25519 peer id has 38 bytes; none has more than 64 and a few.
            bytes.push(peer.len() as u8);
            bytes.extend_from_slice(&peer);
        }
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&Sha256::digest(message));
        bytes.extend_from_slice(&Sha256::digest(payload));
        bytes
    }

    fn sign(&self, key: &Keypair, domain: &[u8], message: &[u8], payload: &[u8]) -> Signature {
        let signature = key
            .sign(&self.covered(domain, message, payload))
            .expect("ed25519 signs everything");
        Signature(signature.try_into().expect("an ed25519 signature has 64 bytes"))
    }

    fn check(
        &self,
        key: &PublicKey,
        domain: &[u8],
        message: &[u8],
        payload: &[u8],
        by: &Signature,
    ) -> Result<(), AskError> {
        let fine = key.verify(&self.covered(domain, message, payload), &by.0);
        if fine { Ok(()) } else { Err(AskError::Signature) }
    }

    /// The frame of a question, signed with the asker's ed25519 key.
    pub fn question(&self, key: &Keypair, question: &Question, payload: &[u8]) -> Vec<u8> {
        let signature = self.sign(key, QUESTION_DOMAIN, &asks::question_to_bytes(question), payload);
        asks::question_frame(self.nonce, signature, question, payload)
    }

    /// The frame of a reply, signed with the answerer's ed25519 key.
    pub fn reply(&self, key: &Keypair, reply: &Reply, payload: &[u8]) -> Vec<u8> {
        let signature = self.sign(key, REPLY_DOMAIN, &asks::reply_to_bytes(reply), payload);
        asks::reply_frame(self.nonce, signature, reply, payload)
    }

    /// Reads a question of the asker with this key; the nonce of this context does not matter.
    /// Returns the context with the question's nonce, the question, and its payload.
    pub fn read_question<'a>(
        mut self,
        key: &PublicKey,
        frame: &'a [u8],
    ) -> Result<(Context, Question, &'a [u8]), AskError> {
        let (nonce, signature, question, payload) = asks::read_question(frame)?;
        self.nonce = nonce;
        self.check(
            key,
            QUESTION_DOMAIN,
            &asks::question_to_bytes(&question),
            payload,
            &signature,
        )?;
        if payload.len() > question.payload_limit() {
            return Err(AskError::TooLong);
        }
        Ok((self, question, payload))
    }

    /// Reads the reply to the question of this context, of the answerer with this key.
    pub fn read_reply<'a>(&self, key: &PublicKey, frame: &'a [u8]) -> Result<(Reply, &'a [u8]), AskError> {
        let (nonce, signature, reply, payload) = asks::read_reply(frame)?;
        if nonce != self.nonce {
            return Err(AskError::Signature);
        }
        self.check(
            key,
            REPLY_DOMAIN,
            &asks::reply_to_bytes(&reply),
            payload,
            &signature,
        )?;
        let fits = |text: &str| text.len() <= TEXT_LIMIT;
        let fine = match &reply {
            Reply::Checked {
                software, plan, seen, ..
            } => fits(software) && fits(seen) && plan.as_deref().is_none_or(fits),
            Reply::Refused { reason } => fits(reason),
            Reply::Echoed
            | Reply::Taken
            | Reply::Attends { .. }
            | Reply::Early { .. }
            | Reply::Outcome { .. }
            | Reply::NoOutcome { .. } => true,
            Reply::Keys { .. } => payload.len() <= STATEMENTS_LIMIT,
        };
        if fine && payload.len() <= ECHO_LIMIT {
            Ok((reply, payload))
        } else {
            Err(AskError::TooLong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::peers::simulated_keypair;

    fn context() -> Context {
        let id = |party| simulated_keypair(party).public().to_peer_id();
        Context {
            asker: id(0),
            answerer: id(1),
            network: Network::Public,
            nonce: [7; 16],
        }
    }

    #[test]
    fn a_question_is_its_askers_for_one_peer_on_one_graph() {
        let (asker, ours) = (simulated_keypair(0), context());
        let question = Question::Check {
            digest: Some([5; 32]),
        };
        let frame = ours.question(&asker, &question, &[]);
        let read = Context {
            nonce: [0; 16],
            ..ours
        }
        .read_question(&asker.public(), &frame)
        .expect("a good question");
        assert_eq!((read.0.nonce, read.1, read.2), (ours.nonce, question, &[][..]));
        let elsewhere = [
            Context {
                asker: ours.answerer,
                ..ours
            },
            Context {
                answerer: ours.asker,
                ..ours
            },
            Context {
                network: Network::Private,
                ..ours
            },
        ];
        for context in elsewhere {
            assert_eq!(
                context.read_question(&asker.public(), &frame).unwrap_err(),
                AskError::Signature
            );
        }
        assert_eq!(
            ours.read_question(&simulated_keypair(2).public(), &frame)
                .unwrap_err(),
            AskError::Signature
        );
        let mut other = frame.clone();
        *other.last_mut().expect("not empty") ^= 1;
        assert!(ours.read_question(&asker.public(), &other).is_err());
    }

    #[test]
    fn a_reply_is_to_one_question() {
        let (answerer, ours) = (simulated_keypair(1), context());
        let frame = ours.reply(&answerer, &Reply::Echoed, b"bytes");
        assert_eq!(
            ours.read_reply(&answerer.public(), &frame),
            Ok((Reply::Echoed, &b"bytes"[..]))
        );
        let later = Context {
            nonce: [8; 16],
            ..ours
        };
        assert_eq!(
            later.read_reply(&answerer.public(), &frame),
            Err(AskError::Signature)
        );
        let mut forged = frame.clone();
        *forged.last_mut().expect("not empty") ^= 1;
        assert_eq!(
            ours.read_reply(&answerer.public(), &forged),
            Err(AskError::Signature)
        );
        let long = ours.reply(
            &answerer,
            &Reply::Refused {
                reason: "x".repeat(TEXT_LIMIT + 1),
            },
            &[],
        );
        assert_eq!(ours.read_reply(&answerer.public(), &long), Err(AskError::TooLong));
        // More statements than a list can have ids.
        for (more, expected) in [(0, true), (1, false)] {
            let payload = vec![0; STATEMENTS_LIMIT + more];
            let keys = ours.reply(&answerer, &Reply::Keys { held: [0; 32] }, &payload);
            assert_eq!(ours.read_reply(&answerer.public(), &keys).is_ok(), expected);
            let keys = ours.question(&simulated_keypair(0), &Question::Keys { held: [0; 32] }, &payload);
            let read = ours.read_question(&simulated_keypair(0).public(), &keys);
            assert_eq!(read.is_ok(), expected);
        }
        let payload = ours.question(&simulated_keypair(0), &Question::Check { digest: None }, &[1]);
        assert_eq!(
            ours.read_question(&simulated_keypair(0).public(), &payload)
                .unwrap_err(),
            AskError::TooLong
        );
    }
}
