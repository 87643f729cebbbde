//! The peers that may connect, and the streams of each connection. Unlike libp2p's own stream
//! behaviour it says which connection a stream is on, and opens one on the connection that is asked
//! for. On the public graph connections of the same peer id are not worth the same.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::core::upgrade::{InboundUpgrade, OutboundUpgrade, UpgradeInfo};
use libp2p::swarm::handler::{
    ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound,
};
use libp2p::swarm::{
    ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId, FromSwarm, NetworkBehaviour,
    NotifyHandler, SubstreamProtocol, ToSwarm,
};
use libp2p::{Multiaddr, PeerId, Stream, StreamProtocol};
use tokio::sync::oneshot;

use crate::network::lane::{Lane, NotOpened, Stay};
use crate::network::peer_table::PeerTable;

/// Somebody waits for a stream.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) protocol: StreamProtocol,
    pub(super) stay: Stay,
    pub(super) answer: oneshot::Sender<Result<Lane, NotOpened>>,
}

/// A stream that a peer has opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) peer: PeerId,
    pub(super) connection: ConnectionId,
    pub(super) protocol: StreamProtocol,
    pub(super) stream: Stream,
}

/// The connecting peer is not listed.
#[derive(Debug)]
pub(super) struct NotListed;

impl fmt::Display for NotListed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer is not listed")
    }
}

impl std::error::Error for NotListed {}

/// Lets listed peers in.
pub(super) struct Door {
    peer_table: Arc<PeerTable>,
    protocols: Vec<StreamProtocol>,
    actions: VecDeque<ToSwarm<Opened, Opening>>,
    waker: Option<Waker>,
}

impl Door {
    pub(super) fn new(peer_table: Arc<PeerTable>, protocols: Vec<StreamProtocol>) -> Door {
        Door {
            peer_table,
            protocols,
            actions: VecDeque::new(),
            waker: None,
        }
    }

    /// Opens a stream on the connection that it is to stay on; the answer comes once it is open, or
    /// is dropped with the connection.
    pub(super) fn open(&mut self, peer_id: PeerId, opening: Opening) {
        let handler = NotifyHandler::One(opening.stay.connection);
        self.actions.push_back(ToSwarm::NotifyHandler {
            peer_id,
            handler,
            event: opening,
        });
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn handler(&self, peer: &PeerId) -> Result<Handler, ConnectionDenied> {
        if !self.peer_table.admits(peer) {
            return Err(ConnectionDenied::new(NotListed));
        }
        Ok(Handler {
            protocols: self.protocols.clone(),
            wanted: VecDeque::new(),
            opened: VecDeque::new(),
        })
    }
}

impl NetworkBehaviour for Door {
    type ConnectionHandler = Handler;
    type ToSwarm = Opened;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<Handler, ConnectionDenied> {
        self.handler(&peer)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<Handler, ConnectionDenied> {
        self.handler(&peer)
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        (protocol, stream): (StreamProtocol, Stream),
    ) {
        self.actions.push_back(ToSwarm::GenerateEvent(Opened {
            peer,
            connection,
            protocol,
            stream,
        }));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<ToSwarm<Opened, Opening>> {
        if let Some(action) = self.actions.pop_front() {
            return Poll::Ready(action);
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The streams of one connection.
pub(super) struct Handler {
    protocols: Vec<StreamProtocol>,
    wanted: VecDeque<Opening>,
    /// Bounded by the muxer's number of streams.
    opened: VecDeque<(StreamProtocol, Stream)>,
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Opening;
    type ToBehaviour = (StreamProtocol, Stream);
    type InboundProtocol = Protocols;
    type OutboundProtocol = Protocols;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Opening;

    fn listen_protocol(&self) -> SubstreamProtocol<Protocols> {
        SubstreamProtocol::new(Protocols(self.protocols.clone()), ())
    }

    fn on_behaviour_event(&mut self, opening: Opening) {
        self.wanted.push_back(opening);
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Protocols, Protocols, (), Opening>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol, .. }) => {
                self.opened.push_back(protocol)
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound {
                protocol: (_, stream),
                info,
            }) => {
                let Opening { stay, answer, .. } = info;
                let _ = answer.send(Ok(Lane { stream, stay }));
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { info, error }) => {
                let _ = info.answer.send(Err(error.into()));
            }
            _ => {}
        }
    }

    fn poll(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<ConnectionHandlerEvent<Protocols, Opening, (StreamProtocol, Stream)>> {
        if let Some(opened) = self.opened.pop_front() {
            return Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(opened));
        }
        if let Some(opening) = self.wanted.pop_front() {
            let protocol = SubstreamProtocol::new(Protocols(vec![opening.protocol.clone()]), opening);
            return Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol });
        }
        // The swarm polls again after every event that it hands over.
        Poll::Pending
    }
}

/// Any of these protocols, and which one it became.
pub(super) struct Protocols(Vec<StreamProtocol>);

impl UpgradeInfo for Protocols {
    type Info = StreamProtocol;
    type InfoIter = std::vec::IntoIter<StreamProtocol>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.clone().into_iter()
    }
}

impl InboundUpgrade<Stream> for Protocols {
    type Output = (StreamProtocol, Stream);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: Stream, protocol: StreamProtocol) -> Self::Future {
        ready(Ok((protocol, stream)))
    }
}

impl OutboundUpgrade<Stream> for Protocols {
    type Output = (StreamProtocol, Stream);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_outbound(self, stream: Stream, protocol: StreamProtocol) -> Self::Future {
        ready(Ok((protocol, stream)))
    }
}
