//! The numbers of a local run beside the true ones, for people.

use std::collections::BTreeSet;

use serde_json::Value;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::model::ModelSettings;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::topology::party::Party;

use crate::commands::local::parties::LocalParty;
use crate::commands::local::summary::{Summary, averages_vectors};
use crate::commands::shown::{self, MOST_COLUMNS};
use crate::party::coefficients::noise_errors;
use crate::party::rows::Rows;
use crate::planning::gain::Gain;
use crate::planning::quote;
use crate::reporting::table::{Table, at_most, beside_error, number};

impl Summary<'_> {
    /// Each column's private mean beside the true one, where columns have names or units of their
    /// own.
    pub(super) fn column_table(&self) -> String {
        let Some(columns) = self.object.get("columns").and_then(Value::as_array) else {
            return String::new();
        };
        // A stream's last row is its means, added up.
        let rounds = self.rounds();
        let (private, of_all) = match rounds {
            1 => ("private mean", String::new()),
            _ => (
                "private mean of the rounds",
                format!(
                    "Each row of a node's file adds its round's mean to the rows before; these are the last \
                         row's sums over {rounds} rounds.\n\n"
                ),
            ),
        };
        let mut table =
            Table::with_headings(["column", private, "± standard error", "true mean", "difference"]);
        for column in columns.iter().take(MOST_COLUMNS) {
            let of = |key: &str| column[key].as_f64().map(|value| value / rounds as f64);
            let error = of("standard_error").unwrap_or(0.0);
            let beside = |key: &str| of(key).map_or("–".into(), |value| beside_error(value, error));
            let shown = |key: &str| of(key).map_or("–".into(), number);
            table.row([
                column["name"].as_str().unwrap_or("–").to_owned(),
                beside("mean"),
                shown("standard_error"),
                beside("true_mean"),
                shown("error"),
            ]);
        }
        let more = match columns.len().saturating_sub(MOST_COLUMNS) {
            0 => String::new(),
            more => format!("  … and {more} more columns (with --json, or in summary.json)\n"),
        };
        of_all + &table.render() + &more + "\n"
    }

    /// How many means the result adds up: of a stream as many as it had rounds.
    fn rounds(&self) -> u64 {
        let planned = self.plan.draft().computation.running_sum_of();
        let run = self.object.get("iterations");
        let run = run.and_then(|iterations| iterations["run"].as_u64());
        planned.map_or(1, |planned| run.unwrap_or(planned).max(1))
    }

    /// Says what a demonstration protected, for people who see it for the first time.
    pub(super) fn sentence(&self) -> String {
        let epsilon = self.object["epsilon"].as_f64();
        let (Some(epsilon), true) = (epsilon, self.demonstration) else {
            return String::new();
        };
        format!(
            "\nWhat was protected: any single patient, all {} columns together. Whoever reads all that these nodes \
             published, even with one hospital's help, can hardly tell whether that patient's record is the true \
             one or any other within the public bounds (ε = {} at δ = {}), and no hospital showed its data to \
             anybody. The patients are made up; bring your own with --inputs DIR --run RUN.toml.\n",
            self.plan.draft().dimension(),
            at_most(epsilon),
            at_most(quote::delta_with(self.plan, Some(epsilon))),
        )
    }

    /// How far the mean is off, and what others would have given: one table where all coordinates
    /// have one unit, else a line.
    pub(super) fn errors(&self) -> String {
        if !averages_vectors(self.plan) {
            return String::new();
        }
        let gain = self.object["standard_error"].as_f64();
        let gain = gain.and_then(|error| Gain::with_error(self.plan, error));
        let gain = gain.map_or_else(String::new, |gain| format!("{}.\n", gain.sentence()));
        if let Some(off) = self.off_in_standard_errors() {
            return format!(
                "The means are {} standard errors off the true ones (root mean square over columns).\n{gain}\n",
                number(off)
            );
        }
        let mut table = Table::with_headings(["error of the mean", "per coordinate"]);
        let mut row = |what: &str, key: &str| {
            if let Some(value) = self.object.get(key).and_then(Value::as_f64) {
                table.row([what.into(), number(value)]);
            }
        };
        row("accounted (noise, standard error)", "standard_error");
        row("true (rms against the clipped mean)", "rms_error");
        row(
            "true (rms against the plain mean of raw inputs)",
            "rms_error_plain",
        );
        row("a trusted server would have given", "central");
        row("purely local noise would have given", "local");
        format!("{}{gain}\n", table.render())
    }

    /// Where columns have units of their own: the root mean square of their errors, each in its
    /// standard error.
    fn off_in_standard_errors(&self) -> Option<f64> {
        let columns = self.object.get("columns")?.as_array()?;
        let in_errors = columns.iter().filter_map(|column| {
            let [off, error] = ["error", "standard_error"].map(|key| column[key].as_f64());
            Some(off? / error?)
        });
        let squares: Vec<f64> = in_errors.map(|off| off * off).collect();
        let mean = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
        Some(mean.sqrt()).filter(|off| off.is_finite() && !squares.is_empty())
    }
}

impl Summary<'_> {
    /// The coefficients of a model that was fitted to these parties' rows in so many iterations,
    /// with their errors, for people and for programs: `local` has all rows, so that their
    /// curvature is known. Nothing without a model.
    pub(super) fn coefficients_of(
        plan: &Plan,
        fitted: Option<(&ModelSettings, &[f64])>,
        (parties, included, run): (&[LocalParty], &BTreeSet<Party>, u64),
    ) -> (String, Option<Value>) {
        let Some((settings, model)) = fitted else {
            return (String::new(), None);
        };
        let prepared = parties
            .iter()
            .map(|party| Rows::prepare(settings, &party.vector.values, &party.input));
        let rows: Vec<Rows> = prepared.filter_map(Result::ok).collect();
        let noise = (plan.predicted_over(included).standard_error, run);
        let errors = match plan.draft().data.unit {
            Unit::Record => noise_errors(settings, model, rows.iter().flat_map(Rows::iter), noise),
            // A party's gradients are clipped as one.
            Unit::Party => None,
        };
        let table = shown::model_table(
            settings,
            model,
            errors.as_deref().map(|errors| (errors, "all rows")),
        );
        (table, shown::model_json(settings, model, errors.as_deref()))
    }
}
