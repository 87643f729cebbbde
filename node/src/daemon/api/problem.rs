//! Refusals on the wire: RFC 9457's problem+json, with the field at fault, what to do, and the exit
//! code that a client ends with.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{self, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::daemon::refusal::{Kind, Refusal};
use crate::reporting::failure::Exit;

/// The prefix of every `type`.
const TYPE: &str = "urn:undertone:problem:";

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// A problem as it is sent. No private value is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Which problem it is, as a URN.
    #[serde(rename = "type")]
    #[schema(value_type = String, pattern = "^urn:undertone:problem:[a-z-]+$")]
    pub kind: Box<str>,
    /// The HTTP status in words.
    #[schema(value_type = String)]
    pub title: Box<str>,
    /// The HTTP status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What is wrong, in one sentence.
    pub detail: String,
    /// The parameter, header or key at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What a client of the command line exits with.
    pub exit_code: i32,
}

impl Problem {
    /// A problem of HTTP itself: the client's fault, exit 2.
    pub fn new(status: StatusCode, name: &str, detail: impl Into<String>) -> Self {
        Problem {
            kind: format!("{TYPE}{name}").into(),
            title: status.canonical_reason().unwrap_or("Problem").into(),
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
            hint: None,
            exit_code: Exit::Usage.code(),
        }
    }

    /// 400: what was asked makes no sense.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Refusal::new(Kind::Malformed, detail).into()
    }

    /// 413: more than this many bytes.
    pub fn too_large(what: &str, limit: u64) -> Self {
        let detail = format!("{what} is longer than the {limit} bytes that this daemon takes");
        Problem::from(Refusal::new(Kind::TooLarge, detail)).hint("raise `[api] max_body_bytes`, or send less")
    }

    /// Says what a client exits with.
    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit_code = exit.code();
        self
    }

    /// Names what is at fault.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = StatusCode::from_u16(refusal.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let problem = Problem::new(status, refusal.kind.name(), refusal.message).exit(refusal.kind.exit());
        Problem {
            field: refusal.field,
            hint: refusal.hint,
            ..problem
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = serde_json::to_string(&self).expect("strings and numbers can be written");
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], Body::from(text)).into_response();
        if let Some((name, value)) = companion(status) {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// The header that some statuses come with.
fn companion(status: StatusCode) -> Option<(HeaderName, &'static str)> {
    match status {
        StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
        // Seconds: our guess of when a place is free.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, "5")),
        _ => None,
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}
