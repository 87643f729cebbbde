//! The utility of a table's statistics before anything private moves: the noise of each, over
//! all rows.

use serde_json::{Value, json};
use undertone_accountant::losses::gaussian;
use undertone_protocol::describe::columns::Want;
use undertone_protocol::describe::layout::{Block, BlockKind, RowLayout};
use undertone_protocol::describe::released::{Amount, Cumulative};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::describe::DescribeSettings;

use crate::planning::bounded;
use crate::reporting::table::{Table, at_most, number};

/// Rows of a table of statistics that are printed. Our choice: a screen.
const MOST_LISTED: usize = 40;

/// The noise of a plan's statistics.
pub struct DescribedNoise<'a> {
    settings: &'a DescribeSettings,
    layout: RowLayout,
    /// σ of a coordinate of the sum.
    error: f64,
    rows: f64,
}

/// The kind of figure that an error is of, with the least that would leave nothing.
#[derive(Clone, Copy, PartialEq)]
enum Figure {
    /// A mean, in halves of its range.
    Mean,
    /// A share of rows.
    Share,
    /// A rank among rows.
    Rank,
    /// A covariance, in products of halves of ranges.
    Covariance,
}

impl Figure {
    /// The error at which nothing is left of it. Our choice: what a guess is off by.
    const fn hopeless(self) -> f64 {
        match self {
            Figure::Mean | Figure::Covariance => 1.0,
            Figure::Share => 0.5,
            Figure::Rank => 0.25,
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Figure::Mean => "of half its range",
            Figure::Share => "of all rows",
            Figure::Rank => "of the rows",
            Figure::Covariance => "of its halved ranges' product",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Figure::Mean => "a mean",
            Figure::Share => "a share",
            Figure::Rank => "a quartile or a survival curve",
            Figure::Covariance => "a covariance",
        }
    }
}

impl<'a> DescribedNoise<'a> {
    /// The noise of a plan's statistics, where a coordinate of their sum has this error.
    pub fn of(plan: &'a Plan, error: f64) -> Option<Self> {
        let settings = plan.draft().computation.described()?;
        Some(DescribedNoise {
            layout: RowLayout::of(&settings.describe),
            settings,
            error,
            rows: plan.total_weight(),
        })
    }

    /// The error of a block's figures over all rows, relative to what they are of.
    fn of_block(&self, block: &Block) -> (Figure, f64) {
        let std = self.error / block.scale;
        let share = std / self.rows;
        match block.kind {
            BlockKind::Of(Want::Mean) => (Figure::Mean, share),
            BlockKind::Of(Want::Counts | Want::Histogram | Want::Magnitude) | BlockKind::Table => {
                (Figure::Share, share)
            }
            BlockKind::Of(Want::Quantiles) => (Figure::Rank, self.of_rank(block.length, std)),
            BlockKind::Of(Want::Survival) => (Figure::Rank, share * block.norm_squared.sqrt()),
            BlockKind::Covariance => (Figure::Covariance, share / std::f64::consts::SQRT_2),
        }
    }

    /// The error of the middle rank.
    fn of_rank(&self, length: usize, std: f64) -> f64 {
        let total = Amount {
            value: self.rows,
            variance: 0.0,
        };
        let middle = (length - 1) / 2;
        let cumulative = Cumulative::of(&vec![0.0; length], std, total);
        cumulative.covariance(middle, middle).max(0.0).sqrt() / self.rows
    }

    /// The largest error over that at which nothing is left.
    pub fn ratio(&self) -> f64 {
        let ratio = |block: &Block| {
            let (figure, error) = self.of_block(block);
            error / figure.hopeless()
        };
        self.layout.blocks.iter().map(ratio).fold(0.0, f64::max)
    }

    /// The worst error of each kind of figure, as people say it.
    pub fn sentence(&self) -> String {
        let kinds = [Figure::Mean, Figure::Share, Figure::Rank, Figure::Covariance];
        let worst = |kind: &Figure| {
            let errors = self.layout.blocks.iter().map(|block| self.of_block(block));
            let errors = errors
                .filter(|(figure, _)| figure == kind)
                .map(|(_, error)| error);
            let worst = errors.fold(None, |most: Option<f64>, error| {
                Some(most.map_or(error, |m| m.max(error)))
            });
            worst.map(|error| {
                format!(
                    "{} by {} % {}",
                    kind.name(),
                    number(100.0 * error),
                    kind.sentence()
                )
            })
        };
        let each: Vec<String> = kinds.iter().filter_map(worst).collect();
        match each.is_empty() {
            true => "Over all rows nothing but their number is described".to_owned(),
            false => format!("Over all rows noise puts {} off", each.join(", ")),
        }
    }

    /// One line: how much of what is released.
    pub fn headline(&self, plan: &Plan) -> String {
        let groups = match self.settings.describe.group_by.as_ref() {
            Some(column) => format!(" by {column} ({} groups)", self.layout.slots),
            None => String::new(),
        };
        format!(
            "{} over {} rows{groups}: {} statistics, Δ = {}, {} coordinates",
            plan.draft().name,
            bounded::total(plan),
            self.layout.blocks.len(),
            number(plan.draft().largest_sensitivity()),
            self.layout.coordinates
        )
    }

