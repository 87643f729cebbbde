//! `task = "describe"`: statistics of a table's columns, from one private sum. The table
//! `[describe]` of a run file.

use serde::{Deserialize, Serialize};

use crate::describe::columns::{
    CovarianceOf, CrossTable, DescribedColumn, Description, MISSING, RowCount, Want,
};
use crate::describe::layout::{RowLayout, WrittenLayout};
use crate::plan::computation::beside::Beside;
use crate::plan::exchange::choice::Exchange;
use crate::plan::run_file::limits::MOST_COORDINATES;
use crate::plan::run_file::problem::{Checked, Problem, require};
use crate::plan::run_file::settings::{Clip, Data, Unit};

/// The table that is described, and the layout that follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribeSettings {
    /// The description, complete.
    pub describe: Description,
    /// Where each statistic stands in the sum, and its scale: derived.
    pub layout: WrittenLayout,
}

impl DescribeSettings {
    /// The settings of a complete description.
    pub fn of(describe: Description) -> Self {
        DescribeSettings {
            layout: WrittenLayout::from(&RowLayout::of(&describe)),
            describe,
        }
    }

    /// Returns the data that each party contributes: vectors of rows, whose range follows from the
    /// description.
    pub(super) fn contributions(&self, data: Data) -> Data {
        let layout = RowLayout::of(&self.describe);
        Data {
            shape: vec![layout.coordinates],
            unit: Unit::Record,
            clip: Clip::Described {
                replace_one: layout.sensitivity_replace_one(),
                zero_out: layout.sensitivity_zero_out(),
                largest: layout.largest_coordinate(),
                cell: layout.coarsest_cell(),
            },
            // A row count that nobody says is bounded by a capacity, which weighs as if it were
            // full.
            records: match self.describe.count {
                RowCount::Private => data.records.map(|records| records.into_capacity()),
                RowCount::Public => data.records,
            },
            ..data
        }
    }

    /// Refuses what is no description, and a layout that is not derived from it.
    pub(super) fn check(&self, beside: &Beside<'_>) -> Checked {
        let faulty = |(field, fault)| (field, Problem::Description(fault));
        self.describe.check().map_err(faulty)?;
        let layout = RowLayout::of(&self.describe);
        self.describe
            .check_size(&layout, MOST_COORDINATES)
            .map_err(faulty)?;
        require(self.layout.agrees(&layout), "layout", || Problem::OnlyFor {
            only: "the description that it is derived from",
        })?;
        let derived = self.contributions(beside.data.clone());
        let same = (&derived.clip, derived.unit) == (&beside.data.clip, beside.data.unit)
            && derived.shape == beside.data.shape
            && derived.records == beside.data.records;
        require(same, "data.clip", || Problem::OnlyFor {
            only: "the description that it is derived from",
        })?;
        let uniform = matches!(beside.exchange, Exchange::Inca(_) | Exchange::PairMasks(_));
        require(uniform, "mechanism.kind", || Problem::OnlyFor {
            only: "another task: statistics take kind = \"inca\" or \"pairwise\"",
        })?;
        require(beside.run.sealed, "run.sealed", || Problem::OnlyFor {
            only: "another task: the sum of statistics is sealed",
        })
    }
}

/// A text, or a number or truth value that stands for its text.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "a text, or a number that stands for one, such as \"old\" or 1"
)]
pub enum AnyText {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// Another number.
    Number(f64),
    /// True or false.
    Truth(bool),
}

impl AnyText {
    fn text(self) -> String {
        match self {
            AnyText::Text(text) => text.trim().to_owned(),
            AnyText::Whole(number) => number.to_string(),
            AnyText::Number(number) => number.to_string(),
            AnyText::Truth(truth) => truth.to_string(),
        }
    }
}

/// The section `[describe]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)] // the keys of run.toml, explained in `defaults::SETTINGS`
pub struct RawDescription {
    pub group_by: Option<String>,
    pub count: Option<RowCount>,
    pub column: Vec<RawColumn>,
    pub table: Vec<RawTogether>,
    pub covariance: Vec<RawTogether>,
}

/// An entry `[[describe.column]]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct RawColumn {
    pub name: Option<String>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub whole: Option<bool>,
    pub bins: Option<usize>,
    pub edges: Option<Vec<f64>>,
    pub categories: Option<Vec<AnyText>>,
    pub missing: Option<Vec<AnyText>>,
    pub want: Option<Vec<Want>>,
    pub event: Option<String>,
    pub share: Option<f64>,
}

/// An entry `[[describe.table]]` or `[[describe.covariance]]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct RawTogether {
    pub columns: Option<Vec<String>>,
    pub share: Option<f64>,
}

impl RawDescription {
    /// Fills the gaps. It is not checked yet.
    ///
    /// # Errors
    /// The first key without which nothing follows, by its dotted name.
    pub fn complete(self) -> Result<Description, (String, Problem)> {
        let group_by = self.group_by;
        let columns = self.column.into_iter().enumerate();
        let column = columns.map(|(at, column)| column.complete(at, group_by.as_deref()));
        let together = |kind: &str, at: usize, raw: RawTogether| {
            let field = format!("describe.{kind}.{at}.columns");
            let example = "columns = [\"age\", \"weight\"], names of described columns";
            let columns = raw.columns.ok_or((field, Problem::Missing { example }))?;
            Ok::<_, (String, Problem)>((columns, raw.share))
        };
        let table = |(at, raw)| {
            let (columns, share) = together("table", at, raw)?;
            let share = share.unwrap_or(1.0);
            Ok(CrossTable { columns, share })
        };
        let covariance = |(at, raw)| {
            let (columns, share) = together("covariance", at, raw)?;
            // Between what each correlation's error and the worst one's would ask for.
            let share = share.unwrap_or((columns.len() + 1) as f64 / 2.0);
            Ok(CovarianceOf { columns, share })
        };
        Ok(Description {
            count: self.count.unwrap_or_default(),
            column: column.collect::<Checked<_>>()?,
            table: self
                .table
                .into_iter()
                .enumerate()
                .map(table)
                .collect::<Checked<_>>()?,
            covariance: self
                .covariance
                .into_iter()
                .enumerate()
                .map(covariance)
                .collect::<Checked<_>>()?,
            group_by,
        })
    }
}

impl RawColumn {
    fn complete(self, at: usize, group_by: Option<&str>) -> Checked<DescribedColumn> {
        let field = format!("describe.column.{at}.name");
        let example = "name = \"age\", the column's name in the table";
        let name = self.name.ok_or((field, Problem::Missing { example }))?;
        let texts = |texts: Vec<AnyText>| texts.into_iter().map(AnyText::text).collect::<Vec<_>>();
        let default = match (&self.categories, group_by == Some(name.as_str())) {
            (_, true) => vec![],
            (Some(_), false) => vec![Want::Counts],
            (None, false) => vec![Want::Mean],
        };
        Ok(DescribedColumn {
            name,
            low: self.low,
            high: self.high,
            whole: self.whole.unwrap_or(false),
            bins: self.bins,
            edges: self.edges,
            categories: self.categories.map(texts),
            missing: self
                .missing
                .map_or_else(|| MISSING.map(str::to_owned).to_vec(), texts),
            want: self.want.unwrap_or(default),
            event: self.event,
            share: self.share.unwrap_or(1.0),
        })
    }
}
