//! Coalitions that were chosen before the schedule was drawn, for many parties: losses of random (schedule, coalition, departures) draws, what a
//! sample of them shows, and beside it what coalitions that know the schedule find.
//!
//! One system of 200 parties has hundreds of rows over thousands of unknowns. But with D_Inc a run is a small dynamic system. Before a split
//! each state is yᵢ = uᵢ + ηᵢ, ηᵢ its party's newest noise, that nothing else contains; after it ηᵢ leaves again. So a state that is seen is a
//! noisy observation of uᵢ, one that is not turns its ηᵢ into noise among its receivers, and what is hidden are u and x̃ alone.
//! [`squared_losses`] conditions their covariance on what is seen, round by round. The loss is what the view takes from the variance of x̃: μᵢ² = (1 − Var(x̃ᵢ | view)/σ*²)/σ*², the Fisher information
//! of xᵢ in the view. By Theorem R departed parties are counted with the coalition. Share faults are not in these draws.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis, Slice};
use undertone_protocol::graph::Graph;
use undertone_protocol::mixing::Party;
use undertone_protocol::schedule::{Schedule, draw_parties};

use crate::class::in_parallel;
use crate::rows::inverse_factor;

/// Confidence with which [`failure_bound`] holds.
pub const CONFIDENCE: f64 = 0.999;

/// The squared losses at unit sensitivity, σ* = 1 and σ_Δ² = `ratio`, of the parties outside `coalition`, ascending, in the fault-free run of
/// D_Inc on the schedule `out` ([`Schedule::out`]); none if rounding leaves them in doubt.
pub fn squared_losses(out: &[Vec<Vec<Party>>], coalition: &[Party], ratio: f64) -> Option<Vec<f64>> {
    let parties = out.first().map_or(0, Vec::len);
    let honest: Vec<Party> = (0..parties).filter(|party| !coalition.contains(party)).collect();
    let mut places = vec![None; parties];
    honest.iter().enumerate().for_each(|(place, &party)| places[party] = Some(place));
    let mut hidden = Hidden::start(honest.len(), out.len(), ratio);
    for round in out {
        let seen: Vec<bool> = honest.iter().map(|&party| round[party].iter().any(|&to| places[to].is_none())).collect();
        hidden.observe(&seen)?;
        let of = |place: usize| {
            let to = &round[honest[place]];
            (1.0 / (to.len() as f64 + 1.0), to.iter().filter_map(|&to| places[to]).collect::<Vec<_>>())
        };
        hidden.mix(&seen, &(0..honest.len()).map(of).collect::<Vec<_>>());
        hidden.inject();
    }
    hidden.publish()
}

/// Covariance of what is hidden from a coalition: u, then x̃, of the h honest parties.
struct Hidden {
    honest: usize,
    /// c_t, for every t.
    part: f64,
    ratio: f64,
    covariance: Array2<f64>,
    losses: Vec<f64>,
}

impl Hidden {
    fn start(honest: usize, rounds: usize, ratio: f64) -> Self {
        let mut covariance = Array2::zeros((2 * honest, 2 * honest));
        (honest..2 * honest).for_each(|value| covariance[[value, value]] = 1.0);
        let part = 1.0 / (rounds as f64 + 1.0);
        let mut hidden = Hidden { honest, part, ratio, covariance, losses: vec![0.0; honest] };
        hidden.inject();
        hidden
    }

    /// The coalition reads u + η of these.
    fn observe(&mut self, seen: &[bool]) -> Option<()> {
        let h = self.honest;
        let seen: Vec<usize> = (0..h).filter(|&place| seen[place]).collect();
        if seen.is_empty() {
            return Some(());
        }
        let rows = self.covariance.select(Axis(0), &seen);
        let mut own = rows.select(Axis(1), &seen).as_standard_layout().into_owned();
        own.diag_mut().mapv_inplace(|variance| variance + self.ratio);
        let explained = inverse_factor(own)?.dot(&rows);
        general_mat_mul(-1.0, &explained.t(), &explained, 1.0, &mut self.covariance);
        self.count(&block(&explained, 0..seen.len(), h..2 * h));
        Some(())
    }

    /// What these independent observations of unit variance, correlated so with x̃, take from its variance.
    fn count(&mut self, explained: &Array2<f64>) {
        for row in explained.rows() {
            self.losses.iter_mut().zip(row).for_each(|(loss, x)| *loss += x * x);
        }
    }

