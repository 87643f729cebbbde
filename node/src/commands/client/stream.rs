//! `undertone watch`: a run's events as they come, until it ends.

use std::fs::File;
use std::io::Write;

use clap::Args;
use hyper::header::{self, HeaderName, HeaderValue};
use serde_json::Value;

use crate::commands::client::connection::{Answer, Sent};
use crate::commands::client::daemon::{ApiArgs, Daemon, run};
use crate::commands::client::show;
use crate::daemon::status::{RunState, RunStatus};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::output;
use crate::reporting::report::Report;
use crate::reporting::sentences;

/// Flags of `watch`.
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// The run's digest; its first digits will do
    #[arg(value_name = "DIGEST")]
    digest: String,
    /// Write each event as a JSON line ("-": standard output)
    #[arg(long, value_name = "FILE")]
    events: Option<std::path::PathBuf>,
    #[command(flatten)]
    api: ApiArgs,
}

/// Follows a run to its end, and exits as `undertone join` would have; or ends as soon as nobody
/// reads what it shows (`| head`), as if SIGPIPE had ended it.
pub fn watch(arguments: WatchArgs, json: bool) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    let sink = EventOutput::open(arguments.events.as_deref(), json)?;
    run(async {
        let digest = daemon.digest(&arguments.digest, "runs").await?;
        daemon.until_end(&digest, sink).await
    })
}

/// The exit code of a run that is over.
fn exit_of(run: &RunStatus) -> Option<i32> {
    match run.state {
        RunState::Accepted | RunState::Waiting | RunState::Gathering | RunState::Running => None,
        RunState::Ended => run.exit_code.or(Some(Exit::Internal.code())),
        RunState::Withdrawn => Some(Exit::Aborted.code()),
        // Its final never left.
        RunState::Interrupted => Some(run.exit_code.unwrap_or(Exit::PrivacyRefused.code())),
    }
}

/// Where the events of a watched run go: a file, standard output, or nowhere.
#[derive(Default)]
pub(super) struct EventOutput {
    file: Option<File>,
    /// How standard output shows one.
    printed: Option<fn(&Value) -> String>,
}

impl EventOutput {
    /// Fails (exit 2) on a file that cannot be written.
    pub(super) fn open(path: Option<&std::path::Path>, json: bool) -> Result<Self, Failure> {
        let mut sink = EventOutput::default();
        match path {
            // With --json one object stands on standard output, and nothing else.
            None if json => {}
            None => sink.printed = Some(sentences::event),
            Some(path) if path == std::path::Path::new("-") => sink.printed = Some(Value::to_string),
            Some(path) => {
                sink.file = Some(File::create(path).map_err(|e| {
                    Failure::storage(&e, format!("{}: cannot be written: {e}", path.display()))
                        .field("--events")
                })?);
            }
        }
        Ok(sink)
    }

    /// False: nobody reads standard output any more, and there is nothing left to show.
    fn take(&mut self, event: &Value) -> Result<bool, Failure> {
        if let Some(file) = &mut self.file {
            // Whoever reads the lines may be gone; the run's end is still worth waiting for.
            let _ = writeln!(file, "{event}");
        }
        match self.printed {
            Some(shown) => output::print(format_args!("{}\n", shown(event))),
            None => Ok(true),
        }
    }
}

impl Daemon {
    /// Follows a run until it is over, or until nobody reads what is shown of it.
    pub(super) async fn until_end(&self, digest: &str, mut sink: EventOutput) -> Result<Report, Failure> {
        let mut last = None;
        loop {
            if !self.follow(digest, &mut last, &mut sink).await? {
                return Ok(Report {
                    json: Value::Null,
                    text: String::new(),
                    exit: output::NO_READER,
                });
            }
            let run: RunStatus = self.get(&format!("/v1/runs/{digest}")).await?;
            if let Some(exit) = exit_of(&run) {
                return Ok(Report {
                    json: show::object(&run),
                    text: show::run(&run),
                    exit,
                });
            }
            // The stream ended before the run: the daemon is ending, or cut us off. Asking again
            // finds out.
        }
    }

    /// Reads one stream to its end, and keeps the id of the last event. False: nobody reads what is
    /// shown of it.
    async fn follow(
        &self,
        digest: &str,
        last: &mut Option<u64>,
        sink: &mut EventOutput,
    ) -> Result<bool, Failure> {
        let mut headers = vec![(header::ACCEPT, HeaderValue::from_static("text/event-stream"))];
        if let Some(last) = *last {
            headers.push((HeaderName::from_static("last-event-id"), last.into()));
        }
        let path = format!("/v1/runs/{digest}/events");
        let answer = self
            .send(hyper::Method::GET, &path, Sent { headers, body: None })
            .await?;
        let mut events = ServerSentEvents::new(answer);
        while let Some((id, event)) = events.next().await? {
            *last = id.or(*last);
            if !sink.take(&event)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The longest line of a stream, in bytes: beyond any event.
const LONGEST_LINE: usize = 1 << 20;

/// Server-sent events (WHATWG HTML, section 9.2), as far as our own daemon writes them: `id`,
/// `event`, `data`, comments.
struct ServerSentEvents {
    answer: Answer,
    parser: Parser,
}

impl ServerSentEvents {
    fn new(answer: Answer) -> Self {
        ServerSentEvents {
            answer,
            parser: Parser::default(),
        }
    }

    async fn next(&mut self) -> Result<Option<(Option<u64>, Value)>, Failure> {
        loop {
            if let Some(event) = self.parser.event()? {
                return Ok(Some(event));
            }
            match self.answer.piece().await? {
                Some(piece) => self.parser.rest.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }
}

#[derive(Debug, Default)]
struct Parser {
    rest: Vec<u8>,
    id: Option<u64>,
    data: String,
}

impl Parser {
    /// The next whole event of what came so far.
    fn event(&mut self) -> Result<Option<(Option<u64>, Value)>, Failure> {
        let strange =
            |what: &str| Failure::usage(format!("the daemon's events cannot be read: {what}")).field("--api");
        while let Some(end) = self.rest.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = std::str::from_utf8(&line)
                .map_err(|_| strange("not UTF-8"))?
                .trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                if !data.is_empty() {
                    let event = serde_json::from_str(&data).map_err(|_| strange("not JSON"))?;
                    return Ok(Some((self.id, event)));
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => self.id = value.parse().ok(),
                "data" => self.data += value,
                _ => {}
            }
        }
        if self.rest.len() + self.data.len() > LONGEST_LINE {
            Err(strange("a line without an end"))
        } else {
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_put_together_from_any_pieces() {
        let stream = ":\n\nid: 7\nevent: round\ndata: {\"round\": 1}\n\nid:8\r\ndata:{\"round\":2}\r\n\r\ndata: {\"cut";
        for size in 1..stream.len() {
            let mut parser = Parser::default();
            let mut events = vec![];
            for piece in stream.as_bytes().chunks(size) {
                parser.rest.extend_from_slice(piece);
                while let Some(event) = parser.event().unwrap() {
                    events.push(event);
                }
            }
            assert_eq!(
                events,
                [(Some(7), json!({"round": 1})), (Some(8), json!({"round": 2}))],
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn a_stream_that_is_none_is_refused() {
        let refused = |text: &[u8]| {
            let mut parser = Parser {
                rest: text.to_vec(),
                ..Parser::default()
            };
            parser.event().is_err()
        };
        assert!(
            refused(b"data: {\n\n") && refused(b"data: \xff\n\n") && refused(&vec![b'a'; LONGEST_LINE + 1])
        );
    }
}
