//! Request bodies: read as they come, within a limit of bytes and of time. A vector goes to a file;
//! what is held in memory has a smaller limit.

use std::error::Error;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use tokio::io::AsyncWriteExt;
use tower_http::timeout::TimeoutError;

use crate::daemon::api::problem::Problem;
use crate::daemon::refusal::{Kind, Refusal};

/// How long a sender may be silent in the middle of a body; [`super::routes`] sees to it.
pub(super) const SILENCE: Duration = Duration::from_secs(30);

/// How long a refused sender is listened to. On loopback that is enough for any body that the
/// daemon takes.
const LINGER: Duration = Duration::from_secs(1);

/// A body within limits.
pub(super) struct Incoming {
    body: Limited<Body>,
    limit: u64,
    announced: u64,
    /// Nothing is sent before it is asked for.
    expects: bool,
    begun: bool,
}

impl Incoming {
    pub(super) fn new(headers: &HeaderMap, body: Body, limit: u64) -> Self {
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        Incoming {
            body: Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX)),
            limit,
            announced: announced.unwrap_or(0),
            expects: headers.contains_key(header::EXPECT),
            begun: false,
        }
    }

    /// The next piece, `None` after the last. What announces to be longer than the limit is refused
    /// without reading any of it.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if self.announced > self.limit {
            return Err(Problem::too_large("the body", self.limit));
        }
        while let Some(frame) = self.body.frame().await {
            self.begun = true;
            // What is no data are trailers, which say nothing here.
            if let Ok(piece) = frame.map_err(|e| broken(&*e, self.limit))?.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// Reads all of it into memory.
    pub(super) async fn whole(mut self) -> Result<Vec<u8>, Problem> {
        let mut bytes = vec![];
        loop {
            match self.next().await {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => return Ok(bytes),
                Err(problem) => return Err(self.refused(problem).await),
            }
        }
    }

    /// Writes all of it to a file.
    pub(super) async fn into_file(mut self, file: &std::fs::File) -> Result<(), Problem> {
        match self.write_to(file).await {
            Ok(()) => Ok(()),
            Err(problem) => Err(self.refused(problem).await),
        }
    }

    async fn write_to(&mut self, file: &std::fs::File) -> Result<(), Problem> {
        let mut writer = tokio::fs::File::from_std(file.try_clone().map_err(unwritten)?);
        while let Some(piece) = self.next().await? {
            writer.write_all(&piece).await.map_err(unwritten)?;
        }
        writer.flush().await.map_err(unwritten)
    }

    /// Refuses a body whose format is not said, unless there is none.
    pub(super) async fn nothing(mut self, problem: Problem) -> Result<(), Problem> {
        match self.next().await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(self.refused(problem).await),
            Err(problem) => Err(self.refused(problem).await),
        }
    }

    /// Reads on for a moment after a refusal and throws it away: who is still sending when the
    /// connection closes may never see the answer. One who waits to be asked for the body
    /// (`Expect: 100-continue`) is not asked.
    pub(super) async fn refused(mut self, problem: Problem) -> Problem {
        if self.begun || !self.expects {
            let drained = async {
                while let Some(frame) = self.body.frame().await {
                    // What is over the limit goes on to come; nothing does after another error.
                    if frame.is_err_and(|e| !e.is::<LengthLimitError>()) {
                        break;
                    }
                }
            };
            let _ = tokio::time::timeout(LINGER, drained).await;
        }
        problem
    }
}

/// Says why a body could not be read to its end.
fn broken(error: &(dyn Error + 'static), limit: u64) -> Problem {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return Problem::too_large("the body", limit);
        }
        if error.is::<TimeoutError>() {
            let detail = format!("no byte of the body came for {} s", SILENCE.as_secs());
            return Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail);
        }
        cause = error.source();
    }
    Problem::malformed("the body ends before its end")
}

fn unwritten(e: std::io::Error) -> Problem {
    Refusal::new(Kind::Storage, format!("the upload cannot be kept: {e}"))
        .field("state")
        .hint("make room in the state directory")
        .into()
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use tower_http::timeout::TimeoutBody;

    use super::*;

    fn pieces(count: usize, length: usize) -> Body {
        let pieces = (0..count).map(move |_| Ok::<_, std::io::Error>(vec![0u8; length]));
        Body::from_stream(stream::iter(pieces))
    }

    fn announcing(length: u64) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_LENGTH, length.into())])
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_when_announced_and_when_it_comes() {
        let all = |headers: HeaderMap, count| Incoming::new(&headers, pieces(count, 5), 10).whole();
        assert_eq!(all(announcing(11), 2).await.unwrap_err().status, 413);
        assert_eq!(all(announcing(10), 2).await, Ok(vec![0; 10]));
        assert_eq!(all(HeaderMap::new(), 3).await.unwrap_err().status, 413);
        let file = tempfile::tempfile().unwrap();
        let written = Incoming::new(&HeaderMap::new(), pieces(2, 5), 10).into_file(&file);
        assert_eq!((written.await, file.metadata().unwrap().len()), (Ok(()), 10));
        let refused = Incoming::new(&HeaderMap::new(), pieces(3, 5), 10).into_file(&file);
        assert_eq!(refused.await.unwrap_err().status, 413);
    }

    #[tokio::test]
    async fn a_silent_sender_is_given_up() {
        let never = Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let impatient = Body::new(TimeoutBody::new(Duration::ZERO, never));
        let refused = Incoming::new(&HeaderMap::new(), impatient, 10).whole().await;
        assert_eq!(refused.unwrap_err().status, 408);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_malformed() {
        let broken = stream::iter([Ok(vec![1u8]), Err(std::io::Error::other("cut"))]);
        let incoming = Incoming::new(&HeaderMap::new(), Body::from_stream(broken), 10);
        assert_eq!(incoming.whole().await.unwrap_err().status, 400);
    }

    #[tokio::test]
    async fn a_body_of_no_format_is_refused_and_none_at_all_is_not() {
        let unknown = || Problem::malformed("of no format");
        let sent = async |count| {
            Incoming::new(&HeaderMap::new(), pieces(count, 5), 10)
                .nothing(unknown())
                .await
        };
        assert_eq!(sent(0).await, Ok(()));
        assert_eq!(sent(1).await, Err(unknown()));
        assert_eq!(
            sent(3).await,
            Err(unknown()),
            "more than the limit, and no need to read it"
        );
    }
}
