//! Whether an input fits where the run is.

use crate::run::interface::{Input, InputError};
use crate::run::machine::Run;
use crate::run::phase::RunPhase;

impl Run {
    /// Checks that an input fits.
    ///
    /// # Errors
    /// Our caller's mistake: a peer that the plan does not have, or an answer to no question.
    pub(super) fn check(&self, input: &Input) -> Result<(), InputError> {
        let is_revealing =
            matches!(&self.phase, RunPhase::Gathering(phase) if phase.gathering.is_revealing());
        match *input {
            Input::Connected { peer, .. }
            | Input::Disconnected { peer, .. }
            | Input::Unreachable { peer }
            | Input::Refused { peer }
            | Input::Declined { peer }
            | Input::Unanswered { peer }
            | Input::Public { from: peer, .. }
            | Input::Private { from: peer, .. }
                if peer >= self.config.electorate.parties =>
            {
                Err(InputError::Peer(peer))
            }
            Input::Spent(_) if !matches!(self.phase, RunPhase::Spending(_)) => {
                Err(InputError::NotAsked("Spent"))
            }
            Input::Revealed(_) if !is_revealing => Err(InputError::NotAsked("Revealed")),
            Input::Contribution { .. } if !self.awaits_value() => Err(InputError::NotAsked("Contribution")),
            Input::Verdict(_) if !matches!(self.phase, RunPhase::Auditing(_)) => {
                Err(InputError::NotAsked("Verdict"))
            }
            Input::Recalled(ref recalled)
                if !self
                    .holdings()
                    .is_some_and(|exchange| exchange.has_asked_for(recalled)) =>
            {
                Err(InputError::NotAsked("Recalled"))
            }
            _ => Ok(()),
        }
    }
}
