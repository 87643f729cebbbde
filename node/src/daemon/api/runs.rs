//! Runs: taken, watched, read, withdrawn.

use std::convert::Infallible;

use axum::body::{Body, Bytes as Buffer};
use axum::extract::{Extension, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, stream};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::daemon::api::api_state::{ApiState, ended};
use crate::daemon::api::connection_limiter::ConnectionPermit;
use crate::daemon::api::contribution_body::{ContributionBody, HeavyPlace, Named};
use crate::daemon::api::digest::Digest;
use crate::daemon::api::negotiation;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::query::Limit;
use crate::daemon::api::shown::{
    Bytes, Changing, EventLine, Finished, Numbers, OwnTable, PlanFile, Queried, Reading, ReceiptFile,
    Receiving, RunList, Signature, Taking, UtilityShown, Watching,
};
use crate::daemon::api::status::json;
use crate::daemon::event_log::{EventStream, RunEvent};
use crate::daemon::mean_file::RunResult;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::status::RunStatus;
use crate::party::figures_file::FiguresFile;
use crate::vector_file::formats::{self, JSON};

/// Lists all runs that the daemon remembers, the newest first.
#[utoipa::path(
    get,
    path = "/v1/runs",
    operation_id = "listRuns",
    params(Limit),
    responses((status = 200, body = RunList), Queried),
)]
pub(super) async fn list(State(api): State<ApiState>, limit: Limit) -> Response {
    let mut runs = api.service.runs();
    limit.keep(&mut runs, |run| run.state.is_over());
    json(StatusCode::OK, &RunList { runs })
}

/// Takes part in a plan that was handed in, with the private vector in the body.
#[utoipa::path(
    put,
    path = "/v1/runs/{digest}",
    params(Digest, Named),
    request_body(content(
        (Bytes = "application/x-npy"), (String = "text/csv"), (Numbers = "application/json"), (Bytes = "application/x-safetensors"),
    )),
    responses(
        (status = 201, description = "taken; it has its place", body = RunStatus, headers(("Location" = String))),
        Taking,
    ),
)]
pub(super) async fn submit(
    State(api): State<ApiState>,
    Digest(digest): Digest,
    _place: HeavyPlace,
    contribution: ContributionBody,
) -> Result<Response, Problem> {
    Ok(created(
        &api.service.submit(&digest, contribution.something()?).await?,
    ))
}

/// 201 with the run and its place.
pub(super) fn created(run: &RunStatus) -> Response {
    let mut response = json(StatusCode::CREATED, run);
    if let Ok(place) = format!("/v1/runs/{}", run.digest).parse() {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// Shows one run.
#[utoipa::path(
    get,
    path = "/v1/runs/{digest}",
    operation_id = "run",
    params(Digest),
    responses((status = 200, body = RunStatus), Reading),
)]
pub(super) async fn one(State(api): State<ApiState>, Digest(digest): Digest) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.run(&digest)?))
}

/// Takes a run back before anything private has left.
#[utoipa::path(
    delete,
    path = "/v1/runs/{digest}",
    params(Digest),
    responses((status = 200, body = RunStatus), Changing),
)]
pub(super) async fn withdraw(
    State(api): State<ApiState>,
    Digest(digest): Digest,
) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.withdraw(&digest).await?))
}

/// Gives the plan's very bytes: their SHA-256 is the digest.
#[utoipa::path(
    get,
    path = "/v1/runs/{digest}/plan",
    operation_id = "runPlan",
    params(Digest),
    responses((status = 200, description = "PLAN.json", body = PlanFile), Reading),
)]
pub(super) async fn plan(State(api): State<ApiState>, Digest(digest): Digest) -> Result<Response, Problem> {
    let text = api.service.plan(&digest).await?;
    Ok(([(header::CONTENT_TYPE, JSON)], text).into_response())
}

/// Shows how much noise is in the mean, beside what a mean can be: by column where columns have
/// public bounds.
#[utoipa::path(
    get,
    path = "/v1/runs/{digest}/utility",
    params(Digest),
    responses((status = 200, body = UtilityShown), Finished),
)]
pub(super) async fn utility(
    State(api): State<ApiState>,
    Digest(digest): Digest,
) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.utility(&digest).await?))
}

/// Tells this party's owner what its own table has that the plan does not describe. No other route
/// does, and no file or log.
#[utoipa::path(
    get,
    path = "/v1/runs/{digest}/table",
    operation_id = "ownTable",
    params(Digest),
    responses((status = 200, body = OwnTable), Finished),
)]
pub(super) async fn own_table(
    State(api): State<ApiState>,
    Digest(digest): Digest,
) -> Result<Response, Problem> {
    let sentences = api.service.told(&digest)?;
    Ok(json(StatusCode::OK, &json!({ "sentences": sentences })))
}

/// Gives the receipt: what really happened, byte for byte as it was signed.
#[utoipa::path(
    get,
    path = "/v1/runs/{digest}/receipt",
    params(Digest),
    responses((status = 200, body = ReceiptFile), Finished),
)]
pub(super) async fn receipt(
    State(api): State<ApiState>,
    Digest(digest): Digest,
) -> Result<Response, Problem> {
    let receipt = api.service.receipt(&digest).await?;
    Ok(([(header::CONTENT_TYPE, JSON)], receipt.json).into_response())
}

/// Gives the receipt's signature, in one line: ed25519 over `undertone/receipt/1`, a zero byte and
/// SHA-256 of receipt.json, in base64.
#[utoipa::path(
    get,
    path = "/v1/runs/{digest}/receipt.sig",
    params(Digest),
    responses((status = 200, body = Signature, content_type = "text/plain"), Finished),
)]
pub(super) async fn signature(
    State(api): State<ApiState>,
    Digest(digest): Digest,
) -> Result<Response, Problem> {
    let receipt = api.service.receipt(&digest).await?;
    let media_type = "text/plain; charset=us-ascii";
    Ok(([(header::CONTENT_TYPE, media_type)], receipt.signature).into_response())
}

