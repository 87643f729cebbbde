//! Yamux with a bounded receive window.
//!
//! libp2p's own wrapper hides yamux's settings and leaves the window of a connection at 1 GiB: a
//! peer that sends faster than we take could fill that much of our memory. Apart from the settings
//! this is the same wrapper.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::{io, iter};

use futures::{AsyncRead, AsyncWrite, future, ready};
use libp2p::core::UpgradeInfo;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade};
use yamux::{Connection, ConnectionError, Mode};

use crate::network::config::RUNS;

/// Streams of one connection: one each way for each run and graph, and some that are being
/// replaced.
const STREAMS: usize = 4 * RUNS + 16;
/// Beyond these, streams of a connection with a relay: one for each circuit, of which a party has
/// two with each other at most, and some that are being opened.
const CIRCUITS_TO_COME: usize = 64;
/// Streams of one connection that came in and were not looked at yet.
const WAITING: usize = 4;
/// Bytes that a peer may have sent on one connection and we have not yet taken, beyond those that
/// are granted to each stream: what streams may grow by. On loopback and at 100 ms round trip no
/// slower than no limit (8 MB frames).
const WINDOW: usize = 12 << 20;
/// The bytes that yamux grants each stream at once.
const GRANTED: usize = 256 << 10;

/// How to make a [`Muxer`] of a secured connection.
#[derive(Clone, Debug)]
pub(super) struct Yamux(yamux::Config);

impl Yamux {
    /// `piece` is the largest data frame in bytes. Larger ones save work where nothing is
    /// encrypted; under Noise, which cuts at 64 KiB itself, they gain nothing.
    pub(super) fn new(piece: usize) -> Yamux {
        Yamux::with_streams(piece, STREAMS)
    }

    /// For a connection that carries circuits between this many listed peers.
    pub(super) fn of_relay(piece: usize, listed: usize) -> Yamux {
        Yamux::with_streams(piece, STREAMS + CIRCUITS_TO_COME + 2 * listed)
    }

    fn with_streams(piece: usize, streams: usize) -> Yamux {
        let mut config = yamux::Config::default();
        config.set_max_num_streams(streams);
        config.set_max_connection_receive_window(Some(streams * GRANTED + WINDOW));
        config.set_split_send_size(piece);
        Yamux(config)
    }
}

impl UpgradeInfo for Yamux {
    type Info = &'static str;
    type InfoIter = iter::Once<Self::Info>;

    fn protocol_info(&self) -> Self::InfoIter {
        iter::once("/yamux/1.0.0")
    }
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> InboundConnectionUpgrade<C> for Yamux {
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = future::Ready<io::Result<Muxer<C>>>;

    fn upgrade_inbound(self, socket: C, _: Self::Info) -> Self::Future {
        future::ready(Ok(Muxer::new(Connection::new(socket, self.0, Mode::Server))))
    }
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> OutboundConnectionUpgrade<C> for Yamux {
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = future::Ready<io::Result<Muxer<C>>>;

    fn upgrade_outbound(self, socket: C, _: Self::Info) -> Self::Future {
        future::ready(Ok(Muxer::new(Connection::new(socket, self.0, Mode::Client))))
    }
}

/// A yamux connection that lets no stream get lost while the swarm does not ask.
pub(super) struct Muxer<C> {
    connection: Connection<C>,
    /// Streams that came in while the swarm drove the connection without asking for any.
    waiting: VecDeque<yamux::Stream>,
    waker: Option<Waker>,
}

impl<C: AsyncRead + AsyncWrite + Unpin + 'static> Muxer<C> {
    fn new(connection: Connection<C>) -> Muxer<C> {
        Muxer {
            connection,
            waiting: VecDeque::new(),
            waker: None,
        }
    }

    fn poll_connection(&mut self, context: &mut Context<'_>) -> Poll<io::Result<yamux::Stream>> {
        let next = ready!(self.connection.poll_next_inbound(context));
        Poll::Ready(next.unwrap_or(Err(ConnectionError::Closed)).map_err(to_io))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin + 'static> StreamMuxer for Muxer<C> {
    type Substream = yamux::Stream;
    type Error = io::Error;

    fn poll_inbound(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<yamux::Stream>> {
        if let Some(stream) = self.waiting.pop_front() {
            return Poll::Ready(Ok(stream));
        }
        if let Poll::Ready(next) = self.poll_connection(context) {
            return Poll::Ready(next);
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_outbound(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<yamux::Stream>> {
        self.connection.poll_new_outbound(context).map_err(to_io)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.poll_close(context).map_err(to_io)
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        let this = self.get_mut();
        let stream = ready!(this.poll_connection(context))?;
        // Beyond the limit the stream is dropped, which resets it.
        if this.waiting.len() < WAITING {
            this.waiting.push_back(stream);
            if let Some(waker) = this.waker.take() {
                waker.wake();
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn to_io(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::Io(error) => error,
        other => io::Error::other(other),
    }
}
