//! Step schedules: the steps of a run of averaging, and what it guarantees.

use crate::averaging::spectrum::Spectrum;
use crate::averaging::{chebyshev, finite_time, plain};

/// Rounds of any schedule, at most. Our choice: where more are needed a flood is faster.
pub const MOST_ROUNDS: usize = 1024;

/// The method by which the steps were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The paper's edge weight in every round.
    Plain,
    /// The roots of Chebyshev's polynomial on the range of the graph's eigenvalues.
    Chebyshev,
    /// The eigenvalues of the graph's Laplacian themselves.
    FiniteTime,
}

impl Method {
    /// Its name in quotes and receipts.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Plain => "plain",
            Method::Chebyshev => "chebyshev",
            Method::FiniteTime => "finite-time",
        }
    }
}

/// The conditions and the tolerance of a schedule of steps. One unit for all three.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// √Σ xᵢ² over the parties of what they begin with, the largest of all coordinates.
    pub norm: f64,
    /// The largest error that a node adds to each coordinate in each round; 0 for real numbers.
    pub rounding: f64,
    /// The largest distance from the exact mean at which a node may end.
    pub tolerance: f64,
}

/// A schedule of steps that meets its goal.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSchedule {
    /// The method by which the steps were chosen.
    pub method: Method,
    /// c_r of x ← x − c_r·L·x, r = 1…K.
    pub steps: Vec<f64>,
    /// Every node ends within this of the exact mean, in each coordinate.
    pub error: f64,
}

impl StepSchedule {
    /// The schedule with fewest rounds that meets the goal; of equal ones finite-time, then
    /// Chebyshev. `None` if none does within
    /// [`MOST_ROUNDS`]: the tolerance is below what rounding leaves, or the graph is too long.
    pub fn fit(spectrum: &Spectrum, goal: Goal) -> Option<Self> {
        let schedules = [Self::finite_time(spectrum, goal), Self::chebyshev(spectrum, goal)];
        let best = schedules
            .into_iter()
            .flatten()
            .min_by_key(|schedule| schedule.steps.len());
        // It never needs fewer than Chebyshev's; only where that has no schedule it is looked at.
        best.or_else(|| Self::plain(spectrum, goal))
    }

    /// The shortest schedule by plain averaging, the paper's edge weight in every round.
    pub fn plain(spectrum: &Spectrum, goal: Goal) -> Option<Self> {
        let rounds = plain::rounds(spectrum, goal.tolerance / goal.norm, MOST_ROUNDS)?;
        let candidates = (rounds..=MOST_ROUNDS).take(64);
        Self::first(
            spectrum,
            goal,
            Method::Plain,
            candidates.map(|rounds| vec![plain::weight(spectrum); rounds]),
        )
    }

    /// The shortest schedule by Chebyshev's polynomial.
    pub fn chebyshev(spectrum: &Spectrum, goal: Goal) -> Option<Self> {
        // On the few eigenvalues that there are it is never worse than on the whole interval, so a
        // few rounds less may do.
        let enough = (1..=MOST_ROUNDS)
            .find(|&rounds| chebyshev::factor(spectrum, rounds) * goal.norm <= goal.tolerance)?;
        let candidates = (enough.saturating_sub(3).max(1)..=MOST_ROUNDS).take(64);
        let steps = |rounds| {
            finite_time::order(chebyshev::roots(spectrum, rounds))
                .iter()
                .map(|root| 1.0 / root)
                .collect()
        };
        Self::first(spectrum, goal, Method::Chebyshev, candidates.map(steps))
    }

