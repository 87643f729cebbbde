//! All rows of one execution, kept so that the systems of many coalitions are cheap: what a
//! coalition sees is a choice among them.
//!
//! The covariance of rows over honest unknowns is their Gram matrix over everybody's, computed
//! once, less what the coalition injected: |C|(T + 1) columns. One final that is seen is replaced
//! by the sum of all: the coalition's own are functions of what it sees and knows, so that this is
//! an invertible change of rows. In the sum the noise has cancelled; left to a factorisation, it
//! would cancel there.

use std::sync::atomic::{AtomicU64, Ordering};

use ndarray::{Array2, ArrayView1, Axis};
use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;
use crate::execution::share::Fate;
use crate::execution::trace::Trace;

/// A pivot, or a determinant of a rank-two change, that lost more digits than this is not trusted:
/// the system is computed with care.
pub(crate) const DOUBT: f64 = 1e-7;

/// How far a loss of a fast path may lie below the careful one, relatively. What [`DOUBT`] lets
/// through loses at most nine of sixteen digits; the largest difference in our property tests is
/// 1e-10.
pub(crate) const SCREENED: f64 = 1e-7;

/// Multiplications that a pass spends on systems in doubt at most: our choice, about ten seconds.
const MOST_CAREFUL: u64 = 30_000_000_000;

/// All rows of an execution of n parties and T rounds: the state of party i at time t at
/// i·(T + 1) + t, final states at t = T, and the sum of the finals at n·(T + 1). With PPSC it is
/// the share ω that i hands out in round t + 1, nothing where there is none.
pub(crate) struct Rows {
    parties: usize,
    rounds: usize,
    /// What each row has of each party's value (with the party's own noise, x̃).
    pub(crate) values: Array2<f64>,
    /// What each row has of all unknowns: for each party its value, then its noises η.
    unknowns: Array2<f64>,
    /// Where each party's columns begin in `unknowns`, and where the last one's end.
    columns: Vec<usize>,
    /// Who may read the state of each row; nobody the final ones.
    readers: Vec<Vec<Party>>,
    published: Vec<bool>,
    /// Whose finals are in the sum.
    summed: Vec<bool>,
}

impl Rows {
    /// Takes the rows from the trace of `execution`, which kept all states.
    pub(crate) fn of(trace: &Trace, execution: &Execution) -> Self {
        let (parties, rounds) = (trace.parties(), trace.rounds());
        let count = parties * (rounds + 1);
        let mut values = Array2::zeros((count + 1, parties));
        let mut unknowns = Array2::zeros((count + 1, trace.unknowns()));
        let nothing = vec![0.0; trace.unknowns()];
        let mut columns = vec![0];
        (0..parties).for_each(|party| columns.push(columns[party] + 1 + trace.noises(party).len()));
        let summed: Vec<bool> = (0..parties)
            .map(|party| execution.online(rounds as u32, party) && !execution.rolled_back().contains(&party))
            .collect();
        // Row by row, and each final once more into the sum.
        for index in 0..count {
            let (party, round) = (index / (rounds + 1), index % (rounds + 1));
            let row = if round == rounds {
                trace.final_state(party)
            } else {
                // The trace kept all: a party without a hand-out hands out nothing.
                trace.state(party, round as u32).unwrap_or(&nothing)
            };
            let of_party =
                |owner: Party| std::iter::once(row[owner]).chain(row[trace.noises(owner)].iter().copied());
            unknowns
                .row_mut(index)
                .iter_mut()
                .zip((0..parties).flat_map(of_party))
                .for_each(|(entry, x)| *entry = x);
            values.row_mut(index).assign(&ArrayView1::from(&row[..parties]));
            if round == rounds && summed[party] {
                let (mut above, mut sum) = unknowns.view_mut().split_at(Axis(0), count);
                sum.row_mut(0).scaled_add(1.0, &above.row_mut(index));
                values
                    .row_mut(count)
                    .scaled_add(1.0, &ArrayView1::from(&row[..parties]));
            }
        }
        let readers = (0..count)
            .map(|index| readers(execution, index / (rounds + 1), index % (rounds + 1) + 1))
            .collect();
        let published = (0..parties)
            .map(|party| execution.published().contains(&party))
            .collect();
        Rows {
            parties,
            rounds,
            values,
            unknowns,
            columns,
            readers,
            published,
            summed,
        }
    }

    /// How many parties there are.
    pub(crate) fn parties(&self) -> usize {
        self.parties
    }

