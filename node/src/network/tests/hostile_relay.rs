//! Relays that do what they must not: with the bytes that they pass on, and with what they say.
//!
//! A relay can cut and delay, so that it chooses who departs. It cannot read, change or join
//! anything else, and who stands behind it is not blamed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{io, mem};

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, StreamExt};
use libp2p::core::Transport;
use libp2p::core::upgrade::Version;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId, Stream, StreamProtocol, noise, tcp};
use libp2p_stream::Control;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use undertone_protocol::messages::notice::Network;

use super::nodes::{Addresses, Node, NodeConfig, id, key, opening, soon};
use super::relays::{RELAY, address_of, relay_of, without_addresses};
use crate::forking;
use crate::network::event::NetworkEvent;
use crate::network::muxer::Yamux;

const HOP: StreamProtocol = StreamProtocol::new("/libp2p/circuit/relay/0.2.0/hop");
const STOP: StreamProtocol = StreamProtocol::new("/libp2p/circuit/relay/0.2.0/stop");

/// An honest relay beside the hostile one.
const HONEST: u8 = 8;

/// Statuses of the relay protocol.
const OK: u64 = 100;
const NO_RESERVATION: u64 = 204;

/// The harm that a relay does.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// It passes each piece on later.
    Delays,
    /// It cuts circuits.
    Cuts,
    /// It flips a bit.
    Flips,
    /// It passes a piece on twice.
    Repeats,
    /// It passes a piece on behind the next one.
    Swaps,
    /// It has circuits lead to this one, whoever is asked for.
    LeadsTo(u8),
    /// It names this one as whom circuits come from.
    Names(u8),
    /// It says that nobody has a place.
    Denies,
    /// It has this as the end of reservations, in seconds since 1970.
    Until(u64),
}

/// How many bytes of the first circuits pass before they are harmed: none, in the handshake, and
/// in what follows it. Later circuits are left alone.
const SPARED: [usize; 4] = [0, 200, 1_500, 9_000];

/// A number in protobuf's form.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A field of bytes behind its length.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag], &varint(bytes.len() as u64)[..], bytes].concat()
}

async fn write(stream: &mut Stream, message: &[u8]) -> io::Result<()> {
    let framed = [&varint(message.len() as u64)[..], message].concat();
    stream.write_all(&framed).await?;
    stream.flush().await
}

/// Messages here are shorter than 128 bytes, so that their lengths are one byte.
async fn read(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut length = [0];
    stream.read_exact(&mut length).await?;
    let mut message = vec![0; usize::from(length[0])];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// A hostile relay. Dropping it ends it.
struct HostileRelay {
    _tasks: JoinSet<()>,
    /// How often it has done harm.
    harmed: watch::Receiver<usize>,
}

#[derive(Clone)]
struct Circuits {
    harm: Harm,
    at: Multiaddr,
    control: Control,
    count: Arc<AtomicUsize>,
    harmed: watch::Sender<usize>,
}

impl HostileRelay {
    fn start(at: &Multiaddr, harm: Harm) -> Self {
        let transport = tcp::tokio::Transport::default()
            .upgrade(Version::V1Lazy)
            .authenticate(noise::Config::new(&key(RELAY)).unwrap())
            .multiplex(Yamux::new(16 << 10));
        let mut swarm = opening(transport.boxed(), id(RELAY));
        forking::until_over();
        swarm.listen_on(at.clone()).unwrap();
        let circuits = Circuits {
            harm,
            at: at.clone(),
            control: swarm.behaviour().new_control(),
            count: Arc::default(),
            harmed: watch::channel(0).0,
        };
        let harmed = circuits.harmed.subscribe();
        let mut asked = circuits.control.clone().accept(HOP).unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut serving = JoinSet::new();
            loop {
                tokio::select! {
                    _ = swarm.next() => {}
                    Some((peer, stream)) = asked.next() => {
                        let circuits = circuits.clone();
                        serving.spawn(async move { circuits.serve(peer, stream).await });
                    }
                }
            }
        });
        HostileRelay {
            _tasks: tasks,
            harmed,
        }
    }
}

