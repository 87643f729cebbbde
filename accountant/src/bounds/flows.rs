//! Theorem C on numbers: what Gaussian noise that cancels hides from each coalition, with any one
//! share astray.
//!
//! [`closed_form`](crate::bounds::closed_form) states the theorem, and bounds by a tree what it
//! costs to move a change of one value along usable shares. Here the flow f along these shares that
//! costs least is computed. With a_j what leads out of party j in all, at unit sensitivity, own
//! noise of variance 1 and noise that cancels of variance r, the squared loss of a party v is at
//! most
//!
//! J = (a_v − 1)² + Σ_{j ≠ v} a_j² + Σ w²/r,
//!
//! where w runs over the changes of noises that cancel: with INCA w_j = Z̄⁻¹ (s_jt + F_jt − c̄_t
//! a_j)_t, Z̄_t and c̄_t the sums of the first t + 1 rows of Z and c; with PPSC w_jτ = a_j − F_jτ.
//! (The proof in `closed_form` with x̃ of j changed by a_j, whatever these are: they add up to
//! nothing, as each share leads out of one party what it leads into another.) A share is usable if
//! neither of its ends is in the coalition, and it arrived: f is 0 on all others. So J is a sum of
//! squares of linear functions of f, one for all coalitions and faults, and **each is a constraint
//! f_S = 0**, S the shares that touch the coalition or went astray. With H the matrix of these
//! squares, G = H⁻¹ and u_v what party v's a is of f,
//!
//! min J = 1 − u_vᵀGu_v + (Gu_v)_Sᵀ (G_SS)⁻¹ (Gu_v)_S:
//!
//! one factorisation stands for all coalitions, and each costs a small one. One share e more in S
//! adds g_e²/p_e, where g and p are Gu_v and the diagonal of G as S leaves them: so every share of
//! the schedule is tried as the one that goes astray, whatever becomes of it. Departed parties are
//! in the coalition: with roll-back by Theorem R, and without because whoever knows all of them
//! knows no less than they let out.
//!
//! Any f is an upper bound: of the worst cases J is computed once more, as the sum of squares that
//! it is. All count with [`DOUBT`] besides, which is far more than elimination was seen to be off:
//! custom injections that are close to singular, where it may be off by more, have no such bound.
//!
//! Only sums, products, quotients and roots of IEEE doubles, in one order: the same bits on every
//! machine.

use std::collections::BTreeSet;

use undertone_protocol::topology::party::Party;

use crate::class::coalitions;
use crate::class::setting::Setting;
use crate::execution::share::{Fate, ShareFault};
use crate::losses::gaussian::SLACK;
use crate::mechanism::flow::{Row, Sending, led_out, sendings};
use crate::parallel::in_parallel;

/// How far, relatively, a squared loss may be off that was found by elimination. At r = σ_Δ²/σ*² =
/// 1e6, the largest, 6e-8 was the most that was seen in 63 rounds, and 1.5e-6 where values come in
/// early.
const DOUBT: f64 = 1e-5;

/// How many of the worst cases are summed up once more.
const AGAIN: usize = 8;

/// Multiplications of one pass over all coalitions above which the closed form stands in: some
/// seconds of one core, which each member takes to verify a plan.
pub(super) const MOST_PRODUCTS: f64 = 4e9;

/// Nothing costs more than not moving the change at all, and nothing costs less than this, relative
/// to it: a pivot below counts as a share that cannot be used.
const SMALLEST_PIVOT: f64 = 1e-300;

/// The least squares of a schedule, for all coalitions.
#[derive(Debug, Clone)]
pub struct Flows {
    sendings: Vec<Sending>,
    /// Those that nothing can be moved along, whoever colludes, ascending.
    astray: Vec<usize>,
    sensitivity: Vec<f64>,
    /// a_j of each party.
    led_out: Vec<Row>,
    /// The row w of each noise.
    noises: Vec<Row>,
    /// Σ a aᵀ and Σ w wᵀ over these rows.
    squares: [SquareMatrix; 2],
}

