//! Connections: each with deadlines, all ended soon after the daemon is asked to end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::daemon::api::api_state::{ApiState, ended};
use crate::daemon::api::connection_limiter::{ConnectionLimiter, ConnectionPermit};
use crate::daemon::api::listen::Listener;
use crate::daemon::api::routes::router;
use crate::daemon::api::token::Tokens;
use crate::daemon::config::ApiConfig;
use crate::daemon::service::Service;
use crate::reporting::failure::Failure;

/// The buffer of a connection, and so the longest head of a request, in bytes.
const BUFFER: usize = 64 << 10;
/// From an idle connection, or the first byte of a request, to the end of its head.
const HEAD: Duration = Duration::from_secs(15);
/// How long answers may take once the daemon is ending.
const LAST_ANSWERS: Duration = Duration::from_millis(1000);
/// After an accept that failed, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The API, bound and not yet answering.
#[derive(Debug)]
pub(crate) struct Server {
    listener: Listener,
    router: Router,
    closing: watch::Sender<bool>,
}

impl Server {
    /// Makes or reads the token and binds the address. Fails (exit 2) if either cannot be.
    pub(crate) async fn bind(config: &ApiConfig, service: Service) -> Result<Self, Failure> {
        let tokens = Tokens::open(config)?;
        let listener = Listener::bind(config).await?;
        let (closing, is_closing) = watch::channel(false);
        let api = ApiState {
            service,
            tokens,
            requests: Arc::default(),
            bounds: Arc::default(),
            closing: is_closing,
        };
        Ok(Server {
            listener,
            router: router(api),
            closing,
        })
    }

    /// Where it listens, as `--api` takes it.
    pub(crate) fn address(&self) -> String {
        self.listener.address()
    }

    /// Answers until `shutdown` is ready; then event streams end, other answers have a second, and
    /// all connections close.
    pub(crate) async fn serve(self, shutdown: impl Future<Output = ()>) {
        let connection_limiter = ConnectionLimiter::default();
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, source)) => {
                        let (router, closing) = (self.router.clone(), self.closing.subscribe());
                        let visit = connection_limiter.enter(source);
                        connections.spawn(async move {
                            tokio::select! {
                                () = visit.sent_away() => {}
                                () = carry(protocol(), stream, router, &visit, closing) => {}
                            }
                        });
                    }
                    Err(e) => {
                        tracing::warn!("the API cannot accept a connection: {e}");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
            }
        }
        self.closing.send_replace(true);
        drop(self.listener);
        let last = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_ANSWERS, last).await;
        connections.shutdown().await;
    }
}

/// HTTP/1.1 with its deadlines and buffers.
pub(super) fn protocol() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER);
    http
}

/// Answers what comes on a connection, until it ends.
pub(super) async fn carry(
    http: http1::Builder,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    visit: &ConnectionPermit,
    mut closing: watch::Receiver<bool>,
) {
    let (routes, visit) = (TowerToHyperService::new(router), visit.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(visit.clone());
        routes.call(request)
    });
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let end = tokio::select! {
        end = connection.as_mut() => end,
        () = ended(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = end {
        // What clients do to their connections is theirs; its text names no value.
        tracing::debug!("an API connection ended early: {e}");
    }
}
