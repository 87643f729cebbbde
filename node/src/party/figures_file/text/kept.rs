//! The lines of figures that are worth a row of the table: what says something in some group.

use std::ops::Range;

use undertone_protocol::describe::columns::Want;
use undertone_protocol::describe::figures::estimate::ReadingAs;

use super::shown_as::ShownAs;
use crate::party::figures_file::shown::{FigureLine, FigureUnit};

/// Counts of a statistic that are all shown. Our choice: a screen.
const MOST_COUNTS: usize = 40;

/// Points of a survival curve that are shown: the curve has them all.
const MOST_POINTS: usize = 6;

/// The lines of all groups, the same in each.
struct Lines<'a> {
    groups: &'a [Vec<FigureLine>],
    z: f64,
}

/// The places of the lines that are kept, in the order in which they are shown: a statistic of a
/// column after the other.
pub(super) fn kept(groups: &[Vec<FigureLine>], shown: &ShownAs) -> Vec<usize> {
    let Some(first) = groups.first() else {
        return vec![];
    };
    let lines = Lines {
        groups,
        z: shown.asked.z(),
    };
    let (mut kept, mut at) = (vec![], 0);
    while at < first.len() {
        let of = |line: &FigureLine| (line.column.clone(), line.want);
        let end = (at..first.len()).find(|&end| of(&first[end]) != of(&first[at]));
        let end = end.unwrap_or(first.len());
        kept.extend(lines.of_statistic(at..end, shown));
        at = end;
    }
    kept
}

impl Lines<'_> {
    fn line(&self, at: usize) -> &FigureLine {
        &self.groups[0][at]
    }

    /// Whether a count is above so many errors in some group.
    fn says(&self, at: usize, z: f64) -> bool {
        self.groups.iter().any(|lines| {
            let figure = lines[at].figure.as_ref();
            figure.is_some_and(|figure| figure.raw.unwrap_or(figure.value) > z * figure.noise.unwrap_or(0.0))
        })
    }

    fn is_there(&self, at: usize) -> bool {
        self.groups.iter().any(|lines| lines[at].figure.is_some())
    }

    /// A count, in all groups together.
    fn size(&self, at: usize) -> f64 {
        let figures = self.groups.iter().filter_map(|lines| lines[at].figure.as_ref());
        figures.map(|figure| figure.value).sum()
    }

    fn of_statistic(&self, block: Range<usize>, shown: &ShownAs) -> Vec<usize> {
        let is_count = |at: &usize| {
            let line = self.line(*at);
            line.unit == FigureUnit::Rows && line.want.is_some() && line.statistic != "missing"
        };
        let counts: Vec<usize> = block.clone().filter(is_count).collect();
        if counts.len() > MOST_COUNTS {
            let others = block.filter(|at| self.line(*at).statistic == "missing" && self.is_kept(*at));
            return self.largest(counts, shown).into_iter().chain(others).collect();
        }
        let is_point = |at: &usize| {
            let line = self.line(*at);
            line.want == Some(Want::Survival) && line.unit == FigureUnit::Share
        };
        let points: Vec<usize> = block
            .clone()
            .filter(is_point)
            .filter(|at| self.is_there(*at))
            .collect();
        let step = points.len().div_ceil(MOST_POINTS).max(1);
        let is_shown = |at: &usize| match is_point(at) {
            true => points
                .iter()
                .position(|point| point == at)
                .is_some_and(|place| (place + 1).is_multiple_of(step)),
            false => self.is_kept(*at),
        };
        block.filter(is_shown).collect()
    }

    /// Counts that the noise of all of them together does not explain (Bonferroni), largest first.
    fn largest(&self, counts: Vec<usize>, shown: &ShownAs) -> Vec<usize> {
        let of_many = ReadingAs {
            confidence: 1.0 - (1.0 - shown.asked.confidence) / counts.len() as f64,
            ..ReadingAs::default()
        };
        let z = of_many.z();
        let mut chosen: Vec<usize> = counts.into_iter().filter(|&at| self.says(at, z)).collect();
        chosen.sort_by(|a, b| self.size(*b).total_cmp(&self.size(*a)));
        chosen.truncate(shown.top);
        chosen
    }

    /// Whether a line of few is worth a row.
    fn is_kept(&self, at: usize) -> bool {
        let line = self.line(at);
        match (line.statistic.as_str(), line.unit) {
            _ if line.want.is_none() => true,
            ("sum", FigureUnit::Own) => false,
            ("median time", _) => self.is_there(at),
            ("missing" | "other", _) if line.unit == FigureUnit::Share => self.says(at, self.z),
            ("missing", _) => self.says(at, self.z),
            (_, FigureUnit::Own | FigureUnit::Share) => true,
            // Shares are shown instead of their counts.
            (_, FigureUnit::Rows) => !self.has_share(at) && self.says(at, self.z),
        }
    }

    /// Whether a count has a share beside it.
    fn has_share(&self, at: usize) -> bool {
        let next = self.groups[0].get(at + 1);
        next.is_some_and(|next| next.unit == FigureUnit::Share && next.statistic == self.line(at).statistic)
    }
}
