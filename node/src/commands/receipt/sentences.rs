//! A receipt in five sentences. Statements that rest on its party alone are marked as its word.

use undertone_protocol::plan::checked::Plan;

use crate::commands::receipt::stated::Stated;
use crate::planning::quote;
use crate::planning::utility::Utility;
use crate::reporting::report::lower_first;
use crate::reporting::table::{at_most, number};

impl Stated {
    /// Who says this and of what; who is in the mean; what can be learned; what that rests on; how
    /// exact the mean is.
    /// `error_computed`: whether its standard error was computed again.
    pub(super) fn sentences(&self, plan: Option<&Plan>, signed: bool, error_computed: bool) -> [String; 5] {
        let by = if signed {
            "signed by its key"
        } else {
            "if it signed this"
        };
        let (party, outcome) = (self.word("party"), self.word("outcome"));
        let run = plan.map_or_else(
            || format!("the run of plan {}", &self.word("digest")),
            |plan| format!("the run {:?} (plan {})", plan.draft().name, plan.digest_hex()),
        );
        let how = match outcome {
            "done" => "it was carried through",
            "degraded" if self.is_resumed() => {
                "this node restarted in the middle of it, and read the result from other members"
            }
            "degraded" => "it ended with less than was planned",
            "aborted" => "it never began",
            _ => "this node gave nothing of its own to be read",
        };
        let error = plan.filter(|_| error_computed);
        [
            format!("{party} says of {run}, {by}: {how} ({outcome})."),
            self.who(plan),
            self.learned(),
            self.rests_on(plan),
            self.exactness(error),
        ]
    }

    fn who(&self, plan: Option<&Plan>) -> String {
        let (included, departed) = (self.names("included"), self.names("departed"));
        let members = plan.iter().flat_map(|plan| &plan.draft().members);
        let names = members.map(|member| member.name.as_str());
        let others: Vec<&str> = names
            .filter(|name| !included.contains(name) && !departed.contains(name))
            .collect();
        let mut left = match &departed[..] {
            [] => "nobody left".to_owned(),
            names => format!("{} left, or could not be heard", names.join(", ")),
        };
        if !others.is_empty() && !included.is_empty() {
            left += &format!(", and nothing of {} was taken in", others.join(", "));
        }
        match &included[..] {
            [] => format!("Nobody's data are in a mean here; {left}."),
            names => {
                let what = match (self.gossips(), self.object["iterations"].is_null()) {
                    (true, _) => "estimates",
                    _ if self.streams() => "sums",
                    (false, true) => "mean",
                    (false, false) => "model",
                };
                format!("In the {what} are the data of {}; {left}.", names.join(", "))
            }
        }
    }

    fn learned(&self) -> String {
        let whose = match self.word("unit") {
            "record" => "any one row of anybody's table",
            _ => "any one party's data",
        };
        // With the draws that somebody may have chosen from, and what sampling adds.
        let (draw, sampled) = (
            &self.object["draw"],
            self.number("sampling_delta").unwrap_or_default(),
        );
        let delta = self.delta().unwrap_or_default() + sampled;
        let mut parts = draw["chance"].as_f64().map_or(String::new(), |chance| {
            format!(
                "; {chance:.1e} of it for a draw of the schedule that hides nothing, among the {} that may be tried",
                draw["most"].as_u64().unwrap_or_default()
            )
        });
        if sampled > 0.0 {
            parts += &format!("; {sampled:.1e} of it for sampling the noise");
        }
        match self.object["epsilon"].as_f64() {
            Some(0.0) => format!("If that is so, the run tells nobody anything of {whose}."),
            Some(epsilon) => format!(
                "Another value in the place of {whose} would make nothing that can be seen more than {} times \
                 as likely or unlikely (ε = {}), but for a chance of {} (δ{parts}).",
                at_most(epsilon.exp()),
                at_most(epsilon),
                // Rounded up.
                format_args!("{:.3e}", delta * (1.0 + 6e-4))
            ),
            None => format!("What the run tells of {whose} has no bound: ε is not stated."),
        }
    }

    fn rests_on(&self, plan: Option<&Plan>) -> String {
        if let Some(plan) = plan {
            return format!("That is for {}.", lower_first(&quote::threat(plan)));
        }
        let claims = self.object["claims"].as_array().into_iter().flatten();
        let headline = claims.filter(|claim| claim["holds_as_headline"] == true);
        let size = headline
            .filter_map(|claim| claim["size"].as_u64())
            .max()
            .unwrap_or(0);
        format!(
            "That is for coalitions of up to {size} that follow the protocol and pool all they see; --plan says \
             more."
        )
    }

    /// `plan`: there if the standard error is what the plan's noise comes to.
    fn exactness(&self, plan: Option<&Plan>) -> String {
        let iterations = &self.object["iterations"];
        if let (Some(run), Some(planned)) = (iterations["run"].as_u64(), iterations["planned"].as_u64()) {
            let why = self
                .reason()
                .map_or(String::new(), |reason| format!(": {reason}"));
            return match self.gossips() {
                true => format!("The estimates are this party's own, after {run} of {planned} rounds{why}."),
                false if self.streams() => {
                    format!("The sums are everybody's, the means of {run} of {planned} rounds{why}.")
                }
                false => format!("The model is of {run} of {planned} iterations{why}."),
            };
        }
        match (self.number("standard_error"), plan) {
            (Some(error), Some(plan)) => format!("{}.", Utility::with_error(plan, error).sentence()),
            (Some(error), None) => {
                let said = self.object["utility"]["sentence"].as_str().map(plain);
                let said = said.map_or(String::new(), |said| format!("; it says: {said}"));
                format!(
                    "By its word the standard error of the noise is {}{said}.",
                    number(error)
                )
            }
            (None, _) => match self.reason() {
                Some(reason) => format!("There is no mean: {reason}."),
                None => "There is no mean.".to_owned(),
            },
        }
    }

    /// Returns the reason for less than was planned, in the party's words.
    fn reason(&self) -> Option<String> {
        self.object["reason"].as_str().map(plain)
    }

    /// The δ of what it states: with the chance of a bad draw, where START drew the schedule.
    pub(super) fn delta(&self) -> Option<f64> {
        self.object["draw"]["delta"].as_f64().or(self.number("delta"))
    }
}

/// A text of somebody else's, without what a terminal would act on.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
