//! The members in PLAN.json.

use serde::{Deserialize, Serialize};

use crate::plan::draft::Member;
use crate::plan::error::PlanError;
use crate::plan::peers::Peer;
use crate::plan::peers::contact::Contact;
use crate::plan::peers::entry::id;

/// A party of the plan, as the file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemberFile {
    name: String,
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    private: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    relay: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) weight: Option<f64>,
    pub(super) sensitivity: f64,
}

impl From<&Member> for MemberFile {
    fn from(member: &Member) -> Self {
        let (private, at) = member.contact.keys_at();
        MemberFile {
            name: member.name.clone(),
            id: member.id.to_base58(),
            private,
            at,
            public: member.contact.public.as_ref().map(|address| address.to_string()),
            relay: member.contact.relay,
            weight: member.weight,
            sensitivity: member.sensitivity,
        }
    }
}

impl MemberFile {
    /// Returns the peer as the peer list described it.
    pub(super) fn peer(&self, index: usize) -> Result<Peer, PlanError> {
        let refuse = |(key, problem)| PlanError::Member { index, key, problem };
        let (private, public) = (self.private.as_deref(), self.public.as_deref());
        let contact = Contact::of_keys(private, self.at.as_deref(), public, self.relay);
        Ok(Peer {
            name: self.name.clone(),
            id: id(&self.id).map_err(refuse)?,
            contact: contact.map_err(refuse)?,
            // Lists have it, and no plan: a revocation holds whatever the plan.
            recovery: None,
        })
    }
}
