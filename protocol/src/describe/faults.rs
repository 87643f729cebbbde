//! Faults of descriptions, each with its repair.

use std::collections::BTreeSet;

use thiserror::Error;

use super::cells::number_of;
use super::columns::{CrossTable, DescribedColumn, Description, Want};
use super::layout::RowLayout;

/// The most bins of a column. Our choice: finer ones say nothing that noise leaves.
pub const MOST_BINS: usize = 4096;
/// The most categories of a column. Our choice: a plan lists them all.
pub const MOST_CATEGORIES: usize = 1_000_000;
/// The most columns of a covariance. Our choice: more are some 10⁵ coordinates.
pub const MOST_CORRELATED: usize = 500;
/// The largest share. Our choice: beyond it others get nothing.
const MOST_SHARE: f64 = 1000.0;

/// A fault of a description. Prints what was found; [`DescriptionFault::fix`] says what to do.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DescriptionFault {
    /// Nothing is wanted.
    #[error("asks for no statistic")]
    Nothing,
    /// A column without a name that can be shown.
    #[error("has no usable name")]
    NoName,
    /// A name that two columns have.
    #[error("has column {name:?} twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// Bounds that are none.
    #[error("of {name:?} has low = {low} and high = {high}")]
    Bounds {
        /// The column.
        name: String,
        /// The low bound.
        low: f64,
        /// The high bound.
        high: f64,
    },
    /// A column of numbers without bounds.
    #[error("of {name:?} has no bounds")]
    NoBounds {
        /// The column.
        name: String,
    },
    /// Too few or too many bins.
    #[error("of {name:?} has {found} bins")]
    Bins {
        /// The column.
        name: String,
        /// How many.
        found: usize,
    },
    /// Edges that do not rise, or are not finite, or leave the bounds.
    #[error("of {name:?} has edges that do not rise from low to high")]
    Edges {
        /// The column.
        name: String,
    },
    /// Whole numbers with bounds that are none.
    #[error("of {name:?} is whole = true with low = {low} and high = {high}, or with bins or edges")]
    Whole {
        /// The column.
        name: String,
        /// The low bound.
        low: f64,
        /// The high bound.
        high: f64,
    },
    /// A category that stands twice, or among texts for missing cells, or cannot be shown.
    #[error("of {name:?} has the category {category:?} {how}")]
    Category {
        /// The column.
        name: String,
        /// The category.
        category: String,
        /// The fault, in words.
        how: &'static str,
    },
    /// Too many categories, or none.
    #[error("of {name:?} has {found} categories")]
    Categories {
        /// The column.
        name: String,
        /// How many.
        found: usize,
    },
    /// A statistic that stands twice, or is none of such a column.
    #[error("of {name:?} has {:?}{how}", want.name())]
    Wanted {
        /// The column.
        name: String,
        /// The statistic.
        want: Want,
        /// The fault, in words.
        how: &'static str,
    },
    /// A key of numbers in a column of categories.
    #[error("of {name:?} is a key of numbers, and the column has categories")]
    OfNumbers {
        /// The column.
        name: String,
    },
    /// A name that no described column has.
    #[error("names {name:?}, which is no described column")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A column of numbers where categories are needed.
    #[error("names {name:?}, which has no categories")]
    NoCategories {
        /// The name.
        name: String,
    },
    /// A column of categories where numbers are needed.
    #[error("names {name:?}, which is no column of numbers with bounds")]
    NoNumbers {
        /// The name.
        name: String,
    },
    /// Statistics of the column by which others are grouped.
    #[error("of {name:?} asks for statistics of the column that groups all others")]
    OfGroups {
        /// The column.
        name: String,
    },
    /// Survival without an event, or an event without survival.
    #[error("of {name:?} does not go together: survival has a column of events, and nothing else has")]
    Event {
        /// The column.
        name: String,
    },
    /// A table of the column by which all is grouped, alone.
    #[error("is a table of {name:?} alone, whose counts are the groups' sizes")]
    TableOfGroups {
        /// The column.
        name: String,
    },
    /// Too few or too many columns together.
    #[error("lists {found} columns")]
    Together {
        /// How many.
        found: usize,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// A share that is none.
    #[error("is {found}")]
    Share {
        /// The share.
        found: f64,
    },
    /// More coordinates than a plan may have.
    #[error("has {coordinates} coordinates, most of them, {largest}, for the {want} of {columns:?}")]
    Coordinates {
        /// All of them, saturated.
        coordinates: usize,
        /// Those of the largest block, in all slots.
        largest: usize,
        /// The statistic of that.
        want: &'static str,
        /// Its columns.
        columns: Vec<String>,
    },
}

