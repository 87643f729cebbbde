//! The state that every route of the API shares.

use std::sync::Arc;

use tokio::sync::watch;

use crate::daemon::api::bounds::Bounds;
use crate::daemon::api::metrics::Requests;
use crate::daemon::api::token::Tokens;
use crate::daemon::service::Service;

/// The state that every route shares.
#[derive(Clone)]
pub(super) struct ApiState {
    pub(super) service: Service,
    pub(super) tokens: Tokens,
    pub(super) requests: Arc<Requests>,
    pub(super) bounds: Arc<Bounds>,
    /// True once the daemon is ending: answers that would go on end.
    pub(super) closing: watch::Receiver<bool>,
}

/// Waits until the daemon is ending.
pub(super) async fn ended(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}
