//! Rounds in which something else counted than the vector that a party's source handed over. They
//! are reported to the party's owner alone: others cannot see it.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::reporting::failure::Exit;

/// Rounds in sequence for one reason, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoundSpan {
    /// The first of them.
    pub first: u32,
    /// The last of them; the first again if there is one only.
    pub last: u32,
    /// Why, in a sentence without a full stop.
    pub reason: String,
}

impl RoundSpan {
    /// The rounds in words: "round 3", "rounds 3 to 7".
    pub fn rounds(&self) -> String {
        match self.first == self.last {
            true => format!("round {}", self.first),
            false => format!("rounds {} to {}", self.first, self.last),
        }
    }
}

/// Rounds in which the point of the range nearest to zero counted, for a party or for one of its
/// rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Silence {
    /// Rounds to which the party contributed nothing.
    #[serde(rename = "contributed_nothing", default)]
    pub nothing: Vec<RoundSpan>,
    /// Rounds in which single rows were not finite.
    #[serde(rename = "rows_not_finite", default)]
    pub rows: Vec<RoundSpan>,
}

/// Most spans that a text names; a final object has all.
const MOST_NAMED: usize = 5;

impl Silence {
    /// Whether the party contributed to every round, with every row.
    pub fn is_none(&self) -> bool {
        self.nothing.is_empty() && self.rows.is_empty()
    }

    /// The code of a process that would exit with `exit`: degraded instead of done where the party
    /// contributed nothing to some round.
    pub fn exit(&self, exit: Exit) -> Exit {
        match exit {
            Exit::Done if !self.nothing.is_empty() => Exit::Degraded,
            other => other,
        }
    }

    /// Adds what there is to a final object.
    pub fn add_to(&self, object: &mut Value) {
        for (key, spans) in [
            ("contributed_nothing", &self.nothing),
            ("rows_not_finite", &self.rows),
        ] {
            if !spans.is_empty() {
                object[key] = json!(spans);
            }
        }
    }

    /// Reads what [`Silence::add_to`] wrote.
    pub fn of_object(object: &Value) -> Self {
        Silence::deserialize(object).unwrap_or_default()
    }

    /// Sentences for the owner, a line each, about `party`.
    pub fn sentences(&self, party: &str) -> Vec<String> {
        let of = |spans: &[RoundSpan], what: &dyn Fn(&RoundSpan) -> String| {
            let mut lines: Vec<String> = spans.iter().take(MOST_NAMED).map(what).collect();
            if let Some(last) = spans.last().filter(|_| spans.len() > MOST_NAMED) {
                let more = spans.len() - MOST_NAMED;
                lines.push(format!("… and {more} times more, the last in {}", last.rounds()));
            }
            lines
        };
        let nothing = |span: &RoundSpan| {
            format!(
                "{party} contributed nothing in {}: {}",
                span.rounds(),
                span.reason
            )
        };
        let rows = |span: &RoundSpan| format!("{party}, {}: {}", span.rounds(), span.reason);
        let mut lines = of(&self.nothing, &nothing);
        lines.extend(of(&self.rows, &rows));
        lines
    }
}

/// Collects a run's silence while contributions are made on another thread.
#[derive(Clone, Debug, Default)]
pub struct SilenceLog(Arc<Mutex<Silence>>);

impl SilenceLog {
    /// Notes that the party contributes nothing to a round.
    pub(super) fn nothing(&self, round: u32, reason: &str) {
        self.with(|silence| note(&mut silence.nothing, round, reason));
    }

    /// Notes that rows of a round are not finite. Not how many: that is the owner's own to count.
    pub(super) fn rows(&self, round: u32) {
        let reason = "a row that is not finite counts as the point of the range nearest to zero";
        self.with(|silence| note(&mut silence.rows, round, reason));
    }

    /// Returns the notes so far.
    pub fn so_far(&self) -> Silence {
        self.with(|silence| silence.clone())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Silence) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Joins a round to the span before it, if that ended a round ago for the same reason.
fn note(spans: &mut Vec<RoundSpan>, round: u32, reason: &str) {
    match spans.last_mut() {
        Some(span) if span.last.checked_add(1) == Some(round) && span.reason == reason => span.last = round,
        _ => spans.push(RoundSpan {
            first: round,
            last: round,
            reason: reason.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_in_sequence_for_one_reason_are_one_span() {
        let log = SilenceLog::default();
        for round in [1, 2, 3, 5] {
            log.nothing(round, "it was late");
        }
        log.nothing(6, "it has ended");
        log.rows(4);
        let silence = log.so_far();
        let spans: Vec<(u32, u32)> = silence.nothing.iter().map(|it| (it.first, it.last)).collect();
        assert_eq!(spans, [(1, 3), (5, 5), (6, 6)]);
        let lines = silence.sentences("anna");
        assert_eq!(lines[0], "anna contributed nothing in rounds 1 to 3: it was late");
        assert_eq!(lines[2], "anna contributed nothing in round 6: it has ended");
        assert!(
            lines[3].starts_with("anna, round 4: a row that is not finite"),
            "{lines:?}"
        );
        assert_eq!(
            [Exit::Done, Exit::Aborted].map(|exit| silence.exit(exit)),
            [Exit::Degraded, Exit::Aborted]
        );
        // A bad row is one row: the party contributed.
        let rows = Silence {
            nothing: vec![],
            ..silence
        };
        assert_eq!(rows.exit(Exit::Done), Exit::Done);
        assert!(!rows.is_none());
    }

    #[test]
    fn an_object_has_every_span_and_a_text_the_first() {
        let log = SilenceLog::default();
        for round in (1..40).step_by(2) {
            log.nothing(round, "it was late");
        }
        let (silence, mut object) = (log.so_far(), json!({}));
        silence.add_to(&mut object);
        assert_eq!(
            object["contributed_nothing"][19],
            json!({ "first": 39, "last": 39, "reason": "it was late" })
        );
        assert!(object.get("rows_not_finite").is_none());
        assert_eq!(Silence::of_object(&object), silence);
        let lines = silence.sentences("anna");
        assert_eq!(lines.len(), MOST_NAMED + 1);
        assert!(
            lines[MOST_NAMED].contains("15 times more, the last in round 39"),
            "{lines:?}"
        );
        assert!(Silence::of_object(&json!({})).is_none());
    }
}
