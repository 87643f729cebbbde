//! A person with a program that asks them: what they type, and the events that it tells.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::{Followed, Running, follow_at};

/// A person who sits before a lobby's program.
#[derive(Debug)]
pub struct Person {
    /// The name of the person, for messages.
    pub name: String,
    /// The program.
    pub running: Running,
    events: Followed,
    keyboard: File,
}

impl Person {
    /// Starts a script in a folder. `shell` begins a POSIX shell on the person's machine; the
    /// script's standard input is the keyboard, and its program writes events to `$EVENTS`.
    pub fn new(mut shell: Command, folder: &Path, name: &str, script: &str) -> Self {
        let typed = folder.join(format!("{name}.keys"));
        mkfifo(&typed, Mode::S_IRWXU).expect("a named pipe");
        let events = folder.join(format!("{name}.events"));
        shell
            .args(["-c", &format!("exec < \"$TYPED\"\n{script}")])
            .env("TYPED", &typed)
            .env("EVENTS", &events)
            .current_dir(folder);
        let (running, events) = follow_at(shell, &events);
        // Waits for the reader.
        let keyboard = OpenOptions::new().write(true).open(&typed).expect("it reads");
        Person {
            name: name.to_owned(),
            running,
            events,
            keyboard,
        }
    }

    /// Waits for an event of this name.
    #[track_caller]
    pub fn until(&mut self, event: &str) -> Value {
        let what = format!("{event} of {}", self.name);
        self.events.until(&what, |found| found["event"] == event)
    }

    /// Waits for a number that is to be compared.
    #[track_caller]
    pub fn number(&mut self) -> String {
        let event = self.until("number");
        event["number"].as_str().expect("digits").to_owned()
    }

    /// Types a line.
    pub fn types(&mut self, line: &str) {
        writeln!(self.keyboard, "{line}").expect("it listens");
    }
}
