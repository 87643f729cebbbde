//! libp2p's plaintext asks for a public key and no proof. Somebody who knows only the public key of
//! a listed peer gets through its handshake and the allow-list; the hello is what stops it.

use std::time::Duration;
use std::{io, iter};

use futures::future::BoxFuture;
use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, StreamExt};
use libp2p::core::Transport;
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade, UpgradeInfo, Version};
use libp2p::identity::PublicKey;
use libp2p::swarm::SwarmEvent;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{Multiaddr, PeerId, Swarm, tcp};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;

use crate::network::address::Place;
use crate::network::event::NetworkEvent;
use crate::network::muxer::Yamux;
use crate::network::offence::Offence;
use crate::network::session::STREAM;
use crate::network::tests::nodes::*;

/// The plaintext handshake with another's public key.
#[derive(Clone)]
struct Forged {
    pretended: PublicKey,
    target: PeerId,
}

impl UpgradeInfo for Forged {
    type Info = &'static str;
    type InfoIter = iter::Once<&'static str>;

    fn protocol_info(&self) -> Self::InfoIter {
        iter::once("/plaintext/2.0.0")
    }
}

impl Forged {
    /// Sends the protobuf `{1: peer id, 2: public key}` behind its length and skips the answer.
    async fn shake<S: AsyncRead + AsyncWrite + Unpin>(self, mut socket: S) -> io::Result<(PeerId, S)> {
        let (id, key) = (
            self.pretended.to_peer_id().to_bytes(),
            self.pretended.encode_protobuf(),
        );
        let mut exchange = vec![0, 0x0a, id.len() as u8];
        exchange.extend(&id);
        exchange.extend([0x12, key.len() as u8]);
        exchange.extend(&key);
        exchange[0] = (exchange.len() - 1) as u8;
        socket.write_all(&exchange).await?;
        socket.flush().await?;
        let mut length = [0];
        socket.read_exact(&mut length).await?;
        let mut answer = vec![0; length[0] as usize];
        socket.read_exact(&mut answer).await?;
        Ok((self.target, socket))
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> InboundConnectionUpgrade<S> for Forged {
    type Output = (PeerId, S);
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<(PeerId, S)>>;

    fn upgrade_inbound(self, socket: S, _: Self::Info) -> Self::Future {
        Box::pin(self.shake(socket))
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> OutboundConnectionUpgrade<S> for Forged {
    type Output = (PeerId, S);
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<(PeerId, S)>>;

    fn upgrade_outbound(self, socket: S, _: Self::Info) -> Self::Future {
        Box::pin(self.shake(socket))
    }
}

/// A swarm that pretends to be node `pretended` to node `target`.
fn impostor(target: u8, pretended: u8) -> Swarm<libp2p_stream::Behaviour> {
    let forged = Forged {
        pretended: key(pretended).public(),
        target: id(target),
    };
    let transport = tcp::tokio::Transport::default()
        .upgrade(Version::V1Lazy)
        .authenticate(forged)
        .multiplex(Yamux::new(16 << 10));
    opening(transport.boxed(), id(9))
}

/// Connects to `target` as node `pretended`, says a hello signed by node 9 with a frame right
/// behind it, and returns once the stream or the connection is closed.
async fn attack(target: &Multiaddr, target_number: u8, pretended: u8) {
    let mut swarm = impostor(target_number, pretended);
    let mut control = swarm.behaviour().new_control();
    swarm
        .dial(
            DialOpts::peer_id(id(target_number))
                .addresses(vec![target.clone()])
                .build(),
        )
        .unwrap();
    let attacking = async {
        let mut stream = control.open_stream(id(target_number), STREAM).await.unwrap();
        let mut challenge = [0; 33];
        stream
            .read_exact(&mut challenge)
            .await
            .expect("plaintext and the allow-list let us through");
        let mut hello = vec![b'H', 2, 0, 0, 0, 1];
        hello.extend(DIGEST);
        hello.extend([0; 32]);
        hello.extend(key(9).sign(&challenge).unwrap());
        hello.extend([0, 0, 0, 4, 1, 2, 3, 4]);
        let _ = stream.write_all(&hello).await;
        let _ = stream.flush().await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "an impostor was answered");
    };
    tokio::pin!(attacking);
    let attack = async {
        loop {
            tokio::select! {
                () = &mut attacking => return,
                _ = swarm.next() => {}
            }
        }
    };
    timeout(DEADLINE, attack)
        .await
        .expect("the impostor was left alone");
}

#[tokio::test]
async fn an_impostor_with_the_public_key_only_is_closed_out() {
    let addresses = Addresses::new(&[1, 2]);
    let mut one = Node::start(addresses.config(1)).await;
    attack(one.network.public_address(), 1, 2).await;
    let (peer, offence) = one.offence().await;
    assert!(
        peer == Some(id(2)) && matches!(offence, Offence::NoHello { .. }),
        "{offence}"
    );

    // The real one is not hindered, and its frames are the only ones.
    let mut two = Node::start(addresses.config(2)).await;
    one.connected(2).await;
    two.connected(2).await;
    two.send(Network::Public, 1, b"real");
    assert_eq!(one.frame().await, (Network::Public, id(2), b"real".to_vec()));
}

#[tokio::test]
async fn an_impostor_cannot_push_out_a_connected_peer() {
    let (mut one, two) = pair().await;
    attack(one.network.public_address(), 1, 2).await;
    let (peer, offence) = one.offence().await;
    assert!(
        peer == Some(id(2)) && matches!(offence, Offence::NoHello { .. }),
        "{offence}"
    );
    two.send(Network::Public, 1, b"still here");
    loop {
        match one.next().await {
            NetworkEvent::Frame { bytes, .. } => {
                assert_eq!(&bytes[..], b"still here");
                return;
            }
            NetworkEvent::Disconnected { .. } => panic!("the impostor has cut the edge"),
            _ => {}
        }
    }
}

/// The answer of somebody at a peer's address to a hello.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reply {
    /// An answer whose signature is wrong.
    Forged,
    /// Nothing, but the stream stays open.
    Silence,
    /// Nothing: the stream ends.
    End,
}

/// Listens in place of node `pretended`, says this to two hellos, and returns how many connections
/// that took.
async fn replies(reply: Reply) -> usize {
    // The lower id dials.
    let (dialler, pretended) = if id(1) < id(2) { (1, 2) } else { (2, 1) };
    let addresses = Addresses::new(&[1, 2]);
    let (_, private, public) = addresses.0[usize::from(pretended) - 1].clone();
    // Somebody is at the private address, or the peer would count as absent.
    let place = Place::parse(&private).unwrap().resolve().await.unwrap()[0];
    let _private = TcpListener::bind(place).await.unwrap();
    let mut swarm = impostor(dialler, pretended);
    let mut streams = swarm.behaviour().new_control().accept(STREAM).unwrap();
    swarm.listen_on(public).unwrap();
    while !matches!(swarm.select_next_some().await, SwarmEvent::NewListenAddr { .. }) {}
    let mut config = addresses.config(dialler);
    config.hub.patience.hello = Duration::from_millis(300);
    let _node = Node::start(config).await;
    let is_new = |event| usize::from(matches!(event, SwarmEvent::ConnectionEstablished { .. }));
    let (mut connections, mut open) = (0, vec![]);
    while open.len() < 2 {
        tokio::select! {
            event = swarm.select_next_some() => connections += is_new(event),
            Some((_, mut stream)) = streams.next() => {
                let saying = async {
                    stream.write_all(&[b'C'; 33]).await?;
                    stream.read_exact(&mut [0; 134]).await?;
                    if reply == Reply::Forged {
                        stream.write_all(&[b'A'; 102]).await?;
                        stream.flush().await?;
                    }
                    if reply == Reply::End {
                        stream.close().await?;
                    }
                    io::Result::Ok(stream)
                };
                let mut saying = std::pin::pin!(saying);
                open.push(loop {
                    tokio::select! {
                        said = &mut saying => break said,
                        event = swarm.select_next_some() => connections += is_new(event),
                    }
                });
            }
        }
    }
    connections
}

/// A node that answers wrongly, or not at all, is not the peer: the next attempt is on another
/// connection. Who ends a stream may be starting over on this very one.
#[tokio::test]
async fn a_connection_to_somebody_else_is_not_used_again() {
    for (reply, connections) in [(Reply::Forged, 2), (Reply::Silence, 2), (Reply::End, 1)] {
        assert_eq!(soon(replies(reply)).await, connections, "{reply:?}");
    }
}

/// Connects to `target` as node `pretended`, so many times, opens a stream on each connection,
/// hears the challenge and never says a word. Returns once all streams are open; they stay for as
/// long as the tasks run, which end when the target closes them.
async fn silence(
    tasks: &mut JoinSet<()>,
    target: &Multiaddr,
    target_number: u8,
    pretended: u8,
    connections: usize,
) {
    for _ in 0..connections {
        let mut swarm = impostor(target_number, pretended);
        let mut control = swarm.behaviour().new_control();
        swarm
            .dial(
                DialOpts::peer_id(id(target_number))
                    .addresses(vec![target.clone()])
                    .build(),
            )
            .unwrap();
        let opening = async {
            let mut stream = control
                .open_stream(id(target_number), STREAM)
                .await
                .expect("the allow-list lets us through");
            stream.read_exact(&mut [0; 33]).await.expect("a challenge");
            stream
        };
        tokio::pin!(opening);
        let stream = loop {
            tokio::select! {
                stream = &mut opening => break stream,
                _ = swarm.next() => {}
            }
        };
        tasks.spawn(async move {
            let _held = stream;
            while !matches!(
                swarm.select_next_some().await,
                SwarmEvent::ConnectionClosed { .. }
            ) {}
        });
    }
}

/// Twice as many as are let be.
const CROWD: usize = 16;

/// Node `victim` hears from somebody in the other's name before the other is there. The patience
/// with silence is longer than the test's: it is not by its end that the real one gets in.
async fn a_crowd_keeps_nobody_out(victim: u8) {
    let addresses = Addresses::new(&[1, 2]);
    let mut config = addresses.config(victim);
    config.hub.patience.hello = 2 * DEADLINE;
    let mut one = Node::start(config).await;
    let (mut crowd, target) = (JoinSet::new(), one.network.public_address().clone());
    soon(silence(&mut crowd, &target, victim, 3 - victim, CROWD)).await;
    let mut two = Node::start(addresses.config(3 - victim)).await;
    one.connected(2).await;
    two.connected(2).await;

    // Those that come later push nobody out either, and the oldest of them have gone.
    soon(silence(&mut crowd, &target, victim, 3 - victim, CROWD)).await;
    two.send(Network::Public, victim, b"still here");
    loop {
        match one.next().await {
            NetworkEvent::Frame { bytes, .. } => break assert_eq!(&bytes[..], b"still here"),
            NetworkEvent::Disconnected { .. } => panic!("the crowd has cut the edge"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn silence_in_a_peers_name_does_not_keep_it_out_when_it_dials() {
    a_crowd_keeps_nobody_out(if id(1) < id(2) { 2 } else { 1 }).await;
}

#[tokio::test]
async fn silence_in_a_peers_name_does_not_keep_it_out_when_it_is_dialled() {
    a_crowd_keeps_nobody_out(if id(1) < id(2) { 1 } else { 2 }).await;
}

/// Connections of peers that have not proved who they are: a few stay in each name, and not many in
/// all.
#[tokio::test]
async fn silent_connections_are_few_for_each_peer_and_over_all() {
    // Eight in a name; 32 in all, and two more for each of the six peers.
    for (names, connections, closed) in [(1, 9, 1), (6, 8, 6 * 8 - (32 + 2 * 6))] {
        let addresses = Addresses::new(&[1, 2, 3, 4, 5, 6, 7]);
        let mut config = addresses.config(1);
        config.hub.patience.hello = 2 * DEADLINE;
        let one = Node::start(config).await;
        let mut crowd = JoinSet::new();
        for pretended in 2..2 + names {
            let target = one.network.public_address();
            soon(silence(&mut crowd, target, 1, pretended, connections)).await;
        }
        for _ in 0..closed {
            soon(crowd.join_next()).await;
        }
        assert!(
            futures::poll!(std::pin::pin!(crowd.join_next())).is_pending(),
            "{names} names"
        );
    }
}

#[tokio::test]
async fn whoever_says_nothing_is_shown_out() {
    let addresses = Addresses::new(&[1, 2]);
    let mut config = addresses.config(1);
    config.hub.patience.hello = Duration::from_millis(100);
    let one = Node::start(config).await;
    let mut swarm = impostor(1, 2);
    swarm
        .dial(
            DialOpts::peer_id(id(1))
                .addresses(vec![one.network.public_address().clone()])
                .build(),
        )
        .unwrap();
    while !matches!(
        soon(swarm.select_next_some()).await,
        SwarmEvent::ConnectionClosed { .. }
    ) {}
}
