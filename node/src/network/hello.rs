//! The first exchange on every stream: who is there, and for which run.
//!
//! On the public graph this is all that proves identity, because libp2p's plaintext asks for a
//! public key only. All four messages have fixed lengths, in every version:
//!
//! | from | bytes |
//! | --- | --- |
//! | acceptor | `C`, nonce 32 |
//! | opener | `H`, graph (and protocol) 1, version 4 (big endian), digest 32, nonce 32, sig. 64 |
//! | acceptor | `A`, verdict 1, version 4, digest 32, signature 64 |
//!
//! Both signatures cover a domain, the graph, the signer's version and digest, both peer ids and
//! both nonces, so that neither can be used for another stream, direction, graph, run or pair. The
//! answer is signed as well: else an impostor could welcome us, or reject us in the name of
//! somebody else. (A man in the middle who relays all four messages is not kept out; he can read
//! and drop what is public anyway, and each public message is signed by its author.)

use std::io;
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use libp2p::PeerId;
use libp2p::identity::{Keypair, PublicKey};
use rand::Rng;
use thiserror::Error;
use tokio::time::timeout;
use tracing::trace;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::plan::hex::hex;

use crate::network::offence::Offence;

const HELLO_DOMAIN: &[u8] = b"undertone/hello/1";
const ANSWER_DOMAIN: &[u8] = b"undertone/answer/1";
const CHALLENGE: usize = 1 + 32;
const HELLO: usize = 1 + 1 + 4 + 32 + 32 + 64;
const ANSWER: usize = 1 + 1 + 4 + 32 + 64;
const WELCOME: u8 = 0;
const REJECTED: u8 = 1;
const DECLINED: u8 = 2;

/// Stands for the graph in what is signed.
pub(super) fn code(graph: Network) -> u8 {
    match graph {
        Network::Private => 1,
        Network::Public => 2,
    }
}

/// Bytes that the opener of a stream sends before its first frame; the acceptor sends
/// [`ACCEPTOR_BYTES`].
pub(super) const OPENER_BYTES: usize = HELLO;
/// Bytes that the acceptor of a stream sends.
pub(super) const ACCEPTOR_BYTES: usize = CHALLENGE + ANSWER;

/// The facts that both ends of a stream must agree on whatever the run, and the keys to prove it.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) graph: Network,
    /// The stream is for questions, not for a run's frames.
    pub(super) asks: bool,
    pub(super) version: u32,
    pub(super) key: Keypair,
    pub(super) peer: PeerId,
    pub(super) peer_key: PublicKey,
    pub(super) patience: Duration,
}

/// The reasons why no stream came of it.
#[derive(Debug, Error)]
pub(super) enum HelloError {
    /// The connection broke, or the peer said nothing in time.
    #[error("no hello: {0}")]
    Io(#[from] io::Error),
    /// The other side is to blame.
    #[error("{0}")]
    Offence(Offence),
    /// One side has no such run (yet, or any more); it may have others.
    #[error("no such run")]
    Absent,
    /// The one side was asked to take part in the run, and does not.
    #[error("it takes no part in the run")]
    Declined,
}

impl Credentials {
    /// Stands for the graph and the protocol in what is signed.
    fn code(&self) -> u8 {
        code(self.graph) + if self.asks { 2 } else { 0 }
    }
}

impl HelloError {
    /// Whether the other side has shown that it holds its key, though no stream came of it.
    pub(super) fn proves(&self) -> bool {
        match self {
            HelloError::Io(_) | HelloError::Offence(Offence::NoHello { .. }) => false,
            HelloError::Offence(_) | HelloError::Absent | HelloError::Declined => true,
        }
    }
}

/// The acceptor's decision on the run that the opener names.
pub(super) enum Verdict<R> {
    /// It is one of ours.
    Welcome(R),
    /// We have this one only.
    Other([u8; 32]),
    /// It is none of ours.
    Absent,
    /// We take no part in it.
    Declined,
}

impl<R> Verdict<R> {
    pub(super) fn map<T>(self, into: impl FnOnce(R) -> T) -> Verdict<T> {
        match self {
            Verdict::Welcome(run) => Verdict::Welcome(into(run)),
            Verdict::Other(digest) => Verdict::Other(digest),
            Verdict::Absent => Verdict::Absent,
            Verdict::Declined => Verdict::Declined,
        }
    }
}

/// Named by an acceptor that has no such run, and no other to name.
const NO_RUN: [u8; 32] = [0; 32];

impl From<Offence> for HelloError {
    fn from(offence: Offence) -> HelloError {
        HelloError::Offence(offence)
    }
}

/// One signer's word: everything that its signature covers.
struct Word<'a> {
    domain: &'a [u8],
    verdict: u8,
    graph: u8,
    version: [u8; 4],
    digest: [u8; 32],
    opener: PeerId,
    acceptor: PeerId,
    acceptor_nonce: [u8; 32],
    opener_nonce: [u8; 32],
}

