//! The numbers of a result for people: columns of a mean, or of a stream's rows.

use undertone_protocol::plan::checked::Plan;

use crate::reporting::table::{Table, beside_error, number};

/// Columns that a screen shows. Our choice: half of it.
pub(super) const MOST_COLUMNS: usize = 12;

/// The heading of errors: nothing else than noise is in them.
const ERROR: &str = "± standard error (of the noise)";

/// A result and what is known of it.
pub(super) struct Shown<'a> {
    /// The plan of its run.
    pub(super) plan: &'a Plan,
    /// All its numbers, row after row.
    pub(super) values: &'a [f64],
    /// The standard error of the last row, per coordinate; where columns have widths of their own,
    /// the root of their mean square.
    pub(super) error: Option<f64>,
    /// What the columns are called.
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
                None => format!("coordinate {}", column + 1),
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
