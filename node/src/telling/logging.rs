//! The log: standard error, text or JSON. Private values never reach it; their types cannot be printed.

use tracing_subscriber::EnvFilter;

use crate::cli::{LogFormat, Shared};

/// Starts the log of this process; a second start is ignored.
pub fn start(shared: &Shared) {
    let level = match shared.verbose {
        0 => "undertone=info,warn",
        1 => "undertone=debug,info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("UNDERTONE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    let _ = match shared.log {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
