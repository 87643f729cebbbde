//! Keys that are not to be trusted any more.

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::body::Incoming;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::shown::{Owners, RevokedList, Revoking};
use crate::daemon::api::status::json;
use crate::daemon::keys::store::RevokedKey;

/// The longest body: a line has 140 bytes.
const LONGEST_LINE: u64 = 1 << 10;

/// Lists the keys that were revoked, with the statements.
#[utoipa::path(
    get,
    path = "/v1/keys",
    operation_id = "keys",
    responses((status = 200, body = RevokedList), Owners),
)]
pub(super) async fn list(State(api): State<ApiState>) -> Response {
    let revoked = api.service.revoked_keys();
    json(StatusCode::OK, &RevokedList { revoked })
}

/// Takes a statement that revokes a key of the peer list, and tells it to the other daemons.
///
/// The key is revoked for ever: nothing takes that back. One that was revoked before stays so.
#[utoipa::path(
    post,
    path = "/v1/keys",
    operation_id = "revoke",
    request_body(content = String, content_type = "text/plain", description = "the line of `undertone identity revoke`"),
    responses(
        (status = 200, description = "was revoked before", body = RevokedKey),
        (status = 201, description = "is revoked from now on", body = RevokedKey),
        Revoking,
    ),
)]
pub(super) async fn revoke(State(api): State<ApiState>, request: Request) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let line = Incoming::new(&head.headers, body, LONGEST_LINE).whole().await?;
    let line = String::from_utf8_lossy(&line).into_owned();
    let service = api.service.clone();
    // Its file is synced.
    let taken = tokio::task::spawn_blocking(move || service.revoke(&line)).await;
    let (key, is_new) = taken.map_err(|_| Problem::malformed("the statement cannot be taken"))??;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(json(status, &key))
}
