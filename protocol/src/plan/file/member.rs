//! The members in PLAN.json.

use libp2p_identity::PeerId;
use serde::{Deserialize, Serialize};

use crate::plan::draft::Member;
use crate::plan::error::PlanError;
use crate::plan::peers::{Peer, PeerProblem};

/// A party of the plan, as the file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemberFile {
    name: String,
    id: String,
    private: String,
    public: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) weight: Option<f64>,
    pub(super) sensitivity: f64,
}

impl From<&Member> for MemberFile {
    fn from(member: &Member) -> Self {
        MemberFile {
            name: member.name.clone(),
            id: member.id.to_base58(),
            private: member.private.to_string(),
            public: member.public.to_string(),
            weight: member.weight,
            sensitivity: member.sensitivity,
        }
    }
}

impl MemberFile {
    /// Returns the peer as the peer list described it.
    pub(super) fn peer(&self, index: usize) -> Result<Peer, PlanError> {
        let refuse = |key, problem| PlanError::Member { index, key, problem };
        let id = self
            .id
            .parse::<PeerId>()
            .map_err(|_| refuse("id", PeerProblem::Id))?;
        if id.to_base58() != self.id {
            return Err(refuse("id", PeerProblem::Id));
        }
        Ok(Peer {
            name: self.name.clone(),
            id,
            private: self
                .private
                .parse()
                .map_err(|e| refuse("private", PeerProblem::Address(e)))?,
            public: self
                .public
                .parse()
                .map_err(|e| refuse("public", PeerProblem::Address(e)))?,
        })
    }
}
