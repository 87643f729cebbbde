//! Questions that belong to no run, on a stream protocol of their own on both graphs: see
//! `undertone_protocol::messages::ask`.
//!
//! A stream begins with the same hello as an edge's, under another domain, so that nothing can be
//! played back; then question and reply take turns, each a frame behind its length (4 bytes, big
//! endian). What holds: two streams of a peer are served at a time on each graph, 64 questions on
//! each; over all of them a peer may ask 64 at once and ten a second, and waits beyond that;
//! nothing is allocated ahead of what arrived.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{AsyncReadExt, AsyncWriteExt};
use libp2p::{PeerId, Stream, StreamProtocol};
use rand::Rng;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, trace};
use undertone_protocol::messages::ask::{
    AskError, Context, TEXT_LIMIT, question_frame_limit, reply_frame_limit,
};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::plan::hex::hex;
use undertone_protocol::plan::scheduled::{OccurrenceId, Scheduled};

use crate::network::dial_fault::DialFault;
use crate::network::hello::{self, Credentials, HelloError};
use crate::network::lane::{Lane, NotOpened};
use crate::network::offence::Offence;
use crate::network::peer_table::PeerTable;

/// The protocol; its number is that of the hello's layout.
pub(super) const ASK: StreamProtocol = StreamProtocol::new("/undertone/ask/1");
/// Named in the hello of a stream that carries questions: they belong to no run.
pub(super) const NO_RUN: [u8; 32] = [0; 32];
/// Streams of one peer on one graph that are served at the same time.
const SERVED: usize = 2;
/// Streams of one peer on one graph that are open for questions: the others wait for their turn.
/// Our choice: a daemon asks as many things at once where several runs begin together.
pub(super) const OPEN: usize = 16;

/// The turns of one peer on one graph to be served.
#[derive(Clone)]
pub(super) struct ServedTurns(Arc<Semaphore>);

impl Default for ServedTurns {
    fn default() -> Self {
        ServedTurns(Arc::new(Semaphore::new(SERVED)))
    }
}

impl ServedTurns {
    /// Waits for a turn, which is over when this is dropped.
    pub(super) async fn next(self) -> OwnedSemaphorePermit {
        self.0.acquire_owned().await.expect("nobody closes it")
    }
}

/// Questions on one stream.
const QUESTIONS: usize = 64;
/// Questions that a peer may ask at once.
const BURST: f64 = 64.0;
/// Questions that a peer may ask again each second.
const PER_SECOND: f64 = 10.0;
/// How long a peer may be silent between two questions, and a [`PIECE`] of a frame take to move.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long whoever owns the hub may take to make up its mind about a question.
const THOUGHT: Duration = Duration::from_secs(5);
/// Bytes of a frame that are written or read under one deadline.
const PIECE: usize = 64 << 10;

/// A question that the hub cannot answer by itself. Without an answer within 5 s, or when it is
/// dropped, the hub says no.
#[derive(Debug)]
pub enum Asked {
    /// A question about a plan that is not one of the attached runs.
    Plan {
        /// The peer that asks; it has proved that.
        peer: PeerId,
        /// The plan's digest.
        digest: [u8; 32],
        /// In a word ("offered", "done", …); none: it is not known.
        answer: oneshot::Sender<Option<String>>,
    },
    /// Will you take part in this plan? Nothing of it was looked at.
    Offer {
        /// The peer that offers it; it has proved that.
        peer: PeerId,
        /// The graph over which it came.
        graph: Network,
        /// The plan file's bytes.
        plan: Vec<u8>,
        /// Taken, or why not.
        answer: oneshot::Sender<Result<(), NotTaken>>,
    },
    /// Will you take part in the plan that the asker makes for this attempt of a schedule?
    Attend {
        /// The peer that asks; it has proved that, on the encrypted graph.
        peer: PeerId,
        /// The occurrence, and the attempt at it.
        scheduled: Scheduled,
        /// The number of records that are brought, where that is asked for; or why not.
        answer: oneshot::Sender<Result<Option<u32>, NotTaken>>,
    },
    /// Which outcome has the run of this plan?
    Outcome {
        /// The peer that asks, over Noise; it has proved that.
        peer: PeerId,
        /// The plan's digest.
        digest: [u8; 32],
        /// The first byte that it asks for.
        from: u64,
        /// The reply, with a piece of the outcome beside it.
        answer: oneshot::Sender<(Reply, Vec<u8>)>,
    },
    /// Which keys are revoked?
    Keys {
        /// Stands for what the asker holds.
        held: [u8; 32],
        /// Statements that the asker knows this node to lack. Nothing of them was checked.
        statements: Vec<u8>,
        /// The reply, with the statements that are held beside it.
        answer: oneshot::Sender<(Reply, Vec<u8>)>,
    },
}

