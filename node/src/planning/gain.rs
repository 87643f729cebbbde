//! What the protocol wins: its noise beside that of parties alone, and that of a trusted server.

use serde_json::{Value, json};
use undertone_protocol::plan::checked::Plan;

/// Errors that differ by less than this share count as the same. Our choice.
const SAME: f64 = 0.005;

/// The error of a plan beside the two things that parties could do without it.
#[derive(Clone, Copy, Debug)]
pub struct Gain<'a> {
    plan: &'a Plan,
    error: f64,
}

impl<'a> Gain<'a> {
    /// The gain that the plan expects, if nobody departs. None of a task without noise.
    pub fn of(plan: &'a Plan) -> Option<Self> {
        Gain::with_error(plan, plan.calibration().predicted.standard_error)
    }

    /// The gain of a run with this standard error.
    pub fn with_error(plan: &'a Plan, error: f64) -> Option<Self> {
        let gain = Gain { plan, error };
        (gain.over_local() > 0.0 && gain.over_local().is_finite()).then_some(gain)
    }

    /// The error if each party added its own noise, over this one.
    pub fn over_local(&self) -> f64 {
        self.plan.predicted().local / self.error
    }

    /// This error over that of a trusted server.
    pub fn over_server(&self) -> f64 {
        self.error / self.plan.predicted().central
    }

    /// One sentence, without its full stop.
    pub fn sentence(&self) -> String {
        let own = match self.over_local() {
            gain if gain > 1.0 + SAME => format!("{} better than", times(gain)),
            gain if gain < 1.0 - SAME => format!("{} worse than", times(1.0 / gain)),
            _ => "No better than".to_owned(),
        };
        let server = match self.over_server() {
            cost if cost > 1.0 + SAME => {
                format!("a trusted server would be {} better than this", times(cost))
            }
            cost if cost < 1.0 - SAME => {
                format!("a trusted server would be {} worse than this", times(1.0 / cost))
            }
            _ => "a trusted server would be no better than this".to_owned(),
        };
        let what = match self.plan.draft().computation.parameters() {
            Some(_) => " (noise of the sums that the model is made of)",
            None => "",
        };
        format!("{own} each party adding its own noise; {server}{what}")
    }

    /// The object of it.
    pub fn json(&self) -> Value {
        json!({
            "over_local": self.over_local(),
            "over_server": self.over_server(),
            "sentence": self.sentence(),
        })
    }
}

/// A factor as a person says it.
fn times(factor: f64) -> String {
    match factor {
        factor if factor < 1.095 => format!("{factor:.2} times"),
        factor if factor < 9.95 => format!("{factor:.1} times"),
        factor => format!("{factor:.0} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use undertone_protocol::plan::run_file::records::RecordCounts;

    use crate::testing::{plan_of, plan_with};

    #[test]
    fn the_sentence_names_both_factors() {
        let plan = plan_of("[data]\nshape = [2]\n", 20, None);
        let predicted = &plan.calibration().predicted;
        let gain = Gain::of(&plan).expect("it has noise");
        assert_eq!(gain.over_local(), predicted.local / predicted.standard_error);
        assert_eq!(
            gain.sentence(),
            "4.2 times better than each party adding its own noise; a trusted server would be 1.05 times better \
             than this"
        );
        let local = Gain::with_error(&plan, predicted.local).expect("it has noise");
        assert!(
            local.sentence().starts_with("No better than each party"),
            "{}",
            local.sentence()
        );
        let worse = Gain::with_error(&plan, 2.0 * predicted.local).expect("it has noise");
        assert!(
            worse.sentence().starts_with("2.0 times worse than each party"),
            "{}",
            worse.sentence()
        );
    }

    /// The noise is one; what it is compared with is over as many records as it is.
    #[test]
    fn gain_of_a_run_does_not_depend_on_the_bound_of_its_records() {
        let text = "[data]\nshape = [2]\nunit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }\n";
        let exact = plan_of(text, 8, Some(100));
        let mut bounded = plan_with(text, 8, RecordCounts::at_most(400));
        bounded = bounded.with_records(&(0..8).map(|party| (party, 100)).collect());
        let error = exact.calibration().predicted.standard_error;
        assert_eq!(bounded.predicted().standard_error, error);
        let sentence = |plan| Gain::with_error(plan, error).expect("it has noise").sentence();
        assert_eq!(sentence(&bounded), sentence(&exact));
        let everybody = (0..8).collect();
        assert_eq!(bounded.predicted_over(&everybody).standard_error, error);
        let half = (0..4).collect();
        assert_eq!(bounded.predicted_over(&half).standard_error, 2.0 * error);
    }

    #[test]
    fn factors_have_the_digits_that_matter() {
        let shown = [1.048, 1.41, 9.94, 23.4].map(times);
        assert_eq!(shown, ["1.05 times", "1.4 times", "9.9 times", "23 times"]);
    }
}
