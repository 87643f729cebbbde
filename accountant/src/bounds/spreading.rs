//! A bound on what any coalition learns of a party, without going through the coalitions.
//!
//! **Theorem.** Fix an execution of PPSC by its exchanges and their fates, a coalition C and a
//! party v outside of it, all finals seen. Let M be m > 1 parties outside of C, v among them, and
//! let each u ≠ v of M have ways from v to u along exchanges between parties outside of C whose ω
//! joined its in-agent, with shares that add up to 1. Then
//!
//! μ_v² ≤ Δ_v² (1/(m σ*²) + 1/(σ*² m/(m − 1) + σ_γ²/K)), K = Σ s_v(τ)² + Σ_{j ≠ v} h_j s_j²,
//!
//! where h_j counts the hand-outs of j, s_j is 1/m times the shares of all ways through j or to j,
//! and s_v(τ), τ over the hand-outs of v, is 1/m times the shares of all ways that have not left v
//! after that hand-out.
//!
//! *Proof.* With M the noises of the view in their standard deviations, μ_v²/Δ_v² = h_vᵀ(MMᵀ)⁺h_v
//! is the least ‖z‖² with Mz = h_v: the least change of noises that does to the view what a change
//! of v's value by 1 does. So *each* change of noises that leaves the view as it was, after v's
//! value has changed by 1, is an upper bound. Let x̃_v change by a (m − 1)/m in all and the other
//! x̃ of M by −a/m: that takes changes of η* of squares (1/m + (1 − a)² (m − 1)/m)/σ*² in all. Let
//! ω of an exchange change by a/m times the shares of the ways along it, to the in-agent or from
//! it, as the way leads, and let all ω that C reads or sends and all that did not join their
//! in-agent stay as they were. What a party holds then changes by what has arrived along ways less
//! what has left along them; once all is done by 0, so that no final changes. A party j is entered
//! and left by each way through it, in whichever order, and so is never off by more than a s_j; v
//! is off by a s_v(τ) once it has handed out in τ. What a party holds after a hand-out, less what
//! has joined since, is γ: these change by that much and no more, a² K/σ_γ² in all. Choose a =
//! A/(A + K/σ_γ²), A = (m − 1)/(m σ*²): the two sums are 1/(mσ*²) + 1/(1/A + σ_γ²/K). ∎
//!
//! With K → ∞ that is the theorem of local noise, 1/σ*²; with σ_γ → ∞ it is 1/(mσ*²), the least
//! that there can be. σ_γ costs the mean nothing.
//!
//! **For every coalition at once.** For each v, [`Spreading`] looks for ways from v to each u of
//! which no two share a party in between: a coalition of s parties takes away s of them at most (of
//! exchanges between v and u none), and an exchange that comes back or arrives late one (none where
//! each pair on a way meets twice). T are the parties u of whom some ways then remain, q_u at
//! least. Whatever happens, |T| − s of these are not in the coalition: M are v and so many,
//! m = |T| + 1 − s, and each u sends its share over q_u of its remaining ways evenly. (Menger: if
//! no s + 1 parties part the exchanges, m = n − s.) K is then at most, over everything that can be
//! taken away,
//!
//! Σ_τ (1/m Σ_u min(1, late_u(τ)/q_u))² + 1/m Σ_u (h_u A_u + the mean over the q_u costliest ways
//! of Σ_j h_j A_j, j in between),
//!
//! the sums over those m − 1 of T for which they are largest, late_u(τ) the ways to u that leave v
//! after τ, A_j = 1/m + 1/m Σ_u 1/q_u over all u with a way through j (no more than one each): A_j
//! ≥ s_j, and Σ_j h_j s_j² ≤ Σ_j h_j s_j A_j, which is linear in the shares. More ways leave v
//! later and burden others less, so that K is computed for a few q and the best is taken at each
//! σ_γ.
//!
//! By Theorem R departures join the coalition. Exchanges that fail hold nothing here but still
//! count as hand-outs. So this holds for the tolerated class with s = colluding + dropouts and one
//! exchange that fails, and for what has happened with s = colluding and no other: every execution
//! is its own theorem.
//!
//! *How close it is.* The tests compare it with every coalition of small runs: it is never below,
//! and reaches 0.99 of some. With 200 parties on a complete graph, one colluder and one departure,
//! K is at most 10.2 (T = 60): at σ_γ = 100 σ* μ² is 1.20 times 1/(198 σ*²).

