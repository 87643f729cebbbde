//! What the daemon is and how it does.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::{StatusCode, header};
use serde::Serialize;
use serde_json::json;

use crate::daemon::api::at_hand::Api;
use crate::daemon::api::limit::Limit;
use crate::daemon::api::metrics as prometheus;
use crate::daemon::api::problem::Problem;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::status::OfferState;

/// The OpenAPI document. A test holds it against what the server really answers.
const OPENAPI: &str = include_str!("openapi.json");

/// An object as JSON.
pub(super) fn json(status: StatusCode, object: &impl Serialize) -> Response {
    match serde_json::to_string(object) {
        Ok(text) => (
            status,
            [(header::CONTENT_TYPE, "application/json")],
            Body::from(text),
        )
            .into_response(),
        Err(e) => Problem::from(Refusal::new(
            Kind::Internal,
            format!("the answer cannot be written: {e}"),
        ))
        .into_response(),
    }
}

/// Answers that the process lives.
pub(super) async fn health() -> Response {
    json(StatusCode::OK, &json!({ "status": "ok" }))
}

/// A run can be taken.
pub(super) async fn ready(State(api): State<Api>) -> Response {
    let service = api.service.clone();
    // A disk may take its time.
    let looked = tokio::task::spawn_blocking(move || service.readiness()).await;
    let Ok(readiness) = looked else {
        return Problem::from(Refusal::new(Kind::Internal, "readiness cannot be looked at")).into_response();
    };
    if readiness.ready {
        return json(StatusCode::OK, &readiness);
    }
    let damaged = readiness
        .damaged
        .into_iter()
        .map(|file| format!("damaged: {file}"));
    let problems: Vec<_> = readiness.problems.into_iter().chain(damaged).collect();
    Problem::from(Refusal::new(Kind::Unavailable, problems.join("; "))).into_response()
}

pub(super) async fn metrics(State(api): State<Api>) -> Response {
    let page = prometheus::page(&api.service.metrics(), &api.requests);
    ([(header::CONTENT_TYPE, prometheus::MEDIA_TYPE)], page).into_response()
}

pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

pub(super) async fn status(State(api): State<Api>, limit: Limit) -> Response {
    let mut status = api.service.status().await;
    limit.keep(&mut status.runs, |run| run.state.is_over());
    limit.keep(&mut status.offers, |offer| offer.state != OfferState::Open);
    json(StatusCode::OK, &status)
}
