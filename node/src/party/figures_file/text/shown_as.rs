//! The choice of figures for the table.

use undertone_protocol::describe::figures::estimate::ReadingAs;

/// The part of the figures that is shown.
#[derive(Clone, Debug)]
pub struct ShownAs {
    /// Confidence and quantiles.
    pub asked: ReadingAs,
    /// Whether intervals are of a population that rows are a sample of.
    pub population: bool,
    /// The most categories that are shown, where there are more than a screen has.
    pub top: usize,
}

impl Default for ShownAs {
    fn default() -> Self {
        ShownAs {
            asked: ReadingAs::default(),
            population: false,
            top: 20,
        }
    }
}
