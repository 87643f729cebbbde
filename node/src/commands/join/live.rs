//! The line that `join` shows on a terminal while its run goes on: a sentence, then a bar with the
//! time that is left.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use undertone_protocol::plan::checked::Plan;

use crate::party::events::Events;
use crate::reporting::progress::Progress;
use crate::reporting::sentences::sentence;

/// The line of one run. Dropping it takes the line away.
pub(super) struct LiveLine(Arc<Mutex<Progress>>);

impl LiveLine {
    /// Shows the events of a run as they come; the events, which go where they went before, too.
    pub(super) fn of(plan: &Plan, events: Events) -> (Self, Events) {
        let line = Arc::new(Mutex::new(Progress::start()));
        let (shown, rounds, releases) = (line.clone(), plan.mixing_rounds(), plan.draft().releases());
        let watched = events.watched(move |event| {
            let mut line = shown.lock().unwrap_or_else(PoisonError::into_inner);
            show(&mut line, event, (rounds, releases));
        });
        (LiveLine(line), watched)
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}

/// Shows an event of a run with so many rounds of mixing, and so many sums.
fn show(line: &mut Progress, event: &Value, (rounds, releases): (u32, u64)) {
    let number = |key: &str| event[key].as_u64().unwrap_or(0);
    match event["event"].as_str() {
        Some("iteration") => line.count("sums known", number("k"), releases),
        // Of several sums each has its rounds, which would set the bar back each time.
        Some("round") if releases == 1 => line.count("rounds of mixing", number("round"), rounds.into()),
        // Of several sums only the first begins with phases.
        Some("ready" | "phase") => line.show(sentence(event).trim_end_matches('.')),
        _ => {}
    }
}