impl Circuits {
    fn harm(&self) {
        self.harmed.send_modify(|harmed| *harmed += 1);
    }

    async fn serve(mut self, from: PeerId, mut stream: Stream) -> io::Result<()> {
        let asked = read(&mut stream).await?;
        // `{1: type, 2: {1: id}}`, of which a reservation has the first alone.
        let Some(to) = asked.get(6..) else {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let end = match self.harm {
                Harm::Until(end) => {
                    self.harm();
                    end
                }
                _ => now.as_secs() + 3600,
            };
            let at = self.at.clone().with(Protocol::P2p(id(RELAY))).to_vec();
            let place = [&[0x08][..], &varint(end), &field(0x12, &at)].concat();
            let taken = [&[0x08, 2][..], &field(0x1a, &place), &[0x28], &varint(OK)].concat();
            return write(&mut stream, &taken).await;
        };
        let status = |status| [&[0x08, 2, 0x28][..], &varint(status)].concat();
        if matches!(self.harm, Harm::LeadsTo(_) | Harm::Names(_) | Harm::Denies) {
            self.harm();
        }
        let to = match self.harm {
            Harm::LeadsTo(other) => id(other),
            Harm::Denies => return write(&mut stream, &status(NO_RESERVATION)).await,
            _ => PeerId::from_bytes(to).map_err(io::Error::other)?,
        };
        let named = match self.harm {
            Harm::Names(other) => id(other),
            _ => from,
        };
        let opened = self.control.open_stream(to, STOP).await;
        let mut onward = opened.map_err(io::Error::other)?;
        let peer = field(0x0a, &named.to_bytes());
        write(&mut onward, &[&[0x08, 0][..], &field(0x12, &peer)].concat()).await?;
        read(&mut onward).await?;
        write(&mut stream, &status(OK)).await?;
        let spared = SPARED.get(self.count.fetch_add(1, Ordering::SeqCst)).copied();
        // Counted here: two may ask at once, and each circuit is harmed once.
        if spared.is_some() {
            self.harm();
        }
        let ((a, b), (c, d)) = (stream.split(), onward.split());
        let there = carry(self.harm, a, d, spared);
        let back = carry(self.harm, c, b, None);
        tokio::select! {
            ended = there => ended,
            ended = back => ended,
        }
    }
}

async fn carry(
    harm: Harm,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    spared: Option<usize>,
) -> io::Result<()> {
    let (mut buffer, mut held, mut passed) = (vec![0; 4096], vec![], 0);
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.close().await;
        }
        let piece = &mut buffer[..read];
        let is_now = spared.is_some_and(|spared| (passed..passed + read).contains(&spared));
        passed += read;
        match harm {
            Harm::Delays => sleep(Duration::from_millis(20)).await,
            Harm::Cuts if is_now => return Err(io::ErrorKind::ConnectionAborted.into()),
            Harm::Flips if is_now => piece[read - 1] ^= 1,
            Harm::Repeats if is_now => to.write_all(piece).await?,
            Harm::Swaps if is_now => {
                held = piece.to_vec();
                continue;
            }
            _ => {}
        }
        to.write_all(piece).await?;
        to.write_all(&mem::take(&mut held)).await?;
        to.flush().await?;
    }
}

/// Longer than what is spared of any circuit.
static LONG: [u8; 30_000] = [7; 30_000];

/// Waits until the node hears this word from a peer. Until then it hears from nobody else, hears
/// nothing that was not sent, and blames nobody.
async fn hears(node: &mut Node, from: u8, word: u8) {
    loop {
        match node.next().await {
            NetworkEvent::Frame {
                peer, bytes: frame, ..
            } => {
                assert_eq!(peer, id(from));
                match frame[..] {
                    [heard] if heard == word => return,
                    // One that was said more than once.
                    [heard] if heard < word => {}
                    _ => assert!(frame[..] == LONG, "{} bytes that nobody sent", frame.len()),
                }
            }
            NetworkEvent::Connected { peer, .. } => assert_eq!(peer, id(from)),
            blame @ (NetworkEvent::Offence { peer: Some(_), .. } | NetworkEvent::Unreachable { .. }) => {
                panic!("{blame:?}")
            }
            _ => {}
        }
    }
}