    /// Each state is split, into a part for its party and each (honest) receiver, and the party takes its η out again. Of a state that was seen all
    /// shares are known, and −η is u less what was seen. What the coalition sends is known.
    fn mix(&mut self, seen: &[bool], shares: &[(f64, Vec<usize>)]) {
        let h = self.honest;
        let moves: Vec<Vec<(usize, f64)>> = (0..h)
            .map(|place| {
                let (part, to) = &shares[place];
                if seen[place] {
                    vec![(place, 1.0)]
                } else {
                    std::iter::once((place, *part)).chain(to.iter().map(|&to| (to, *part))).collect()
                }
            })
            .collect();
        let rows = spread(&block(&self.covariance, 0..h, 0..2 * h), &moves);
        let states = spread(&block(&rows, 0..h, 0..h).reversed_axes().as_standard_layout().into_owned(), &moves);
        let values = block(&rows, 0..h, h..2 * h);
        self.set(0..h, 0..h, states.view());
        self.set(0..h, h..2 * h, values.view());
        self.set(h..2 * h, 0..h, values.t());
        for (place, to) in moves.iter().enumerate().filter(|&(place, _)| !seen[place]) {
            let noise: Vec<(usize, f64)> =
                to.iter().map(|&(to, part)| (to, if to == place { part - 1.0 } else { part })).collect();
            for &(a, x) in &noise {
                for &(b, y) in &noise {
                    self.covariance[[a, b]] += self.ratio * x * y;
                }
            }
        }
    }

    fn set(&mut self, rows: Range<usize>, columns: Range<usize>, values: ArrayView2<'_, f64>) {
        let mut rows = self.covariance.slice_axis_mut(Axis(0), Slice::from(rows));
        rows.slice_axis_mut(Axis(1), Slice::from(columns)).assign(&values);
    }

    /// x̃/(T + 1) more in each state.
    fn inject(&mut self) {
        let (h, part) = (self.honest, self.part);
        let (mut states, values) = self.covariance.view_mut().split_at(Axis(0), h);
        states.scaled_add(part, &values);
        for mut row in self.covariance.rows_mut() {
            let (mut states, values) = row.view_mut().split_at(Axis(0), h);
            states.scaled_add(part, &values);
        }
    }

    /// All finals are seen, without a noise of their own. One is replaced by their sum, in which the noise that did not go to the coalition has
    /// cancelled.
    fn publish(mut self) -> Option<Vec<f64>> {
        let h = self.honest;
        if h == 0 {
            return Some(vec![]);
        }
        let mut rows = block(&self.covariance, 0..h, 0..2 * h);
        let sum = rows.sum_axis(Axis(0));
        rows.row_mut(0).assign(&sum);
        let mut finals = block(&rows, 0..h, 0..h);
        let sum = finals.sum_axis(Axis(1));
        finals.column_mut(0).assign(&sum);
        let inverse = inverse_factor(finals)?;
        self.count(&inverse.dot(&block(&rows, 0..h, h..2 * h)));
        Some(self.losses)
    }
}

/// A copy of some rows and columns.
fn block(matrix: &Array2<f64>, rows: Range<usize>, columns: Range<usize>) -> Array2<f64> {
    let rows = matrix.slice_axis(Axis(0), Slice::from(rows));
    rows.slice_axis(Axis(1), Slice::from(columns)).as_standard_layout().into_owned()
}

/// Rows after each has moved, by parts, to others.
fn spread(rows: &Array2<f64>, moves: &[Vec<(usize, f64)>]) -> Array2<f64> {
    let mut next = Array2::zeros(rows.dim());
    for (row, to) in rows.rows().into_iter().zip(moves) {
        for &(place, part) in to {
            next.row_mut(place).scaled_add(part, &row);
        }
    }
    next
}

/// What draws are made of.
#[derive(Debug, Clone)]
pub struct Draws {
    /// Who may exchange shares.
    pub graph: Graph,
    /// k.
    pub fanout: usize,
    /// T.
    pub rounds: usize,
    /// Parties that collude, drawn evenly.
    pub colluding: usize,
    /// Parties that depart, drawn evenly among the others.
    pub dropouts: usize,
}

impl Draws {
    /// The largest squared loss of the draw of `seed` at σ* = 1, Δ = 1 and σ_Δ² = `ratio`; ∞ where it is in doubt or there is no schedule.
    pub fn worst(&self, seed: u64, ratio: f64) -> f64 {
        let Some(schedule) = Schedule::draw(&self.graph, self.fanout, self.rounds, seed) else { return f64::INFINITY };
        let against = draw_parties(self.graph.parties(), self.colluding + self.dropouts, seed);
        largest(squared_losses(schedule.out(), &against, ratio))
    }

