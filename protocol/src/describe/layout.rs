//! Which coordinates of a row's vector belong to which statistic, their scales, and Δ: all of it
//! derived from a description.

use serde::{Deserialize, Serialize};

use super::columns::{Description, RowCount, Want};
use super::root::Root;

/// a²: the second moment's factor in a block of a mean, for which t²(1 + a²(2 − t)²) ≤ 4 is tight:
/// two rows that lie t apart differ by no more than two whose numbers are the bounds.
pub const MEAN_A_SQUARED: f64 = 2.772542485937369; // (11 + 5√5)/8
/// c: the centre of the second moment, (1 + a²)/2a², with which the longest row is shortest.
pub const MEAN_CENTRE: f64 = 0.6803398874989485;
/// The number of places of a magnitude: 41 negative powers of two, 0, 41 positive ones, missing.
pub const MAGNITUDES: usize = 84;
/// The largest power of two that a magnitude tells from the next one, and with a minus the least.
pub const LARGEST_POWER: i32 = 20;

/// r² of a mean: a²c².
pub fn mean_norm_squared() -> f64 {
    MEAN_A_SQUARED * MEAN_CENTRE * MEAN_CENTRE
}

/// The columns that a block is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Subject {
    /// One column.
    Column(String),
    /// Several together.
    Columns(Vec<String>),
}

impl Subject {
    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        match self {
            Subject::Column(name) => std::slice::from_ref(name),
            Subject::Columns(names) => names,
        }
    }
}

/// The kind of a block, with its sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// A statistic of one column.
    Of(Want),
    /// Counts of combinations of categories.
    Table,
    /// Covariances.
    Covariance,
}

impl BlockKind {
    /// The name of the statistic, as layouts and figures write it.
    pub const fn name(&self) -> &'static str {
        match self {
            BlockKind::Of(want) => want.name(),
            BlockKind::Table => "table",
            BlockKind::Covariance => "covariance",
        }
    }
}

/// One statistic's part of a row's vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The columns that it is about.
    pub subject: Subject,
    /// The statistic.
    pub kind: BlockKind,
    /// The first coordinate, within each slot where the block is grouped.
    pub at: usize,
    /// How many coordinates it has, in one slot.
    pub length: usize,
    /// Whether each slot has one.
    pub grouped: bool,
    /// How much of the budget it gets.
    pub share: f64,
    /// D²: the most that two rows differ by, squared, before scaling.
    pub diameter_squared: f64,
    /// r²: the square of the longest row, before scaling.
    pub norm_squared: f64,
    /// s: the factor of all coordinates.
    pub scale: f64,
}

/// The layout of a row's vector.
#[derive(Clone, Debug, PartialEq)]
pub struct RowLayout {
    /// The blocks, in the order of their coordinates: grouped ones first.
    pub blocks: Vec<Block>,
    /// The number of slots, 1 without groups.
    pub slots: usize,
    /// Coordinates of a slot; 0 where there are no slots.
    pub slot_length: usize,
    /// κ²: the square of a slot's first coordinate; 0 where there are no slots.
    pub kappa_squared: f64,
    /// P: the number of coordinates.
    pub coordinates: usize,
    /// Δ where a row may become another one, before rounding.
    pub replace_one: f64,
    /// Δ where a row may become none, before rounding.
    pub zero_out: f64,
}

/// A factor of Δ that covers rounding to the lattice and in f64: each of two rows moves by at most
/// 2⁻¹⁵·Δ, see [`RowLayout::coarsest_cell`].
const ROUNDED: f64 = 1.0 + 1.0 / (1u64 << 14) as f64;

impl RowLayout {
    /// The layout of a complete description. Sizes that no plan may have saturate.
    pub fn of(description: &Description) -> Self {
        let slots = description.groups().map(|groups| groups.len());
        let has_slots = slots.is_some() || description.count == RowCount::Private;
        let mut blocks = Sizes::of(description).of_all(description);
        let mut at = usize::from(has_slots);
        for block in blocks.iter_mut().filter(|block| block.is_of_a_column()) {
            (block.at, block.grouped) = (at, has_slots);
            at = at.saturating_add(block.length);
        }
        let (slots, slot_length) = (slots.unwrap_or(1), if has_slots { at } else { 0 });
        let mut coordinates = if has_slots { at.saturating_mul(slots) } else { at };
        for block in blocks.iter_mut().filter(|block| !block.is_of_a_column()) {
            block.at = coordinates;
            coordinates = coordinates.saturating_add(block.length);
        }
        let mut layout = RowLayout {
            blocks,
            slots,
            slot_length,
            kappa_squared: 0.0,
            coordinates,
            replace_one: 0.0,
            zero_out: 0.0,
        };
        layout.derive(description);
        layout
    }