/// The reason why an offer is not taken, in the words that its proposer receives.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// As many offers as there are places for are looked at now.
    #[error("it looks at other offers; offer it again in a while")]
    Busy,
    /// A person has said no.
    #[error("its operator declined it")]
    Declined,
    /// Something about the plan is not acceptable here.
    #[error("{0}")]
    Unacceptable(String),
    /// The attempt of a schedule has not begun by this node's clock.
    #[error("it is earlier by this node's clock")]
    Early {
        /// That clock, in milliseconds since 1970.
        time_ms: u64,
    },
    /// Nobody here looks at offers, or nobody made up their mind in time.
    #[error("this node takes no offers now")]
    Closed,
}

/// The reasons why a peer that is there took no question.
#[derive(Debug, Error)]
pub enum Closed {
    /// It opened no stream for it.
    #[error(transparent)]
    NotOpened(#[from] NotOpened),
    /// It said that it has nothing for us.
    #[error("it rejected us")]
    Rejected,
    /// The stream broke on the way.
    #[error(transparent)]
    Broken(io::Error),
    /// It replied to something that was not asked.
    #[error("it answered another question")]
    OtherReply,
}

/// The reasons why there is no reply.
#[derive(Debug, Error)]
pub enum AskFault {
    /// The peer is not listed here.
    #[error("it is not listed")]
    NotListed,
    /// A statement says that its key is not to be trusted any more.
    #[error("its key was revoked")]
    Revoked,
    /// The peer cannot be reached.
    #[error(transparent)]
    Dial(#[from] DialFault),
    /// It is there and speaks otherwise.
    #[error("it {0}")]
    Offence(Offence),
    /// It takes no questions, or closed the stream.
    #[error("it did not take the question: {0}")]
    Closed(#[from] Closed),
    /// It looks at other offers, and takes this one later.
    #[error("{}", NotTaken::Busy)]
    Busy,
    /// It took the question and said nothing in time.
    #[error("it did not answer in time")]
    Silent,
    /// The answer is no reply to this question.
    #[error("its reply is unusable: {0}")]
    Reply(#[from] AskError),
}

impl From<io::Error> for AskFault {
    fn from(error: io::Error) -> AskFault {
        match error.kind() {
            io::ErrorKind::TimedOut => AskFault::Silent,
            _ => Closed::Broken(error).into(),
        }
    }
}

impl From<HelloError> for AskFault {
    fn from(error: HelloError) -> AskFault {
        match error {
            HelloError::Offence(offence) => AskFault::Offence(offence),
            HelloError::Io(error) => error.into(),
            HelloError::Absent | HelloError::Declined => Closed::Rejected.into(),
        }
    }
}

/// A stream on which one peer can be asked.
pub struct Inquiry {
    lane: Lane,
    credentials: Credentials,
}

impl Inquiry {
    /// Says hello on a new stream.
    pub(super) async fn begin(mut lane: Lane, credentials: Credentials) -> Result<Inquiry, AskFault> {
        hello::open(&mut lane.stream, &credentials, NO_RUN).await?;
        Ok(Inquiry { lane, credentials })
    }

    /// Asks, and waits for the reply and the bytes beside it.
    ///
    /// # Errors
    /// No reply within ten seconds (of a last byte), or none that the peer has signed for this
    /// question.
    pub async fn ask(&mut self, question: &Question, payload: &[u8]) -> Result<(Reply, Vec<u8>), AskFault> {
        let Credentials {
            graph,
            ref key,
            peer,
            ref peer_key,
            ..
        } = self.credentials;
        log_asked((graph, peer), question);
        let mut nonce = [0; 16];
        rand::rng().fill_bytes(&mut nonce);
        let context = Context {
            asker: key.public().to_peer_id(),
            answerer: peer,
            network: graph,
            nonce,
        };
        write_frame(&mut self.lane.stream, &context.question(key, question, payload)).await?;
        let frame = read_frame(&mut self.lane.stream, reply_frame_limit()).await?;
        let (reply, payload) = context.read_reply(peer_key, &frame)?;
        Ok((reply, payload.to_vec()))
    }
}

fn log_asked((graph, peer): (Network, PeerId), question: &Question) {
    let (kind, plan) = match *question {
        Question::Check { digest } => ("check", digest),
        Question::Outcome { digest, .. } => ("outcome", Some(digest)),
        Question::Echo => ("echo", None),
        Question::Offer => ("offer", None),
        Question::Attend { .. } => ("attend", None),
        Question::Keys { .. } => ("keys", None),
    };
    let digest = plan.map(|digest| hex(&digest));
    trace!(digest, %graph, %peer, kind, "question asked");
}

/// Where questions are answered.
pub(super) struct Desk {
    peer_table: Arc<PeerTable>,
    asked: Arc<Mutex<Option<mpsc::Sender<Asked>>>>,
    /// SHA-256 of this node's peer list, if it has one.
    list: watch::Receiver<Option<[u8; 32]>>,
    allowances: Mutex<BTreeMap<PeerId, Allowance>>,
}

/// How many questions a peer may ask now.
struct Allowance {
    left: f64,
    at: Instant,
}

impl Desk {
    pub(super) fn new(
        peer_table: Arc<PeerTable>,
        asked: Arc<Mutex<Option<mpsc::Sender<Asked>>>>,
        list: watch::Receiver<Option<[u8; 32]>>,
    ) -> Desk {
        Desk {
            peer_table,
            asked,
            list,
            allowances: Mutex::default(),
        }
    }

    /// Answers on a stream whose opener has said hello. `seen`: from where it comes.
    pub(super) async fn serve(&self, mut lane: Lane, credentials: Credentials, seen: String) {
        for _ in 0..QUESTIONS {
            if let Err(fault) = self.answer(&mut lane.stream, &credentials, &seen).await {
                debug!(graph = %credentials.graph, peer = %credentials.peer, %fault, "no more questions");
                return;
            }
        }
    }

    async fn answer(
        &self,
        stream: &mut Stream,
        credentials: &Credentials,
        seen: &str,
    ) -> Result<(), AskFault> {
        let Credentials {
            graph,
            ref key,
            peer,
            ref peer_key,
            ..
        } = *credentials;
        let frame = read_frame(stream, question_frame_limit()).await?;
        sleep(self.wait(peer, Instant::now())).await;
        if self.peer_table.is_barred(&peer) {
            return Err(AskFault::Revoked);
        }
        let context = Context {
            asker: peer,
            answerer: key.public().to_peer_id(),
            network: graph,
            nonce: [0; 16],
        };
        let (context, question, payload) = context.read_question(peer_key, &frame)?;
        let (reply, payload) = match question {
            Question::Check { digest } => (self.check(credentials, digest, seen).await, vec![]),
            Question::Echo => (Reply::Echoed, payload.to_vec()),
            Question::Offer => (self.offer((graph, peer), payload.to_vec()).await, vec![]),
            // How many records a party has is for the proposer alone.
            Question::Attend { .. } if graph != Network::Private => (refused(NotTaken::Closed), vec![]),
            Question::Attend { occurrence, attempt } => {
                let occurrence = OccurrenceId(occurrence);
                (self.attend(peer, Scheduled { occurrence, attempt }).await, vec![])
            }
            // Anybody on the way reads a plain connection: results are their owners', and who heard
            // of a revocation is nobody else's concern.
            Question::Outcome { .. } | Question::Keys { .. } if graph == Network::Public => {
                let reason = "this is told over encrypted connections only".to_owned();
                (Reply::Refused { reason }, vec![])
            }
            Question::Outcome { digest, from } => self.outcome(peer, digest, from).await,
            Question::Keys { held } => self.keys(held, payload.to_vec()).await,
        };
        Ok(write_frame(stream, &context.reply(key, &reply, &payload)).await?)
    }

    /// How long the peer's next question must wait.
    fn wait(&self, peer: PeerId, now: Instant) -> Duration {
        let mut allowances = self.allowances.lock().unwrap_or_else(PoisonError::into_inner);
        allowances.retain(|other, _| *other == peer || self.peer_table.lists(other));
        let allowance = allowances
            .entry(peer)
            .or_insert(Allowance { left: BURST, at: now });
        allowance.left = (allowance.left + (now - allowance.at).as_secs_f64() * PER_SECOND).min(BURST) - 1.0;
        allowance.at = now;
        Duration::from_secs_f64((-allowance.left / PER_SECOND).max(0.0))
    }

    async fn check(&self, credentials: &Credentials, digest: Option<[u8; 32]>, seen: &str) -> Reply {
        let Credentials {
            graph, peer, version, ..
        } = *credentials;
        let plan = match digest {
            Some(digest) if self.peer_table.has(&digest) => Some("running".to_owned()),
            Some(digest) => {
                let asked = |answer| Asked::Plan { peer, digest, answer };
                self.put(asked).await.flatten()
            }
            None => None,
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Reply::Checked {
            messages: version,
            software: env!("CARGO_PKG_VERSION").to_owned(),
            time_ms: since.as_millis() as u64,
            plan: plan.map(shortened),
            other: self.peer_table.only().filter(|only| Some(*only) != digest),
            seen: shortened(seen.to_owned()),
            // Who is in a group is not for everybody on the way.
            list: self.list.borrow().filter(|_| graph == Network::Private),
        }
    }

    async fn offer(&self, (graph, peer): (Network, PeerId), plan: Vec<u8>) -> Reply {
        let said = self.put(|answer| Asked::Offer {
            peer,
            graph,
            plan,
            answer,
        });
        let said = said.await;
        match said.unwrap_or(Err(NotTaken::Closed)) {
            Ok(()) => Reply::Taken,
            Err(why) => refused(why),
        }
    }

    async fn attend(&self, peer: PeerId, scheduled: Scheduled) -> Reply {
        let said = self.put(|answer| Asked::Attend {
            peer,
            scheduled,
            answer,
        });
        match said.await.unwrap_or(Err(NotTaken::Closed)) {
            Ok(records) => Reply::Attends { records },
            Err(NotTaken::Early { time_ms }) => Reply::Early { time_ms },
            Err(why) => refused(why),
        }
    }

    async fn outcome(&self, peer: PeerId, digest: [u8; 32], from: u64) -> (Reply, Vec<u8>) {
        if self.peer_table.has(&digest) {
            return (Reply::NoOutcome { running: true }, vec![]);
        }
        let asked = |answer| Asked::Outcome {
            peer,
            digest,
            from,
            answer,
        };
        // Whether there is one is not known now, which is no "none".
        self.put(asked)
            .await
            .unwrap_or_else(|| (refused(NotTaken::Closed), vec![]))
    }

    async fn keys(&self, held: [u8; 32], statements: Vec<u8>) -> (Reply, Vec<u8>) {
        let asked = |answer| Asked::Keys {
            held,
            statements,
            answer,
        };
        let nobody = || (refused(NotTaken::Closed), vec![]);
        self.put(asked).await.unwrap_or_else(nobody)
    }

    /// Asks whoever owns the hub.
    async fn put<T>(&self, asked: impl FnOnce(oneshot::Sender<T>) -> Asked) -> Option<T> {
        let sender = self
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        let (answer, answered) = oneshot::channel();
        sender.try_send(asked(answer)).ok()?;
        timeout(THOUGHT, answered).await.ok()?.ok()
    }
}

fn refused(why: NotTaken) -> Reply {
    Reply::Refused {
        reason: shortened(why.to_string()),
    }
}

fn shortened(mut text: String) -> String {
    let end = (0..=TEXT_LIMIT.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    text.truncate(end);
    text
}

async fn write_frame(stream: &mut Stream, frame: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(4 + frame.len());
    // Our own frames are below the limits, which are far below 2^32.
    bytes.extend_from_slice(&(frame.len() as u32).to_be_bytes());
    bytes.extend_from_slice(frame);
    for piece in bytes.chunks(PIECE) {
        timeout(PATIENCE, stream.write_all(piece)).await??;
    }
    timeout(PATIENCE, stream.flush()).await?
}

async fn read_frame(stream: &mut Stream, limit: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    timeout(PATIENCE, stream.read_exact(&mut length)).await??;
    let length = u32::from_be_bytes(length) as usize;
    if length > limit {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes, the limit is {limit}"),
        ));
    }
    let mut frame = Vec::new();
    while frame.len() < length {
        let filled = frame.len();
        frame.resize((filled + PIECE).min(length), 0);
        timeout(PATIENCE, stream.read_exact(&mut frame[filled..])).await??;
    }
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use libp2p::identity::Keypair;

    use super::*;
    use crate::network::address::Whereabouts;

    #[test]
    fn a_peer_may_ask_64_questions_at_once_and_ten_a_second() {
        let peer_table = Arc::new(PeerTable::new(Network::Private, None, false));
        let desk = Desk::new(peer_table.clone(), Arc::default(), watch::channel(None).1);
        let [asker, other] = [(); 2].map(|()| Keypair::generate_ed25519().public());
        for key in [&asker, &other] {
            peer_table.list(key.to_peer_id(), key, &Whereabouts::default());
        }
        let begun = Instant::now();
        let at = |tenths: u32| begun + Duration::from_millis(100) * tenths;
        let wait = |tenths: u32| desk.wait(asker.to_peer_id(), at(tenths)).as_millis();
        assert!((0..64).all(|_| wait(0) == 0));
        assert_eq!([wait(0), wait(0)], [100, 200]);
        assert_eq!(
            desk.wait(other.to_peer_id(), at(0)),
            Duration::ZERO,
            "to each its own"
        );
        assert_eq!([wait(3), wait(3)], [0, 100]);
        // A long silence gives no more than that.
        assert!((0..64).all(|_| wait(1_000) == 0));
        assert_eq!(wait(1_000), 100);
        // Who is not listed any more is forgotten.
        peer_table.unlist(&other.to_peer_id());
        peer_table.expire(
            begun + Duration::from_secs(3_600),
            &std::collections::BTreeSet::new(),
        );
        wait(1_000);
        assert_eq!(desk.allowances.lock().unwrap().len(), 1);
    }

    #[test]
    fn long_texts_are_cut_between_two_characters() {
        assert_eq!(shortened("short".to_owned()), "short");
        let exact = "x".repeat(TEXT_LIMIT);
        assert_eq!(shortened(exact.clone()), exact);
        assert_eq!(shortened(format!("{exact}y")), exact);
        let wide = format!("{}ε", "x".repeat(TEXT_LIMIT - 1));
        assert_eq!(shortened(wide), "x".repeat(TEXT_LIMIT - 1));
    }
}
