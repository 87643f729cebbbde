//! Every path of the API.

use std::any::Any;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::{body, guard, keys, offers, openapi, page, plans, rounds, runs, status};
use crate::daemon::refusal::{Kind, Refusal};

/// Every path with its methods. The OpenAPI document has the same ones, which a test holds.
pub(super) fn router(api: ApiState) -> Router {
    let routes = Router::new()
        .route("/", get(page::page))
        .route("/healthz", get(status::health))
        .route("/readyz", get(status::ready))
        .route("/metrics", get(status::metrics))
        .route("/v1/openapi.json", get(openapi::document))
        .route("/v1/status", get(status::status))
        .route("/v1/plans", post(plans::hand_in))
        .route("/v1/runs", get(runs::list))
        .route(
            "/v1/runs/{digest}",
            get(runs::one).put(runs::submit).delete(runs::withdraw),
        )
        .route("/v1/runs/{digest}/plan", get(runs::plan))
        .route("/v1/runs/{digest}/events", get(runs::events))
        .route("/v1/runs/{digest}/result", get(runs::result))
        .route(
            "/v1/runs/{digest}/rounds/{round}",
            get(rounds::mean).post(rounds::hand_over),
        )
        .route("/v1/runs/{digest}/utility", get(runs::utility))
        .route("/v1/runs/{digest}/table", get(runs::own_table))
        .route("/v1/runs/{digest}/receipt", get(runs::receipt))
        .route("/v1/runs/{digest}/receipt.sig", get(runs::signature))
        .route("/v1/schedules", get(status::schedules))
        .route("/v1/keys", get(keys::list).post(keys::revoke))
        .route("/v1/offers", get(offers::list))
        .route(
            "/v1/offers/{digest}",
            get(offers::one).put(offers::propose).delete(offers::decline),
        )
        .route("/v1/offers/{digest}/plan", get(offers::plan))
        .route("/v1/offers/{digest}/accept", post(offers::accept))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(middleware::from_fn_with_state(api.clone(), guard::guard))
        .with_state(api);
    around(routes, body::SILENCE)
}

/// Adds the headers of every answer, and an answer whatever went wrong. No sender of a body may
/// be silent for longer than `silence`.
fn around(routes: Router, silence: Duration) -> Router {
    let header = SetResponseHeaderLayer::overriding;
    routes
        .layer(RequestBodyTimeoutLayer::new(silence))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(header(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-store"),
        ))
        .layer(header(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ))
}

/// Answers for a route that panicked. The panic's message may name a value, and is not shown.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("an API request failed because of a bug in the daemon");
    let what = "the request failed because of a bug in the daemon";
    Problem::from(Refusal::new(Kind::Internal, what)).into_response()
}

async fn no_such_path() -> Problem {
    Problem::from(Refusal::new(Kind::Unknown, "there is nothing at this path"))
        .hint("GET /v1/openapi.json lists what there is")
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} is not what {} is for", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
        .hint("GET /v1/openapi.json lists what there is")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::body::Body;
    use hyper::Request;
    use hyper_util::service::TowerToHyperService;

    use super::*;
    use crate::daemon::api::body::Incoming;

    #[tokio::test]
    async fn a_route_that_gives_up_is_answered_and_tells_no_value() {
        async fn gives_up() -> StatusCode {
            panic!("a value")
        }
        let routes = around(Router::new().route("/", get(gives_up)), Duration::MAX);
        let service = TowerToHyperService::new(routes);
        let request = Request::new(Body::empty());
        let answer = hyper::service::Service::call(&service, request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.headers()[header::CACHE_CONTROL], "no-store");
        assert_eq!(answer.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        let body = axum::body::to_bytes(answer.into_body(), 1 << 16).await.unwrap();
        let text = String::from_utf8_lossy(&body);
        assert!(
            text.contains("bug in the daemon") && !text.contains("a value"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_sender_that_is_silent_for_too_long_is_given_up() {
        async fn reads(request: axum::extract::Request) -> Result<(), Problem> {
            let (head, body) = request.into_parts();
            Incoming::new(&head.headers, body, 10).whole().await.map(drop)
        }
        let routes = around(Router::new().route("/", post(reads)), Duration::ZERO);
        let never = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        // One that expects to be asked for its body is not listened to once it is refused.
        let request = Request::post("/").header(header::EXPECT, "100-continue");
        let request = request.body(Body::from_stream(never)).unwrap();
        let service = TowerToHyperService::new(routes);
        let answer = hyper::service::Service::call(&service, request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    }

    #[test]
    fn the_document_has_the_routes_paths_and_the_other_way_round() {
        let routes: BTreeSet<&str> = include_str!("routes.rs")
            .split(".route(")
            .skip(1)
            .filter_map(|r| r.split('"').find(|part| part.starts_with('/')))
            .collect();
        let document: serde_json::Value = serde_json::from_str(openapi::text()).unwrap();
        let documented: BTreeSet<&str> = document["paths"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert!(routes.len() > 10);
        assert_eq!(routes, documented);
    }
}
