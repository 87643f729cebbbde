//! Offers: plans that others propose, and plans that this daemon does.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::contribution_body::{ContributionBody, HeavyPlace, Named};
use crate::daemon::api::digest::Digest;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::runs::{self, created};
use crate::daemon::api::shown::{Bytes, Changing, Numbers, OfferList, Owners, PlanFile, Reading, Taking};
use crate::daemon::api::status::json;
use crate::daemon::status::{OfferStatus, RunStatus};
use crate::daemon::submitting::Proposed;

/// Lists all offers that the daemon remembers, the newest first.
#[utoipa::path(
    get,
    path = "/v1/offers",
    operation_id = "listOffers",
    responses((status = 200, body = OfferList), Owners),
)]
pub(super) async fn list(State(api): State<ApiState>) -> Response {
    let offers = api.service.offers();
    json(StatusCode::OK, &OfferList { offers })
}

/// Shows one offer.
#[utoipa::path(
    get,
    path = "/v1/offers/{digest}",
    operation_id = "offer",
    params(Digest),
    responses((status = 200, body = OfferStatus), Reading),
)]
pub(super) async fn one(State(api): State<ApiState>, Digest(digest): Digest) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.offer(&digest)?))
}

/// Gives the offered plan's very bytes.
#[utoipa::path(
    get,
    path = "/v1/offers/{digest}/plan",
    operation_id = "offeredPlan",
    params(Digest),
    responses((status = 200, description = "PLAN.json", body = PlanFile), Reading),
)]
pub(super) async fn plan(state: State<ApiState>, digest: Digest) -> Result<Response, Problem> {
    runs::plan(state, digest).await
}

/// Says no to an offer.
#[utoipa::path(
    delete,
    path = "/v1/offers/{digest}",
    params(Digest),
    responses((status = 200, body = OfferStatus), Changing),
)]
pub(super) async fn decline(
    State(api): State<ApiState>,
    Digest(digest): Digest,
) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.decline(&digest).await?))
}

/// Takes part in an offered plan, with the private vector in the body.
#[utoipa::path(
    post,
    path = "/v1/offers/{digest}/accept",
    params(Digest, Named),
    request_body(content(
        (Bytes = "application/x-npy"), (String = "text/csv"), (Numbers = "application/json"), (Bytes = "application/x-safetensors"),
    )),
    responses(
        (status = 201, description = "taken; it has its place", body = RunStatus, headers(("Location" = String))),
        Taking,
    ),
)]
pub(super) async fn accept(
    State(api): State<ApiState>,
    Digest(digest): Digest,
    _place: HeavyPlace,
    contribution: ContributionBody,
) -> Result<Response, Problem> {
    Ok(created(
        &api.service.accept(&digest, contribution.something()?).await?,
    ))
}

/// Offers a plan that was handed in, or made, to its members. With a vector in the body, or one
/// that the query names, this node takes part itself.
#[utoipa::path(
    put,
    path = "/v1/offers/{digest}",
    params(Digest, Named),
    request_body(content(
        (Bytes = "application/x-npy"), (String = "text/csv"), (Numbers = "application/json"), (Bytes = "application/x-safetensors"),
    )),
    responses((status = 201, description = "offered", body = Proposed), Taking),
)]
pub(super) async fn propose(
    State(api): State<ApiState>,
    Digest(digest): Digest,
    _place: HeavyPlace,
    ContributionBody(contribution): ContributionBody,
) -> Result<Response, Problem> {
    let proposed = api.service.propose(&digest, contribution).await?;
    Ok(json(StatusCode::CREATED, &proposed))
}
