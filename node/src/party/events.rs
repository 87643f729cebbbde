//! `--events FILE`: what happens, as JSON lines, flushed at once. No values, ever.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Map, Value};

use crate::reporting::escaped::escaped;
use crate::reporting::failure::Failure;

/// Where events go: a file, standard output ("-"), a listener, or nowhere.
#[derive(Clone)]
pub struct Events {
    sink: Option<Sink>,
    /// Looks at each event, too.
    watcher: Option<Watcher>,
    begun: Instant,
}

/// Takes each event, and does not wait.
type Watcher = Arc<dyn Fn(&Value) + Send + Sync>;

#[derive(Clone)]
enum Sink {
    Lines(Arc<Mutex<Box<dyn Write + Send>>>),
    Listener(Watcher),
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    /// Opens the file, which starts empty.
    pub fn open(path: Option<&Path>, begun: Instant) -> Result<Self, Failure> {
        let sink: Option<Box<dyn Write + Send>> = match path {
            None => None,
            Some(path) if path == Path::new("-") => Some(Box::new(std::io::stdout())),
            Some(path) => Some(Box::new(File::create(path).map_err(|e| {
                Failure::storage(&e, format!("{}: cannot be written: {e}", path.display())).field("--events")
            })?)),
        };
        Ok(Events {
            sink: sink.map(|sink| Sink::Lines(Arc::new(Mutex::new(sink)))),
            watcher: None,
            begun,
        })
    }

    /// Hands each event to `listener`, which must not wait.
    pub fn listened(listener: impl Fn(&Value) + Send + Sync + 'static, begun: Instant) -> Self {
        Events {
            sink: Some(Sink::Listener(Arc::new(listener))),
            watcher: None,
            begun,
        }
    }

    /// Shows each event to `watcher`, too, which must not wait.
    pub fn watched(self, watcher: impl Fn(&Value) + Send + Sync + 'static) -> Self {
        Events {
            watcher: Some(Arc::new(watcher)),
            ..self
        }
    }

    /// Writes one event of a party with its own fields. A full disk does not stop a run: events are
    /// for watching it.
    pub fn emit(&self, party: &str, event: &str, fields: Value) {
        let mut line = Map::new();
        line.insert("t_ms".into(), (self.begun.elapsed().as_millis() as u64).into());
        line.insert("party".into(), party.into());
        line.insert("event".into(), event.into());
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        self.forward(&Value::Object(line));
    }

    /// Writes a line that somebody else made.
    pub fn forward(&self, line: &Value) {
        if let Some(watcher) = &self.watcher {
            watcher(line);
        }
        match &self.sink {
            None => {}
            Some(Sink::Listener(listener)) => listener(line),
            Some(Sink::Lines(sink)) => {
                if let Ok(mut sink) = sink.lock() {
                    let line = line.to_string();
                    let _ = writeln!(sink, "{}", escaped(&line)).and_then(|()| sink.flush());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_has_a_line_for_each_event_and_begins_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events");
        std::fs::write(&path, "what was there before\n").expect("writable");
        let events = Events::open(Some(&path), Instant::now()).expect("writable");
        events.emit("anna", "round", json!({ "round": 3 }));
        events.clone().forward(&json!({ "made": "elsewhere" }));
        let text = std::fs::read_to_string(&path).expect("flushed at once");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (&lines[0]["party"], &lines[0]["event"], &lines[0]["round"]),
            (&json!("anna"), &json!("round"), &json!(3))
        );
        assert!(lines[0]["t_ms"].is_u64() && lines[1] == json!({ "made": "elsewhere" }));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_before_the_run() {
        let failure =
            Events::open(Some(Path::new("/nowhere/events")), Instant::now()).expect_err("no folder");
        assert_eq!(failure.field.as_deref(), Some("--events"), "{failure}");
        assert!(failure.message.contains("/nowhere/events"), "{failure}");
    }

    #[test]
    fn a_listener_gets_events_and_none_is_required() {
        let (heard, reported) = std::sync::mpsc::channel();
        let listening = Events::listened(
            move |line| heard.send(line.clone()).expect("it listens"),
            Instant::now(),
        );
        listening.emit("ben", "phase", json!({ "phase": "mixing" }));
        assert_eq!(reported.recv().expect("told")["phase"], "mixing");
        Events::open(None, Instant::now())
            .expect("nothing to open")
            .emit("ben", "phase", Value::Null);
    }
}
