//! The API without a listener.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::bounds::Bounds;
use crate::daemon::api::connection_limiter::ConnectionLimiter;
use crate::daemon::api::routes::router;
use crate::daemon::api::server::{carry, protocol};
use crate::daemon::api::token::Tokens;
use crate::daemon::service::Service;
use crate::reporting::failure::Failure;

/// The API of a service, on connections that somebody else makes. Nobody waits for a turn, so that
/// many millions of inputs can be tried.
#[derive(Debug)]
pub struct Feed {
    router: axum::Router,
    closing: watch::Sender<bool>,
    connection_limiter: ConnectionLimiter,
}

impl Feed {
    /// The API of this service. Fails (exit 2) if its token can neither be made nor read.
    pub fn of(service: Service) -> Result<Self, Failure> {
        let tokens = Tokens::open(&service.config().api)?;
        let (closing, is_closing) = watch::channel(false);
        let api = ApiState {
            service,
            tokens,
            requests: Arc::default(),
            bounds: Arc::new(Bounds::without_pace()),
            closing: is_closing,
        };
        Ok(Feed {
            router: router(api),
            closing,
            connection_limiter: ConnectionLimiter::default(),
        })
    }

    /// Answers what comes on one connection from this machine, until it ends. Who sends no more is
    /// still answered.
    pub async fn answer(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let visit = self.connection_limiter.enter(None);
        let mut http = protocol();
        http.half_close(true);
        carry(
            http,
            stream,
            self.router.clone(),
            &visit,
            self.closing.subscribe(),
        )
        .await;
    }
}