    /// How many rounds the run has.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds
    }

    /// The number of the row of `party`'s state at time `round`.
    pub(crate) fn row(&self, party: Party, round: usize) -> usize {
        party * (self.rounds + 1) + round
    }

    /// The number of the row of the sum of the finals.
    pub(crate) fn sum(&self) -> usize {
        self.parties * (self.rounds + 1)
    }

    /// The parties outside of `coalition`, ascending.
    pub(crate) fn honest(&self, coalition: &[Party]) -> Vec<Party> {
        (0..self.parties)
            .filter(|party| !coalition.contains(party))
            .collect()
    }

    /// Rows that span what `coalition` sees.
    pub(crate) fn seen(&self, coalition: &[Party]) -> Vec<usize> {
        let mut inside = vec![false; self.parties];
        coalition.iter().for_each(|&party| inside[party] = true);
        let honest = || (0..self.parties).filter(|&party| !inside[party]);
        // The sum is seen only if no honest final in it is missing.
        let whole = honest().all(|party| !self.summed[party] || self.published[party]);
        let replaced = if whole {
            honest().find(|&party| self.summed[party])
        } else {
            None
        };
        let mut seen: Vec<usize> = replaced.map(|_| self.sum()).into_iter().collect();
        for party in honest() {
            let states = (0..self.rounds).map(|round| self.row(party, round));
            seen.extend(states.filter(|&row| self.readers[row].iter().any(|&reader| inside[reader])));
            if self.published[party] && replaced != Some(party) {
                seen.push(self.row(party, self.rounds));
            }
        }
        seen
    }

    /// Ready to be evaluated at r = σ_Δ²/σ*² = `ratio`, σ* = 1, against `coalitions` coalitions of
    /// `size`.
    pub(crate) fn at(&self, ratio: f64, coalitions: usize, size: usize) -> At<'_> {
        let count = self.values.nrows();
        let each = self.parties + self.rounds * size;
        // Whichever takes fewer products: all pairs of rows once, or those that each coalition
        // sees.
        if coalitions.saturating_mul(each * each) > count * count {
            self.with_all_pairs(ratio)
        } else {
            self.without_pairs(ratio)
        }
    }

    /// Ready to be evaluated at `ratio`, as [`Rows::at`], where covariances of what a coalition
    /// sees with all rows matter.
    pub(crate) fn at_with_all(&self, ratio: f64, coalitions: usize, size: usize) -> At<'_> {
        let each = self.parties + self.rounds * size;
        if coalitions.saturating_mul(each) > self.values.nrows() {
            self.with_all_pairs(ratio)
        } else {
            self.without_pairs(ratio)
        }
    }

    /// Ready to be evaluated at `ratio`, all covariances computed beforehand.
    pub(crate) fn with_all_pairs(&self, ratio: f64) -> At<'_> {
        let at = self.without_pairs(ratio);
        At {
            gram: Some(at.scaled.dot(&at.scaled.t())),
            ..at
        }
    }

    fn without_pairs(&self, ratio: f64) -> At<'_> {
        At {
            rows: self,
            ratio,
            scaled: self.scaled(ratio),
            gram: None,
            careful: AtomicU64::new(0),
        }
    }

    /// All unknowns at unit variance: the columns of noises times their deviation.
    fn scaled(&self, ratio: f64) -> Array2<f64> {
        let spread = ratio.sqrt();
        let mut scaled = self.unknowns.clone();
        for mut row in scaled.rows_mut() {
            let row = row.as_slice_mut().expect("row-major");
            for party in 0..self.parties {
                row[self.columns[party] + 1..self.columns[party + 1]]
                    .iter_mut()
                    .for_each(|x| *x *= spread);
            }
        }
        scaled
    }

    /// Bytes that the rows of a run take.
    pub(crate) fn bytes(parties: usize, rounds: usize) -> usize {
        8 * (parties * (rounds + 1)).pow(2)
    }
}

/// Who may read the state that `from` splits in `round`; nobody after the last round.
fn readers(execution: &Execution, from: Party, round: usize) -> Vec<Party> {
    let round = round as u32;
    if round as usize > execution.rounds() || !execution.online(round, from) {
        return vec![];
    }
    let reads = |to: &Party| {
        let outcome = execution.outcome(round, from, *to);
        outcome.seen || outcome.fate == Fate::Accepted
    };
    execution.out(round, from).iter().copied().filter(reads).collect()
}

/// Rows at one ratio of noises.
pub(crate) struct At<'a> {
    /// The rows of the execution.
    pub(crate) rows: &'a Rows,
    /// The variance of the noise that cancels, where that of a party's own is 1.
    pub(crate) ratio: f64,
    /// What each row has of all unknowns, these of unit variance each.
    scaled: Array2<f64>,
    /// Covariance of all rows over everybody's unknowns, if it was computed beforehand.
    gram: Option<Array2<f64>>,
    /// Multiplications spent on systems in doubt.
    careful: AtomicU64,
}