/// The largest squared loss against a coalition, and the share that is astray.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The squared loss at σ* = 1, sensitivity included.
    pub square: f64,
    /// The party that the loss is of.
    pub party: Party,
    /// The parties that collude or departed, ascending.
    pub coalition: Vec<Party>,
    /// The sending that goes astray beside those that did; none where none makes it worse.
    pub astray: Option<usize>,
}

/// Against whom losses are computed.
#[derive(Debug, Clone)]
pub struct CoalitionSet {
    /// Every coalition, each ascending.
    pub coalitions: Vec<Vec<Party>>,
    /// Whether any one more share may go astray.
    pub one_more: bool,
    /// The party whose loss counts; `None` counts everybody's.
    pub victim: Option<Party>,
}

impl CoalitionSet {
    /// The tolerated class of a setting: as many as may collude or depart, and one share.
    pub fn of_class(setting: &Setting) -> Self {
        let size = setting.coalition_size().min(setting.parties() - 1);
        CoalitionSet {
            coalitions: coalitions::all(setting.parties(), size),
            one_more: true,
            victim: None,
        }
    }

    /// Those of `known`, with any `size` of `others`; shares went as they did.
    pub fn joined(known: &BTreeSet<Party>, others: &[Party], size: usize) -> Self {
        let joined = |chosen: Vec<usize>| {
            let chosen = chosen.into_iter().map(|place| others[place]);
            let coalition: BTreeSet<Party> = known.iter().copied().chain(chosen).collect();
            coalition.into_iter().collect()
        };
        CoalitionSet {
            coalitions: coalitions::all(others.len(), size)
                .into_iter()
                .map(joined)
                .collect(),
            one_more: false,
            victim: None,
        }
    }
}

impl Flows {
    /// A schedule in which each share arrives in its round. None if no theorem speaks of the
    /// mechanism, or if a pass over its class takes too long.
    pub fn of(setting: &Setting) -> Option<Self> {
        (products(setting) <= MOST_PRODUCTS).then(|| Self::after(setting, &[]))?
    }

    /// A schedule, and what became of shares that did not arrive in their round. None if no theorem
    /// speaks of the mechanism.
    pub fn after(setting: &Setting, faults: &[ShareFault]) -> Option<Self> {
        let (parties, rounds) = (setting.parties(), setting.rounds());
        if setting.uniform {
            return None;
        }
        let mut sendings = sendings(&setting.out);
        let mut astray = BTreeSet::new();
        for fault in faults {
            let place = sendings.binary_search_by_key(&(fault.round, fault.from), |it| (it.round, it.from));
            let Ok(index) = place else { continue };
            match (fault.fate, fault.applied) {
                (Fate::Accepted, Some(applied)) => {
                    let to = sendings[index].to.iter_mut().filter(|(to, _)| *to == fault.to);
                    to.for_each(|(_, joined)| *joined = applied.min(rounds as u32));
                }
                (Fate::Accepted, None) => {}
                (Fate::Returned | Fate::Lost, _) => {
                    astray.insert(index);
                }
            }
        }
        let rules = setting.mechanism.rules();
        let noises = rules.noise_changes(parties, rounds, &sendings)?;
        let led_out: Vec<Row> = (0..parties)
            .map(|party| led_out(&sendings, party, rounds as u32))
            .collect();
        let of_rows = |rows| SquareMatrix::of_rows(sendings.len(), rows);
        Some(Flows {
            squares: [of_rows(&led_out), of_rows(&noises)],
            sensitivity: setting.sensitivity.clone(),
            astray: astray.into_iter().collect(),
            sendings,
            led_out,
            noises,
        })
    }

    /// Every hand-over of the schedule.
    pub fn sendings(&self) -> &[Sending] {
        &self.sendings
    }

    /// The largest squared loss, never below the true one, at σ* = 1 and r = σ_Δ²/σ*² = `ratio`.
    pub fn worst(&self, ratio: f64, against: &CoalitionSet) -> Case {
        let at = At::of(self, ratio);
        let cases = at.cases(against, None);
        let summed = |(case, _): &(Case, usize)| at.summed(case);
        let again = cases.iter().take(AGAIN).map(summed).fold(0.0, f64::max);
        let (worst, _) = cases.into_iter().next().expect("somebody is in no coalition");
        // Of what happened half the doubt: never more than the class has that it is in.
        let doubt = if against.one_more { DOUBT } else { DOUBT / 2.0 };
        let square = again.max(worst.square * (1.0 + doubt));
        Case { square, ..worst }
    }

