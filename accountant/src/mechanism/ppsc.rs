//! PPSC (Algorithm 1): the value comes in before round 1. A party that sends hands out its whole
//! state less a fresh noise γ, which it keeps; that share is called ω.

use undertone_protocol::topology::party::Party;

use crate::losses::loss::Noise;
use crate::mechanism::flow::{Row, Sending, combined, led_out};
use crate::mechanism::places::{self, Held};
use crate::mechanism::rules::{Format, Rules, Sends};
use crate::mechanism::unfit::Unfit;

/// Numbers that the final states may take at most (128 MiB), which also bounds the factorisation of
/// the view.
const LARGEST_VIEW: usize = 1 << 24;

/// The product of parties and iterations at most: an execution keeps who is there and who sends in
/// each.
const LARGEST_SCHEDULE: usize = 1 << 22;

/// PPSC's rules.
#[derive(Debug)]
pub(super) struct Ppsc;

impl Rules for Ppsc {
    fn check_size(&self, parties: usize, rounds: usize, shares: usize) -> Result<(), Unfit> {
        let view = parties
            .checked_add(shares)
            .and_then(|unknowns| unknowns.checked_mul(parties));
        if view.is_none_or(|size| size > LARGEST_VIEW) {
            return Err(Unfit::TooLarge {
                place: "parties",
                size: "parties · (parties + edges)",
                most: LARGEST_VIEW,
            });
        }
        if parties
            .checked_mul(rounds)
            .is_none_or(|size| size > LARGEST_SCHEDULE)
        {
            return Err(Unfit::TooLarge {
                place: "edges",
                size: "parties · iterations",
                most: LARGEST_SCHEDULE,
            });
        }
        Ok(())
    }

    fn check_receivers(&self, from: Party, receivers: usize) -> Result<(), Unfit> {
        if receivers > 1 {
            return Err(Unfit::Receivers { from });
        }
        Ok(())
    }

    fn noises(&self, _rounds: usize, hand_outs: usize) -> usize {
        hand_outs
    }

    fn format(&self) -> Format {
        Format::Exchanges
    }

    fn hands_over(&self) -> bool {
        true
    }

    /// A state is only handed out whole: when a share joins it between two hand-outs changes
    /// nothing, so that only the last round of each such stretch counts.
    fn tells_apart(&self, sends: &Sends, party: Party, round: u32) -> bool {
        sends
            .get(round as usize)
            .is_none_or(|next| !next[party].is_empty())
    }

    fn joins_at_once(&self, sends: &Sends, party: Party, round: u32, applied: u32) -> bool {
        (round..applied).all(|later| sends[later as usize][party].is_empty())
    }

    fn held(&self, sends: &Sends) -> Option<Vec<Held>> {
        Some(places::finals(sends))
    }

    fn square_before_publishing(&self, _rounds: usize, hand_outs: usize, ratio: f64) -> Result<f64, Unfit> {
        Ok(hand_outs_seen(hand_outs, ratio))
    }

    /// A party's own noise, σ*, may be 0 here.
    fn loss_before_publishing(
        &self,
        _rounds: usize,
        hand_outs: usize,
        sensitivity: f64,
        noise: Noise,
    ) -> Result<f64, Unfit> {
        Ok(sensitivity * loss_of_hand_outs(hand_outs, noise))
    }

    fn cut_off_by_closed_form(&self) -> bool {
        true
    }

    fn may_reveal_sums(&self) -> bool {
        true
    }

    /// K ≤ h(1 + D), h the most hand-outs of a party.
    fn cost_of_moving(&self, sends: &Sends, depth: f64) -> Option<f64> {
        let parties = sends.first().map_or(0, Vec::len);
        let hand_outs = |party: Party| sends.iter().filter(|round| !round[party].is_empty()).count();
        let most = (0..parties).map(hand_outs).max()?;
        Some(most as f64 * (1.0 + depth))
    }

    /// After each hand-over its sender's γ makes up for what of a it has not led out: a − F.
    fn noise_changes(&self, parties: usize, rounds: usize, sendings: &[Sending]) -> Option<Vec<Row>> {
        let all: Vec<Row> = (0..parties)
            .map(|party| led_out(sendings, party, rounds as u32))
            .collect();
        let of_sending = |(index, sending): (usize, &Sending)| {
            // What arrives in its own round joins after the hand-over.
            let before = led_out(sendings, sending.from, sending.round - 1);
            combined([
                (1.0, &all[sending.from]),
                (-1.0, &before),
                (-1.0, &vec![(index, 1.0)]),
            ])
        };
        Some(sendings.iter().enumerate().map(of_sending).collect())
    }

    fn claims_against_readers(&self) -> bool {
        true
    }

    fn must_cover(&self) -> bool {
        true
    }

    fn local_noise_must_be_accepted(&self) -> bool {
        true
    }
}

/// The loss μ at unit sensitivity of a party of whose hand-outs so many are seen, and not its
/// final.
fn loss_of_hand_outs(seen: usize, noise: Noise) -> f64 {
    match seen {
        0 => 0.0,
        k => 1.0 / (noise.independent_std.powi(2) + noise.correlated_std.powi(2) / k as f64).sqrt(),
    }
}

/// Returns the squared loss μ², at σ* = 1 and unit sensitivity, of a party when k of its hand-outs
/// are seen but its final is not: 1/(1 + r/k) for r = σ_γ²; 0 for k = 0.
///
/// **Theorem.** With k the hand-outs of party i in the schedule, μᵢ² ≤ Δᵢ²/(σ*² + σ_γ²/k) for all
/// that any coalition learns before i's final leaves, whatever it does and whatever becomes of
/// shares.
///
/// *Proof.* Until its final nothing leaves i but ω₁, …, ω_k (fewer, if it departs). Give them all
/// to the adversary, with all that others hold; everything else that it can see is then a function
/// of that, and of noise that is not i's. Between two hand-outs i's state is γ of the last one (x̃ᵢ
/// before the first) plus what joined since, a_j: shares of others, and earlier ω_l that came back.
/// So ω₁ = x̃ᵢ + a₁ − γ₁ and ω_j = γ_{j−1} + a_j − γ_j, where a_j is a function of what the
/// adversary knows by then. All that it learns of x̃ᵢ is thus a function of x̃ᵢ − γ₁ and γ_{j−1} −
/// γ_j, that is of x̃ᵢ − γ_j, j = 1…k. Their noises are independent given x̃ᵢ: together they see it
/// through N(0, σ*² + σ_γ²/k). ∎
///
/// For a party that is cut off, k is the number of its hand-outs to the coalition. Its hand-outs to
/// honest parties go back to it unread, which restores its earlier state, with γ. A party that is
/// not cut off may lose more, where a share that an honest party accepted is handed on to the
/// coalition.
fn hand_outs_seen(seen: usize, ratio: f64) -> f64 {
    if seen == 0 {
        0.0
    } else {
        1.0 / (1.0 + ratio / seen as f64)
    }
}
