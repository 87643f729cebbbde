//! `undertone peers revoke` and `undertone peers revoked`.

use clap::Args;
use hyper::body::Bytes;
use hyper::{Method, header};
use serde::Deserialize;
use serde_json::json;

use crate::commands::client::connection::Sent;
use crate::commands::client::daemon::{ApiArgs, run};
use crate::commands::client::show;
use crate::daemon::keys::store::RevokedKey;
use crate::planning::revoked::parse_line;
use crate::reporting::date::utc;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Flags of `peers revoke`.
#[derive(Args, Debug)]
pub struct RevokeLineArgs {
    /// The line of `undertone identity revoke`
    line: String,
    #[command(flatten)]
    api: ApiArgs,
}

/// Flags of `peers revoked`.
#[derive(Args, Debug)]
pub struct RevokedArgs {
    #[command(flatten)]
    api: ApiArgs,
}

#[derive(Deserialize)]
struct ListedKeys {
    revoked: Vec<RevokedKey>,
}

/// Hands a statement to the daemon, which tells it to the others.
pub fn revoke(arguments: &RevokeLineArgs) -> Result<Report, Failure> {
    // A line that was cut short is found without a daemon.
    parse_line(&arguments.line).map_err(|failure| failure.field("LINE"))?;
    let daemon = arguments.api.daemon()?;
    let line = Bytes::from(arguments.line.trim().to_owned());
    let length = line.len() as u64;
    let sent = Sent {
        headers: vec![(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("text/plain"),
        )],
        body: Some((Box::pin(futures::stream::once(async { Ok(line) })), length)),
    };
    let key: RevokedKey = run(async { daemon.send(Method::POST, "/v1/keys", sent).await?.object().await })?;
    let text = format!(
        "Revoked: {}. This daemon tells the others of the group.\nRuns that are spent go on to their end; all others that name it are left.\n",
        described(&key)
    );
    Ok(Report::done(show::object(&key), text))
}

/// Prints the statements that the daemon holds, each under a comment: a file for `--keys`.
pub fn revoked(arguments: &RevokedArgs) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    let ListedKeys { revoked } = run(daemon.get("/v1/keys"))?;
    let lines = revoked
        .iter()
        .map(|key| format!("# {}\n{}\n", described(key), key.line));
    let text = match revoked.is_empty() {
        true => "# No key of the peer list is revoked.\n".to_owned(),
        false => lines.collect(),
    };
    Ok(Report::done(
        json!({ "revoked": show::object(&revoked), "exit_code": 0 }),
        text,
    ))
}

/// "carol (12D3…), by its recovery key, at …"
fn described(key: &RevokedKey) -> String {
    let name = key.name.as_deref().unwrap_or("nobody in the list");
    format!("{name} ({}), by {}, at {}", key.id, key.signer(), utc(key.at_ms))
}
