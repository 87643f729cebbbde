//! One close: list, commitments, drawn numbers; then the comparing.

use std::collections::BTreeMap;

use libp2p_identity::PeerId;

use crate::lobby::check_number::{check_number, commitment};
use crate::lobby::confirmed::Confirmed;
use crate::lobby::guest::Numbered;
use crate::messages::lobby::ToGuest;
use crate::plan::peers::Peers;
use crate::plan::peers::number::list_digest;
use crate::time::Time;

/// A close under way.
pub(super) struct LobbyClose {
    pub(super) close: u32,
    list: Peers,
    text: String,
    digest: [u8; 32],
    /// Who takes part, in the list's order.
    pub(super) sitting: Vec<PeerId>,
    pub(super) deadline: Time,
    commitments: BTreeMap<PeerId, [u8; 32]>,
    /// The host's own is here from the start, and leaves it in step 3 only.
    all_drawn: BTreeMap<PeerId, [u8; 32]>,
}

/// A step that is complete, with what is to be said to all who take part.
pub(super) enum CloseStep {
    Commitments(ToGuest),
    Number(ToGuest, Box<Numbered>),
}

impl LobbyClose {
    /// Begins a close, and says what all who sit get.
    pub(super) fn begin(
        (close, list): (u32, Peers),
        sitting: Vec<PeerId>,
        deadline: Time,
        (own, drawn): (PeerId, [u8; 32]),
    ) -> (Self, ToGuest) {
        let text = list.to_toml();
        let digest = list_digest(text.as_bytes());
        let peers = list.as_slice().iter();
        let names = peers.filter(|peer| sitting.contains(&peer.id));
        let message = ToGuest::List {
            close,
            list: text.clone(),
            sitting: names.map(|peer| peer.name.clone()).collect(),
        };
        let commitment = commitment(close, &digest, &own, &drawn);
        let closing = LobbyClose {
            close,
            list,
            text,
            digest,
            sitting,
            deadline,
            commitments: BTreeMap::from([(own, commitment)]),
            all_drawn: BTreeMap::from([(own, drawn)]),
        };
        (closing, message)
    }

    /// Those whose answer to this step is missing.
    pub(super) fn silent(&self) -> Vec<PeerId> {
        let answered = match self.commitments.len() == self.sitting.len() {
            true => &self.all_drawn,
            false => &self.commitments,
        };
        let sitting = self.sitting.iter();
        sitting.filter(|id| !answered.contains_key(id)).copied().collect()
    }

    /// CloseStep 1 of one guest. An error: it does not belong here.
    pub(super) fn commit(&mut self, id: PeerId, commitment: [u8; 32]) -> Result<Option<CloseStep>, ()> {
        if !self.sitting.contains(&id) || self.commitments.insert(id, commitment).is_some() {
            return Err(());
        }
        if self.commitments.len() < self.sitting.len() {
            return Ok(None);
        }
        let close = self.close;
        let all = self.sitting.iter().map(|id| self.commitments[id]).collect();
        Ok(Some(CloseStep::Commitments(ToGuest::Commitments { close, all })))
    }

    /// CloseStep 2 of one guest. An error: it does not belong here, or to the guest's commitment.
    pub(super) fn reveal(&mut self, id: PeerId, drawn: [u8; 32]) -> Result<Option<CloseStep>, ()> {
        let complete = self.commitments.len() == self.sitting.len();
        let shown = self.commitments.get(&id).filter(|_| complete);
        if shown != Some(&commitment(self.close, &self.digest, &id, &drawn))
            || self.all_drawn.insert(id, drawn).is_some()
        {
            return Err(());
        }
        Ok(self.number())
    }

    /// The number, once all have drawn: at once, if the host sits alone among parties of the old
    /// list.
    pub(super) fn number(&self) -> Option<CloseStep> {
        if self.all_drawn.len() < self.sitting.len() {
            return None;
        }
        let close = self.close;
        let in_order = |of: &BTreeMap<PeerId, [u8; 32]>| -> Vec<[u8; 32]> {
            self.sitting.iter().map(|id| of[id]).collect()
        };
        let (commitments, all) = (in_order(&self.commitments), in_order(&self.all_drawn));
        let peers = self.list.as_slice().iter().enumerate();
        let sitting = peers.filter(|(_, peer)| self.sitting.contains(&peer.id));
        let numbered = Numbered {
            close,
            text: self.text.clone(),
            list: self.list.clone(),
            sitting: sitting.map(|(place, _)| place).collect(),
            digest: self.digest,
            number: check_number(&self.digest, &commitments, &all),
        };
        let message = ToGuest::Drawn { close, all };
        Some(CloseStep::Number(message, Box::new(numbered)))
    }
}

/// A list that people compare the number of.
pub(super) struct Comparing {
    /// Who takes part, in the list's order.
    pub(super) sitting: Vec<PeerId>,
    pub(super) numbered: Numbered,
    pub(super) confirmed: Confirmed,
}

impl Comparing {
    pub(super) fn new(sitting: Vec<PeerId>, numbered: Numbered) -> Self {
        let confirmed = Confirmed::none(numbered.digest);
        Comparing {
            sitting,
            numbered,
            confirmed,
        }
    }

    /// All signatures, once they are here.
    pub(super) fn signatures(&self) -> Option<ToGuest> {
        let each = self.sitting.iter().map(|id| self.confirmed.of(id).copied());
        Some(ToGuest::Signatures {
            close: self.numbered.close,
            all: each.collect::<Option<_>>()?,
        })
    }
}
