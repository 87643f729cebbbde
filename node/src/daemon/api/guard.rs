//! The checks before every route: the pace, the token, the count of requests.
//!
//! Layers of tower do the rest ([`super::routes`]): panics, headers, silent senders. They do not
//! fit here: a stranger's request is refused at a pace of its own, before any of its body is read
//! and after what it sends is taken off the line, while those with the token go on.

use axum::extract::{Extension, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::header;
use hyper::{Method, StatusCode};

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::body::Incoming;
use crate::daemon::api::connection_limiter::ConnectionPermit;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::token::Access;

/// Answers without a token; the rest never reads a byte of the body without it.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// The routes that the token which may only read is for. A receipt has the hash of the mean's file:
/// who guesses the whole mean can check the guess. Events would hold a watcher's place.
const READABLE: [&str; 13] = [
    "/metrics",
    "/v1/openapi.json",
    "/v1/status",
    "/v1/runs",
    "/v1/runs/{digest}",
    "/v1/runs/{digest}/plan",
    "/v1/runs/{digest}/receipt",
    "/v1/runs/{digest}/receipt.sig",
    "/v1/schedules",
    "/v1/keys",
    "/v1/offers",
    "/v1/offers/{digest}",
    "/v1/offers/{digest}/plan",
];

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
        return response;
    }
    if request.uri().path() == "/" {
        api.bounds.strangers_turn().await;
        return answer(&api, request, next).await;
    }
    let Some(access) = api.tokens.access(request.headers()) else {
        api.bounds.strangers_turn().await;
        let (head, body) = request.into_parts();
        let refused = stranger(head.headers.contains_key(header::AUTHORIZATION));
        let refused = Incoming::new(&head.headers, body, 0).refused(refused).await;
        api.requests.count(refused.status);
        return refused.into_response();
    };
    if let Err(full) = visit.is_known() {
        api.requests.count(full.status);
        return full.into_response();
    }
    match access {
        Access::Full => api.bounds.turn().await,
        Access::Reading => api.bounds.readers_turn().await,
    }
    if access == Access::Reading && !is_readable(&request) {
        let (head, body) = request.into_parts();
        let refused = Incoming::new(&head.headers, body, 0).refused(read_only()).await;
        api.requests.count(refused.status);
        return refused.into_response();
    }
    answer(&api, request, next).await
}

/// Whether the token that may only read is enough. What is not named here is not read with it.
fn is_readable(request: &Request) -> bool {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    request.method() == Method::GET && path.is_some_and(|path| READABLE.contains(&path))
}

fn read_only() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "this token reads metrics, status, plans and receipts, and nothing else",
    )
    .field("Authorization")
    .hint("use the daemon's own token (`[api] token`), which may spend its budget")
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
