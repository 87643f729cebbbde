//! How long the iterations of a training take at this node.

use serde_json::{Value, json};
use undertone_protocol::time::Time;

/// When each iteration was opened here.
#[derive(Clone, Debug, Default)]
pub(super) struct IterationTimes(Vec<Time>);

impl IterationTimes {
    /// One more was opened.
    pub(super) fn opened(&mut self, at: Time) {
        self.0.push(at);
    }

    /// `{median, worst}` in milliseconds from one iteration to the next; null of fewer than two.
    pub(super) fn json(&self) -> Value {
        let pairs = self.0.windows(2);
        let mut took: Vec<f64> = pairs.map(|pair| pair[1].since(pair[0]) as f64 / 1e6).collect();
        took.sort_by(f64::total_cmp);
        let median = took.get(took.len() / 2);
        median.map_or(
            Value::Null,
            |median| json!({ "median": median, "worst": took.last() }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_iteration_has_none_before_it() {
        let mut times = IterationTimes::default();
        let opened = |times: &mut IterationTimes, ms: u64| times.opened(Time::ZERO.plus_millis(ms));
        opened(&mut times, 1000);
        assert_eq!(times.json(), Value::Null);
        for ms in [1010, 1040, 1052] {
            opened(&mut times, ms);
        }
        assert_eq!(times.json(), json!({ "median": 12.0, "worst": 30.0 }));
    }
}
