//! Losses of one draw, by conditioning round by round, and what one more state would show.
//!
//! The hidden variables before a split are u, the states without their parties' newest noises, and
//! x̃, of the h honest parties. Forward, their covariance P is conditioned on what the coalition
//! reads, moved by the splits (F), given the noises that it does not read (G), and moved by the
//! injections (J). Backward runs Λ, for which P − PΛP is the covariance given all that is ever read
//! (Bryson and Frazier 1963), and W = Λ P[·, x̃]. With them, for a state s that is not read, Cov(s,
//! x̃ | all) and Var(s | all), and μ² against a coalition that reads s, too, is larger by Cov²/Var.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis};
use undertone_protocol::topology::party::Party;

use crate::execution::rows::{DOUBT, SCREENED, inverse_factor};

/// The squared losses at unit sensitivity, σ* = 1 and σ_Δ² = `ratio`, of the parties outside
/// `coalition`, ascending, in the fault-free run of D_Inc on the schedule `out`
/// ([`Schedule::out`](undertone_protocol::topology::schedule::Schedule::out)); none if rounding
/// leaves them in doubt.
pub fn squared_losses(out: &[Vec<Vec<Party>>], coalition: &[Party], ratio: f64) -> Option<Vec<f64>> {
    Some(Run::of(out, coalition, ratio, false)?.losses)
}

/// The largest of some losses, ∞ where one of them or all are in doubt.
pub(super) fn largest(losses: Option<Vec<f64>>) -> f64 {
    let worst = |worst: f64, loss: f64| {
        if loss.is_nan() {
            f64::INFINITY
        } else {
            worst.max(loss)
        }
    };
    losses.map_or(f64::INFINITY, |losses| losses.into_iter().fold(0.0, worst))
}

/// The largest squared loss of those outside `coalition` in the run without faults *and* in every
/// run with faults of one share between them, whatever becomes of it and whenever; never below it.
/// None if rounding leaves it in doubt.
///
/// A share is a multiple of the state that was split. Whatever becomes of it, all later states
/// differ from those of the run without faults by known multiples of that state, which itself does
/// not differ. So a coalition that reads it, too, can compute what it sees in the run with the
/// fault, and by the data-processing inequality loses nobody less. (All shares of one state are
/// that multiple: faults of several of them are covered as well.)
pub fn worst_with_a_share_fault(out: &[Vec<Vec<Party>>], coalition: &[Party], ratio: f64) -> Option<f64> {
    let run = Run::of(out, coalition, ratio, true)?;
    let without = run.losses.iter().fold(0.0, |worst: f64, &loss| worst.max(loss));
    Some(run.worst_with_one_more(ratio)?.max(without) * (1.0 + SCREENED))
}

/// A state is split, into a part for its party and each (honest) receiver.
type Moves = Vec<Vec<(usize, f64)>>;

/// Covariance of what is hidden.
struct Covariance {
    /// u with u.
    uu: Array2<f64>,
    /// u with x̃.
    ux: Array2<f64>,
    /// x̃ with x̃.
    xx: Array2<f64>,
}

/// What a backward pass needs of a round.
struct Round {
    /// Who reads what: places of states that the coalition reads.
    seen: Vec<usize>,
    /// u, then x̃, regressed on what was read: P Hᵀ S⁻¹, for u and for x̃.
    gain: (Array2<f64>, Array2<f64>),
    /// S⁻¹.
    precision: Array2<f64>,
    /// Cov(u, x̃) of those who were read, before they were.
    read: Array2<f64>,
    /// After that.
    covariance: Covariance,
    moves: Moves,
}

/// What a reading leaves for the backward pass: gain, precision and what was read, as in [`Round`].
type Reading = ((Array2<f64>, Array2<f64>), Array2<f64>, Array2<f64>);

/// The forward pass over a run.
struct Run {
    /// c_t, for every t.
    part: f64,
    losses: Vec<f64>,
    rounds: Vec<Round>,
    /// Λ_uu and W_u before the finals are read; empty if nothing was kept.
    last: (Array2<f64>, Array2<f64>),
}