/// Tells what happened in a run and what happens, as server-sent events; the answer ends with the
/// run, or with the daemon.
#[utoipa::path(
    get,
    path = "/v1/runs/{digest}/events",
    params(
        Digest,
        ("Last-Event-ID" = Option<u64>, Header, description = "only those after this id"),
    ),
    responses((status = 200, body = EventLine, content_type = "text/event-stream"), Watching),
)]
pub(super) async fn events(
    State(api): State<ApiState>,
    Digest(digest): Digest,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = match headers.get("Last-Event-ID") {
        None => 0,
        Some(value) => value
            .to_str()
            .ok()
            .and_then(|id| id.parse().ok())
            .ok_or_else(|| {
                Problem::malformed("this is no id of an event")
                    .field("Last-Event-ID")
                    .hint("send the last `id:` that you have seen")
            })?,
    };
    let place = api.bounds.watcher()?;
    let events = api.service.events(&digest, after)?;
    Ok(Sse::new(follow(api, events, place))
        .keep_alive(KeepAlive::default())
        .into_response())
}

fn follow(
    api: ApiState,
    events: EventStream,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    stream::unfold(
        (events, api.closing, place),
        async |(mut events, mut closing, place)| {
            let event = tokio::select! {
                event = events.next() => event?,
                () = ended(&mut closing) => return None,
            };
            Some((Ok(sent(&event)), (events, closing, place)))
        },
    )
}

fn sent(event: &RunEvent) -> Event {
    // The name stands in the line, too: who reads lines of `--events` reads these.
    let name = event.fields["event"].as_str().unwrap_or("message");
    Event::default()
        .id(event.id.to_string())
        .event(name)
        .data(event.fields.to_string())
}

/// Bytes of a result that are handed on at a time, so that a slow reader holds little of it twice.
const PIECE: usize = 64 << 10;

/// Gives the mean in a format that `Accept` names: `.npy` by default, or JSON; `.csv` or
/// `.safetensors` if the input was one. Of `task = "describe"` the figures, as JSON by default or
/// as CSV.
#[utoipa::path(
    get,
    path = "/v1/runs/{digest}/result",
    params(Digest),
    responses(
        (status = 200, content(
            (Bytes = "application/x-npy"),
            (Numbers = "application/json"),
            (String = "text/csv"),
            (Bytes = "application/x-safetensors"),
        )),
        Receiving,
    ),
)]
pub(super) async fn result(
    State(api): State<ApiState>,
    Extension(visit): Extension<ConnectionPermit>,
    Digest(digest): Digest,
    HeavyPlace(place): HeavyPlace,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if api.service.run(&digest)?.owners_alone {
        visit.is_owners(&headers)?;
    }
    let mean = match api.service.result(&digest).await? {
        RunResult::Mean(mean) => mean,
        RunResult::Figures(figures) => return described(*figures, &headers, place).await,
    };
    let layout = negotiation::choose(&headers, negotiation::offered(&mean.layout))?;
    let (media_type, extension) = (negotiation::type_of(&layout), layout.format.extension());
    let encode = move || {
        let mut bytes = vec![];
        formats::write_to(&mut bytes, &layout, &mean.values).map(|()| Buffer::from(bytes))
    };
    let encoded = tokio::task::spawn_blocking(encode)
        .await
        .map_err(std::io::Error::other)
        .flatten();
    let bytes =
        encoded.map_err(|e| Refusal::new(Kind::Internal, format!("the mean cannot be written: {e}")))?;
    Ok(attached(bytes, (media_type, &format!("mean.{extension}")), place))
}

/// Statistics of a table, in a format that `Accept` names.
async fn described(
    figures: FiguresFile,
    headers: &HeaderMap,
    place: OwnedSemaphorePermit,
) -> Result<Response, Problem> {
    let layout = negotiation::choose(headers, negotiation::of_figures())?;
    let (media_type, extension) = (negotiation::type_of(&layout), layout.format.extension());
    let name = format!("figures.{extension}");
    let of_format = std::path::PathBuf::from(&name);
    let encode = move || {
        let mut bytes = vec![];
        figures
            .write_to(&of_format, &mut bytes)
            .map(|()| Buffer::from(bytes))
    };
    let encoded = tokio::task::spawn_blocking(encode)
        .await
        .map_err(std::io::Error::other)
        .flatten();
    let bytes =
        encoded.map_err(|e| Refusal::new(Kind::Internal, format!("the figures cannot be written: {e}")))?;
    Ok(attached(bytes, (media_type, &name), place))
}

/// A file as an answer.
fn attached(bytes: Buffer, (media_type, name): (&str, &str), place: OwnedSemaphorePermit) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    let head = [
        (header::CONTENT_TYPE, media_type.to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
        (header::VARY, "accept".into()),
    ];
    let length = [(header::CONTENT_LENGTH, bytes.len())];
    (
        head,
        length.map(|(name, length)| (name, length.to_string())),
        Body::from_stream(pieces(bytes, place)),
    )
        .into_response()
}

/// Keeps its place until the last piece is taken, or the reader went away.
fn pieces(
    bytes: Buffer,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Buffer, Infallible>> + Send + 'static {
    stream::unfold((bytes, place), async |(mut rest, place)| {
        let piece = rest.split_to(rest.len().min(PIECE));
        (!piece.is_empty()).then_some((Ok(piece), (rest, place)))
    })
}
