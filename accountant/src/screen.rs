//! Fast paths for many losses at once. What they find worst is computed again by [`crate::loss`].
//!
//! *Single share faults.* Let s be the row of the state that i splits in round t, k its fan-out. If its share to j is returned in R, every
//! later row y becomes y + α s, with α what a unit of mass that i gains at the end of R contributes to y, less what one that j
//! gains at the end of t does, over k + 1; accepted late, j gains it in both. With g = (y · s) over the view's rows
//! and γ = s · s in the noise's metric, Σ′ = Σ + α gᵀ + g αᵀ + γ α αᵀ and H′ = H + α h_sᵀ. In the coordinates of Σ = L Lᵀ this is
//! a rank-two change of the identity, inverted by Woodbury's formula from dot products that are shared by all faults.

use ndarray::Array2;
use undertone_protocol::mixing::Party;

use crate::account::scaled;
use crate::execution::{Execution, Fate, ShareFault};
use crate::loss::{Noise, squared_losses};
use crate::view::{Trace, View};

/// A pivot, or a determinant of the rank-two change, that lost more digits than this is not trusted.
const DOUBT: f64 = 1e-9;

/// The fault-free run, prepared for every coalition and ratio.
pub(crate) struct Screen {
    parties: usize,
    rounds: usize,
    fanout: Vec<Vec<usize>>,
    receivers: Vec<Vec<Vec<Party>>>,
    /// Rows (i, t) at i·(T + 1) + t, final states at t = T; x̃ columns only.
    values: Array2<f64>,
    /// For each party p, dot products of all rows over its η.
    noises: Vec<Array2<f64>>,
    /// \[(party, round), row\]: what a unit of mass that `party` gains at the end of `round` (1…T) contributes to each row.
    gains: Array2<f64>,
    base: Execution,
}

impl Screen {
    /// From the trace of a fault-free execution that kept all states.
    pub(crate) fn of(trace: &Trace, base: &Execution) -> Self {
        let (parties, rounds) = (trace.parties(), trace.rounds());
        let row = |index: usize| {
            let (party, round) = (index / (rounds + 1), index % (rounds + 1));
            trace.state(party, round as u32).expect("the trace kept all states")
        };
        let rows = parties * (rounds + 1);
        let values = Array2::from_shape_fn((rows, parties), |(index, party)| row(index)[party]);
        let noises = (0..parties)
            .map(|party| {
                let noise = parties + party * rounds;
                let own = Array2::from_shape_fn((rows, rounds), |(index, k)| row(index)[noise + k]);
                own.dot(&own.t())
            })
            .collect();
        let each_round =
            |party: Party, of: &dyn Fn(&[Party]) -> usize| (1..=rounds as u32).map(|t| of(base.out(t, party))).collect();
        let fanout = (0..parties).map(|party| each_round(party, &|out| out.len())).collect();
        let receivers = (0..parties).map(|party| (1..=rounds as u32).map(|t| base.out(t, party).to_vec()).collect()).collect();
        let mut screen =
            Screen { parties, rounds, fanout, receivers, values, noises, gains: Array2::zeros((0, 0)), base: base.clone() };
        screen.gains = screen.propagate();
        screen
    }

    fn row(&self, party: Party, round: usize) -> usize {
        party * (self.rounds + 1) + round
    }

    fn gain(&self, party: Party, round: u32) -> usize {
        party * self.rounds + round as usize - 1
    }

    fn propagate(&self) -> Array2<f64> {
        let mut gains = Array2::zeros((self.parties * self.rounds, self.values.nrows()));
        for party in 0..self.parties {
            for round in 1..=self.rounds {
                let mut mass = vec![0.0; self.parties];
                mass[party] = 1.0;
                for later in round..=self.rounds {
                    for (holder, &part) in mass.iter().enumerate() {
                        gains[[self.gain(party, round as u32), self.row(holder, later)]] = part;
                    }
                    if later < self.rounds {
                        mass = self.spread(&mass, later);
                    }
                }
            }
        }
        gains
    }

    /// One round of splitting: `round` from 0.
    fn spread(&self, mass: &[f64], round: usize) -> Vec<f64> {
        let mut next = vec![0.0; self.parties];
        for (party, &part) in mass.iter().enumerate().filter(|(_, part)| **part != 0.0) {
            let share = part / (self.fanout[party][round] as f64 + 1.0);
            next[party] += share;
            for &to in &self.receivers[party][round] {
                next[to] += share;
            }
        }
        next
    }

