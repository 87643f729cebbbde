//! How many runs and offers are answered at most.

use axum::extract::FromRequestParts;
use axum::http::request::Parts as RequestParts;

use crate::daemon::api::problem::Problem;

/// The `?limit=N` of a request: all that goes on, and of what is over the newest N, or all.
pub(super) struct Limit(usize);

impl Limit {
    /// Leaves out what is over and not among the newest; the newest come first.
    pub(super) fn keep<T>(&self, all: &mut Vec<T>, is_over: impl Fn(&T) -> bool) {
        let mut left = self.0;
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
        let query = parts.uri.query().unwrap_or_default().split('&');
        match query.filter_map(|pair| pair.strip_prefix("limit=")).next_back() {
            None => Ok(Limit(usize::MAX)),
            Some(number) => number.parse().map(Limit).map_err(|_| {
                Problem::malformed("limit is no number of runs")
                    .field("limit")
                    .hint("write ?limit=10")
            }),
        }
    }
}
