//! Statements that a key is not to be trusted any more, signed by the key itself or by the recovery
//! key that a peer list has for it.
//!
//! A statement holds for ever, and lies over the list: the list's bytes stay as they are. An id is
//! revoked once: whichever statement comes first counts, and no later one changes anything, so that
//! a thief who revokes first has revoked, and no more.

use std::collections::{BTreeMap, BTreeSet};

use libp2p_identity::{Keypair, PeerId, PublicKey, ed25519};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::messages::signature::{Digest, Signature};
use crate::plan::peers::entry::MOST_RELAYS;
use crate::plan::peers::{Peers, public_key};
use crate::plan::run_file::limits::MOST_PARTIES;

const DOMAIN: &[u8] = b"undertone/revoke/1\0";
const HELD_DOMAIN: &[u8] = b"undertone/keys/1\0";

const KEY: usize = 32;
const TIME: usize = 8;

/// Bytes of a statement: key, time (milliseconds, little-endian) and signature, as bincode writes
/// them.
pub const STATEMENT_BYTES: usize = KEY + TIME + 64;

/// Most bytes of statements in one message: one of each id that a list can have.
pub const STATEMENTS_LIMIT: usize = (MOST_PARTIES + MOST_RELAYS) * STATEMENT_BYTES;

/// Signatures of one message that may not hold before the rest of it is ignored. Our choice: a peer
/// whose list has other recovery keys may have a few, and a check takes 0.1 ms.
const MOST_UNSIGNED: usize = 16;

/// A statement that a key is revoked. Who has signed it is found by trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// The id of the key.
    pub id: PeerId,
    /// When it was signed, in milliseconds since 1970: for people to read, nothing depends on it.
    pub at_ms: u64,
    signature: Signature,
}

/// A statement whose signature holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The statement.
    pub statement: Revocation,
    /// The id of the key that signed it: the revoked one, or its recovery key.
    pub by: PeerId,
}

/// The reason why a statement is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RevocationError {
    /// Bytes that are no statement.
    #[error("is no statement that revokes a key")]
    NoStatement,
    /// It is about an id that the list does not have.
    #[error("revokes {id}, which the peer list does not have")]
    NotListed {
        /// That id.
        id: PeerId,
    },
    /// Nobody signed it who may.
    #[error("is signed neither by {id} itself nor by the recovery key that the peer list has for it")]
    Unsigned {
        /// The id that it is about.
        id: PeerId,
    },
}

fn covered(id: &PeerId, at_ms: u64) -> Option<Vec<u8>> {
    Some([DOMAIN, &key_bytes(id)?, &at_ms.to_le_bytes()].concat())
}

fn key_bytes(id: &PeerId) -> Option<[u8; KEY]> {
    Some(public_key(id)?.try_into_ed25519().ok()?.to_bytes())
}

impl Revocation {
    /// Revokes `id` with its own key or its recovery key. `None` if `id`, or the key, is not one of
    /// ed25519.
    pub fn sign(key: &Keypair, id: PeerId, at_ms: u64) -> Option<Revocation> {
        let signature = key.sign(&covered(&id, at_ms)?).ok()?;
        Some(Revocation {
            id,
            at_ms,
            signature: Signature(signature.try_into().ok()?),
        })
    }

    /// Whether the key with this id signed it.
    pub fn is_signed_by(&self, signer: &PeerId) -> bool {
        let covered = covered(&self.id, self.at_ms);
        let signed = public_key(signer).zip(covered);
        signed.is_some_and(|(key, covered)| key.verify(&covered, &self.signature.0))
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; STATEMENT_BYTES] {
        let key = key_bytes(&self.id).expect("a statement's id is one of ed25519");
        let mut bytes = [0; STATEMENT_BYTES];
        bytes[..KEY].copy_from_slice(&key);
        bytes[KEY..KEY + TIME].copy_from_slice(&self.at_ms.to_le_bytes());
        bytes[KEY + TIME..].copy_from_slice(&self.signature.0);
        bytes
    }

