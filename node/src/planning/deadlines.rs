//! How long a run takes at most, by its plan's deadlines.

use std::time::Duration;

use undertone_protocol::plan::checked::Plan;

/// A plan's time-outs are far below; what is added must not overflow the clock.
const LONGEST_MS: u64 = 1 << 40;

/// Deadlines of all rounds, as often as noise is mixed, of settling, and of publishing, which may
/// take two stages more.
pub fn rounds(plan: &Plan) -> Duration {
    let run = &plan.draft().run;
    let rounds_ms = u64::from(plan.mixing_rounds()).saturating_mul(run.round_ms);
    let again = u64::from(plan.most_mixings().saturating_sub(1));
    let again_ms = rounds_ms.saturating_add(run.settle_ms.saturating_mul(2));
    let all_ms = rounds_ms
        .saturating_add(again_ms.saturating_mul(again))
        .saturating_add(run.settle_ms.saturating_mul(4));
    Duration::from_millis(all_ms.min(LONGEST_MS))
}

/// Until when a run has ended, from START: also its iterations, or the rounds of its stream.
pub fn after_start(plan: &Plan) -> Duration {
    let (draft, run) = (plan.draft(), &plan.draft().run);
    let each_ms = draft.computation.release_ms(run.round_ms);
    let all_ms = each_ms.saturating_mul(draft.releases()).min(LONGEST_MS);
    rounds(plan).saturating_add(Duration::from_millis(all_ms))
}

/// Deadlines of READY and of START.
pub fn start(plan: &Plan) -> Duration {
    Duration::from_millis(plan.draft().run.join_ms.saturating_mul(2).min(LONGEST_MS))
}

/// Formats a duration in its largest unit and the next one, such as `1 min 30 s`.
pub fn span(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let with = |whole: String, rest: u64, unit: &str| match rest {
        0 => whole,
        rest => format!("{whole} {rest} {unit}"),
    };
    match (hours / 24, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => with(format!("{minutes} min"), seconds % 60, "s"),
        (0, hours, minutes) => with(format!("{hours} h"), minutes % 60, "min"),
        (days, hours, _) => with(format!("{days} d"), hours % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_two_units_at_most() {
        let shown = [5, 60, 90, 3600, 90_000].map(span);
        assert_eq!(shown, ["5 s", "1 min", "1 min 30 s", "1 h", "1 d 1 h"]);
    }
}