impl Word<'_> {
    /// The signed bytes. Peer ids are the only parts of variable length and carry theirs.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(self.domain);
        bytes.extend_from_slice(&[0, self.verdict, self.graph]);
        bytes.extend_from_slice(&self.version);
        bytes.extend_from_slice(&self.digest);
        for peer in [self.opener, self.acceptor] {
            let peer = peer.to_bytes();
            // An ed25519 peer id has 38 bytes; none has more than 64 and a few.
            bytes.push(peer.len() as u8);
            bytes.extend_from_slice(&peer);
        }
        bytes.extend_from_slice(&self.acceptor_nonce);
        bytes.extend_from_slice(&self.opener_nonce);
        bytes
    }

    fn sign(&self, key: &Keypair) -> io::Result<[u8; 64]> {
        let (opener, acceptor) = (self.opener, self.acceptor);
        trace!(digest = hex(&self.digest), %opener, %acceptor, verdict = self.verdict, "hello signed");
        let signature = key.sign(&self.bytes()).map_err(io::Error::other)?;
        signature
            .try_into()
            .map_err(|_| io::Error::other("not an ed25519 signature"))
    }

    fn holds(&self, signature: &[u8], key: &PublicKey) -> bool {
        key.verify(&self.bytes(), signature)
    }
}

/// Proves to the acceptor of a new stream who we are, and learns the same of it. `Ok`: the stream
/// may carry our frames.
pub(super) async fn open<S>(stream: &mut S, ours: &Credentials, digest: [u8; 32]) -> Result<(), HelloError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    timeout(ours.patience, open_without_limit(stream, ours, digest))
        .await
        .unwrap_or_else(|_| Err(silence()))
}

async fn open_without_limit<S>(stream: &mut S, ours: &Credentials, digest: [u8; 32]) -> Result<(), HelloError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // Their nonce.
    let challenge: [u8; CHALLENGE] = read(stream).await?;
    if challenge[0] != b'C' {
        return Err(Offence::NoHello {
            reason: "the challenge is malformed",
        }
        .into());
    }
    let mut word = Word {
        domain: HELLO_DOMAIN,
        verdict: WELCOME,
        graph: ours.code(),
        version: ours.version.to_be_bytes(),
        digest,
        opener: ours.key.public().to_peer_id(),
        acceptor: ours.peer,
        acceptor_nonce: array(&challenge[1..]),
        opener_nonce: nonce(),
    };
    // Our word over both nonces.
    let mut hello = Vec::with_capacity(HELLO);
    hello.extend_from_slice(&[b'H', word.graph]);
    hello.extend_from_slice(&word.version);
    hello.extend_from_slice(&word.digest);
    hello.extend_from_slice(&word.opener_nonce);
    hello.extend_from_slice(&word.sign(&ours.key)?);
    stream.write_all(&hello).await?;
    stream.flush().await?;

    // Their word: what was ours with their version, digest and verdict.
    let answer: [u8; ANSWER] = read(stream).await?;
    word.domain = ANSWER_DOMAIN;
    word.verdict = answer[1];
    word.version = array(&answer[2..6]);
    word.digest = array(&answer[6..38]);
    if answer[0] != b'A' || !word.holds(&answer[38..], &ours.peer_key) {
        return Err(Offence::NoHello {
            reason: "the signature of its answer is wrong",
        }
        .into());
    }
    // The signature holds: whatever they say now is theirs.
    same_version(ours, word.version)?;
    match word.verdict {
        WELCOME if word.digest == digest => Ok(()),
        REJECTED if word.digest == NO_RUN => Err(HelloError::Absent),
        DECLINED if word.digest == NO_RUN => Err(HelloError::Declined),
        _ if word.digest != digest => Err(Offence::OtherDigest {
            theirs: word.digest,
            ours: digest,
        }
        .into()),
        _ => Err(Offence::NoHello {
            reason: "it rejected us without a reason",
        }
        .into()),
    }
}

