//! Where a party or a relay is reached, as a peer list or a plan says.
//!
//! Addresses are hints: whoever answers at one has to prove that it holds the listed key, so that a
//! wrong one costs time and nothing else.

use serde::{Deserialize, Serialize};

use crate::plan::peers::entry::{Address, PeerProblem, id};

/// The most addresses of one party: all of them are dialled at once.
const MOST_ADDRESSES: usize = 4;

/// Where a party is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contact {
    /// For encrypted connections, at most four. None: nobody can dial it (it is behind address
    /// translation, say), and it dials the others itself, or is reached over a relay.
    pub at: Vec<Address>,
    /// For plain connections of the public graph. None: public messages take the encrypted ones.
    pub public: Option<Address>,
    /// Whether it passes on connections of other listed parties.
    pub relay: bool,
}

impl Contact {
    /// The addresses of a file's keys.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub(crate) fn of_keys(
        private: Option<&str>,
        at: Option<&[String]>,
        public: Option<&str>,
        relay: bool,
    ) -> Result<Contact, (&'static str, PeerProblem)> {
        let of = |key, text: &str| text.parse::<Address>().map_err(|e| (key, e.into()));
        let at = match (private, at) {
            (Some(_), Some(_)) => return Err(("at", PeerProblem::Twice)),
            (Some(private), None) => vec![of("private", private)?],
            (None, at) => addresses(at.unwrap_or_default())?,
        };
        let public = public.map(|text| of("public", text)).transpose()?;
        if relay && at.is_empty() {
            return Err(("relay", PeerProblem::RelayNowhere));
        }
        Ok(Contact { at, public, relay })
    }

    /// The one address for encrypted connections, as a file's key `private`, or several, as `at`.
    pub(crate) fn keys_at(&self) -> (Option<String>, Option<Vec<String>>) {
        match &*self.at {
            [] => (None, None),
            [one] => (Some(one.to_string()), None),
            several => (None, Some(several.iter().map(Address::to_string).collect())),
        }
    }

    /// Every address with the key that it stands under in a file.
    pub(crate) fn keyed(&self) -> impl Iterator<Item = (&'static str, &Address)> {
        let key = if self.at.len() == 1 { "private" } else { "at" };
        let at = self.at.iter().map(move |address| (key, address));
        at.chain(self.public.iter().map(|address| ("public", address)))
    }
}

/// The addresses of a key `at`.
pub(super) fn addresses(texts: &[String]) -> Result<Vec<Address>, (&'static str, PeerProblem)> {
    if texts.len() > MOST_ADDRESSES {
        let found = texts.len();
        let most = MOST_ADDRESSES;
        return Err(("at", PeerProblem::TooManyAddresses { found, most }));
    }
    let each = texts.iter().map(|text| text.parse::<Address>());
    each.collect::<Result<_, _>>().map_err(|e| ("at", e.into()))
}

/// Passes on connections of listed parties that cannot be dialled, encrypted end to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// The relay's name, for people.
    pub name: String,
    /// The id of its ed25519 key.
    pub id: libp2p_identity::PeerId,
    /// Where it is reached: one to four addresses.
    pub at: Vec<Address>,
}

/// A relay as a file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RelayKeys {
    name: String,
    id: String,
    at: Vec<String>,
}

impl From<&Relay> for RelayKeys {
    fn from(relay: &Relay) -> Self {
        RelayKeys {
            name: relay.name.clone(),
            id: relay.id.to_base58(),
            at: relay.at.iter().map(Address::to_string).collect(),
        }
    }
}

impl RelayKeys {
    /// The checked relay.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub(crate) fn relay(&self) -> Result<Relay, (&'static str, PeerProblem)> {
        let id = id(&self.id)?;
        let at = addresses(&self.at)?;
        if at.is_empty() {
            return Err(("at", PeerProblem::RelayNowhere));
        }
        Ok(Relay {
            name: self.name.clone(),
            id,
            at,
        })
    }
}
