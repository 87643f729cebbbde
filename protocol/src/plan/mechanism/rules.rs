//! What every mechanism answers for itself: [`Rules`] before its number of rounds is known,
//! [`Planned`] after.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::grid::{LatticeError, Travel};
use crate::lattice::injection::InjectionError;
use crate::lattice::payload::Ratio;
use crate::plan::error::DraftError;
use crate::plan::mechanism::ways_in::Mechanism;
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::problem::Checked;
use crate::plan::run_file::settings::{MechanismSettings, Privacy};
use crate::plan::shares::ShareCounts;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// What a schedule is drawn for.
#[derive(Clone, Copy)]
pub struct Occasion<'a> {
    /// Who may exchange shares.
    pub private_graph: &'a Graph,
    /// How noise is shared out.
    pub settings: &'a MechanismSettings,
    /// How many may collude or depart.
    pub privacy: &'a Privacy,
    /// The number of rounds T.
    pub rounds: u32,
}

/// What a mechanism says of settings, graphs and schedules.
pub trait Rules: Sync {
    /// The largest number of rounds T.
    fn most_rounds(&self) -> u32;

    /// Refuses settings that make no sense with this mechanism. What holds of every mechanism has
    /// been checked before.
    fn check(&self, settings: &MechanismSettings) -> Checked;

    /// Refuses settings for which no claim about coalitions that form before the schedule is drawn
    /// (`coalitions = "static"`) can be computed yet.
    fn check_static(&self, settings: &MechanismSettings) -> Checked;

    /// Refuses a private graph on which somebody's value would not be hidden.
    fn check_private_graph(&self, graph: &NamedGraph<'_>) -> Result<(), DraftError>;

    /// The keys of a plan's `mechanism` that this mechanism has, without those that all have.
    fn keys(&self) -> &'static [&'static str];

    /// Which of these has the standard deviation of the noise that cancels in the sum.
    fn correlated_key(&self) -> &'static str;

    /// Refuses rounds that no lattice carries, before any work is done for them.
    fn check_rounds(&self, fanout: u32, rounds: u32) -> Result<(), LatticeError>;

    /// Whether states of fewer rounds fit on a lattice on which those of more do not.
    fn rounds_widen_states(&self) -> bool;

    /// To how many parties each sends in a round, with a fan-out of `fanout`.
    fn sent_a_round(&self, fanout: usize) -> RangeInclusive<usize>;

    /// Who sends to whom, drawn from `seed`; who has a mask in common with whom, where there are no
    /// shares. None if a party has too few neighbours, or there is nothing of so many rounds.
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
    fn planned(&self, settings: &MechanismSettings, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError>;
}

/// What a mechanism whose rounds are known says to lattice, mixing machine and reader.
pub trait Planned: Debug + Send + Sync {
    /// How values travel, in a run with so many shares.
    fn travel(&self, shares: &ShareCounts) -> Travel<'_>;

    /// How value and noise get into the states of `party`.
    fn way_in(&self, schedule: &Schedule, party: Party) -> Mechanism<Ratio>;

    /// How many iterations a schedule on this private graph has; none where rounds are all there
    /// is.
    fn iterations(&self, private_graph: &Graph, schedule: &Schedule) -> Option<u32>;
}
