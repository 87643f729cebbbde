//! The questions that every mechanism answers for itself.

use std::fmt::Debug;

use undertone_protocol::lattice::injection::Injection;
use undertone_protocol::topology::party::Party;

use crate::losses::loss::Noise;
use crate::mechanism::flow::{Row, Sending};
use crate::mechanism::places::Held;
use crate::mechanism::unfit::Unfit;

/// How the executions of a mechanism are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// EXECUTION.json: rounds of shares.
    Shares,
    /// The format of `account ppsc`: iterations of exchanges.
    Exchanges,
    /// The pairs of parties that have a mask in common.
    Masks,
}

/// A schedule as lists: for each round, for each party, to whom it sends.
pub type Sends = [Vec<Vec<Party>>];

/// The differences between mechanisms, for code that accounts for a run.
///
/// Facts without a method here hold of all mechanisms. Where there is a default, it is INCA's:
/// every state is split in every round.
pub trait Rules: Debug + Send + Sync {
    // What a run is made of.

    /// Refuses runs that are too large to be accounted for; `shares` is how many are sent.
    fn check_size(&self, parties: usize, rounds: usize, shares: usize) -> Result<(), Unfit>;

    /// Refuses a party that sends to so many in one round.
    fn check_receivers(&self, _from: Party, _receivers: usize) -> Result<(), Unfit> {
        Ok(())
    }

    /// How many noises a party draws at most, which cancel in the sum; `hand_outs` is in how many
    /// rounds it sends.
    fn noises(&self, rounds: usize, hand_outs: usize) -> usize;

    /// The injection (c, Z), by which value and noises enter INCA's states; none where there is no
    /// such thing.
    fn injection(&self, _rounds: usize) -> Result<Option<Injection<f64>>, Unfit> {
        Ok(None)
    }

    /// How executions of this mechanism are written.
    fn format(&self) -> Format {
        Format::Shares
    }

    // What its receivers see, and what faults change.

    /// Whether a share is all that its sender has, less a noise that it keeps, and not an equal
    /// part of its state. Then only what is handed over is ever seen, never a state.
    fn hands_over(&self) -> bool {
        false
    }

    /// Whether it matters that `party` gains mass at the end of `round`, and not at that of the
    /// next.
    fn tells_apart(&self, _sends: &Sends, _party: Party, _round: u32) -> bool {
        true
    }

    /// Whether mass that `party` gains at the end of `applied` might as well have come in `round`.
    fn joins_at_once(&self, _sends: &Sends, _party: Party, _round: u32, _applied: u32) -> bool {
        false
    }

    /// Whether shares are sent, so that they may go astray.
    fn shares_travel(&self) -> bool {
        true
    }

    /// Values and noises that each final of a fault-free run holds, where that is known without
    /// running it.
    fn held(&self, _sends: &Sends) -> Option<Vec<Held>> {
        None
    }

    // What a party shows before its final.

    /// The squared loss μ² of a party whose final is not seen, whatever the coalition and the
    /// faults, at unit sensitivity, own noise of variance 1 and noise that cancels of variance
    /// `ratio`; `hand_outs` is in how many rounds it sends.
    fn square_before_publishing(&self, rounds: usize, hand_outs: usize, ratio: f64) -> Result<f64, Unfit>;

    /// The loss μ that [`Rules::square_before_publishing`] squares, at this sensitivity and noise.
    fn loss_before_publishing(
        &self,
        rounds: usize,
        hand_outs: usize,
        sensitivity: f64,
        noise: Noise,
    ) -> Result<f64, Unfit> {
        let ratio = (noise.correlated_std / noise.independent_std).powi(2);
        let square = self.square_before_publishing(rounds, hand_outs, ratio)?;
        Ok(sensitivity * square.sqrt() / noise.independent_std)
    }

    /// Whether the bound before publishing, with the hand-outs to the coalition for `hand_outs`, is
    /// the loss of a party that is cut off from all others: then no view of it is computed.
    fn cut_off_by_closed_form(&self) -> bool {
        false
    }

    // What is claimed, and how noise is found for it.

    /// Whether a plan may add nothing but noise that cancels: then sums stand open.
    fn may_reveal_sums(&self) -> bool {
        false
    }

    /// Returns the largest cost of moving a change of one value along a tree of mean depth `depth`,
    /// in squares of the noise that cancels. This is E or K of [`crate::bounds::closed_form`],
    /// which bounds all coalitions at once. It is `None` where no theorem does.
    fn cost_of_moving(&self, _sends: &Sends, _depth: f64) -> Option<f64> {
        None
    }

    /// By what the noises that cancel have to change, in squares of which it is paid, for a change
    /// of values to move along `sendings` unseen ([`crate::bounds::flows`]). None where no theorem
    /// says it.
    fn noise_changes(&self, _parties: usize, _rounds: usize, _sendings: &[Sending]) -> Option<Vec<Row>> {
        None
    }

    /// Whether a plan also claims what those learn who only read the public graph.
    fn claims_against_readers(&self) -> bool {
        false
    }

    /// Whether more rounds, or fewer who collude, let more of the noise cancel where local noise is
    /// all that a plan has.
    fn gains_from_rounds(&self) -> bool {
        false
    }

    /// Whether a schedule may only be used if those who meet in it are as connected as the private
    /// graph, up to what the threat asks for; the number of rounds follows from that.
    fn must_cover(&self) -> bool {
        false
    }

    /// Whether a run file has to accept that a party may be left with local noise.
    fn local_noise_must_be_accepted(&self) -> bool {
        false
    }
}
