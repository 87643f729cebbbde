//! The input of a run in a request: a vector as its body, or names in its query.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts as RequestParts;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::body::Incoming;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::query::parameters;
use crate::daemon::contribution::{Contribution, Vector};
use crate::reporting::failure::Exit;
use crate::vector_file::formats::{EXTENSIONS, MEDIA_TYPES};

/// A place for an upload or a result. Stands before [`ContributionBody`] in a handler's arguments:
/// until there is one, no byte of the body is read.
pub(super) struct HeavyPlace(pub(super) OwnedSemaphorePermit);

impl FromRequestParts<ApiState> for HeavyPlace {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut RequestParts, api: &ApiState) -> Result<Self, Problem> {
        api.bounds.heavy().await.map(HeavyPlace)
    }
}

/// The names in a request's query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the document has it; the fields are read by name")]
pub(super) struct Named {
    /// Instead of a body: the name of a file in the daemon's data folder.
    data_file: Option<String>,
    /// The data set whose budget pays; alone, its file is the vector.
    data_set: Option<String>,
    /// The number of records, where the plan only bounds it and their sum is handed over.
    records: Option<u32>,
}

/// A request's input of a run, if it has one.
pub(super) struct ContributionBody(pub(super) Contribution);

impl FromRequest<ApiState> for ContributionBody {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &ApiState) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        let incoming = Incoming::new(&head.headers, body, api.service.config().api.max_body_bytes);
        // What is short is looked at first: what is wrong with it is found before a long vector is
        // read.
        let named = parameters(&head.uri, ["data_file", "data_set", "records"]);
        let counted =
            named.and_then(|[data_file, data_set, records]| Ok((data_file, data_set, count(records)?)));
        let (data_file, data_set, records) = match counted {
            Ok(named) => named,
            Err(problem) => return Err(incoming.refused(problem).await),
        };
        let vector = match (media_type(&head.headers), data_file) {
            (None, data_file) => {
                incoming.nothing(unknown_format(None)).await?;
                data_file.map(Vector::Named)
            }
            (Some(_), Some(_)) => {
                let both = Problem::malformed("both a vector in the body and a data file")
                    .field("data_file")
                    .hint("send one of them");
                return Err(incoming.refused(both).await);
            }
            (Some(media_type), None) => Some(uploaded(api, incoming, &media_type).await?),
        };
        Ok(ContributionBody(Contribution {
            vector,
            data_set,
            records,
        }))
    }
}

/// A number of records in a query.
fn count(text: Option<String>) -> Result<Option<u32>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let malformed = |_| {
        let shown: String = text.chars().take(40).collect();
        Problem::malformed(format!("records is {shown:?}, which is no whole number"))
            .field("records")
            .hint("say how many rows this party brings: records=843")
    };
    text.parse().map(Some).map_err(malformed)
}

impl ContributionBody {
    /// The input; a request without one is refused.
    pub(super) fn something(self) -> Result<Contribution, Problem> {
        if self.0.is_empty() {
            return Err(Problem::malformed("there is no vector in the body, and none is named")
                .field("vector")
                .hint("send a vector, or name a file of the daemon's data folder (?data_file=) or a data set of its configuration (?data_set=)"));
        }
        Ok(self.0)
    }
}

/// The media type of a body in lower case, without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?;
    let text = String::from_utf8_lossy(value.as_bytes());
    Some(
        text.split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase(),
    )
}

/// 415: a body of a format that cannot be read here.
pub(super) fn unsupported(found: Option<&str>, known: &[&str]) -> Problem {
    let what = match found {
        Some(found) => format!("a body of the media type {found:?} is not taken here"),
        None => "there is a body, and no media type that says what it is".to_owned(),
    };
    let what: String = what.chars().take(200).collect();
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", what)
        .field("Content-Type")
        .hint(format!("send one of {}", known.join(", ")))
}

fn unknown_format(found: Option<&str>) -> Problem {
    unsupported(found, &MEDIA_TYPES).exit(Exit::InputUnusable)
}

/// The extension of files of this media type.
fn extension(media_type: &str) -> Result<&'static str, Problem> {
    let found = MEDIA_TYPES.iter().position(|known| *known == media_type);
    found
        .map(|at| EXTENSIONS[at])
        .ok_or_else(|| unknown_format(Some(media_type)))
}

/// Streams a vector to a file of its own.
async fn uploaded(api: &ApiState, incoming: Incoming, media_type: &str) -> Result<Vector, Problem> {
    let file = extension(media_type).and_then(|extension| Ok(api.service.upload(extension)?));
    match file {
        Ok(file) => {
            incoming.into_file(file.as_file()).await?;
            Ok(Vector::Upload(file.into_temp_path()))
        }
        Err(problem) => Err(incoming.refused(problem).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_media_type_tells_the_format() {
        let of = |value: &str| {
            media_type(&HeaderMap::from_iter([(
                header::CONTENT_TYPE,
                value.parse().unwrap(),
            )]))
            .unwrap()
        };
        assert_eq!(extension(&of("application/x-npy")), Ok("npy"));
        assert_eq!(extension(&of(" Text/CSV ; charset=utf-8")), Ok("csv"));
        assert_eq!(media_type(&HeaderMap::new()), None);
        for other in [
            "",
            "text/plain",
            "multipart/form-data; boundary=b",
            "text/csv2",
            "csv",
        ] {
            let problem = extension(&of(other)).unwrap_err();
            assert_eq!(
                (problem.status, problem.field.as_deref(), problem.exit_code),
                (415, Some("Content-Type"), 7),
                "{other}"
            );
        }
    }
}