    /// Reads a statement, whose signature is not checked yet.
    ///
    /// # Errors
    /// [`RevocationError::NoStatement`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Revocation, RevocationError> {
        let read = || {
            let (key, rest) = bytes.split_first_chunk::<KEY>()?;
            let (at_ms, signature) = rest.split_first_chunk::<TIME>()?;
            let key = PublicKey::from(ed25519::PublicKey::try_from_bytes(key).ok()?);
            Some(Revocation {
                id: key.to_peer_id(),
                at_ms: u64::from_le_bytes(*at_ms),
                signature: Signature(signature.try_into().ok()?),
            })
        };
        read().ok_or(RevocationError::NoStatement)
    }
}

/// The statements that hold: at most one of each id that a list has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revocations(BTreeMap<PeerId, Revoked>);

impl Revocations {
    /// Takes a statement of an id that the list has; the statement, if that id was not revoked
    /// before.
    ///
    /// # Errors
    /// The list does not have the id, or it is not signed by who may.
    pub fn take(&mut self, list: &Peers, statement: Revocation) -> Result<Option<Revoked>, RevocationError> {
        let id = statement.id;
        // The cheap questions first: what is played back costs no signature.
        if self.0.contains_key(&id) {
            return Ok(None);
        }
        let recovery = list.recovery_of(&id).ok_or(RevocationError::NotListed { id })?;
        let signer = std::iter::once(id).chain(recovery);
        let signer = signer.into_iter().find(|signer| statement.is_signed_by(signer));
        let by = signer.ok_or(RevocationError::Unsigned { id })?;
        let revoked = Revoked { statement, by };
        self.0.insert(id, revoked);
        Ok(Some(revoked))
    }

    /// Takes what is new to it of the statements that a peer sent; other bytes are ignored.
    pub fn take_all(&mut self, list: &Peers, bytes: &[u8]) -> Vec<Revoked> {
        let (mut new, mut unsigned) = (vec![], 0);
        for bytes in bytes.chunks_exact(STATEMENT_BYTES) {
            let taken = Revocation::from_bytes(bytes).and_then(|statement| self.take(list, statement));
            match taken {
                Ok(revoked) => new.extend(revoked),
                Err(RevocationError::Unsigned { .. }) => unsigned += 1,
                Err(_) => {}
            }
            if unsigned == MOST_UNSIGNED {
                break;
            }
        }
        new
    }

    /// Takes back what was kept of an earlier list, which said who may sign it. Returns whether its
    /// signature holds.
    #[must_use = "one whose signature does not hold is not taken"]
    pub fn restore(&mut self, revoked: Revoked) -> bool {
        let holds = revoked.statement.is_signed_by(&revoked.by);
        if holds {
            self.0.insert(revoked.statement.id, revoked);
        }
        holds
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Revoked> {
        self.0.values()
    }

    /// The statement about an id.
    pub fn of(&self, id: &PeerId) -> Option<&Revoked> {
        self.0.get(id)
    }

    /// SHA-256 over the ids, by which two parties find whether they hold statements of the same.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new_with_prefix(HELD_DOMAIN);
        self.0.keys().for_each(|id| hash.update(id.to_bytes()));
        hash.finalize().into()
    }

    /// The bytes of all statements but those of these ids.
    pub fn to_bytes_but(&self, ids: &BTreeSet<PeerId>) -> Vec<u8> {
        let lacking = self.0.iter().filter(|(id, _)| !ids.contains(id));
        lacking
            .flat_map(|(_, revoked)| revoked.statement.to_bytes())
            .collect()
    }
}

