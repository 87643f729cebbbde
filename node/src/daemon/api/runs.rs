//! Runs: taken, watched, read, withdrawn.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, stream};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::daemon::api::at_hand::{Api, ended};
use crate::daemon::api::digest::Digest;
use crate::daemon::api::limit::Limit;
use crate::daemon::api::negotiation;
use crate::daemon::api::parts::{self, Parts};
use crate::daemon::api::problem::Problem;
use crate::daemon::api::status::json;
use crate::daemon::api::visitors::Visiting;
use crate::daemon::event_log::{EventStream, RunEvent};
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::status::RunStatus;
use crate::vector_file::formats;

/// All runs that are remembered, the newest first.
pub(super) async fn list(State(api): State<Api>, limit: Limit) -> Response {
    let mut runs = api.service.runs();
    limit.keep(&mut runs, |run| run.state.is_over());
    json(StatusCode::OK, &json!({ "runs": runs }))
}

/// Takes part in a plan with a vector: parts `plan`, and `vector` or `data_file` or `data_set`.
pub(super) async fn submit(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let _place = api.bounds.heavy().await?;
    let (head, body) = request.into_parts();
    let mut parts = parts::read(&api.service, &head.headers, body, Some("plan")).await?;
    let plan = parts.take_text("plan")?;
    brought(&parts)?;
    let names = parts.names.clone();
    let run = api
        .service
        .submit(plan, parts.brings)
        .await
        .map_err(|refusal| parts::refused(names, refusal))?;
    Ok(created(&run))
}

/// Refuses a request that brings nothing.
pub(super) fn brought(parts: &Parts) -> Result<(), Problem> {
    if parts.empty() {
        return Err(Problem::malformed("there is no part \"vector\", \"data_file\" or \"data_set\"")
            .field("vector")
            .hint("send a vector, or name a file of the daemon's data folder, or a data set of its configuration"));
    }
    Ok(())
}

/// 201 with the run and its place.
pub(super) fn created(run: &RunStatus) -> Response {
    let mut response = json(StatusCode::CREATED, run);
    if let Ok(place) = format!("/v1/runs/{}", run.digest).parse() {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

pub(super) async fn one(State(api): State<Api>, Digest(digest): Digest) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.run(&digest)?))
}

pub(super) async fn withdraw(State(api): State<Api>, Digest(digest): Digest) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.withdraw(&digest).await?))
}

/// The plan's very bytes: their SHA-256 is the digest.
pub(super) async fn plan(State(api): State<Api>, Digest(digest): Digest) -> Result<Response, Problem> {
    let text = api.service.plan(&digest).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// How much noise is in the mean, by column where columns have public bounds.
pub(super) async fn worth(State(api): State<Api>, Digest(digest): Digest) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.worth(&digest).await?))
}

pub(super) async fn receipt(State(api): State<Api>, Digest(digest): Digest) -> Result<Response, Problem> {
    let receipt = api.service.receipt(&digest).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], receipt.json).into_response())
}

pub(super) async fn signature(State(api): State<Api>, Digest(digest): Digest) -> Result<Response, Problem> {
    let receipt = api.service.receipt(&digest).await?;
    Ok((
        [(header::CONTENT_TYPE, "text/plain; charset=us-ascii")],
        receipt.signature,
    )
        .into_response())
}

/// What happened in a run and what happens, as server-sent events; the answer ends with the run, or
/// with the daemon.
pub(super) async fn events(
    State(api): State<Api>,
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
    api: Api,
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

/// The mean as `.npy` or JSON, or in the input's own format, by `Accept`.
pub(super) async fn result(
    State(api): State<Api>,
    Extension(visit): Extension<Visiting>,
    Digest(digest): Digest,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if api.service.run(&digest)?.owners_alone {
        visit.is_owners(&headers)?;
    }
    let place = api.bounds.heavy().await?;
    let mean = api.service.result(&digest).await?;
    let format = negotiation::choose(&headers, &mean.layout)?;
    let layout = format.layout;
    let encode = move || {
        let mut bytes = vec![];
        formats::write_to(&mut bytes, &layout, &mean.values).map(|()| Bytes::from(bytes))
    };
    let encoded = tokio::task::spawn_blocking(encode)
        .await
        .map_err(std::io::Error::other)
        .flatten();
    let bytes =
        encoded.map_err(|e| Refusal::new(Kind::Internal, format!("the mean cannot be written: {e}")))?;
    let disposition = format!("attachment; filename=\"{}\"", format.file_name);
    let head = [
        (header::CONTENT_TYPE, format.media_type.to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
        (header::VARY, "accept".into()),
    ];
    let length = [(header::CONTENT_LENGTH, bytes.len())];
    Ok((
        head,
        length.map(|(name, length)| (name, length.to_string())),
        Body::from_stream(pieces(bytes, place)),
    )
        .into_response())
}

/// Keeps its place until the last piece is taken, or the reader went away.
fn pieces(
    bytes: Bytes,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    stream::unfold((bytes, place), async |(mut rest, place)| {
        let piece = rest.split_to(rest.len().min(PIECE));
        (!piece.is_empty()).then_some((Ok(piece), (rest, place)))
    })
}