    /// The largest squared loss at `ratio` against each coalition of these numbers, or against
    /// each, by elimination alone: the worst first, with their coalitions' numbers.
    pub fn screened(
        &self,
        ratio: f64,
        threat: &CoalitionSet,
        numbers: Option<&[usize]>,
    ) -> Vec<(f64, usize)> {
        let cases = At::of(self, ratio).cases(threat, numbers);
        cases
            .into_iter()
            .map(|(case, number)| (case.square, number))
            .collect()
    }
}

/// Roughly how many multiplications a pass over the class takes.
pub fn products(setting: &Setting) -> f64 {
    let size = setting.coalition_size();
    let coalitions = coalitions::count(setting.parties(), size);
    products_of(setting, coalitions.unwrap_or(usize::MAX), size)
}

/// Roughly how many multiplications a pass over so many coalitions of so many parties takes.
pub(crate) fn products_of(setting: &Setting, coalitions: usize, size: usize) -> f64 {
    let shares: usize = setting.out.iter().flatten().map(Vec::len).sum();
    let sendings = setting.out.iter().flatten().filter(|to| !to.is_empty()).count() as f64;
    // What a party sends, and what it is sent.
    let each = (sendings + shares as f64) / setting.parties() as f64;
    let touched = each * size as f64;
    let eliminated = touched * sendings * (touched + setting.parties() as f64);
    let listed = LISTED * (setting.parties() + size) as f64;
    sendings.powi(3) + coalitions as f64 * (eliminated + listed)
}

/// Multiplications that a coalition counts for at least, for each party: it is listed, and each of
/// its victims is looked at, however few shares it touches.
const LISTED: f64 = 1e3;

/// The least squares at one r.
struct At<'a> {
    flows: &'a Flows,
    ratio: f64,
    /// G.
    inverse: SquareMatrix,
    /// Gu_v of each party v.
    of_party: Vec<Vec<f64>>,
    /// min J of each party where every share can be used.
    free: Vec<f64>,
}

impl<'a> At<'a> {
    fn of(flows: &'a Flows, ratio: f64) -> Self {
        let [values, noises] = &flows.squares;
        let inverse = values.plus(1.0 / ratio, noises).inverse();
        let product = |row: &Row| {
            let mut sum = vec![0.0; inverse.size];
            row.iter()
                .for_each(|&(index, factor)| add(&mut sum, factor, inverse.row(index)));
            sum
        };
        let of_party: Vec<Vec<f64>> = flows.led_out.iter().map(product).collect();
        let free = flows
            .led_out
            .iter()
            .zip(&of_party)
            .map(|(row, moved)| 1.0 - at(row, moved))
            .collect();
        At {
            flows,
            ratio,
            inverse,
            of_party,
            free,
        }
    }

    /// Returns the worst case of each coalition among these numbers, or of every coalition, in
    /// descending order.
    fn cases(&self, threat: &CoalitionSet, numbers: Option<&[usize]>) -> Vec<(Case, usize)> {
        let count = numbers.map_or(threat.coalitions.len(), <[usize]>::len);
        let of_each = |index: usize| {
            let number = numbers.map_or(index, |numbers| numbers[index]);
            let case = self.case(&threat.coalitions[number], threat)?;
            Some((case, number))
        };
        let mut cases = in_parallel(count, of_each);
        // Stable: the same order on any number of cores.
        cases.sort_by(|(a, _), (b, _)| b.square.total_cmp(&a.square));
        cases
    }

