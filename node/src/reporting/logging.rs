//! The log: standard error, text or JSON. Private values never reach it; their types cannot be
//! printed.

use std::io::{self, IsTerminal, Write};

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::reporting::escaped::Escaping;
use crate::reporting::progress::above;

/// Flags of every command, which the first help page explains, and no other.
#[derive(Args, Clone, Debug)]
pub struct GlobalFlags {
    /// Print exactly one JSON object on standard output, also when it fails
    #[arg(long, global = true, hide = true)]
    pub json: bool,
    /// Format of the log on standard error
    #[arg(long, global = true, hide = true, value_enum, default_value_t = LogFormat::Text)]
    pub log: LogFormat,
    /// Log more (-v debug, -vv trace); private values are never logged
    #[arg(short, long, global = true, hide = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs, one object a line.
    Json,
}

/// Standard error, above a line of progress that stands there.
struct AboveLine;

impl Write for AboveLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        above(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The target of log lines about a run's progress.
pub const EVENTS: &str = "undertone::events";

/// Starts the log of this process; a second start is ignored. Where a line on the terminal shows
/// the progress of a run, the log does not say so as well, unless more is asked for.
pub fn start(shared: &GlobalFlags, live: bool) {
    let shown = live && shared.log == LogFormat::Text && io::stderr().is_terminal();
    let level = match shared.verbose {
        0 if shown => "undertone=info,undertone::events=warn,warn",
        0 => "undertone=info,warn",
        1 => "undertone=debug,info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("UNDERTONE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Escaping(AboveLine))
        // A line that cannot be written is dropped: reporting that on standard error panics where
        // the reader of that has left.
        .log_internal_errors(false)
        .with_target(false);
    let _ = match shared.log {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
