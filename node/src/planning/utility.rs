//! The utility of a result: its noise beside the largest value that a mean can have.
//!
//! Noise protects a value whether or not anything is left of the mean. Whoever has few parties, a
//! long vector or a small ε gets a vector of noise, which looks like any other: so each quote and
//! each result says both sizes, and a plan whose noise is the larger one is refused unless it says
//! that this is meant.

use serde_json::{Value, json};
use undertone_accountant::guarantee::forecast;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::settings::{Bound, Clip, Unit};

use crate::planning::described::DescribedNoise;
use crate::planning::trained;
use crate::reporting::failure::Failure;
use crate::reporting::report::lower_first;
use crate::reporting::table::{Table, bound, number};

/// Columns that a sentence names. Our choice: what fits on two lines.
const MOST_NAMED: usize = 3;

/// Columns of the table and of the object. Our choice: what is longer is a vector.
const MOST_LISTED: usize = 10_000;

/// Rows of the table. Our choice: a page.
const MOST_SHOWN: usize = 40;

/// Rows of the table on one screen. Our choice: half of it.
const MOST_ON_A_SCREEN: usize = 12;

/// A mean's noise beside its public range.
#[derive(Clone, Copy, Debug)]
pub struct Utility<'a> {
    plan: &'a Plan,
    /// The standard error of the mean: where columns have widths of their own, the root of their
    /// mean square.
    error: f64,
}

/// A column with its public range and its noise.
struct ColumnNoise {
    name: String,
    low: f64,
    high: f64,
    error: f64,
}

impl ColumnNoise {
    /// The noise over half of the range: what the middle of the range is off by at most.
    fn ratio(&self) -> f64 {
        self.error / ((self.high - self.low) / 2.0)
    }
}

impl<'a> Utility<'a> {
    /// What the plan expects, if nobody departs.
    pub fn of(plan: &'a Plan) -> Self {
        Utility::with_error(plan, trained::noise(plan))
    }

    /// What a run came to.
    pub fn with_error(plan: &'a Plan, error: f64) -> Self {
        Utility { plan, error }
    }

    /// The noise over what a mean can be at most: its norm over the ball's radius, or a column's
    /// standard error over half of its range, the largest of all columns.
    ///
    /// Of statistics, over the noise that would leave nothing of the one that it is worst for.
    pub fn ratio(&self) -> f64 {
        if let Some(described) = DescribedNoise::of(self.plan, self.error) {
            return described.ratio();
        }
        match self.plan.draft().data.radius() {
            Some(radius) => self.norm() / (radius * self.reach()),
            None => self.columns().map(|column| column.ratio()).fold(0.0, f64::max),
        }
    }

    /// How many times as far as what is averaged the result may reach: a sum as many as all weigh.
    fn reach(&self) -> f64 {
        let (draft, total) = (self.plan.draft(), self.plan.total_weight());
        if draft.computation.stream().is_some() {
            // The last row of a stream is its means, added up.
            return draft.releases() as f64;
        }
        total / draft.computation.result().divisor(total)
    }

