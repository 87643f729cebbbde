//! From the kind that a run file names to the rules of its mechanism.

use crate::plan::mechanism::gossip::Gossip;
use crate::plan::mechanism::inca::Inca;
use crate::plan::mechanism::pairwise::Pairwise;
use crate::plan::mechanism::ppsc::Ppsc;
use crate::plan::mechanism::rules::Rules;
use crate::plan::run_file::settings::MechanismKind;

impl MechanismKind {
    /// What this mechanism answers for itself.
    pub fn rules(self) -> &'static dyn Rules {
        match self {
            MechanismKind::Inca => &Inca,
            MechanismKind::Ppsc => &Ppsc,
            MechanismKind::Pairwise => &Pairwise,
            MechanismKind::Gossip => &Gossip,
        }
    }
}
