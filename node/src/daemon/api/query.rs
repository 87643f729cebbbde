//! The query of a request: parameters that are known, each once.

use axum::extract::FromRequestParts;
use axum::http::request::Parts as RequestParts;
use hyper::Uri;
use utoipa::IntoParams;

use crate::daemon::api::problem::Problem;

/// The parameters of these names.
pub(super) fn parameters<const N: usize>(
    uri: &Uri,
    known: [&'static str; N],
) -> Result<[Option<String>; N], Problem> {
    let mut found = [const { None }; N];
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        let Some(at) = known.iter().position(|known| *known == name) else {
            let what = format!("the query has a parameter {name:?}, which is not known here");
            return Err(Problem::malformed(what).hint(format!("parameters: {}", known.join(", "))));
        };
        if found[at].replace(value.into_owned()).is_some() {
            let what = format!("the query has two parameters {name:?}");
            return Err(Problem::malformed(what).field(known[at]));
        }
    }
    Ok(found)
}

/// How many runs and offers are answered at most: all that goes on, and of what is over the newest.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Limit {
    /// At most so many of the runs that are over, and of the offers that are not open.
    limit: Option<usize>,
}

impl Limit {
    /// Leaves out what is over and not among the newest; the newest come first.
    pub(super) fn keep<T>(&self, all: &mut Vec<T>, is_over: impl Fn(&T) -> bool) {
        let mut left = self.limit.unwrap_or(usize::MAX);
        all.retain(|one| {
            let over = is_over(one);
            let kept = !over || left > 0;
            left = left.saturating_sub(usize::from(over));
            kept
        });
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Limit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut RequestParts, _: &S) -> Result<Self, Problem> {
        let [limit] = parameters(&parts.uri, ["limit"])?;
        let limit = limit.map(|number| number.parse()).transpose();
        limit.map(|limit| Limit { limit }).map_err(|_| {
            Problem::malformed("limit is no number of runs")
                .field("limit")
                .hint("write ?limit=10")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_read_once_and_only_if_it_is_known() {
        let read = |query: &str| parameters(&format!("/v1/x{query}").parse().unwrap(), ["a", "b"]);
        let text = |value: &str| Some(value.to_owned());
        assert_eq!(read(""), Ok([None, None]));
        assert_eq!(read("?b=x%20y+z%3D&a="), Ok([text(""), text("x y z=")]));
        let refused = |query| read(query).unwrap_err();
        assert_eq!(refused("?a=1&a=2").field.as_deref(), Some("a"));
        assert_eq!(refused("?c=1").hint.as_deref(), Some("parameters: a, b"));
        assert_eq!((refused("?c").status, refused("?A=1").exit_code), (400, 2));
    }
}
