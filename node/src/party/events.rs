//! `--events FILE`: what happens, as JSON lines, flushed at once. No values, ever.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Map, Value};

use crate::telling::failure::Failure;

/// Where events go: a file, standard output ("-"), a listener, or nowhere.
#[derive(Clone)]
pub struct Events {
    sink: Option<Sink>,
    begun: Instant,
}

#[derive(Clone)]
enum Sink {
    Lines(Arc<Mutex<Box<dyn Write + Send>>>),
    Listener(Arc<dyn Fn(&Value) + Send + Sync>),
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
                Failure::usage(format!("{}: cannot be written: {e}", path.display())).field("--events")
            })?)),
        };
        Ok(Events {
            sink: sink.map(|sink| Sink::Lines(Arc::new(Mutex::new(sink)))),
            begun,
        })
    }

    /// Hands each event to `listener`, which must not wait.
    pub fn listened(listener: impl Fn(&Value) + Send + Sync + 'static, begun: Instant) -> Self {
        Events {
            sink: Some(Sink::Listener(Arc::new(listener))),
            begun,
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
        match &self.sink {
            None => {}
            Some(Sink::Listener(listener)) => listener(line),
            Some(Sink::Lines(sink)) => {
                if let Ok(mut sink) = sink.lock() {
                    let _ = writeln!(sink, "{line}").and_then(|()| sink.flush());
                }
            }
        }
    }
}