    /// The worst of the fault-free run and all of `faults` against one coalition at r = `ratio`, σ* = 1: (Δ²-scaled loss, party, 0 or
    /// 1 + index of the fault). None if nobody is honest.
    pub(crate) fn worst(
        &self,
        coalition: &[Party],
        faults: &[ShareFault],
        sensitivity: &[f64],
        ratio: f64,
    ) -> Option<(f64, Party, usize)> {
        let system = System::of(self, coalition, ratio);
        let honest: Vec<Party> = (0..self.parties).filter(|party| !coalition.contains(party)).collect();
        let mut worst: Option<(f64, Party, usize)> = None;
        let mut consider = |index: usize, squares: &[f64]| {
            for (&party, &square) in honest.iter().zip(squares) {
                let square = scaled(sensitivity[party], square);
                if worst.is_none_or(|(most, ..)| square > most) {
                    worst = Some((square, party, index));
                }
            }
        };
        let mut squares = match &system {
            Some(system) => system.squares.clone(),
            None => self.with_care(coalition, None, ratio),
        };
        consider(0, &squares);
        for (index, fault) in faults.iter().enumerate() {
            if coalition.contains(&fault.from) || coalition.contains(&fault.to) {
                continue;
            }
            if !system.as_ref().is_some_and(|system| system.faulted(self, fault, &mut squares)) {
                squares = self.with_care(coalition, Some(fault), ratio);
            }
            consider(index + 1, &squares);
        }
        worst
    }

    fn with_care(&self, coalition: &[Party], fault: Option<&ShareFault>, ratio: f64) -> Vec<f64> {
        let execution =
            self.base.clone().with_shares(fault.into_iter().copied().collect()).expect("a fault of a share of the schedule");
        let execution = execution.with_corrupted(coalition.iter().copied()).expect("a coalition of parties");
        squared_losses(&View::of(&execution), Noise { independent_std: 1.0, correlated_std: ratio.sqrt() })
    }
}

/// The fault-free view of one coalition, in coordinates in which its covariance is the identity.
struct System {
    /// μ² at Δ = 1 of the honest parties.
    squares: Vec<f64>,
    /// L⁻¹ of what a gain adds to the view's rows, one row a gain; and its products with L⁻¹ H.
    gains: Array2<f64>,
    gains_h: Array2<f64>,
    /// L⁻¹ of the covariances of the view with each state, one row a state; and its products with L⁻¹ H.
    states: Array2<f64>,
    states_h: Array2<f64>,
    /// Variance of each state, and its honest x̃ columns.
    variances: Vec<f64>,
    values: Array2<f64>,
}

impl System {
    fn of(screen: &Screen, coalition: &[Party], ratio: f64) -> Option<Self> {
        let honest: Vec<Party> = (0..screen.parties).filter(|party| !coalition.contains(party)).collect();
        let mut seen = Vec::new();
        for &from in &honest {
            for round in 0..screen.rounds {
                if screen.receivers[from][round].iter().any(|to| coalition.contains(to)) {
                    seen.push(screen.row(from, round));
                }
            }
            seen.push(screen.row(from, screen.rounds));
        }
        let values =
            Array2::from_shape_fn((screen.values.nrows(), honest.len()), |(row, column)| screen.values[[row, honest[column]]]);
        let all = screen.values.nrows();
        let covariance = |a: usize, b: usize| {
            let noise: f64 = honest.iter().map(|&party| screen.noises[party][[a, b]]).sum();
            values.row(a).dot(&values.row(b)) + ratio * noise
        };
        let lower = Cholesky::of(Array2::from_shape_fn((seen.len(), seen.len()), |(a, b)| {
            if b <= a { covariance(seen[a], seen[b]) } else { 0.0 }
        }))?;
        let states = lower.solve_rows(Array2::from_shape_fn((all, seen.len()), |(state, row)| covariance(seen[row], state)));
        let gains = Array2::from_shape_fn((screen.gains.nrows(), seen.len()), |(gain, row)| screen.gains[[gain, seen[row]]]);
        let gains = lower.solve_rows(gains);
        let h = lower.solve_rows(Array2::from_shape_fn((honest.len(), seen.len()), |(column, row)| values[[seen[row], column]]));
        Some(System {
            squares: h.rows().into_iter().map(|row| row.dot(&row)).collect(),
            gains_h: gains.dot(&h.t()),
            states_h: states.dot(&h.t()),
            variances: (0..all).map(|state| covariance(state, state)).collect(),
            gains,
            states,
            values,
        })
    }

