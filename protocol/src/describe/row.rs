//! The vector of a row: which coordinates its cells fill, and with what.

use std::f64::consts::SQRT_2;

use super::cells::{CellReader, ReadCell, RowCell};
use super::columns::{DescribedColumn, Description, Want};
use super::layout::{
    Block, BlockKind, LARGEST_POWER, MAGNITUDES, MEAN_A_SQUARED, MEAN_CENTRE, RowLayout, mean_norm_squared,
};
use super::root::Root;

/// Takes the parts of one row's vector.
pub trait RowSink {
    /// The row is in this slot: κ in its first coordinate.
    fn slot(&mut self, slot: usize);
    /// A block's fixed vector that begins at its place `start`, in this slot.
    fn fixed(&mut self, block: usize, slot: usize, start: usize);
    /// A block's coordinates from its place `start` on, in this slot.
    fn numbers(&mut self, block: usize, slot: usize, start: usize, values: &[f64]);
}

/// Counts of odd cells in one column, for the owner of the rows alone. It has no `Debug`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CellCounts {
    /// Cells that the table says are missing.
    pub missing: u64,
    /// Cells of a column of numbers that say something else than a finite number; they are missing,
    /// too.
    pub no_number: u64,
    /// Numbers outside of the bounds, which count as the nearest bound.
    pub clipped: u64,
    /// Texts that are no declared category.
    pub other: u64,
}

/// Makes vectors of rows, and counts what it finds.
#[derive(Clone)]
pub struct RowEncoder {
    layout: RowLayout,
    sources: Vec<SourceColumn>,
    group: Option<usize>,
    recipes: Vec<Recipe>,
    patterns: Vec<Pattern>,
    read: Vec<ReadCell>,
    scratch: Vec<f64>,
    counts: Vec<CellCounts>,
}

/// A column of the party's table.
#[derive(Clone)]
struct SourceColumn {
    reader: CellReader,
    bounds: Option<(f64, f64)>,
    categories: Option<usize>,
}

/// How a block's coordinates follow from the cells that were read.
#[derive(Clone)]
enum Recipe {
    Mean {
        column: usize,
        bounds: (f64, f64),
    },
    Counts {
        column: usize,
    },
    Bins {
        column: usize,
        edges: Vec<f64>,
    },
    Survival {
        column: usize,
        event: usize,
        edges: Vec<f64>,
    },
    Magnitude {
        column: usize,
    },
    Table {
        columns: Vec<(usize, usize)>,
    },
    Covariance {
        columns: Vec<(usize, (f64, f64))>,
    },
}

/// The fixed vectors of a block, by where they begin.
#[derive(Clone)]
struct Pattern {
    /// Coefficients of a root, scaled; of a place without one the first alone.
    run: Vec<f64>,
    /// Places at which a run ends, rising.
    ends: Vec<usize>,
    /// The last place's only coordinate, where it is not the run's.
    last: Option<f64>,
}

impl Pattern {
    fn of(block: &Block) -> Self {
        let (s, length) = (block.scale, block.length);
        let scaled =
            |length: usize| -> Vec<f64> { Root::of(length).coefficients().iter().map(|f| s * f).collect() };
        match block.kind {
            BlockKind::Of(Want::Quantiles) => Pattern {
                run: scaled(length),
                ends: vec![length],
                last: None,
            },
            BlockKind::Of(Want::Survival) => {
                let bins = length / 2;
                Pattern {
                    run: scaled(bins),
                    ends: vec![bins, 2 * bins, length],
                    last: Some(s * block.norm_squared.sqrt()),
                }
            }
            BlockKind::Of(Want::Mean) => Pattern {
                run: vec![s * mean_norm_squared().sqrt()],
                ends: vec![],
                last: None,
            },
            _ => Pattern {
                run: vec![s],
                ends: vec![],
                last: None,
            },
        }
    }

    fn from(&self, start: usize, length: usize) -> &[f64] {
        match (&self.last, self.ends.iter().find(|&&end| start < end)) {
            (Some(last), _) if start + 1 == length => std::slice::from_ref(last),
            (_, Some(end)) => &self.run[..end - start],
            (_, None) => &self.run[..1],
        }
    }
}

impl RowEncoder {
    /// The encoder of a complete and checked description.
    pub fn of(description: &Description) -> Self {
        let layout = RowLayout::of(description);
        let names = description.names();
        let at = |name: &str| names.iter().position(|known| *known == name).unwrap_or(0);
        let source = |name: &&str| match description.named(name) {
            Some(column) => SourceColumn {
                reader: CellReader::of(column),
                bounds: bounds_of(column),
                categories: column.categories.as_ref().map(Vec::len),
            },
            None => SourceColumn {
                reader: CellReader::of_numbers(),
                bounds: None,
                categories: None,
            },
        };
        let sources: Vec<SourceColumn> = names.iter().map(source).collect();
        RowEncoder {
            recipes: layout
                .blocks
                .iter()
                .map(|block| Recipe::of(block, description, &at))
                .collect(),
            patterns: layout.blocks.iter().map(Pattern::of).collect(),
            group: description.group_by.as_deref().map(at),
            read: vec![],
            scratch: vec![],
            counts: vec![CellCounts::default(); sources.len()],
            layout,
            sources,
        }
    }