impl DescriptionFault {
    /// Returns the repair, for a person.
    pub fn fix(&self) -> String {
        match self {
            DescriptionFault::Nothing => "add a [[describe.column]] with name, low and high".into(),
            DescriptionFault::NoName => {
                "write name = \"…\", the column's name in the table, 1 to 256 characters".into()
            }
            DescriptionFault::Twice { .. } => "describe it once, with all that is wanted of it".into(),
            DescriptionFault::Bounds { .. } => "both must be finite numbers, low below high".into(),
            DescriptionFault::NoBounds { .. } => {
                "write low and high, from what is known of the quantity; or categories; or ask for \
                 want = [\"magnitude\"] first, which needs none"
                    .into()
            }
            DescriptionFault::Bins { .. } => format!("choose from 2 to {MOST_BINS} bins"),
            DescriptionFault::Edges { .. } => {
                "list rising numbers, the first one low and the last one high where these are given; \
                 without bins"
                    .into()
            }
            DescriptionFault::Whole { .. } => {
                "write whole numbers for low and high, and neither bins nor edges".into()
            }
            DescriptionFault::Category { .. } => {
                "list each category once, as it stands in the table; two that are equal as numbers are one"
                    .into()
            }
            DescriptionFault::Categories { .. } => format!("list from 1 to {MOST_CATEGORIES}"),
            DescriptionFault::Wanted { .. } => {
                "numbers have mean, quantiles, histogram, survival and magnitude; categories have counts"
                    .into()
            }
            DescriptionFault::OfNumbers { .. } => "leave it out".into(),
            DescriptionFault::Unknown { name } => format!("add a [[describe.column]] with name = {name:?}"),
            DescriptionFault::NoCategories { .. } => "give the column categories".into(),
            DescriptionFault::NoNumbers { .. } => "give the column low and high".into(),
            DescriptionFault::OfGroups { .. } => "leave want out: its counts are the groups' sizes".into(),
            DescriptionFault::Event { .. } => {
                "write event = \"…\", a column of 1 and 0, beside want = [\"survival\"]".into()
            }
            DescriptionFault::TableOfGroups { .. } => "leave the table out".into(),
            DescriptionFault::Together { least, most, .. } => {
                format!("list from {least} to {most}, each once")
            }
            DescriptionFault::Share { .. } => {
                format!("it must be above 0 and at most {MOST_SHARE}, such as 1.0")
            }
            DescriptionFault::Coordinates { .. } => "ask for fewer categories, bins or groups of it".into(),
        }
    }
}

/// A dotted key below `describe`, and the fault of its value.
type Checking<T = ()> = Result<T, (String, DescriptionFault)>;

fn require(holds: bool, field: &str, fault: impl FnOnce() -> DescriptionFault) -> Checking {
    match holds {
        true => Ok(()),
        false => Err((field.to_owned(), fault())),
    }
}

/// Whether a text can be shown, and found again.
fn is_showable(text: &str) -> bool {
    (1..=256).contains(&text.len()) && text.trim() == text && !text.contains(char::is_control)
}

/// Bounds outside of which squares of f64 would overflow or vanish.
fn is_sizeable(number: f64) -> bool {
    number.is_finite() && number.abs() <= 1e100
}

fn check_share(field: &str, found: f64) -> Checking {
    require(
        found > 0.0 && found <= MOST_SHARE,
        &format!("{field}.share"),
        || DescriptionFault::Share { found },
    )
}