    /// The losses under one share fault; false if rounding leaves them in doubt.
    fn faulted(&self, screen: &Screen, fault: &ShareFault, squares: &mut [f64]) -> bool {
        let state = screen.row(fault.from, fault.round as usize - 1);
        let part = 1.0 / (screen.fanout[fault.from][fault.round as usize - 1] as f64 + 1.0);
        let applied = fault.applied.unwrap_or(fault.round);
        let taker = if fault.fate == Fate::Returned { fault.from } else { fault.to };
        let (more, less) = (screen.gain(taker, applied), screen.gain(fault.to, fault.round));
        let (gained, missed, view) = (self.gains.row(more), self.gains.row(less), self.states.row(state));
        let (mut aa, mut av, mut vv) = (0.0, 0.0, 0.0);
        for ((gained, missed), v) in gained.iter().zip(missed).zip(view) {
            let a = part * (gained - missed);
            aa += a * a;
            av += a * v;
            vv += v * v;
        }
        // Σ″ = I + U C Uᵀ, U = (a, v), C = (γ 1; 1 0): Woodbury with (C⁻¹ + UᵀU) = (aa, 1 + av; 1 + av, vv − γ).
        let (diagonal, corner) = (vv - self.variances[state], 1.0 + av);
        let determinant = aa * diagonal - corner * corner;
        if determinant.abs() <= DOUBT * (aa * (vv + self.variances[state]) + (1.0 + av.abs()).powi(2)) {
            return false;
        }
        for (party, square) in squares.iter_mut().enumerate() {
            let value = self.values[[state, party]];
            let ah = part * (self.gains_h[[more, party]] - self.gains_h[[less, party]]);
            let (ax, vx) = (ah + value * aa, self.states_h[[state, party]] + value * av);
            let xx = self.squares[party] + 2.0 * value * ah + value * value * aa;
            *square = xx - (diagonal * ax * ax - 2.0 * corner * ax * vx + aa * vx * vx) / determinant;
        }
        true
    }
}

/// L of a positive definite matrix.
struct Cholesky(Array2<f64>);

impl Cholesky {
    /// From the lower triangle; none if a pivot lost too many digits.
    fn of(mut matrix: Array2<f64>) -> Option<Self> {
        let size = matrix.nrows();
        for row in 0..size {
            for column in 0..=row {
                let known = {
                    let (a, b) = (matrix.row(row), matrix.row(column));
                    a.iter().zip(b).take(column).map(|(x, y)| x * y).sum::<f64>()
                };
                let rest = matrix[[row, column]] - known;
                if row == column {
                    if rest <= DOUBT * matrix[[row, row]] {
                        return None;
                    }
                    matrix[[row, row]] = rest.sqrt();
                } else {
                    matrix[[row, column]] = rest / matrix[[column, column]];
                }
            }
        }
        Some(Cholesky(matrix))
    }

    /// L⁻¹ applied to every row of `right`.
    fn solve_rows(&self, mut right: Array2<f64>) -> Array2<f64> {
        for mut row in right.rows_mut() {
            let row = row.as_slice_mut().expect("a fresh array is contiguous");
            for k in 0..row.len() {
                let lower = self.0.row(k);
                let known: f64 = lower.iter().zip(row.iter()).take(k).map(|(x, y)| x * y).sum();
                row[k] = (row[k] - known) / lower[k];
            }
        }
        right
    }
}

/// [`squared_losses`] at σ* = 1 and σ_Δ² = `ratio` by Cholesky's factorisation, and with care where that is in doubt.
pub(crate) fn squared_losses_by_gram(view: &View, ratio: f64) -> Vec<f64> {
    let covariance = view.b.dot(&view.b.t()) + view.a.dot(&view.a.t()) * ratio;
    match Cholesky::of(covariance) {
        Some(lower) => {
            let h = lower.solve_rows(view.b.t().as_standard_layout().into_owned());
            h.rows().into_iter().map(|row| row.dot(&row)).collect()
        }
        None => squared_losses(view, Noise { independent_std: 1.0, correlated_std: ratio.sqrt() }),
    }
}

#[cfg(test)]
mod tests;