impl At<'_> {
    /// Covariances of `left` rows with `right` ones, over the unknowns of those outside
    /// `coalition`.
    pub(crate) fn covariance(&self, left: &[usize], right: &[usize], coalition: &[Party]) -> Array2<f64> {
        match &self.gram {
            Some(gram) => {
                let all =
                    Array2::from_shape_fn((left.len(), right.len()), |(a, b)| gram[[left[a], right[b]]]);
                all - self
                    .of_parties(left, coalition)
                    .dot(&self.of_parties(right, coalition).t())
            }
            None => {
                let honest = self.rows.honest(coalition);
                self.of_parties(left, &honest)
                    .dot(&self.of_parties(right, &honest).t())
            }
        }
    }

    /// Whether one more system may be computed with care; if so, it counts as computed.
    pub(crate) fn may_be_careful(&self, coalition: &[Party]) -> bool {
        let (rows, unknowns) = (self.scaled.nrows() as u64, self.scaled.ncols() as u64);
        let seen = self.rows.seen(coalition).len() as u64;
        // The machine's run on unit impulses, and a pivoted factorisation.
        let cost = unknowns.saturating_mul(8 * rows + seen * seen);
        self.careful.fetch_add(cost, Ordering::Relaxed) <= MOST_CAREFUL
    }

    #[cfg(test)]
    pub(crate) fn spend_all_care(&self) {
        self.careful.store(MOST_CAREFUL + 1, Ordering::Relaxed);
    }

    /// Variance of a row over the unknowns of those outside `coalition`.
    pub(crate) fn variance(&self, row: usize, coalition: &[Party]) -> f64 {
        let known = |party: Party| self.own(row, party).iter().map(|x| x * x).sum::<f64>();
        match &self.gram {
            Some(gram) => gram[[row, row]] - coalition.iter().map(|&party| known(party)).sum::<f64>(),
            None => self.rows.honest(coalition).into_iter().map(known).sum(),
        }
    }

    /// The columns of one party in one row.
    fn own(&self, row: usize, party: Party) -> &[f64] {
        let (columns, first) = (&self.rows.columns, row * self.scaled.ncols());
        &self.scaled.as_slice().expect("a copy of a row-major array")
            [first + columns[party]..first + columns[party + 1]]
    }

    /// The columns of some parties in some rows.
    fn of_parties(&self, rows: &[usize], parties: &[Party]) -> Array2<f64> {
        let width = |party: Party| self.rows.columns[party + 1] - self.rows.columns[party];
        let mut columns = Array2::zeros((rows.len(), parties.iter().map(|&party| width(party)).sum()));
        for (&row, mut to) in rows.iter().zip(columns.rows_mut()) {
            let mut rest = to.as_slice_mut().expect("row-major");
            for &party in parties {
                let own;
                (own, rest) = rest.split_at_mut(width(party));
                own.copy_from_slice(self.own(row, party));
            }
        }
        columns
    }

    /// Squared losses at unit sensitivity of those outside `coalition`, ascending; none if rounding
    /// leaves them in doubt.
    pub(crate) fn squared_losses(&self, coalition: &[Party]) -> Option<Vec<f64>> {
        let (seen, honest) = (self.rows.seen(coalition), self.rows.honest(coalition));
        let inverse = inverse_factor(self.covariance(&seen, &seen, coalition))?;
        // μ² = hᵀ Σ⁻¹ h = ‖L⁻¹ h‖², h a party's column of what is seen.
        let h = Array2::from_shape_fn((seen.len(), honest.len()), |(a, b)| {
            self.rows.values[[seen[a], honest[b]]]
        });
        let h = inverse.dot(&h);
        Some(
            (0..honest.len())
                .map(|party| h.column(party).iter().map(|x| x * x).sum())
                .collect(),
        )
    }
}

/// The inverse L⁻¹ of the Cholesky factor of a positive definite matrix L Lᵀ; none if a pivot lost
/// too many digits.
pub(crate) fn inverse_factor(mut matrix: Array2<f64>) -> Option<Array2<f64>> {
    let size = matrix.nrows();
    // L, in place.
    for row in 0..size {
        for column in 0..=row {
            let known = {
                let (a, b) = (matrix.row(row), matrix.row(column));
                dot(
                    &a.to_slice().expect("row-major")[..column],
                    &b.to_slice().expect("row-major")[..column],
                )
            };
            let rest = matrix[[row, column]] - known;
            if row != column {
                matrix[[row, column]] = rest / matrix[[column, column]];
            } else if rest > DOUBT * matrix[[row, row]] {
                matrix[[row, row]] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    // L⁻¹, row by row.
    let mut inverse: Array2<f64> = Array2::zeros((size, size));
    for row in 0..size {
        let (above, mut rest) = inverse.view_mut().split_at(Axis(0), row);
        let mut own = rest.row_mut(0);
        for (known, earlier) in above.rows().into_iter().enumerate() {
            let factor = -matrix[[row, known]];
            if factor != 0.0 {
                own.scaled_add(factor, &earlier);
            }
        }
        own[row] = 1.0;
        let pivot = 1.0 / matrix[[row, row]];
        own.mapv_inplace(|x| x * pivot);
    }
    Some(inverse)
}

/// The dot product, in four sums: their order is always the same, so that the result is, too.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4
        .remainder()
        .iter()
        .zip(b4.remainder())
        .map(|(x, y)| x * y)
        .sum();
    for (x, y) in a4.zip(b4) {
        for lane in 0..4 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

#[cfg(test)]
mod tests;
