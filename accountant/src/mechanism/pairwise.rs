//! Masks of pairs: each is a noise that two parties expand from a key that they have in common. One
//! deducts it from its value, the other adds it, before their vectors leave sealed. For whoever
//! accounts for a run it is a share that always arrived.

use undertone_protocol::topology::party::Party;

use crate::mechanism::rules::{Format, Rules};
use crate::mechanism::unfit::Unfit;

/// The product of parties and rounds at most: an execution keeps who has masks with whom in each.
const LARGEST_SCHEDULE: usize = 1 << 22;

/// The rules of masks of pairs.
#[derive(Debug)]
pub(super) struct Pairwise;

impl Rules for Pairwise {
    fn check_size(&self, parties: usize, rounds: usize, _shares: usize) -> Result<(), Unfit> {
        let size = parties.checked_mul(rounds);
        if size.is_none_or(|size| size > LARGEST_SCHEDULE) {
            return Err(Unfit::TooLarge {
                place: "masks",
                size: "parties · rounds",
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
        Format::Masks
    }

    /// Masks are seen, and no state before the final.
    fn hands_over(&self) -> bool {
        true
    }

    fn shares_travel(&self) -> bool {
        false
    }

    /// Nothing leaves before the finals.
    fn square_before_publishing(&self, _rounds: usize, _hand_outs: usize, _ratio: f64) -> Result<f64, Unfit> {
        Ok(0.0)
    }

    fn cut_off_by_closed_form(&self) -> bool {
        true
    }
}
