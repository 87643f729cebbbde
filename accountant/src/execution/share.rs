//! The fate of one share.

use serde::{Deserialize, Serialize};
use undertone_protocol::topology::party::Party;

/// The fate of a share's mass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// The mass joined its receiver.
    Accepted,
    /// The sender took it back.
    Returned,
    /// The mass joined nobody.
    Lost,
}

/// One share that did not simply arrive in its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareFault {
    /// The round in which it was sent, from 1.
    pub round: u32,
    /// The party that sent the share.
    pub from: Party,
    /// The party that it was sent to.
    pub to: Party,
    /// The fate of its mass.
    pub fate: Fate,
    /// The round at whose end the mass joins the receiver or the sender again: `round`, if nothing
    /// is given, or a later one; past the last means the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<u32>,
    /// Whether the receiver may have read it.
    #[serde(default = "yes")]
    pub seen: bool,
}

/// For keys that are true where nothing is written.
pub(crate) fn yes() -> bool {
    true
}

/// How one share fared: its exception, or what follows from who was online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareOutcome {
    /// The fate of its mass.
    pub fate: Fate,
    /// The round at whose end the mass joins somebody: that in which it was sent, or a later one.
    pub applied: u32,
    /// Whether the receiver may have read it.
    pub seen: bool,
}