    /// The largest of many draws.
    pub fn worst_of(&self, seeds: Range<u64>, ratio: f64) -> f64 {
        self.all(seeds, ratio).into_iter().fold(0.0, f64::max)
    }

    /// How many draws lose more than `most` (μ² at σ* = 1, Δ = 1).
    pub fn failures(&self, seeds: Range<u64>, ratio: f64, most: f64) -> u64 {
        self.all(seeds, ratio).into_iter().filter(|&square| square > most).count() as u64
    }

    fn all(&self, seeds: Range<u64>, ratio: f64) -> Vec<f64> {
        let count = seeds.end.saturating_sub(seeds.start) as usize;
        in_parallel(count, |index| Some(self.worst(seeds.start + index as u64, ratio)))
    }
}

fn largest(losses: Option<Vec<f64>>) -> f64 {
    let worst = |worst: f64, loss: f64| if loss.is_nan() { f64::INFINITY } else { worst.max(loss) };
    losses.map_or(f64::INFINITY, |losses| losses.into_iter().fold(0.0, worst))
}

/// A coalition of `size` that knows the schedule, found by a climb from each victim's in- and out-neighbours: its largest squared loss and who is
/// in it. A lower bound on what the worst coalition learns; no guarantee. `steps` exchanges are tried for the best `starts` victims.
pub fn searched(out: &[Vec<Vec<Party>>], size: usize, ratio: f64, starts: usize, steps: usize) -> (f64, Vec<Party>) {
    let parties = out.first().map_or(0, Vec::len);
    let mut found = in_parallel(parties, |victim| {
        let order = by_contact(out, victim);
        let coalition: Vec<Party> = order.iter().copied().take(size).collect();
        Some((largest(squared_losses(out, &coalition, ratio)), coalition, order))
    });
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let climbed = in_parallel(starts.min(found.len()), |start| {
        let (mut square, mut coalition, order) = found[start].clone();
        for step in 0..steps {
            // Each of the next closest for one of the farthest, in turn.
            let (enters, leaves) = (order.get(size + step % (2 * size).max(1)), size - 1 - step % size.max(1));
            let Some(&enters) = enters.filter(|party| !coalition.contains(party)) else { continue };
            let mut other = coalition.clone();
            other[leaves] = enters;
            let learns = largest(squared_losses(out, &other, ratio));
            if learns > square {
                (square, coalition) = (learns, other);
            }
        }
        Some((square, coalition))
    });
    climbed.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, vec![]))
}

/// All others, those first that exchange most shares with `victim`.
fn by_contact(out: &[Vec<Vec<Party>>], victim: Party) -> Vec<Party> {
    let parties = out.first().map_or(0, Vec::len);
    let contacts = |other: Party| {
        let each =
            |round: &Vec<Vec<Party>>| usize::from(round[victim].contains(&other)) + usize::from(round[other].contains(&victim));
        out.iter().map(each).sum::<usize>()
    };
    let mut order: Vec<Party> = (0..parties).filter(|&other| other != victim).collect();
    order.sort_by_key(|&other| (std::cmp::Reverse(contacts(other)), other));
    order
}

/// The largest probability of a failure that `failures` in `draws` independent draws leave possible, at [`CONFIDENCE`], one-sided (Clopper and
/// Pearson 1934). Never below the exact bound.
pub fn failure_bound(failures: u64, draws: u64) -> f64 {
    if failures >= draws {
        return 1.0;
    }
    let n = draws as f64;
    // The probability of as few failures.
    let as_few = |p: f64| {
        let term = |k: u64| {
            let k = k as f64;
            let ways = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
            (ways + k * p.ln() + (n - k) * libm::log1p(-p)).exp()
        };
        (0..=failures).map(term).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if as_few(middle) > 1.0 - CONFIDENCE { low = middle } else { high = middle }
    }
    // lgamma of large numbers has about ten digits.
    (high * (1.0 + 1e-9)).min(1.0)
}

/// How many draws without a failure show that failures are rarer than `probability`, at [`CONFIDENCE`].
pub fn draws_needed(probability: f64) -> f64 {
    ((1.0 - CONFIDENCE).ln() / libm::log1p(-probability)).ceil()
}

#[cfg(test)]
mod tests;