/// Both hear what the other says, over and over, until no circuit is harmed any more.
async fn speak(one: &mut Node, two: &mut Node) {
    one.handle.everybody_is_up();
    two.handle.everybody_is_up();
    for turn in 0..SPARED.len() as u8 {
        for graph in [Network::Private, Network::Public] {
            one.send(graph, 2, &LONG);
            two.send(graph, 1, &LONG);
        }
        says(one, two, (1, 2), turn).await;
        says(two, one, (2, 1), turn).await;
    }
}

/// Sends a word until it is heard: frames that were under way when a circuit broke are lost.
async fn says(from: &mut Node, to: &mut Node, numbers: (u8, u8), word: u8) {
    let heard = hears(to, numbers.0, word);
    tokio::pin!(heard);
    loop {
        from.send(Network::Private, numbers.1, &[word]);
        tokio::select! {
            () = &mut heard => return,
            () = sleep(Duration::from_millis(200)) => {}
        }
    }
}

#[tokio::test]
async fn what_a_relay_cuts_delays_or_changes_is_lost_and_nobody_behind_it_is_blamed() {
    for harm in [Harm::Delays, Harm::Cuts, Harm::Flips, Harm::Repeats, Harm::Swaps] {
        let addresses = Addresses::new(&[1, 2, RELAY]);
        let at = address_of(&addresses, RELAY);
        let relay = HostileRelay::start(&at, harm);
        let hidden = |number| without_addresses(addresses.config(number), &[1, 2], number, &at);
        let mut one = Node::start(hidden(1)).await;
        let mut two = Node::start(hidden(2)).await;
        speak(&mut one, &mut two).await;
        let harmed = *relay.harmed.borrow();
        println!("{harm:?}: {harmed} circuits");
        assert!(harmed == SPARED.len() || matches!(harm, Harm::Delays));
    }
}

/// Three that nobody can dial, a relay that lies, and one that does not.
#[tokio::test]
async fn a_relay_that_lies_joins_nobody_with_somebody_else_and_another_one_serves() {
    for harm in [
        Harm::LeadsTo(3),
        Harm::Names(3),
        Harm::Denies,
        Harm::Until(0),
        Harm::Until(1 << 33),
        // Beyond all clocks: libp2p's client panics, in the task of that connection alone.
        Harm::Until(u64::MAX),
    ] {
        let numbers = [1, 2, 3, RELAY, HONEST];
        let addresses = Addresses::new(&numbers);
        let (at, honest) = (address_of(&addresses, RELAY), address_of(&addresses, HONEST));
        let mut hostile = HostileRelay::start(&at, harm);
        let hidden = |number| {
            let mut config: NodeConfig = without_addresses(addresses.config(number), &[1, 2, 3], number, &at);
            config.hub.relays.push(crate::network::config::PeerAddress {
                peer_id: id(HONEST),
                addresses: vec![honest.clone()],
            });
            for graph in [&mut config.run.private, &mut config.run.public] {
                graph.peers.retain(|peer| peer.peer_id != id(HONEST));
                // One and two meet; three is there.
                graph.peers.retain(|peer| number != 3 && peer.peer_id != id(3));
            }
            config.run.links.retain(|peer| peer.peer_id != id(HONEST));
            config
        };
        let mut one = Node::start(hidden(1)).await;
        let mut two = Node::start(hidden(2)).await;
        let _three = Node::start(hidden(3)).await;
        // Whichever of the two relays is asked first: there is one.
        let harmed = hostile.harmed.wait_for(|harmed| *harmed > 0);
        soon(harmed).await.expect("it is there");
        println!("{harm:?}");
        let _honest = relay_of(HONEST, &honest, &[1, 2, 3]).await;
        speak(&mut one, &mut two).await;
    }
}