impl Description {
    /// Refuses what is no description of a table.
    ///
    /// # Errors
    /// The first key that is wrong, by its dotted name below `describe`, with the fault.
    pub fn check(&self) -> Checking {
        let mut names = BTreeSet::new();
        for (at, column) in self.column.iter().enumerate() {
            let field = format!("describe.column.{at}");
            require(is_showable(&column.name), &format!("{field}.name"), || {
                DescriptionFault::NoName
            })?;
            require(names.insert(&column.name), &format!("{field}.name"), || {
                DescriptionFault::Twice {
                    name: column.name.clone(),
                }
            })?;
            column.check(&field)?;
        }
        if let Some(name) = &self.group_by {
            self.check_categories("describe.group_by", name)?;
            let at = self.at(name).unwrap_or(0);
            let is_bare = self.column[at].want.is_empty();
            require(is_bare, &format!("describe.column.{at}.want"), || {
                DescriptionFault::OfGroups { name: name.clone() }
            })?;
        }
        for (at, table) in self.table.iter().enumerate() {
            self.check_table(&format!("describe.table.{at}"), table)?;
        }
        for (at, covariance) in self.covariance.iter().enumerate() {
            let field = format!("describe.covariance.{at}");
            check_share(&field, covariance.share)?;
            check_together(&field, &covariance.columns, (2, MOST_CORRELATED))?;
            for name in &covariance.columns {
                let column = self.known(&field, name)?;
                let is_bounded = column.categories.is_none() && column.bounds().is_some();
                require(is_bounded, &field, || DescriptionFault::NoNumbers {
                    name: name.clone(),
                })?;
            }
        }
        let is_wanted = self.column.iter().any(|column| !column.want.is_empty());
        let has_any = is_wanted || !self.table.is_empty() || !self.covariance.is_empty();
        require(has_any || self.group_by.is_some(), "describe", || {
            DescriptionFault::Nothing
        })
    }

    /// Refuses a layout of more coordinates than a plan may have.
    ///
    /// # Errors
    /// The key and the fault, which names the largest block.
    pub fn check_size(&self, layout: &RowLayout, most: usize) -> Checking {
        let in_all = |at: usize| {
            let block = &layout.blocks[at];
            block
                .length
                .saturating_mul(if block.grouped { layout.slots } else { 1 })
        };
        let largest = (0..layout.blocks.len()).max_by_key(|&at| in_all(at));
        let Some(at) = largest.filter(|_| layout.coordinates > most) else {
            return Ok(());
        };
        let block = &layout.blocks[at];
        let fault = DescriptionFault::Coordinates {
            coordinates: layout.coordinates,
            largest: in_all(at),
            want: block.kind.name(),
            columns: block.subject.names().to_vec(),
        };
        Err(("describe".to_owned(), fault))
    }

    fn known(&self, field: &str, name: &str) -> Checking<&DescribedColumn> {
        let unknown = || {
            (
                field.to_owned(),
                DescriptionFault::Unknown {
                    name: name.to_owned(),
                },
            )
        };
        self.named(name).ok_or_else(unknown)
    }

    fn check_categories(&self, field: &str, name: &str) -> Checking {
        let column = self.known(field, name)?;
        require(column.categories.is_some(), field, || {
            DescriptionFault::NoCategories {
                name: name.to_owned(),
            }
        })
    }

    fn check_table(&self, field: &str, table: &CrossTable) -> Checking {
        check_share(field, table.share)?;
        check_together(field, &table.columns, (1, 16))?;
        for name in &table.columns {
            self.check_categories(field, name)?;
        }
        let is_of_groups = matches!(&table.columns[..], [name] if self.group_by.as_ref() == Some(name));
        require(!is_of_groups, field, || DescriptionFault::TableOfGroups {
            name: table.columns[0].clone(),
        })
    }
}

fn check_together(field: &str, columns: &[String], (least, most): (usize, usize)) -> Checking {
    let each: BTreeSet<&String> = columns.iter().collect();
    let is_fine = each.len() == columns.len() && (least..=most).contains(&columns.len());
    require(is_fine, &format!("{field}.columns"), || {
        DescriptionFault::Together {
            found: columns.len(),
            least,
            most,
        }
    })
}

