//! The numbers of a result for people: columns of a mean or of a stream's rows, coefficients of a
//! model.

use serde_json::{Value, json};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::model::{ModelSettings, RowLength};

use crate::party::coefficients::{Coefficient, coefficients};
use crate::reporting::table::{Table, beside_error, number};

/// Columns that a screen shows. Our choice: half of it.
pub(super) const MOST_COLUMNS: usize = 12;

/// The heading of errors: nothing else than noise is in them.
pub(super) const ERROR: &str = "± standard error (of the noise)";

/// Coefficients that a screen shows. Our choice: half of it.
const MOST_COEFFICIENTS: usize = 20;

/// A result to display, with its plan, standard error and column names.
pub(super) struct Shown<'a> {
    /// The plan of its run.
    pub(super) plan: &'a Plan,
    /// All its numbers, row after row.
    pub(super) values: &'a [f64],
    /// The standard error of the last row, per coordinate; where columns have widths of their own,
    /// the root of their mean square.
    pub(super) error: Option<f64>,
    /// The names of the columns.
    pub(super) names: Option<&'a [String]>,
}

impl Shown<'_> {
    /// A table of the first columns with their standard errors; nothing of a model, or of a long
    /// vector whose coordinates have no names.
    pub(super) fn table(&self) -> String {
        let (draft, dimension) = (self.plan.draft(), self.plan.draft().dimension());
        let named = self.names.is_some_and(|names| names.len() == dimension);
        let is_readable = named || dimension <= MOST_COLUMNS;
        if draft.computation.parameters().is_some() || !is_readable || self.values.len() < dimension {
            return String::new();
        }
        let rounds = self.rounds();
        let each = self
            .error
            .map(|error| standard_errors(self.plan, error).unwrap_or_else(|| vec![error; dimension]));
        let what = draft.computation.column_title();
        let headings: Vec<&str> = match rounds {
            Some(_) => vec!["column", &what, "mean of the rounds", ERROR],
            None => vec!["column", &what, ERROR],
        };
        let mut table = Table::with_headings(headings);
        let last = &self.values[self.values.len() - dimension..];
        for (column, &value) in last.iter().enumerate().take(MOST_COLUMNS) {
            let error = each.as_ref().map(|each| each[column]);
            let shown = |value: f64, error: Option<f64>| match error {
                Some(error) => [beside_error(value, error), number(error)],
                None => [number(value), "–".into()],
            };
            let name = match self.names.filter(|_| named) {
                Some(names) => names[column].clone(),
                None => {
                    let place = draft.data.place_in_tensors(column);
                    place.unwrap_or_else(|| format!("coordinate {}", column + 1))
                }
            };
            let row = match rounds {
                Some(rounds) => {
                    let [sum, _] = shown(value, error);
                    let [mean, error] = shown(value / rounds, error.map(|error| error / rounds));
                    vec![name, sum, mean, error]
                }
                None => [vec![name], shown(value, error).to_vec()].concat(),
            };
            table.row(row);
        }
        let more = match dimension.saturating_sub(MOST_COLUMNS) {
            0 => String::new(),
            more => format!("  … and {more} more columns (in the file)\n"),
        };
        format!("{}{more}\n", table.render())
    }

    /// How many means a stream's last row adds up; none of any other task.
    fn rounds(&self) -> Option<f64> {
        let rows = self.values.len() / self.plan.draft().dimension().max(1);
        let sums = self.plan.draft().computation.running_sum_of();
        sums.map(|_| rows.max(1) as f64)
    }
}

/// Where columns were scaled to width 1: each column's own standard error, in its unit. `error` is
/// the root of their mean square.
pub(super) fn standard_errors(plan: &Plan, error: f64) -> Option<Vec<f64>> {
    let scales = plan.scales();
    let even = error / scales.root_mean_square();
    scales.differ().then(|| {
        (0..plan.draft().dimension())
            .map(|i| even * scales.at(i))
            .collect()
    })
}

/// Standard errors on each side of a 95 % interval.
const NORMAL_975: f64 = 1.959_963_984_540_054;

/// A model's coefficients by name for programs, each with its error and 95 % interval where the
/// errors of its parameters are known; `None` of a model with several scores, or of many columns.
pub(super) fn model_json(model: &ModelSettings, weights: &[f64], errors: Option<&[f64]>) -> Option<Value> {
    let found = coefficients(model, weights, errors).filter(|found| found.len() <= MOST_COEFFICIENTS)?;
    let object = |coefficient: &Coefficient| {
        let (value, error) = (coefficient.value, coefficient.standard_error);
        let interval = error.map(|error| [value - NORMAL_975 * error, value + NORMAL_975 * error]);
        json!({
            "name": coefficient.name,
            "per_unit": value,
            "standard_error": error,
            "interval_95": interval,
        })
    };
    Some(found.iter().map(object).collect())
}

/// A model's coefficients with their errors and intervals, and what these cover; nothing of a model
/// with several scores. `errors`: of each parameter, and whose rows they were computed with.
pub(super) fn model_table(model: &ModelSettings, weights: &[f64], errors: Option<(&[f64], &str)>) -> String {
    let found = coefficients(model, weights, errors.map(|(errors, _)| errors));
    let Some(found) = found.filter(|found| found.len() <= MOST_COEFFICIENTS) else {
        return String::new();
    };
    let mut headings = vec!["coefficient", "per unit"];
    if errors.is_some() {
        headings.extend([ERROR, "95 % interval"]);
    }
    let mut table = Table::with_headings(headings);
    for coefficient in found {
        let value = coefficient.value;
        let row = match coefficient.standard_error {
            Some(error) => {
                let [low, high] = [-NORMAL_975, NORMAL_975].map(|z| beside_error(value + z * error, error));
                vec![
                    coefficient.name,
                    beside_error(value, error),
                    number(error),
                    format!("{low} to {high}"),
                ]
            }
            None => vec![coefficient.name, number(value)],
        };
        table.row(row);
    }
    let mut text = table.render();
    text += match model.rows {
        RowLength::AsIs => "A coefficient is what one unit of its column adds to the score.\n",
        RowLength::Unit | RowLength::Clip => {
            "A coefficient is what one unit of its column adds to the score, for a row in the middle of all bounds \
             (rows are scaled to one length: further out a unit adds less).\n"
        }
    };
    if let Some((_, whose)) = errors {
        text += &format!(
            "The intervals cover the noise that was added for privacy, to first order and with the curvature of \
             {whose}. They do not cover sampling (other rows would have given another model), nor what clipping and few iterations change.\n"
        );
    }
    text + "\n"
}
