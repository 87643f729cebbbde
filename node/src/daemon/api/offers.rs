//! Offers: plans that others propose, and plans that this daemon makes.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use serde_json::{Map, Value, json};

use crate::daemon::api::at_hand::Api;
use crate::daemon::api::body::Incoming;
use crate::daemon::api::digest::Digest;
use crate::daemon::api::parts::{self, Parts};
use crate::daemon::api::problem::Problem;
use crate::daemon::api::runs::{brought, created};
use crate::daemon::api::status::json;

/// All offers that are remembered, the newest first.
pub(super) async fn list(State(api): State<Api>) -> Response {
    json(StatusCode::OK, &json!({ "offers": api.service.offers() }))
}

pub(super) async fn one(State(api): State<Api>, Digest(digest): Digest) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.offer(&digest)?))
}

pub(super) async fn decline(State(api): State<Api>, Digest(digest): Digest) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &api.service.decline(&digest).await?))
}

/// Takes part in an offered plan: `vector` or `data_file` or `data_set`.
pub(super) async fn accept(
    State(api): State<Api>,
    Digest(digest): Digest,
    request: Request,
) -> Result<Response, Problem> {
    let _place = api.bounds.heavy().await?;
    let (head, body) = request.into_parts();
    let parts = parts::read(&api.service, &head.headers, body, None).await?;
    brought(&parts)?;
    let names = parts.names.clone();
    let run = api
        .service
        .accept(&digest, parts.brings)
        .await
        .map_err(|refusal| parts::refused(names, refusal))?;
    Ok(created(&run))
}

/// The longest run file, in bytes: one that lists all edges of a graph of 200 parties has 1 MB.
const LONGEST_RUN_FILE: u64 = 8 << 20;

/// Makes a plan of a run file and offers it to the members: TOML alone, or multipart with part
/// `run` and what this node brings itself.
pub(super) async fn propose(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let _place = api.bounds.heavy().await?;
    let (head, body) = request.into_parts();
    let mut parts = run_file(&api, &head.headers, body).await?;
    let run_file = String::from_utf8(parts.take_text("run")?).map_err(|_| {
        Problem::malformed("the run file is not UTF-8 text")
            .field("run")
            .hint("save it as UTF-8")
    })?;
    let names = parts.names.clone();
    let brings = (!parts.empty()).then_some(parts.brings);
    let proposed = api
        .service
        .propose(run_file, brings)
        .await
        .map_err(|refusal| parts::refused(names, refusal))?;
    let members: Map<String, Value> = proposed
        .members
        .into_iter()
        .map(|(name, answer)| (name, answer.into()))
        .collect();
    let object = json!({
        "digest": proposed.digest,
        "quote": proposed.quote,
        "run": proposed.run,
        "members": members,
    });
    Ok(json(StatusCode::CREATED, &object))
}

async fn run_file(api: &Api, headers: &HeaderMap, body: Body) -> Result<Parts, Problem> {
    let media_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let toml = ["application/toml", "text/plain"]
        .iter()
        .any(|known| media_type.to_ascii_lowercase().starts_with(known));
    if !toml {
        return parts::read(&api.service, headers, body, Some("run")).await;
    }
    let limit = LONGEST_RUN_FILE.min(api.service.config().api.max_body_bytes);
    let mut incoming = Incoming::new(headers, body, limit);
    match incoming.whole().await {
        Ok(text) => Ok(Parts {
            text: Some(text),
            ..Parts::default()
        }),
        Err(problem) => {
            incoming.linger().await;
            Err(problem)
        }
    }
}