impl DescribedColumn {
    fn check(&self, field: &str) -> Checking {
        check_share(field, self.share)?;
        let mut wants = BTreeSet::new();
        for &want in &self.want {
            let fits = (want == Want::Counts) == self.categories.is_some();
            let how = match wants.insert(want) {
                true => " where the column's kind has none",
                false => " twice",
            };
            require(fits && how != " twice", &format!("{field}.want"), || {
                DescriptionFault::Wanted {
                    name: self.name.clone(),
                    want,
                    how,
                }
            })?;
        }
        let survives = self.want.contains(&Want::Survival);
        let is_other = self
            .event
            .as_ref()
            .is_none_or(|event| is_showable(event) && *event != self.name);
        require(
            survives == self.event.is_some() && is_other,
            &format!("{field}.event"),
            || DescriptionFault::Event {
                name: self.name.clone(),
            },
        )?;
        match &self.categories {
            Some(categories) => self.check_texts(field, categories),
            None => self.check_numbers(field),
        }
    }

    fn check_texts(&self, field: &str, categories: &[String]) -> Checking {
        let found = categories.len();
        let field = &format!("{field}.categories");
        require((1..=MOST_CATEGORIES).contains(&found), field, || {
            DescriptionFault::Categories {
                name: self.name.clone(),
                found,
            }
        })?;
        let of_numbers = self.low.is_some() || self.high.is_some() || self.whole;
        let has_bins = self.bins.is_some() || self.edges.is_some();
        require(!of_numbers && !has_bins, field, || DescriptionFault::OfNumbers {
            name: self.name.clone(),
        })?;
        let key = |text: &str| {
            let number = number_of(text).map(|number| (number + 0.0).to_bits());
            (
                number,
                if number.is_some() {
                    String::new()
                } else {
                    text.trim().to_owned()
                },
            )
        };
        let missing: BTreeSet<_> = self.missing.iter().map(|text| key(text)).collect();
        let mut known = BTreeSet::new();
        for category in categories {
            let key = key(category);
            let how = match (missing.contains(&key), known.insert(key)) {
                (true, _) => "that means missing, too",
                (false, false) => "twice",
                (false, true) if is_showable(category) => continue,
                (false, true) => "that cannot be shown",
            };
            let shown = category.chars().take(80).collect();
            return require(false, field, || DescriptionFault::Category {
                name: self.name.clone(),
                category: shown,
                how,
            });
        }
        Ok(())
    }

    fn check_numbers(&self, field: &str) -> Checking {
        let name = || self.name.clone();
        if let Some(edges) = &self.edges {
            let rises = edges.windows(2).all(|pair| pair[1] - pair[0] >= 1e-100);
            let ends = (self.low.is_none_or(|low| edges.first() == Some(&low)))
                && (self.high.is_none_or(|high| edges.last() == Some(&high)));
            let is_fine = rises && ends && self.bins.is_none() && edges.iter().all(|edge| is_sizeable(*edge));
            require(is_fine, &format!("{field}.edges"), || DescriptionFault::Edges {
                name: name(),
            })?;
        }
        let Some((low, high)) = self.bounds() else {
            let only_magnitude = self.want == [Want::Magnitude];
            return require(only_magnitude, &format!("{field}.low"), || {
                DescriptionFault::NoBounds { name: name() }
            });
        };
        let is_range = is_sizeable(low) && is_sizeable(high) && high - low >= 1e-100;
        require(is_range, &format!("{field}.low"), || DescriptionFault::Bounds {
            name: name(),
            low,
            high,
        })?;
        if self.whole {
            let whole = low.fract() == 0.0 && high.fract() == 0.0 && low.abs().max(high.abs()) < 9e15;
            let is_alone = self.bins.is_none() && self.edges.is_none();
            require(whole && is_alone, &format!("{field}.whole"), || {
                DescriptionFault::Whole {
                    name: name(),
                    low,
                    high,
                }
            })?;
        }
        for &want in &self.want {
            let found = self.bins_of(want);
            let is_fine = want.default_bins() == 0 || (2..=MOST_BINS).contains(&found);
            require(is_fine, &format!("{field}.bins"), || DescriptionFault::Bins {
                name: name(),
                found,
            })?;
            // Uniform edges of very narrow ranges could fall together.
            let rises =
                want.default_bins() == 0 || self.edges_of(want).windows(2).all(|pair| pair[0] < pair[1]);
            require(rises, &format!("{field}.edges"), || DescriptionFault::Edges {
                name: name(),
            })?;
        }
        Ok(())
    }
}
