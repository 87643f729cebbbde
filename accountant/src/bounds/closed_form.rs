//! Bounds on the loss under Gaussian correlated noise, for every coalition at once. They are a
//! closed form of the connectivity of the parties that share with each other.
//!
//! **Theorem C.** INCA with fan-out 1, or PPSC; C are those who collude or departed (with roll-back
//! by Theorem R; without it because who knows all that a departed party held, and what it would
//! have sent, knows no less than what it did send), the schedule and the fates of shares among the
//! others are chosen without their hidden values. A share is usable if both its ends are outside of
//! C and it became part of its receiver's state, in whichever round. Let M be m parties outside of
//! C that usable shares join, v among them, and let a flow f along usable shares lead out of each j
//! of M a_j = 1[j = v] − 1/m in all. With F_jt what has left j net before its split of round t + 1,
//! and s_jt = 2f of the share that it then sends (0 if that is not usable), for D_Inc and c̄_t =
//! (t + 1)/(T + 1):
//!
//! μ_v² ≤ Δ_v² (1/(m σ*²) + 1/(m σ*²/(m − 1) + σ_Δ²/E)), E = Σ (s_jt + F_jt − c̄_t a_j)²
//!
//! over all j and t < T, and for PPSC the same with K = Σ_j Σ_τ (a_j − F_jτ)² in place of E, τ
//! over the hand-outs of j.
//!
//! *Proof.* μ_v²/Δ_v² is the least ‖change of the noises‖², each in its standard deviations, that
//! does to the view what changing v's value by 1 does: so every change of noises that leaves the
//! view as it was when v's value changes by 1 is an upper bound. Let x̃ of M change by α a_j: η* of
//! v by α a_v − 1, that of the others by α a_j, in squares over σ*² 1/m + (1 − α)²(m − 1)/m. Let
//! each usable share change by α f and every other share not at all. The state that j splits then
//! has to change by α s_jt: half of that leaves and half stays, and F accounts for both. What was
//! injected makes up for α(s_jt + F_jt) − α c̄_t a_j: of the noise η_j that is out after t + 1
//! injections, one for each t, so that exactly one change of j's η does it. With PPSC what stays
//! with j after a hand-out is its γ, which changes by α(a_j − F_jτ). The final changes by
//! α(a_j − F_jT) = 0. Nothing that C sees, sends or injects has changed. The least of (1 − α)²A +
//! α²B over α is 1/(1/A + 1/B). ∎
//!
//! **Closed form.** Let f run along a tree over M from v, of mean depth D: below u lie size_u
//! parties, u among them, and |f| on the edge above u is size_u/m ≤ 1, where Σ_{u ≠ v} size_u/m =
//! D. So Σ s² ≤ 4D, |F_jt| ≤ size_j/m and Σ F² ≤ T(D + 1), Σ c̄²a² ≤ T: with (x + y + z)² ≤ 3(x² +
//! y² + z²) **E ≤ 3(4D + T(D + 1) + T)**. With h hand-outs of a party at most, **K ≤ h(1 + D)**,
//! for |a_j − F_jτ| ≤ size_j/m.
//!
//! **For every coalition at once.** If κ parties at least must be taken away before a piece of n
//! parties falls apart, m = n − s are left of it without any s of them, and they are k = (κ −
//! s)-connected: all layers around v but the last have k parties or more. The sum m D of all depths
//! is thus at most k w(w + 1)/2 + r(w + 1), where w k + r = m − 1 and r < k. Each share that goes
//! astray takes at most one from κ. A larger coalition learns no less, so that what is said of it
//! holds of those with fewer, too.
//!
//! Only sums, products, quotients and roots of IEEE doubles: the same bits on every machine.

use undertone_protocol::plan::claim::ConnectivityBasis;

use crate::bounds::uniform::{Piece, pieces};
use crate::class::setting::Setting;

/// Share faults of the tolerated class: one share between survivors may go astray.
const SHARE_FAULTS: usize = 1;

