//! From the kind that a run file names to the rules of its mechanism.

use crate::plan::mechanism::gossip::Gossip;
use crate::plan::mechanism::inca::Inca;
use crate::plan::mechanism::pairwise::Pairwise;
use crate::plan::mechanism::ppsc::Ppsc;
use crate::plan::mechanism::rules::Rules;
use crate::plan::mechanism::sums_of_all::SumsOfAll;
use crate::plan::run_file::gossip::{GossipSettings, SumsChoice};
use crate::plan::run_file::settings::{MechanismKind, MechanismSettings};

impl MechanismKind {
    /// What this mechanism answers for itself; gossip with open messages, if it is that.
    pub fn rules(self) -> &'static dyn Rules {
        match self {
            MechanismKind::Inca => &Inca,
            MechanismKind::Ppsc => &Ppsc,
            MechanismKind::Pairwise => &Pairwise,
            MechanismKind::Gossip => &Gossip { secure: false },
        }
    }

    /// What this mechanism answers for itself, where parties gossip like this.
    pub(in crate::plan) fn rules_with(self, gossip: Option<GossipSettings>) -> &'static dyn Rules {
        match gossip {
            Some(gossip) if gossip.sums_everybody() => &SumsOfAll,
            Some(gossip) if gossip.sums == SumsChoice::Secure => &Gossip { secure: true },
            _ => self.rules(),
        }
    }
}

impl MechanismSettings {
    /// What this mechanism answers for itself.
    pub fn rules(&self) -> &'static dyn Rules {
        self.kind.rules_with(self.gossip)
    }

    /// Whether it is gossip of which everybody reads one sum a round.
    pub fn sums_everybody(&self) -> bool {
        self.gossip.is_some_and(|gossip| gossip.sums_everybody())
    }

    /// Whether it is gossip whose neighbours read sums of each other's messages.
    pub fn sums_neighbours(&self) -> bool {
        self.gossip.is_some_and(|gossip| gossip.sums_neighbours())
    }

    /// Whether it is gossip over edges: each party has a state, and averages what it gets.
    pub fn averages(&self) -> bool {
        self.gossip.is_some_and(|gossip| !gossip.sums_everybody())
    }
}
