//! The OpenAPI document's part on answers beside their objects: how requests are refused, and
//! what is no object of ours.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::{Content, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use crate::daemon::api::problem::MEDIA_TYPE;
use crate::daemon::keys::store::RevokedKey;
use crate::daemon::schedule::schedule_status::ScheduleStatus;
use crate::daemon::status::{OfferStatus, RunStatus};

/// Names sets of statuses that stand for refusals.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident: $($status:literal)*;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                [$($status),*].into_iter().map(problem).collect()
            }
        }
    )*};
}

refusals! {
    /// How what the owner alone may ask is refused.
    Owners: 401;
    /// How a statement that revokes a key is refused.
    Revoking: 400 401 403 408 413 503 507;
    /// How a question with a query is refused.
    Queried: 400 401;
    /// How readiness is denied.
    NotReady: 503;
    /// How a question about one run or offer is refused.
    Reading: 401 404;
    /// How a question about a run that has to be over is refused.
    Finished: 401 403 404 409 500;
    /// How a watcher is refused.
    Watching: 400 401 403 404 503;
    /// How a change of one run or offer is refused.
    Changing: 401 403 404 409 503;
    /// How a mean is refused.
    Receiving: 401 403 404 406 409 500 503;
    /// How a plan or a vector is refused.
    Taking: 400 401 403 404 408 409 413 415 422 429 500 503 507;
}

/// The refusal with a status, as the document has it.
fn problem(status: u16) -> (String, RefOr<Response>) {
    let meaning = match status {
        400 => "What was asked makes no sense",
        401 => "No token, or another one",
        403 => {
            "Beyond the budget of the data set, or the policy; or the owner's alone; or a token that only reads"
        }
        404 => "No such thing",
        406 => "Not to be had in a format that the client accepts",
        408 => "No byte of the body came for 30 s",
        409 => "In another state than that needs: submitted before, begun, spent, or without a result yet",
        413 => "More bytes than the daemon takes",
        415 => "A body of a format that is not known",
        422 => "The plan does not verify, or the vector cannot be used",
        429 => "Too many runs wait",
        500 => "Our bug",
        503 => "The daemon is not ready, is ending, or has too much under way",
        _ => "The state directory cannot be written",
    };
    let content = Content::new(Some(Ref::from_schema_name("Problem")));
    let response = ResponseBuilder::new()
        .description(meaning)
        .content(MEDIA_TYPE, content);
    (status.to_string(), response.build().into())
}

/// The answer of a process that lives.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    #[schema(pattern = "^ok$")]
    pub(super) status: &'static str,
}

/// Runs, the newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = Runs)]
pub(super) struct RunList {
    pub(super) runs: Vec<RunStatus>,
}

/// Offers, the newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = Offers)]
pub(super) struct OfferList {
    pub(super) offers: Vec<OfferStatus>,
}

/// Keys that were revoked.
#[derive(Serialize, ToSchema)]
#[schema(as = RevokedKeys)]
pub(super) struct RevokedList {
    pub(super) revoked: Vec<RevokedKey>,
}

/// Schedules, in the configuration's order.
#[derive(Serialize, ToSchema)]
#[schema(as = Schedules)]
pub(super) struct ScheduleList {
    pub(super) schedules: Vec<ScheduleStatus>,
}

/// Schemas of what the API takes or answers without an object of its own.
macro_rules! shown {
    ($($item:item)*) => {$(
        #[derive(ToSchema)]
        #[expect(dead_code, reason = "the document alone has it")]
        $item
    )*};
}

shown! {
    /// The bytes of a file.
    #[schema(value_type = String, format = Binary)]
    pub(super) struct Bytes(String);

    /// Nested lists of numbers, in the shape of one party's vector (or of one record).
    #[serde(untagged)]
    #[schema(no_recursion)]
    pub(super) enum Numbers {
        List(Vec<Numbers>),
        Number(f64),
    }

    /// One line of base64.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9+/]{86}==\\n?$")]
    pub(super) struct Signature(String);

    /// The `data` of a server-sent event: a line of `undertone join --events`. No values.
    #[schema(as = Event)]
    pub(super) struct EventLine {
        t_ms: u64,
        party: String,
        /// "phase", "round", "peer", "fault", "finished", …
        event: String,
    }

    /// PLAN.json, byte for byte.
    #[schema(as = Plan)]
    pub(super) struct PlanFile {
        version: u32,
        name: String,
        members: Vec<Value>,
        claims: Vec<Value>,
    }

    /// receipt.json, byte for byte as it was signed.
    #[schema(as = Receipt)]
    pub(super) struct ReceiptFile {
        version: u32,
        #[schema(pattern = "^[0-9a-f]{64}$")]
        digest: String,
        party: String,
        /// "done", "degraded", "aborted" or "withheld".
        outcome: String,
        included: Vec<String>,
        agreed: bool,
        epsilon: Option<f64>,
        delta: f64,
        mu: Option<f64>,
    }

    /// A party's own table, for its owner: a sentence on each column with missing cells, or with
    /// others than the plan describes.
    #[schema(as = OwnTable)]
    pub(super) struct OwnTable {
        sentences: Vec<String>,
    }

    /// A mean's noise beside what a mean can be. Where inputs lie in a ball, `mean_at_most` (or
    /// `sum_at_most`) and `noise` are norms; where they lie in a box, `columns` has each one's.
    #[schema(as = Utility)]
    pub(super) struct UtilityShown {
        sentence: String,
        /// The noise over what a mean can be at most.
        ratio: f64,
        is_noise: bool,
        mean_at_most: Option<f64>,
        sum_at_most: Option<f64>,
        noise: Option<f64>,
        /// One stands for all where these are alike.
        columns: Option<Vec<ColumnShown>>,
        /// Each statistic's noise over all rows, where a table is described.
        statistics: Option<Vec<StatisticShown>>,
    }

    /// A statistic of a table, and its noise relative to half of a range or to all rows.
    #[schema(as = Statistic)]
    pub(super) struct StatisticShown {
        /// A column's name, or a list of names.
        column: Value,
        statistic: String,
        relative_noise: f64,
    }

    /// A column with its public bounds and the standard error of its mean.
    #[schema(as = Column)]
    pub(super) struct ColumnShown {
        column: String,
        low: f64,
        high: f64,
        noise: f64,
    }
}
