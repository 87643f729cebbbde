//! The OpenAPI document, put together of what stands beside each route and each object. A test
//! holds it against what the server really answers.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use hyper::header;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use crate::daemon::api::problem::Problem;
use crate::daemon::api::shown::Owners;
use crate::daemon::api::{keys, offers, page, plans, rounds, runs, status};
use crate::vector_file::formats::JSON;

/// The document as JSON.
pub(super) fn text() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
        let mut document = serde_json::to_value(Paths::openapi()).expect("a document is plain");
        document["security"] = json!([{ "token": [] }]);
        document["components"]["securitySchemes"] =
            json!({ "token": { "type": "http", "scheme": "bearer" } });
        close(&mut document["components"]["schemas"]);
        document.to_string()
    });
    &DOCUMENT
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Undertone node",
        version = "1",
        description = "The local API of `undertone node`: plain HTTP on loopback or a Unix socket. \
                       Everything but /, /healthz and /readyz needs the token of the daemon's token file. \
                       Errors are RFC 9457 problems; unknown paths answer 404, other methods 405, heads \
                       over 64 KiB 431.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "http://127.0.0.1:7300")),
    paths(
        page::page, status::health, status::ready, status::metrics, document, status::status,
        status::schedules, keys::list, keys::revoke, plans::hand_in,
        runs::list, runs::submit, runs::one, runs::withdraw,
        runs::plan, runs::events, runs::result, rounds::mean, rounds::hand_over,
        runs::utility, runs::own_table,
        runs::receipt, runs::signature,
        offers::list, offers::propose, offers::one, offers::decline, offers::plan, offers::accept,
    ),
    components(schemas(Problem)),
)]
struct Paths;

/// Objects of which the document names some keys only.
const OPEN: [&str; 3] = ["Event", "Plan", "Receipt"];
/// Objects that leave keys out where there is nothing to say; all others write `null`.
const BRIEF: [&str; 2] = ["Problem", "Utility"];

/// Says of every object that it has all of its keys, and no others. What is flattened into one is
/// part of it.
fn close(schemas: &mut Value) {
    let written = schemas.clone();
    let properties = |part: &Value| {
        let name = part["$ref"].as_str().and_then(|name| name.rsplit('/').next());
        let part = name.map_or(part, |name| &written[name]);
        part["properties"].as_object().cloned().unwrap_or_default()
    };
    for (name, schema) in schemas.as_object_mut().into_iter().flatten() {
        if let Some(parts) = schema["allOf"].as_array() {
            let all = Map::from_iter(parts.iter().flat_map(properties));
            *schema = json!({ "type": "object", "description": schema["description"], "properties": all });
        }
        let Some(properties) = schema["properties"].as_object() else {
            continue;
        };
        let keys: Vec<String> = properties.keys().cloned().collect();
        if !OPEN.contains(&name.as_str()) {
            schema["additionalProperties"] = json!(false);
        }
        if !BRIEF.contains(&name.as_str()) {
            schema["required"] = json!(keys);
        }
    }
}

/// Gives this document.
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json"), Owners),
)]
pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, JSON)], text()).into_response()
}
