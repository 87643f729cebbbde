//! Signatures over a list (`peers.sig`), and whose are missing before it is in force.

use std::collections::BTreeMap;

use libp2p_identity::{Keypair, PeerId};
use serde::Deserialize;
use thiserror::Error;

use crate::messages::signature::Signature;
use crate::plan::hex::{hex, unhex};
use crate::plan::peers::number::list_digest;
use crate::plan::peers::{Peer, Peers, public_key};

/// The bytes that a yes signs.
fn statement(digest: &[u8; 32]) -> Vec<u8> {
    [&b"undertone/list/1\0"[..], digest].concat()
}

/// Says yes to a list, for ever.
///
/// # Panics
/// The key is not of ed25519.
pub fn sign_list(key: &Keypair, digest: &[u8; 32]) -> Signature {
    let signature = key.sign(&statement(digest)).expect("ed25519 signs anything");
    Signature(signature.try_into().expect("an ed25519 signature has 64 bytes"))
}

/// Whether this is a yes of `id` to the list.
pub fn is_signed(id: &PeerId, digest: &[u8; 32], signature: &Signature) -> bool {
    public_key(id).is_some_and(|key| key.verify(&statement(digest), &signature.0))
}

/// Signatures that hold, of parties that are listed, over one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    digest: [u8; 32],
    signatures: BTreeMap<PeerId, Signature>,
}