impl Run {
    fn of(out: &[Vec<Vec<Party>>], coalition: &[Party], ratio: f64, keep: bool) -> Option<Self> {
        let parties = out.first().map_or(0, Vec::len);
        let mut inside = vec![false; parties];
        coalition.iter().for_each(|&party| inside[party] = true);
        let honest: Vec<Party> = (0..parties).filter(|&party| !inside[party]).collect();
        let mut places = vec![None; parties];
        honest
            .iter()
            .enumerate()
            .for_each(|(place, &party)| places[party] = Some(place));
        let h = honest.len();
        let part = 1.0 / (out.len() as f64 + 1.0);
        let mut run = Run {
            part,
            losses: vec![0.0; h],
            rounds: Vec::new(),
            last: (Array2::zeros((0, 0)), Array2::zeros((0, 0))),
        };
        if h == 0 {
            return Some(run);
        }
        let mut hidden = Covariance {
            uu: Array2::zeros((h, h)),
            ux: Array2::zeros((h, h)),
            xx: Array2::eye(h),
        };
        hidden.inject(part);
        for round in out {
            let seen: Vec<usize> = (0..h)
                .filter(|&place| round[honest[place]].iter().any(|&to| places[to].is_none()))
                .collect();
            let (gain, precision, read) = run.observe(&mut hidden, &seen, ratio)?;
            let moves = moves(round, &honest, &places, &seen);
            let kept = keep.then(|| Covariance {
                uu: hidden.uu.clone(),
                ux: hidden.ux.clone(),
                xx: Array2::zeros((0, 0)),
            });
            hidden.mix(&moves, &seen, ratio);
            hidden.inject(part);
            if let Some(covariance) = kept {
                run.rounds.push(Round {
                    seen,
                    gain,
                    precision,
                    read,
                    covariance,
                    moves,
                });
            }
        }
        run.publish(hidden, keep)?;
        Some(run)
    }

    /// The coalition reads u + η of these.
    fn observe(&mut self, hidden: &mut Covariance, seen: &[usize], ratio: f64) -> Option<Reading> {
        let (rows_u, rows_x) = (hidden.uu.select(Axis(0), seen), hidden.ux.select(Axis(0), seen));
        if seen.is_empty() {
            let none = || Array2::zeros((hidden.uu.nrows(), 0));
            return Some(((none(), none()), Array2::zeros((0, 0)), rows_x));
        }
        let mut own = rows_u.select(Axis(1), seen).as_standard_layout().into_owned();
        own.diag_mut().mapv_inplace(|variance| variance + ratio);
        let inverse = inverse_factor(own)?;
        let (explained_u, explained_x) = (inverse.dot(&rows_u), inverse.dot(&rows_x));
        general_mat_mul(-1.0, &explained_u.t(), &explained_u, 1.0, &mut hidden.uu);
        general_mat_mul(-1.0, &explained_u.t(), &explained_x, 1.0, &mut hidden.ux);
        general_mat_mul(-1.0, &explained_x.t(), &explained_x, 1.0, &mut hidden.xx);
        self.count(explained_x.view());
        let gain = (explained_u.t().dot(&inverse), explained_x.t().dot(&inverse));
        Some((gain, inverse.t().dot(&inverse), rows_x))
    }

    /// What these independent observations of unit variance, correlated so with x̃, take from its
    /// variance.
    fn count(&mut self, explained: ArrayView2<'_, f64>) {
        for row in explained.rows() {
            self.losses
                .iter_mut()
                .zip(row)
                .for_each(|(loss, x)| *loss += x * x);
        }
    }

    /// All finals are read, without a noise of their own. One is replaced by their sum, in which
    /// the noise that did not go to the coalition has cancelled.
    fn publish(&mut self, hidden: Covariance, keep: bool) -> Option<()> {
        let Covariance {
            uu: mut finals,
            ux: mut rows,
            ..
        } = hidden;
        let sum = rows.sum_axis(Axis(0));
        rows.row_mut(0).assign(&sum);
        let sum = finals.sum_axis(Axis(0));
        finals.row_mut(0).assign(&sum);
        let sum = finals.sum_axis(Axis(1));
        finals.column_mut(0).assign(&sum);
        let mut inverse = inverse_factor(finals)?;
        let explained = inverse.dot(&rows);
        self.count(explained.view());
        if keep {
            // In terms of the finals themselves: each is also in the sum.
            let first = inverse.column(0).to_owned();
            for mut column in inverse.columns_mut().into_iter().skip(1) {
                column += &first;
            }
            self.last = (inverse.t().dot(&inverse), inverse.t().dot(&explained));
        }
        Some(())
    }

