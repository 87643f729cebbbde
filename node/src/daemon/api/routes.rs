//! The local HTTP API: loopback or a Unix socket, a bearer token, problem+json, an OpenAPI document.
//!
//! What holds:
//! - All that it answers comes from the [`Service`]; it has no state of a run of its own.
//! - `/healthz` and `/readyz` answer anybody; everything else needs the token, which is compared in constant time, before the body is read.
//! - Every bound is checked while bytes come: connections, headers, bodies (bytes and time), slow readers, uploads and results under way.
//! - A vector goes from the socket to a file that only the daemon's user can read and that is deleted once it was read, or refused. It is in no
//!   log, error or answer; a mean only in the answer to `…/result`.

mod body;
mod guard;
mod listen;
mod metrics;
mod negotiation;
mod offers;
mod parts;
pub mod problem;
mod runs;
mod server;
mod status;
pub mod token;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::extract::Path;
use axum::http::request::Parts as RequestParts;
use axum::middleware;
use axum::routing::{get, post};
use hyper::{Method, StatusCode, Uri};
use tokio::sync::watch;

use super::refusal::{Kind, Refusal};
use super::service::Service;
use guard::Bounds;
use metrics::Requests;
use problem::Problem;
use token::Token;

pub use server::Server;

/// What every route has at hand.
#[derive(Clone)]
struct Api {
    service: Service,
    token: Token,
    requests: Arc<Requests>,
    bounds: Arc<Bounds>,
    /// True once the daemon is ending: answers that would go on end.
    closing: watch::Receiver<bool>,
}

/// Every path with its methods. The OpenAPI document has the same ones, which a test holds.
fn router(api: Api) -> Router {
    Router::new()
        .route("/healthz", get(status::health))
        .route("/readyz", get(status::ready))
        .route("/metrics", get(status::metrics))
        .route("/v1/openapi.json", get(status::openapi))
        .route("/v1/status", get(status::status))
        .route("/v1/runs", get(runs::list).post(runs::submit))
        .route("/v1/runs/{digest}", get(runs::one).delete(runs::withdraw))
        .route("/v1/runs/{digest}/plan", get(runs::plan))
        .route("/v1/runs/{digest}/events", get(runs::events))
        .route("/v1/runs/{digest}/result", get(runs::result))
        .route("/v1/runs/{digest}/receipt", get(runs::receipt))
        .route("/v1/runs/{digest}/receipt.sig", get(runs::signature))
        .route("/v1/offers", get(offers::list).post(offers::propose))
        .route("/v1/offers/{digest}", get(offers::one).delete(offers::decline))
        .route("/v1/offers/{digest}/plan", get(runs::plan))
        .route("/v1/offers/{digest}/accept", post(offers::accept))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(middleware::from_fn_with_state(api.clone(), guard::guard))
        .with_state(api)
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

/// The digest in a path: 64 digits of lower-case hex.
struct Digest(String);

impl<S: Send + Sync> FromRequestParts<S> for Digest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut RequestParts, state: &S) -> Result<Self, Problem> {
        let given = Path::<String>::from_request_parts(parts, state)
            .await
            .map_or(String::new(), |Path(digest)| digest);
        if given.len() == 64 && given.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Ok(Digest(given));
        }
        Err(Problem::from(Refusal::new(Kind::Unknown, "what stands in the path is not a plan's digest"))
            .field("digest")
            .hint("a digest is the plan's SHA-256, 64 digits of lower-case hex; GET /v1/status lists those that are known"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn the_document_has_the_routes_paths_and_the_other_way_round() {
        let routes: BTreeSet<&str> = include_str!("mod.rs")
            .split(".route(\"")
            .skip(1)
            .filter_map(|r| r.split('"').next())
            .collect();
        let document: serde_json::Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
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
