//! From the kind that a run file names to the rules of its mechanism.

use crate::plan::mechanism::inca::Inca;
use crate::plan::mechanism::pairwise::Pairwise;
use crate::plan::mechanism::ppsc::Ppsc;
use crate::plan::mechanism::rules::Rules;
use crate::plan::run_file::problem::{Checked, Problem, refuse};
use crate::plan::run_file::settings::MechanismKind;

impl MechanismKind {
    /// What this mechanism answers for itself.
    pub fn rules(self) -> &'static dyn Rules {
        match self {
            MechanismKind::Inca => &Inca,
            MechanismKind::Ppsc => &Ppsc,
            MechanismKind::Pairwise => &Pairwise,
            // No plan carries it yet ([`MechanismKind::check_carried`]); what a run file says of it
            // is read as INCA's.
            MechanismKind::Gossip => &Inca,
        }
    }

    /// Refuses kinds that a run file may name and that this version's plans do not carry.
    pub(crate) fn check_carried(self) -> Checked {
        match self {
            MechanismKind::Gossip => refuse(
                "mechanism.kind",
                Problem::NotYet {
                    found: "\"gossip\"",
                    instead: "\"inca\", \"ppsc\" or \"pairwise\"",
                },
            ),
            _ => Ok(()),
        }
    }
}
