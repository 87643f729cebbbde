//! The person at the keyboard: what is said to them, and what they type.

use std::io::BufRead;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use undertone_protocol::lobby::guest::Numbered;
use undertone_protocol::plan::peers::Peers;

use crate::party::events::Events;
use crate::reporting::failure::Failure;
use crate::reporting::output::tell;

/// A line that the operator typed: an answer about a number, or something else.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The number of this close was given back.
    Yes(u32),
    /// They do not agree.
    No,
    /// Something else.
    Other(String),
}

/// Says and hears.
pub(super) struct Operator {
    name: String,
    events: Events,
    typed: mpsc::Receiver<String>,
    /// The close and the number that it is asked about.
    asked: Option<(u32, String)>,
}

impl Operator {
    /// Begins to listen to standard input; `events` is where each event goes as a line of JSON.
    pub(super) fn new(name: &str, events: Option<&Path>) -> Result<Self, Failure> {
        let (sender, typed) = mpsc::channel(16);
        // A thread: standard input cannot be waited for otherwise. It ends with the process.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Operator {
            name: name.to_owned(),
            events: Events::open(events, Instant::now())?,
            typed,
            asked: None,
        })
    }

    /// Tells a person in words, and programs as an event.
    pub(super) fn tell(&self, event: &str, fields: Value, words: &str) {
        tell(words);
        self.events.emit(&self.name, event, fields);
    }

    /// Shows a list with its number, and asks whether all have it.
    pub(super) fn ask(&mut self, numbered: &Numbered, old: Option<&Peers>) {
        let peers = numbered.list.as_slice();
        let named = |sits: bool| -> Vec<&str> {
            let places = (0..peers.len()).filter(|place| numbered.sitting.contains(place) == sits);
            places.map(|place| &*peers[place].name).collect()
        };
        let (here, kept) = (named(true), named(false));
        let changes: Vec<String> = old
            .map(|old| numbered.list.changes_since(old))
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect();
        let mut words = format!("\n{} here: {}\n", here.len(), here.join(", "));
        if !kept.is_empty() {
            words += &format!(
                "Not here, kept from the old list: {}. Each says yes later (undertone group confirm).\n",
                kept.join(", ")
            );
        }
        let relays: Vec<&str> = numbered.list.relays().iter().map(|relay| &*relay.name).collect();
        if !relays.is_empty() {
            words += &format!("Relays: {}\n", relays.join(", "));
        }
        if old.is_some() {
            words += &format!("Beside your list of now: {}\n", joined_or_nothing(&changes));
        }
        let (first, last) = numbered.number.split_at(5);
        words += &format!(
            "\n  number {first} {last}\n\n\
             Compare it in one call that all of these people are in. Somebody who is not the host reads\n\
             theirs out. Do not compare it with the host alone, who could tell each of you your own.\n\
             If it is the same, and you know all these people, type the number that was read out. Else: no"
        );
        self.asked = Some((numbered.close, numbered.number.clone()));
        let fields = json!({
            "close": numbered.close,
            "number": numbered.number,
            "here": here,
            "kept": kept,
            "changes": changes,
        });
        self.tell("number", fields, &words);
    }

    /// The question is void.
    pub(super) fn forget(&mut self) {
        self.asked = None;
    }

    /// The next line; for ever, once standard input has ended.
    pub(super) async fn next(&mut self) -> Said {
        loop {
            let Some(line) = self.typed.recv().await else {
                return std::future::pending().await;
            };
            let line = line.trim().to_owned();
            let Some((close, number)) = &self.asked else {
                return Said::Other(line);
            };
            match answer(&line, number) {
                Typed::Same => return Said::Yes(*close),
                Typed::No => return Said::No,
                Typed::Other => {
                    tell(
                        "That is not the number above. If it is what was read out, somebody has been shown \
                         another list: type no, and do not go on with this host. If it was a slip, type it again.",
                    );
                }
                Typed::None => return Said::Other(line),
            }
        }
    }
}

/// Texts in one line.
fn joined_or_nothing(texts: &[String]) -> String {
    match texts {
        [] => "nothing differs".to_owned(),
        texts => texts.join("; "),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Same,
    Other,
    No,
    None,
}

/// An answer to whether all have this number. A bare yes is none: people say it without looking.
fn answer(line: &str, number: &str) -> Typed {
    let signs: String = line.chars().filter(|sign| !sign.is_whitespace()).collect();
    match &*signs {
        "no" | "n" | "No" | "NO" => Typed::No,
        digits if digits == number => Typed::Same,
        "" => Typed::None,
        digits if digits.bytes().all(|sign| sign.is_ascii_digit()) => Typed::Other,
        _ if line.starts_with("remove ") => Typed::None,
        _ => Typed::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_itself_is_a_yes() {
        let number = "4187320466";
        for (line, found) in [
            ("4187320466", Typed::Same),
            (" 41873 20466 ", Typed::Same),
            ("4187320467", Typed::Other),
            ("418732046", Typed::Other),
            ("yes", Typed::Other),
            ("no", Typed::No),
            ("", Typed::None),
            ("remove bob", Typed::None),
        ] {
            assert_eq!(answer(line, number), found, "{line:?}");
        }
    }
}
