//! One request, one connection: HTTP/1.1 over TCP or a Unix socket.

use std::time::Duration;

use futures::Stream;
use http_body_util::{BodyExt, Either, Empty, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::commands::client::daemon::{Daemon, refusal};
use crate::commands::client::endpoint::Endpoint;
use crate::reporting::failure::{Exit, Failure};

/// To reach the daemon, which is on this machine or near it.
const CONNECT: Duration = Duration::from_secs(10);
/// From the request's beginning to the answer's head: sending a long vector, and verifying a plan
/// of many parties. Our guess of the longest.
const ANSWER: Duration = Duration::from_secs(600);

/// A request's body as it is sent.
pub(super) type Pieces = std::pin::Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// The headers and the body of a request.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// The body with its length in bytes.
    pub(super) body: Option<(Pieces, u64)>,
}

/// An answer that is no refusal; its body is still on its way.
#[derive(Debug)]
pub(super) struct Answer {
    body: Incoming,
}

impl Daemon {
    /// Sends a request without a body.
    pub(super) async fn ask(&self, method: Method, path: &str) -> Result<Answer, Failure> {
        self.send(method, path, Sent::default()).await
    }

    /// Sends a request. A refusal (4xx, 5xx) is a failure with the daemon's words and exit code.
    pub(super) async fn send(&self, method: Method, path: &str, sent: Sent) -> Result<Answer, Failure> {
        let response = self.exchange(method, path, sent).await?;
        let status = response.status();
        let answer = Answer {
            body: response.into_body(),
        };
        if status.is_success() {
            return Ok(answer);
        }
        Err(refusal(status, &answer.bytes().await.unwrap_or_default()))
    }

    async fn exchange(&self, method: Method, path: &str, sent: Sent) -> Result<Response<Incoming>, Failure> {
        let lost = |e: &dyn std::fmt::Display| self.unreachable(&format!("broke the connection off: {e}"));
        let connected = tokio::time::timeout(CONNECT, connect(&self.endpoint)).await;
        let stream = connected
            .map_err(|_| self.unreachable("does not answer"))?
            .map_err(|e| self.unreachable(&e.to_string()))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| lost(&e))?;
        tokio::spawn(connection);
        let host = match &self.endpoint {
            Endpoint::Tcp(address) => address.as_str(),
            Endpoint::Unix(_) => "localhost",
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, host);
        request = request.header(header::AUTHORIZATION, self.token.clone());
        for (name, value) in sent.headers {
            request = request.header(name, value);
        }
        let body = match sent.body {
            None => Either::Left(Empty::<Bytes>::new().map_err(|never| match never {})),
            Some((pieces, length)) => {
                request = request.header(header::CONTENT_LENGTH, length);
                Either::Right(StreamBody::new(futures::TryStreamExt::map_ok(
                    pieces,
                    Frame::data,
                )))
            }
        };
        let request = request
            .body(body)
            .map_err(|e| Failure::new(Exit::Internal, format!("no request: {e}")))?;
        let answered = tokio::time::timeout(ANSWER, sender.send_request(request)).await;
        answered
            .map_err(|_| self.unreachable("does not answer"))?
            .map_err(|e| lost(&e))
    }

    /// The failure (exit 2) of a daemon that cannot be asked, with what to do.
    pub(super) fn unreachable(&self, what: &str) -> Failure {
        Failure::usage(format!("the daemon at {}: {what}", self.endpoint))
            .field("--api")
            .hint("is `undertone node` running, and does it listen there?")
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

async fn connect(endpoint: &Endpoint) -> std::io::Result<Box<dyn Duplex>> {
    Ok(match endpoint {
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Endpoint::Unix(path) => Box::new(UnixStream::connect(path).await?),
    })
}

impl Answer {
    /// The next piece of the body; None at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_trailers) => continue,
                },
                Some(Err(e)) => {
                    return Err(Failure::usage(format!("the daemon's answer broke off: {e}")).field("--api"));
                }
            }
        }
    }

    /// Reads the answer's body to its end.
    pub(super) async fn bytes(mut self) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![];
        while let Some(piece) = self.piece().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// The whole body as an object.
    pub(super) async fn object<T: DeserializeOwned>(self) -> Result<T, Failure> {
        serde_json::from_slice(&self.bytes().await?).map_err(|e| {
            Failure::usage(format!("the daemon's answer is not what this version knows: {e}"))
                .field("--api")
                .hint("use the same version of undertone as the daemon's")
        })
    }
}