    /// Returns the worst case of a coalition, or none where everybody is in it.
    fn case(&self, coalition: &[Party], threat: &CoalitionSet) -> Option<Case> {
        let unusable = self.unusable(coalition);
        let removed = Removed::of(&self.inverse, &unusable);
        let counts = |party: &Party| threat.victim.is_none_or(|victim| victim == *party);
        let parties = (0..self.of_party.len()).filter(|party| !coalition.contains(party) && counts(party));
        let of_party = |party: Party| {
            let (moved, more) = removed.applied(&self.of_party[party], &unusable);
            let usable = (0..moved.len()).filter(|_| threat.one_more);
            let cost = |index: usize| {
                let pivot = removed.diagonal[index];
                let cost = moved[index] * moved[index] / pivot;
                (cost > 0.0 && pivot > SMALLEST_PIVOT).then_some((cost, index))
            };
            let worst = usable.filter_map(cost).max_by(|a, b| a.0.total_cmp(&b.0));
            let square = self.free[party] + more + worst.map_or(0.0, |(cost, _)| cost);
            // Moving nothing costs 1, which also stands in for what is no number.
            let square = if square.is_finite() {
                square.clamp(0.0, 1.0)
            } else {
                1.0
            };
            Case {
                square: square * self.flows.sensitivity[party].powi(2),
                party,
                coalition: coalition.to_vec(),
                astray: worst.map(|(_, index)| index),
            }
        };
        parties.map(of_party).max_by(|a, b| a.square.total_cmp(&b.square))
    }

    /// J of a case as the sum of squares that it is, sensitivity included.
    fn summed(&self, case: &Case) -> f64 {
        let mut unusable = self.unusable(&case.coalition);
        unusable.extend(case.astray.filter(|index| !unusable.contains(index)));
        let removed = Removed::of(&self.inverse, &unusable);
        let (mut flow, _) = removed.applied(&self.of_party[case.party], &unusable);
        unusable.iter().for_each(|&index| flow[index] = 0.0);
        let own = |(party, row): (Party, &Row)| {
            let changed = at(row, &flow);
            if party == case.party {
                changed - 1.0
            } else {
                changed
            }
        };
        let square = |x: f64| x * x;
        let values: f64 = self.flows.led_out.iter().enumerate().map(own).map(square).sum();
        let noises: f64 = self.flows.noises.iter().map(|row| square(at(row, &flow))).sum();
        // Moving nothing costs 1.
        let square = (values + noises / self.ratio).min(1.0) * (1.0 + SLACK);
        square * self.flows.sensitivity[case.party].powi(2)
    }

    /// The sendings that nothing can be moved along, ascending.
    fn unusable(&self, coalition: &[Party]) -> Vec<usize> {
        let touches = |sending: &Sending| {
            coalition.contains(&sending.from) || coalition.iter().any(|&party| sending.reaches(party))
        };
        let sendings = self.flows.sendings.iter().enumerate();
        let unusable =
            sendings.filter(|(index, sending)| touches(sending) || self.flows.astray.contains(index));
        unusable.map(|(index, _)| index).collect()
    }
}

/// Sendings held at 0.
struct Removed {
    /// L⁻¹G_S, with LLᵀ = G_SS.
    rows: Vec<Vec<f64>>,
    /// L.
    factor: SquareMatrix,
    /// The diagonal of G without these sendings.
    diagonal: Vec<f64>,
}

impl Removed {
    fn of(inverse: &SquareMatrix, unusable: &[usize]) -> Self {
        let mut factor = SquareMatrix::zero(unusable.len());
        for (row, &i) in unusable.iter().enumerate() {
            for (column, &k) in unusable.iter().enumerate() {
                factor.row_mut(row)[column] = inverse.row(i)[k];
            }
        }
        factor.factorise();
        let mut rows: Vec<Vec<f64>> = unusable
            .iter()
            .map(|&index| inverse.row(index).to_vec())
            .collect();
        for row in 0..rows.len() {
            let (before, here) = rows.split_at_mut(row);
            let factors = factor.row(row);
            before
                .iter()
                .zip(factors)
                .for_each(|(other, &factor)| add(&mut here[0], -factor, other));
            here[0].iter_mut().for_each(|x| *x /= factors[row]);
        }
        let mut diagonal: Vec<f64> = (0..inverse.size).map(|index| inverse.row(index)[index]).collect();
        for row in &rows {
            diagonal.iter_mut().zip(row).for_each(|(left, x)| *left -= x * x);
        }
        unusable.iter().for_each(|&index| diagonal[index] = 0.0);
        Removed {
            rows,
            factor,
            diagonal,
        }
    }