    /// The largest squared loss against a coalition that reads one more state.
    fn worst_with_one_more(&self, ratio: f64) -> Option<f64> {
        let h = self.losses.len();
        let (last_uu, last_w) = (self.last.0.clone(), self.last.1.clone());
        let zeros = || Array2::zeros((h, h));
        let mut back = Back {
            uu: last_uu,
            ux: zeros(),
            xx: zeros(),
            wu: last_w,
            wx: zeros(),
        };
        let mut worst = 0.0f64;
        for round in self.rounds.iter().rev() {
            back.inject(self.part);
            let before = back.mix(&round.moves);
            worst = worst.max(back.one_more(round, &before, &self.losses, ratio)?);
            back.observe(round);
        }
        Some(worst)
    }
}

impl Covariance {
    /// x̃/(T + 1) more in each state.
    fn inject(&mut self, part: f64) {
        self.uu.scaled_add(part, &self.ux);
        self.ux.scaled_add(part, &self.xx);
        // The former with what was added: u′ = u + c x̃ has Cov(u′) = Cov(u, u) + c Cov(u, x̃) + c
        // Cov(x̃, u′).
        self.uu.scaled_add(part, &self.ux.t());
    }

    /// Each state is split, and its party takes its η out again. Of a state that was read all
    /// shares are known, and −η is u less what was read. What the coalition sends is known.
    fn mix(&mut self, moves: &Moves, seen: &[usize], ratio: f64) {
        let half = spread(&self.uu, moves);
        self.uu = spread(&half.reversed_axes().as_standard_layout().into_owned(), moves);
        self.ux = spread(&self.ux, moves);
        for place in hidden_places(moves.len(), seen) {
            let noise = noise(place, moves);
            for &(a, x) in &noise {
                for &(b, y) in &noise {
                    self.uu[[a, b]] += ratio * x * y;
                }
            }
        }
    }
}

/// Λ and W of the backward pass.
struct Back {
    uu: Array2<f64>,
    ux: Array2<f64>,
    xx: Array2<f64>,
    wu: Array2<f64>,
    wx: Array2<f64>,
}

/// What was before the splits were undone: Λ_uu F, Λ_ux, Λ_uu's own rows, and W_u.
struct Before {
    uu_moved: Array2<f64>,
    uu: Array2<f64>,
    ux: Array2<f64>,
    wu: Array2<f64>,
}

impl Back {
    /// Λ ← JᵀΛJ, W ← JᵀW.
    fn inject(&mut self, part: f64) {
        // Λ_xx + c(Λ_ux + Λ_xu) + c²Λ_uu, from Λ_ux before and after it took cΛ_uu.
        self.xx.scaled_add(part, &self.ux.t());
        self.ux.scaled_add(part, &self.uu);
        self.xx.scaled_add(part, &self.ux);
        self.wx.scaled_add(part, &self.wu);
    }

    /// Λ ← FᵀΛF, W ← FᵀW.
    fn mix(&mut self, moves: &Moves) -> Before {
        // (FᵀΛ)ᵀ = Λ F, Λ being symmetric.
        let uu_moved = gather(&self.uu, moves)
            .reversed_axes()
            .as_standard_layout()
            .into_owned();
        let (uu, ux, wu) = (
            gather(&uu_moved, moves),
            gather(&self.ux, moves),
            gather(&self.wu, moves),
        );
        Before {
            uu_moved,
            uu: std::mem::replace(&mut self.uu, uu),
            ux: std::mem::replace(&mut self.ux, ux),
            wu: std::mem::replace(&mut self.wu, wu),
        }
    }

    /// Λ ← HᵀS⁻¹H + (I − KH)ᵀΛ(I − KH), W likewise.
    fn observe(&mut self, round: &Round) {
        let (seen, (gain_u, gain_x)) = (&round.seen, &round.gain);
        if seen.is_empty() {
            return;
        }
        let mut new_w = round.precision.dot(&round.read);
        general_mat_mul(-1.0, &gain_u.t(), &self.wu, 1.0, &mut new_w);
        general_mat_mul(-1.0, &gain_x.t(), &self.wx, 1.0, &mut new_w);
        let mut of_u = self.uu.dot(gain_u);
        general_mat_mul(1.0, &self.ux, gain_x, 1.0, &mut of_u);
        let mut of_x = self.ux.t().dot(gain_u);
        general_mat_mul(1.0, &self.xx, gain_x, 1.0, &mut of_x);
        let mut corner = round.precision.clone();
        general_mat_mul(1.0, &gain_u.t(), &of_u, 1.0, &mut corner);
        general_mat_mul(1.0, &gain_x.t(), &of_x, 1.0, &mut corner);
        for (index, &place) in seen.iter().enumerate() {
            let (column, row) = (of_u.column(index), of_x.column(index));
            self.uu.column_mut(place).scaled_add(-1.0, &column);
            self.uu.row_mut(place).scaled_add(-1.0, &column);
            self.ux.row_mut(place).scaled_add(-1.0, &row);
            self.wu.row_mut(place).scaled_add(1.0, &new_w.row(index));
        }
        for (a, &row) in seen.iter().enumerate() {
            for (b, &column) in seen.iter().enumerate() {
                self.uu[[row, column]] += corner[[a, b]];
            }
        }
    }