    /// The layout of the vectors.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Returns the counts of odd cells in each column, in the order of [`Description::names`].
    pub fn counts(&self) -> &[CellCounts] {
        &self.counts
    }

    /// A block's fixed vector that begins at its place `start`.
    pub fn pattern(&self, block: usize, start: usize) -> &[f64] {
        self.patterns[block].from(start, self.layout.blocks[block].length)
    }

    /// Encodes a row, whose cells are in the order of [`Description::names`]; those that are not
    /// there are missing.
    pub fn encode(&mut self, cells: &[RowCell<'_>], sink: &mut impl RowSink) {
        self.read.clear();
        for (at, source) in self.sources.iter().enumerate() {
            let cell = cells.get(at).copied().unwrap_or(RowCell::Empty);
            let read = source.reader.read(cell);
            count(&mut self.counts[at], source, read);
            self.read.push(read);
        }
        let slot = match self.group.map(|group| self.read[group]) {
            Some(ReadCell::Category(slot)) => slot,
            _ => 0,
        };
        if self.layout.has_slots() {
            sink.slot(slot);
        }
        for (block, recipe) in self.recipes.iter().enumerate() {
            match recipe.apply((&self.read, cells), &mut self.scratch) {
                Filled::Nothing => {}
                Filled::At(start) => sink.fixed(block, slot, start),
                Filled::Numbers(start) => sink.numbers(block, slot, start, &self.scratch),
            }
        }
    }

    /// Returns a row's whole vector, without rounding.
    pub fn vector(&mut self, cells: &[RowCell<'_>]) -> Vec<f64> {
        let mut parts = Parts::default();
        self.encode(cells, &mut parts);
        let mut vector = vec![0.0; self.layout.coordinates];
        if let Some(slot) = parts.slot {
            vector[slot * self.layout.slot_length] = self.layout.kappa();
        }
        let mut put = |block: usize, slot: usize, start: usize, values: &[f64]| {
            let from = self.layout.place(&self.layout.blocks[block], slot).start + start;
            vector[from..from + values.len()].copy_from_slice(values);
        };
        for &(block, slot, start) in &parts.fixed {
            put(block, slot, start, self.pattern(block, start));
        }
        for (block, slot, start, values) in &parts.numbers {
            let s = self.layout.blocks[*block].scale;
            let scaled: Vec<f64> = values.iter().map(|value| s * value).collect();
            put(*block, *slot, *start, &scaled);
        }
        vector
    }
}

/// Bounds by which the owner is told that numbers are clipped: not of magnitudes, which have none.
fn bounds_of(column: &DescribedColumn) -> Option<(f64, f64)> {
    let is_clipped = column.want.is_empty() || column.want.iter().any(|want| *want != Want::Magnitude);
    column.bounds().filter(|_| is_clipped)
}

fn count(counts: &mut CellCounts, source: &SourceColumn, read: ReadCell) {
    match read {
        ReadCell::Number(number) => {
            let is_outside = source
                .bounds
                .is_some_and(|(low, high)| number < low || number > high);
            counts.clipped += u64::from(is_outside);
        }
        ReadCell::Missing { is_said: true } => counts.missing += 1,
        ReadCell::Missing { is_said: false } => counts.no_number += 1,
        ReadCell::Category(at) => {
            let declared = source.categories.unwrap_or(0);
            counts.other += u64::from(at == declared);
            counts.missing += u64::from(at > declared);
        }
    }
}

/// One row's parts, kept.
#[derive(Default)]
struct Parts {
    slot: Option<usize>,
    fixed: Vec<(usize, usize, usize)>,
    numbers: Vec<(usize, usize, usize, Vec<f64>)>,
}

impl RowSink for Parts {
    fn slot(&mut self, slot: usize) {
        self.slot = Some(slot);
    }

    fn fixed(&mut self, block: usize, slot: usize, start: usize) {
        self.fixed.push((block, slot, start));
    }

    fn numbers(&mut self, block: usize, slot: usize, start: usize, values: &[f64]) {
        self.numbers.push((block, slot, start, values.to_vec()));
    }
}

/// The part of a row that a block gets.
enum Filled {
    Nothing,
    /// The fixed vector that begins there.
    At(usize),
    /// The scratch numbers, from this place on.
    Numbers(usize),
}

fn number(read: ReadCell) -> Option<f64> {
    match read {
        ReadCell::Number(number) => Some(number),
        ReadCell::Category(_) | ReadCell::Missing { .. } => None,
    }
}

/// The bin of a number: bins are closed below, the last one also above; the nearest, outside.
pub fn bin_of(edges: &[f64], number: f64) -> usize {
    let below = edges.partition_point(|edge| *edge <= number);
    below.saturating_sub(1).min(edges.len().saturating_sub(2))
}

/// The place of a number among magnitudes.
pub fn magnitude_of(number: f64) -> usize {
    let power = |number: f64| {
        let power = libm::frexp(number).1 - 1;
        (power.clamp(-LARGEST_POWER, LARGEST_POWER) + LARGEST_POWER) as usize
    };
    let powers = 2 * LARGEST_POWER as usize + 1;
    match number {
        number if number < 0.0 => powers - 1 - power(-number),
        number if number > 0.0 => powers + 1 + power(number),
        _ => powers,
    }
}

/// A number between two bounds, brought to [−1, 1].
fn brought((low, high): (f64, f64), number: f64) -> f64 {
    ((number - low) / (high - low) * 2.0 - 1.0).clamp(-1.0, 1.0)
}

impl Recipe {
    /// The recipe of a block; `at` finds a column among the party's by its name.
    fn of(block: &Block, description: &Description, at: &impl Fn(&str) -> usize) -> Self {
        let described = |name: &str| description.named(name).cloned().unwrap_or_default();
        let name = block.subject.names().first().map_or("", String::as_str);
        let (column, of) = (at(name), described(name));
        let bounds = |name: &str| described(name).bounds().unwrap_or((0.0, 1.0));
        match block.kind {
            BlockKind::Of(Want::Mean) => Recipe::Mean {
                column,
                bounds: bounds(name),
            },
            BlockKind::Of(Want::Counts) => Recipe::Counts { column },
            BlockKind::Of(Want::Magnitude) => Recipe::Magnitude { column },
            BlockKind::Of(want @ (Want::Quantiles | Want::Histogram)) => Recipe::Bins {
                column,
                edges: of.edges_of(want),
            },
            BlockKind::Of(Want::Survival) => Recipe::Survival {
                column,
                event: at(of.event.as_deref().unwrap_or_default()),
                edges: of.edges_of(Want::Survival),
            },
            BlockKind::Table => {
                let names = block.subject.names().iter();
                let columns = names.map(|name| (at(name), described(name).labels().len()));
                Recipe::Table {
                    columns: columns.collect(),
                }
            }
            BlockKind::Covariance => {
                let names = block.subject.names().iter();
                Recipe::Covariance {
                    columns: names.map(|name| (at(name), bounds(name))).collect(),
                }
            }
        }
    }

    fn apply(&self, (read, cells): (&[ReadCell], &[RowCell<'_>]), scratch: &mut Vec<f64>) -> Filled {
        match self {
            Recipe::Mean { column, bounds } => match number(read[*column]) {
                None => Filled::At(0),
                Some(number) => {
                    let u = brought(*bounds, number);
                    scratch.clear();
                    scratch.extend([u, MEAN_A_SQUARED.sqrt() * (u * u - MEAN_CENTRE)]);
                    Filled::Numbers(1)
                }
            },
            Recipe::Counts { column } => Filled::At(category(read[*column])),
            Recipe::Bins { column, edges } => Filled::At(match number(read[*column]) {
                None => edges.len() - 1,
                Some(number) => bin_of(edges, number),
            }),
            Recipe::Survival { column, event, edges } => {
                let happened =
                    CellReader::of_numbers().read(cells.get(*event).copied().unwrap_or(RowCell::Empty));
                Filled::At(exit_of(edges, number(read[*column]), number(happened)))
            }
            Recipe::Magnitude { column } => {
                Filled::At(number(read[*column]).map_or(MAGNITUDES - 1, magnitude_of))
            }
            Recipe::Table { columns } => Filled::At(columns.iter().fold(0, |place, &(column, extent)| {
                place * extent + category(read[column])
            })),
            Recipe::Covariance { columns } => {
                scratch.clear();
                let d = columns.len();
                scratch.push((d + 1) as f64);
                for &(column, bounds) in columns {
                    let Some(number) = number(read[column]) else {
                        return Filled::Nothing;
                    };
                    scratch.push(SQRT_2 * brought(bounds, number));
                }
                for i in 0..d {
                    for j in i..d {
                        // Each has a √2 of its own already.
                        let times = if i == j { 0.5 } else { 0.5 * SQRT_2 };
                        scratch.push(scratch[1 + i] * scratch[1 + j] * times);
                    }
                }
                Filled::Numbers(0)
            }
        }
    }
}

fn category(read: ReadCell) -> usize {
    match read {
        ReadCell::Category(at) => at,
        ReadCell::Number(_) | ReadCell::Missing { .. } => 0,
    }
}

/// The place of a row's exit: its bin among those with an event, or among the censored ones, or the
/// last place, where its time or its event is missing.
fn exit_of(edges: &[f64], time: Option<f64>, event: Option<f64>) -> usize {
    let bins = edges.len() - 1;
    let (Some(time), Some(event)) = (time, event) else {
        return 2 * bins;
    };
    let is_known = event == 0.0 || event == 1.0;
    if !is_known || time < edges[0] {
        return 2 * bins;
    }
    // Nobody has watched beyond the last edge: without an event until then.
    match event == 1.0 && time <= edges[bins] {
        true => bin_of(edges, time),
        false => bins + bin_of(edges, time),
    }
}