    /// A row for each statistic, in its own unit.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.row([
            "  column".into(),
            "statistic".into(),
            "noise over all rows".into(),
        ]);
        for block in self.layout.blocks.iter().take(MOST_LISTED) {
            let name = format!("  {}", block.subject.names().join(" × "));
            table.row([name, block.kind.name().to_owned(), self.in_its_unit(block)]);
        }
        let more = match self.layout.blocks.len().saturating_sub(MOST_LISTED) {
            0 => String::new(),
            more => format!("  … and {more} more\n"),
        };
        table.render() + &more
    }

    fn in_its_unit(&self, block: &Block) -> String {
        let (figure, error) = self.of_block(block);
        let bounds = block
            .subject
            .names()
            .first()
            .and_then(|name| self.settings.describe.named(name)?.bounds());
        match (figure, bounds) {
            (Figure::Mean, Some((low, high))) => format!("± {}", number(error * (high - low) / 2.0)),
            (Figure::Share, _) => format!("± {} rows", number(error * self.rows)),
            _ => format!("± {} % {}", number(100.0 * error), figure.sentence()),
        }
    }

    /// Says how much less noise fewer statistics would have.
    pub fn of_fewer(&self) -> Option<String> {
        let all: f64 = self.layout.blocks.iter().map(|block| block.share).sum();
        let largest = self
            .layout
            .blocks
            .iter()
            .map(|block| block.share)
            .fold(0.0, f64::max);
        (all > largest).then(|| {
            format!(
                "Noise goes with the root of the number of statistics: without one of them it is {} % of \
                 this, with half of them 71 %",
                number(100.0 * ((all - largest) / all).sqrt())
            )
        })
    }

    /// The object of it.
    pub fn json(&self) -> Value {
        let block = |block: &Block| {
            let (_, error) = self.of_block(block);
            json!({
                "column": block.subject,
                "statistic": block.kind.name(),
                "relative_noise": error,
            })
        };
        json!(self.layout.blocks.iter().map(block).collect::<Vec<_>>())
    }
}

/// How much less a person is protected who has two rows: by twice the loss of one. `None` of a plan
/// without statistics, or without a claim to rely on.
pub fn of_two_rows(plan: &Plan) -> Option<String> {
    plan.draft().computation.described()?;
    let claims = plan.calibration().claims.iter();
    let relied_on = claims.filter(|claim| claim.holds_as_headline);
    let epsilons = relied_on.filter_map(|claim| gaussian::epsilon(claim.delta, 2.0 * claim.mu).ok());
    let epsilon = epsilons.fold(None, |most: Option<f64>, epsilon| {
        Some(most.map_or(epsilon, |most| most.max(epsilon)))
    })?;
    Some(format!(
        "a person with two rows has ε = {} at the same δ: bring one row a person, or aggregate first",
        at_most(epsilon)
    ))
}

/// Everything that a plan makes public of the columns, in words: who accepts a plan reads it, since
/// a category may be a name.
pub fn public(settings: &DescribeSettings) -> String {
    let column = |column: &undertone_protocol::describe::columns::DescribedColumn| {
        let values = match (&column.categories, column.bounds()) {
            (Some(categories), _) => categories.join(", "),
            (None, Some((low, high))) => format!("{low} to {high}"),
            (None, None) => "any number".to_owned(),
        };
        format!("{} ({values})", column.name)
    };
    let columns: Vec<String> = settings.describe.column.iter().map(column).collect();
    format!("public: {}", columns.join("; "))
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::peers::Peers;
    use undertone_protocol::plan::run_file::parsed::RunFile;

    use super::*;
    use crate::planning::{bounded, brief, make, quote};
    use crate::testing::plan_of;

    fn planned(data: &str, describe: &str) -> Plan {
        let text = format!(
            "task = \"describe\"\nname = \"t\"\n[data]\n{data}\n[describe]\n{describe}\n\
             [[describe.column]]\nname = \"age\"\nlow = 0\nhigh = 100\n\
             [[describe.column]]\nname = \"sex\"\ncategories = [\"f\", \"m\"]\n"
        );
        let run = RunFile::parse(&text, 4).unwrap_or_else(|e| panic!("{e}"));
        make::make(run, &Peers::simulated(4).expect("peers"), 1).unwrap_or_else(|e| panic!("{e}"))
    }

    /// A capacity is no number of rows: the quote says "at most", and what fewer rows do.
    #[test]
    fn a_quote_of_a_capacity_says_what_fewer_rows_do() {
        for (data, describe) in [
            ("records = 1000", "count = \"private\""),
            ("records = { at_most = 1000 }", ""),
        ] {
            let plan = planned(data, describe);
            let text = brief::text(&plan, &[])
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            assert!(text.contains("over at most 4000 rows"), "{text}");
            assert!(text.contains("each single one of at most 4000 rows"), "{text}");
            assert!(
                bounded::at_half(&plan).contains("With half of them, 2000"),
                "{text}"
            );
            assert!(text.contains("off by twice as much"), "{text}");
        }
        let text = brief::text(&planned("records = 1000", ""), &[]);
        assert!(
            text.contains("over 4000 rows") && !text.contains("twice as much"),
            "{text}"
        );
    }

    /// The loss of two rows is twice that of one, and ε somewhat more; fewer statistics have less
    /// noise.
    #[test]
    fn a_quote_says_what_two_rows_of_a_person_and_fewer_statistics_are() {
        let plan = planned("records = 1000", "");
        let said = of_two_rows(&plan).expect("statistics");
        let (_, rest) = said.split_once("ε = ").expect("a number");
        let epsilon: f64 = rest
            .split(' ')
            .next()
            .and_then(|text| text.parse().ok())
            .expect("a number");
        assert!((2.0..2.5).contains(&epsilon), "{said}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = words(&brief::text(&plan, &[]));
        assert!(
            text.contains("with two rows") && text.contains("with half of them 71 %"),
            "{text}"
        );
        assert!(words(&quote::text(&plan)).contains("with two rows"));
        let of_mean = plan_of("name = \"m\"\n[data]\nshape = [2]\n", 4, None);
        assert_eq!(of_two_rows(&of_mean), None);
    }
}
