//! Request bodies: read as they come, within a limit of bytes and of time. What is uploaded goes to
//! a file; nothing else is held in memory beyond its own, smaller, limit.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use futures::{Stream, StreamExt};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use tokio::time::{Instant, Sleep};

use crate::daemon::api::problem::Problem;

/// How long a sender may be silent in the middle of a body.
const SILENCE: Duration = Duration::from_secs(30);

/// How long a refused sender is listened to. On loopback that is enough for any body that the
/// daemon takes.
const LINGER: Duration = Duration::from_secs(1);

/// How much of a body may be read ahead of what has become of it: many times the buffer that hyper
/// reads into (64 KiB).
const AHEAD: u64 = 1 << 20;

/// A body within limits, as a stream of its pieces.
pub(super) struct Incoming {
    body: BodyDataStream,
    limit: u64,
    announced: u64,
    /// Nothing is sent before it is asked for.
    expects: bool,
    seen: u64,
    used: Arc<AtomicU64>,
    silence: Pin<Box<Sleep>>,
    pause: bool,
}

/// Counts what has become of a body's bytes.
#[derive(Clone, Debug)]
pub(super) struct Used(Arc<AtomicU64>);

impl Used {
    /// So many more are in their place.
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Incoming {
    /// What announces to be longer than the limit is refused without reading any of it.
    pub(super) fn new(headers: &HeaderMap, body: Body, limit: u64) -> Self {
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        Incoming {
            body: body.into_data_stream(),
            limit,
            announced: announced.unwrap_or(0),
            expects: headers.contains_key(header::EXPECT),
            seen: 0,
            used: Arc::default(),
            silence: Box::pin(tokio::time::sleep(SILENCE)),
            pause: false,
        }
    }

    /// The counter that has to keep up with it.
    pub(super) fn used(&self) -> Used {
        Used(self.used.clone())
    }

    /// Reads on for a moment after a refusal and throws it away: who is still sending when the
    /// connection closes may never see the answer. One who waits to be asked for the body
    /// (`Expect: 100-continue`) is not asked.
    pub(super) async fn linger(mut self) {
        if self.seen > 0 || !self.expects {
            let drained = async { while let Some(Ok(_)) = self.body.next().await {} };
            let _ = tokio::time::timeout(LINGER, drained).await;
        }
    }

    /// All of it, in memory.
    pub(super) async fn whole(&mut self) -> Result<Vec<u8>, Problem> {
        let mut bytes = vec![];
        let used = self.used();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            used.add(piece.len());
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    fn check(&mut self, piece: &Bytes) -> Result<(), Problem> {
        self.seen += piece.len() as u64;
        if self.seen > self.limit {
            return Err(Problem::too_large("the body", self.limit));
        }
        if self.seen - self.used.load(Ordering::Relaxed).min(self.seen) > AHEAD {
            return Err(
                Problem::malformed("a part's header is longer than any that makes sense")
                    .hint("send multipart/form-data, as `curl -F` does"),
            );
        }
        Ok(())
    }
}

impl Stream for Incoming {
    type Item = Result<Bytes, Problem>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.announced > self.limit {
            return Poll::Ready(Some(Err(Problem::too_large("the body", self.limit))));
        }
        // The reader of parts takes all that is ready at once; a pause after each piece lets it put
        // that piece into its place first.
        if std::mem::take(&mut self.pause) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.body.poll_next_unpin(cx) {
            Poll::Pending => match self.silence.as_mut().poll(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(()) => Poll::Ready(Some(Err(silent()))),
            },
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(_))) => {
                Poll::Ready(Some(Err(Problem::malformed("the body ends before its end"))))
            }
            Poll::Ready(Some(Ok(piece))) => {
                self.pause = true;
                self.silence.as_mut().reset(Instant::now() + SILENCE);
                Poll::Ready(Some(self.check(&piece).map(|()| piece)))
            }
        }
    }
}

fn silent() -> Problem {
    let detail = format!("no byte of the body came for {} s", SILENCE.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(count: usize, length: usize) -> Body {
        Body::from_stream(futures::stream::iter(
            (0..count).map(move |_| Ok::<_, std::io::Error>(vec![0u8; length])),
        ))
    }

    fn announcing(length: u64) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_LENGTH, length.into())])
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_when_announced_and_when_it_comes() {
        let all =
            async |headers: HeaderMap, count| Incoming::new(&headers, pieces(count, 5), 10).whole().await;
        assert_eq!(all(announcing(11), 2).await.unwrap_err().status, 413);
        assert_eq!(all(announcing(10), 2).await, Ok(vec![0; 10]));
        assert_eq!(all(HeaderMap::new(), 3).await.unwrap_err().status, 413);
    }

    #[tokio::test]
    async fn a_body_that_runs_ahead_of_its_use_is_refused() {
        let mut incoming = Incoming::new(&HeaderMap::new(), pieces(64, 1 << 16), u64::MAX);
        let mut read = 0;
        let problem = loop {
            match incoming.next().await.expect("refused before its end") {
                Ok(piece) => read += piece.len() as u64,
                Err(problem) => break problem,
            }
        };
        assert_eq!((problem.status, read), (400, AHEAD));
    }

    #[tokio::test]
    async fn a_silent_sender_is_given_up() {
        let never = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let mut incoming = Incoming::new(&HeaderMap::new(), never, 10);
        incoming.silence.as_mut().reset(Instant::now());
        assert_eq!(incoming.whole().await.unwrap_err().status, 408);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_malformed() {
        let broken = futures::stream::iter([Ok(vec![1u8]), Err(std::io::Error::other("cut"))]);
        let mut incoming = Incoming::new(&HeaderMap::new(), Body::from_stream(broken), 10);
        assert_eq!(incoming.whole().await.unwrap_err().status, 400);
    }
}
