//! The routes that show the daemon's status.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::{StatusCode, header};
use serde::Serialize;

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::metrics as prometheus;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::query::Limit;
use crate::daemon::api::shown::{Health, NotReady, Owners, Queried, ScheduleList};
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::status::{OfferState, Readiness, Status};
use crate::vector_file::formats::JSON;

/// An object as JSON.
pub(super) fn json(status: StatusCode, object: &impl Serialize) -> Response {
    match serde_json::to_string(object) {
        Ok(text) => (status, [(header::CONTENT_TYPE, JSON)], Body::from(text)).into_response(),
        Err(e) => Problem::from(Refusal::new(
            Kind::Internal,
            format!("the answer cannot be written: {e}"),
        ))
        .into_response(),
    }
}

/// Answers that the process lives.
#[utoipa::path(get, path = "/healthz", security(()), responses((status = 200, body = Health)))]
pub(super) async fn health() -> Response {
    json(StatusCode::OK, &Health { status: "ok" })
}

/// Answers whether a run can be taken.
#[utoipa::path(
    get,
    path = "/readyz",
    security(()),
    responses((status = 200, body = Readiness), NotReady),
)]
pub(super) async fn ready(State(api): State<ApiState>) -> Response {
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

/// Shows counters, gauges and histograms.
#[utoipa::path(
    get,
    path = "/metrics",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text"), Owners),
)]
pub(super) async fn metrics(State(api): State<ApiState>) -> Response {
    let page = prometheus::page(&api.service.metrics(), &api.requests);
    ([(header::CONTENT_TYPE, prometheus::MEDIA_TYPE)], page).into_response()
}

/// Shows the schedules: when each is due next, who met at the last times, what the budget pays for.
#[utoipa::path(
    get,
    path = "/v1/schedules",
    operation_id = "schedules",
    responses((status = 200, body = ScheduleList), Owners),
)]
pub(super) async fn schedules(State(api): State<ApiState>) -> Response {
    let schedules = api.service.schedules();
    json(StatusCode::OK, &ScheduleList { schedules })
}

/// Shows everything at a glance: peers and whether they answer, runs, offers, budgets.
#[utoipa::path(
    get,
    path = "/v1/status",
    params(Limit),
    responses((status = 200, body = Status), Queried),
)]
pub(super) async fn status(State(api): State<ApiState>, limit: Limit) -> Response {
    let mut status = api.service.status().await;
    limit.keep(&mut status.runs, |run| run.state.is_over());
    limit.keep(&mut status.offers, |offer| offer.state != OfferState::Open);
    json(StatusCode::OK, &status)
}
