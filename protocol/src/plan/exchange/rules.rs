//! Rules of every exchange: [`Rules`] before its number of rounds is known, [`Planned`] after.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::grid::{LatticeError, Travel};
use crate::lattice::injection::InjectionError;
use crate::lattice::payload::Ratio;
use crate::plan::error::DraftError;
use crate::plan::exchange::injector::Mechanism;
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::problem::Checked;
use crate::plan::run_file::settings::Privacy;
use crate::plan::shares::ShareCounts;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// The graph, the settings and the rounds that a schedule is drawn for.
#[derive(Clone, Copy)]
pub struct Occasion<'a> {
    /// The graph of the parties that may exchange shares.
    pub private_graph: &'a Graph,
    /// The numbers of parties that may collude or depart.
    pub privacy: &'a Privacy,
    /// The number of rounds T.
    pub rounds: u32,
}

/// The rules of an exchange about settings, graphs and schedules.
pub trait Rules: Sync {
    /// The largest number of rounds T.
    fn most_rounds(&self) -> u32;

    /// Refuses settings out of range, of a run of so many parties.
    fn check(&self, parties: usize) -> Checked;

    /// Refuses settings for which no claim about coalitions that form before the schedule is drawn
    /// (`coalitions = "static"`) can be computed yet.
    fn check_static(&self) -> Checked;

    /// Refuses a private graph on which somebody's value would not be hidden.
    fn check_private_graph(&self, graph: &NamedGraph<'_>) -> Result<(), DraftError>;

    /// The key of a plan's `mechanism` that has the standard deviation of the noise that cancels in
    /// the sum; `None` if there is none, or it is uniform and has no scale.
    fn correlated_key(&self) -> Option<&'static str>;

    /// Refuses rounds that no lattice carries, before any work is done for them.
    fn check_rounds(&self, rounds: u32) -> Result<(), LatticeError>;

    /// Whether states of fewer rounds fit on a lattice on which those of more do not.
    fn rounds_widen_states(&self) -> bool;

    /// Returns the numbers of parties that each may send to in a round.
    fn sent_a_round(&self) -> RangeInclusive<usize>;

    /// Returns the schedule drawn from `seed`, or the pairs that have a mask in common, where there
    /// are no shares. `None` if a party has too few neighbours, or there is nothing of so many
    /// rounds.
    fn draw(&self, occasion: &Occasion<'_>, seed: u64) -> Option<Schedule>;

    /// Whether parties mix: exchange shares, round by round. Else a schedule says who has a mask in
    /// common with whom.
    fn mixes(&self) -> bool {
        true
    }

    /// The number of rounds, where it follows from how many there are and may be against a party.
    fn rounds(&self, _parties: usize, _privacy: &Privacy) -> Option<u32> {
        None
    }

    /// The mechanism of `rounds` rounds; refused if an injection that the settings spell out is not
    /// valid or for another number of rounds.
    fn planned(&self, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError>;
}

/// The rules of an exchange whose rounds are known, for lattice, mixing machine and reader.
pub trait Planned: Debug + Send + Sync {
    /// Returns the way in which values travel, in a run with these numbers of shares.
    fn travel(&self, shares: &ShareCounts) -> Travel<'_>;

    /// Returns the mechanism by which value and noise get into the states of `party`.
    fn injector(&self, schedule: &Schedule, party: Party) -> Mechanism<Ratio>;

    /// Returns the number of iterations of a schedule on this private graph; `None` where rounds
    /// are all there is.
    fn iterations(&self, private_graph: &Graph, schedule: &Schedule) -> Option<u32>;
}