pub(super) mod detours;

use undertone_protocol::topology::party::Party;

use crate::bounds::spreading::detours::{Exchanges, Family, Work};
use crate::class::setting::Setting;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::losses::loss::scaled;
use crate::parallel::in_parallel;

/// Ways that each u's share is split over, if that many remain; K is computed for each of these:
/// more ways leave later and burden others less, and between two of these numbers K hardly differs.
/// Our choice.
const SPLITS: [usize; 5] = [1, 2, 4, 8, 16];

/// Steps of the searches for ways, and of what is made of them: our choice, some three seconds of
/// two cores. Enough for about 400 parties.
const MOST_STEPS: u64 = 500_000_000;

/// How far a change of one party's value can be spread, whoever is in the coalition.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    /// m: parties that share their noise with it, itself among them.
    among: usize,
    /// K: what the γ give away.
    kept: f64,
}

impl Spread {
    /// The theorem's μ² at Δ = 1, σ* = 1 and r = σ_γ².
    fn square(&self, ratio: f64) -> f64 {
        let among = self.among as f64;
        // K = 0: nothing stays with anybody, and r/K is infinite.
        1.0 / among + 1.0 / (among / (among - 1.0) + ratio / self.kept)
    }
}

/// The theorem for each party, whoever colludes.
#[derive(Debug, Clone, PartialEq)]
pub struct Spreading {
    /// One for each split; none where a party may be left alone: its noise is local.
    of_party: Vec<Vec<Spread>>,
}

impl Spreading {
    /// Against every coalition of `size` parties that `counts` says may be honest, joined by all
    /// others, with `failing` ≤ 1 more exchanges that do not arrive as they do in `execution`. All
    /// finals count as seen. Everybody may be left alone where it would take too long to say more.
    pub fn of(
        execution: &Execution,
        counts: impl Fn(Party) -> bool + Sync,
        size: usize,
        failing: usize,
    ) -> Self {
        // Of what has happened more: a plan that was bounded shall not fail at the gate because
        // departures make ways harder to find.
        let most = if failing == 0 { 2 * MOST_STEPS } else { MOST_STEPS };
        let exchanges = Exchanges::of(execution, &counts, Work::at_most(most));
        let parties = execution.parties();
        let hand_outs: Vec<Vec<u32>> = (0..parties).map(|party| hand_outs(execution, party)).collect();
        let of_party = in_parallel(parties, |v| {
            if exchanges.partners_of(v) <= size {
                return Some(vec![]);
            }
            let honest = (0..parties).filter(|&u| u != v && counts(u) && counts(v));
            let families: Vec<(Party, Family)> = honest
                .filter_map(|u| exchanges.family(v, u, size, failing).map(|family| (u, family)))
                .collect();
            let among = (families.len() + 1).saturating_sub(size);
            let ways: usize = families.iter().map(|(_, family)| family.ways().len()).sum();
            exchanges.work().add(SPLITS.len() * hand_outs[v].len() * ways);
            if exchanges.work().is_too_much() {
                return Some(vec![]);
            }
            let split = |&split: &usize| spread(&leaving(&families, split, size), v, &hand_outs, among);
            Some(if among > 1 {
                SPLITS.iter().map(split).collect()
            } else {
                vec![]
            })
        });
        match exchanges.work().is_too_much() {
            true => Spreading {
                of_party: vec![vec![]; parties],
            },
            false => Spreading { of_party },
        }
    }

    /// Whether the theorem is about runs of this setting.
    pub fn speaks_of(setting: &Setting) -> bool {
        setting.mechanism.rules().bounded_by_spreading() && setting.rollback
    }

    /// For the tolerated class; none for other mechanisms, and where some party may be left alone.
    pub fn of_class(setting: &Setting) -> Result<Option<Self>, ExecutionError> {
        if !Self::speaks_of(setting) {
            return Ok(None);
        }
        let (run, size) = (setting.fault_free()?, setting.coalition_size());
        let exchanges = Exchanges::of(&run, |_| true, Work::at_most(MOST_STEPS));
        if (0..setting.parties()).any(|party| exchanges.partners_of(party) <= size) {
            return Ok(None);
        }
        let spreading = Self::of(&run, |_| true, size, 1);
        Ok(Some(spreading).filter(|spreading| spreading.alone().is_none()))
    }

