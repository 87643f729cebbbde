//! Processes that are to be killed at a certain moment, on machines that may be slow.

use serde_json::Value;

/// Makes an attempt with rounds of at least this many milliseconds, and if the signal came too late
/// for what is tested, others with rounds four and sixteen times as long. An attempt returns
/// whether the signal came in time, which what the process told before decides.
pub fn in_time(pace_ms: u64, attempt: impl Fn(u64) -> bool) {
    let in_time = [1, 4, 16].into_iter().any(|times| attempt(times * pace_ms));
    assert!(in_time, "the signal always came too late");
}

fn of<'a>(events: &'a [Value], party: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["party"] == *party)
}

/// Whether a party told of no phase after mixing.
pub fn in_mixing(events: &[Value], party: &str) -> bool {
    let early = |event: &Value| event["phase"] == "gathering" || event["phase"] == "mixing";
    of(events, party)
        .filter(|event| event["event"] == "phase")
        .all(early)
}

/// The last release of a stream that a party told of. `None`: it was all but through.
pub fn in_stream(events: &[Value], party: &str, releases: usize) -> Option<u64> {
    let reported = of(events, party)
        .filter(|event| event["event"] == "iteration")
        .filter_map(|event| event["k"].as_u64());
    reported.max().filter(|&last| last + 3 <= releases as u64)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;

    #[test]
    fn rounds_are_made_longer_until_a_signal_comes_in_time() {
        let tried = RefCell::new(vec![]);
        in_time(10, |pace_ms| {
            tried.borrow_mut().push(pace_ms);
            pace_ms > 30
        });
        assert_eq!(tried.into_inner(), [10, 40]);
        assert!(std::panic::catch_unwind(|| in_time(10, |_| false)).is_err());
    }

    #[test]
    fn a_partys_own_words_show_its_phase() {
        let phase = |party: &str, phase: &str| json!({ "event": "phase", "party": party, "phase": phase });
        let mut events = vec![phase("a", "mixing"), phase("b", "settling")];
        assert!(in_mixing(&events, "a") && !in_mixing(&events, "b"));
        let iteration = |k: u64| json!({ "event": "iteration", "party": "a", "k": k });
        events.extend([iteration(4), iteration(5)]);
        let found =
            [("a", 8), ("a", 7), ("b", 8)].map(|(party, releases)| in_stream(&events, party, releases));
        assert_eq!(found, [Some(5), None, None]);
    }
}