    /// κ and Δ: a row of another slot differs in both slots, one that nobody counts in all that it
    /// has.
    fn derive(&mut self, description: &Description) {
        let sum = |grouped: Option<bool>, of: fn(&Block) -> f64| -> f64 {
            let blocks = self
                .blocks
                .iter()
                .filter(|block| grouped.is_none_or(|grouped| block.grouped == grouped));
            blocks.map(of).sum()
        };
        let norm: fn(&Block) -> f64 = |block| block.scale * block.scale * block.norm_squared;
        let share: fn(&Block) -> f64 = |block| block.share;
        let (in_slots, all) = (sum(Some(true), norm), sum(None, norm));
        let (m_g, m_u, m) = (sum(Some(true), share), sum(Some(false), share), sum(None, share));
        let is_grouped = description.group_by.is_some();
        let is_private = description.count == RowCount::Private;
        let least = match (m_g > 0.0, m_u > 0.0) {
            (true, _) => m_g,
            (false, true) => m_u,
            (false, false) => 1.0,
        } / 2.0;
        let kappa_squared = match (is_grouped, is_private) {
            (true, _) => (2.0 * m_g - in_slots).max(least),
            (false, true) => (4.0 * m_g - in_slots).max(least),
            (false, false) => 0.0,
        };
        let mut squared = 4.0 * m;
        if is_grouped {
            squared = squared.max(2.0 * kappa_squared + 2.0 * in_slots + 4.0 * m_u);
        }
        if is_private {
            squared = squared.max(kappa_squared + all);
        }
        self.kappa_squared = kappa_squared;
        self.replace_one = squared.sqrt();
        self.zero_out = (kappa_squared + all).sqrt();
    }

    /// κ: a slot's first coordinate for each of its rows.
    pub fn kappa(&self) -> f64 {
        self.kappa_squared.sqrt()
    }

    /// Whether there are slots, each of which counts its rows.
    pub fn has_slots(&self) -> bool {
        self.slot_length > 0
    }

    /// Δ where a row may become another one, never below the real number, on lattices whose cells
    /// are at most [`RowLayout::coarsest_cell`].
    pub fn sensitivity_replace_one(&self) -> f64 {
        self.replace_one * ROUNDED
    }

    /// Δ where a row may become none: no row's vector is longer, rounded or not.
    pub fn sensitivity_zero_out(&self) -> f64 {
        self.zero_out * ROUNDED
    }

    /// The coarsest cell that rows may be rounded to, by either Δ. Rounding towards zero moves a
    /// row of P coordinates by less than √P cells, two rows by twice that: together less than
    /// 2⁻¹⁴·Δ, of which a 2²⁰th is left for the roundings of f64, some 2⁻⁴⁰·Δ.
    pub fn coarsest_cell(&self) -> f64 {
        let least = self.replace_one.min(self.zero_out);
        let room = 1.0 - 1.0 / (1u64 << 20) as f64;
        least * room / (1u64 << 15) as f64 / (self.coordinates.max(1) as f64).sqrt()
    }

    /// The largest absolute coordinate of any row's vector.
    pub fn largest_coordinate(&self) -> f64 {
        let of = |block: &Block| block.scale * block.norm_squared.sqrt();
        self.blocks.iter().map(of).fold(self.kappa(), f64::max)
    }

    /// Coordinates of a block in a slot: from the first, as many as it has.
    pub fn place(&self, block: &Block, slot: usize) -> std::ops::Range<usize> {
        let from = block.at + if block.grouped { slot * self.slot_length } else { 0 };
        from..from + block.length
    }
}

impl Block {
    fn is_of_a_column(&self) -> bool {
        matches!(self.kind, BlockKind::Of(_))
    }
}

/// Sizes of blocks, with those of roots by their lengths.
struct Sizes {
    diameters: Vec<f64>,
}

impl Sizes {
    fn of(description: &Description) -> Self {
        let bins = description.column.iter().flat_map(|column| {
            let wants = column.want.iter();
            wants.map(|want| column.bins_of(*want))
        });
        let longest = bins.max().unwrap_or(0).saturating_add(1).min(MOST_ROOT);
        Sizes {
            diameters: Root::of(longest).diameters_squared(),
        }
    }