    /// The first party that may be left alone: nothing better than local noise is known of it.
    pub fn alone(&self) -> Option<Party> {
        self.of_party.iter().position(Vec::is_empty)
    }

    /// m and K of `party` where K is least; none if it may be left alone.
    pub fn among(&self, party: Party) -> Option<(usize, f64)> {
        let least = self.of_party[party]
            .iter()
            .min_by(|a, b| a.kept.total_cmp(&b.kept));
        least.map(|spread| (spread.among, spread.kept))
    }

    /// μ² of `party` at Δ = 1, σ* = 1 and r = σ_γ²/σ*², never below the true one: at most 1.
    pub fn square(&self, party: Party, ratio: f64) -> f64 {
        self.of_party[party]
            .iter()
            .map(|spread| spread.square(ratio))
            .fold(1.0, f64::min)
    }

    /// The largest Δ²-scaled one of parties that count, and whose it is.
    pub fn worst(&self, sensitivity: &[f64], ratio: f64, counts: impl Fn(Party) -> bool) -> (f64, Party) {
        let squares = sensitivity.iter().enumerate().filter(|(party, _)| counts(*party));
        let squares = squares.map(|(party, &delta)| (scaled(delta, self.square(party, ratio)), party));
        squares.fold(
            (0.0, 0),
            |worst, square| if square.0 > worst.0 { square } else { worst },
        )
    }
}

/// The rounds in which a party is due to hand out.
fn hand_outs(execution: &Execution, party: Party) -> Vec<u32> {
    (1..=execution.rounds() as u32)
        .filter(|&round| !execution.out(round, party).is_empty())
        .collect()
}

/// The first ways of each family, as few as leave `split` against `size` parties, and how many of
/// them are sure to remain.
fn leaving(families: &[(Party, Family)], split: usize, size: usize) -> Vec<(Party, Family, f64)> {
    let first = |(u, family): &(Party, Family)| {
        let family = family.leaving(split, size);
        let remaining = family.remaining(size) as f64;
        (*u, family, remaining)
    };
    families.iter().map(first).collect()
}

/// m and K for ways to the `families`' parties, each share split over the ways that remain.
fn spread(families: &[(Party, Family, f64)], v: Party, hand_outs: &[Vec<u32>], among: usize) -> Spread {
    let share = 1.0 / among as f64;
    // The sum over those of T for which it is largest.
    let over_most = |mut each: Vec<f64>| {
        each.sort_by(|a, b| b.total_cmp(a));
        share * each.iter().take(among - 1).sum::<f64>()
    };
    let late = |round: u32| {
        let of_family = |(_, family, remaining): &(Party, Family, f64)| {
            let late = family.ways().iter().filter(|way| way.left_by > round).count();
            (late as f64 / remaining).min(1.0)
        };
        over_most(families.iter().map(of_family).collect())
    };
    let own: f64 = hand_outs[v].iter().map(|&round| late(round).powi(2)).sum();
    // A_j, and with h_j what a way through j costs.
    let mut burden = vec![0.0; hand_outs.len()];
    for (u, family, remaining) in families {
        burden[*u] += share;
        family
            .ways()
            .iter()
            .flat_map(|way| &way.through)
            .for_each(|&j| burden[j] += share / remaining);
    }
    let cost = |j: Party| hand_outs[j].len() as f64 * burden[j].min(1.0);
    let of_family = |(u, family, remaining): &(Party, Family, f64)| {
        let mut ways: Vec<f64> = family
            .ways()
            .iter()
            .map(|way| way.through.iter().map(|&j| cost(j)).sum())
            .collect();
        ways.sort_by(|a: &f64, b| b.total_cmp(a));
        cost(*u) + ways.iter().take(*remaining as usize).sum::<f64>() / remaining
    };
    Spread {
        among,
        kept: own + over_most(families.iter().map(of_family).collect()),
    }
}

#[cfg(test)]
mod tests;
