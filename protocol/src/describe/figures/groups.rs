//! All figures of a released sum, group by group.

use serde::Serialize;

use super::counts::{self, CountFigures, PlainCells};
use super::covariance::{self, CovarianceFigures};
use super::estimate::{Estimate, ReadingAs};
use super::mean::{self, MeanFigures};
use super::quantiles::{self, QuantileFigures};
use super::survival::{self, SurvivalFigures};
use super::table::{self, TableFigures};
use crate::describe::columns::{DescribedColumn, RowCount, Want};
use crate::describe::layout::{Block, BlockKind};
use crate::describe::released::{Amount, ReleasedSum, tell_total};

/// Everything that a released sum says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AllFigures {
    /// The groups; one without a name where nothing is grouped.
    pub groups: Vec<GroupFigures>,
    /// Counts of combinations.
    pub tables: Vec<TableFigures>,
    /// Covariances.
    pub covariances: Vec<CovarianceFigures>,
}

/// The figures of a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupFigures {
    /// The category, `other` or `missing`; `None` where nothing is grouped.
    pub group: Option<String>,
    /// How many rows it has.
    pub rows: Estimate,
    /// One for each statistic of a column, in the order of the description.
    pub statistics: Vec<StatisticFigures>,
}

/// The figures of a statistic of a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatisticFigures {
    /// The column.
    pub column: String,
    /// The statistic.
    pub want: Want,
    /// Its figures.
    #[serde(flatten)]
    pub of: ColumnFigures,
}

/// The figures of one of the statistics.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ColumnFigures {
    /// Those of a mean.
    Mean(MeanFigures),
    /// Counts of categories or of bins.
    Counts(CountFigures),
    /// Counts of magnitudes.
    Plain(PlainCells),
    /// Quantiles and a cumulative curve.
    Quantiles(QuantileFigures),
    /// A survival curve.
    Survival(SurvivalFigures),
}

impl ReleasedSum {
    /// Computes everything.
    pub fn figures(&self, asked: &ReadingAs) -> AllFigures {
        let labels = self.description.groups();
        let group = |slot: usize| GroupFigures {
            group: labels.as_ref().map(|labels| labels[slot].clone()),
            rows: self.rows_shown(slot),
            statistics: self.statistics(slot, asked),
        };
        let of =
            |kind: &'static BlockKind| self.layout.blocks.iter().filter(move |block| block.kind == *kind);
        AllFigures {
            groups: (0..self.layout.slots).map(group).collect(),
            tables: of(&BlockKind::Table).map(|block| self.table(block)).collect(),
            covariances: of(&BlockKind::Covariance)
                .map(|block| self.covariances(block))
                .collect(),
        }
    }

    /// Rows of a slot as shown: told the number of all rows, where that is public.
    fn rows_shown(&self, slot: usize) -> Estimate {
        let own = self.rows_of(slot);
        let (true, RowCount::Public, Some(rows)) =
            (self.layout.has_slots(), self.description.count, self.rows)
        else {
            return Estimate {
                value: own.value.max(0.0),
                noise: own.variance.sqrt(),
                sampling: None,
                raw: Some(own.value),
            };
        };
        let total = Amount {
            value: rows,
            variance: 0.0,
        };
        let mut slots: Vec<f64> = (0..self.layout.slots)
            .map(|slot| self.rows_of(slot).value)
            .collect();
        let std = own.variance.sqrt();
        let part = tell_total(&mut slots, std, total);
        Estimate::count(slots[slot], std * (1.0 - part).max(0.0).sqrt(), total)
    }

    fn statistics(&self, slot: usize, asked: &ReadingAs) -> Vec<StatisticFigures> {
        let mut statistics = vec![];
        for block in &self.layout.blocks {
            let BlockKind::Of(want) = block.kind else {
                continue;
            };
            let name = &block.subject.names()[0];
            let Some(column) = self.description.named(name) else {
                continue;
            };
            statistics.push(StatisticFigures {
                column: name.clone(),
                want,
                of: self.statistic((block, want), column, slot, asked),
            });
        }
        statistics
    }

    fn statistic(
        &self,
        (block, want): (&Block, Want),
        column: &DescribedColumn,
        slot: usize,
        asked: &ReadingAs,
    ) -> ColumnFigures {
        let (y, std) = self.part(block, slot);
        let rows = self.rows_of(slot);
        let bounds = column.bounds().unwrap_or((0.0, 1.0));
        match want {
            Want::Mean => ColumnFigures::Mean(mean::figures((&y, std), bounds, rows, asked.z())),
            Want::Counts | Want::Histogram => ColumnFigures::Counts(counts::figures(y, std, rows)),
            Want::Magnitude => ColumnFigures::Plain(counts::plain(y, std, rows)),
            Want::Quantiles => {
                let edges = column.edges_of(want);
                let edges = (&edges[..], column.whole);
                ColumnFigures::Quantiles(quantiles::figures((&y, std), edges, rows, asked))
            }
            Want::Survival => {
                let edges = column.edges_of(want);
                ColumnFigures::Survival(survival::figures((&y, std), &edges, rows))
            }
        }
    }

    fn table(&self, block: &Block) -> TableFigures {
        let names = block.subject.names();
        let extent = |name: &String| {
            self.description
                .named(name)
                .map_or(2, |column| column.labels().len())
        };
        let extents: Vec<usize> = names.iter().map(extent).collect();
        table::figures(names, self.part(block, 0), &extents, self.all_rows())
    }

    fn covariances(&self, block: &Block) -> CovarianceFigures {
        let names = block.subject.names();
        let half = |name: &String| {
            let bounds = self.description.named(name).and_then(DescribedColumn::bounds);
            bounds.map_or(1.0, |(low, high)| (high - low) / 2.0)
        };
        let halves: Vec<f64> = names.iter().map(half).collect();
        let (y, std) = self.part(block, 0);
        covariance::figures(names, (&y, std), &halves, self.all_rows())
    }
}
