//! `undertone version`: which program this is, and what it can talk to.

use serde_json::json;

use crate::party::reaching::MESSAGES_VERSION;
use crate::reporting::report::Report;

/// The commit that the program was built from: its builder says it (BUILT_FROM_COMMIT), or git,
/// where the sources are a checkout (`build.rs`).
const COMMIT: Option<&str> = option_env!("UNDERTONE_COMMIT");

/// Whether it is that very commit. A debug build may be of a later one.
const IS_EXACT: bool = option_env!("UNDERTONE_COMMIT_IS_EXACT").is_some();

/// The version that run files, peer lists, plans, receipts, identities and configurations have:
/// there is one format of each so far.
const FILES_VERSION: u32 = 1;

/// The version in the API's paths.
const API_VERSION: &str = "v1";

/// Says the versions of the program and of all that it reads and says.
pub fn run() -> Report {
    let version = env!("CARGO_PKG_VERSION");
    let commit = COMMIT.filter(|commit| !commit.is_empty());
    let object = json!({
        "version": version,
        "commit": commit,
        "commit_is_exact": commit.is_some() && IS_EXACT,
        "messages": MESSAGES_VERSION,
        "files": FILES_VERSION,
        "api": API_VERSION,
        "exit_code": 0,
    });
    let text = format!(
        "undertone {version} ({})\n\
         messages {MESSAGES_VERSION}: parties of one run need the same\n\
         files {FILES_VERSION}: plans, receipts, run files, peer lists, identities, configurations\n\
         api {API_VERSION}\n",
        commit.map_or(
            "its builder did not say of which commit".to_owned(),
            |commit| match IS_EXACT {
                true => format!("commit {commit}"),
                false => format!("commit {commit} or a later one: a debug build"),
            }
        ),
    );
    Report::done(object, text)
}
