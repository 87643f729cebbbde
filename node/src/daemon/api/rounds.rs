//! Rounds: means read, and this party's parts handed over.

use axum::body::Bytes;
use axum::extract::{Extension, FromRequestParts, Path, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts as RequestParts;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header;

use crate::daemon::api::at_hand::Api;
use crate::daemon::api::body::Incoming;
use crate::daemon::api::digest::Digest;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::visitors::Visiting;
use crate::daemon::refusal::{Kind, Refusal};
use crate::vector_file::formats;

/// Digest and round in a path.
pub(super) struct OfRound {
    digest: String,
    round: u32,
}

impl<S: Send + Sync> FromRequestParts<S> for OfRound {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut RequestParts, state: &S) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let (digest, round) = path.map_or_else(|_| Default::default(), |Path(both)| both);
        let Digest(digest) = Digest::of(digest)?;
        match round.parse() {
            Ok(round) if round > 0 => Ok(OfRound { digest, round }),
            _ => Err(
                Problem::from(Refusal::new(Kind::Unknown, "what stands in the path is no round"))
                    .field("round")
                    .hint("rounds are counted from 1"),
            ),
        }
    }
}

/// What a mean comes as.
const NUMBERS: &str = "application/x-npy";
const TENSORS: &str = "application/x-safetensors";

/// The mean of a round, once it is there; 204 if it is not after a while. As `.npy`, or as the
/// plan's tensors for whoever asks for these.
pub(super) async fn mean(
    State(api): State<Api>,
    Extension(visit): Extension<Visiting>,
    OfRound { digest, round }: OfRound,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if api.service.run(&digest)?.owners_alone {
        visit.is_owners(&headers)?;
    }
    let _place = api.bounds.watcher()?;
    let desk = api.service.desk(&digest)?;
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    let (layout, media_type) = match accepted.any(|value| value.contains(TENSORS)) {
        true => (Some(desk.tensors().ok_or_else(no_tensors)?), TENSORS),
        false => (None, NUMBERS),
    };
    let Some(mean) = desk.mean(round).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let mut bytes = vec![];
    formats::write_to(&mut bytes, layout.as_ref().unwrap_or(&mean.layout), &mean.values)
        .map_err(|e| Refusal::new(Kind::Internal, format!("the mean cannot be written: {e}")))?;
    Ok(([(header::CONTENT_TYPE, media_type)], Bytes::from(bytes)).into_response())
}

fn no_tensors() -> Problem {
    let what = "the plan names no tensors that a mean could be split into";
    Problem::new(StatusCode::NOT_ACCEPTABLE, "not-acceptable", what)
        .field("Accept")
        .hint("leave Accept out: the mean comes as .npy; or name tensors in data.tensors")
}

/// Takes this party's part of a round, the bytes of a `.npy` or of a `.safetensors`.
pub(super) async fn hand_over(
    State(api): State<Api>,
    OfRound { digest, round }: OfRound,
    request: Request,
) -> Result<Response, Problem> {
    let _place = api.bounds.heavy().await?;
    let desk = api.service.desk(&digest)?;
    let (head, body) = request.into_parts();
    let mut incoming = Incoming::new(&head.headers, body, api.service.config().api.max_body_bytes);
    let bytes = match incoming.whole().await {
        Ok(bytes) => bytes,
        Err(problem) => {
            incoming.linger().await;
            return Err(problem);
        }
    };
    let part = formats::rows_of_bytes(bytes).map_err(|why| {
        Refusal::new(Kind::Input, format!("the body: {why}"))
            .field("body")
            .hint("send the bytes of a .npy, as numpy.save writes it, or of a .safetensors")
    })?;
    desk.hand_over(round, part)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