    /// Returns the shortest schedule, whose steps are the reciprocals of the distinct eigenvalues;
    /// `None` if it is not accurate enough.
    pub fn finite_time(spectrum: &Spectrum, goal: Goal) -> Option<Self> {
        let steps: Vec<f64> = finite_time::roots(spectrum)
            .iter()
            .map(|root| 1.0 / root)
            .collect();
        if steps.len() > MOST_ROUNDS {
            return None;
        }
        let bounds = Bounds::of(spectrum);
        let mut left = bounds.ones();
        let promising = steps.iter().enumerate().filter(|(_, step)| {
            bounds.multiply(&mut left, **step);
            largest(&left) * goal.norm <= goal.tolerance
        });
        let candidates: Vec<Vec<f64>> = promising.map(|(index, _)| steps[..=index].to_vec()).collect();
        Self::first(spectrum, goal, Method::FiniteTime, candidates.into_iter())
    }

    fn first(
        spectrum: &Spectrum,
        goal: Goal,
        method: Method,
        mut candidates: impl Iterator<Item = Vec<f64>>,
    ) -> Option<Self> {
        candidates.find_map(|steps| {
            let error = Bounds::of(spectrum).error(&steps, goal);
            (error <= goal.tolerance).then_some(StepSchedule { method, steps, error })
        })
    }

    /// Returns the largest change of a coordinate of any node in each round r = 1…K.
    pub fn changes(&self, spectrum: &Spectrum, goal: Goal) -> Vec<f64> {
        let bounds = Bounds::of(spectrum);
        let error = goal.rounding * (spectrum.parties() as f64).sqrt();
        // What came in at the start, and as rounding in each round so far, times what is left of
        // it.
        let mut parts: Vec<(f64, Vec<f64>)> = vec![(goal.norm, bounds.ones())];
        let mut changes = Vec::with_capacity(self.steps.len());
        for &step in &self.steps {
            let moved = parts
                .iter()
                .map(|(size, left)| size * bounds.moved(left, step))
                .sum::<f64>();
            changes.push(moved * SLACK + goal.rounding);
            parts.iter_mut().for_each(|(_, left)| bounds.multiply(left, step));
            parts.push((error, bounds.ones()));
        }
        changes
    }
}

/// The bounds are sums and products of a few thousand f64.
const SLACK: f64 = 1.0 + 1e-9;

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Polynomials' values on the spectrum, as upper bounds that hold wherever within its margin the
/// true eigenvalues are.
struct Bounds {
    values: Vec<f64>,
    margin: f64,
    parties: f64,
}

impl Bounds {
    fn of(spectrum: &Spectrum) -> Self {
        // Equal eigenvalues have equal bounds.
        let mut values = spectrum.values().to_vec();
        values.dedup();
        Bounds {
            values,
            margin: spectrum.margin(),
            parties: spectrum.parties() as f64,
        }
    }

    fn ones(&self) -> Vec<f64> {
        vec![1.0; self.values.len()]
    }

    /// |1 − cλ|, at most. (2^-50: the rounding of this very computation, and of c.)
    fn multiply(&self, left: &mut [f64], step: f64) {
        for (left, value) in left.iter_mut().zip(&self.values) {
            *left *= (1.0 - step * value).abs() + step * self.margin + 2f64.powi(-50) * (1.0 + step * value);
        }
    }

    /// |cλ| of what is left, at most.
    fn moved(&self, left: &[f64], step: f64) -> f64 {
        left.iter()
            .zip(&self.values)
            .map(|(left, value)| left * step * (value + self.margin))
            .fold(0.0, f64::max)
    }

    /// Returns the largest distance from the exact mean at which a node ends. Differences shrink by
    /// the largest |p(λ)| in the 2-norm over parties, which is not below any one party's. A
    /// rounding error of a round goes through the rounds that follow; its mean over parties stays,
    /// at most `rounding` a round.
    fn error(&self, steps: &[f64], goal: Goal) -> f64 {
        let mut rest = self.ones();
        let mut through = 0.0;
        for &step in steps.iter().rev() {
            through += largest(&rest);
            self.multiply(&mut rest, step);
        }
        let rounded = goal.rounding * (self.parties.sqrt() * through + steps.len() as f64);
        (largest(&rest) * goal.norm + rounded) * SLACK
    }
}