/// Challenges the opener of a new stream. `Ok`: it is the peer, in the run that `verdict` welcomes,
/// and its frames may be read. One with another digest or version receives ours before the stream
/// is closed.
pub(super) async fn accept<S, R>(
    stream: &mut S,
    ours: &Credentials,
    verdict: impl FnOnce(&[u8; 32]) -> Verdict<R>,
) -> Result<R, HelloError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    timeout(ours.patience, accept_without_limit(stream, ours, verdict))
        .await
        .unwrap_or_else(|_| Err(silence()))
}

async fn accept_without_limit<S, R>(
    stream: &mut S,
    ours: &Credentials,
    verdict: impl FnOnce(&[u8; 32]) -> Verdict<R>,
) -> Result<R, HelloError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let acceptor_nonce = nonce();
    let mut challenge = [b'C'; CHALLENGE];
    challenge[1..].copy_from_slice(&acceptor_nonce);
    stream.write_all(&challenge).await?;
    stream.flush().await?;

    // Their word over both nonces; nothing of it counts before its signature holds.
    let hello: [u8; HELLO] = read(stream).await?;
    let mut word = Word {
        domain: HELLO_DOMAIN,
        verdict: WELCOME,
        graph: hello[1],
        version: array(&hello[2..6]),
        digest: array(&hello[6..38]),
        opener: ours.peer,
        acceptor: ours.key.public().to_peer_id(),
        acceptor_nonce,
        opener_nonce: array(&hello[38..70]),
    };
    if hello[0] != b'H' {
        return Err(Offence::NoHello {
            reason: "it is malformed",
        }
        .into());
    }
    if !word.holds(&hello[70..], &ours.peer_key) {
        return Err(Offence::NoHello {
            reason: "its signature is wrong",
        }
        .into());
    }
    if word.graph != ours.code() {
        return Err(Offence::NoHello {
            reason: "it is for the other graph or protocol",
        }
        .into());
    }
    // It is the peer: whether it may come in depends on version and run.
    let theirs = word.digest;
    let (named, fits) = match same_version(ours, word.version).map(|()| verdict(&theirs)) {
        Ok(Verdict::Welcome(run)) => (theirs, Ok(run)),
        Ok(Verdict::Other(ours)) => (ours, Err(Offence::OtherDigest { theirs, ours }.into())),
        Ok(Verdict::Absent) => (NO_RUN, Err(HelloError::Absent)),
        Ok(Verdict::Declined) => (NO_RUN, Err(HelloError::Declined)),
        Err(error) => (NO_RUN, Err(error)),
    };

    // Our word, also to somebody who is rejected.
    word.domain = ANSWER_DOMAIN;
    word.verdict = match &fits {
        Ok(_) => WELCOME,
        Err(HelloError::Declined) => DECLINED,
        Err(_) => REJECTED,
    };
    word.version = ours.version.to_be_bytes();
    word.digest = named;
    let mut answer = Vec::with_capacity(ANSWER);
    answer.extend_from_slice(&[b'A', word.verdict]);
    answer.extend_from_slice(&word.version);
    answer.extend_from_slice(&word.digest);
    answer.extend_from_slice(&word.sign(&ours.key)?);
    stream.write_all(&answer).await?;
    stream.flush().await?;
    if fits.is_err() {
        // Dropping the stream would reset it and might overtake the rejection: wait until the
        // opener has read it.
        stream.close().await?;
        let _ = stream.read(&mut [0]).await;
    }
    fits
}

fn same_version(ours: &Credentials, version: [u8; 4]) -> Result<(), HelloError> {
    let theirs = u32::from_be_bytes(version);
    if theirs != ours.version {
        return Err(Offence::OtherVersion {
            theirs,
            ours: ours.version,
        }
        .into());
    }
    Ok(())
}

async fn read<const N: usize, S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("all messages have fixed lengths")
}

fn nonce() -> [u8; 32] {
    let mut nonce = [0; 32];
    rand::rng().fill_bytes(&mut nonce);
    nonce
}

fn silence() -> HelloError {
    HelloError::Io(io::ErrorKind::TimedOut.into())
}
