//! A run's events as sentences.

use serde_json::Value;

/// One event in a line: when it was, and what happened.
pub fn event(event: &Value) -> String {
    let seconds = event["t_ms"].as_f64().unwrap_or(0.0) / 1000.0;
    format!("{seconds:8.3} s  {}", sentence(event))
}

/// Puts an event into a sentence. An event that is not known here, of a newer daemon say, is shown
/// by its name and its fields.
pub fn sentence(event: &Value) -> String {
    let word = |key: &str| event[key].as_str().unwrap_or_default();
    let count = |key: &str| event[key].as_u64().unwrap_or(0);
    match event["event"].as_str().unwrap_or("event") {
        "phase" => match (phase(word("phase")), word("without")) {
            (None, _) => others(event),
            (Some(phase), "") => phase.to_owned(),
            (Some(phase), without) => format!("{phase} It started without {without}."),
        },
        "spawned" => format!("The node of {} runs as process {}.", word("party"), count("pid")),
        "ready" => ready(event),
        "signed" => {
            let parties = parties(count("ready"));
            format!("This node has signed the start; {parties} ready.")
        }
        "waiting" => waiting(word("waiting_for"), word("slices")),
        "round" => format!("Round {} is over.", count("round")),
        "iteration" => format!("The sum of round {} is opened.", count("k")),
        "given_up" => format!(
            "The start is given up and tried again: {} did not sign it.",
            word("not_signed_by")
        ),
        "left_out" => format!(
            "This node is left out: {} signed a start without it.",
            word("signed_by")
        ),
        "sealed" => format!("The final is sealed: {} bytes.", count("bytes")),
        "opened" => match names(&event["names"]) {
            names if names.is_empty() => "The finals are opened.".to_owned(),
            names => format!("The finals are opened, also for {names}, who left after the log."),
        },
        "peer" => format!("{}: {}.", word("peer"), word("state")),
        "fault" => format!("{}.", word("text").trim_end_matches('.')),
        "finished" => format!("The run is over: {}.", outcome(event)),
        _ => others(event),
    }
}

/// How many parties, with the verb.
fn parties(count: u64) -> String {
    match count {
        1 => "1 party is".to_owned(),
        count => format!("{count} parties are"),
    }
}

/// Who is ready, and for whom or for whose signatures this node waits.
fn ready(event: &Value) -> String {
    let parties = parties(event["ready"].as_u64().unwrap_or(0));
    match event["waiting_for"].as_str().unwrap_or_default() {
        "" => format!("{parties} ready."),
        names if event["awaited"] == "signature" && names.contains(", ") => {
            format!("The start waits for the signatures of {names}.")
        }
        names if event["awaited"] == "signature" => format!("The start waits for the signature of {names}."),
        names => format!("{parties} ready; waiting for {names}."),
    }
}

/// Who is waited for, and how far a final that travels in slices is.
fn waiting(names: &str, slices: &str) -> String {
    let whom = match names {
        "" => "Nobody is waited for any more".to_owned(),
        names => format!("Waiting for {names}"),
    };
    match slices {
        "" => format!("{whom}."),
        slices => format!("{whom}; {slices}."),
    }
}

/// A phase as a sentence; none of one that is not known here.
fn phase(name: &str) -> Option<&'static str> {
    Some(match name {
        "gathering" => "Gathering: the parties meet, and say that they are ready.",
        "mixing" => "Mixing: noise that cancels is exchanged.",
        "settling" => "Settling: the parties agree on what arrived.",
        "publishing" => "Publishing: what is opened is agreed on, and opened.",
        "done" => "The result is there.",
        _ => return None,
    })
}

/// The parties that a field of an event names.
pub fn listed(field: &Value) -> Vec<String> {
    let names = field.as_str().unwrap_or_default().split(", ");
    names.filter(|name| !name.is_empty()).map(String::from).collect()
}

fn names(list: &Value) -> String {
    let names: Vec<&str> = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    names.join(", ")
}

fn outcome(event: &Value) -> String {
    let of = |key: &str| event[key].as_str();
    let outcome = of("outcome").or(of("state")).unwrap_or("ended").to_owned();
    match event["exit_code"].as_i64() {
        Some(0) | None => outcome,
        Some(code) => format!("{outcome} (exit code {code})"),
    }
}