    /// What the result is called.
    fn name(&self) -> &'static str {
        self.plan.draft().computation.result().name()
    }

    /// Whether noise is all that can be expected.
    pub fn is_noise(&self) -> bool {
        self.ratio() > 1.0
    }

    /// The root of the expected square of the noise's norm.
    fn norm(&self) -> f64 {
        self.error * (self.plan.draft().dimension() as f64).sqrt()
    }

    /// Each coordinate of a box; one stands for all where these are alike.
    fn columns(&self) -> impl Iterator<Item = ColumnNoise> {
        let data = &self.plan.draft().data;
        let (low, high) = match &data.clip {
            Clip::Box { low, high } => (low.clone(), high.clone()),
            Clip::L2 { .. } | Clip::Described { .. } | Clip::Tensors { .. } => {
                let radius = data.radius().unwrap_or(0.0);
                (Bound::All(-radius), Bound::All(radius))
            }
        };
        let alike = data.columns.is_none() && matches!((&low, &high), (Bound::All(_), Bound::All(_)));
        let count = if alike { 1 } else { data.dimension() };
        let scales = self.plan.scales();
        let reach = self.reach();
        let equal = self.error / scales.root_mean_square();
        let name = move |coordinate: usize| match &data.columns {
            // Names are of the last axis, which varies fastest.
            Some(names) => names[coordinate % names.len().max(1)].clone(),
            None if alike => "each coordinate".to_owned(),
            None => format!("coordinate {}", coordinate + 1),
        };
        (0..count).map(move |coordinate| ColumnNoise {
            name: name(coordinate),
            low: low.at(coordinate) * reach,
            high: high.at(coordinate) * reach,
            error: equal * scales.at(coordinate),
        })
    }

    /// One line: what a mean can be, what the noise is, and what that means.
    pub fn sentence(&self) -> String {
        if let Some(described) = DescribedNoise::of(self.plan, self.error) {
            return described.sentence();
        }
        let verdict = |ratio: f64| match ratio {
            0.0 => "there is no noise in it".to_owned(),
            ratio if ratio > 1.0 => format!("the result is noise, {} times as large", number(ratio)),
            ratio => format!("{} % of that", number(100.0 * ratio)),
        };
        let ratio = self.ratio();
        if let Some(sentence) = trained::sentence(self.plan, self.norm()) {
            return format!("{sentence}: {}", verdict(ratio));
        }
        let sentence = self.sentence_of_mean(ratio, verdict(ratio));
        match trained::of_rounds(self.plan) {
            Some(rounds) => format!("{rounds}; {}", lower_first(&sentence)),
            None => sentence,
        }
    }

    fn sentence_of_mean(&self, ratio: f64, verdict: String) -> String {
        match self.plan.draft().data.radius() {
            Some(radius) => format!(
                "A {} here has norm at most {}, the noise has norm {}: {}",
                self.name(),
                number(radius * self.reach()),
                number(self.norm()),
                verdict
            ),
            None => {
                let of = |column: ColumnNoise| {
                    let [low, high] = [column.low, column.high].map(bound);
                    format!("{} from {low} to {high}: ± {}", column.name, number(column.error))
                };
                let mut named: Vec<String> = self.columns().take(MOST_NAMED).map(of).collect();
                let more = self.columns().count().saturating_sub(MOST_NAMED);
                named.extend((more > 0).then(|| format!("{more} more")));
                let verdict = match ratio {
                    ratio if ratio > 1.0 => {
                        format!(
                            "up to {} times half of their distance: the result is noise",
                            number(ratio)
                        )
                    }
                    ratio => format!("at most {} % of half of their distance", number(100.0 * ratio)),
                };
                format!(
                    "A {} here lies within its public bounds, the noise is {verdict} ({})",
                    self.name(),
                    named.join("; ")
                )
            }
        }
    }

    /// A table of the columns, where they have ranges or names of their own; else nothing.
    pub fn table(&self) -> String {
        self.table_of(MOST_SHOWN, "--json")
    }

    /// A table of the first columns, for one screen.
    pub fn brief_table(&self) -> String {
        self.table_of(MOST_ON_A_SCREEN, "--full")
    }

    fn table_of(&self, most: usize, others: &str) -> String {
        if let Some(described) = DescribedNoise::of(self.plan, self.error) {
            return described.table();
        }
        let of_its_own = self.plan.draft().data.columns.is_some() || self.plan.scales().differ();
        let is_model = self.plan.draft().computation.parameters().is_some();
        if !of_its_own || is_model || self.plan.draft().data.radius().is_some() {
            return String::new();
        }
        let of = format!("a {} is from", self.name());
        let mut table = Table::with_headings(["column", &of, "to", "± standard error", "% of half"]);
        for column in self.columns().take(most) {
            let percent = number(100.0 * column.ratio());
            let [low, high] = [column.low, column.high].map(bound);
            table.row([column.name, low, high, number(column.error), percent]);
        }
        let more = match self.columns().count().saturating_sub(most) {
            0 => String::new(),
            more => format!("  … and {more} more columns (with {others})\n"),
        };
        table.render() + &more
    }

    /// The object of it.
    pub fn json(&self) -> Value {
        let mut object = json!({
            "sentence": self.sentence(),
            "ratio": self.ratio(),
            "is_noise": self.is_noise(),
        });
        if let Some(described) = DescribedNoise::of(self.plan, self.error) {
            object["statistics"] = described.json();
            return object;
        }
        if let Some(radius) = self.plan.draft().data.radius() {
            object[format!("{}_at_most", self.name())] = json!(radius * self.reach());
            object["noise"] = json!(self.norm());
        }
        object
    }

    /// The object of it, with each column's range and noise where inputs lie in a box.
    pub fn json_by_column(&self) -> Value {
        let mut object = self.json();
        if let Clip::Box { .. } = &self.plan.draft().data.clip {
            let row = |column: ColumnNoise| {
                json!({
                    "column": column.name,
                    "low": column.low,
                    "high": column.high,
                    "noise": column.error,
                })
            };
            object["columns"] = self.columns().take(MOST_LISTED).map(row).collect();
        }
        object
    }

    /// Changes that would each bring the noise below the mean, as far as they can be told: rounded
    /// away from the mark, since a calibrated plan depends on more than this.
    pub fn would_help(&self) -> Vec<String> {
        let (plan, ratio) = (self.plan, self.ratio());
        let mut help = Vec::new();
        let enough = forecast::curve(plan).unwrap_or_default().into_iter().find(|at| {
            at.epsilon > plan.draft().privacy.epsilon
                && at.standard_error * ratio <= plan.calibration().predicted.standard_error
        });
        help.extend(enough.map(|at| format!("privacy.epsilon = {}", at.epsilon)));
        // One mean among m values has noise like 1/m; where nothing cancels, like 1/√m.
        let factor = if forecast::is_local(plan) {
            ratio * ratio
        } else {
            ratio
        };
        let more = |count: f64| two_digits_up(count * factor);
        match plan.draft().data.unit {
            Unit::Party => {
                help.push(format!("some {} parties", more(plan.parties() as f64)));
                help.push("unit = \"record\", where each party has many rows".to_owned());
            }
            Unit::Record => help.push(format!("some {} records", more(plan.draft().total_weight()))),
        }
        if let Some(described) = DescribedNoise::of(plan, self.error) {
            help.extend(described.of_fewer());
            return help;
        }
        // The noise of one coordinate, and the norm of all, go like √d.
        let fewer = (plan.draft().dimension() as f64 / (ratio * ratio)).floor();
        if fewer >= 1.0 {
            help.push(format!("at most {fewer} coordinates"));
        }
        help
    }

    /// What a person should know before the plan is used, where the result would be noise.
    pub fn warning(&self) -> Option<String> {
        let refused = match self.plan.draft().data.noise_ok {
            true => "The run file says that this is meant (data.noise_ok).",
            false => {
                "join, submit and local --inputs refuse this plan, unless the run file says that it is \
                 meant: noise_ok = true under [data]."
            }
        };
        self.is_noise().then(|| {
            format!(
                "NOTHING BUT NOISE. {}.\nWhat would help, each by itself: {}.\n{refused}",
                self.sentence(),
                self.would_help().join("; ")
            )
        })
    }
}

/// A count with two digits, rounded up.
fn two_digits_up(count: f64) -> f64 {
    let unit = 10f64.powf(count.log10().floor() - 1.0).max(1.0);
    (count / unit).ceil() * unit
}

/// Refuses a plan whose result would be noise (exit 2), unless it says that this is meant.
pub fn check(plan: &Plan) -> Result<(), Failure> {
    let utility = Utility::of(plan);
    if plan.draft().data.noise_ok || !utility.is_noise() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "nothing would be left of the {}: {}",
        utility.name(),
        lower_first(&utility.sentence())
    ))
    .field("data.noise_ok")
    .hint(format!(
        "a new plan with, each by itself: {}; or with noise_ok = true under [data] in its run file, \
         if noise is meant",
        utility.would_help().join("; ")
    )))
}

#[cfg(test)]
mod tests;
