//! The digest in a path.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts as RequestParts;
use utoipa::IntoParams;

use crate::daemon::api::problem::Problem;
use crate::daemon::refusal::{Kind, Refusal};

/// The digest in a path: SHA-256 of the plan's bytes, 64 digits of lower-case hex.
#[derive(IntoParams)]
#[into_params(names("digest"), parameter_in = Path)]
pub(super) struct Digest(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Digest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut RequestParts, state: &S) -> Result<Self, Problem> {
        let given = Path::<String>::from_request_parts(parts, state)
            .await
            .map_or(String::new(), |Path(digest)| digest);
        Digest::of(given)
    }
}

impl Digest {
    /// Reads a digest from a path. It becomes part of file names, so nothing else may get further.
    pub(super) fn of(given: String) -> Result<Self, Problem> {
        if given.len() == 64 && given.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Ok(Digest(given));
        }
        Err(Problem::from(Refusal::new(Kind::Unknown, "what stands in the path is not a plan's digest"))
            .field("digest")
            .hint("a digest is the plan's SHA-256, 64 digits of lower-case hex; GET /v1/status lists those that are known"))
    }
}