    /// The flow `moved` without these sendings, and by how much more it costs.
    fn applied(&self, moved: &[f64], unusable: &[usize]) -> (Vec<f64>, f64) {
        let mut left = moved.to_vec();
        let mut parts: Vec<f64> = Vec::with_capacity(unusable.len());
        for (row, &index) in unusable.iter().enumerate() {
            let factors = self.factor.row(row);
            let known: f64 = parts
                .iter()
                .zip(factors)
                .map(|(part, factor)| part * factor)
                .sum();
            parts.push((moved[index] - known) / factors[row]);
        }
        parts
            .iter()
            .zip(&self.rows)
            .for_each(|(&part, row)| add(&mut left, -part, row));
        unusable.iter().for_each(|&index| left[index] = 0.0);
        (left, parts.iter().map(|part| part * part).sum())
    }
}

/// Adds `factor` times `row`.
fn add(sum: &mut [f64], factor: f64, row: &[f64]) {
    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += factor * x);
}

/// A row at a flow.
fn at(row: &Row, flow: &[f64]) -> f64 {
    row.iter().map(|&(index, factor)| factor * flow[index]).sum()
}

/// A square matrix, by rows.
#[derive(Debug, Clone)]
struct SquareMatrix {
    size: usize,
    values: Vec<f64>,
}

impl SquareMatrix {
    fn zero(size: usize) -> Self {
        SquareMatrix {
            size,
            values: vec![0.0; size * size],
        }
    }

    /// The sum of all rows times themselves.
    fn of_rows(size: usize, rows: &[Row]) -> Self {
        let mut sum = SquareMatrix::zero(size);
        for row in rows {
            for &(i, x) in row {
                let line = sum.row_mut(i);
                row.iter().for_each(|&(k, y)| line[k] += x * y);
            }
        }
        sum
    }

    fn row(&self, index: usize) -> &[f64] {
        &self.values[index * self.size..(index + 1) * self.size]
    }

    fn row_mut(&mut self, index: usize) -> &mut [f64] {
        &mut self.values[index * self.size..(index + 1) * self.size]
    }

    fn plus(&self, factor: f64, other: &SquareMatrix) -> Self {
        let mut sum = self.clone();
        add(&mut sum.values, factor, &other.values);
        sum
    }

    /// The lower triangle L of LLᵀ, in place; the rest is left as it was. Row by row, so that every
    /// sum runs along memory.
    fn factorise(&mut self) {
        for row in 0..self.size {
            let (before, here) = self.values.split_at_mut(row * self.size);
            let here = &mut here[..self.size];
            for column in 0..=row {
                let dot =
                    |other: &[f64]| -> f64 { here[..column].iter().zip(other).map(|(x, y)| x * y).sum() };
                if column < row {
                    let other = &before[column * self.size..(column + 1) * self.size];
                    here[column] = (here[column] - dot(other)) / other[column];
                } else {
                    here[row] = (here[row] - dot(&here[..row])).max(SMALLEST_PIVOT).sqrt();
                }
            }
        }
    }

    /// The inverse of a symmetric, positive matrix.
    fn inverse(mut self) -> Self {
        self.factorise();
        // L⁻¹, row by row.
        let mut solved = SquareMatrix::zero(self.size);
        for row in 0..self.size {
            let (before, here) = solved.values.split_at_mut(row * self.size);
            let here = &mut here[..self.size];
            here[row] = 1.0;
            let factors = self.row(row);
            for other in 0..row {
                add(
                    &mut here[..=other],
                    -factors[other],
                    &before[other * self.size..][..=other],
                );
            }
            here.iter_mut().for_each(|x| *x /= factors[row]);
        }
        let mut inverse = SquareMatrix::zero(self.size);
        for row in 0..self.size {
            let line = solved.row(row)[..=row].to_vec();
            for (index, &x) in line.iter().enumerate() {
                add(&mut inverse.row_mut(index)[..=row], x, &line);
            }
        }
        inverse
    }
}

#[cfg(test)]
mod tests;
