//! Plans: handed in as they are, or made of a run file.

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;

use crate::daemon::api::api_state::ApiState;
use crate::daemon::api::body::Incoming;
use crate::daemon::api::contribution_body::{HeavyPlace, media_type, unsupported};
use crate::daemon::api::problem::Problem;
use crate::daemon::api::shown::{PlanFile, Taking};
use crate::daemon::api::status::json;
use crate::daemon::submitting::KeptPlan;
use crate::vector_file::formats::JSON;

/// The longest plan, in bytes: that of 200 parties over a complete graph has 2 MB.
const LONGEST_PLAN: u64 = 32 << 20;
/// The longest run file, in bytes: one that lists all edges of a graph of 200 parties has 1 MB.
const LONGEST_RUN_FILE: u64 = 8 << 20;
/// The media type of a run file.
const TOML: &str = "application/toml";

/// Takes a plan, or makes one of a run file, for a request that takes part in it or offers it.
///
/// It is kept in memory: the newest eight are.
#[utoipa::path(
    post,
    path = "/v1/plans",
    operation_id = "handIn",
    request_body(content((PlanFile = "application/json"), (String = "application/toml")), description = "PLAN.json byte for byte, or RUN.toml"),
    responses((status = 201, description = "kept", body = KeptPlan), Taking),
)]
pub(super) async fn hand_in(
    State(api): State<ApiState>,
    _place: HeavyPlace,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let media_type = media_type(&head.headers);
    let is_plan = media_type.as_deref() == Some(JSON);
    let longest = if is_plan { LONGEST_PLAN } else { LONGEST_RUN_FILE };
    let limit = longest.min(api.service.config().api.max_body_bytes);
    let incoming = Incoming::new(&head.headers, body, limit);
    let kept = match media_type.as_deref() {
        Some(JSON) => api.service.hand_in(incoming.whole().await?).await?,
        Some(TOML | "text/plain") => {
            let run_file = String::from_utf8(incoming.whole().await?).map_err(|_| {
                Problem::malformed("the run file is not UTF-8 text")
                    .field("run")
                    .hint("save it as UTF-8")
            })?;
            api.service.make_plan(run_file).await?
        }
        other => return Err(incoming.refused(unsupported(other, &[JSON, TOML])).await),
    };
    Ok(json(StatusCode::CREATED, &kept))
}