    fn of_all(&self, description: &Description) -> Vec<Block> {
        let mut blocks = vec![];
        for column in &description.column {
            for &want in &column.want {
                let sizes = match want {
                    Want::Mean => (3, 4.0, mean_norm_squared()),
                    Want::Counts => (column.labels().len(), 2.0, 1.0),
                    Want::Histogram => (column.bins_of(want).saturating_add(1), 2.0, 1.0),
                    Want::Magnitude => (MAGNITUDES, 2.0, 1.0),
                    Want::Quantiles => {
                        let length = column.bins_of(want).saturating_add(1);
                        let (diameter_squared, norm_squared) = self.root(length);
                        (length, diameter_squared, norm_squared)
                    }
                    Want::Survival => {
                        let bins = column.bins_of(want);
                        let (_, norm_squared) = self.root(bins);
                        (
                            bins.saturating_mul(2).saturating_add(1),
                            2.0 * norm_squared,
                            norm_squared,
                        )
                    }
                };
                let subject = Subject::Column(column.name.clone());
                blocks.push(block(subject, BlockKind::Of(want), sizes, column.share));
            }
        }
        for table in &description.table {
            let extents = table.columns.iter().map(|name| labels(description, name));
            let length = extents.fold(1usize, usize::saturating_mul);
            let subject = Subject::Columns(table.columns.clone());
            blocks.push(block(subject, BlockKind::Table, (length, 2.0, 1.0), table.share));
        }
        for covariance in &description.covariance {
            let d = covariance.columns.len();
            let length = (d + 1).saturating_mul(d + 2) / 2;
            let norm = 2.0 * ((d + 1) as f64).powi(2);
            // Corners at right angles are there for an odd number of columns only.
            let diameter = if d % 2 == 0 { norm - 1.0 } else { norm };
            let subject = Subject::Columns(covariance.columns.clone());
            let sizes = (length, diameter, norm - 1.0);
            blocks.push(block(subject, BlockKind::Covariance, sizes, covariance.share));
        }
        blocks
    }

    /// D² and r² of a root of this length.
    fn root(&self, length: usize) -> (f64, f64) {
        let length = length.min(MOST_ROOT);
        (self.diameters[length], Root::of(length).norm_squared())
    }
}

/// Bins beyond which no diameter is computed: a checked description has none.
const MOST_ROOT: usize = 4097;

fn labels(description: &Description, name: &str) -> usize {
    description.named(name).map_or(2, |column| column.labels().len())
}

fn block(
    subject: Subject,
    kind: BlockKind,
    (length, diameter_squared, norm_squared): (usize, f64, f64),
    share: f64,
) -> Block {
    Block {
        subject,
        kind,
        at: 0,
        length,
        grouped: false,
        share,
        diameter_squared,
        norm_squared,
        scale: 2.0 * (share / diameter_squared).sqrt(),
    }
}

/// A layout as a plan writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenLayout {
    /// P: the number of coordinates.
    pub coordinates: usize,
    /// The number of slots.
    pub slots: usize,
    /// κ; 0 where there are no slots.
    pub kappa: f64,
    /// Δ where a row may become another one.
    pub replace_one: f64,
    /// Δ where a row may become none.
    pub zero_out: f64,
    /// The blocks, in order.
    pub blocks: Vec<WrittenBlock>,
}

/// A block as a plan writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenBlock {
    /// The columns that it is about.
    pub column: Subject,
    /// The statistic.
    pub want: String,
    /// The first coordinate, within each slot where there are slots.
    pub at: usize,
    /// How many coordinates it has.
    pub length: usize,
    /// The factor of all coordinates.
    pub scale: f64,
}

impl From<&RowLayout> for WrittenLayout {
    fn from(layout: &RowLayout) -> Self {
        let block = |block: &Block| WrittenBlock {
            column: block.subject.clone(),
            want: block.kind.name().to_owned(),
            at: block.at,
            length: block.length,
            scale: block.scale,
        };
        WrittenLayout {
            coordinates: layout.coordinates,
            slots: layout.slots,
            kappa: layout.kappa(),
            replace_one: layout.replace_one,
            zero_out: layout.zero_out,
            blocks: layout.blocks.iter().map(block).collect(),
        }
    }
}

impl WrittenLayout {
    /// Whether this is what was derived, numbers within 1e-12 of each other relatively.
    pub fn agrees(&self, derived: &RowLayout) -> bool {
        let derived = WrittenLayout::from(derived);
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs();
        let same = |(a, b): (&WrittenBlock, &WrittenBlock)| {
            (&a.column, &a.want, a.at, a.length) == (&b.column, &b.want, b.at, b.length)
                && near(a.scale, b.scale)
        };
        (self.coordinates, self.slots, self.blocks.len())
            == (derived.coordinates, derived.slots, derived.blocks.len())
            && near(self.kappa, derived.kappa)
            && near(self.replace_one, derived.replace_one)
            && near(self.zero_out, derived.zero_out)
            && self.blocks.iter().zip(&derived.blocks).all(same)
    }
}
