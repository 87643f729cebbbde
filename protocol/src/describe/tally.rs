//! The sum of many rows on a lattice, each rounded towards zero by itself.
//!
//! Most of a row's vector is one of a few fixed vectors, such as a bin's: how often each occurs is
//! counted, and the rounded vector taken as often. That is the same sum, to the bit, as adding row
//! by row, at a cost that does not depend on the number of bins.

use super::cells::RowCell;
use super::row::{CellCounts, RowEncoder, RowSink};

/// A sum of rows, in cells of the lattice. It is private: there is no `Debug` that prints it.
pub struct RowTally {
    encoder: RowEncoder,
    counted: Counted,
    rows: u64,
}

/// The numbers that a tally adds up.
struct Counted {
    /// A power of two: cells in a unit.
    per_unit: f64,
    /// How many rows are in each slot.
    slots: Vec<u64>,
    /// How many fixed vectors begin at each coordinate.
    fixed: Vec<u64>,
    /// Rounded numbers, by coordinate.
    sums: Vec<i128>,
    /// The first coordinate of each block, and how far apart its slots are.
    places: Vec<(usize, usize)>,
    scales: Vec<f64>,
}

impl RowSink for Counted {
    fn slot(&mut self, slot: usize) {
        self.slots[slot] += 1;
    }

    fn fixed(&mut self, block: usize, slot: usize, start: usize) {
        let (at, apart) = self.places[block];
        self.fixed[at + slot * apart + start] += 1;
    }

    fn numbers(&mut self, block: usize, slot: usize, start: usize, values: &[f64]) {
        let ((at, apart), s) = (self.places[block], self.scales[block]);
        let from = at + slot * apart + start;
        for (sum, value) in self.sums[from..].iter_mut().zip(values) {
            *sum += rounded(s * value, self.per_unit);
        }
    }
}

/// A number in whole cells, rounded towards zero. Multiplying by a power of two is exact.
fn rounded(value: f64, per_unit: f64) -> i128 {
    (value * per_unit) as i128
}

impl RowTally {
    /// No rows yet. `cell` is a power of two.
    pub fn new(encoder: RowEncoder, cell: f64) -> Self {
        let layout = encoder.layout();
        let apart = |grouped| if grouped { layout.slot_length } else { 0 };
        let counted = Counted {
            per_unit: 1.0 / cell,
            slots: vec![0; layout.slots],
            fixed: vec![0; layout.coordinates],
            sums: vec![0; layout.coordinates],
            places: layout
                .blocks
                .iter()
                .map(|block| (block.at, apart(block.grouped)))
                .collect(),
            scales: layout.blocks.iter().map(|block| block.scale).collect(),
        };
        RowTally {
            encoder,
            counted,
            rows: 0,
        }
    }

    /// Adds a row.
    pub fn add(&mut self, cells: &[RowCell<'_>]) {
        self.rows += 1;
        self.encoder.encode(cells, &mut self.counted);
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the counts of odd cells in each column, for the owner of the rows.
    pub fn counts(&self) -> &[CellCounts] {
        self.encoder.counts()
    }

    /// Returns the sum, in cells by coordinate.
    pub fn finish(self) -> Vec<i128> {
        let (encoder, counted) = (self.encoder, self.counted);
        let (layout, per_unit) = (encoder.layout(), counted.per_unit);
        let mut sums = counted.sums;
        if layout.has_slots() {
            let kappa = rounded(layout.kappa(), per_unit);
            for (slot, &rows) in counted.slots.iter().enumerate() {
                sums[slot * layout.slot_length] += kappa * i128::from(rows);
            }
        }
        for (at, block) in layout.blocks.iter().enumerate() {
            let slots = if block.grouped { layout.slots } else { 1 };
            for from in (0..slots).map(|slot| layout.place(block, slot).start) {
                for start in 0..block.length {
                    let rows = i128::from(counted.fixed[from + start]);
                    if rows > 0 {
                        let pattern = encoder.pattern(at, start).iter();
                        let places = sums[from + start..].iter_mut().zip(pattern);
                        places.for_each(|(sum, value)| *sum += rounded(*value, per_unit) * rows);
                    }
                }
            }
        }
        sums
    }
}
