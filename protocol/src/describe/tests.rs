//! Figures and Δ, held against brute force, and against plain statistics.

/// The figures of the statistic at this place, which are of this kind.
macro_rules! of {
    ($figures:expr, $at:expr, $kind:ident) => {
        match &$figures.groups[0].statistics[$at].of {
            $crate::describe::figures::groups::ColumnFigures::$kind(figures) => figures,
            other => panic!("{other:?}"),
        }
    };
}

mod coverage;
mod distances;
mod gradients;
mod odd_tables;
mod plain;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::cells::RowCell;
use super::columns::Description;
use crate::plan::computation::describe::RawDescription;

/// A description from the lines of a run file.
pub(super) fn described(text: &str) -> Description {
    let raw: RawDescription = toml::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let described = raw.complete().unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    described.check().unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    described
}

/// Descriptions with every block, grouped or not, counted or not.
pub(super) fn descriptions() -> Vec<(&'static str, Description)> {
    const AGE: &str = "[[column]]\nname = \"age\"\nlow = 18\nhigh = 100\n";
    const SEX: &str = "[[column]]\nname = \"sex\"\ncategories = [\"f\", \"m\"]\n";
    const ARM: &str = "[[column]]\nname = \"arm\"\ncategories = [\"a\", \"b\"]\n";
    const TIME: &str = "[[column]]\nname = \"time\"\nlow = 0\nhigh = 12\nwant = [\"survival\"]\nbins = 6\n\
                        event = \"died\"\n";
    const MOMENTS: &str = "[[column]]\nname = \"x\"\nlow = 0\nhigh = 1\nwant = []\n\
                           [[column]]\nname = \"y\"\nlow = -2\nhigh = 2\nwant = []\n";
    const BY_ARM: &str = "group_by = \"arm\"\n";
    const PRIVATE: &str = "count = \"private\"\n";
    let texts = [
        ("mean", AGE.to_owned()),
        ("quantiles", format!("{AGE}want = [\"quantiles\"]\nbins = 16\n")),
        ("survival", TIME.to_owned()),
        (
            "magnitude",
            "[[column]]\nname = \"any\"\nwant = [\"magnitude\"]\n".to_owned(),
        ),
        ("histogram", format!("{AGE}want = [\"histogram\"]\nbins = 4\n")),
        (
            "two covariances",
            format!("{MOMENTS}[[covariance]]\ncolumns = [\"x\", \"y\"]\n"),
        ),
        (
            "three covariances",
            format!("{MOMENTS}{AGE}want = []\n[[covariance]]\ncolumns = [\"x\", \"y\", \"age\"]\n"),
        ),
        (
            "table",
            format!("{SEX}want = []\n{ARM}want = []\n[[table]]\ncolumns = [\"sex\", \"arm\"]\n"),
        ),
        (
            "all",
            format!(
                "{AGE}want = [\"mean\", \"quantiles\"]\nbins = 8\n{SEX}share = 2.5\n{TIME}{MOMENTS}[[covariance]]\ncolumns = [\"x\", \"y\"]\n"
            ),
        ),
        ("by arm", format!("{BY_ARM}{ARM}{AGE}{SEX}")),
        (
            "quantiles by arm",
            format!("{BY_ARM}{ARM}{AGE}want = [\"quantiles\"]\nbins = 8\n"),
        ),
        ("survival by arm", format!("{BY_ARM}{ARM}{TIME}")),
        (
            "table by arm",
            format!("{BY_ARM}{ARM}{AGE}{SEX}want = []\n[[table]]\ncolumns = [\"sex\", \"arm\"]\n"),
        ),
        ("groups alone", format!("{BY_ARM}{ARM}")),
        ("private", format!("{PRIVATE}{AGE}{SEX}")),
        ("private survival", format!("{PRIVATE}{TIME}")),
        (
            "private covariance",
            format!("{PRIVATE}{MOMENTS}[[covariance]]\ncolumns = [\"x\", \"y\"]\n"),
        ),
        ("private by arm", format!("{PRIVATE}{BY_ARM}{ARM}{AGE}")),
        (
            "private table by arm",
            format!("{PRIVATE}{BY_ARM}{ARM}{AGE}{SEX}want = []\n[[table]]\ncolumns = [\"sex\", \"arm\"]\n"),
        ),
    ];
    texts
        .into_iter()
        .map(|(name, text)| (name, described(&text)))
        .collect()
}

/// A cell of a test's row, with its text.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Empty,
    Number(f64),
    Text(&'static str),
}

impl Held {
    pub(super) fn cell(&self) -> RowCell<'_> {
        match self {
            Held::Empty => RowCell::Empty,
            Held::Number(number) => RowCell::Number(*number),
            Held::Text(text) => RowCell::Text(text),
        }
    }
}

/// A row of cells for each of these columns: corners, middles, beyond, missing, and words.
pub(super) fn draw_row(described: &Description, rng: &mut ChaCha8Rng) -> Vec<Held> {
    let cell = |name: &&str| {
        let column = described.named(name);
        if let Some(categories) = column.and_then(|column| column.categories.as_ref()) {
            return match rng.random_range(0..categories.len() + 2) {
                0 => Held::Text("NA"),
                1 => Held::Text("elsewhere"),
                at => Held::Text(
                    ["a", "b", "f", "m"]
                        .into_iter()
                        .filter(|text| categories.iter().any(|c| c == text))
                        .nth(at - 2)
                        .unwrap_or(""),
                ),
            };
        }
        if column.is_none() {
            return Held::Number([0.0, 1.0, 2.0][rng.random_range(0..3)]);
        }
        let (low, high) = column.and_then(|column| column.bounds()).unwrap_or((-1e7, 1e7));
        match rng.random_range(0..10) {
            0 => Held::Empty,
            1 => Held::Text("x?"),
            2 | 3 => Held::Number(low),
            4 | 5 => Held::Number(high),
            6 => Held::Number(high + 7.0),
            7 => Held::Number(f64::INFINITY),
            // Where the two extremes of a mean's block lie apart.
            8 => Held::Number(low + (high - low) * 0.618_033_988_749_895),
            _ => Held::Number(rng.random_range(low..high)),
        }
    };
    described.names().iter().map(cell).collect()
}

pub(super) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