/// The reason why a file of signatures is refused (exit 2).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfirmedError {
    /// Not a file of signatures.
    #[error("this is no file of signatures: {0}")]
    File(String),
    /// It is about other bytes.
    #[error(
        "the signatures are of the list {theirs}, and this list is {ours}; take both files from one member"
    )]
    OtherList {
        /// In the file.
        theirs: String,
        /// The digest of the list that was read.
        ours: String,
    },
    /// A signature that does not hold, or is of nobody in the list.
    #[error("signature {index}, of {id:?}, does not hold for this list")]
    Signature {
        /// The entry's number, from 0 on.
        index: usize,
        /// The id that it names.
        id: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignaturesFile {
    version: u32,
    list: String,
    #[serde(default)]
    signature: Vec<SignatureFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureFile {
    id: String,
    signature: String,
}

impl Confirmed {
    /// No signatures over the list with this digest.
    pub fn none(digest: [u8; 32]) -> Self {
        Confirmed {
            digest,
            signatures: BTreeMap::new(),
        }
    }

    /// Takes a signature if it holds.
    #[must_use = "one that does not hold is not taken"]
    pub fn add(&mut self, id: PeerId, signature: Signature) -> bool {
        let holds = is_signed(&id, &self.digest, &signature);
        if holds {
            self.signatures.insert(id, signature);
        }
        holds
    }

    /// The digest of the list.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The signature of a party.
    pub fn of(&self, id: &PeerId) -> Option<&Signature> {
        self.signatures.get(id)
    }

    /// The parties whose yes is missing before the list takes the place of `old`: those whose lines
    /// are not word for word in it (without one: all), and `own`.
    pub fn missing<'a>(&self, list: &'a Peers, old: Option<&'a Peers>, own: &PeerId) -> Vec<&'a Peer> {
        let new: Vec<&Peer> = list.new_since(old).collect();
        let asked = list.as_slice().iter();
        let asked = asked.filter(|peer| peer.id == *own || new.contains(peer));
        asked.filter(|peer| self.of(&peer.id).is_none()).collect()
    }

    /// The file, by the list's order.
    pub fn to_toml(&self, list: &Peers) -> String {
        let mut text = format!(
            "# Signatures over peers.toml, made by `undertone group`.\nversion = 1\nlist = \"{}\"\n",
            hex(&self.digest)
        );
        for peer in list.as_slice() {
            if let Some(signature) = self.of(&peer.id) {
                let signature = hex(&signature.0);
                text += &format!(
                    "\n[[signature]] # {}\nid = \"{}\"\nsignature = \"{signature}\"\n",
                    peer.name, peer.id
                );
            }
        }
        text
    }

    /// Reads the file beside a list.
    ///
    /// # Errors
    /// It is none, is of another list, or one of its signatures does not hold.
    pub fn parse(text: &str, bytes: &[u8], list: &Peers) -> Result<Self, ConfirmedError> {
        let file: SignaturesFile =
            toml::from_str(text).map_err(|e| ConfirmedError::File(e.message().trim_end().to_owned()))?;
        if file.version != 1 {
            return Err(ConfirmedError::File(format!("its version is {}", file.version)));
        }
        let digest = list_digest(bytes);
        if file.list != hex(&digest) {
            return Err(ConfirmedError::OtherList {
                theirs: file.list.chars().take(64).collect(),
                ours: hex(&digest),
            });
        }
        let mut confirmed = Confirmed::none(digest);
        for (index, entry) in file.signature.iter().enumerate() {
            let peers = list.as_slice().iter();
            let listed = peers.map(|peer| peer.id).find(|id| id.to_string() == entry.id);
            let signature = unhex("", &entry.signature).ok().map(Signature);
            let taken = listed
                .zip(signature)
                .is_some_and(|(id, signature)| confirmed.add(id, signature));
            if !taken {
                let id = entry.id.chars().take(64).collect();
                return Err(ConfirmedError::Signature { index, id });
            }
        }
        Ok(confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::peers::simulated_keypair;

    #[test]
    fn signatures_are_read_as_they_were_written_and_hold_for_one_list_only() {
        let list = Peers::simulated(3).unwrap();
        let text = list.to_toml();
        let digest = list_digest(text.as_bytes());
        let mut confirmed = Confirmed::none(digest);
        let sign = |party, digest| sign_list(&simulated_keypair(party), digest);
        let id = |party: usize| list.as_slice()[party].id;
        assert!(confirmed.add(id(0), sign(0, &digest)) && confirmed.add(id(2), sign(2, &digest)));
        assert!(!confirmed.add(id(1), sign(0, &digest)), "somebody else's");
        assert!(!confirmed.add(id(1), sign(1, &[0; 32])), "of another list");
        let file = confirmed.to_toml(&list);
        assert_eq!(
            Confirmed::parse(&file, text.as_bytes(), &list),
            Ok(confirmed.clone())
        );
        let other = Confirmed::parse(&file, b"another", &list).unwrap_err();
        assert!(matches!(other, ConfirmedError::OtherList { .. }));
        let swapped = file.replace(&id(0).to_string(), &id(1).to_string());
        let error = Confirmed::parse(&swapped, text.as_bytes(), &list).unwrap_err();
        assert!(
            matches!(error, ConfirmedError::Signature { index: 0, .. }),
            "{error}"
        );
        for broken in [
            &file[..file.len() - 3],
            "version = 2\nlist = \"\"",
            "ä",
            "signature = \"aä\"",
        ] {
            assert!(Confirmed::parse(broken, text.as_bytes(), &list).is_err());
        }
    }

    #[test]
    fn new_and_changed_lines_and_ones_own_have_to_be_signed() {
        let old = Peers::simulated(5).unwrap();
        let mut peers = old.as_slice().to_vec();
        peers[1].contact.public = None;
        peers[4].id = simulated_keypair(9).public().to_peer_id();
        let list = Peers::new(peers).unwrap();
        let digest = list_digest(list.to_toml().as_bytes());
        let mut confirmed = Confirmed::none(digest);
        let id = |party: usize| list.as_slice()[party].id;
        let missing = |confirmed: &Confirmed, old| -> Vec<String> {
            let missing = confirmed.missing(&list, old, &id(0)).into_iter();
            missing.map(|peer| peer.name.clone()).collect()
        };
        assert_eq!(missing(&confirmed, Some(&old)), ["party-0", "party-1", "party-4"]);
        assert_eq!(missing(&confirmed, None).len(), 5);
        for party in [0, 1] {
            assert!(confirmed.add(id(party), sign_list(&simulated_keypair(party), &digest)));
        }
        assert_eq!(missing(&confirmed, Some(&old)), ["party-4"]);
    }
}
