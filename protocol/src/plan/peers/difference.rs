//! The difference between a list and the one that is to take its place, as people have to see it.

use std::fmt;

use libp2p_identity::PeerId;

use crate::plan::peers::{Peer, Peers};

/// One line of the difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListChange {
    /// A party that was not listed.
    Added {
        /// Its name.
        name: String,
        /// Its id.
        id: PeerId,
    },
    /// A party that is listed no more.
    Removed {
        /// Its name.
        name: String,
    },
    /// A name that stands for another key. A thief of the name looks the same.
    Rekeyed {
        /// The party's name.
        name: String,
    },
    /// A key under another name.
    Renamed {
        /// Its name in the old list.
        from: String,
        /// Its name in the new one.
        name: String,
    },
    /// Other addresses, another recovery key, or whether it relays.
    Moved {
        /// The party's name.
        name: String,
    },
    /// The relays that are no peers differ.
    Relays,
}

impl fmt::Display for ListChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListChange::Added { name, id } => write!(f, "added: {name} ({id})"),
            ListChange::Removed { name } => write!(f, "removed: {name}"),
            ListChange::Rekeyed { name } => {
                write!(f, "another key: {name} (ask its owner whether that is right)")
            }
            ListChange::Renamed { from, name } => write!(f, "renamed: {from} is {name}"),
            ListChange::Moved { name } => write!(f, "other addresses or recovery key: {name}"),
            ListChange::Relays => write!(f, "the relays differ"),
        }
    }
}

impl Peers {
    /// The lines of this list that are not word for word in `old`, in this list's order. Of these,
    /// each has to sign.
    pub fn new_since<'a>(&'a self, old: Option<&'a Peers>) -> impl Iterator<Item = &'a Peer> {
        let known = move |peer: &Peer| old.is_some_and(|old| old.as_slice().contains(peer));
        self.as_slice().iter().filter(move |peer| !known(peer))
    }

    /// All changes from `old` to this list: first those of its own lines in its order, then the
    /// parties that are missing.
    pub fn changes_since(&self, old: &Peers) -> Vec<ListChange> {
        let named = |name: &str| old.as_slice().iter().find(|peer| peer.name == name);
        let keyed = |id: &PeerId| old.as_slice().iter().find(|peer| peer.id == *id);
        let change = |peer: &Peer| {
            let name = peer.name.clone();
            match (named(&peer.name), keyed(&peer.id)) {
                (Some(_), None) => ListChange::Rekeyed { name },
                (_, Some(before)) if before.name != name => ListChange::Renamed {
                    from: before.name.clone(),
                    name,
                },
                (None, None) => ListChange::Added { name, id: peer.id },
                _ => ListChange::Moved { name },
            }
        };
        let mut changes: Vec<ListChange> = self.new_since(Some(old)).map(change).collect();
        // A name that went to a key which had another one before is no party that stays.
        let stays = |peer: &&Peer| {
            let mut new = self.as_slice().iter();
            new.any(|new| new.id == peer.id || (new.name == peer.name && keyed(&new.id).is_none()))
        };
        let removed = old.as_slice().iter().filter(|peer| !stays(peer));
        changes.extend(removed.map(|peer| ListChange::Removed {
            name: peer.name.clone(),
        }));
        if self.relays() != old.relays() {
            changes.push(ListChange::Relays);
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::peers::simulated_keypair;

    /// A key that takes the name of another one does not hide that the other is gone.
    #[test]
    fn a_party_whose_name_another_member_takes_is_removed() {
        let old = Peers::simulated(4).unwrap();
        let mut peers = old.as_slice().to_vec();
        let gone = peers.remove(1);
        peers[1].name = gone.name.clone();
        let renamed = ListChange::Renamed {
            from: "party-2".into(),
            name: gone.name.clone(),
        };
        let removed = ListChange::Removed { name: gone.name };
        assert_eq!(Peers::new(peers).unwrap().changes_since(&old), [renamed, removed]);
    }

    #[test]
    fn every_change_of_a_list_is_named_and_what_stays_is_not() {
        let old = Peers::simulated(5).unwrap();
        assert_eq!(old.changes_since(&old), []);
        assert_eq!(old.new_since(Some(&old)).count(), 0);
        assert_eq!(old.new_since(None).count(), 5);
        let id = |party| simulated_keypair(party).public().to_peer_id();
        let mut peers = old.as_slice().to_vec();
        peers[1].id = id(8);
        peers[2].name = "zoe".into();
        peers[3].contact = Default::default();
        peers[4].name = "new".into();
        peers[4].id = id(9);
        let name = |name: &str| name.to_owned();
        let changes = Peers::new(peers).unwrap().changes_since(&old);
        let expected = [
            ListChange::Rekeyed {
                name: name("party-1"),
            },
            ListChange::Renamed {
                from: name("party-2"),
                name: name("zoe"),
            },
            ListChange::Moved {
                name: name("party-3"),
            },
            ListChange::Added {
                name: name("new"),
                id: id(9),
            },
            ListChange::Removed {
                name: name("party-4"),
            },
        ];
        assert_eq!(changes, expected);
        assert!(changes[0].to_string().contains("ask its owner"));
    }
}
