//! What stands before every route: the pace, the token, the count of requests.
//!
//! Layers of tower do the rest ([`super::routes`]): panics, headers, silent senders. They do not
//! fit here: a stranger's request is refused at a pace of its own, before any of its body is read
//! and after what it sends is taken off the line, while those with the token go on.

use axum::extract::{Extension, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header;

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::body::Incoming;
use crate::daemon::api::connection_limiter::ConnectionPermit;
use crate::daemon::api::problem::Problem;

/// Answers without a token; the rest never reads a byte of the body without it.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Lets a request through to its route. Those with the token wait for each other only; what anybody
/// may ask is answered at once, but for the page, which is longer.
pub(super) async fn guard(
    State(api): State<ApiState>,
    Extension(visit): Extension<ConnectionPermit>,
    request: Request,
    next: Next,
) -> Response {
    if OPEN.contains(&request.uri().path()) {
        visit.asks(true);
        let response = answer(&api, request, next).await;
        visit.asks(false);
        response
    } else if request.uri().path() == "/" {
        api.bounds.strangers_turn().await;
        answer(&api, request, next).await
    } else if !api.token.admits(request.headers()) {
        api.bounds.strangers_turn().await;
        let (head, body) = request.into_parts();
        let refused = stranger(head.headers.contains_key(header::AUTHORIZATION));
        let refused = Incoming::new(&head.headers, body, 0).refused(refused).await;
        api.requests.count(refused.status);
        refused.into_response()
    } else if let Err(full) = visit.is_known() {
        api.requests.count(full.status);
        full.into_response()
    } else {
        api.bounds.turn().await;
        answer(&api, request, next).await
    }
}

async fn answer(api: &ApiState, request: Request, next: Next) -> Response {
    let under_way = api.requests.begin();
    let response = next.run(request).await;
    under_way.end(response.status());
    response
}

fn stranger(tried: bool) -> Problem {
    let what = if tried {
        "the token is not this daemon's"
    } else {
        "a token is needed"
    };
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", what).field("Authorization").hint(
        "send `Authorization: Bearer TOKEN` with the line of the daemon's token file (`[api] token`, by default STATE/api.token)",
    )
}