/// The mean depth D, at most, of a tree of shortest ways from any of so many parties through all of
/// them, if the removal of fewer than `ways` leaves them in one piece; there are more parties than
/// `ways`, and at least one of each.
pub fn mean_depth(parties: usize, ways: usize) -> f64 {
    let (layers, rest) = ((parties - 1) / ways, (parties - 1) % ways);
    (ways * layers * (layers + 1) / 2 + rest * (layers + 1)) as f64 / parties as f64
}

/// The squared loss at own noise σ* = 1 and unit sensitivity, at most, of a party whose value is
/// hidden among `among`, itself one of them, where moving a change among these costs `cost` (E or
/// K) and σ_Δ²/σ*² = `ratio`.
pub fn square(among: usize, cost: f64, ratio: f64) -> f64 {
    if among <= 1 {
        return 1.0;
    }
    let m = among as f64;
    1.0 / m + 1.0 / (m / (m - 1.0) + ratio / cost)
}

/// The squared loss, as that of [`square`], of anybody of a piece against any `removed` of its
/// others: the least that is known, as a larger coalition learns no less. 1, that of local noise,
/// if so many may separate the piece, or no theorem speaks of the setting.
pub fn of_piece(setting: &Setting, piece: Piece, removed: usize, ratio: f64) -> f64 {
    let against = |removed: usize| {
        let among = piece.parties - removed;
        let depth = mean_depth(among, piece.kappa - removed);
        cost(setting, depth).map_or(1.0, |cost| square(among, cost, ratio))
    };
    (removed..piece.kappa).map(against).fold(1.0, f64::min)
}

/// The squared loss, as that of [`square`], of a party that is joined to so many others that they
/// are `among` with itself, however thinly.
pub fn of_chain(setting: &Setting, among: usize, ratio: f64) -> f64 {
    cost(setting, mean_depth(among, 1)).map_or(1.0, |cost| square(among, cost, ratio).min(1.0))
}

/// E or K, at most, of a tree of that mean depth; none if no theorem speaks of the setting.
fn cost(setting: &Setting, depth: f64) -> Option<f64> {
    setting.mechanism.rules().cost_of_moving(&setting.out, depth)
}

/// Whether a theorem speaks of all coalitions of a setting at once.
pub fn speaks_of(setting: &Setting) -> bool {
    !setting.uniform && cost(setting, 1.0).is_some()
}

/// The tolerated class of a setting, by the connectivity of its schedule.
#[derive(Debug, Clone)]
pub struct ConnectedClass {
    pieces: Vec<Piece>,
    basis: ConnectivityBasis,
}

impl ConnectedClass {
    /// None if no theorem speaks of the setting, or if those who may be against a party can cut it
    /// off. Where κ leaves no room for a share fault the class has none, and says so.
    pub fn of(setting: &Setting) -> Option<Self> {
        let removed = setting.coalition_size();
        let mut pieces = pieces(setting, removed).filter(|_| speaks_of(setting))?;
        let kappa = pieces.iter().map(|piece| piece.kappa).min()?;
        let among = pieces.iter().map(|piece| piece.parties).min()? - removed;
        let share_faults = SHARE_FAULTS.min(kappa - removed - 1);
        pieces.iter_mut().for_each(|piece| piece.kappa -= share_faults);
        Some(ConnectedClass {
            pieces,
            basis: ConnectivityBasis {
                kappa,
                removed,
                share_faults,
                among,
            },
        })
    }

    /// The connectivity that the bound rests on.
    pub fn basis(&self) -> ConnectivityBasis {
        self.basis
    }

    /// The largest squared loss of anybody at unit sensitivity, σ* = 1 and σ_Δ²/σ*² = `ratio`.
    pub fn square(&self, setting: &Setting, ratio: f64) -> f64 {
        let of_each = |&piece: &Piece| of_piece(setting, piece, self.basis.removed, ratio);
        self.pieces.iter().map(of_each).fold(0.0, f64::max)
    }

    /// The least squared loss that noise which cancels can lead to, however much: 1 over the fewest
    /// among whom a value is hidden.
    pub fn floor(&self) -> f64 {
        1.0 / self.basis.among as f64
    }
}

#[cfg(test)]
mod tests;