/// The ids that statements from a peer are about.
pub fn ids_in(bytes: &[u8]) -> BTreeSet<PeerId> {
    let statements = bytes.chunks_exact(STATEMENT_BYTES);
    statements
        .filter_map(|bytes| Some(Revocation::from_bytes(bytes).ok()?.id))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::peers::simulated_keypair;

    fn id(party: usize) -> PeerId {
        simulated_keypair(party).public().to_peer_id()
    }

    /// Three parties, of which the first has a recovery key.
    fn list() -> Peers {
        let mut peers = Peers::simulated(3).unwrap().as_slice().to_vec();
        peers[0].recovery = Some(id(10));
        peers[1].recovery = Some(id(11));
        Peers::new(peers).unwrap()
    }

    fn signed(by: usize, of: usize, at_ms: u64) -> Revocation {
        Revocation::sign(&simulated_keypair(by), id(of), at_ms).unwrap()
    }

    #[test]
    fn a_key_is_revoked_by_itself_or_by_its_recovery_key_and_by_nobody_else() {
        for by in [0, 10] {
            let taken = Revocations::default().take(&list(), signed(by, 0, 5)).unwrap();
            assert_eq!(taken.map(|revoked| revoked.by), Some(id(by)));
        }
        // Another member, another's recovery key, a stranger.
        for by in [1, 2, 11, 12] {
            let refused = Revocations::default().take(&list(), signed(by, 0, 5));
            assert_eq!(refused, Err(RevocationError::Unsigned { id: id(0) }), "{by}");
        }
        // What one has signed about itself is nothing about another, or of another time.
        let mut moved = signed(1, 1, 5);
        moved.id = id(0);
        let mut later = signed(0, 0, 5);
        later.at_ms = 6;
        for forged in [moved, later] {
            let refused = Revocations::default().take(&list(), forged);
            assert_eq!(refused, Err(RevocationError::Unsigned { id: id(0) }));
        }
    }

    #[test]
    fn the_first_statement_counts_and_no_list_grows_by_strangers() {
        let mut held = Revocations::default();
        // A thief who has the key revokes first.
        let thief = signed(0, 0, 1);
        assert!(held.take(&list(), thief).unwrap().is_some());
        let before = held.clone();
        assert_eq!(held.take(&list(), signed(10, 0, 2)), Ok(None));
        assert_eq!(held.take(&list(), thief), Ok(None));
        let stranger = held.take(&list(), signed(20, 20, 1));
        assert_eq!(stranger, Err(RevocationError::NotListed { id: id(20) }));
        assert_eq!(held, before);
        // Who holds the owner's holds the same.
        let mut owners = Revocations::default();
        owners.take(&list(), signed(10, 0, 2)).unwrap();
        assert_eq!(held.digest(), owners.digest());
        assert_ne!(held.digest(), Revocations::default().digest());
        assert!(held.to_bytes_but(&[id(0)].into()).is_empty());
    }

    #[test]
    fn a_peer_that_sends_forgeries_has_few_of_them_checked_and_the_rest_ignored() {
        let forged = (0..MOST_UNSIGNED).flat_map(|k| signed(2, 0, k as u64).to_bytes());
        let forged: Vec<u8> = forged.collect();
        let sound = signed(1, 1, 7).to_bytes();
        let list = list();
        let taken = |bytes: &[&[u8]]| Revocations::default().take_all(&list, &bytes.concat()).len();
        assert_eq!(taken(&[&forged, &sound]), 0, "after so many nothing is read");
        assert_eq!(taken(&[&sound, &forged]), 1);
        assert_eq!(taken(&[&forged[STATEMENT_BYTES..], &sound]), 1, "one less");
        // Statements of strangers, rubbish, and half a statement at the end.
        let stranger = signed(20, 20, 7).to_bytes();
        assert_eq!(
            taken(&[&stranger, &[0xff; STATEMENT_BYTES], &sound, &sound[1..]]),
            1
        );
    }

    #[test]
    fn the_bytes_of_a_statement_stay_as_they_are() {
        let statement = signed(10, 0, 0x0102);
        let bytes = statement.to_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, PINNED);
        assert_eq!(Revocation::from_bytes(&bytes), Ok(statement));
        for cut in [&bytes[1..], &bytes[..STATEMENT_BYTES - 1], &[]] {
            assert_eq!(Revocation::from_bytes(cut), Err(RevocationError::NoStatement));
        }
    }
    const PINNED: &str = "b21b64aba93ea0fca2932fb4440f659cd9d645409df90cf0ae928b4bef3457d4\
                          0201000000000000\
                          b664b8d2735c758c04b4637a9654672d0d61569b459a498fd12625c9ae9ccda4\
                          0f18811d7869fe0dc0e6f41cb71b7164a635fc474f3d9d6836391abd68aeea0e";

    #[test]
    fn kept_statements_hold_by_the_key_that_signed_them() {
        let statement = signed(10, 0, 5);
        let mut held = Revocations::default();
        assert!(held.restore(Revoked {
            statement,
            by: id(10)
        }));
        assert!(!Revocations::default().restore(Revoked { statement, by: id(0) }));
        assert_eq!(held.of(&id(0)).map(|revoked| revoked.by), Some(id(10)));
    }
}
