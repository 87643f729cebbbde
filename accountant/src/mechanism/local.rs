//! Local noise: nobody sends anything, a final is its party's value with its own noise. A third
//! mechanism, for tests.

use crate::mechanism::rules::{Format, Rules, Sends};
use crate::mechanism::unfit::Unfit;

/// The rules of local noise.
#[derive(Debug)]
pub(super) struct Local;

impl Rules for Local {
    fn check_size(&self, _parties: usize, _rounds: usize, _shares: usize) -> Result<(), Unfit> {
        Ok(())
    }

    fn check_receivers(&self, from: usize, receivers: usize) -> Result<(), Unfit> {
        if receivers > 0 {
            return Err(Unfit::Receivers { from });
        }
        Ok(())
    }

    /// A party's own noise never cancels, and there is no other.
    fn noises(&self, _rounds: usize, _hand_outs: usize) -> usize {
        0
    }

    fn format(&self) -> Format {
        Format::Exchanges
    }

    /// A state never leaves its party before the final.
    fn hands_over(&self) -> bool {
        true
    }

    fn share_faults(&self, _sends: &Sends, _lost: bool) -> usize {
        0
    }

    /// Nothing is seen before the finals.
    fn square_before_publishing(&self, _rounds: usize, _hand_outs: usize, _ratio: f64) -> Result<f64, Unfit> {
        Ok(0.0)
    }

    fn cut_off_by_closed_form(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