    /// The largest squared loss against a coalition that also reads a state of this round that it
    /// did not read.
    fn one_more(&self, round: &Round, before: &Before, losses: &[f64], ratio: f64) -> Option<f64> {
        let places: Vec<usize> = hidden_places(losses.len(), &round.seen).collect();
        let p = &round.covariance;
        let (uu, ux) = (p.uu.select(Axis(0), &places), p.ux.select(Axis(0), &places));
        // Cov(s, x̃ | all): what is taken from Cov(s, x̃ | past).
        let mut with_x = uu.dot(&self.wu);
        general_mat_mul(1.0, &ux, &self.wx, 1.0, &mut with_x);
        // (u, x̃)ᵀ Λ (u, x̃), the mixed terms being twice the same.
        let moved_u = uu.dot(&self.uu);
        let mut moved_x = ux.dot(&self.xx);
        general_mat_mul(2.0, &uu, &self.ux, 1.0, &mut moved_x);
        let mut worst = 0.0f64;
        for (index, &place) in places.iter().enumerate() {
            let (own_u, own_x) = (uu.row(index), ux.row(index));
            let past = p.uu[[place, place]] + ratio;
            let mut explained = moved_u.row(index).dot(&own_u) + moved_x.row(index).dot(&own_x);
            let noise = noise(place, &round.moves);
            let mut with_x = with_x.row(index).to_owned();
            for &(at, part) in &noise {
                explained += 2.0
                    * ratio
                    * part
                    * (before.uu_moved.row(at).dot(&own_u) + before.ux.row(at).dot(&own_x));
                explained += noise
                    .iter()
                    .map(|&(to, other)| ratio * ratio * part * other * before.uu[[at, to]])
                    .sum::<f64>();
                with_x.scaled_add(ratio * part, &before.wu.row(at));
            }
            let variance = past - explained;
            if variance.is_nan() || variance <= DOUBT * past {
                return None;
            }
            for ((loss, past), explained) in losses.iter().zip(own_x).zip(&with_x) {
                worst = worst.max(loss + (past - explained).powi(2) / variance);
            }
        }
        if worst.is_nan() { None } else { Some(worst) }
    }
}

/// Where the state of each place goes: one that was read stays, for all of its shares are known.
fn moves(round: &[Vec<Party>], honest: &[Party], places: &[Option<usize>], seen: &[usize]) -> Moves {
    let mut read = vec![false; honest.len()];
    seen.iter().for_each(|&place| read[place] = true);
    let of = |place: usize| {
        let to = &round[honest[place]];
        let part = 1.0 / (to.len() as f64 + 1.0);
        match read[place] {
            true => vec![(place, 1.0)],
            false => std::iter::once(place)
                .chain(to.iter().filter_map(|&to| places[to]))
                .map(|to| (to, part))
                .collect(),
        }
    };
    (0..honest.len()).map(of).collect()
}

/// The places whose states are not read.
fn hidden_places(count: usize, seen: &[usize]) -> impl Iterator<Item = usize> {
    (0..count).filter(|place| !seen.contains(place))
}

/// What the noise of a hidden state becomes: parts among its receivers, and all but one part taken
/// out of its own party's.
fn noise(place: usize, moves: &Moves) -> Vec<(usize, f64)> {
    moves[place]
        .iter()
        .map(|&(to, part)| (to, if to == place { part - 1.0 } else { part }))
        .collect()
}

/// F A: rows after each has moved, by parts, to others.
fn spread(rows: &Array2<f64>, moves: &Moves) -> Array2<f64> {
    let mut next = Array2::zeros(rows.dim());
    for (row, to) in rows.rows().into_iter().zip(moves) {
        for &(place, part) in to {
            next.row_mut(place).scaled_add(part, &row);
        }
    }
    next
}

/// Fᵀ A.
fn gather(rows: &Array2<f64>, moves: &Moves) -> Array2<f64> {
    let mut next = Array2::zeros(rows.dim());
    for (mut row, from) in next.rows_mut().into_iter().zip(moves) {
        for &(place, part) in from {
            row.scaled_add(part, &rows.row(place));
        }
    }
    next
}
