//! Bytes that each peer moves over a relay: counted, paced, and bounded by the day.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{AsyncRead, AsyncWrite};
use libp2p::PeerId;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes a second that one peer may send through a relay. Our choice: two fifths of a gigabit line,
/// so that a peer that sends without end leaves room for others.
const PER_SECOND: f64 = 50e6;
/// Bytes that it may send at once.
const BURST: f64 = 8e6;
/// Bytes that all peers share in a day, evenly: beyond its part a peer opens no new circuits.
const A_DAY: u64 = 1_000_000_000_000;
/// The least that such a part is.
const LEAST: u64 = 10_000_000_000;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// One peer's bytes.
#[derive(Debug)]
struct Meter {
    /// Bytes that it may still send at once; below zero it waits.
    tokens: f64,
    filled: Instant,
    /// Bytes from and to it since `since`.
    today: u64,
    since: Instant,
}

/// The bytes of all peers of one relay; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Meters {
    of: Arc<Mutex<BTreeMap<PeerId, Meter>>>,
    /// The bytes that all peers have sent.
    sent: Arc<AtomicU64>,
}

impl Meters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PeerId, Meter>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes of a peer; returns until when it waits if it has sent them too fast.
    fn count(&self, peer: PeerId, bytes: usize, sent: bool, now: Instant) -> Option<Instant> {
        let mut meters = self.lock();
        let meter = meters.entry(peer).or_insert(Meter {
            tokens: BURST,
            filled: now,
            today: 0,
            since: now,
        });
        if now.duration_since(meter.since) >= DAY {
            (meter.today, meter.since) = (0, now);
        }
        meter.today = meter.today.saturating_add(bytes as u64);
        if !sent {
            return None;
        }
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        let filled = meter.tokens + now.duration_since(meter.filled).as_secs_f64() * PER_SECOND;
        meter.tokens = filled.min(BURST) - bytes as f64;
        meter.filled = now;
        let wait = -meter.tokens / PER_SECOND;
        (wait > 0.0).then(|| now + Duration::from_secs_f64(wait))
    }

    /// The bytes that peers have sent to this node, most of them for others.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether a peer may open another circuit today, of so many that are listed.
    pub(super) fn may_open(&self, peer: &PeerId, listed: usize, now: Instant) -> bool {
        let part = (A_DAY / listed.max(1) as u64).max(LEAST);
        let meters = self.lock();
        let today = meters
            .get(peer)
            .filter(|meter| now.duration_since(meter.since) < DAY);
        today.is_none_or(|meter| meter.today < part)
    }
}

/// A connection whose bytes are metered.
pub(super) struct Metered<M> {
    inner: M,
    peer: PeerId,
    meters: Meters,
}

impl<M> Metered<M> {
    pub(super) fn new(inner: M, peer: PeerId, meters: Meters) -> Metered<M> {
        Metered { inner, peer, meters }
    }
}

impl<M: StreamMuxer + Unpin> Metered<M> {
    fn stream(&self, inner: M::Substream) -> MeteredStream<M::Substream> {
        MeteredStream {
            inner,
            peer: self.peer,
            meters: self.meters.clone(),
            waits: None,
        }
    }
}

impl<M: StreamMuxer + Unpin> StreamMuxer for Metered<M>
where
    M::Substream: Unpin,
{
    type Substream = MeteredStream<M::Substream>;
    type Error = M::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_inbound(context))?;
        Poll::Ready(Ok(self.stream(stream)))
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_outbound(context))?;
        Poll::Ready(Ok(self.stream(stream)))
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Pin::new(&mut self.inner).poll_close(context)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<StreamMuxerEvent, Self::Error>> {
        Pin::new(&mut self.inner).poll(context)
    }
}

/// A stream whose bytes are counted, and that is read no faster than its peer may send.
pub(super) struct MeteredStream<S> {
    inner: S,
    peer: PeerId,
    meters: Meters,
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(waits) = &mut self.waits {
            ready!(waits.as_mut().poll(context));
            self.waits = None;
        }
        let read = ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let until = self.meters.count(self.peer, read, true, Instant::now());
        self.waits = until.map(|until| Box::pin(sleep_until(until)));
        Poll::Ready(Ok(read))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.meters.count(self.peer, written, false, Instant::now());
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_sends_too_fast_waits_and_whoever_has_had_its_part_opens_nothing_that_day() {
        let (meters, begun) = (Meters::default(), Instant::now());
        let [greedy, other] = [(); 2].map(|()| PeerId::random());
        assert_eq!(meters.count(greedy, BURST as usize, true, begun), None);
        let second = PER_SECOND as usize;
        let until = meters.count(greedy, second, true, begun).expect("it waits");
        assert_eq!(until.duration_since(begun), Duration::from_secs(1));
        assert_eq!(
            meters.count(greedy, second, false, begun),
            None,
            "what it is sent"
        );
        assert_eq!(
            meters.count(other, second, true, until),
            meters.count(other, 0, true, until)
        );
        assert_eq!(meters.count(greedy, 0, true, until), None);
        // A thousand are listed: its part is the least.
        assert!(meters.may_open(&greedy, 1000, until));
        meters.count(greedy, LEAST as usize, false, until);
        assert!(!meters.may_open(&greedy, 1000, until));
        assert!(meters.may_open(&greedy, 4, until), "fewer share the day");
        assert!(meters.may_open(&other, 1000, until));
        assert!(meters.may_open(&greedy, 1000, begun + DAY), "the next day");
    }
}
