//! Rounds: means read, and this party's parts handed over.

use axum::extract::{Extension, FromRequestParts, Path, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts as RequestParts;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header;

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::body::Incoming;
use crate::daemon::api::connection_limiter::ConnectionPermit;
use crate::daemon::api::contribution_body::{HeavyPlace, media_type, unsupported};
use crate::daemon::api::digest::Digest;
use crate::daemon::api::negotiation;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::shown::{Bytes, Receiving, Taking};
use crate::daemon::refusal::{Kind, Refusal};
use crate::reporting::failure::Exit;
use crate::vector_file::formats::{self, NPY, SAFETENSORS};

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

/// Gives the mean of a round, once it is there (task = "rounds"); the latest ones are kept. As
/// `.npy` of f64 in the plan's shape, or as the plan's tensors for whoever accepts these.
#[utoipa::path(
    get,
    path = "/v1/runs/{digest}/rounds/{round}",
    operation_id = "roundMean",
    params(Digest, ("round" = u32, Path, minimum = 1)),
    responses(
        (status = 200, content((Bytes = "application/x-npy"), (Bytes = "application/x-safetensors"))),
        (status = 204, description = "it is not there yet, after 20 s: ask again"),
        Receiving,
    ),
)]
pub(super) async fn mean(
    State(api): State<ApiState>,
    Extension(visit): Extension<ConnectionPermit>,
    OfRound { digest, round }: OfRound,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if api.service.run(&digest)?.owners_alone {
        visit.is_owners(&headers)?;
    }
    let _place = api.bounds.watcher()?;
    let desk = api.service.desk(&digest)?;
    let offered = [desk.layout()].into_iter().chain(desk.tensors()).collect();
    let layout = negotiation::choose(&headers, offered)?;
    let Some(mean) = desk.mean(round).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let mut bytes = vec![];
    formats::write_to(&mut bytes, &layout, &mean)
        .map_err(|e| Refusal::new(Kind::Internal, format!("the mean cannot be written: {e}")))?;
    let head = [(header::CONTENT_TYPE, negotiation::type_of(&layout))];
    Ok((head, bytes).into_response())
}

/// Takes this party's part of a round; the first is the run's vector.
///
/// For what is late the point of the range nearest to zero counts, and for a row (unit = record)
/// that is not finite too.
#[utoipa::path(
    post,
    path = "/v1/runs/{digest}/rounds/{round}",
    operation_id = "handOver",
    params(Digest, ("round" = u32, Path, minimum = 1)),
    request_body(content((Bytes = "application/x-npy"), (Bytes = "application/x-safetensors"))),
    responses((status = 204, description = "taken"), Taking),
)]
pub(super) async fn hand_over(
    State(api): State<ApiState>,
    OfRound { digest, round }: OfRound,
    _place: HeavyPlace,
    request: Request,
) -> Result<Response, Problem> {
    let desk = api.service.desk(&digest)?;
    let (head, body) = request.into_parts();
    let incoming = Incoming::new(&head.headers, body, api.service.config().api.max_body_bytes);
    let media_type = media_type(&head.headers);
    if ![Some(NPY), Some(SAFETENSORS)].contains(&media_type.as_deref()) {
        let problem = unsupported(media_type.as_deref(), &[NPY, SAFETENSORS]);
        return Err(incoming.refused(problem.exit(Exit::InputUnusable)).await);
    }
    let part = formats::rows_of_bytes(incoming.whole().await?).map_err(|why| {
        Refusal::new(Kind::Input, format!("the body: {why}"))
            .field("body")
            .hint("send the bytes of a .npy, as numpy.save writes it, or of a .safetensors")
    })?;
    desk.hand_over(round, part)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
