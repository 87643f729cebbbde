//! What stands before every route: the pace, the token, the count of requests, and headers of
//! every answer.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};

use crate::daemon::api::at_hand::Api;
use crate::daemon::api::body::Incoming;
use crate::daemon::api::problem::Problem;

/// Answers without a token; the rest never reads a byte of the body without it.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Lets a request through to its route.
pub(super) async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    let under_way = api.requests.begin();
    let open = OPEN.contains(&request.uri().path());
    api.bounds.turn().await;
    let mut response = if open || api.token.admits(request.headers()) {
        next.run(request).await
    } else {
        let (head, body) = request.into_parts();
        Incoming::new(&head.headers, body, 0).linger().await;
        stranger(head.headers.contains_key(header::AUTHORIZATION)).into_response()
    };
    under_way.end(response.status());
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
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
