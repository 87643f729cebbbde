//! The seed, the number of runs and the data that figures are computed from.

/// A sentence about the work, and how much of all is done, where that is counted.
pub type Watch<'a> = &'a (dyn Fn(&str, Option<(u64, u64)>) + Sync);

/// The seed, the number of runs and the data that figures are computed from.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Runs for each point; `None` for as many as take seconds.
    pub runs: Option<u64>,
    /// Seeds them.
    pub seed: u64,
    /// MNIST's test digits.
    pub digits: Option<&'a Digits>,
    /// The edges of Facebook's social circles.
    pub facebook: Option<&'a str>,
    /// Hears how far the work is.
    pub watch: Watch<'a>,
}

impl Given<'_> {
    pub(super) fn show(&self, line: &str) {
        (self.watch)(line, None);
    }
}

/// Pictures of digits, one number from 0 to 1 a pixel, and which digit each is.
#[derive(Debug, Clone)]
pub struct Digits {
    /// Numbers of each picture.
    pub pixels: usize,
    /// Each picture's numbers.
    pub pictures: Vec<Vec<f64>>,
    /// Each picture's digit; as many.
    pub digits: Vec<u8>,
}