/// The name and the fields of any event, without those that all have.
fn others(event: &Value) -> String {
    let name = event["event"].as_str().unwrap_or("event");
    let fields = event.as_object().into_iter().flatten();
    let reported =
        fields.filter(|(key, value)| !["t_ms", "party", "event"].contains(&key.as_str()) && !value.is_null());
    let reported: Vec<String> = reported
        .map(|(key, value)| match value.as_str() {
            Some(text) => format!("{key} {text}"),
            None => format!("{key} {value}"),
        })
        .collect();
    format!("{name}: {}", reported.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_a_sentence() {
        let round = json!({
            "t_ms": 1250, "party": "alice", "event": "round", "round": 3, "unanswered": 1, "of": 8,
            "outcome": null,
        });
        assert_eq!(event(&round), "   1.250 s  Round 3 is over.");
        assert_eq!(
            event(&json!({"t_ms": 2, "event": "fault", "text": "bob is gone"})),
            "   0.002 s  bob is gone."
        );
        let over = json!({"event": "finished", "state": "ended", "outcome": "degraded", "exit_code": 5});
        assert_eq!(sentence(&over), "The run is over: degraded (exit code 5).");
    }

    #[test]
    fn awaited_parties_are_listed_by_name() {
        let ready = json!({"t_ms": 5, "event": "ready", "ready": 3, "waiting_for": "dave, erin"});
        assert_eq!(sentence(&ready), "3 parties are ready; waiting for dave, erin.");
        let all = json!({"t_ms": 5, "event": "ready", "ready": 5, "waiting_for": ""});
        assert_eq!(sentence(&all), "5 parties are ready.");
        let first = json!({"t_ms": 5, "event": "ready", "ready": 1});
        assert_eq!(sentence(&first), "1 party is ready.");
        let signing =
            |names: &str| json!({"event": "ready", "ready": 4, "waiting_for": names, "awaited": "signature"});
        assert_eq!(
            sentence(&signing("dave")),
            "The start waits for the signature of dave."
        );
        assert_eq!(
            sentence(&signing("dave, erin")),
            "The start waits for the signatures of dave, erin."
        );
        let stage = json!({"t_ms": 5, "event": "waiting", "waiting_for": "dave"});
        assert_eq!(sentence(&stage), "Waiting for dave.");
        let slices =
            json!({"event": "waiting", "waiting_for": "dave", "slices": "adding up, 2 of 3 sums here"});
        assert_eq!(
            sentence(&slices),
            "Waiting for dave; adding up, 2 of 3 sums here."
        );
    }

    /// The names in backticks.
    fn quoted(cell: &str) -> Vec<&str> {
        cell.split('`').skip(1).step_by(2).collect()
    }

    #[test]
    fn every_event_of_the_guides_table_is_a_sentence() {
        let page = include_str!("../../guide/formats.md");
        let table = page.split_once("## Events").expect("a section").1;
        let table = table.split_once("\n## ").expect("a next section").0;
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
        let mut told = 0;
        for row in rows {
            let (events, fields) = row.split_once(" | ").expect("two columns");
            for name in quoted(&format!("`{events}")) {
                let mut event = json!({"t_ms": 5, "party": "alice", "event": name});
                for field in quoted(fields) {
                    event[field] = match field {
                        "phase" => "mixing".into(),
                        "names" => json!(["bob"]),
                        "pid" | "ready" | "round" | "k" | "bytes" | "exit_code" => 4.into(),
                        "text" => "bob is gone".into(),
                        _ => "bob".into(),
                    };
                }
                let said = sentence(&event);
                assert_ne!(said, others(&event), "{name} is shown by its fields");
                assert!(said.ends_with('.') && said.contains(' '), "{name}: {said}");
                told += 1;
            }
        }
        assert!(told > 12, "{told} events");
    }

    #[test]
    fn an_event_of_a_newer_daemon_is_listed_by_its_fields() {
        let newer = json!({"t_ms": 5, "event": "thawed", "party": "alice", "by": "bob", "count": 3});
        assert_eq!(sentence(&newer), "thawed: by bob, count 3");
    }
}
